//! Declarative tools that come with Dalsegno: documents like any other, to be copied into a workspace and changed there.

/// A document that comes with Dalsegno.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Battery {
    /// Its name, which is also that of its file.
    pub name: &'static str,
    /// What it is for, in a sentence.
    pub about: &'static str,
    /// What a tenant or an agent must set before it works, in a sentence.
    pub needs: &'static str,
    /// The document, as it is written to `tools/<name>.json`.
    pub text: &'static str,
}

/// Every document that comes with Dalsegno, by name.
///
/// The tool that transfers calls is not among them: it is built for each tenant from `[features.refer]`.
pub fn batteries() -> &'static [Battery] {
    BATTERIES
}

const BATTERIES: &[Battery] = &[
    Battery {
        name: "email",
        about: "Sends mail over SMTP.",
        needs: "`smtp_server` and `from_email` of the configuration, the secrets `username` and `password`.",
        text: include_str!("../batteries/email.json"),
    },
    Battery {
        name: "email_api",
        about: "Sends mail through the HTTP API of Resend or SendGrid.",
        needs: "`from_email` of the configuration, the secret `api_key`, and the service's host in `egress`, such as \
                `https://api.resend.com`.",
        text: include_str!("../batteries/email_api.json"),
    },
    Battery {
        name: "google_calendar",
        about: "Lists, creates, changes and deletes events, and finds free time.",
        needs: "the secrets `client_id` and `client_secret` of an OAuth client, `https://www.googleapis.com` and \
                `https://oauth2.googleapis.com` in `egress`, and consent: `dalsegno auth google_calendar`.",
        text: include_str!("../batteries/google_calendar.json"),
    },
    Battery {
        name: "save_meal",
        about: "Logs a meal at a service: a small example.",
        needs: "the tenant's endpoint `meal_log`, and its host in `egress`.",
        text: include_str!("../batteries/save_meal.json"),
    },
];

#[cfg(test)]
mod tests {
    use dalsegno_tools::compile;

    use super::*;

    #[test]
    fn every_document_compiles_without_a_word() {
        for battery in batteries() {
            let compiled = compile(&serde_json::from_str(battery.text).unwrap());
            assert_eq!((compiled.problems, compiled.warnings), (vec![], vec![]), "{}", battery.name);
            let toolkit = compiled.toolkit.unwrap();
            assert_eq!(toolkit.name(), battery.name);
            assert!(battery.about.ends_with('.') && battery.needs.ends_with('.'));
        }
    }

    #[test]
    fn the_calendar_has_the_actions_and_defaults_that_people_know() {
        let calendar = batteries().iter().find(|battery| battery.name == "google_calendar").unwrap();
        let toolkit = compile(&serde_json::from_str(calendar.text).unwrap()).toolkit.unwrap();
        let names: Vec<_> = toolkit.tools().iter().map(dalsegno_tools::Tool::name).collect();
        for name in
            ["list_events", "create_event", "check_availability", "get_event", "update_event", "delete_event"]
        {
            assert!(names.contains(&format!("google_calendar.{name}").as_str()), "{name}");
        }
        let config = toolkit.config_with(&serde_json::Map::new());
        assert_eq!(
            (&config["calendar_id"], &config["default_event_duration"]),
            (&"primary".into(), &30.into())
        );
        assert!(matches!(toolkit.auth(), dalsegno_tools::Auth::OAuth2(_)));
    }
}

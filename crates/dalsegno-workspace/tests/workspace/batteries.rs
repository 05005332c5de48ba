//! The tools that come with Dalsegno, each performed against scripted answers.

use std::collections::VecDeque;
use std::fs;

use dalsegno_tools::{
    ApiCall, ApiResponse, Call, CallInfo, Context, EffectFailure, EffectOutcome, EffectRequest, Email,
    ErrorCode, Next, SessionContext, ToolOutcome, Toolkit, Transfer,
};
use dalsegno_workspace::{Workspace, batteries};
use serde_json::{Map, Value, json};

/// A conversation in which tools are called.
struct Conversation {
    toolkit: Toolkit,
    config: Value,
    user: Value,
    session: SessionContext,
    calls: u32,
    asked: Vec<EffectRequest>,
}

impl Conversation {
    fn new(toolkit: Toolkit, config: &Map<String, Value>) -> Self {
        let config = Value::Object(toolkit.config_with(config));
        let user = json!({ "call_id": "rtc_1" });
        Self { toolkit, config, user, session: SessionContext::default(), calls: 0, asked: Vec::new() }
    }

    fn battery(name: &str) -> Self {
        let battery = batteries().iter().find(|battery| battery.name == name).unwrap();
        let compiled = dalsegno_tools::compile(&serde_json::from_str(battery.text).unwrap());
        Self::new(compiled.toolkit.unwrap(), &Map::new())
    }

    /// Calls a tool; the answers are given in turn to whatever it asks for.
    #[expect(clippy::needless_pass_by_value, reason = "what is passed is written at the call")]
    fn call(&mut self, name: &str, arguments: Value, answers: &[EffectOutcome]) -> ToolOutcome {
        self.calls += 1;
        let info = CallInfo {
            id: format!("call_{}", self.calls),
            session: "s".to_owned(),
            operation: format!("0af{}", self.calls),
            turn: Some(self.session.turn()),
        };
        let tool = self.toolkit.tool(name).unwrap();
        let tenant = json!({});
        let context = Context {
            user: &self.user,
            tenant: &tenant,
            config: &self.config,
            session: &self.session,
            agent: "desk",
            call: &info,
            now_ms: 1_767_103_200_000,
            zone: None,
            first_rules: false,
        };
        let mut answers: VecDeque<_> = answers.iter().cloned().collect();
        let mut call = Call::begin(tool, &arguments, &context);
        let finished = loop {
            match call.advance(tool, &context) {
                Next::Done(finished) => break finished,
                Next::Effect(effect) => {
                    self.asked.push(effect.request);
                    call.resume(answers.pop_front().unwrap()).unwrap();
                }
            }
        };
        assert!(answers.is_empty(), "{:?}", finished.outcome);
        self.session.apply(&self.user, &finished.writes).unwrap();
        finished.outcome
    }

    /// The caller says something.
    fn hear(&mut self) {
        self.session = self.session.clone().next_turn();
    }

    fn requests(&self) -> Vec<&ApiCall> {
        let requests = self.asked.iter().filter_map(|request| match request {
            EffectRequest::ApiCall(call) => Some(call),
            _ => None,
        });
        requests.collect()
    }
}

fn answer(status: u16, body: Value) -> EffectOutcome {
    EffectOutcome::Response(ApiResponse { status, body, attempts: 1, ..ApiResponse::default() })
}

fn body(call: &ApiCall) -> Value {
    call.body.as_ref().map(|body| body.resolve(|_| None).unwrap()).unwrap_or_default()
}

fn url(call: &ApiCall) -> String {
    call.url.resolve(|_| None).unwrap()
}

fn query(call: &ApiCall, name: &str) -> Option<String> {
    let (_, value) = call.query.iter().find(|(found, _)| found == name)?;
    Some(value.resolve(|_| None).unwrap())
}

/// The transfer tool of a tenant with these lines in `[features.refer]`.
fn transfer(lines: &str) -> Conversation {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("agents")).unwrap();
    fs::create_dir_all(folder.path().join("tenants")).unwrap();
    fs::write(folder.path().join("dalsegno.toml"), "").unwrap();
    fs::write(folder.path().join("agents/a.toml"), "name = \"a\"\n\n[[steps]]\nrespond = \"Hello\"\n")
        .unwrap();
    let tenant = format!(
        r#"
name = "acme"

[features.refer]
{lines}

[[features.refer.destinations]]
destination_id = "support"
label = "Service Technique"
target_uri = "+14155552000"
priority = 5

[[features.refer.destinations]]
destination_id = "sales"
label = "Service Commercial"
target_uri = "sip:sales@acme.example"
priority = 10

[[features.refer.destinations]]
destination_id = "closed"
target_uri = "sip:closed@acme.example"
enabled = false
"#
    );
    fs::write(folder.path().join("tenants/acme.toml"), tenant).unwrap();
    let loaded = Workspace::load(folder.path());
    assert!(loaded.diagnostics.is_empty(), "{:?}", loaded.diagnostics);
    let workspace = loaded.workspace.unwrap();
    let toolkit = workspace.toolkits_for("acme")["transfer"].toolkit.clone();
    Conversation::new(toolkit, &Map::new())
}

const TRANSFER: &str = "transfer.request_transfer";

#[test]
fn a_transfer_is_sent_only_with_the_token_of_a_confirmation() {
    let mut talk = transfer("");
    let first = talk.call(TRANSFER, json!({ "destination_id": "sales", "reason": "a new order" }), &[]);
    assert_eq!(first.output["status"], "confirmation_required");
    assert_eq!(first.output["label"], "Service Commercial");
    assert!(talk.asked.is_empty());

    let token = first.output["confirmation_token"].clone();
    let guessed = json!({ "destination_id": "sales", "confirmation_token": "yes" });
    assert_eq!(talk.call(TRANSFER, guessed, &[]).output["status"], "confirmation_required");
    // The guess has replaced what was asked for, so the earlier token is worth nothing.
    talk.hear();
    let stale = json!({ "destination_id": "sales", "confirmation_token": token });
    let asked_again = talk.call(TRANSFER, stale, &[]).output;
    let token = asked_again["confirmation_token"].clone();
    talk.hear();
    let elsewhere = json!({ "destination_id": "support", "confirmation_token": token });
    let asked_again = talk.call(TRANSFER, elsewhere, &[]).output;
    assert_eq!((&asked_again["status"], talk.asked.len()), (&json!("confirmation_required"), 0));

    let token = asked_again["confirmation_token"].clone();
    let confirmed = json!({ "destination_id": "support", "confirmation_token": token });
    // The caller has said nothing since the question, and then too much.
    let too_soon = talk.call(TRANSFER, confirmed, &[]).output;
    assert_eq!((&too_soon["status"], talk.asked.len()), (&json!("confirmation_required"), 0));
    talk.hear();
    talk.hear();
    let confirmed =
        json!({ "destination_id": "support", "confirmation_token": too_soon["confirmation_token"] });
    let too_late = talk.call(TRANSFER, confirmed, &[]).output;
    assert_eq!((&too_late["status"], talk.asked.len()), (&json!("confirmation_required"), 0));
    talk.hear();
    let confirmed =
        json!({ "destination_id": "support", "confirmation_token": too_late["confirmation_token"] });
    let done = talk.call(TRANSFER, confirmed.clone(), &[EffectOutcome::Requested]);
    assert_eq!(
        (&done.output["status"], &done.output["destination_id"], &done.output["label"]),
        (&json!("requested"), &json!("support"), &json!("Service Technique"))
    );
    assert_eq!(talk.asked, [EffectRequest::Transfer(Transfer { target: "tel:+14155552000".to_owned() })]);
    // A token is good for one transfer.
    assert_eq!(talk.call(TRANSFER, confirmed, &[]).output["status"], "confirmation_required");
}

#[test]
fn a_transfer_that_fails_is_told_as_such() {
    let mut talk = transfer("require_confirmation = false");
    let failure = EffectFailure::new(ErrorCode::NotPermitted, "calls may not be transferred there");
    let failed = talk.call(TRANSFER, json!({ "destination_id": "sales" }), &[EffectOutcome::Failed(failure)]);
    let output = &failed.output;
    assert_eq!(
        (&output["status"], &output["error"], &output["reason"]),
        (&json!("failed"), &json!("call_transfer_failed"), &json!("not_permitted"))
    );
    assert!(!output.to_string().contains("sip:"), "{output}");
}

#[test]
fn a_destination_that_is_not_offered_is_answered_with_those_that_are() {
    let mut talk = transfer("");
    for id in ["closed", "nobody", "sip:evil@example.com"] {
        let refused = talk.call(TRANSFER, json!({ "destination_id": id }), &[]);
        let shown = serde_json::to_string(&refused).unwrap();
        assert!(!refused.ok && shown.contains("sales") && shown.contains("support"), "{shown}");
        assert!(!shown.contains("acme.example"), "{shown}");
    }
    assert!(talk.asked.is_empty());
}

#[test]
fn without_a_call_nothing_is_transferred() {
    let mut talk = transfer("require_confirmation = false");
    talk.user = json!({});
    let refused = talk.call(TRANSFER, json!({ "destination_id": "sales" }), &[]);
    assert!(!refused.ok && talk.asked.is_empty(), "{refused:?}");
}

#[test]
fn availability_counts_what_blocks_time_and_tells_no_titles() {
    let mut talk = Conversation::battery("google_calendar");
    let event = |title: &str, start: &str, end: &str, more: Value| {
        let mut event = json!({ "id": title, "summary": title, "status": "confirmed",
            "start": { "dateTime": start }, "end": { "dateTime": end } });
        event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        event
    };
    // With `maxAttendees=1` the service names nobody but the caller.
    let declined = json!({ "attendees":
        [{ "email": "me@example.com", "self": true, "responseStatus": "declined" }] });
    let items = json!([
        event("ends as it begins", "2026-01-31T13:00:00Z", "2026-01-31T14:00:00Z", json!({})),
        event("begins as it ends", "2026-01-31T14:45:00Z", "2026-01-31T15:00:00Z", json!({})),
        event(
            "transparent",
            "2026-01-31T14:00:00Z",
            "2026-01-31T14:30:00Z",
            json!({ "transparency": "transparent" })
        ),
        event("cancelled", "2026-01-31T14:00:00Z", "2026-01-31T14:30:00Z", json!({ "status": "cancelled" })),
        event("declined", "2026-01-31T14:00:00Z", "2026-01-31T14:30:00Z", declined),
        event("Secret surgery", "2026-01-31T15:30:00+01:00", "2026-01-31T16:30:00+01:00", json!({})),
    ]);
    let arguments = json!({ "date": "2026-01-31T14:00:00Z", "duration_minutes": 45 });
    let found = talk.call(
        "google_calendar.check_availability",
        arguments.clone(),
        &[answer(200, json!({ "items": items }))],
    );
    assert_eq!(
        found.output,
        json!({ "available": false, "busy": [{ "start": "2026-01-31T15:30:00+01:00", "end": "2026-01-31T16:30:00+01:00" }] })
    );
    assert!(!serde_json::to_string(&found.output).unwrap().contains("Secret"));
    let request = talk.requests()[0];
    assert_eq!(query(request, "timeMin").unwrap(), "2026-01-31T14:00:00.000Z");
    assert_eq!(query(request, "timeMax").unwrap(), "2026-01-31T14:45:00.000Z");

    let free = talk.call("google_calendar.check_availability", arguments, &[answer(200, json!({}))]);
    assert_eq!(free.output, json!({ "available": true, "busy": [] }));
}

#[test]
fn an_event_lasts_as_long_as_the_configuration_says_unless_somebody_does() {
    let mut talk = Conversation::battery("google_calendar");
    let created =
        json!({ "id": "x", "summary": "Tea", "start": { "dateTime": "a" }, "end": { "dateTime": "b" } });
    let arguments =
        json!({ "title": "Tea", "start_time": "2026-01-31T14:00:00Z", "attendees": ["ada@example.com"] });
    let done = talk.call("google_calendar.create_event", arguments.clone(), &[answer(200, created.clone())]);
    assert_eq!((&done.output["id"], &done.output["title"]), (&json!("x"), &json!("Tea")));
    let mut longer = arguments;
    longer["duration_minutes"] = json!(90);
    talk.call("google_calendar.create_event", longer, &[answer(200, created)]);
    let requests = talk.requests();
    assert_eq!(url(requests[0]), "https://www.googleapis.com/calendar/v3/calendars/primary/events");
    let sent = body(requests[0]);
    assert_eq!(sent["end"], json!({ "dateTime": "2026-01-31T14:30:00.000Z" }));
    assert_eq!(sent["attendees"], json!([{ "email": "ada@example.com" }]));
    assert_eq!(body(requests[1])["end"], json!({ "dateTime": "2026-01-31T15:30:00.000Z" }));
    // The service takes `[a-v0-9]` for an id, and refuses one that it knows.
    let id = sent["id"].as_str().unwrap();
    assert!(
        id.len() >= 5 && id.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'v').contains(&byte)),
        "{id}"
    );
    assert_ne!(body(requests[1])["id"], sent["id"]);
}

#[test]
fn an_event_that_an_earlier_attempt_created_is_found_again() {
    let mut talk = Conversation::battery("google_calendar");
    let arguments = json!({ "title": "Tea", "start_time": "2026-01-31T14:00:00Z" });
    let known = answer(200, json!({ "id": "known", "summary": "Tea" }));
    let done = talk.call("google_calendar.create_event", arguments.clone(), &[answer(409, json!({})), known]);
    assert_eq!((done.ok, &done.output["id"]), (true, &json!("known")), "{done:?}");
    let id = body(talk.requests()[0])["id"].as_str().unwrap().to_owned();
    assert!(url(talk.requests()[1]).ends_with(&format!("/events/{id}")));

    let refused = talk.call("google_calendar.create_event", arguments, &[answer(403, json!({}))]);
    assert!(!refused.ok, "{refused:?}");
}

#[test]
fn the_other_actions_of_the_calendar_ask_for_what_they_say() {
    let mut talk = Conversation::battery("google_calendar");
    let items = json!({ "items": [{ "id": "e", "summary": "Tea", "start": { "date": "2026-01-31" }, "end": { "date": "2026-02-01" } }] });
    let listed = talk.call(
        "google_calendar.list_events",
        json!({ "time_min": "2026-01-31T00:00:00Z" }),
        &[answer(200, items)],
    );
    assert_eq!((&listed.output[0]["id"], &listed.output[0]["start"]), (&json!("e"), &json!("2026-01-31")));
    let old =
        json!({ "id": "e", "summary": "Tea", "start": { "dateTime": "a" }, "end": { "dateTime": "b" } });
    let changed = json!({ "id": "e", "summary": "Coffee" });
    let arguments = json!({ "event_id": "e", "title": "Coffee" });
    talk.call("google_calendar.update_event", arguments, &[answer(200, old), answer(200, changed)]);
    talk.call(
        "google_calendar.get_event",
        json!({ "event_id": "a/b" }),
        &[answer(200, json!({ "id": "a/b" }))],
    );
    let gone =
        talk.call("google_calendar.delete_event", json!({ "event_id": "e" }), &[answer(204, Value::Null)]);
    assert_eq!(gone.output, json!({ "deleted": "e" }));
    let requests = talk.requests();
    assert_eq!(query(requests[0], "maxResults").unwrap(), "10");
    assert_eq!(query(requests[0], "timeMax"), None);
    assert_eq!(
        (&body(requests[2])["summary"], &body(requests[2])["start"]),
        (&json!("Coffee"), &json!({ "dateTime": "a" }))
    );
    assert!(url(requests[3]).ends_with("/events/a%2Fb"), "{}", url(requests[3]));
    assert_eq!(requests[4].method.as_str(), "DELETE");
}

#[test]
fn mail_is_sent_under_tls_from_the_first_byte_where_the_configuration_or_the_port_says_so() {
    for (port, security, expected) in [
        (587, None, "starttls"),
        (465, None, "tls"),
        (2465, Some("tls"), "tls"),
        (465, Some("starttls"), "starttls"),
    ] {
        let mut talk = Conversation::battery("email");
        talk.config["smtp_server"] = json!("mail.acme.example");
        talk.config["from_email"] = json!("desk@acme.example");
        talk.config["smtp_port"] = json!(port);
        if let Some(security) = security {
            talk.config["smtp_security"] = json!(security);
        }
        let arguments = json!({ "to": "ada@example.com", "subject": "Tea", "body": "At four?" });
        let sent = EffectOutcome::Sent { message_id: Some("<1@acme>".into()) };
        let done = talk.call("email.send_email", arguments, &[sent]);
        assert_eq!(done.output["sent"], true, "{done:?}");
        let [EffectRequest::Email(mail)] = &talk.asked[..] else { panic!("{:?}", talk.asked) };
        assert_eq!((mail.port, serde_json::to_value(mail.security).unwrap()), (port, json!(expected)));
    }
}

#[test]
fn mail_is_sent_through_the_api_of_a_mail_service() {
    let arguments = json!({ "to": "ada@example.com", "subject": "Tea", "body": "At four?" });
    let mut talk = Conversation::battery("email_api");
    assert!(!talk.call("email_api.send_email", arguments.clone(), &[]).ok, "no sender is configured");
    talk.config["from_email"] = json!("desk@acme.example");
    let done = talk.call("email_api.send_email", arguments.clone(), &[answer(200, json!({ "id": "m1" }))]);
    assert_eq!(done.output, json!({ "sent": true, "id": "m1" }), "{done:?}");
    talk.config["service"] = json!("sendgrid");
    let done = talk.call("email_api.send_email", arguments.clone(), &[answer(202, Value::Null)]);
    assert_eq!(done.output, json!({ "sent": true, "id": null }), "{done:?}");
    let refused = talk.call("email_api.send_email", arguments, &[answer(401, json!({}))]);
    assert!(!refused.ok, "{refused:?}");
    let requests = talk.requests();
    assert_eq!(url(requests[0]), "https://api.resend.com/emails");
    assert_eq!(
        body(requests[0]),
        json!({ "from": "desk@acme.example", "to": ["ada@example.com"], "subject": "Tea", "text": "At four?" })
    );
    assert_eq!(url(requests[1]), "https://api.sendgrid.com/v3/mail/send");
    assert_eq!(body(requests[1])["personalizations"], json!([{ "to": [{ "email": "ada@example.com" }] }]));
}

#[test]
fn mail_goes_to_the_configured_server_and_to_real_addresses_only() {
    let mut talk = Conversation::battery("email");
    let arguments = json!({ "to": "ada@example.com", "subject": "Tea", "body": "At four?" });
    assert!(!talk.call("email.send_email", arguments.clone(), &[]).ok, "no server is configured");
    talk.config["smtp_server"] = json!("mail.acme.example");
    talk.config["from_email"] = json!("desk@acme.example");
    let wrong = json!({ "to": "ada", "subject": "Tea", "body": "At four?" });
    assert!(!talk.call("email.send_email", wrong, &[]).ok);
    let sent = EffectOutcome::Sent { message_id: Some("<1@acme>".into()) };
    let done = talk.call("email.send_email", arguments, &[sent]);
    assert_eq!(done.output["sent"], true, "{done:?}");
    let [EffectRequest::Email(Email { to, .. })] = &talk.asked[..] else { panic!("{:?}", talk.asked) };
    assert_eq!(to, &["ada@example.com"]);
}

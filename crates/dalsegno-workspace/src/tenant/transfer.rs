//! Builds the tool that transfers calls from what a tenant's file says of destinations.

use std::collections::BTreeMap;

use dalsegno_tools::compile_with;
use serde_json::{Map, Value};

use super::Refer;
use super::features::Destination;
use crate::code::Code;
use crate::report::Report;
use crate::section::Located;
use crate::settings::{Settings, secret_settings};
use crate::toolkit::ToolkitFile;

/// The documents that are built from a tenant's features, by name.
pub(super) fn tools(
    report: &Report,
    tenant: &Located<String>,
    refer: Option<&Refer>,
    settings: Option<&Settings>,
) -> BTreeMap<String, ToolkitFile> {
    let Some(document) = refer.and_then(document) else { return BTreeMap::new() };
    let compiled = compile_with(&document, &secret_settings(settings));
    if let Some(problem) = compiled.problems.first() {
        report
            .error(
                Code::InvalidTool,
                tenant.span.clone(),
                format!("no tool can be built from `[features.refer]`: {}", problem.message),
            )
            .help("shorten the phrase and the descriptions of the destinations");
    }
    let toolkit = compiled.toolkit.into_iter();
    toolkit.map(|toolkit| (toolkit.name().to_owned(), ToolkitFile { toolkit, source: None })).collect()
}

/// The document for these destinations; `None` where none is offered.
///
/// The model reads ids, labels and hints. Where a call really goes stands in the configuration, which no model reads.
pub(crate) fn document(refer: &Refer) -> Option<Value> {
    let offered = refer.offered();
    if offered.is_empty() {
        return None;
    }
    let mut document: Value = serde_json::from_str(BASE).ok()?;
    let text = |value: fn(&Destination) -> &str| -> Value {
        let pairs = offered.iter().map(|one| (one.id.clone(), Value::from(value(one))));
        pairs.collect::<Map<_, _>>().into()
    };
    let config = document.pointer_mut("/config_schema/properties")?;
    config["targets"]["default"] = text(|one| &one.target_uri);
    config["labels"]["default"] = text(|one| &one.label);
    config["require_confirmation"]["default"] = refer.require_confirmation.into();

    let tool = document.pointer_mut("/actions/0")?;
    tool["description"] = description(refer).into();
    let parameters = tool.get_mut("parameters")?.as_array_mut()?;
    if !refer.require_confirmation {
        parameters.retain(|parameter| parameter["name"] != "confirmation_token");
    }
    let destination = parameters.iter_mut().find(|parameter| parameter["name"] == "destination_id")?;
    destination["enum"] = offered.iter().map(|one| one.id.as_str()).collect::<Vec<_>>().into();
    destination["description"] = hints(&offered).into();
    Some(document)
}

fn description(refer: &Refer) -> String {
    let mut words = vec!["Transfers the call that is going on to somebody else.".to_owned()];
    words.push(match refer.require_confirmation {
        true => "Use it only AFTER the caller has explicitly confirmed: the first call gives a token and does not \
                 transfer; ask the caller then, and call again with the token when the caller has answered yes."
            .to_owned(),
        false => "Use it when the caller explicitly asks to be transferred.".to_owned(),
    });
    if !refer.handoff_phrase.is_empty() {
        words.push(format!(
            "Before the transfer, say: {} (put the label of the chosen destination in the place of {{{{label}}}}).",
            refer.handoff_phrase
        ));
    }
    words.join(" ")
}

fn hints(offered: &[&Destination]) -> String {
    let ids: Vec<_> = offered.iter().map(|one| one.id.as_str()).collect();
    let details = offered.iter().map(|one| match one.description_for_model.as_str() {
        "" => format!("{}: {}", one.id, one.label),
        hint => format!("{}: {} — {hint}", one.id, one.label),
    });
    let details = details.collect::<Vec<_>>().join(" | ");
    format!("Whom to transfer to. Allowed: {}. Details: {details}", ids.join(", "))
}

/// What the tool does, without its destinations.
const BASE: &str = include_str!("../../batteries/transfer.json");

#[cfg(test)]
mod tests {
    use dalsegno_tools::compile;
    use serde_json::json;

    use super::*;

    fn destination(id: &str, priority: u32, enabled: bool) -> Destination {
        Destination {
            id: id.to_owned(),
            label: format!("Label {id}"),
            description_for_model: format!("For {id}"),
            target_uri: format!("sip:{id}@acme.example"),
            enabled,
            priority,
        }
    }

    fn refer(destinations: Vec<Destination>) -> Refer {
        Refer {
            enabled: true,
            require_confirmation: true,
            handoff_phrase: "Je vous transfère vers {{label}}".to_owned(),
            destinations,
        }
    }

    #[test]
    fn only_enabled_destinations_are_offered_by_priority() {
        let refer = refer(vec![
            destination("support", 5, true),
            destination("closed", 99, false),
            destination("sales", 10, true),
            destination("night", 5, true),
        ]);
        let compiled = compile(&document(&refer).unwrap());
        assert_eq!((compiled.problems, compiled.warnings), (vec![], vec![]));
        let toolkit = compiled.toolkit.unwrap();
        let tool = toolkit.tool("transfer.request_transfer").unwrap();
        let schema = &tool.schema()["properties"]["destination_id"];
        assert_eq!(schema["enum"], json!(["sales", "support", "night"]));
        assert!(tool.description().contains("say: Je vous transfère vers {{label}}"));
        assert_eq!(tool.schema()["required"], json!(["destination_id"]));
        assert_eq!(
            toolkit.config_with(&Map::new())["targets"],
            json!({ "sales": "sip:sales@acme.example", "support": "sip:support@acme.example", "night": "sip:night@acme.example" })
        );
    }

    #[test]
    fn no_model_reads_where_a_call_goes() {
        let refer = refer(vec![destination("sales", 1, true)]);
        let toolkit = compile(&document(&refer).unwrap()).toolkit.unwrap();
        let tool = &toolkit.tools()[0];
        let shown = format!("{} {}", tool.description(), tool.schema());
        assert!(!shown.contains("sip:"), "{shown}");
        assert!(shown.contains("sales: Label sales — For sales"), "{shown}");
    }

    #[test]
    fn without_a_confirmation_there_is_no_token() {
        let refer = Refer { require_confirmation: false, ..refer(vec![destination("sales", 1, true)]) };
        let toolkit = compile(&document(&refer).unwrap()).toolkit.unwrap();
        assert!(toolkit.tools()[0].schema()["properties"]["confirmation_token"].is_null());
        assert_eq!(toolkit.config_with(&Map::new())["require_confirmation"], json!(false));
    }

    #[test]
    fn without_a_destination_there_is_no_tool() {
        assert_eq!(document(&refer(vec![destination("sales", 1, false)])), None);
        let off = Refer { enabled: false, ..refer(vec![destination("sales", 1, true)]) };
        assert_eq!(document(&off), None);
    }
}

//! The `validate` and `transform` actions.

use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;

use serde_json::Value;

use super::actions::transpose;
use super::reader::{Fields, Reader};
use super::sources::Allowed;
use crate::action::{ActionKind, Check, Rule, Transform, TransformKind};
use crate::parameters::Pattern;
use crate::problem::{Problem, item};

impl Reader<'_> {
    pub(super) fn validate(&mut self, value: &Value, pointer: &str) -> Option<ActionKind> {
        let fields = self.object(value, pointer, "`validate`", &["type", "id", "rules"])?;
        let Some(rules) = self.list(&fields, "rules") else {
            if fields.get("rules").is_none() {
                self.missing(&fields, "rules", "an array of rules");
            }
            return None;
        };
        let pointer = fields.at("rules");
        self.few(&pointer, rules.len(), "rules")?;
        let rules: Vec<_> =
            rules.iter().enumerate().map(|(index, value)| self.rule(value, &item(&pointer, index))).collect();
        Some(ActionKind::Validate { rules: rules.into_iter().collect::<Option<_>>()? })
    }

    fn rule(&mut self, value: &Value, pointer: &str) -> Option<Rule> {
        const RULES: [&str; 7] =
            ["required", "email", "phone", "number", "min_length", "max_length", "pattern"];
        let fields = self.object(value, pointer, "a rule", &["field", "rule", "value", "error_message"])?;
        let field = self.required_text(&fields, "field", "a path such as `params.email`").and_then(|text| {
            let path = self.read_path(&fields.at("field"), text)?;
            if self.known.params.iter().any(|name| name == text) {
                self.report.warn(Problem {
                    pointer: fields.at("field"),
                    message: format!("`{text}` is read as `{path}`"),
                    help: Some("a parameter is written with `params.`".into()),
                    suggestion: Some(format!("params.{text}")),
                });
            }
            Some(path)
        });
        let error_message =
            self.text(&fields, "error_message").map(|text| self.words(&fields.at("error_message"), text));
        let rule = self.required_text(&fields, "rule", &format!("one of: {}", RULES.join(", ")))?;
        let check = match rule {
            "required" => Check::Required,
            "email" => Check::Email,
            "phone" => Check::Phone,
            "number" => Check::Number,
            "min_length" => Check::MinLength(self.rule_length(&fields)?),
            "max_length" => Check::MaxLength(self.rule_length(&fields)?),
            "pattern" => {
                let source = self.required_text(&fields, "value", "a regular expression")?;
                Check::Pattern(self.pattern(&fields.at("value"), source)?)
            }
            unknown => {
                self.unknown(&fields.at("rule"), "rule", unknown, &RULES);
                return None;
            }
        };
        let takes_value = matches!(check, Check::MinLength(_) | Check::MaxLength(_) | Check::Pattern(_));
        if !takes_value && fields.get("value").is_some() {
            self.problem(fields.at("value"), format!("the rule `{rule}` takes no `value`"), "leave it out");
        }
        Some(Rule { field: field?, check, error_message: transpose(error_message)? })
    }

    fn rule_length(&mut self, fields: &Fields<'_>) -> Option<u64> {
        if fields.get("value").is_none() {
            self.missing(fields, "value", "a length");
        }
        self.whole(fields, "value", u64::from(u32::MAX))
    }

    pub(super) fn pattern(&mut self, pointer: &str, source: &str) -> Option<Pattern> {
        match Pattern::parse(source) {
            Ok(pattern) => Some(pattern),
            Err(reason) => {
                self.problem(pointer, "this regular expression cannot be used", reason);
                None
            }
        }
    }

    pub(super) fn transform(&mut self, value: &Value, pointer: &str) -> Option<ActionKind> {
        let fields = self.object(
            value,
            pointer,
            "`transform`",
            &["type", "id", "input_path", "output_path", "transform_type", "transform_config"],
        )?;
        let input = self
            .required_text(&fields, "input_path", "the path of a list")
            .and_then(|text| self.read_path(&fields.at("input_path"), text));
        let output = self
            .required_text(&fields, "output_path", "a path such as `workflow.names`")
            .and_then(|text| self.write_path(&fields.at("output_path"), text));
        if fields.get("transform_type").is_none() {
            self.missing(&fields, "transform_type", "one of: map, filter, reduce");
        }
        let kind = self.choice(&fields, "transform_type", &TransformKind::ALL);
        let Some(config) = fields.get("transform_config") else {
            self.missing(&fields, "transform_config", "an object with `expression`");
            return None;
        };
        let config = self.object(
            config,
            &fields.at("transform_config"),
            "`transform_config`",
            &["expression", "initial"],
        )?;
        let allowed = Allowed { item: true, acc: kind == Some(TransformKind::Reduce) };
        let expression = self
            .required_text(&config, "expression", "an expression such as `item.name`")
            .and_then(|text| self.expr(&config.at("expression"), text, allowed));
        let initial = config.get("initial").cloned();
        if initial.is_some() && kind.is_some_and(|kind| kind != TransformKind::Reduce) {
            self.problem(config.at("initial"), "only `reduce` has an `initial` value", "leave it out");
        }
        Some(ActionKind::Transform(Box::new(Transform {
            input: input?,
            output: output?,
            kind: kind?,
            expression: expression?,
            initial,
        })))
    }
}

//! `verify`: how the engine finds out whether a call of a tool took place.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use dalsegno_expr::{Expression, Reference, ValueTemplate};
use serde_json::json;

use super::reader::{Fields, Reader};
use crate::problem::{Problem, member};
use crate::tool::{Tool, Verify};

const FIELDS: [&str; 6] = ["tool", "with", "verdict", "result", "delay", "tries"];

/// The longest pause before a try, in milliseconds: the process of the run stays for it.
const MAX_DELAY_MS: u64 = 60_000;
const MAX_TRIES: u64 = 10;

impl Reader<'_> {
    /// Reads the `verify` of a tool. `name` is the internal name of the tool, where it could be read.
    pub(super) fn verify(&mut self, fields: &Fields<'_>, name: Option<&str>) -> Option<Verify> {
        let pointer = fields.at("verify");
        let fields = self.object(fields.get("verify")?, &pointer, "`verify`", &FIELDS)?;
        let tool = self.required_text(&fields, "tool", "the name of a tool that only reads").map(|tool| {
            // A short name is one of the same toolkit.
            match name.and_then(|name| name.split_once('.')) {
                Some((toolkit, _)) if !tool.contains('.') => format!("{toolkit}.{}", tool.replace('-', "_")),
                _ => tool.to_owned(),
            }
        });
        let with = self.verify_arguments(&fields);
        self.required_text(&fields, "verdict", "an expression that gives 'happened' or 'not_happened'");
        let verdict = self.verify_expression(&fields, "verdict");
        let result = match fields.get("result") {
            Some(_) => Some(self.verify_expression(&fields, "result")?),
            None => None,
        };
        let delay_ms = self.seconds(&fields, "delay", 0, MAX_DELAY_MS).unwrap_or(1_000);
        let tries = match self.whole(&fields, "tries", MAX_TRIES) {
            Some(0) => {
                self.problem(fields.at("tries"), "`tries` is 0", "expected at least 1");
                return None;
            }
            tries => tries.and_then(|tries| u32::try_from(tries).ok()).unwrap_or(3),
        };
        Some(Verify { tool: tool?, with: with?, verdict: verdict?, result, delay_ms, tries })
    }

    fn verify_arguments(&mut self, fields: &Fields<'_>) -> Option<ValueTemplate> {
        let none = json!({});
        let source = fields.get("with").unwrap_or(&none);
        if !source.is_object() {
            self.problem(
                fields.at("with"),
                "`with` is no object",
                "expected the arguments of the tool, by name",
            );
            return None;
        }
        match ValueTemplate::parse(source) {
            Ok(template) => {
                for (place, reference) in template.located_paths() {
                    let pointer = format!("{}{place}", fields.at("with"));
                    self.verify_reads(&pointer, &reference, &["operation"]);
                }
                Some(template)
            }
            Err(error) => {
                let pointer = format!("{}{}", fields.at("with"), error.pointer);
                self.parse_error(&pointer, &error.error, "template");
                None
            }
        }
    }

    fn verify_expression(&mut self, fields: &Fields<'_>, name: &str) -> Option<Expression> {
        let text = self.text(fields, name)?;
        match Expression::parse(text) {
            Ok(expression) => {
                for reference in expression.paths() {
                    self.verify_reads(&fields.at(name), &reference, &["operation", "result"]);
                }
                Some(expression)
            }
            Err(error) => {
                self.parse_error(&fields.at(name), &error, "expression");
                None
            }
        }
    }

    fn verify_reads(&mut self, pointer: &str, reference: &Reference, known: &[&str]) {
        if !known.contains(&reference.root.as_str()) {
            self.unknown(pointer, "name", &reference.root, known);
        }
    }

    /// Checks what the tools of one document ask each other. `places` are the JSON pointers of the tools.
    pub(super) fn check_verify(&mut self, tools: &[(String, Tool)]) {
        for (place, tool) in tools {
            let Some(verify) = &tool.verify else { continue };
            let pointer = member(place, "verify");
            if tool.only_reads() {
                self.problem(
                    &pointer,
                    format!("`verify` of `{}` is never used: the tool only reads", tool.name),
                    "leave it out: a call that only reads is never in doubt",
                );
            }
            let toolkit = |name: &str| name.split_once('.').map(|(toolkit, _)| toolkit.to_owned());
            if toolkit(&verify.tool).is_none() || toolkit(&verify.tool) != toolkit(&tool.name) {
                continue;
            }
            match tools.iter().find(|(_, other)| other.name == verify.tool) {
                None => {
                    let short = |name: &str| name.rsplit('.').next().unwrap_or(name).to_owned();
                    let names = tools.iter().map(|(_, other)| short(&other.name));
                    self.report.add(Problem {
                        pointer: member(&pointer, "tool"),
                        message: format!("this toolkit has no tool `{}`", short(&verify.tool)),
                        help: Some(format!("known tools: {}", names.collect::<Vec<_>>().join(", "))),
                        suggestion: None,
                    });
                }
                Some((_, other)) if !other.only_reads() => self.problem(
                    member(&pointer, "tool"),
                    format!("`verify` asks `{}`, which does not only read", verify.tool),
                    "name a tool whose calls are each `GET` or have `\"effect\": \"read\"`, and that sends no mail, calls \
                     no tool, replies and hands over nothing, and keeps nothing with `persist`",
                ),
                Some(_) => {}
            }
        }
    }
}

//! The `call.transfer` action.

use dalsegno_expr::TemplatePart;
use serde_json::Value;

use super::reader::Reader;
use crate::action::ActionKind;

impl Reader<'_> {
    pub(super) fn transfer(&mut self, value: &Value, pointer: &str) -> Option<ActionKind> {
        let fields = self.object(value, pointer, "`call.transfer`", &["type", "id", "target", "on_error"])?;
        let what = "a number, or an address such as `{{config.targets[params.destination]}}`";
        let target = self
            .required_text(&fields, "target", what)
            .and_then(|text| self.words(&fields.at("target"), text))?;
        let is_trusted = target.template.parts().all(|part| match part {
            TemplatePart::Text(_) => true,
            TemplatePart::Expression(expression) => {
                expression.part_of().is_some_and(|root| matches!(root, "config" | "tenant"))
            }
        });
        if !is_trusted {
            self.problem(
                fields.at("target"),
                "a value could say where the call goes",
                "only literals, `tenant` and `config` may supply the target; an argument may choose among them, as \
                 `{{config.targets[params.destination]}}` does",
            );
            return None;
        }
        let on_error = self.on_error(&fields);
        Some(ActionKind::Transfer { target, on_error })
    }
}

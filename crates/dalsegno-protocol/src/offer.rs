//! Which tools a server offers.

use std::sync::{PoisonError, RwLock};

use crate::builtin::Builtin;
use crate::catalogue::ToolDescription;
use crate::failure::{CallErrorKind, Failure};

/// The tools that a server named last, narrowed to those that its configuration offers.
#[derive(Debug, Default)]
pub struct Offer {
    /// Those of the configuration; `None` offers all that the server has.
    configured: Option<Vec<String>>,
    /// Those that the server named last; `None` until it was asked.
    known: RwLock<Option<Vec<ToolDescription>>>,
}

impl Offer {
    /// The tools of a server that was not asked yet.
    pub fn new(configured: Option<Vec<String>>) -> Self {
        Self { configured, known: RwLock::new(None) }
    }

    /// Refuses a tool that the configuration does not offer, or that the server does not have, as far as it was asked.
    ///
    /// # Errors
    ///
    /// When the tool may not be called.
    pub fn check(&self, tool: &str) -> Result<(), Failure> {
        let reason = if !self.is_configured(tool) {
            "is not among the `tools` that its configuration offers"
        } else if self.named(|known| !known.iter().any(|known| known.name == tool)) == Some(true) {
            "is not one of its tools"
        } else {
            return Ok(());
        };
        Err(Failure::new(CallErrorKind::UnknownTool, format!("`{}` {reason}", tool.escape_debug())))
    }

    /// Keeps the tools that the server named.
    pub fn learn(&self, tools: &[ToolDescription]) {
        *self.known.write().unwrap_or_else(PoisonError::into_inner) = Some(tools.to_vec());
    }

    /// The tools that the server named last, all of them; `None` until it was asked.
    pub fn known(&self) -> Option<Vec<ToolDescription>> {
        self.named(<[ToolDescription]>::to_vec)
    }

    /// Whether the server was asked already.
    pub fn is_known(&self) -> bool {
        self.named(|_| ()).is_some()
    }

    /// The built-in tool of this name. There is none if the server has a tool of its own with the name, or was not asked
    /// yet.
    pub fn builtin(&self, tool: &str) -> Option<Builtin> {
        self.named(|known| known.iter().find(|known| known.name == tool)?.builtin)?
    }

    /// Those of these tools that the configuration offers.
    pub fn narrowed(&self, mut tools: Vec<ToolDescription>) -> Vec<ToolDescription> {
        tools.retain(|tool| self.is_configured(&tool.name));
        tools
    }

    fn is_configured(&self, tool: &str) -> bool {
        self.configured.as_ref().is_none_or(|tools| tools.iter().any(|offered| offered == tool))
    }

    fn named<T>(&self, read: impl FnOnce(&[ToolDescription]) -> T) -> Option<T> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known.as_deref().map(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(name: &str, builtin: Option<Builtin>) -> ToolDescription {
        ToolDescription { name: name.to_owned(), builtin, ..ToolDescription::default() }
    }

    #[test]
    fn only_tools_of_the_configuration_and_of_the_server_may_be_called() {
        let offer = Offer::new(Some(vec!["look".to_owned(), "gone".to_owned()]));
        assert!(offer.check("look").is_ok() && offer.check("gone").is_ok(), "the server was not asked yet");
        assert_eq!(offer.check("drop\u{1b}").unwrap_err().kind, CallErrorKind::UnknownTool);
        offer.learn(&[tool("look", None), tool("drop", None)]);
        assert!(offer.check("look").is_ok());
        assert_eq!(offer.check("gone").unwrap_err().message, "`gone` is not one of its tools");
        let refused = offer.check("drop").unwrap_err().message;
        assert_eq!(refused, "`drop` is not among the `tools` that its configuration offers");
        let names: Vec<String> =
            offer.narrowed(offer.known().unwrap()).into_iter().map(|tool| tool.name).collect();
        assert_eq!(names, ["look"]);
    }

    #[test]
    fn a_tool_of_the_server_is_not_taken_for_the_built_in_one_of_its_name() {
        let offer = Offer::new(None);
        let name = Builtin::ALL[0].name();
        assert_eq!((offer.builtin(name), offer.is_known()), (None, false));
        offer.learn(&[tool(name, None)]);
        assert_eq!((offer.builtin(name), offer.is_known()), (None, true));
        offer.learn(&[tool(name, Some(Builtin::ALL[0]))]);
        assert_eq!(offer.builtin(name), Some(Builtin::ALL[0]));
    }
}

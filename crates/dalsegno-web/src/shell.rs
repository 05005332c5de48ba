//! What surrounds every page.

use crate::assets;

/// A part of the debugger, as the navigation names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Section {
    /// Runs, and all that belongs to one.
    Runs,
    /// What waits for people.
    Inbox,
    /// Two runs side by side.
    Diff,
    /// None of them.
    None,
}

/// What surrounds a page: who is signed in, and what they may do.
#[derive(Debug, Clone)]
pub struct Shell {
    /// The part that is shown.
    pub section: Section,
    /// Who is signed in; empty where no person is.
    pub actor: String,
    /// Whose runs are in reach, such as `all tenants`.
    pub reach: String,
    /// Whether questions may be answered.
    pub may_answer: bool,
    /// Whether runs may be forked and cancelled.
    pub may_write: bool,
}

/// What a page follows while a person looks at it.
#[derive(Debug, Clone)]
pub struct Live {
    /// The address of the stream.
    pub stream: String,
    /// The place after which the stream begins, so that it misses nothing that the page does not show.
    pub after: String,
}

impl Shell {
    /// The surroundings of a page without a signed-in person.
    pub fn signed_out() -> Self {
        let (actor, reach) = (String::new(), String::new());
        Self { section: Section::None, actor, reach, may_answer: false, may_write: false }
    }

    /// The version of style and scripts, as a part of their addresses.
    pub fn version(&self) -> &'static str {
        assets::version()
    }

    /// Says whether a person is signed in.
    pub fn is_in(&self) -> bool {
        !self.actor.is_empty()
    }

    /// The value of `aria-current` for a link of the navigation.
    pub fn current(&self, section: &str) -> &'static str {
        let is_shown = match self.section {
            Section::Runs => section == "runs",
            Section::Inbox => section == "inbox",
            Section::Diff => section == "diff",
            Section::None => false,
        };
        if is_shown { "page" } else { "false" }
    }
}

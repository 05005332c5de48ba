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
    /// Conversations with agents.
    Chat,
    /// The documents of agents.
    Agents,
    /// The documents of tools and tenants.
    Tools,
    /// None of them.
    None,
}

impl Section {
    /// Its label and its address.
    pub fn link(self) -> (&'static str, &'static str) {
        match self {
            Self::Runs | Self::None => ("Runs", "/runs"),
            Self::Inbox => ("Inbox", "/inbox"),
            Self::Diff => ("Compare", "/diff"),
            Self::Chat => ("Chat", "/chat"),
            Self::Agents => ("Agents", "/agents"),
            Self::Tools => ("Tools", "/tools"),
        }
    }
}

/// What surrounds a page: who is signed in, and what they may do.
#[derive(Debug, Clone)]
pub struct Shell {
    /// The part that is shown.
    pub section: Section,
    /// The parts that the person may see.
    pub sections: Vec<Section>,
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
        let sections = Vec::new();
        Self { section: Section::None, sections, actor, reach, may_answer: false, may_write: false }
    }

    /// The version of style and scripts, as a part of their addresses.
    pub fn version(&self) -> &'static str {
        assets::version()
    }

    /// Says whether a person is signed in.
    pub fn is_in(&self) -> bool {
        !self.actor.is_empty()
    }

    /// The links of the navigation: label, address, and the value of `aria-current`.
    pub fn links(&self) -> Vec<(&'static str, &'static str, &'static str)> {
        let link = |section: &Section| {
            let (label, address) = section.link();
            (label, address, if *section == self.section { "page" } else { "false" })
        };
        self.sections.iter().map(link).collect()
    }
}

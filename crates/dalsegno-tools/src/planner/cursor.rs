//! Where a call stands in the lists of its tool.

use alloc::format;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::action::{ActionKind, ToolAction};
use crate::outcome::ActionPlace;
use crate::tool::Tool;

/// A list of a tool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum List {
    #[default]
    Actions,
    OnSuccess,
    OnFailure,
}

/// A branch of a `conditional`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Branch {
    Then,
    Else,
}

/// The place of the action that is next.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Cursor {
    pub(super) list: List,
    /// The index in the list itself.
    index: u32,
    /// The branches that it stands in, from the outside in, with the index in each.
    branches: Vec<(Branch, u32)>,
}

impl Cursor {
    pub(super) fn start(list: List) -> Self {
        Self { list, index: 0, branches: Vec::new() }
    }

    /// The end of a list, whose branches were left.
    pub(super) fn end(list: List) -> Self {
        Self { list, index: u32::MAX, branches: Vec::new() }
    }

    /// Returns the action that is next in the innermost list.
    pub(super) fn action<'t>(&self, tool: &'t Tool) -> Option<&'t ToolAction> {
        self.innermost(tool)?.get(self.last() as usize)
    }

    fn innermost<'t>(&self, tool: &'t Tool) -> Option<&'t [ToolAction]> {
        let mut actions = list(tool, self.list);
        let mut index = self.index;
        for (branch, next) in &self.branches {
            actions = branch_of(actions.get(index as usize)?, *branch)?;
            index = *next;
        }
        Some(actions)
    }

    fn last(&self) -> u32 {
        self.branches.last().map_or(self.index, |(_, index)| *index)
    }

    /// Goes on behind the action.
    pub(super) fn next(&mut self) {
        match self.branches.last_mut() {
            Some((_, index)) => *index = index.saturating_add(1),
            None => self.index = self.index.saturating_add(1),
        }
    }

    pub(super) fn enter(&mut self, branch: Branch) {
        self.branches.push((branch, 0));
    }

    /// Leaves the innermost branch, and goes on behind its `conditional`; false where there is none.
    pub(super) fn leave(&mut self) -> bool {
        let left = self.branches.pop().is_some();
        if left {
            self.next();
        }
        left
    }

    /// The place of the action that is next.
    pub(super) fn place(&self, action: &ToolAction) -> ActionPlace {
        let mut text = format!("{}[{}]", self.list.name(), self.index);
        for (branch, index) in &self.branches {
            let name = match branch {
                Branch::Then => "then_actions",
                Branch::Else => "else_actions",
            };
            text.push_str(&format!(".{name}[{index}]"));
        }
        ActionPlace { action: text, id: action.id.clone(), kind: action.type_name().into() }
    }

    /// Leaves all branches and the list, and returns the places of the actions that are not reached.
    pub(super) fn abandon(mut self, tool: &Tool) -> Vec<ActionPlace> {
        let mut places = Vec::new();
        loop {
            self.next();
            while let Some(action) = self.action(tool) {
                places.push(self.place(action));
                self.next();
            }
            if self.branches.pop().is_none() {
                return places;
            }
        }
    }
}

impl List {
    fn name(self) -> &'static str {
        match self {
            Self::Actions => "actions",
            Self::OnSuccess => "on_success",
            Self::OnFailure => "on_failure",
        }
    }
}

fn list(tool: &Tool, list: List) -> &[ToolAction] {
    match list {
        List::Actions => &tool.actions,
        List::OnSuccess => &tool.on_success,
        List::OnFailure => &tool.on_failure,
    }
}

fn branch_of(action: &ToolAction, branch: Branch) -> Option<&[ToolAction]> {
    let ActionKind::Conditional { then_actions, else_actions, .. } = &action.kind else { return None };
    Some(match branch {
        Branch::Then => then_actions,
        Branch::Else => else_actions,
    })
}

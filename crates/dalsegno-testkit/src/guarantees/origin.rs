//! Where the arguments of calls come from. Each value of a simulated world says itself where it is from, so that no value has to be
//! looked for.

use dalsegno_core::RunId;
use dalsegno_store::Started;

use super::Guarantees;
use crate::workspace::KEPT;

/// What a run was asked.
pub(super) struct Asked {
    text: String,
    /// By a user, and by no agent.
    by_user: bool,
    predecessor: Option<RunId>,
    /// A person is asked before each effect of it, as of all runs of a fork.
    asks_effects: bool,
}

impl Guarantees {
    /// Keeps what a run was asked, also when the run is deleted.
    pub(super) fn keep_asked(&mut self, run: RunId, started: &Started) {
        let asked = Asked {
            text: started.request.text.clone(),
            by_user: started.parent.is_none(),
            predecessor: started.predecessor,
            asks_effects: started.ask_effects,
        };
        self.asked.insert(run, asked);
    }

    /// Says whether a person is asked before each effect of a run, whatever its agent's rules are.
    pub(super) fn asks_all(&self, run: RunId) -> bool {
        let is_fork = self.runs.get(&run).is_some_and(|line| line.forked_from.is_some());
        is_fork || self.asked.get(&run).is_some_and(|asked| asked.asks_effects)
    }

    /// What a run was asked, if its agent has a rule about where arguments come from.
    pub(crate) fn asked_of_a_tracing_agent(&self, run: RunId) -> Option<String> {
        let line = self.runs.get(&run)?;
        let mut terms = self.terms.iter().filter(|((agent, _), _)| *agent == line.agent);
        terms.find(|(_, terms)| terms.trusts.is_some())?;
        Some(self.asked.get(&run)?.text.clone())
    }

    /// Says whether a value comes from one of these sources.
    pub(super) fn is_from(&self, run: RunId, value: &str, sources: &[&str]) -> bool {
        sources.iter().any(|source| match (*source, tool_of(value)) {
            ("user", None) => self.is_of_user(run, value),
            (pattern, Some(tool)) => match pattern.strip_suffix('*') {
                Some(begin) => tool.starts_with(begin),
                None => tool == pattern,
            },
            _ => false,
        })
    }

    /// Says whether a user wrote it in this run, or in an earlier one of its session.
    fn is_of_user(&self, run: RunId, value: &str) -> bool {
        let mut next = self.asked.get(&run);
        while let Some(asked) = next {
            if asked.by_user && asked.text == value {
                return true;
            }
            next = asked.predecessor.and_then(|run| self.asked.get(&run));
        }
        false
    }
}

/// The tool that has made a value, such as `t.read` for `7a0f3c21 t.read 4`.
fn tool_of(value: &str) -> Option<&str> {
    let words: Vec<&str> = value.split(' ').collect();
    match words[..] {
        ["answer", _] => Some(KEPT),
        // Which of the documents it was, it does not say.
        ["shop", _] => Some("shop."),
        [_, tool, _] if tool.starts_with("t.") => Some(tool),
        _ => None,
    }
}

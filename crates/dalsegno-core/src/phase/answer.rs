//! A structured answer: it fits its schema, or the model is asked again.

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use super::{Stop, end, think};
use crate::config::{AgentConfig, ModelMind, OutputSettings};
use crate::reply::Validation;
use crate::response::RunErrorCode;
use crate::state::{AgentState, Decision};
use crate::transcript::Entry;

/// Takes the shell's validation of the model's answer, which stands at the end of the transcript.
pub(super) fn judge(
    config: &AgentConfig,
    mind: &ModelMind,
    output: &OutputSettings,
    last: bool,
    validation: Option<Validation>,
    text: String,
    state: &mut AgentState,
) -> Result<(), Stop> {
    let wrong = match validation {
        Some(Validation::Valid { arguments }) => {
            state.output = Some(arguments);
            let text = if config.has_second_rules() { end::spoken(state, text) } else { text };
            end::completed(state, Some(text), "the model answered");
            return Ok(());
        }
        Some(Validation::Invalid { violations }) => {
            let more = violations.len().saturating_sub(MOST_VIOLATIONS);
            let mut wrong: Vec<String> = violations
                .iter()
                .take(MOST_VIOLATIONS)
                .map(|violation| match violation.path.as_str() {
                    "" => cut(&violation.message).into(),
                    path => alloc::format!("`{}`: {}", cut(path), cut(&violation.message)),
                })
                .collect();
            wrong.extend((more > 0).then(|| alloc::format!("and {more} more")));
            wrong
        }
        Some(Validation::Malformed { message }) => vec![alloc::format!("it is not JSON: {}", cut(&message))],
        Some(Validation::Truncated) => vec!["it was cut off at its length limit; answer more briefly".into()],
        None => vec!["it was not checked".into()],
    };
    let reason = alloc::format!("the structured answer does not fit its schema: {}", wrong.join("; "));
    if state.asked_again >= output.retries || !think::may_ask_again(config, last, state) {
        return Err(Stop::failed(
            RunErrorCode::InvalidOutput,
            alloc::format!("{reason}; re-asks: {}", state.asked_again),
            "say in the instructions what the answer must hold, make `[output] schema` simpler, or raise `output.retries`",
        ));
    }
    state.asked_again = state.asked_again.saturating_add(1);
    state.transcript.close("tools are off: this call was not performed");
    let list = wrong.join("\n- ");
    state.transcript.push(Entry::User(alloc::format!(
        "The answer does not fit its schema:\n- {list}\nReply with the corrected JSON and nothing else."
    )));
    state.decide(Decision::AskAgain { reason });
    think::ask_again(config, mind, last, state)
}

/// Most violations that a model is told of: the first ones say enough.
const MOST_VIOLATIONS: usize = 20;

/// Most bytes of a violation's path or message.
const VIOLATION_BYTES: usize = 300;

fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(VIOLATION_BYTES)]
}

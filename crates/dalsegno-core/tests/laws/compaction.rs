//! A very long run stays within what its model can be sent, and its prompts keep their beginning for long.

use dalsegno_core::*;
use serde_json::json;

use crate::transcript::{completion, sent};
use crate::world::{packed, printed};

const TURNS: u64 = 2_000;
const MAX_TOKENS: u64 = 20_000;

/// An agent that reads a log and sends its model no more than [`MAX_TOKENS`].
fn agent(compact: Compact) -> AgentConfig {
    let mind: ModelMind = serde_json::from_value(json!({
        "model": {"name": "local"}, "prompt": "{{request.text}}", "instructions": "be brief",
        "context": {"max_tokens": MAX_TOKENS, "compact": compact},
    }))
    .expect("a mind");
    let mut config = AgentConfig::new("agent".parse().expect("a name"), Mind::Model(mind));
    let tool = Tool::new("reads".into(), json!({"type": "object"}));
    config.tools.tools.insert("log_read".parse().expect("a tool name"), tool);
    config.limits = Limits { max_steps: u64::MAX, max_tool_calls: u64::MAX, ..Limits::default() };
    config
}

/// One or two calls, some with a word before them.
fn reply(turn: u64) -> ModelReply {
    let text = turn.is_multiple_of(3).then(|| ReplyPart::Text(format!("Let me look at part {turn}.")));
    let calls = (0..=u64::from(turn.is_multiple_of(7))).map(|index| {
        ReplyPart::Call(CallRequest {
            call_id: format!("call_{turn}_{index}"),
            name: "log_read".into(),
            arguments: format!("{{\"part\":{turn}}}"),
            validation: Some(Validation::Valid { arguments: json!({ "part": turn }) }),
        })
    });
    ModelReply::new(text.into_iter().chain(calls).collect(), StopReason::ToolCalls)
}

/// Results of every size from a word to a few pages.
fn result(turn: u64) -> ToolReturn {
    let bytes = usize::try_from(turn * 7_919 % 4_000).expect("a small number") + 5;
    ToolReturn { text: format!("{turn} {}", "x".repeat(bytes)), ..ToolReturn::default() }
}

/// What a run of [`TURNS`] turns was.
#[derive(Default)]
struct Course {
    compactions: u64,
    summaries: u64,
    /// All tokens that were ever added.
    added: u64,
    /// What was asked for, and what the model was sent then.
    asked: Vec<(OperationId, Digest)>,
    /// Bytes of the longest state.
    longest: usize,
}

fn run(config: &AgentConfig, start: AgentState) -> Course {
    let at = Timestamp::from_millis(0);
    let (mut state, mut turn) = (start, 0_u64);
    let mut course = Course::default();
    let mut before: Vec<Vec<u8>> = Vec::new();
    let mut tokens = 0;
    loop {
        let (operations, next) = execute_agent_step(config, state).expect("a sound state").into_operations();
        state = next;
        let compacted = state.decisions().iter().find_map(|decision| match decision {
            Decision::Compact { from_tokens, to_tokens } => Some((*from_tokens, *to_tokens)),
            _ => None,
        });
        if let Some((from_tokens, to_tokens)) = compacted {
            assert!(to_tokens <= MAX_TOKENS / 2, "{to_tokens} tokens are left");
            course.compactions += 1;
            course.added += from_tokens - tokens;
            tokens = to_tokens;
        }
        course.added += state.transcript().tokens().saturating_sub(tokens);
        tokens = state.transcript().tokens();
        if let Some(completion) = completion(&state) {
            let reading = state.reading(config, completion).expect("a completion of this configuration");
            assert!(reading.transcript.tokens() <= MAX_TOKENS, "{} tokens", reading.transcript.tokens());
            if completion.purpose == Purpose::Reply {
                let now = sent(config, &state, completion);
                assert_eq!(
                    now.starts_with(&before),
                    compacted.is_none(),
                    "the prefix changes at a cut alone"
                );
                assert_eq!(now[..2], before.get(..2).unwrap_or(&now[..2])[..], "the beginning stays");
                assert_eq!(now.last(), state.transcript().iter().rfind(is_sent).map(printed).as_ref());
                before = now;
            } else {
                course.summaries += 1;
            }
        }
        if turn.is_multiple_of(200) {
            course.longest = course.longest.max(packed(&state).len());
        }
        for operation in operations {
            course.asked.push((operation.id, state.transcript().chain()));
            let outcome = match &operation.request {
                Request::ModelCompletion(completion) => match completion.purpose {
                    Purpose::Summary { until } => {
                        let text = format!("So far {until} entries, nothing found. {}", "y".repeat(20_000));
                        Outcome::ModelReplied(ModelReply::new(
                            vec![ReplyPart::Text(text)],
                            StopReason::Length,
                        ))
                    }
                    Purpose::Reply | Purpose::Step(_) if turn == TURNS => return course,
                    Purpose::Reply | Purpose::Step(_) => {
                        turn += 1;
                        Outcome::ModelReplied(reply(turn - 1))
                    }
                },
                _ => Outcome::ToolReturned(result(turn)),
            };
            state.resume(Event::outcome(at, operation.id, outcome)).expect("an outcome of this state");
        }
    }
}

fn start() -> AgentState {
    AgentState::start(RunId::from_bytes([7; 16]), AgentRequest::text("find it"), Timestamp::from_millis(0))
}

/// A state holds what its model can still be sent, and does as one that holds all that was ever said.
fn holds_what_is_sent(config: &AgentConfig, course: &Course) {
    let whole = run(config, start().keeping_all());
    assert_eq!(course.asked, whole.asked);
    let most = 8 * usize::try_from(MAX_TOKENS).expect("a small number");
    assert!(course.longest < most, "a state of {} bytes", course.longest);
    assert!(whole.longest > 5 * most, "{} bytes are hardly a test", whole.longest);
}

fn is_sent(entry: &&Entry) -> bool {
    !matches!(entry, Entry::Compaction(_))
}

#[test]
fn two_thousand_turns_fit_by_leaving_out_the_oldest() {
    let config = agent(Compact::Drop);
    let course = run(&config, start());
    assert!(course.added > 50 * MAX_TOKENS, "{} tokens are hardly a test", course.added);
    // Each cut makes room for half of the budget.
    assert!(course.compactions <= course.added / (MAX_TOKENS / 2), "{} compactions", course.compactions);
    assert!(course.compactions >= 50 && course.summaries == 0);
    holds_what_is_sent(&config, &course);
}

#[test]
fn two_thousand_turns_fit_by_summaries() {
    let config = agent(Compact::Summarise);
    let course = run(&config, start());
    assert!(course.added > 50 * MAX_TOKENS, "{} tokens are hardly a test", course.added);
    assert!(course.compactions <= course.added / (MAX_TOKENS / 2), "{} compactions", course.compactions);
    assert_eq!(course.compactions, course.summaries);
    holds_what_is_sent(&config, &course);
}

//! What was decided, and how often it departs from what was recorded.

use dalsegno_core::{Digest, ModelReply, ReplyPart, RunId, Validation, digest_json};
use dalsegno_statistics::{Comparison as Statistics, Interval, Pairs, Sample, Verdict};
use serde::Serialize;
use serde_json::Value;

/// Decisions that are told as examples.
const EXAMPLES: usize = 20;

/// What is known about the decisions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Conclusion {
    /// Models decide otherwise since the change.
    Differs,
    /// If they do, then in fewer cases than count.
    Same,
    /// So many requests do not tell.
    Inconclusive,
}

/// How often decisions depart from the recorded ones, before and after the change.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Measured {
    /// The share that departs when the recorded request is sent again: the noise.
    pub before: Rate,
    /// The share that departs when the changed request is sent.
    pub now: Rate,
    /// What the difference of the two may be.
    pub difference: Interval,
    /// The smallest difference that so many pairs show in four of five cases; `None` where they would show none.
    pub visible: Option<f64>,
    /// What it comes to.
    pub conclusion: Conclusion,
}

/// A share, and what it may truly be.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Rate {
    /// What was observed.
    pub share: f64,
    /// What it may truly be.
    pub interval: Interval,
}

/// A decision that departs from the recorded one, since the change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Departure {
    /// The run.
    #[serde(rename = "run_id")]
    pub run: RunId,
    /// The step.
    pub step: u64,
    /// What was recorded.
    pub recorded: String,
    /// What the model decides now.
    pub now: String,
}

/// How sure a conclusion is. Tools and arguments are judged apart, so each has half of the error.
const CONFIDENCE: f64 = 0.95;

/// What was decided: the calls that a model wants in a reply, or those that a run makes, and the structured answer.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Decision {
    /// Names and arguments, with their digests. Within a reply it does not matter which of several calls is named first.
    calls: Vec<(String, Digest, Value)>,
    answer: Option<Value>,
    /// How a run ends; nothing for a single reply.
    ends: Option<String>,
}

impl Decision {
    /// What a model decided.
    pub(crate) fn of(reply: &ModelReply) -> Self {
        let call = |part: &ReplyPart| match part {
            ReplyPart::Call(call) => {
                let arguments = serde_json::from_str(&call.arguments);
                let arguments = arguments.unwrap_or_else(|_| Value::String(call.arguments.clone()));
                Some((call.name.clone(), digest_json(&arguments), arguments))
            }
            ReplyPart::Text(_) | ReplyPart::Opaque { .. } => None,
        };
        let mut calls: Vec<(String, Digest, Value)> = reply.parts.iter().filter_map(call).collect();
        calls.sort_by(|one, other| (&one.0, one.1).cmp(&(&other.0, other.1)));
        let answer = match &reply.output {
            Some(Validation::Valid { arguments }) => Some(arguments.clone()),
            _ => None,
        };
        Self { calls, answer, ends: None }
    }

    /// Adds a call that a run makes.
    pub(crate) fn call(&mut self, tool: String, arguments: &Value) {
        self.calls.push((tool, digest_json(arguments), arguments.clone()));
    }

    /// Says how a run ends, and with which structured answer.
    pub(crate) fn end(&mut self, ends: impl Into<String>, answer: Option<Value>) {
        (self.ends, self.answer) = (Some(ends.into()), answer);
    }

    /// Says whether the same tools are called, and a run ends in the same way.
    fn has_tools_of(&self, other: &Self) -> bool {
        self.ends == other.ends
            && self.calls.iter().map(|call| &call.0).eq(other.calls.iter().map(|call| &call.0))
    }

    fn in_words(&self) -> String {
        let calls: Vec<String> = self.calls.iter().map(|(name, _, with)| format!("{name} {with}")).collect();
        let calls = if calls.is_empty() { String::new() } else { format!("calls {}", calls.join(", ")) };
        let answer = match (&self.answer, &self.ends) {
            (Some(answer), _) => format!("answers {answer}"),
            (None, Some(ends)) => ends.clone(),
            (None, None) if calls.is_empty() => "answers in text".to_owned(),
            (None, None) => String::new(),
        };
        match calls.is_empty() || answer.is_empty() {
            true => calls + &answer,
            false => format!("{calls}, then {answer}"),
        }
    }
}

/// The pairs so far.
#[derive(Default)]
pub(crate) struct Count {
    tools: Pairs,
    arguments: Pairs,
    /// How many decisions departed: tools before and now, arguments before and now.
    departed: [u64; 4],
}

impl Count {
    pub(crate) fn add(&mut self, recorded: &Decision, before: &Decision, now: &Decision) {
        let tools = (before.has_tools_of(recorded), now.has_tools_of(recorded));
        let all = (before == recorded, now == recorded);
        self.tools.add(tools.0, tools.1);
        self.arguments.add(all.0, all.1);
        for (count, kept) in self.departed.iter_mut().zip([tools.0, tools.1, all.0, all.1]) {
            *count += u64::from(!kept);
        }
    }

    pub(crate) fn measured(&self, smallest: f64) -> (Measured, Measured) {
        let statistics = Statistics { confidence: f64::midpoint(1.0, CONFIDENCE), smallest };
        let measured = |pairs: &Pairs, before: u64, now: u64| {
            let rate = |departed: u64| {
                let sample = Sample::of_trials(departed, pairs.count());
                let share = sample.mean().unwrap_or_default();
                Rate { share, interval: sample.interval(CONFIDENCE) }
            };
            let kept = statistics.interval(pairs);
            Measured {
                before: rate(before),
                now: rate(now),
                // The pairs count what is kept; what departs is the other way round.
                difference: Interval { low: -kept.high, high: -kept.low },
                visible: statistics.visible(pairs),
                conclusion: match statistics.judge(pairs) {
                    Verdict::Better | Verdict::Worse => Conclusion::Differs,
                    Verdict::Equal => Conclusion::Same,
                    Verdict::Inconclusive => Conclusion::Inconclusive,
                },
            }
        };
        let [tools_before, tools_now, before, now] = self.departed;
        (measured(&self.tools, tools_before, tools_now), measured(&self.arguments, before, now))
    }
}

impl Conclusion {
    /// What two measures come to together.
    pub(crate) const fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Differs, _) | (_, Self::Differs) => Self::Differs,
            (Self::Same, Self::Same) => Self::Same,
            _ => Self::Inconclusive,
        }
    }
}

impl Departure {
    /// Adds a decision to the examples, unless it is there or there are enough.
    pub(crate) fn note(
        examples: &mut Vec<Self>,
        (run, step): (RunId, u64),
        recorded: &Decision,
        now: &Decision,
    ) {
        let departure = Self { run, step, recorded: recorded.in_words(), now: now.in_words() };
        if examples.len() < EXAMPLES && !examples.contains(&departure) {
            examples.push(departure);
        }
    }
}

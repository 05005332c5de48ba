//! Holds what happened against what must hold.

use std::borrow::Cow;
use std::ops::Range;

use dalsegno_core::AgentConfig;
use dalsegno_expr::Scope;
use dalsegno_workspace::{
    CallRule, Case, Ends, Expectations, ExpectedCall, Located, Property, TalkExpectations,
};
use serde_json::{Map, Value};

use crate::compare::{differs, lacks, quoted, shortened};
use crate::fold::Folding;
use crate::talk::{Talk, by};
use crate::trajectory::{End, Made, Trajectory};
use crate::trouble::{Missing, Trouble};

/// What does not hold of a case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Which part of the case, such as `calls`.
    pub what: &'static str,
    /// What is wrong, in one or more lines.
    pub message: String,
    /// One thing to do.
    pub help: Option<String>,
    /// The place in the case's file that says otherwise.
    pub span: Option<Range<usize>>,
}

impl Failure {
    fn new<T>(what: &'static str, expected: &Located<T>, message: String) -> Self {
        Self { what, message, help: None, span: Some(expected.span.clone()) }
    }
}

/// What does not hold of a case that came to an end.
pub(crate) fn judge(case: &Case, trajectory: &Trajectory) -> Vec<Failure> {
    hold(&case.draft.expect, &case.config, trajectory, Map::new())
}

/// What does not hold of a run that came to an end. Conditions on the whole run read these names, too.
pub fn hold(
    expect: &Expectations,
    config: &AgentConfig,
    trajectory: &Trajectory,
    more: Map<String, Value>,
) -> Vec<Failure> {
    let mut failures = Vec::new();
    let Some(end) = &trajectory.end else { return failures };
    failures.extend(ends(expect, end));
    failures.extend(error(expect, end));
    failures.extend(calls("calls", expect.calls.as_ref(), trajectory.calls.iter()));
    let effects = trajectory.calls.iter().filter(|made| made.changes);
    failures.extend(calls("effects", expect.effects.as_ref(), effects));
    talk(&expect.talk, &trajectory.talk, &mut failures);
    failures.extend(never(expect, trajectory));
    failures.extend(always(expect, config, trajectory, more));
    if let Some(expected) = expect.asks.as_ref().filter(|expected| expected.value != trajectory.asks) {
        let message = format!("expected {}\n   found {}", names(&expected.value), names(&trajectory.asks));
        failures.push(Failure::new("asks", expected, message));
    }
    if let Some(expected) = &expect.hands_over_to {
        let found = match end {
            End::HandedOff(handoff) if handoff.target == expected.value => None,
            End::HandedOff(handoff) => Some(format!("the run hands over to `{}`", handoff.target)),
            End::Ended(_) | End::Suspended(_) => Some("the run does not hand over".to_owned()),
        };
        failures.extend(found.map(|message| Failure::new("hands_over_to", expected, message)));
    }
    answers(expect, trajectory, &mut failures);
    limits(expect, trajectory, &mut failures);
    failures
}

/// What does not hold of a run of a property.
pub(crate) fn judge_run(case: &Case, property: &Property, trajectory: &Trajectory) -> Vec<Failure> {
    let expect = &case.draft.expect;
    let mut failures = Vec::new();
    let Some(end) = &trajectory.end else { return failures };
    if !property.ends.is_empty() && !property.ends.iter().any(|allowed| allowed.as_str() == end.kind()) {
        let allowed: Vec<&str> = property.ends.iter().map(|end| end.as_str()).collect();
        let message = format!("expected {}\n   found {}", allowed.join(" or "), ended(end));
        failures.push(Failure {
            what: "ends",
            message,
            help: None,
            span: Some(case.draft.name.span.clone()),
        });
    }
    failures.extend(never(expect, trajectory));
    failures.extend(always(expect, &case.config, trajectory, Map::new()));
    limits(expect, trajectory, &mut failures);
    failures
}

fn ends(expect: &Expectations, end: &End) -> Option<Failure> {
    let expected = &expect.ends;
    let wanted = match expected {
        Some(ends) => ends.value,
        None if expect.hands_over_to.is_some() => Ends::HandedOff,
        None if expect.error.is_some() => Ends::Failed,
        None => Ends::Completed,
    };
    if end.kind() == wanted.as_str() {
        return None;
    }
    let found = ended(end);
    let help = match (end, expected) {
        (End::Suspended(_), None) => {
            Some("write what a person answers, `[[cases.answers]]` with `approve = true`, or `ends = \"suspended\"`".to_owned())
        }
        (_, None) => Some(format!("write `ends = \"{}\"` if that is what the case shows", end.kind())),
        _ => None,
    };
    Some(Failure {
        what: "ends",
        message: format!("expected {}\n   found {found}", wanted.as_str()),
        help,
        span: expected.as_ref().map(|ends| ends.span.clone()),
    })
}

/// How a run ended, in words.
fn ended(end: &End) -> String {
    match end {
        End::Suspended(questions) if questions.is_empty() => "suspended until a time".to_owned(),
        End::Suspended(questions) => {
            format!(
                "suspended: {}",
                questions.iter().map(|one| shortened(one)).collect::<Vec<_>>().join("; ")
            )
        }
        End::HandedOff(handoff) => format!("handed_off to `{}`", handoff.target),
        End::Ended(response) => match &response.error {
            Some(error) => format!("{}: {}: {}", end.kind(), error.code.as_str(), shortened(&error.message)),
            None => end.kind().to_owned(),
        },
    }
}

fn error(expect: &Expectations, end: &End) -> Option<Failure> {
    let expected = expect.error.as_ref()?;
    let found = end.response().and_then(|response| response.error.as_ref());
    let found = match found {
        Some(error) if error.code == expected.value => return None,
        Some(error) => format!("{}: {}", error.code.as_str(), shortened(&error.message)),
        None => "no error".to_owned(),
    };
    Some(Failure::new("error", expected, format!("expected {}\n   found {found}", expected.value.as_str())))
}

fn calls<'m>(
    what: &'static str,
    expected: Option<&Located<Vec<ExpectedCall>>>,
    made: impl Iterator<Item = &'m Made>,
) -> Option<Failure> {
    let expected = expected?;
    let made: Vec<&Made> = made.collect();
    let names = |tools: &mut dyn Iterator<Item = &str>| {
        let names: Vec<String> = tools.map(|tool| format!("`{tool}`")).collect();
        if names.is_empty() { "none".to_owned() } else { names.join(", ") }
    };
    let is_same = expected.value.len() == made.len()
        && expected.value.iter().zip(&made).all(|(expected, made)| expected.tool == made.tool);
    if !is_same {
        let message = format!(
            "expected {}\n   found {}",
            names(&mut expected.value.iter().map(|call| call.tool.as_str())),
            names(&mut made.iter().map(|call| call.tool.as_str())),
        );
        return Some(Failure::new(what, expected, message));
    }
    let differing = expected.value.iter().zip(&made).enumerate().find_map(|(number, (expected, made))| {
        let ExpectedCall { tool, with } = expected;
        let difference = lacks(&made.arguments, with)?;
        Some(format!("call {} is `{tool}` with {}: {difference}", number + 1, quoted(&made.arguments)))
    })?;
    Some(Failure::new(what, expected, differing))
}

/// What does not hold of a call.
fn talk(expect: &TalkExpectations, talk: &Talk, failures: &mut Vec<Failure>) {
    if let Some(expected) = &expect.outputs {
        let found: Vec<(&str, &str)> = talk.outputs().collect();
        let is_same = expected.value.len() == found.len()
            && expected.value.iter().zip(&found).all(|(expected, (tool, says))| {
                expected.tool == *tool && expected.says.as_ref().is_none_or(|text| says.contains(text))
            });
        if !is_same {
            let wanted = expected.value.iter().map(|output| match &output.says {
                Some(says) => format!("`{}` with {}", output.tool, Value::from(says.as_str())),
                None => format!("`{}`", output.tool),
            });
            let wanted: Vec<String> = wanted.collect();
            let found: Vec<String> =
                found.iter().map(|(tool, says)| format!("`{tool}`: {}", shortened(says))).collect();
            let or_none = |list: Vec<String>, between: &str| match list.is_empty() {
                true => "none".to_owned(),
                false => list.join(between),
            };
            let message =
                format!("expected {}\n   found {}", or_none(wanted, ", "), or_none(found, "\n         "));
            failures.push(Failure::new("outputs", expected, message));
        }
    }
    let said: Vec<&str> = talk.said().collect();
    let told: Vec<&str> = talk.told().collect();
    for (what, who, regexes, texts) in [
        ("said_matches", "the live model says", &expect.said, said),
        ("told_matches", "the live model is told", &expect.told, told),
    ] {
        for regex in regexes.iter().filter(|regex| !texts.iter().any(|text| regex.value.is_match(text))) {
            let texts: Vec<String> =
                texts.iter().map(|text| Value::from(shortened(text)).to_string()).collect();
            let found = if texts.is_empty() { "nothing".to_owned() } else { texts.join("\n         ") };
            let message = format!("expected /{}/\n   found {found}", regex.value);
            failures.push(Failure::new(what, regex, format!("{message}\n         is what {who}")));
        }
    }
    if let Some(expected) = expect.max_silence_ms.as_ref().filter(|most| talk.silence_ms > most.value) {
        let message = format!("expected at most {} ms\n   found {} ms", expected.value, talk.silence_ms);
        failures.push(Failure::new("max_silence", expected, message));
    }
    if let Some(expected) = expect.ended_by.as_ref().filter(|expected| talk.ended_by != Some(expected.value))
    {
        let found = talk.ended_by.map_or("a call that has not ended", by);
        let message = format!("expected {}\n   found {found}", by(expected.value));
        failures.push(Failure::new("ended_by", expected, message));
    }
}

fn never(expect: &Expectations, trajectory: &Trajectory) -> Option<Failure> {
    // What must never be called is not called by another agent either.
    let runs = trajectory.runs();
    let asked = || runs.iter().flat_map(|run| &run.steps).flat_map(|step| &step.operations);
    let named = expect.never_calls.iter().find_map(|pattern| {
        let found = asked()
            .find(|done| done.question.called().parse().is_ok_and(|tool| pattern.value.matches(&tool)))?;
        let arguments = quoted(&found.question.arguments);
        let message = format!("`{}` was asked for, with {arguments}", found.question.called());
        Some(Failure::new("never_calls", pattern, message))
    });
    named.or_else(|| {
        let calls = runs.iter().flat_map(|run| &run.calls);
        calls.filter_map(|made| Some((made, made.tool.parse().ok()?))).find_map(|(made, tool)| {
            expect
                .never
                .iter()
                .filter(|rule| rule.tool.value.matches(&tool))
                .find_map(|rule| forbids(rule, made))
        })
    })
}

/// What a condition on a call reads.
struct OfCall<'m>(&'m Made);

impl Scope for OfCall<'_> {
    fn root(&self, name: &str) -> Option<Cow<'_, Value>> {
        match name {
            "args" => Some(Cow::Borrowed(&self.0.arguments)),
            "approved" => Some(Cow::Owned(self.0.approved.into())),
            _ => None,
        }
    }
}

/// That a call meets a condition under which it must not take place. One that cannot be evaluated counts as met, as in the rules
/// of an agent.
fn forbids(rule: &CallRule, made: &Made) -> Option<Failure> {
    let why = match rule.when.is_true(&OfCall(made)) {
        Ok(false) => return None,
        Ok(true) => format!("`{}`", rule.when),
        Err(error) => format!("`{}`, which cannot be evaluated: {error}", rule.when),
    };
    let person = if made.approved { "a person had agreed" } else { "no person had agreed" };
    let message = format!(
        "`{}` was called with {}, and {person}\n   it must not be when {why}",
        made.tool,
        quoted(&made.arguments)
    );
    Some(Failure::new("never", &rule.tool, message))
}

fn always(
    expect: &Expectations,
    config: &AgentConfig,
    trajectory: &Trajectory,
    more: Map<String, Value>,
) -> Option<Failure> {
    if expect.always.is_empty() {
        return None;
    }
    let mut scope = trajectory.values(config);
    scope.extend(more);
    expect.always.iter().find_map(|condition| {
        let why = match condition.value.is_true(&scope) {
            Ok(true) => return None,
            Ok(false) => "does not hold".to_owned(),
            Err(error) => format!("cannot be evaluated: {error}"),
        };
        Some(Failure::new("always", condition, format!("`{}` {why}", condition.value)))
    })
}

fn answers(expect: &Expectations, trajectory: &Trajectory, failures: &mut Vec<Failure>) {
    let answer = trajectory.answer();
    let found = match answer {
        Some(answer) => Value::from(answer).to_string(),
        None => "no answer".to_owned(),
    };
    if let Some(expected) = expect.answer.as_ref().filter(|expected| answer != Some(expected.value.as_str()))
    {
        let wanted = Value::from(expected.value.as_str());
        failures.push(Failure::new("answer", expected, format!("expected {wanted}\n   found {found}")));
    }
    for part in &expect.answer_contains {
        if !answer.is_some_and(|answer| answer.contains(&part.value)) {
            let wanted = Value::from(part.value.as_str());
            failures.push(Failure::new(
                "answer_contains",
                part,
                format!("expected {wanted}\n   found {found}"),
            ));
        }
    }
    if let Some(regex) = &expect.answer_matches
        && !answer.is_some_and(|answer| regex.value.is_match(answer))
    {
        let message = format!("expected /{}/\n   found {found}", regex.value);
        failures.push(Failure::new("answer_matches", regex, message));
    }
    if let Some(expected) = &expect.output {
        let output =
            trajectory.end.as_ref().and_then(End::response).and_then(|response| response.output.as_ref());
        let difference = match output {
            Some(output) => differs(output, &expected.value),
            None => Some("there is no structured answer".to_owned()),
        };
        failures.extend(difference.map(|difference| Failure::new("output", expected, difference)));
    }
}

fn limits(expect: &Expectations, trajectory: &Trajectory, failures: &mut Vec<Failure>) {
    let usage = &trajectory.usage;
    let bounds = [
        ("max_steps", &expect.max_steps, trajectory.count),
        ("max_tokens", &expect.max_tokens, usage.tokens()),
        ("max_cost_usd", &expect.max_cost_nano_usd, usage.cost_nano_usd),
    ];
    for (what, expected, found) in bounds {
        let Some(expected) = expected.as_ref().filter(|expected| found > expected.value) else { continue };
        let show = |number: u64| match what {
            "max_cost_usd" => format!("{} USD", dollars(number)),
            _ => number.to_string(),
        };
        let message = format!("expected at most {}\n   found {}", show(expected.value), show(found));
        failures.push(Failure::new(what, expected, message));
    }
}

/// Billionths of a US dollar as dollars.
pub(crate) fn dollars(nano: u64) -> String {
    let (whole, part) = (nano / 1_000_000_000, nano % 1_000_000_000);
    let text = format!("{whole}.{part:09}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn names(names: &[String]) -> String {
    match names {
        [] => "none".to_owned(),
        names => names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", "),
    }
}

/// What a case that came to an end has left over: turns of a call, and what the run did not ask for.
pub(crate) fn left_over(folding: &Folding<'_>) -> Vec<Failure> {
    let unreached = folding.unreached().map(|(number, span)| Failure {
        what: "turns",
        message: format!("the call never got to turn {number}"),
        help: Some("remove the turns from there on, or find out why the call does not get there".to_owned()),
        span: Some(span),
    });
    unreached.into_iter().chain(folding.unused().into_iter().map(unused)).collect()
}

/// What the case gives and the run did not ask for.
fn unused((what, span): (String, Range<usize>)) -> Failure {
    Failure {
        what: "unused",
        message: format!("the run never asked for {what}"),
        help: Some("remove it, or find out why the run does not get there".to_owned()),
        span: Some(span),
    }
}

/// That a case cannot be folded to an end.
pub(crate) fn troubled(trouble: Trouble) -> Failure {
    match trouble {
        Trouble::Missing(missing) => {
            let Missing { step, asked, arguments, nearest, span, write } = *missing;
            let nearest = nearest.map(|nearest| format!("\n{nearest}")).unwrap_or_default();
            Failure {
                what: "missing outcome",
                message: format!(
                    "step {step} asks {asked} with {arguments}, and the case has no outcome for it{nearest}"
                ),
                help: (!write.is_empty()).then(|| format!("write\n{write}")),
                span,
            }
        }
        Trouble::Unfit { span, message } => {
            let help = Some("correct what the case gives there".to_owned());
            Failure { what: "outcome", message, help, span: Some(span) }
        }
        Trouble::Source(message) => Failure {
            what: "replies",
            message,
            help: Some("correct the case's `replies`, its script or its `messages`".to_owned()),
            span: None,
        },
        Trouble::Endless => Failure {
            what: "endless",
            message: "the run does not end: more than 200,000 requests".to_owned(),
            help: Some("set `max_steps` or `max_tool_calls` in `[limits]` of the agent".to_owned()),
            span: None,
        },
        Trouble::Defect(message) => Failure {
            what: "defect",
            message,
            help: Some("this is a defect of Dalsegno: please report it with the case".to_owned()),
            span: None,
        },
    }
}

//! What must come of a journal, counted by looking at the whole of it: simpler than the projector, and by another way.

use std::collections::{BTreeMap, BTreeSet};

use dalsegno_core::{LiveNews, OperationId, RunId};
use dalsegno_store::{Body, NewRecord, Start};
use dalsegno_telemetry::{Span, SpanId, Subject, TraceId};

/// Every span that there must be, by its id: its parent and its times.
pub(crate) fn expected(run: RunId, records: &[NewRecord]) -> BTreeMap<SpanId, (Option<SpanId>, u64, u64)> {
    let mut spans = BTreeMap::new();
    let at = |index: usize| records[index].at.as_millis();
    let is_end = |record: &NewRecord| {
        matches!(
            record.body,
            Body::Completed { .. } | Body::Failed { .. } | Body::Cancelled { .. } | Body::HandedOff { .. }
        )
    };
    let end = records.iter().position(is_end);
    let step_of = |record: &NewRecord| match record.body {
        Body::Requested { step, .. } => Some(step),
        _ => None,
    };
    let mut steps: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    let mut open_steps = BTreeSet::new();
    for (index, record) in records.iter().enumerate() {
        let Body::Requested { step, start, .. } = &record.body else { continue };
        let operation = record.operation.unwrap();
        let mine = |other: &NewRecord| other.operation == Some(operation);
        let settles = |other: &NewRecord| match &other.body {
            Body::Resolved { .. } => true,
            Body::Answered { answer } => answer.outcome().is_some(),
            _ => false,
        };
        let leaves = |other: &NewRecord| is_end(other) || step_of(other).is_some_and(|other| other != *step);
        let over = (index + 1..records.len()).find(|place| {
            let other = &records[*place];
            mine(other) && settles(other) || leaves(other)
        });
        let left = (index + 1..records.len()).find(|place| leaves(&records[*place]));
        if left.is_none() {
            open_steps.insert(*step);
        }
        let last = over.unwrap_or(records.len());
        let of_attempts =
            |place: &usize| mine(&records[*place]) && matches!(records[*place].body, Body::Attempted { .. });
        let begins =
            |place: &usize| matches!(records[*place].body, Body::Attempted { start: Start::Now, .. });
        let attempts: Vec<usize> = (index + 1..last).filter(of_attempts).collect();
        let mut started: Vec<usize> = attempts.iter().copied().filter(begins).collect();
        if *start == Start::Now {
            started.insert(0, index);
        }
        let several = started.first().is_some_and(|first| attempts.iter().any(|another| another > first));
        for place in started.into_iter().filter(|_| several) {
            let number = match records[place].body {
                Body::Attempted { attempt, .. } => attempt,
                _ => 1,
            };
            let gated = |at: &usize| mine(&records[*at]) && matches!(records[*at].body, Body::Waiting { .. });
            let next = attempts.iter().copied().find(|another| *another > place);
            let gate = (place + 1..next.unwrap_or(last)).find(gated);
            if next.is_none() && over.is_none() {
                continue;
            }
            let stop = gate.or(next).unwrap_or(last);
            let id = SpanId::of_attempt(run, operation, number, place as u64);
            let above = Some(SpanId::of_operation(run, operation));
            spans.insert(id, (above, at(place), at(stop).max(at(place))));
        }
        let entry = steps.entry(*step).or_insert((at(index), at(index)));
        if let Some(over) = over {
            entry.1 = entry.1.max(at(over));
            let above = Some(SpanId::of_step(run, *step));
            spans.insert(SpanId::of_operation(run, operation), (above, at(index), at(over).max(at(index))));
        }
    }
    for (step, (start, stop)) in steps {
        if !open_steps.contains(&step) {
            spans.insert(SpanId::of_step(run, step), (Some(SpanId::of_run(run)), start, stop.max(start)));
        }
    }
    if let Some(end) = end {
        spans.insert(SpanId::of_run(run), (None, at(0), at(end).max(at(0))));
    }
    turns(run, records, end, &mut spans);
    for (place, record) in records.iter().enumerate() {
        if let (Body::Late { .. }, Some(operation)) = (&record.body, record.operation) {
            let id = SpanId::of_late(run, operation, place as u64);
            let since = at(end.unwrap_or(place));
            let above = Some(SpanId::of_operation(run, operation));
            spans.insert(id, (above, since, at(place).max(since)));
        }
    }
    spans
}

/// The turns of a call.
fn turns(
    run: RunId,
    records: &[NewRecord],
    end: Option<usize>,
    spans: &mut BTreeMap<SpanId, (Option<SpanId>, u64, u64)>,
) {
    let mut news = Vec::new();
    for (seq, record) in (0..).zip(records) {
        let Body::Conversed { news: told } = &record.body else { continue };
        news.extend((0..).zip(told).map(|(place, one)| (seq, place, record.at.as_millis(), one)));
    }
    let over = |one: &LiveNews| matches!(one, LiveNews::Lost { .. } | LiveNews::Ended { .. });
    for (index, (seq, place, at, begun)) in news.iter().enumerate() {
        let (mut before, mut after) = (news[..index].iter().rev(), news[index + 1..].iter());
        let stop = match begun {
            LiveNews::SpeechStarted => {
                let next = after.find(|(.., one)| {
                    matches!(one, LiveNews::SpeechStarted | LiveNews::SpeechStopped) || over(one)
                });
                if next.is_some_and(|(.., one)| matches!(one, LiveNews::SpeechStarted)) {
                    continue;
                }
                next
            }
            LiveNews::ResponseBegan { response, .. } => {
                let ends = |one: &LiveNews| matches!(one, LiveNews::ResponseEnded { response: other, .. } if other == response);
                let begins = |one: &LiveNews| matches!(one, LiveNews::ResponseBegan { response: other, .. } if other == response);
                let last = before.find(|(.., one)| begins(one) || ends(one) || over(one));
                if last.is_some_and(|(.., one)| begins(one)) {
                    continue;
                }
                after.find(|(.., one)| ends(one) || over(one))
            }
            _ => continue,
        };
        let stop = stop.map(|(_, _, at, _)| *at).or(end.map(|end| records[end].at.as_millis()));
        if let Some(stop) = stop {
            spans.insert(SpanId::of_turn(run, *seq, *place), (Some(SpanId::of_run(run)), *at, stop.max(*at)));
        }
    }
}

/// Compares spans with what must be there, one to one.
pub(crate) fn check(run: RunId, records: &[NewRecord], spans: &[Span]) {
    let mut found = BTreeMap::new();
    for span in spans {
        assert_eq!(span.trace, TraceId::of(run));
        let times = (span.parent, span.start.as_millis(), span.end.as_millis());
        assert_eq!(found.insert(span.id, times), None, "{} has its id twice", span.name);
    }
    assert_eq!(found, expected(run, records));
    // Each operation that was requested, and that is not open, has exactly one span.
    let requested = records.iter().filter(|record| matches!(record.body, Body::Requested { .. }));
    let requested: BTreeSet<OperationId> = requested.filter_map(|record| record.operation).collect();
    let spans = spans.iter().filter_map(|span| match &span.subject {
        Subject::Operation(facts) => Some(facts.operation),
        _ => None,
    });
    let spans: Vec<OperationId> = spans.collect();
    assert_eq!(spans.iter().collect::<BTreeSet<_>>().len(), spans.len());
    assert!(spans.iter().all(|operation| requested.contains(operation)));
}

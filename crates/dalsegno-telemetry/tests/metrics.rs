//! Metrics count what the journals hold, in a form that Prometheus reads.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod support;

use std::collections::BTreeMap;
use std::time::Duration;

use dalsegno_core::{
    AgentConfig, CallRequest, Mind, ModelReply, Outcome, ReplyPart, RunId, StopReason, Tool, Validation,
};
use dalsegno_runtime::Load;
use dalsegno_store::{Body, Denial, NewRecord, Start};
use dalsegno_telemetry::{Metrics, Telemetry, TelemetryConfig};
use serde_json::json;

use support::journal::{CANARY, TestJournal, generate, operation, outcome, requested, resolved, run};

/// All samples, by name and labels; a line that is none fails the test.
fn samples(text: &str) -> BTreeMap<String, f64> {
    assert_eq!(text.lines().last(), Some("# EOF"));
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let samples: BTreeMap<String, f64> = lines
        .map(|line| {
            let (name, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("no sample: {line}"));
            (name.to_owned(), value.parse().unwrap_or_else(|_| panic!("no number: {line}")))
        })
        .collect();
    // A reader from another hand finds as many.
    let lines: Vec<_> =
        text.lines().filter(|line| *line != "# EOF").map(|line| Ok(line.to_owned())).collect();
    let scrape = prometheus_parse::Scrape::parse(lines.into_iter()).unwrap();
    assert!(!scrape.samples.is_empty());
    for sample in &scrape.samples {
        assert!(sample.metric.starts_with("dalsegno_"), "{sample:?}");
    }
    samples
}

fn sum(samples: &BTreeMap<String, f64>, name: &str) -> f64 {
    let of = samples.iter().filter(|(key, _)| key.split('{').next() == Some(name));
    of.map(|(_, value)| value).sum()
}

fn tell(telemetry: &Telemetry, run: RunId, records: &[NewRecord]) {
    let mut told = telemetry.run(run, run, None);
    for (seq, record) in records.iter().enumerate() {
        told.record(seq as u64, record, None);
        // A record that is told twice counts once.
        told.record(seq as u64, record, None);
    }
}

#[test]
fn metrics_count_what_the_journals_hold() {
    let telemetry = Telemetry::start(TelemetryConfig::default()).unwrap();
    let (mut started, mut ended, mut errors, mut asked, mut replies, mut late) = (0, 0, 0, 0, 0, 0);
    for seed in 0_u8..60 {
        let records = generate(seed.into());
        tell(&telemetry, RunId::from_bytes([seed; 16]), &records);
        for record in &records {
            match &record.body {
                Body::Started(_) => started += 1,
                Body::Requested { .. } => asked += 1,
                Body::Resolved { outcome: Outcome::ModelReplied(_), .. } => replies += 1,
                Body::Late { .. } => late += 1,
                Body::Completed { .. } | Body::HandedOff { .. } => ended += 1,
                Body::Failed { .. } | Body::Cancelled { .. } => {
                    ended += 1;
                    errors += 1;
                }
                _ => {}
            }
        }
        if !records.iter().any(|record| {
            matches!(
                record.body,
                Body::Completed { .. }
                    | Body::Failed { .. }
                    | Body::Cancelled { .. }
                    | Body::HandedOff { .. }
            )
        }) {
            // What is open in the last step is not counted yet.
            let settled = |record: &&NewRecord| match &record.body {
                Body::Resolved { .. } => true,
                Body::Answered { answer } => answer.outcome().is_some(),
                _ => false,
            };
            let last = records.iter().rev().find_map(|record| match record.body {
                Body::Requested { step, .. } => Some(step),
                _ => None,
            });
            let of_last = |record: &&NewRecord| matches!(record.body, Body::Requested { step, .. } if Some(step) == last);
            let open = records.iter().filter(of_last).filter(|asked| {
                !records.iter().filter(settled).any(|other| other.operation == asked.operation)
            });
            asked -= open.count();
        }
    }
    let text = telemetry.metrics().encode();
    let samples = samples(&text);
    let is = |name: &str, expected: usize| assert_eq!(sum(&samples, name), expected as f64, "{name}");
    is("dalsegno_runs_started_total", started);
    is("dalsegno_runs_finished_total", ended);
    is("dalsegno_run_errors_total", errors);
    is("dalsegno_run_seconds_count", ended);
    is("dalsegno_operations_total", asked);
    is("dalsegno_operation_seconds_count", asked);
    is("dalsegno_model_tokens_total", replies * 120);
    is("dalsegno_model_lost_attempts_total", replies);
    is("dalsegno_late_outcomes_total", late);
    assert!(replies > 10 && late > 0 && errors > 0);
    assert!(!text.contains(CANARY));
}

#[test]
fn gauges_and_commits_are_shown() {
    let metrics = Metrics::new();
    let mut load = Load::default();
    (load.under_way, load.queued) = (3, 7);
    load.open = vec!["model a".into(), "server b".into()];
    metrics.set_load(&load);
    metrics.commit(Duration::from_micros(300), 5);
    metrics.commit(Duration::from_secs(9), 1);
    let samples = samples(&metrics.encode());
    for (name, value) in [
        ("dalsegno_effects_under_way", 3.0),
        ("dalsegno_effects_queued", 7.0),
        ("dalsegno_breakers_open", 2.0),
        ("dalsegno_runs_owned", 0.0),
        ("dalsegno_commit_seconds_count", 2.0),
        ("dalsegno_commit_seconds_bucket{le=\"0.0004\"}", 1.0),
        ("dalsegno_commit_seconds_bucket{le=\"2.5\"}", 1.0),
        ("dalsegno_committed_records_total", 6.0),
    ] {
        assert_eq!(samples.get(name), Some(&value), "{name}: {samples:?}");
    }
}

#[test]
fn what_a_tool_was_refused_is_counted_by_kind_and_says_nothing_of_what_it_wanted() {
    let telemetry = Telemetry::start(TelemetryConfig::default()).unwrap();
    let denial = |kind: &str, count| Denial {
        kind: kind.into(),
        subject: CANARY.into(),
        reason: CANARY.into(),
        count,
    };
    let denials = vec![denial("network", 3), denial("file", 1), denial("of a later release", 2)];
    let mut journal = TestJournal::root();
    journal
        .of(operation(1), requested(1, 0, "tool `risk.score`", Start::Now))
        .of(operation(1), Body::Denied { server: "risk".into(), denials })
        .of(operation(1), resolved(outcome("tool"), 1));
    tell(&telemetry, run(1), &journal.records);
    let text = telemetry.metrics().encode();
    let samples = samples(&text);
    for (kind, count) in [("network", 3.0), ("file", 1.0), ("other", 2.0)] {
        let name = format!("dalsegno_tool_denials_total{{tool=\"risk.score\",kind=\"{kind}\"}}");
        assert_eq!(samples.get(&name), Some(&count), "{name}: {samples:?}");
    }
    assert!(!text.contains(CANARY));
}

#[test]
fn labels_are_bounded_whatever_tools_are_called() {
    let telemetry = Telemetry::start(TelemetryConfig::default()).unwrap();
    let mut journal = TestJournal::root();
    for number in 0..1000 {
        let label = format!("tool `t{number}`");
        journal
            .of(operation(number), requested(u64::from(number) + 1, 0, &label, Start::Now))
            .of(operation(number), resolved(outcome("tool"), 1));
    }
    tell(&telemetry, run(1), &journal.records);
    let samples = samples(&telemetry.metrics().encode());
    let tools = samples.keys().filter(|name| name.starts_with("dalsegno_tool_calls_total"));
    assert_eq!(tools.count(), 257);
    assert_eq!(samples["dalsegno_tool_calls_total{agent=\"triage\",tool=\"other\",code=\"ok\"}"], 744.0);
}

#[test]
fn failures_count_under_their_own_code_and_refused_calls_count() {
    let telemetry = Telemetry::start(TelemetryConfig::default()).unwrap();
    let returned = |value: serde_json::Value| Outcome::ToolReturned(serde_json::from_value(value).unwrap());
    let error = json!({"code": "http_error", "message": CANARY});
    let action = json!({"action": "actions[0]", "type": "api_call", "status": "failed", "error": error});
    let answered = |status: u16| {
        Outcome::ApiAnswered(
            serde_json::from_value(json!({"status": status, "body": CANARY, "attempts": 1})).unwrap(),
        )
    };
    let call = |name: &str, validation: Validation| {
        let (call_id, name, arguments) = (name.to_owned(), name.to_owned(), "{}".to_owned());
        ReplyPart::Call(CallRequest { call_id, name, arguments, validation: Some(validation) })
    };
    let valid = || Validation::Valid { arguments: json!({}) };
    let reply = vec![
        call("risk__score", valid()),
        call("risk__score", Validation::Malformed { message: CANARY.into() }),
        call("host__kill", valid()),
        call("no_such_tool", valid()),
    ];
    let reply = Outcome::ModelReplied(ModelReply::new(reply, StopReason::ToolCalls));
    let mut journal = TestJournal::root();
    journal
        .of(operation(1), requested(1, 0, "model completion", Start::Now))
        .of(operation(1), resolved(reply, 1))
        .of(operation(2), requested(2, 0, "tool `crm.find`", Start::Now))
        .of(operation(3), requested(2, 0, "POST https://api.example.com/x", Start::Now))
        .of(operation(4), requested(2, 1, "GET https://api.example.com/y", Start::Now))
        .of(operation(3), resolved(answered(503), 1))
        .of(operation(4), resolved(answered(404), 1))
        .of(operation(2), resolved(returned(json!({"is_error": true, "actions": [action]})), 1));
    let mind = json!({"model": {"name": "local"}, "prompt": "{{request.text}}"});
    let mut config =
        AgentConfig::new("triage".parse().unwrap(), Mind::Model(serde_json::from_value(mind).unwrap()));
    let tool = Tool::new("scores".into(), json!({"type": "object"}));
    config.tools.tools.insert("risk.score".parse().unwrap(), tool);
    config.tools.forbidden.insert("host.kill".parse().unwrap());
    let mut told = telemetry.run(run(1), run(1), Some(std::sync::Arc::new(config)));
    for (seq, record) in journal.records.iter().enumerate() {
        told.record(seq as u64, record, None);
    }
    let text = telemetry.metrics().encode();
    let samples = samples(&text);
    for (name, labels) in [
        ("tool_calls_total", "agent=\"triage\",tool=\"crm.find\",code=\"http_error\""),
        ("tool_calls_total", "agent=\"triage\",tool=\"risk.score\",code=\"invalid_arguments\""),
        ("tool_calls_total", "agent=\"triage\",tool=\"host__kill\",code=\"not_permitted\""),
        ("tool_calls_total", "agent=\"triage\",tool=\"unknown\",code=\"tool_not_found\""),
        ("tool_seconds_count", "agent=\"triage\",tool=\"crm.find\""),
        ("operations_total", "kind=\"http\",code=\"http_5xx\""),
        ("operations_total", "kind=\"http\",code=\"http_4xx\""),
    ] {
        let name = format!("dalsegno_{name}{{{labels}}}");
        assert_eq!(samples.get(&name), Some(&1.0), "{name}: {samples:?}");
    }
    assert!(!text.contains(CANARY));
}

#[test]
fn every_metric_has_its_type_and_help_once() {
    let text = Metrics::new().encode();
    let of = |keyword: &str| {
        let prefix = format!("# {keyword} ");
        let names = text.lines().filter_map(|line| line.strip_prefix(prefix.as_str()));
        names.map(|line| line.split(' ').next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let (types, helps) = (of("TYPE"), of("HELP"));
    assert_eq!(types, helps);
    assert_eq!(types.iter().collect::<std::collections::BTreeSet<_>>().len(), types.len());
    assert!(types.iter().all(|name| name.starts_with("dalsegno_") && !name.ends_with("_total")));
}

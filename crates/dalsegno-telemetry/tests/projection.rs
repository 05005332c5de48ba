//! Journals become spans, one to one.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod support;

use std::collections::BTreeSet;
use std::sync::Arc;

use dalsegno_core::{
    AgentConfig, CallRequest, EndedBy, FailureCode, Gate, LiveNews, LiveTokens, Mind, ModelCompletion,
    ModelMind, ModelSettings, Outcome, Price, Purpose, Request, Reserved, ResponseEnd, Timestamp, ToolCall,
    ToolChoice,
};
use dalsegno_store::{AttemptCause, Body, Created, MemoryStore, NewRun, Owner, Parent, Record, Start, Store};
use dalsegno_telemetry::{
    Content, Entry, Kind, ModelInfo, OperationKind, Projector, ProjectorOptions, Span, SpanId, Status,
    Subject, TraceId, Value, semconv,
};
use proptest::prelude::*;
use serde_json::json;

use support::journal::{
    CANARY, LABELS, TestJournal, attempted, failed, generate, lost, operation, outcome, requested, resolved,
    run, started,
};
use support::{feed, oracle, project};

fn named<'a>(spans: &'a [Span], name: &str) -> &'a Span {
    let mut found = spans.iter().filter(|span| span.name == name);
    let span = found.next().unwrap_or_else(|| panic!("no span `{name}`: {:?}", names(spans)));
    assert!(found.next().is_none(), "two spans `{name}`");
    span
}

fn names(spans: &[Span]) -> Vec<&str> {
    spans.iter().map(|span| span.name.as_str()).collect()
}

fn events(span: &Span) -> Vec<&str> {
    span.events.iter().map(|event| event.name).collect()
}

#[test]
fn a_run_with_a_model_and_a_tool_that_is_tried_twice_has_these_spans() {
    let mut journal = TestJournal::root();
    journal
        .of(operation(1), requested(1, 0, "model completion", Start::Now))
        .of(operation(1), resolved(outcome("model completion"), 1))
        .of(operation(2), requested(2, 0, "tool `risk.score`", Start::Now))
        .of(operation(2), attempted(2, lost(FailureCode::Timeout)))
        .of(operation(2), resolved(outcome("tool"), 2))
        .completed();
    let spans = project(run(1), &journal.records);
    oracle::check(run(1), &journal.records, &spans);
    assert_eq!(
        names(&spans),
        [
            "chat",
            "step 1",
            "attempt 1",
            "attempt 2",
            "execute_tool risk.score",
            "step 2",
            "invoke_agent triage"
        ]
    );
    assert_eq!(named(&spans, "chat").kind, Kind::Client);
    assert_eq!(
        named(&spans, "chat").attribute(semconv::GEN_AI_USAGE_INPUT_TOKENS),
        Some(&Value::Number(100))
    );
    let first = named(&spans, "attempt 1");
    assert_eq!(first.status, Status::Error("timeout".into()));
    assert_eq!(first.attribute(semconv::DALSEGNO_ATTEMPT_POSSIBLY_RECEIVED), Some(&Value::Flag(true)));
    assert_eq!(named(&spans, "attempt 2").status, Status::Unset);
    let tool = named(&spans, "execute_tool risk.score");
    assert_eq!(events(tool), [semconv::EVENT_ATTEMPT]);
    assert_eq!(tool.attribute(semconv::DALSEGNO_ACTIVE_MS), Some(&Value::Number(11)));
}

#[test]
fn a_call_that_its_server_interrupts_with_a_question_is_one_span_with_two_attempts() {
    let gate = Gate::Elicitation { requests: [("which".into(), json!(CANARY))].into(), request_state: None };
    let mut journal = TestJournal::root();
    journal
        .of(operation(1), requested(1, 0, "tool `risk.record`", Start::Now))
        .of(operation(1), Body::Waiting { gate })
        .of(
            operation(1),
            Body::Answered { answer: dalsegno_core::Answer::Supplied { value: json!(CANARY), by: None } },
        )
        .of(operation(1), attempted(2, AttemptCause::Answered))
        .of(operation(1), resolved(outcome("tool"), 2))
        .completed();
    let spans = project(run(1), &journal.records);
    let tool = named(&spans, "execute_tool risk.record");
    assert_eq!(events(tool), [semconv::EVENT_WAITING, semconv::EVENT_ANSWERED, semconv::EVENT_ATTEMPT]);
    assert_eq!(names(&spans).iter().filter(|name| name.starts_with("attempt ")).count(), 2);
}

#[test]
fn a_gate_is_an_event_and_waiting_for_it_is_no_attempt() {
    let mut journal = TestJournal::root();
    journal
        .of(operation(1), requested(1, 0, "tool `risk.record`", Start::Deferred))
        .of(operation(1), Body::Waiting { gate: Gate::Approval })
        .of_run(Body::Suspended { waiting_for: Vec::new(), wake_at: None });
    let mut before = project(run(1), &journal.records);
    assert_eq!(before, []);
    let answer = dalsegno_core::Answer::Approved { edited: None, reason: None, by: None };
    journal
        .of(operation(1), Body::Answered { answer })
        .of(operation(1), attempted(1, AttemptCause::Answered))
        .of(operation(1), resolved(outcome("tool"), 1))
        .completed();
    before = project(run(1), &journal.records);
    let tool = named(&before, "execute_tool risk.record");
    assert_eq!(events(tool), [semconv::EVENT_WAITING, semconv::EVENT_ANSWERED, semconv::EVENT_ATTEMPT]);
    assert_eq!(
        events(named(&before, "invoke_agent triage")),
        [semconv::EVENT_SUSPENDED, semconv::EVENT_RESUMED]
    );
    let Subject::Operation(facts) = &tool.subject else { panic!("{tool:?}") };
    assert_eq!(facts.gates, ["approval"]);
    assert_eq!(before.len(), 3);
}

#[test]
fn what_its_run_ended_without_is_abandoned_and_its_late_outcome_has_a_span() {
    let mut journal = TestJournal::root();
    journal
        .of(operation(1), requested(1, 0, "tool `risk.record`", Start::Now))
        .of_run(Body::signalled(dalsegno_core::Signal::Cancel))
        .completed()
        .of(operation(1), Body::late(failed(FailureCode::Indeterminate)));
    let spans = project(run(1), &journal.records);
    oracle::check(run(1), &journal.records, &spans);
    let tool = named(&spans, "execute_tool risk.record");
    assert_eq!(tool.attribute(semconv::DALSEGNO_STATUS), Some(&"abandoned".into()));
    let late = named(&spans, "late execute_tool risk.record");
    assert_eq!(late.parent, Some(tool.id));
    assert_eq!(late.status, Status::Error("indeterminate".into()));
}

#[test]
fn the_turns_of_a_call_are_spans_of_its_run() {
    let began = |response: &str| LiveNews::ResponseBegan { response: response.into(), command: None };
    let ended = |response: &str, end| LiveNews::ResponseEnded { response: response.into(), end };
    let asked = LiveNews::Asked {
        response: "a".into(),
        call: CallRequest {
            call_id: "c1".into(),
            name: "risk__score".into(),
            arguments: "{}".into(),
            validation: None,
        },
    };
    let tokens = LiveTokens { input: 70, output: 30, cost_nano_usd: Some(9), ..LiveTokens::default() };
    let conversed = |news: &[LiveNews]| Body::Conversed { news: news.to_vec() };
    let mut journal = TestJournal::root();
    journal
        .of_run(conversed(&[LiveNews::Connected, LiveNews::SpeechStarted]))
        .of_run(conversed(&[
            LiveNews::SpeechStopped,
            LiveNews::Heard { text: "A table?".into() },
            began("a"),
        ]))
        .of_run(conversed(&[asked]))
        .of(operation(1), requested(1, 0, "tool `risk.score`", Start::Now))
        .of_run(conversed(&[
            LiveNews::Counted { response: "a".into(), tokens },
            ended("a", ResponseEnd::Completed),
        ]))
        .of(operation(1), resolved(outcome("tool"), 1))
        .of_run(conversed(&[began("b"), LiveNews::Said { text: "At eight.".into(), heard_ms: None }]))
        .of_run(conversed(&[LiveNews::Lost { reason: CANARY.into() }]))
        .of_run(conversed(&[LiveNews::Attached, began("c"), LiveNews::SpeechStarted]))
        .of_run(conversed(&[ended("c", ResponseEnd::Interrupted), ended("b", ResponseEnd::Completed)]))
        .of_run(conversed(&[LiveNews::Ended { by: EndedBy::Caller, reason: CANARY.into() }]))
        .completed();
    let options = ProjectorOptions { content: Content::DEFAULT_ON, ..ProjectorOptions::default() };
    let spans = feed(Projector::new(run(1), Arc::new(options), None), &journal.records);
    oracle::check(run(1), &journal.records, &spans);
    let names = names(&spans);
    assert_eq!(
        names,
        [
            "caller",
            "chat",
            "execute_tool risk.score",
            "chat",
            "chat",
            "caller",
            "step 1",
            "invoke_agent triage"
        ]
    );
    let of = |place: usize, attribute: &str| match spans[place].attribute(attribute) {
        Some(Value::Text(text)) => text.clone(),
        Some(Value::Texts(texts)) => texts.join(" "),
        Some(Value::Number(number)) => number.to_string(),
        other => format!("{other:?}"),
    };
    assert_eq!(of(1, semconv::GEN_AI_RESPONSE_FINISH_REASONS), "tool_call");
    assert_eq!(of(1, semconv::GEN_AI_USAGE_INPUT_TOKENS), "70");
    assert!(of(1, semconv::GEN_AI_INPUT_MESSAGES).contains("A table?"));
    assert!(of(3, semconv::GEN_AI_OUTPUT_MESSAGES).contains("At eight."));
    let statuses = [1, 3, 4].map(|place| of(place, semconv::DALSEGNO_STATUS));
    assert_eq!(statuses, ["completed", "lost", "interrupted"]);
    assert_eq!(spans[3].status, Status::Error("lost".into()));
    let call = named(&spans, "invoke_agent triage");
    let told = [semconv::EVENT_LINE_LOST, semconv::EVENT_LINE_ATTACHED, semconv::EVENT_CALL_ENDED];
    assert_eq!(events(call), told);
}

#[test]
fn every_kind_of_request_is_known_by_its_label() {
    let requests = [
        (Request::ToolCall(Arc::new(call())), OperationKind::Tool, Some("risk.score")),
        (Request::ModelCompletion(Arc::new(completion(0))), OperationKind::Chat, None),
        (
            Request::Timer(dalsegno_core::Timer { until: Timestamp::from_millis(1) }),
            OperationKind::Timer,
            None,
        ),
        (
            Request::Input(Arc::new(dalsegno_core::Input { question: "?".into(), schema: None })),
            OperationKind::Question,
            None,
        ),
        (
            Request::MemorySearch(Arc::new(dalsegno_core::MemorySearch {
                query: "q".into(),
                limit: 1,
                min_score: 0.0,
            })),
            OperationKind::MemorySearch,
            None,
        ),
        (
            Request::MemoryCreate(Arc::new(dalsegno_core::MemoryCreate {
                entity: "e".into(),
                entity_type: "t".into(),
                content: "c".into(),
                relations: Vec::new(),
            })),
            OperationKind::MemoryCreate,
            None,
        ),
        (
            Request::MemoryTraverse(Arc::new(dalsegno_core::MemoryTraverse {
                from: "e".into(),
                relation: None,
                depth: 1,
                limit: 1,
            })),
            OperationKind::MemoryTraverse,
            None,
        ),
        (
            Request::AgentCall(Arc::new(dalsegno_core::AgentCall {
                agent: "scout".parse().unwrap(),
                text: "t".into(),
                data: json!(null),
                budget: dalsegno_core::Limits::default().budget(),
            })),
            OperationKind::Agent,
            Some("scout"),
        ),
        (
            Request::Transfer(Arc::new(
                serde_json::from_value(json!({ "target": "tel:+33140000000" })).unwrap(),
            )),
            OperationKind::Transfer,
            None,
        ),
    ];
    for (request, kind, object) in requests {
        // A new kind of request must be added above.
        match &request {
            Request::ModelCompletion(_)
            | Request::MemorySearch(_)
            | Request::MemoryCreate(_)
            | Request::MemoryTraverse(_)
            | Request::ToolCall(_)
            | Request::ApiCall(_)
            | Request::Email(_)
            | Request::Transfer(_)
            | Request::AgentCall(_)
            | Request::Input(_)
            | Request::Timer(_) => {}
        }
        let mut journal = TestJournal::root();
        journal.of(operation(1), requested(1, 0, &request.label(), Start::Now)).completed();
        let spans = project(run(1), &journal.records);
        let Subject::Operation(facts) = &spans[0].subject else { panic!("{spans:?}") };
        assert_eq!((facts.kind, facts.object.as_deref()), (kind, object));
    }
    assert_eq!(LABELS.len(), 8);
}

fn call() -> ToolCall {
    ToolCall { tool_name: "risk.score".parse().unwrap(), parameters: json!({ "of": CANARY }), input: None }
}

fn completion(fallback: u32) -> ModelCompletion {
    ModelCompletion {
        new_from: 0,
        entries: 1,
        chain: dalsegno_core::Digest::from_bytes([3; 32]),
        tool_choice: ToolChoice::Auto,
        fallback,
        max_output_tokens: None,
        reserved: Reserved::default(),
        purpose: Purpose::Reply,
    }
}

fn config() -> AgentConfig {
    let priced =
        |name: &str, input| ModelSettings { price: Some(Price::new(input, 0)), ..ModelSettings::named(name) };
    let mind = ModelMind {
        model: priced("fast", 1_000_000),
        instructions: None,
        prompt: template(),
        recall: None,
        fallback: vec![priced("slow", 3_000_000)],
        output: None,
        context: None,
    };
    AgentConfig::new("triage".parse().unwrap(), Mind::Model(mind))
}

fn template<T: serde::de::DeserializeOwned>() -> T {
    serde_json::from_value(json!("{{request.text}}")).unwrap()
}

#[test]
fn a_model_call_names_the_model_that_was_asked_and_what_it_cost() {
    let mut journal = TestJournal::root();
    journal
        .of(operation(1), requested(1, 0, "model completion", Start::Now))
        .of(operation(1), resolved(failed(FailureCode::Unavailable), 1))
        .of(operation(2), requested(2, 0, "model completion", Start::Now))
        .of(operation(2), resolved(outcome("model completion"), 1))
        .completed();
    let models = [("slow".to_owned(), ModelInfo { provider: "openai".into(), model: "gpt-x".into() })];
    let options = ProjectorOptions { models: models.into(), ..ProjectorOptions::default() };
    let mut projector = Projector::new(run(1), Arc::new(options), Some(Arc::new(config())));
    let asked =
        [Request::ModelCompletion(completion(0).into()), Request::ModelCompletion(completion(1).into())];
    let mut spans = Vec::new();
    for (seq, record) in journal.records.iter().enumerate() {
        let request = match record.body {
            Body::Requested { step, .. } => Some(&asked[usize::try_from(step).unwrap() - 1]),
            _ => None,
        };
        spans.extend(projector.observe(Entry::new(seq as u64, record).with_request(request)));
    }
    for span in &spans {
        let names: Vec<&str> = span.attributes.iter().map(|(name, _)| *name).collect();
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len(), "twice: {names:?}");
    }
    // A model that the workspace does not name is shown by its name in the configuration.
    assert_eq!(named(&spans, "chat fast").attribute(semconv::GEN_AI_PROVIDER_NAME), None);
    let slow = named(&spans, "chat gpt-x");
    assert_eq!(slow.attribute(semconv::GEN_AI_PROVIDER_NAME), Some(&"openai".into()));
    assert_eq!(slow.attribute(semconv::DALSEGNO_FALLBACK), Some(&Value::Number(1)));
    assert_eq!(slow.attribute(semconv::DALSEGNO_COST_NANO_USD), Some(&Value::Number(300_000)));
    assert_eq!(events(named(&spans, "invoke_agent triage")), [semconv::EVENT_FALLBACK]);
    // Without the requests the ids are the same.
    let without = Projector::new(run(1), Arc::default(), None);
    let ids = |spans: &[Span]| spans.iter().map(|span| span.id).collect::<Vec<_>>();
    assert_eq!(ids(&feed(without, &journal.records)), ids(&spans));
}

#[test]
fn child_runs_hang_below_the_operations_that_they_are() {
    let below = |run, number| Some(Parent { run, operation: operation(number) });
    let mut journal = TestJournal::new(started(below(run(1), 5), 1));
    journal.completed();
    let child = &project(run(2), &journal.records)[0];
    assert_eq!(
        (child.trace, child.parent),
        (TraceId::of(run(1)), Some(SpanId::of_operation(run(1), operation(5))))
    );

    let mut journal = TestJournal::new(started(below(run(2), 6), 2));
    journal.completed();
    let projector = Projector::new(run(3), Arc::default(), None).below(run(1));
    let deeper = &feed(projector, &journal.records)[0];
    assert_eq!(
        (deeper.trace, deeper.parent),
        (TraceId::of(run(1)), Some(SpanId::of_operation(run(2), operation(6))))
    );

    // Nobody said what is above: a trace of its own, which has no parent that it lacks.
    let alone = &project(run(3), &journal.records)[0];
    assert_eq!((alone.trace, alone.parent), (TraceId::of(run(3)), None));
    assert_eq!(alone.attribute(semconv::DALSEGNO_PARENT_RUN), Some(&run(2).to_string().into()));
}

#[test]
fn a_run_of_a_session_is_linked_to_the_one_before() {
    let mut started = started(None, 0);
    started.predecessor = Some(run(7));
    let mut journal = TestJournal::new(started);
    journal.completed();
    let spans = project(run(1), &journal.records);
    let links: Vec<_> = spans[0].links.iter().map(|link| (link.trace, link.span)).collect();
    assert_eq!(links, [(TraceId::of(run(7)), SpanId::of_run(run(7)))]);
}

#[test]
fn the_events_of_a_span_are_bounded() {
    let mut journal = TestJournal::root();
    for _ in 0..200 {
        journal.of_run(Body::Rebound { server: "risk".into(), digest: "d".into() });
    }
    journal.completed();
    let spans = project(run(1), &journal.records);
    assert_eq!((spans[0].events.len(), spans[0].dropped_events), (128, 72));
}

#[test]
fn records_that_fit_nothing_harm_nothing() {
    let mut journal = TestJournal::root();
    journal
        .of(operation(1), resolved(Outcome::TimerFired, 1))
        .of(operation(1), attempted(2, AttemptCause::Recovered))
        .of(operation(1), Body::Waiting { gate: Gate::Input })
        .of_run(resolved(Outcome::TimerFired, 1))
        .of_run(requested(1, 0, "tool `x`", Start::Now))
        .of(operation(1), requested(1, 0, "something `new`", Start::Now))
        .of(operation(2), Body::late(Outcome::TimerFired))
        .of_run(Body::Started(started(None, 0)))
        .completed()
        .completed();
    let spans = project(run(1), &journal.records);
    assert_eq!(names(&spans), ["late unknown", "unknown", "step 1", "invoke_agent triage"]);
    // The beginning of the journal is missing.
    assert_eq!(feed(Projector::new(run(1), Arc::default(), None), &journal.records[1..]), []);
}

#[tokio::test]
async fn a_journal_that_was_stored_gives_the_spans_of_the_one_that_was_live() {
    let store = MemoryStore::new();
    let owner = Owner::in_process();
    let records = generate(11);
    let Body::Started(first) = &records[0].body else { panic!() };
    let digest = dalsegno_core::Digest::from_bytes([2; 32]);
    let new = NewRun::new(run(1), "{}", digest, owner.id(), records[0].at, first.clone());
    let Created::New(mut lease) = store.create(new).await.unwrap() else { panic!() };
    store.append(&mut lease, records[1..].to_vec()).await.unwrap();
    let stored: Vec<Record> = store.read(run(1), 0).await.unwrap();
    let mut projector = Projector::new(run(1), Arc::default(), None);
    let spans: Vec<Span> = stored.iter().flat_map(|record| projector.observe(record.into())).collect();
    assert_eq!(spans, project(run(1), &records));
    assert!(spans.len() > 3);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_journal_has_its_spans_one_to_one(seed: u64) {
        let records = generate(seed);
        oracle::check(run(1), &records, &project(run(1), &records));
    }

    #[test]
    fn a_process_that_takes_over_anywhere_goes_on_with_the_same_spans(seed: u64, place: prop::sample::Index) {
        let records = generate(seed);
        let whole = project(run(1), &records);
        let place = place.index(records.len());
        let mut first = Projector::new(run(1), Arc::default(), None);
        let mut spans: Vec<Span> = Vec::new();
        for (seq, record) in records[..place].iter().enumerate() {
            spans.extend(first.observe(Entry::new(seq as u64, record)));
        }
        // The second process reads what the first one wrote, and a record or two twice.
        let mut second = Projector::new(run(1), Arc::default(), None);
        for (seq, record) in records[..place].iter().enumerate() {
            second.observe(Entry::new(seq as u64, record));
        }
        for (seq, record) in records.iter().enumerate().skip(place.saturating_sub(2)) {
            spans.extend(second.observe(Entry::new(seq as u64, record)));
        }
        prop_assert_eq!(spans, whole);
    }

    #[test]
    fn spans_carry_only_names_that_are_pinned_and_no_content(seed: u64) {
        let known: BTreeSet<&str> = semconv::CONVENTIONAL.iter().chain(semconv::OWN).copied().collect();
        for span in project(run(1), &generate(seed)) {
            let events = span.events.iter();
            prop_assert!(events.clone().all(|event| semconv::EVENTS.contains(&event.name)));
            let attributes = span.attributes.iter().chain(events.flat_map(|event| &event.attributes));
            for (name, _) in attributes {
                prop_assert!(known.contains(name), "{name}");
            }
            let own: Vec<&str> = span.attributes.iter().map(|(name, _)| *name).collect();
            prop_assert_eq!(own.iter().collect::<BTreeSet<_>>().len(), own.len(), "twice: {:?}", own);
            prop_assert!(!format!("{span:?}").contains(CANARY), "{span:?}");
        }
    }

    #[test]
    fn content_that_is_on_is_bounded(seed: u64) {
        let options = ProjectorOptions { content: Content::On { max_bytes: 8 }, ..ProjectorOptions::default() };
        let projector = Projector::new(run(1), Arc::new(options), None);
        let spans = feed(projector, &generate(seed));
        for span in &spans {
            prop_assert!(!format!("{span:?}").contains(CANARY), "{span:?}");
        }
    }
}

#[test]
fn content_that_is_on_is_there() {
    let mut journal = TestJournal::root();
    journal
        .of(operation(1), requested(1, 0, "model completion", Start::Now))
        .of(operation(1), resolved(outcome("model completion"), 1))
        .of(operation(2), requested(2, 0, "tool `risk.score`", Start::Now))
        .of(operation(2), resolved(outcome("tool"), 1))
        .of(operation(3), requested(3, 0, "memory search", Start::Now))
        .of(operation(3), resolved(outcome("memory search"), 1))
        .of(operation(4), requested(4, 0, "question", Start::Now))
        .of(operation(4), resolved(outcome("question"), 1))
        .completed();
    let options = ProjectorOptions { content: Content::DEFAULT_ON, ..ProjectorOptions::default() };
    let mut projector = Projector::new(run(1), Arc::new(options), None);
    let request = Request::ToolCall(Arc::new(call()));
    let spans: Vec<Span> = (0u64..)
        .zip(&journal.records)
        .flat_map(|(seq, record)| projector.observe(Entry::new(seq, record).with_request(Some(&request))))
        .collect();
    for (span, attribute) in [
        ("invoke_agent triage", semconv::GEN_AI_INPUT_MESSAGES),
        ("invoke_agent triage", semconv::GEN_AI_OUTPUT_MESSAGES),
        ("chat", semconv::GEN_AI_OUTPUT_MESSAGES),
        ("execute_tool risk.score", semconv::GEN_AI_TOOL_CALL_ARGUMENTS),
        ("execute_tool risk.score", semconv::GEN_AI_TOOL_CALL_RESULT),
        ("search_memory", semconv::GEN_AI_MEMORY_RECORDS),
        ("question", semconv::DALSEGNO_GIVEN),
    ] {
        let Some(Value::Text(text)) = named(&spans, span).attribute(attribute) else {
            panic!("`{span}` has no {attribute}")
        };
        assert!(text.contains(CANARY), "{span} {attribute}: {text}");
    }
    let chat = format!("{:?}", named(&spans, "chat"));
    assert!(!chat.contains("thinking"), "{chat}");
}

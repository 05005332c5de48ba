//! The workspace at the top of this repository: it loads, and its plan does what its comments say.

use std::path::Path;

use dalsegno_core::{
    AgentAction, AgentConfig, AgentRequest, AgentState, Answer, Event, GateState, MemoryCreated, MemoryHit,
    Operation, Outcome, Request, RunId, Status, Timestamp, ToolReturn, execute_agent_step,
};
use dalsegno_expr::Template;
use dalsegno_workspace::{Catalogue, CatalogueTool, Code, Workspace, builtin_tools};
use serde_json::{Value, json};

/// The tools of the example's server, by the names and annotations that it has.
fn catalogue() -> Catalogue {
    let mut catalogue = builtin_tools();
    for (name, read_only) in [("risk.score", true), ("risk.explain", true), ("risk.record", false)] {
        let tool = CatalogueTool {
            read_only: Some(read_only),
            trusted: true,
            ..CatalogueTool::new(name, json!({ "type": "object" }))
        };
        catalogue.insert(name.parse().unwrap(), tool);
    }
    catalogue
}

/// Loads the workspace as if its tool server were built: everything else must be in order.
fn config(agent: &str) -> AgentConfig {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = tempfile::tempdir().unwrap();
    for file in ["dalsegno.toml", "agents", "tests/scripts"] {
        copy(&root.join(file), &folder.path().join(file));
    }
    let module = folder.path().join("tool-servers/target/wasm32-wasip2/release/risk.wasm");
    std::fs::create_dir_all(module.parent().unwrap()).unwrap();
    std::fs::write(module, "").unwrap();
    let loaded = Workspace::load(folder.path());
    assert_eq!(loaded.diagnostics, []);
    let workspace = loaded.workspace.unwrap();
    let agent = &workspace.agents[&agent.parse().unwrap()];
    assert_eq!(agent.servers(&workspace.settings).into_iter().collect::<Vec<_>>(), ["risk"]);
    agent.resolve(&catalogue()).unwrap()
}

fn copy(from: &Path, to: &Path) {
    if from.is_dir() {
        for entry in from.read_dir().unwrap() {
            let entry = entry.unwrap();
            copy(&entry.path(), &to.join(entry.file_name()));
        }
    } else {
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        std::fs::copy(from, to).unwrap();
    }
}

/// What the world answers.
fn outcome(request: &Request, risk: f64) -> Outcome {
    let value = match request {
        Request::MemorySearch(_) => {
            return Outcome::MemoryFound(vec![MemoryHit {
                entity: "INC-1 Disk full".to_owned(),
                entity_type: "incident".to_owned(),
                text: "Logs were not rotated.".to_owned(),
                score: 0.8,
                metadata: Value::Null,
            }]);
        }
        Request::MemoryCreate(create) => {
            return Outcome::MemoryCreated(MemoryCreated {
                entity: create.entity.clone(),
                observation: "1".to_owned(),
                duplicate: false,
            });
        }
        Request::ToolCall(call) => match call.tool_name.as_str() {
            "risk.score" => json!({ "value": risk, "level": "some", "factors": [] }),
            "risk.explain" => json!({ "sentences": ["First.", "Second."] }),
            "risk.record" => json!({ "path": "/incidents/escalations.jsonl", "line_number": 1 }),
            other => panic!("unexpected tool {other}"),
        },
        Request::ModelCompletion(_)
        | Request::MemoryTraverse(_)
        | Request::ApiCall(_)
        | Request::Email(_)
        | Request::Transfer(_)
        | Request::AgentCall(_)
        | Request::Input(_)
        | Request::Timer(_) => panic!("the example has no such step"),
    };
    Outcome::ToolReturned(ToolReturn::structured(value))
}

struct Run {
    answer: String,
    /// What was asked for, in order, with what a person was asked in brackets.
    trace: Vec<String>,
}

/// Runs the plan; everything that is not gated is answered first.
fn run(risk: f64, answer: &Answer) -> Run {
    let config = config("triage");
    let now = Timestamp::from_millis(0);
    let mut trace = Vec::new();
    let mut state = AgentState::start(RunId::from_bytes([7; 16]), AgentRequest::text("disk full"), now);
    loop {
        let action = execute_agent_step(&config, state).unwrap();
        if let AgentAction::Complete { response, .. } = &action {
            assert_eq!(response.status, Status::Completed, "{:?}", response.error);
            return Run { answer: response.answer.clone().unwrap(), trace };
        }
        let (open, continuation) = action.into_operations();
        state = continuation;
        let waiting = state.pending().iter().map(|pending| &pending.operation);
        let waiting = waiting.filter(|operation| matches!(operation.gate, GateState::Waiting(_)));
        let waiting: Vec<Operation> = waiting.cloned().collect();
        for operation in &open {
            trace.push(operation.request.label());
            state.resume(Event::outcome(now, operation.id, outcome(&operation.request, risk))).unwrap();
        }
        if open.is_empty() {
            for operation in &waiting {
                trace.push(format!("[{}]", operation.request.label()));
                state.resume(Event::answer(now, operation.id, answer.clone())).unwrap();
            }
        }
    }
}

fn approved() -> Answer {
    Answer::Approved { edited: None, reason: None, by: None }
}

#[test]
fn both_agents_of_the_example_are_ready_to_run() {
    for agent in ["triage", "responder"] {
        assert_eq!(config(agent).name.as_str(), agent);
    }
    assert!(config("responder").tools.tools[&"risk.record".parse().unwrap()].approve);
}

#[test]
fn without_its_built_server_the_example_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for file in ["dalsegno.toml", "agents", "tests/scripts"] {
        copy(&root.join(file), &folder.path().join(file));
    }
    let loaded = Workspace::load(folder.path());
    assert_eq!(loaded.diagnostics.len(), 1, "{:?}", loaded.diagnostics);
    assert_eq!(loaded.diagnostics[0].code, Code::MissingFile);
    assert_eq!(loaded.diagnostics[0].help.as_deref(), Some("build it, or correct the path"));
}

#[test]
fn a_low_risk_is_explained_and_nobody_is_asked() {
    let run = run(0.2, &approved());
    assert_eq!(run.trace, ["memory search", "tool `risk.score`", "tool `risk.explain`", "memory create"]);
    assert!(run.answer.contains("Risk 0.2"), "{}", run.answer);
    assert!(run.answer.contains("no escalation needed"), "{}", run.answer);
}

#[test]
fn a_high_risk_waits_for_a_person_while_it_is_explained() {
    let run = run(0.9, &approved());
    assert_eq!(
        run.trace,
        [
            "memory search",
            "tool `risk.score`",
            "tool `risk.explain`",
            "[tool `risk.record`]",
            "tool `risk.record`",
            "memory create"
        ]
    );
    assert_eq!(
        run.answer,
        "Risk 0.9 (some). First. Second.\n\nDecision: escalated.\n\nMost similar: INC-1 Disk full. Logs were not rotated."
    );
}

#[test]
fn a_denied_escalation_is_part_of_the_answer() {
    let run = run(0.9, &Answer::Denied { reason: Some("a drill".to_owned()), by: None });
    assert!(run.trace.iter().all(|label| label != "tool `risk.record`"), "{:?}", run.trace);
    assert!(run.answer.contains("Decision: not escalated, a drill."), "{}", run.answer);
}

/// The script reads the results by the names of the tools; see the scripted provider.
#[test]
fn the_script_speaks_about_what_the_tools_answered() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let script = std::fs::read_to_string(root.join("tests/scripts/responder.toml")).unwrap();
    let script: toml::Table = script.parse().unwrap();
    let replies = script["replies"].as_array().unwrap();
    let render = |template: &toml::Value, scope: Value| {
        let template = Template::parse(template.as_str().unwrap()).unwrap();
        template.render(scope.as_object().unwrap()).unwrap()
    };
    let results = |value: f64| {
        json!({
            "risk.score": { "value": value, "level": "some" },
            "memory.search": { "hits": [{ "entity": "INC-1 Disk full" }] },
        })
    };
    let arguments = &replies[1]["calls"][0]["arguments"];
    assert_eq!(render(&arguments["decision"], json!({ "results": results(0.9) })), "escalate");
    assert_eq!(render(&arguments["decision"], json!({ "results": results(0.2) })), "watch");
    assert_eq!(render(&arguments["decision"], json!({})), "watch");
    assert_eq!(render(&arguments["risk"], json!({ "results": results(0.9) })), 0.9);
    assert_eq!(
        render(&replies[2]["text"], json!({ "results": results(0.9), "last": { "line_number": 1 } })),
        "Risk 0.9 (some), 1 similar incidents, most similar: INC-1 Disk full.\n\nRecorded."
    );
    assert_eq!(
        render(&replies[2]["text"], json!({ "results": {}, "last": { "error": { "message": "a drill" } } })),
        "Risk  (), 0 similar incidents, most similar: none.\n\nNot recorded: a drill"
    );
}

//! The context of a session, which child runs work in with the run that called them.

use dalsegno_core::{AgentRequest, EffectClass, Status};
use dalsegno_runtime::{ForkOptions, RunEnd, RunReport, Settlement, StartOptions};
use dalsegno_store::RunFilter;
use serde_json::{Value, json};

use crate::support::{Behaviour, World, answer, waits};

/// A workspace whose agents keep notes by the tool `note`, and agent `b` a count of its own by `count`.
fn world(a: &str, b: &str) -> World {
    let agent = |steps: &str| format!("[tools]\nallow = [\"*\"]\n{steps}");
    let world = World::new(&agent(a)).agent("b", &agent(b));
    std::fs::create_dir(world.path().join("tools")).unwrap();
    world
        .document(&json!({
            "name": "note",
            "description": "Keeps a note.",
            "parameters": [{"name": "text", "type": "string", "required": true}],
            "actions": [{"type": "context.set", "path": "workflow.notes[+]", "value": "params.text"}]
        }))
        .document(&json!({
            "name": "count",
            "description": "Counts the calls of agent b.",
            "actions": [
                {"type": "context.set", "path": "agents.b.calls", "value": "(agents.b?.calls ?? 0) + 1"},
                {"type": "respond", "message": "call {{agents.b.calls}}"}
            ]
        }))
}

impl World {
    fn document(self, document: &Value) -> Self {
        let name = document["name"].as_str().unwrap();
        std::fs::write(self.path().join(format!("tools/{name}.json")), document.to_string()).unwrap();
        self
    }

    /// Says that every run in the store replays to what it came to.
    async fn replays(&self) {
        let engine = self.engine().await;
        for run in engine.journal().runs(&RunFilter::default()).await.unwrap() {
            let replay = engine.journal().replay(run.run).await.unwrap();
            assert!(replay.identical, "{replay:?}");
        }
    }
}

fn note(text: &str) -> String {
    format!("[[steps]]\ntool = \"note\"\nwith = {{ text = \"{text}\" }}\n")
}

const CALL: &str = "[[steps]]\nid = \"b\"\nagent = \"b\"\ninput = \"go\"\n";
const TELL: &str = "[[steps]]\nrespond = \"{{workflow.notes}}\"\n";

fn status(report: &RunReport) -> Status {
    let RunEnd::Ended(response) = &report.end else { panic!("{report:?}") };
    response.status
}

#[tokio::test]
async fn an_agent_reads_what_its_caller_wrote_and_the_caller_what_the_agent_wrote() {
    let world = world(
        &format!(
            "{}{CALL}[[steps]]\nrespond = \"{{{{steps.b}}}} then {{{{workflow.notes}}}}\"\n",
            note("one")
        ),
        &format!("{}{TELL}", note("two")),
    );
    let report = world.run("go").await;
    assert_eq!(answer(&report), r#"["one","two"] then ["one","two"]"#);
    let RunEnd::Ended(response) = &report.end else { panic!("{report:?}") };
    assert!(response.writes.is_empty(), "nobody has to be told of what a run of its own wrote");
    world.replays().await;
}

#[tokio::test]
async fn agents_that_run_at_the_same_time_read_what_was_there_before_and_append_in_order() {
    let world = world(
        &format!(
            "{}[[steps]]\nid = \"all\"\nfor_each = \"[1, 2, 3]\"\nconcurrency = 3\nagent = \"b\"\ninput = \"{{{{item}}}}\"\n\
             [[steps]]\nrespond = \"{{{{steps.all}}}} {{{{workflow.notes}}}}\"\n",
            note("0")
        ),
        &format!("{}{TELL}", note("{{request.text}}")),
    );
    let report = world.run("go").await;
    assert_eq!(answer(&report), r#"[["0","1"],["0","2"],["0","3"]] ["0","1","2","3"]"#);
    world.replays().await;
}

#[tokio::test]
async fn an_agent_finds_again_what_it_keeps_for_itself() {
    let twice = format!("{CALL}[[steps]]\nid = \"c\"\nagent = \"b\"\ninput = \"go\"\n");
    let world = world(
        &format!("{twice}[[steps]]\nrespond = \"{{{{steps.b}}}}, {{{{steps.c}}}}\"\n"),
        "[[steps]]\nid = \"n\"\ntool = \"count\"\n[[steps]]\nrespond = \"done\"\n",
    );
    let report = world.run("go").await;
    assert_eq!(answer(&report), "call 1\n\ndone, call 2\n\ndone");
    let state = world.engine().await.journal().inspect(report.run, None).await.unwrap().state;
    assert_eq!(state.session().agents(), &json!({"b": {"calls": 2}}));
    world.replays().await;
}

#[tokio::test]
async fn what_an_agent_wrote_is_kept_when_it_hands_over_and_when_it_fails() {
    let world = world(
        &format!("{CALL}on_failure = \"report\"\n{TELL}"),
        &format!("{}[[steps]]\nhandoff = \"c\"\n", note("b")),
    );
    let world = world.agent(
        "c",
        &format!(
            "[tools]\nallow = [\"*\"]\n{}[[steps]]\nid = \"it\"\ntool = \"local.it\"\n{TELL}",
            note("c")
        ),
    );
    let failing = world.tool("local.it", EffectClass::Read, Behaviour::Error("no"));
    assert_eq!(answer(&failing.run("go").await), r#"["b","c"]"#);
    failing.replays().await;
}

#[tokio::test]
async fn what_an_agent_wrote_that_a_tool_called_counts_as_the_tools() {
    // A tool has agent `b` work; what it needs after that is there or not.
    let document = json!({
        "name": "delegate",
        "description": "Has another agent work.",
        "parameters": [{"name": "word", "type": "string"}],
        "actions": [
            {"type": "tool", "name": "agents.b", "arguments": {"text": "go"}},
            {"type": "validate", "rules": [{"field": "params.word", "rule": "required"}]}
        ]
    });
    for (word, kept) in [("yes", json!(["b"])), ("", Value::Null)] {
        let world = world("", &format!("{}[[steps]]\nrespond = \"done\"\n", note("b")))
            .agent(
                "a",
                "prompt = \"{{request.text}}\"\n[model]\nuse = \"default\"\n[tools]\nallow = [\"delegate\", \"agents.b\"]\n",
            )
            .document(&document)
            .script(&format!(
                "[[replies]]\ncalls = [{{ name = \"delegate\", arguments = {{ word = \"{word}\" }} }}]\n\
             [[replies]]\ntext = \"done\"\n"
            ));
        let report = world.run("go").await;
        assert_eq!(answer(&report), "done");
        let engine = world.engine().await;
        assert_eq!(
            engine.journal().runs(&RunFilter::default()).await.unwrap().len(),
            2,
            "the agent was called"
        );
        let state = engine.journal().inspect(report.run, None).await.unwrap().state;
        assert_eq!(state.session().workflow().get("notes").cloned().unwrap_or_default(), kept, "{word:?}");
        world.replays().await;
    }
}

#[tokio::test]
async fn a_plan_calls_an_agent_by_a_tool() {
    let world = World::new(
        "[tools]\nallow = [\"delegate\", \"agents.b\"]\n[[steps]]\nid = \"d\"\ntool = \"delegate\"\n\
         [[steps]]\nrespond = \"{{steps.d.answer}}\"\n",
    );
    let world = world.agent("b", "[[steps]]\nrespond = \"done by b\"\n");
    std::fs::create_dir(world.path().join("tools")).unwrap();
    let action = json!({"type": "tool", "name": "agents.b", "arguments": {"text": "go"}});
    let world = world.document(&json!({
        "name": "delegate",
        "description": "Has another agent work.",
        "actions": [action],
        "output": {"answer": "result.last.answer ?? result.last"},
    }));
    assert_eq!(answer(&world.run("go").await), "done by b");
    world.replays().await;
}

#[tokio::test]
async fn a_session_whose_run_is_cancelled_keeps_what_its_tools_wrote() {
    let both = "[[steps]]\nwhen = \"!workflow.notes\"\nparallel = [\n{ id = \"n\", tool = \"note\", with = { text = \"kept\" } },\n\
                { id = \"w\", tool = \"local.it\", approve = true },\n]\n";
    let world = world(&format!("{both}{TELL}"), TELL).tool("local.it", EffectClass::Unsafe, Behaviour::Echo);
    let engine = world.engine().await;
    let options = || StartOptions { session: Some("s".to_owned()), ..StartOptions::default() };
    let start = async || {
        let handle = engine.start(&"a".parse().unwrap(), AgentRequest::text("go"), options()).await.unwrap();
        handle.finish().await.unwrap()
    };
    let report = start().await;
    waits(&report);
    engine.cancel(report.run, None, None).await.unwrap();
    assert_eq!(answer(&start().await), r#"["kept"]"#);
    world.replays().await;
}

#[tokio::test]
async fn a_fork_of_a_child_run_goes_on_in_a_session_of_its_own() {
    let world = world(
        &format!("{}{CALL}{TELL}", note("one")),
        &format!("{}[[steps]]\nask = \"well?\"\n{TELL}", note("two")),
    );
    let report = world.run("go").await;
    let child = waits(&report)[0].run;
    let engine = world.engine().await;
    let options = ForkOptions { at: Some(2), ..ForkOptions::default() };
    let handle = engine.fork(child, options).await.unwrap();
    let forked = handle.finish().await.unwrap();
    let answered = world.resume(forked.run, Some(Settlement::Give { value: json!("well") })).await;
    assert_eq!((answer(&answered), status(&answered)), (r#"["one","two"]"#, Status::Completed));
    let RunEnd::Ended(response) = &answered.end else { panic!("{answered:?}") };
    assert!(response.writes.is_empty(), "{response:?}");
    world.replays().await;
}

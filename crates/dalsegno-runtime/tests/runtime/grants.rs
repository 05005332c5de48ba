//! What today's workspace takes away from a run that began before.

use dalsegno_core::{AgentRequest, EffectClass, FailureCode, RunId, Surface};
use dalsegno_runtime::{AdoptOptions, EngineError, RunEnd, RunReport, Settlement, StartOptions};
use dalsegno_store::{Body, RecordKind, RunFilter};
use serde_json::json;

use crate::support::{Behaviour, World, answer, waits};

const BEGAN: &str = r#"
[tools]
allow = ["*"]
approve = ["local.first"]
[[steps]]
tool = "local.first"
with = { n = 1 }
[[steps]]
id = "second"
tool = "local.second"
with = { n = 2 }
[[steps]]
respond = "second {{steps.second}}"
"#;

fn world() -> World {
    World::new(BEGAN).tool("local.first", EffectClass::Unsafe, Behaviour::Echo).tool(
        "local.second",
        EffectClass::Unsafe,
        Behaviour::Echo,
    )
}

/// Begins a run, which waits before its first effect, and changes its agent's file.
async fn begun(today: Option<&str>) -> (World, RunId) {
    let world = world();
    let run = world.run("go").await;
    assert_eq!(waits(&run).len(), 1);
    match today {
        Some(agent) => (world.agent("a", agent), run.run),
        None => {
            let (file, other) = (world.path().join("agents/a.toml"), world.path().join("agents/b.toml"));
            let text = std::fs::read_to_string(&file).unwrap().replace("name = \"a\"", "name = \"b\"");
            std::fs::write(other, text).unwrap();
            std::fs::remove_file(file).unwrap();
            (world, run.run)
        }
    }
}

fn yes() -> Option<Settlement> {
    Some(Settlement::Approve { edited: None, reason: None })
}

/// The run ended with this failure, and its journal says the same again.
async fn failed_with(world: &World, report: &RunReport, code: FailureCode, words: &str) {
    let RunEnd::Ended(response) = &report.end else { panic!("{report:?}") };
    let error = response.error.as_ref().unwrap_or_else(|| panic!("{response:?}"));
    // A plan says which of its steps failed, and with what.
    let said = error.code.as_str() == code.as_str()
        || error.message.contains(&format!("failed with {}", code.as_str()));
    assert!(said, "{error:?}");
    assert!(error.message.contains(words), "{error:?}");
    assert!(world.engine().await.journal().replay(report.run).await.unwrap().identical);
}

#[tokio::test]
async fn a_tool_that_was_taken_out_is_not_called_by_a_run_that_began_with_it() {
    let today = "[tools]\nallow = [\"local.first\"]\n[[steps]]\ntool = \"local.first\"\nwith = { n = 1 }\n";
    let (world, run) = begun(Some(today)).await;
    let report = world.resume(run, yes()).await;
    assert_eq!((world.count("local.first"), world.count("local.second")), (1, 0));
    failed_with(&world, &report, FailureCode::NotPermitted, "does not allow `local.second`").await;
}

#[tokio::test]
async fn not_even_with_an_approval_that_was_asked_for_before() {
    let today = "[tools]\nallow = [\"local.second\"]\n[[steps]]\ntool = \"local.second\"\nwith = { n = 1 }\n";
    let (world, run) = begun(Some(today)).await;
    let report = world.resume(run, yes()).await;
    assert_eq!((world.count("local.first"), world.count("local.second")), (0, 0));
    failed_with(&world, &report, FailureCode::NotPermitted, "does not allow `local.first`").await;
}

#[tokio::test]
async fn an_agent_that_is_gone_does_nothing_any_more() {
    let (world, run) = begun(None).await;
    let report = world.resume(run, yes()).await;
    assert_eq!((world.count("local.first"), world.count("local.second")), (0, 0));
    failed_with(&world, &report, FailureCode::NotPermitted, "no agent `a` any more").await;
}

#[tokio::test]
async fn an_approval_that_was_added_is_asked_of_a_run_that_began_without_it() {
    let (world, run) = begun(Some(&BEGAN.replace("[\"local.first\"]", "[\"local.*\"]"))).await;
    let report = world.resume(run, yes()).await;
    assert_eq!((world.count("local.first"), world.count("local.second")), (1, 0));
    assert_eq!(waits(&report)[0].tool.as_ref().unwrap().as_str(), "local.second");
    // In another process it waits for the same.
    let report = world.resume(run, None).await;
    assert_eq!((waits(&report).len(), world.count("local.second")), (1, 0));
    let report = world.resume(run, yes()).await;
    assert_eq!(answer(&report), r#"second {"n":2}"#);
    assert_eq!(world.count("local.second"), 1);
    assert!(world.engine().await.journal().replay(run).await.unwrap().identical);
}

#[tokio::test]
async fn limits_take_the_lower_value_and_the_journal_says_so() {
    let (world, run) = begun(Some(&format!("[limits]\nmax_tool_calls = 1\n{BEGAN}"))).await;
    let report = world.resume(run, yes()).await;
    assert_eq!((world.count("local.first"), world.count("local.second")), (1, 0));
    failed_with(&world, &report, FailureCode::LimitExceeded, "").await;
    let records = world.engine().await.journal().inspect(run, None).await.unwrap().records;
    let narrowed = records.iter().filter_map(|record| match &record.body {
        Body::Narrowed { budget } => Some(budget.max_tool_calls),
        _ => None,
    });
    assert_eq!(narrowed.collect::<Vec<_>>(), [1]);
    // What a file allows more by now a run does not get that began with less.
    let (world, run) =
        begun(Some(&format!("[limits]\nmax_tool_calls = 1000\nmax_steps = 1000\n{BEGAN}"))).await;
    let report = world.resume(run, yes()).await;
    assert_eq!(answer(&report), r#"second {"n":2}"#);
    let records = world.engine().await.journal().inspect(run, None).await.unwrap().records;
    assert!(records.iter().all(|record| record.body.kind() != RecordKind::Narrowed));
}

#[tokio::test]
async fn a_step_beyond_the_steps_that_are_allowed_by_now_asks_for_nothing() {
    let (world, run) = begun(Some(&format!("[limits]\nmax_steps = 1\n{BEGAN}"))).await;
    let report = world.resume(run, yes()).await;
    assert_eq!((world.count("local.first"), world.count("local.second")), (1, 0));
    failed_with(&world, &report, FailureCode::LimitExceeded, "max_steps").await;
}

/// A run that waits before its first effect, as an archive.
async fn archive(world: &World) -> (RunId, dalsegno_store::Archive) {
    let run = world.run("go").await.run;
    let engine = world.engine().await;
    let bytes = engine.archives().sign(&engine.journal().export(run).await.unwrap()).unwrap();
    (run, dalsegno_store::Archive::decode(&bytes).unwrap())
}

/// What the signers of another workspace are, in dalsegno.toml.
async fn known(home: &World) -> String {
    format!("[signers]\nhome = \"{}\"\n", home.engine().await.archives().signer().unwrap().unwrap())
}

#[tokio::test]
async fn a_call_is_not_adopted() {
    let agent = "[model]\nuse = \"default\"\n[voice]\nfiller = false\n";
    for surface in [Surface::Telephone, Surface::Script] {
        let home = World::new(agent).script("");
        let engine = home.engine().await;
        // Whoever made the archive chose the call: it may be one that is under way at a line of this workspace.
        let user = json!({ "line": "front", "call_id": "rtc_1" });
        let request = AgentRequest { user, ..AgentRequest::text("") };
        let name = "a".parse().unwrap();
        let call = engine.converse(&name, surface, request, StartOptions::default()).await.unwrap();
        let run = call.handle.run();
        let bytes = engine.archives().sign(&engine.journal().export(run).await.unwrap()).unwrap();
        let here = World::new(agent).script("").settings(&format!(
            "[models.default]\nprovider = \"script\"\nfile = \"script.toml\"\n{}",
            known(&home).await
        ));
        let engine = here.engine().await;
        engine.archives().import(dalsegno_store::Archive::decode(&bytes).unwrap()).await.unwrap();
        let error = engine.adopt(run, &AdoptOptions::default()).await.unwrap_err();
        let EngineError::NotAdopted { reasons, .. } = &error else { panic!("{error:?}") };
        assert_eq!(reasons, &["it is a call, whose caller is not here: fork it"]);
    }
}

#[tokio::test]
async fn an_adopted_run_goes_on_under_ids_of_its_own_and_asks_first() {
    let home = world();
    let (foreign, archive) = archive(&home).await;
    // The agent asks for nothing here; an adopted run does all the same.
    let here =
        world().agent("a", &BEGAN.replace("approve = [\"local.first\"]", "")).settings(&known(&home).await);
    let engine = here.engine().await;
    engine.archives().import(archive).await.unwrap();
    let options = AdoptOptions { by: Some("eve".into()), ..AdoptOptions::default() };
    let adopted = engine.adopt(foreign, &options).await.unwrap();
    assert!(!adopted.known && adopted.run != foreign && adopted.foreign == foreign);
    assert!(engine.adopt(foreign, &options).await.unwrap().known, "the same is adopted once");

    let records = engine.journal().inspect(adopted.run, None).await.unwrap().records;
    let signer = home.engine().await.archives().signer().unwrap().unwrap().to_string();
    let Body::Adopted { run, signer: said, by, .. } = &records[1].body else { panic!("{records:?}") };
    assert_eq!((run, said, by.as_deref()), (&foreign, &Some(signer), Some("eve")));

    let report = here.resume(adopted.run, None).await;
    assert_eq!((waits(&report).len(), here.count("local.first")), (1, 0));
    let operations = |records: &[dalsegno_store::Record]| {
        let requested = records.iter().filter(|record| record.body.kind() == RecordKind::Requested);
        requested.filter_map(|record| record.operation).collect::<Vec<_>>()
    };
    let theirs = operations(&engine.journal().inspect(foreign, None).await.unwrap().records);
    let ours = operations(&engine.journal().inspect(adopted.run, None).await.unwrap().records);
    assert_eq!((theirs.len(), ours.len()), (1, 1));
    assert_ne!(theirs, ours, "what the original asked for has other keys");

    let report = here.resume(adopted.run, yes()).await;
    assert_eq!((waits(&report).len(), here.count("local.first"), here.count("local.second")), (1, 1, 0));
    let report = here.resume(adopted.run, yes()).await;
    assert_eq!(answer(&report), r#"second {"n":2}"#);
    assert!(engine.journal().replay(adopted.run).await.unwrap().identical);
    // The foreign one is what it was, and nothing of it was performed.
    assert!(matches!(engine.resume(foreign, Vec::new()).await, Err(EngineError::Foreign { .. })));
    assert!(engine.journal().inspect(foreign, None).await.unwrap().summary.foreign.is_some());
}

/// Why this workspace does not adopt a run of another one.
async fn reasons(home: &World, here: &World, options: &AdoptOptions) -> Vec<String> {
    let (foreign, archive) = archive(home).await;
    let engine = here.engine().await;
    engine.archives().import(archive).await.unwrap();
    let before = engine.journal().runs(&RunFilter::default()).await.unwrap().len();
    let error = engine.adopt(foreign, options).await.unwrap_err();
    assert_eq!(engine.journal().runs(&RunFilter::default()).await.unwrap().len(), before, "{error}");
    match error {
        EngineError::NotAdopted { run, reasons } if run == foreign => reasons,
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn nothing_is_adopted_that_this_workspace_does_not_allow() {
    let any = AdoptOptions { unknown_signer: true, ..AdoptOptions::default() };
    let home = world();
    // Nobody whom the workspace knows has signed it.
    let told = reasons(&home, &world(), &AdoptOptions::default()).await;
    assert!(told.len() == 1 && told[0].contains("[signers]"), "{told:?}");
    // There is no such agent.
    let other = world().agent("b", BEGAN);
    std::fs::remove_file(other.path().join("agents/a.toml")).unwrap();
    let told = reasons(&home, &other, &any).await;
    assert_eq!(told, ["this workspace has no agent `a`"]);
    // It may use less, and its plan has other steps.
    let less = "[tools]\nallow = [\"local.first\"]\n[[steps]]\ntool = \"local.first\"\nwith = { n = 1 }\n";
    let told = reasons(&home, &world().agent("a", less), &any).await;
    assert!(told.contains(&"the agent `a` may not use `local.second` here".to_owned()), "{told:?}");
    assert!(told.contains(&"the agent `a` has other steps here".to_owned()), "{told:?}");
    // A run of one's own is none that can be adopted, and one that has ended has nothing left to do.
    let engine = home.engine().await;
    let own = home.run("go").await.run;
    let error = engine.adopt(own, &any).await.unwrap_err().to_string();
    assert!(error.contains("own already"), "{error}");
    engine.cancel(own, None, None).await.unwrap();
    let archive = engine.journal().export(own).await.unwrap();
    let here = world();
    let engine = here.engine().await;
    engine.archives().import(archive).await.unwrap();
    let error = engine.adopt(own, &any).await.unwrap_err().to_string();
    assert!(error.contains("it has ended (cancelled)"), "{error}");
}

#[tokio::test]
async fn a_rule_that_was_added_counts_for_a_run_that_began_without_it() {
    let rule = |key: &str, when: &str| {
        let tools =
            format!("[tools]\nallow = [\"*\"]\n{key} = [{{ tool = \"local.second\", when = \"{when}\" }}]\n");
        tools + "[[steps]]\ntool = \"local.first\"\nwith = { n = 1 }\n"
    };
    let (world, run) = begun(Some(&rule("deny", "args.n > 1"))).await;
    let report = world.resume(run, yes()).await;
    failed_with(
        &world,
        &report,
        FailureCode::NotPermitted,
        "now denies this call of `local.second`: `args.n > 1`",
    )
    .await;
    assert_eq!(world.count("local.second"), 0);

    let (world, run) = begun(Some(&rule("approve", "args.n > 1"))).await;
    let report = world.resume(run, yes()).await;
    assert_eq!((waits(&report).len(), world.count("local.second")), (1, 0));
    assert_eq!(answer(&world.resume(run, yes()).await), "second {\"n\":2}");

    // Calls that no rule is about go on as they did.
    let (world, run) = begun(Some(&rule("deny", "args.n > 2"))).await;
    assert_eq!(answer(&world.resume(run, yes()).await), "second {\"n\":2}");
}

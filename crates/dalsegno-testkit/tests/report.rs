//! Reports compute what the engine computed, natively and in the module that pages run.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

use std::sync::Arc;

use dalsegno_history::Journal;
use dalsegno_report::{Report, Seal, page};
use dalsegno_store::{RunFilter, Store};
use dalsegno_testkit::Simulation;
use serde_json::{Value, json};
use wasmtime::{Config, Engine, Instance, Module, TypedFunc};

/// A run with all that a report of it has.
struct Recorded {
    seal: Seal,
    archive: Vec<u8>,
}

/// Runs of simulated histories with faults: of models and plans, with children, handoffs, forks, approvals, doubts, crashes.
fn recorded(runs: usize) -> Vec<Recorded> {
    let mut all = Vec::new();
    for seed in 1.. {
        let (report, mut found) = Simulation::new(seed).run_then(exported).unwrap();
        assert_eq!(report.violations, Vec::<String>::new());
        all.append(&mut found);
        if all.len() >= runs {
            return all;
        }
    }
    unreachable!("seeds do not end")
}

async fn exported(store: Arc<dyn Store>) -> Vec<Recorded> {
    let journal = Journal::of(store, None);
    let all = RunFilter { limit: u32::MAX, ..RunFilter::default() };
    let mut found = Vec::new();
    for summary in journal.runs(&all).await.unwrap() {
        // What was erased cannot be exported.
        if let (Ok(seal), Ok(archive)) =
            (Seal::of(&journal, summary.run).await, journal.export(summary.run).await)
        {
            found.push(Recorded { seal, archive: archive.encode() });
        }
    }
    found
}

/// The module of a page, without a page.
struct InModule {
    store: wasmtime::Store<()>,
    instance: Instance,
}

impl InModule {
    fn new(module: &Module) -> Self {
        let mut store = wasmtime::Store::new(module.engine(), ());
        let instance = Instance::new(&mut store, module, &[]).unwrap();
        Self { store, instance }
    }

    fn call(&mut self, name: &str, bytes: &[u8]) -> Value {
        let Self { store, instance } = self;
        let memory = instance.get_memory(&mut *store, "memory").unwrap();
        let room: TypedFunc<u32, u32> = instance.get_typed_func(&mut *store, "room").unwrap();
        let at = room.call(&mut *store, u32::try_from(bytes.len()).unwrap()).unwrap();
        memory.write(&mut *store, at as usize, bytes).unwrap();
        let function: TypedFunc<(), u32> = instance.get_typed_func(&mut *store, name).unwrap();
        let length = function.call(&mut *store, ()).unwrap() as usize;
        let answer: TypedFunc<(), u32> = instance.get_typed_func(&mut *store, "answer").unwrap();
        let at = answer.call(&mut *store, ()).unwrap() as usize;
        serde_json::from_slice(&memory.data(&*store)[at..at + length]).unwrap()
    }
}

/// Asks both for the same, and returns what both answered.
fn both(native: &mut Report, module: &mut InModule, question: &Value) -> Value {
    let question = question.to_string();
    let here: Value = serde_json::from_str(&native.ask(question.as_bytes())).unwrap();
    let there = module.call("ask", question.as_bytes());
    assert_eq!(here, there, "{question}");
    here
}

#[test]
fn recorded_runs_have_the_engines_digests_in_the_module_of_a_page() {
    compared(40);
}

#[test]
#[ignore = "takes minutes: cargo test -p dalsegno-testkit --test report -- --ignored"]
fn a_hundred_recorded_runs_have_the_engines_digests_in_the_module_of_a_page() {
    compared(100);
}

fn compared(runs: usize) {
    let engine = Engine::new(&Config::new()).unwrap();
    let module = Module::new(&engine, page::module()).unwrap();
    assert_eq!(module.imports().count(), 0, "a module without imports can do nothing but compute");
    let recorded = recorded(runs);
    let (mut steps, mut edited, mut differs, mut timers) = (0, 0, 0, 0);
    for Recorded { seal, archive } in &recorded {
        let mut native = Report::new();
        native.add(archive).unwrap();
        let mut inside = InModule::new(&module);
        let added = inside.call("add", archive);
        assert!(added["ok"].as_array().unwrap().contains(&json!(seal.run)), "{added}");

        let verify = json!({ "ask": "verify", "run": seal.run, "engine": seal });
        let answer = both(&mut native, &mut inside, &verify);
        assert_eq!(answer["ok"]["verified"], seal.replays, "{answer:#}");
        let mut other = seal.clone();
        other.course = other.state;
        let verify = json!({ "ask": "verify", "run": seal.run, "engine": other });
        assert_eq!(both(&mut native, &mut inside, &verify)["ok"]["verified"], false);

        let outline = both(&mut native, &mut inside, &json!({ "ask": "outline", "run": seal.run }));
        for row in 0..outline["ok"]["rows"].as_array().unwrap().len() {
            let step = both(&mut native, &mut inside, &json!({ "ask": "step", "run": seal.run, "row": row }));
            steps += 1;
            for operation in step["ok"]["operations"].as_array().unwrap() {
                if operation["outcome"].is_null() {
                    continue;
                }
                let edit = |outcome: &Value| json!({ "ask": "edit", "run": seal.run, "operation": operation["id"], "outcome": outcome });
                // The recorded outcome is followed by the recorded requests.
                let same = both(&mut native, &mut inside, &edit(&operation["outcome"]));
                if let Some(same) = same.get("ok").filter(|same| !same["was"].is_null()) {
                    // An answer of a person, and what a declarative tool came to, have no time of their own from which a timer could
                    // count.
                    let is_timer = |request: &Value| request["label"] == "timer";
                    let timed = same["now"]["requests"].as_array().unwrap().iter().any(is_timer);
                    assert!(same["same"] == true || timed, "{operation:#} {same:#}");
                    edited += 1;
                    timers += usize::from(same["same"] != true);
                }
                let failed = json!({ "failed": { "code": "tool_failed", "message": "edited" } });
                let other = both(&mut native, &mut inside, &edit(&failed));
                differs += usize::from(other["ok"]["same"] == false);
            }
        }
    }
    let seen = format!(
        "{} runs, {steps} rows, {edited} outcomes edited, {timers} with other timers, {differs} others with other requests",
        recorded.len()
    );
    assert!(recorded.len() >= runs && steps > 4 * runs && edited > runs && differs * 5 > runs, "{seen}");
    assert!(timers * 20 < edited, "{seen}");
}

#[test]
fn no_question_and_no_archive_brings_the_module_down() {
    let engine = Engine::new(&Config::new()).unwrap();
    let module = Module::new(&engine, page::module()).unwrap();
    let mut inside = InModule::new(&module);
    let (_, found) = Simulation::new(1).run_then(exported).unwrap();
    let Recorded { seal, archive } = &found[0];
    for cut in [0, 1, 17, archive.len() / 2, archive.len() - 1] {
        assert!(inside.call("add", &archive[..cut])["error"].is_string());
    }
    for place in (0..archive.len()).step_by(1 + archive.len() / 50) {
        let mut changed = archive.clone();
        changed[place] ^= 0x20;
        assert!(inside.call("add", &changed)["error"].is_string(), "byte {place}");
    }
    assert!(inside.call("add", archive)["ok"].is_array());
    let run = seal.run;
    let unknown = "0".repeat(32);
    for question in [
        json!(null),
        json!({ "ask": "everything" }),
        json!({ "ask": "step", "run": run, "row": u32::MAX }),
        json!({ "ask": "step", "run": unknown, "row": 0 }),
        json!({ "ask": "edit", "run": run, "operation": unknown, "outcome": { "timer_fired": null } }),
        json!({ "ask": "edit", "run": run, "operation": unknown, "outcome": "timer_fired" }),
        json!({ "ask": "diff", "left": run, "right": unknown }),
        json!({ "ask": "verify", "run": run, "engine": 7 }),
        json!({ "ask": "outline", "run": run, "more": 1 }),
    ] {
        let answer = inside.call("ask", question.to_string().as_bytes());
        assert!(answer["error"].is_string(), "{question}: {answer}");
    }
    assert!(inside.call("ask", b"\xff{")["error"].is_string());
    // Afterwards it answers as before.
    let verify = json!({ "ask": "verify", "run": run, "engine": seal }).to_string();
    assert_eq!(inside.call("ask", verify.as_bytes())["ok"]["verified"], true);
}

//! What declarative tools write for the people who keep them: in the log, at its level.

use std::cell::RefCell;

use dalsegno_core::Outcome;
use serde_json::json;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use crate::support::{World, answer};

/// Keeps the lines that declarative tools log, for each thread.
///
/// It is the one subscriber of the process. One for this test alone would lose lines: `tracing` asks whether
/// anybody wants an event where it first meets that event, and that may be the thread of another test.
struct Kept;

thread_local! {
    static LINES: RefCell<Vec<(Level, String)>> = const { RefCell::new(Vec::new()) };
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        if field.name() == "message" {
            self.0 = format!("{value:?}");
        }
    }
}

impl Subscriber for Kept {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "dalsegno::tool"
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        let mut line = Line(String::new());
        event.record(&mut line);
        LINES.with_borrow_mut(|lines| lines.push((*event.metadata().level(), line.0)));
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[tokio::test]
async fn each_line_of_a_tool_is_logged_once_at_its_level_with_warnings_of_missing_paths() {
    let world = World::new(
        "[tools]\nallow = [\"greet\"]\n[[steps]]\nid = \"it\"\ntool = \"greet\"\n[[steps]]\nrespond = \"done\"\n",
    );
    std::fs::create_dir(world.path().join("tools")).unwrap();
    let document = json!({
        "name": "greet", "description": "Writes lines.",
        "actions": [
            {"type": "log", "level": "debug", "log_message": "looking"},
            {"type": "log", "level": "error", "log_message": "no {{workflow.absent}} here"}
        ]
    });
    std::fs::write(world.path().join("tools/greet.json"), document.to_string()).unwrap();
    tracing::subscriber::set_global_default(Kept).unwrap();
    // Another test may have met the event while the subscriber was being set.
    tracing::callsite::rebuild_interest_cache();
    let report = world.run("hi").await;
    assert_eq!(answer(&report), "done");
    let engine = world.engine().await;
    assert!(engine.journal().replay(report.run).await.unwrap().identical, "a replay logs nothing");
    let lines = LINES.take();
    let [looking, warning, error] = lines.as_slice() else { panic!("{lines:?}") };
    assert_eq!(looking, &(Level::DEBUG, "looking".to_owned()));
    assert_eq!(error, &(Level::ERROR, "no  here".to_owned()));
    assert!(warning.0 == Level::WARN && warning.1.contains("workflow.absent"), "{warning:?}");
    // The journal has them, for `show` and traces.
    let inspection = engine.journal().inspect(report.run, None).await.unwrap();
    let outcome =
        inspection.steps.iter().flat_map(|step| &step.operations).find_map(|one| one.outcome.as_ref());
    let Some(Outcome::ToolReturned(returned)) = outcome else { panic!("{outcome:?}") };
    assert_eq!(returned.notes().count(), 3);
}

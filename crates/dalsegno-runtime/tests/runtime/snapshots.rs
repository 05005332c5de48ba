//! A long run is resumed from its latest snapshot, and comes to the same end as without one.

use dalsegno_core::EffectClass;
use dalsegno_runtime::{RunEnd, Settlement};

use crate::support::{Behaviour, World, answer};

/// More steps than lie between two snapshots, then a question.
fn world() -> World {
    let replies = "[[replies]]\ncalls = [{ name = \"local.read\", arguments = { n = 1 } }]\n".repeat(520);
    let script = format!(
        "{replies}[[replies]]\ncalls = [{{ name = \"local.write\", arguments = {{ n = 2 }} }}]\n\
         [[replies]]\ntext = \"All done.\"\n"
    );
    World::new(
        "prompt = \"go\"\n[model]\nuse = \"default\"\n[tools]\nallow = [\"local.*\"]\napprove = [\"local.write\"]\n\
         [limits]\nmax_steps = 5000\nmax_tool_calls = 5000\nrepeat_limit = 0\n",
    )
    .script(&script)
    .tool("local.read", EffectClass::Read, Behaviour::Echo)
    .tool("local.write", EffectClass::Unsafe, Behaviour::Echo)
}

#[tokio::test]
async fn a_resume_from_a_snapshot_is_the_same_as_one_from_the_journal() {
    let mut ends = Vec::new();
    for keep_snapshot in [true, false] {
        let world = world();
        let report = world.run("go").await;
        assert!(matches!(report.end, RunEnd::Suspended { .. }), "{report:?}");
        let connection = rusqlite::Connection::open(world.path().join(".dalsegno/dalsegno.db")).unwrap();
        let snapshots: i64 =
            connection.query_row("SELECT count(*) FROM snapshot", [], |row| row.get(0)).unwrap();
        assert_eq!(snapshots, 1, "only the latest is kept");
        if !keep_snapshot {
            connection.execute("DELETE FROM snapshot", []).unwrap();
        }
        let report = world.resume(report.run, Some(Settlement::Approve { edited: None, reason: None })).await;
        assert_eq!(answer(&report), "All done.");
        assert!(world.engine().await.journal().replay(report.run).await.unwrap().identical);
        ends.push((report.steps, report.usage));
    }
    assert_eq!(ends[0], ends[1]);
}

//! Processes die while a call waits for a person, and while it is transferred.

use std::time::Duration;

use dalsegno_testkit::{LiveAnswer, LiveStage};
use serde_json::json;

use crate::kills::{kill_and_follow, kills};
use crate::transfers::{targets, to, world_on};
use crate::world::{SURFACES, Served, World};

const CALL: &str = "rtc_1";

/// What has happened in a call before its process is killed, in this order.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
enum Before {
    /// A person is asked.
    Asked,
    /// The person has agreed.
    Agreed,
    /// The caller wants to be transferred.
    Transferring,
}

/// A moment of a call.
type Moment = (&'static str, Before, fn(&World) -> bool);

/// The moments at which a process is killed.
const MOMENTS: [Moment; 5] = [
    ("a keyed tool waits for a yes", Before::Asked, |world| waits(world)),
    ("a person has said yes", Before::Agreed, |_| true),
    ("the keyed tool took place", Before::Agreed, |world| !world.effects("book").is_empty()),
    ("a transfer was asked for", Before::Transferring, |world| world.call(CALL).calls().len() > 1),
    ("the provider was asked to transfer the call", Before::Transferring, |world| !targets(world).is_empty()),
];

/// A booking that a person must agree to, and a transfer.
fn evening() -> Vec<LiveAnswer> {
    vec![
        LiveAnswer::says("Good evening."),
        LiveAnswer { text: "I ask for it.".into(), ..LiveAnswer::asks("book", &json!({ "q": "eight" })) },
        LiveAnswer::says("A colleague looks at it."),
        LiveAnswer::says("It is booked."),
        LiveAnswer { text: "I transfer you.".into(), ..to("sales") },
        LiveAnswer::says("One moment."),
    ]
}

/// Says whether the run waits for a person.
fn waits(world: &World) -> bool {
    world.runs()[0]["waiting"] == json!(["approval"])
}

/// A person finds what waits in the lists, and says yes. A process that dies has kept it, or was not told.
fn agree(world: &World) {
    let runs = world.workspace.succeed(&["runs", "--waiting", "approval"]);
    assert!(runs.contains("running: approval"), "{runs}");
    let answer = world.workspace.succeed(&["answer", "--waiting", "approval", "--approve"]);
    assert!(answer.contains("book") && answer.contains("eight"), "{answer}");
    let waits = &world.workspace.json(&["show", "last"])["waiting_for"][0];
    world.workspace.succeed(&["resume", "last", "--approve", "--shown", waits["shown"].as_str().unwrap()]);
}

#[test]
fn a_process_that_is_killed_while_a_person_is_asked_or_a_transfer_is_made_doubles_neither() {
    let mut slowest = Duration::ZERO;
    for number in 0..kills(MOMENTS.len()) {
        let surface = SURFACES[number % SURFACES.len()];
        let (name, before, moment) = MOMENTS[number % MOMENTS.len()];
        let name = format!("{surface}: {name}");
        let world = world_on(surface, "\"+33140000001\"", false);
        world.edit("agents/desk.toml", "\"transfer.*\"]", "\"transfer.*\"]\napprove = [\"book\"]");
        let first = Served::start(&world.workspace);
        assert_eq!(first.deliver(&world.rings(CALL, evening())).unwrap().0, 200);
        world.until_call(CALL, |call| call.words().contains(&"Good evening."));
        world.live.says(CALL, "A table for two, please.");
        world.wait(waits);
        if before >= Before::Agreed {
            agree(&world);
        }
        if before == Before::Transferring {
            world.until_call(CALL, |call| call.words().contains(&"It is booked."));
            world.live.says(CALL, "Sales, please.");
        }
        world.wait(moment);
        // Beyond the first round the process dies a little later each time.
        for _ in 0..(number / MOMENTS.len()) * 200 {
            std::thread::yield_now();
        }
        let (_second, silence) = kill_and_follow(&world, first, CALL);
        eprintln!("{name}: attached {silence:?} after the kill");
        slowest = slowest.max(silence.unwrap_or_default());
        if before == Before::Asked {
            world.wait(waits);
            assert_eq!(world.effects("book").len(), 0, "{name}: no person has said yes");
            agree(&world);
        }
        world.until_effects("book", 1);
        if before < Before::Transferring {
            world.until_call(CALL, |call| call.words().contains(&"It is booked."));
        } else {
            // It is not known whether it is made, where the process died between the journal and the provider.
            world.live.says(CALL, "Are you still there?");
            world.until_call(CALL, |call| {
                call.stage == LiveStage::Gone
                    || call.words().last().is_some_and(|words| *words != "Are you still there?")
            });
        }
        world.live.hangs_up(CALL);
        let runs = world.until_over();
        assert_eq!((runs.len(), &runs[0]["status"]), (1, &json!("completed")), "{name}");
        assert_eq!(world.effects("book").len(), 1, "{name}");
        assert!(targets(&world).len() <= 1, "{name}: {:?}", targets(&world));
        let shown = world.workspace.succeed(&["show", "last"]);
        // A caller who hangs up right then is not transferred.
        if world.asked(CALL, "refer").contains(&200) {
            assert!(shown.contains("the call was transferred"), "{name}: {shown}");
        }
        world.holds(CALL);
        world.replays(&runs[0]);
    }
    eprintln!("slowest: attached {slowest:?} after the kill");
}

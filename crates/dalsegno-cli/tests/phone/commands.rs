//! `dalsegno call list`, `hangup` and `check`.

use dalsegno_testkit::{LiveAnswer, LiveStage};
use serde_json::json;

use crate::world::{NUMBER, Served, World};

#[test]
fn open_calls_are_listed_and_hung_up() {
    let world = World::new();
    let shown = world.workspace.dalsegno(&["call", "list"]);
    assert!(shown.contains("no call is open"), "{shown}");
    let server = Served::start(&world.workspace);
    let webhook = world.rings("rtc_1", vec![LiveAnswer::says("Good evening.")]);
    server.deliver(&webhook).unwrap();
    world.until_call("rtc_1", |call| call.words().contains(&"Good evening."));
    let shown = world.workspace.succeed(&["call", "list"]);
    let cells: Vec<&str> = shown.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(cells[1..5], ["front", "+4915112345678", NUMBER, "desk"], "{shown}");
    let listed = world.workspace.json(&["call", "list", "--line", "front"]);
    assert_eq!(
        (&listed[0]["surface"], &listed[0]["carried"]),
        (&json!("telephone"), &json!(true)),
        "{listed}"
    );
    assert_eq!(world.workspace.json(&["call", "list", "--line", "back"]), json!([]));
    let told = world.workspace.dalsegno(&["call", "hangup", "last", "--by", "ada"]);
    assert!(told.starts_with("exit code: 0"), "{told}");
    world.until_call("rtc_1", |call| call.stage == LiveStage::Gone);
    let runs = world.until_over();
    assert_eq!((world.asked("rtc_1", "hangup"), &runs[0]["status"]), (vec![200], &json!("cancelled")));
    let told = world.workspace.dalsegno(&["call", "hangup", "ffff"]);
    assert!(told.starts_with("exit code: 2") || told.starts_with("exit code: 1"), "{told}");
}

#[test]
fn a_call_that_no_process_carries_is_hung_up_from_the_terminal() {
    let world = World::new();
    let server = Served::start(&world.workspace);
    let webhook = world.rings("rtc_1", vec![LiveAnswer::says("Good evening.")]);
    server.deliver(&webhook).unwrap();
    world.until_call("rtc_1", |call| call.words().contains(&"Good evening."));
    server.kill();
    let shown = world.workspace.succeed(&["call", "list"]);
    assert!(shown.contains("carried by no process"), "{shown}");
    // Without its line nothing is done to it, and it does not end.
    let told = world.workspace.dalsegno(&["resume", "last"]);
    assert!(told.contains("no line of this process carries it"), "{told}");
    assert_eq!(world.call("rtc_1").stage, LiveStage::Accepted);
    let told = world.workspace.dalsegno(&["call", "hangup", "last"]);
    assert!(told.starts_with("exit code: 0") && told.contains("is over"), "{told}");
    assert_eq!(world.call("rtc_1").stage, LiveStage::Gone);
    assert_eq!(world.asked("rtc_1", "hangup"), [200]);
    world.replays(&world.until_over()[0]);
}

#[test]
fn a_worker_leaves_a_call_without_a_process_alone_and_cancelling_it_hangs_up() {
    let world = World::new();
    let server = Served::start(&world.workspace);
    let webhook = world.rings("rtc_1", vec![LiveAnswer::says("Good evening.")]);
    server.deliver(&webhook).unwrap();
    world.until_call("rtc_1", |call| call.words().contains(&"Good evening."));
    server.kill();
    let worked = world.workspace.dalsegno(&["worker", "--until-idle"]);
    assert!(worked.starts_with("exit code: 0"), "{worked}");
    assert_eq!(world.call("rtc_1").stage, LiveStage::Accepted);
    for note in [" ", "\t"] {
        let told = world.workspace.dalsegno(&["call", "say", "last", note]);
        assert!(told.starts_with("exit code: 2") && told.contains("needs words"), "{told}");
    }
    let told = world.workspace.dalsegno(&["call", "say", "last", "x", "--by", &"a".repeat(300)]);
    assert!(told.starts_with("exit code: 2"), "{told}");
    let told = world.workspace.dalsegno(&["cancel", "last"]);
    assert!(told.starts_with("exit code: 0") && told.contains("is cancelled"), "{told}");
    assert_eq!(world.call("rtc_1").stage, LiveStage::Gone);
    assert_eq!(world.asked("rtc_1", "hangup"), [200]);
    world.replays(&world.until_over()[0]);
}

#[test]
fn a_line_is_checked_with_its_provider_its_secrets_and_its_numbers() {
    let world = World::new();
    let checked = world.workspace.succeed(&["call", "check", "front"]);
    for part in ["opens a session of gpt-realtime-2.1", "POST /voice/front", NUMBER, "desk (acme)"] {
        assert!(checked.contains(part), "{part}: {checked}");
    }
    world.workspace.write("secret", "no secret");
    world.workspace.write("key", "sk-wrong-9876543210");
    let told = world.workspace.dalsegno(&["call", "check", "front"]);
    assert!(told.starts_with("exit code: 1"), "{told}");
    assert!(told.contains("secret 2 of `webhook_secrets` cannot be used"), "{told}");
    assert!(told.contains("refuses the connection: 401"), "{told}");
    assert!(!told.contains("sk-wrong"), "{told}");
    let told = world.workspace.dalsegno(&["call", "check", "frnt"]);
    assert!(told.contains("did you mean `front`?"), "{told}");
}

#[test]
fn a_line_of_a_live_model_that_hears_while_it_speaks_is_checked_by_its_key_alone() {
    let world = World::on("live");
    let told = world.workspace.succeed(&["call", "check", "front"]);
    assert!(told.contains("takes the key"), "{told}");
    assert_eq!(world.live.book().sessions, 0, "a session would cost something");
    world.workspace.write("key", "sk-another");
    let told = world.workspace.dalsegno(&["call", "check", "front"]);
    assert!(!told.starts_with("exit code: 0") && told.contains("401"), "{told}");
}

//! Calls from the first ring to the end.

use dalsegno_testkit::{LiveAnswer, LiveStage};
use serde_json::json;

use crate::world::{Served, World};

/// A conversation with a tool of each class.
pub(crate) fn evening() -> Vec<LiveAnswer> {
    vec![
        LiveAnswer::says("Good evening."),
        LiveAnswer::asks("find", &json!({ "q": "two" })),
        LiveAnswer { text: "I book it.".into(), ..LiveAnswer::asks("book", &json!({ "q": "eight" })) },
        LiveAnswer { text: "I text you.".into(), ..LiveAnswer::asks("text", &json!({ "q": "booked" })) },
        LiveAnswer::says("It is done."),
    ]
}

#[test]
fn a_number_rings_and_an_agent_answers_with_its_tools() {
    let world = World::new();
    let server = Served::start(&world.workspace);
    let webhook = world.rings("rtc_1", evening());
    assert_eq!(server.deliver(&webhook).unwrap(), (200, "{\"result\":\"started\"}".to_owned()));
    assert_eq!(server.deliver(&webhook).unwrap(), (200, "{\"result\":\"known\"}".to_owned()));
    world.until_call("rtc_1", |call| call.words().contains(&"Good evening."));
    world.live.says("rtc_1", "A table for two, please.");
    world.until_call("rtc_1", |call| call.words().contains(&"It is done."));
    assert_eq!(world.asked("rtc_1", "accept"), [200]);
    let book = world.live.book();
    let accepted = &book.controls[0].body;
    assert_eq!(accepted["instructions"], "You are the desk of default. +4915112345678 calls.");
    assert_eq!(accepted["model"], "gpt-realtime-2.1");
    let names = accepted["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap());
    assert_eq!(names.collect::<Vec<_>>(), ["book", "find", "text"]);
    assert_eq!(world.call("rtc_1").not_found, 1, "right after it was accepted its session is not there");
    world.live.hangs_up("rtc_1");
    let runs = world.until_over();
    assert_eq!((runs.len(), &runs[0]["status"]), (1, &json!("completed")));
    assert_eq!(
        (world.effects("find").len(), world.effects("book").len(), world.effects("text").len()),
        (1, 1, 1)
    );
    let call = world.call("rtc_1");
    assert_eq!(call.stage, LiveStage::Gone);
    for asked in call.calls() {
        assert_eq!(call.outputs(asked).len(), 1, "{:#?}", call.items);
    }
    let shown = world.workspace.succeed(&["show", "last"]);
    for words in ["Good evening.", "A table for two, please.", "I book it.", "It is done.", "hung up"] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    world.holds("rtc_1");
    world.replays(&runs[0]);
    assert!(server.stop());
}

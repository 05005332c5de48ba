//! Calls from the first ring to the end.

use dalsegno_testkit::{LiveAnswer, LiveStage};
use serde_json::json;

use crate::world::{SURFACES, Served, World};

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
    for surface in SURFACES {
        answers_with_its_tools(surface);
    }
}

/// The session with which a call was answered: the system prompt, the model and the names of the tools.
fn accepted(world: &World, surface: &str) -> (String, String, Vec<String>) {
    let body = world.live.book().controls[0].body.clone();
    let (session, tools) = match surface {
        "live" => {
            let session = &body["session"];
            let backend = &session["delegation"]["responses"];
            assert_eq!(
                (&backend["model"], &backend["instructions"]),
                (&json!("gpt-5.2"), &session["instructions"])
            );
            (session, &backend["tools"])
        }
        _ => (&body, &body["tools"]),
    };
    let text = |key: &str| session[key].as_str().unwrap().to_owned();
    let names = tools.as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap().to_owned());
    (text("instructions"), text("model"), names.collect())
}

fn answers_with_its_tools(surface: &str) {
    let world = World::on(surface);
    let server = Served::start(&world.workspace);
    let webhook = world.rings("rtc_1", evening());
    assert_eq!(server.deliver(&webhook).unwrap(), (200, "{\"result\":\"started\"}".to_owned()));
    assert_eq!(server.deliver(&webhook).unwrap(), (200, "{\"result\":\"known\"}".to_owned()));
    world.until_call("rtc_1", |call| call.words().contains(&"Good evening."));
    world.live.says("rtc_1", "A table for two, please.");
    world.until_call("rtc_1", |call| call.words().contains(&"It is done."));
    assert_eq!(world.asked("rtc_1", "accept"), [200]);
    let (instructions, model, tools) = accepted(&world, surface);
    assert_eq!(instructions, "You are the desk of default. +4915112345678 calls.");
    assert_eq!(model, if surface == "live" { "gpt-live-1" } else { "gpt-realtime-2.1" });
    assert_eq!(tools, ["book", "find", "text"]);
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

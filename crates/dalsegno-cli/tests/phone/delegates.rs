//! An agent does the work of a live model that hears while it speaks: what that leaves to others is a run of the agent.

use dalsegno_testkit::{LiveAnswer, LiveStage};
use serde_json::json;

use crate::world::{Served, World};

/// A desk whose work the agent `kitchen` does, which may look for tables and book them.
fn world(replies: &str) -> World {
    let world = World::on("live");
    let file = |name: &str| std::fs::read_to_string(world.workspace.path(name)).unwrap();
    world
        .workspace
        .write("dalsegno.toml", &file("dalsegno.toml").replace("backend_model = \"gpt-5.2\"\n", ""));
    let told = world.workspace.dalsegno(&["check"]);
    assert!(told.contains("no agent does the work of `desk`"), "{told}");
    let desk = file("agents/desk.toml").replace("[\"find\", \"book\", \"text\"]", "[\"agents.kitchen\"]");
    world.workspace.write("agents/desk.toml", &format!("{desk}delegate = \"kitchen\"\n"));
    world.workspace.write(
        "agents/kitchen.toml",
        "name = \"kitchen\"\ndescription = \"Looks for tables.\"\ninstructions = \"Look for tables.\"\nprompt = \"{{request.text}}\"\n[model]\nuse = \"default\"\n\
         [tools]\nallow = [\"find\", \"book\"]\n",
    );
    world.workspace.write("model.toml", replies);
    assert_eq!(world.workspace.succeed(&["check"]), "");
    world
}

const BOOKS: &str = "[[replies]]\ncalls = [{ name = \"book\", arguments = { q = \"eight\" } }]\n\
                     [[replies]]\ntext = \"A table for two is booked.\"\n";

/// The live model leaves something to the agent.
fn leaves() -> LiveAnswer {
    LiveAnswer { text: "One moment.".into(), ..LiveAnswer::asks("anything", &json!({})) }
}

#[test]
fn an_agent_does_what_the_live_model_leaves_to_it_and_its_answer_is_said() {
    let world = world(BOOKS);
    let server = Served::start(&world.workspace);
    server.deliver(&world.rings("rtc_1", vec![LiveAnswer::says("Good evening."), leaves()])).unwrap();
    world.until_call("rtc_1", |call| call.words().contains(&"Good evening."));
    world.live.says("rtc_1", "A table for two at eight, please.");
    world.until_call("rtc_1", |call| call.words().contains(&"I hear: A table for two is booked."));
    world.until_effects("book", 1);
    let body = &world.live.book().controls[0].body["session"];
    assert_eq!(body["delegation"], json!({ "type": "client" }), "the provider gets no tools");
    world.live.hangs_up("rtc_1");
    let runs = world.until_over();
    assert_eq!(runs.len(), 2, "the call and the run of its agent: {runs:#?}");
    let kitchen = runs.iter().find(|run| run["agent"] == "kitchen").unwrap();
    let shown = world.workspace.succeed(&["show", kitchen["run_id"].as_str().unwrap(), "--full"]);
    for words in ["caller: A table for two at eight, please.", "agent: Good evening.", "agent: One moment."] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    world.holds("rtc_1");
    runs.iter().for_each(|run| world.replays(run));
}

#[test]
fn a_process_that_dies_while_the_agent_works_books_once_and_another_one_says_so() {
    for at in ["asked", "booked"] {
        let world = world(BOOKS);
        let first = Served::start(&world.workspace);
        first.deliver(&world.rings("rtc_1", vec![LiveAnswer::says("Good evening."), leaves()])).unwrap();
        world.until_call("rtc_1", |call| call.words().contains(&"Good evening."));
        world.live.says("rtc_1", "A table for two at eight, please.");
        match at {
            "asked" => world.until_call("rtc_1", |call| !call.calls().is_empty()),
            _ => world.until_effects("book", 1),
        }
        first.kill();
        let _second = Served::start(&world.workspace);
        if at == "asked" && world.runs().len() == 1 {
            // What was left to it in the gap is unknown, and the live model leaves it again.
            world.until_call("rtc_1", |call| call.attached > 1);
        }
        if world.runs().len() > 1 {
            world.until_call("rtc_1", |call| call.words().contains(&"I hear: A table for two is booked."));
            world.until_effects("book", 1);
        }
        assert_eq!(world.call("rtc_1").stage, LiveStage::Accepted, "{at}: no call ends");
        world.live.hangs_up("rtc_1");
        let runs = world.until_over();
        assert!(world.effects("book").len() <= 1, "{at}");
        runs.iter().for_each(|run| world.replays(run));
    }
}

//! Keys that a run sends to its caller's line: each once, and told truly.

use dalsegno_testkit::{LiveAnswer, LiveKeys, LiveStage};
use serde_json::{Value, json};

use crate::world::{Served, World};

const TOOL: &str = "call__send_digits";

fn world_on(surface: &str) -> World {
    let world = World::on(surface);
    world.edit("agents/desk.toml", "\"text\"]", "\"text\", \"call.send_digits\"]");
    assert_eq!(world.workspace.succeed(&["check"]), "");
    world
}

fn sends(digits: &str) -> LiveAnswer {
    LiveAnswer::asks(TOOL, &json!({ "digits": digits }))
}

/// A call that is answered, in which the caller has said something.
fn talks(world: &World, server: &Served, answers: Vec<LiveAnswer>) {
    let answers = [vec![LiveAnswer::says("Good evening.")], answers].concat();
    server.deliver(&world.rings("rtc_1", answers)).unwrap();
    world.until_call("rtc_1", |call| call.words().contains(&"Good evening."));
    world.live.says("rtc_1", "Connect me, please.");
}

/// What the model read of its calls, in order.
fn read(world: &World) -> Vec<Value> {
    let call = world.call("rtc_1");
    let outputs = call.calls().into_iter().flat_map(|asked| call.outputs(asked));
    outputs.map(|output| serde_json::from_str(output).unwrap()).collect()
}

fn ends(world: &World) {
    world.live.hangs_up("rtc_1");
    world.until_over().iter().for_each(|run| world.replays(run));
    world.holds("rtc_1");
}

#[test]
fn keys_are_sent_in_order_and_the_model_is_told() {
    let world = world_on("live");
    let server = Served::start(&world.workspace);
    talks(&world, &server, vec![sends("12#"), sends("*A"), LiveAnswer::says("You are connected.")]);
    world.until_call("rtc_1", |call| call.words().contains(&"You are connected."));
    assert_eq!(world.call("rtc_1").keys, "12#*A");
    assert_eq!(read(&world), [json!({ "sent": "12#" }), json!({ "sent": "*A" })]);
    ends(&world);
    let shown = world.workspace.succeed(&["show", "last", "--full"]);
    assert!(shown.contains("call.send_digits"), "{shown}");
}

#[test]
fn two_calls_of_one_response_are_sent_one_after_the_other() {
    let world = world_on("live");
    let server = Served::start(&world.workspace);
    let both =
        LiveAnswer { calls: [sends("123").calls, sends("456").calls].concat(), ..LiveAnswer::says("") };
    talks(&world, &server, vec![both, LiveAnswer::says("You are connected.")]);
    world.until_call("rtc_1", |call| call.words().contains(&"You are connected."));
    let keys = world.call("rtc_1").keys;
    assert!(["123456", "456123"].contains(&keys.as_str()), "{keys}");
    ends(&world);
}

#[test]
fn a_key_that_is_refused_is_the_last_one() {
    let world = world_on("live");
    world.live.sends(LiveKeys::Refused('2'));
    let server = Served::start(&world.workspace);
    talks(&world, &server, vec![sends("1123"), sends("23"), LiveAnswer::says("It does not work.")]);
    world.until_call("rtc_1", |call| call.words().contains(&"It does not work."));
    assert_eq!(world.call("rtc_1").keys, "11");
    let read = read(&world);
    let told: Vec<String> = read.iter().map(ToString::to_string).collect();
    assert!(told[0].contains("only `11` was sent: The trunk does not take `2`."), "{told:?}");
    assert_eq!(read[1]["error"]["code"], "unavailable", "{told:?}");
    let refused = |code: &String| code == "dtmf_failed";
    assert_eq!(world.live.book().errors.iter().filter(|code| refused(code)).count(), 2);
    world.live.hangs_up("rtc_1");
    world.until_over().iter().for_each(|run| world.replays(run));
}

/// The provider has sent a key and says nothing of it: then the socket is lost, or the process dies.
#[test]
fn keys_whose_answer_is_missing_are_not_sent_again() {
    for dies in [false, true] {
        let world = world_on("live");
        world.live.sends(LiveKeys::Unanswered('2'));
        let first = Served::start(&world.workspace);
        talks(&world, &first, vec![sends("123"), sends("123"), LiveAnswer::says("I do not know.")]);
        world.until_call("rtc_1", |call| call.keys == "12");
        let mut second = None;
        if dies {
            first.kill();
            second = Some(Served::start(&world.workspace));
        } else {
            world.live.loses("rtc_1");
        }
        world.until_call("rtc_1", |call| call.words().contains(&"I do not know."));
        assert_eq!(world.call("rtc_1").stage, LiveStage::Accepted, "{dies}: no call ends");
        let codes: Vec<_> = read(&world).iter().map(|read| read["error"]["code"].clone()).collect();
        assert_eq!(codes, ["in_doubt", "in_doubt"], "{dies}");
        assert_eq!(world.call("rtc_1").keys, "12", "{dies}: none is sent twice, and none after a doubt");
        ends(&world);
        drop(second);
    }
}

#[test]
fn a_line_whose_provider_sends_no_keys_says_so() {
    let world = world_on("realtime");
    let server = Served::start(&world.workspace);
    talks(&world, &server, vec![sends("1"), LiveAnswer::says("It does not work.")]);
    world.until_call("rtc_1", |call| call.words().contains(&"It does not work."));
    let read = read(&world);
    assert_eq!(read[0]["error"]["code"], "not_permitted", "{read:?}");
    assert!(read[0].to_string().contains("`surface = \\\"live\\\"` only"), "{read:?}");
    ends(&world);
}

#[test]
fn only_keys_of_a_telephone_are_sent_and_not_too_many() {
    let world = world_on("live");
    let server = Served::start(&world.workspace);
    let wrong = ["", "1 2", "E", "１", &"1".repeat(33)];
    let calls = wrong.iter().flat_map(|digits| sends(digits).calls).collect();
    let answers = vec![LiveAnswer { calls, ..LiveAnswer::says("") }, LiveAnswer::says("It does not work.")];
    talks(&world, &server, answers);
    world.until_call("rtc_1", |call| call.words().contains(&"It does not work."));
    let codes: Vec<_> = read(&world).iter().map(|read| read["error"]["code"].clone()).collect();
    assert_eq!(codes, ["invalid_arguments"; 5]);
    assert_eq!(world.call("rtc_1").keys, "");
    ends(&world);
}

//! What calls cost: by the price of their line, within the limits of the agent and the budgets of a day.

use dalsegno_testkit::{LiveAnswer, LiveStage};

use crate::world::{PATIENCE, Served, World};

/// Two tokens sent and one received, each response, at 100 and 200 dollars a million: 400,000 billionths.
const PRICE: &str = "max_calls = 8\nprice = { input = 100, output = 200 }\n";

const OF_A_RESPONSE: u64 = 400_000;

#[test]
fn a_call_costs_what_its_responses_take_and_a_budget_that_is_used_up_begins_no_other() {
    let world = World::with(PRICE);
    let settings = std::fs::read_to_string(world.workspace.path("dalsegno.toml")).unwrap();
    world
        .workspace
        .write("dalsegno.toml", &format!("{settings}\n[budget]\ntenant_max_cost_usd_per_day = 0.0005\n"));
    let server = Served::start(&world.workspace);
    let webhook = world.rings("rtc_1", vec![LiveAnswer::says("Good evening."), LiveAnswer::says("And?")]);
    server.deliver(&webhook).unwrap();
    world.until_call("rtc_1", |call| call.words().contains(&"Good evening."));
    world.live.says("rtc_1", "Hello.");
    world.until_call("rtc_1", |call| call.words().contains(&"And?"));
    assert_eq!(world.call("rtc_1").stage, LiveStage::Accepted, "a call that goes on is not ended");
    world.live.hangs_up("rtc_1");
    let runs = world.until_over();
    assert_eq!(runs[0]["status"], "completed");
    let shown = world.workspace.json(&["show", "last"]);
    assert_eq!(shown["usage"]["cost_nano_usd"], 2 * OF_A_RESPONSE, "{shown}");
    let cost = world.workspace.json(&["cost"]);
    assert!(cost.to_string().contains("voice.lines.front") && cost.to_string().contains("800000"), "{cost}");
    // The day has no room for another one.
    let other = world.rings("rtc_2", vec![LiveAnswer::says("Good evening.")]);
    assert_eq!(server.deliver(&other).unwrap().0, 200);
    world.until(|book| book.controls.iter().any(|control| control.call == "rtc_2"));
    let book = world.live.book();
    let control = book.controls.iter().find(|control| control.call == "rtc_2").unwrap();
    assert_eq!((control.verb.as_str(), control.body["status_code"].as_u64()), ("reject", Some(503)));
    assert_eq!(world.runs().len(), 1, "nothing is begun");
    world.replays(&runs[0]);
}

/// Each thing that the caller says takes 15 seconds, at 60 cents a minute: 150,000,000 billionths.
const OF_A_TURN: u64 = 150_000_000;

#[test]
fn the_time_of_a_live_model_is_counted_once_by_processes_that_follow_each_other() {
    let world = World::on("live");
    world.edit(
        "dalsegno.toml",
        "max_calls = 8\n",
        "max_calls = 8\nprice = { input = 0, output = 0, minute = 0.6 }\n",
    );
    let first = Served::start(&world.workspace);
    let answers = ["Good evening.", "One.", "Two.", "Three."].map(LiveAnswer::says);
    first.deliver(&world.rings("rtc_1", answers.to_vec())).unwrap();
    world.until_call("rtc_1", |call| call.words().contains(&"Good evening."));
    world.live.says("rtc_1", "Is it one?");
    world.until_call("rtc_1", |call| call.words().contains(&"One."));
    let cost = || world.workspace.json(&["show", "last"])["usage"]["cost_nano_usd"].as_u64();
    until(|| cost() == Some(OF_A_TURN));
    first.kill();
    // What passes without a process is counted by the next one.
    world.live.says("rtc_1", "Is it two?");
    let second = Served::start(&world.workspace);
    world.until_call("rtc_1", |call| call.attached > 1);
    world.live.says("rtc_1", "Is it three?");
    world.until_call("rtc_1", |call| call.words().contains(&"Three."));
    until(|| cost() == Some(3 * OF_A_TURN));
    world.live.hangs_up("rtc_1");
    let runs = world.until_over();
    assert_eq!(cost(), Some(3 * OF_A_TURN));
    let counted = world.workspace.json(&["cost"]).to_string();
    assert!(counted.contains("voice.lines.front") && counted.contains("450000000"), "{counted}");
    world.replays(&runs[0]);
    drop(second);
}

#[test]
fn the_time_of_a_live_model_ends_a_call_whose_cost_is_bounded() {
    let world = World::on("live");
    world.edit("dalsegno.toml", "max_calls = 8\n", "max_calls = 8\nprice = { input = 100, output = 200 }\n");
    let agent = std::fs::read_to_string(world.workspace.path("agents/desk.toml")).unwrap();
    let settings = world.workspace.path("dalsegno.toml");
    let models = std::fs::read_to_string(&settings).unwrap();
    world.workspace.write("agents/desk.toml", &format!("{agent}[limits]\nmax_cost_usd = 0.2\n"));
    let models = models.replace("\"model.toml\"\n", "\"model.toml\"\nprice = { input = 1, output = 1 }\n");
    std::fs::write(&settings, models).unwrap();
    let told = world.workspace.dalsegno(&["check"]);
    assert!(told.contains("`price.minute`") && told.contains("does not count the live model"), "{told}");
    world.edit("dalsegno.toml", "output = 200 }", "output = 200, minute = 0.6 }");
    assert_eq!(world.workspace.succeed(&["check"]), "");
    let server = Served::start(&world.workspace);
    let answers = ["Good evening.", "One.", "Two."].map(LiveAnswer::says);
    server.deliver(&world.rings("rtc_1", answers.to_vec())).unwrap();
    world.until_call("rtc_1", |call| call.words().contains(&"Good evening."));
    world.live.says("rtc_1", "Is it one?");
    world.until_call("rtc_1", |call| call.words().contains(&"One."));
    assert_eq!(world.call("rtc_1").stage, LiveStage::Accepted);
    world.live.says("rtc_1", "Is it two?");
    let runs = world.until_over();
    assert_eq!(
        (&runs[0]["status"], world.asked("rtc_1", "hangup")),
        (&"failed".into(), vec![200]),
        "{runs:?}"
    );
    let shown = world.workspace.succeed(&["show", "last"]);
    assert!(shown.contains("max_cost_usd"), "{shown}");
    world.replays(&runs[0]);
}

/// Waits until it is so.
fn until(is_so: impl Fn() -> bool) {
    let begun = std::time::Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "it does not come");
    }
}

#[test]
fn a_budget_without_prices_of_lines_is_refused_and_a_bound_without_one_is_warned_of() {
    let world = World::new();
    let settings = std::fs::read_to_string(world.workspace.path("dalsegno.toml")).unwrap();
    let agent = std::fs::read_to_string(world.workspace.path("agents/desk.toml")).unwrap();
    world.workspace.write("agents/desk.toml", &format!("{agent}[limits]\nmax_cost_usd = 1\n"));
    let settings = settings
        .replace("file = \"model.toml\"\n", "file = \"model.toml\"\nprice = { input = 1, output = 1 }\n");
    world.workspace.write("dalsegno.toml", &settings);
    let told = world.workspace.dalsegno(&["check"]);
    assert!(told.contains("bounds its cost, and the line that it answers"), "{told}");
    world.workspace.write("dalsegno.toml", &format!("{settings}\n[budget]\nmax_cost_usd_per_day = 1\n"));
    let told = world.workspace.dalsegno(&["check"]);
    assert!(told.contains("the budget cannot hold: the line `front` has no `price`"), "{told}");
}

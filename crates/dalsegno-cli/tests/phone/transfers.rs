//! Calls that are transferred: only where the number's owner allows it, once, and told truly.

use dalsegno_testkit::{LiveAnswer, LiveRefer, LiveStage};
use serde_json::{Value, json};

use crate::world::{NUMBER, SURFACES, Served, World};

const TOOL: &str = "transfer__request_transfer";

/// A desk that may transfer its calls to these addresses; its tenant would like to transfer them to sales and to a cousin.
fn world(transfer_to: &str, confirms: bool) -> World {
    world_on("realtime", transfer_to, confirms)
}

pub(crate) fn world_on(surface: &str, transfer_to: &str, confirms: bool) -> World {
    let world = World::on(surface);
    let settings = std::fs::read_to_string(world.workspace.path("dalsegno.toml")).unwrap().replace(
        &format!("\"{NUMBER}\" = {{ agent = \"desk\" }}"),
        &format!("\"{NUMBER}\" = {{ agent = \"desk\", transfer_to = [{transfer_to}] }}"),
    );
    world.workspace.write("dalsegno.toml", &settings);
    let agent = std::fs::read_to_string(world.workspace.path("agents/desk.toml"))
        .unwrap()
        .replace("\"text\"]", "\"text\", \"transfer.*\"]");
    world.workspace.write("agents/desk.toml", &agent);
    let tenant = std::fs::read_to_string(world.workspace.path("tenants/default.toml")).unwrap();
    world.workspace.write(
        "tenants/default.toml",
        &format!(
            "{tenant}[features.refer]\nrequire_confirmation = {confirms}\n\
             [[features.refer.destinations]]\ndestination_id = \"sales\"\nlabel = \"Sales\"\ntarget_uri = \"+33140000001\"\n\
             [[features.refer.destinations]]\ndestination_id = \"cousin\"\ntarget_uri = \"tel:+881600000000\"\n"
        ),
    );
    world
}

pub(crate) fn to(destination: &str) -> LiveAnswer {
    LiveAnswer::asks(TOOL, &json!({ "destination_id": destination }))
}

/// What the model read of its calls, in order.
fn read(world: &World, call: &str) -> Vec<Value> {
    let call = world.call(call);
    let outputs = call.calls().into_iter().flat_map(|asked| call.outputs(asked));
    outputs.map(|output| serde_json::from_str(output).unwrap()).collect()
}

pub(crate) fn targets(world: &World) -> Vec<String> {
    let book = world.live.book();
    let refers = book.controls.iter().filter(|control| control.verb == "refer");
    refers.map(|control| control.body["target_uri"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_caller_who_says_yes_is_transferred_and_the_run_ends_so() {
    for surface in SURFACES {
        is_transferred(surface);
    }
}

fn is_transferred(surface: &str) {
    let world = world_on(surface, "\"+33140000001\"", true);
    let server = Served::start(&world.workspace);
    let confirmed = json!({ "destination_id": "sales", "confirmation_token": "{{last_call}}" });
    let answers = vec![
        LiveAnswer::says("Good evening."),
        to("sales"),
        // The model claims a yes that nobody gave.
        LiveAnswer::asks(TOOL, &confirmed),
        LiveAnswer::says("Shall I transfer you to Sales?"),
        LiveAnswer { text: "I transfer you.".into(), ..LiveAnswer::asks(TOOL, &confirmed) },
        LiveAnswer::says("One moment."),
    ];
    server.deliver(&world.rings("rtc_1", answers)).unwrap();
    world.until_call("rtc_1", |call| call.words().contains(&"Good evening."));
    world.live.says("rtc_1", "I want to buy something.");
    world.until_call("rtc_1", |call| call.words().contains(&"Shall I transfer you to Sales?"));
    assert_eq!(targets(&world), [] as [&str; 0]);
    world.live.says("rtc_1", "Yes.");
    let runs = world.until_over();
    assert_eq!(targets(&world), ["tel:+33140000001"]);
    assert_eq!(world.asked("rtc_1", "hangup"), [0; 0], "a call that was transferred is not hung up");
    assert_eq!(runs[0]["status"], "completed");
    let shown = world.workspace.succeed(&["show", "last"]);
    assert!(shown.contains("the call was transferred"), "{shown}");
    let read = read(&world, "rtc_1");
    let statuses: Vec<_> = read.iter().map(|output| output["status"].as_str().unwrap_or_default()).collect();
    assert_eq!(statuses[..2], ["confirmation_required", "confirmation_required"], "{read:?}");
    world.holds("rtc_1");
    world.replays(&runs[0]);
}

#[test]
fn nobody_is_transferred_where_the_number_does_not_allow_it_whatever_the_tenant_writes() {
    for transfer_to in ["", "\"+3314*\", \"sip:*@acme.example\""] {
        let world = world(transfer_to, false);
        let server = Served::start(&world.workspace);
        let answers = vec![LiveAnswer::says("Good evening."), to("cousin"), LiveAnswer::says("I cannot.")];
        server.deliver(&world.rings("rtc_1", answers)).unwrap();
        world.until_call("rtc_1", |call| call.words().contains(&"Good evening."));
        world.live.says("rtc_1", "My cousin, please.");
        world.until_call("rtc_1", |call| call.words().contains(&"I cannot."));
        assert_eq!(targets(&world), [] as [&str; 0]);
        let read = read(&world, "rtc_1");
        assert_eq!(
            (&read[0]["status"], &read[0]["reason"]),
            (&json!("failed"), &json!("not_permitted")),
            "{read:?}"
        );
        assert!(!read[0].to_string().contains("+881"), "no model reads where a call goes: {read:?}");
        world.live.hangs_up("rtc_1");
        let runs = world.until_over();
        world.holds("rtc_1");
        world.replays(&runs[0]);
    }
}

#[test]
fn a_call_that_goes_on_is_told_so() {
    let world = world("\"+3314*\"", false);
    let server = Served::start(&world.workspace);
    world.live.refers(LiveRefer::NotAnswered);
    let answers = vec![
        LiveAnswer::says("Good evening."),
        to("sales"),
        LiveAnswer::says("Bye."),
        LiveAnswer::says("Still here?"),
    ];
    server.deliver(&world.rings("rtc_1", answers)).unwrap();
    world.until_call("rtc_1", |call| call.words().contains(&"Good evening."));
    world.live.says("rtc_1", "Sales, please.");
    world.until_call("rtc_1", |call| call.words().contains(&"Still here?"));
    let words = world.call("rtc_1").words().join("\n");
    assert!(words.contains("The call was not transferred"), "{words}");
    world.live.hangs_up("rtc_1");
    let runs = world.until_over();
    let shown = world.workspace.succeed(&["show", "last"]);
    assert!(shown.contains("the call is over") && !shown.contains("the call was transferred"), "{shown}");
    world.holds("rtc_1");
    world.replays(&runs[0]);
}

#[test]
fn a_refusal_is_told_at_once() {
    let world = world("\"+3314*\"", false);
    let server = Served::start(&world.workspace);
    world.live.refers(LiveRefer::Refused(400));
    let answers = vec![LiveAnswer::says("Good evening."), to("sales"), LiveAnswer::says("It fails.")];
    server.deliver(&world.rings("rtc_1", answers)).unwrap();
    world.until_call("rtc_1", |call| call.words().contains(&"Good evening."));
    world.live.says("rtc_1", "Sales, please.");
    world.until_call("rtc_1", |call| call.words().contains(&"It fails."));
    assert_eq!(read(&world, "rtc_1")[0]["status"], "failed");
    assert_eq!(world.asked("rtc_1", "refer"), [400]);
    world.live.hangs_up("rtc_1");
    let runs = world.until_over();
    world.holds("rtc_1");
    world.replays(&runs[0]);
}

#[test]
fn a_process_that_dies_in_a_transfer_asks_for_none_again_and_nobody_else() {
    // Killed when the provider has made it, and not said so: the call is over.
    let world = world("\"+3314*\"", false);
    world.live.refers(LiveRefer::Unanswered);
    let first = Served::start(&world.workspace);
    let answers = vec![LiveAnswer::says("Good evening."), to("sales"), LiveAnswer::says("One moment.")];
    first.deliver(&world.rings("rtc_1", answers)).unwrap();
    world.until_call("rtc_1", |call| call.words().contains(&"Good evening."));
    world.live.says("rtc_1", "Sales, please.");
    world.until(|book| book.controls.iter().any(|control| control.verb == "refer"));
    assert_eq!(world.call("rtc_1").stage, LiveStage::Gone);
    first.kill();
    let _second = Served::start(&world.workspace);
    let runs = world.until_over();
    assert_eq!(targets(&world).len(), 1, "in doubt it is not repeated");
    let shown = world.workspace.succeed(&["show", "last"]);
    assert!(shown.contains("the call was transferred"), "{shown}");
    world.replays(&runs[0]);
}

#[test]
fn a_client_who_claims_to_be_a_call_transfers_nobody() {
    let world = world("\"+3314*\"", false);
    let server = Served::start(&world.workspace);
    server.deliver(&world.rings("rtc_1", vec![LiveAnswer::says("Good evening.")])).unwrap();
    world.until_call("rtc_1", |call| call.words().contains(&"Good evening."));
    let script = "[[replies]]\ncalls = [{ name = \"transfer.request_transfer\", arguments = { destination_id = \"sales\" } }]\n\
                  [[replies]]\ntext = \"No.\"\n";
    world.workspace.write("model.toml", script);
    let user = json!({ "call_id": "rtc_1", "line": "front", "surface": "realtime", "called": NUMBER });
    world.workspace.succeed(&["run", "desk", "transfer me", "--user", &user.to_string()]);
    let shown = world.workspace.succeed(&["show", "last"]);
    assert!(shown.contains("there is no call that could be transferred"), "{shown}");
    assert_eq!(targets(&world), [] as [&str; 0]);
    world.live.hangs_up("rtc_1");
    world.until_over();
}

//! Processes die, are replaced and transfer calls whose sound passes through them.

use dalsegno_testkit::{CarrierStage, LiveAnswer, LiveBook};
use serde_json::json;

use crate::kills::kills;
use crate::media::MediaWorld;
use crate::talk::evening;
use crate::world::{NUMBER, Served};

/// A moment of a call.
type Moment = (&'static str, fn(&LiveBook) -> bool);

/// The moments at which a process is killed.
const MOMENTS: [Moment; 7] = [
    ("a session is opened", |book| book.sessions > 0),
    ("the agent speaks", |book| book.words().contains(&"Good evening.")),
    ("the caller has spoken", |book| book.words().len() > 1),
    ("a read was asked for", |book| !book.calls().is_empty()),
    ("a keyed tool was asked for", |book| book.calls().len() > 1),
    ("an unsafe tool was asked for", |book| book.calls().len() > 2),
    ("all is done", |book| book.words().contains(&"It is done.")),
];

#[test]
fn a_process_that_is_killed_at_any_moment_doubles_no_effect_and_the_caller_speaks_with_the_next_one() {
    for number in 0..kills(MOMENTS.len()) {
        let (name, moment) = MOMENTS[number % MOMENTS.len()];
        let world = MediaWorld::new();
        let first = world.serve();
        world.calls("CA1", evening());
        if number % MOMENTS.len() >= 2 {
            world.until_heard("CA1", "Good evening.");
            world.carrier.says("CA1", "A table for two, please.");
        }
        world.until(moment);
        // Beyond the first round the process dies a little later each time.
        for _ in 0..(number / MOMENTS.len()) * 200 {
            std::thread::yield_now();
        }
        first.kill();
        let sockets = world.carrier.call("CA1").sockets;
        let _second = world.serve();
        world.until_call("CA1", |call| {
            assert!(!call.stage.is_over(), "{name}: {call:#?}: {}", world.show());
            call.sockets > sockets && call.stage == CarrierStage::Streaming
        });
        world.carrier.says("CA1", "Are you still there?");
        world.until(|book| {
            let words = book.words();
            words
                .iter()
                .position(|words| *words == "Are you still there?")
                .is_some_and(|at| at + 1 < words.len())
        });
        world.carrier.hangs_up("CA1");
        let runs = world.world.until_over();
        assert_eq!(runs.len(), 1, "{name}: one call, one run");
        for tool in ["book", "text"] {
            assert!(world.world.effects(tool).len() <= 1, "{name}: {:?}", world.world.effects);
        }
        world.holds("CA1");
    }
}

#[test]
fn a_deployment_ends_no_call() {
    let world = MediaWorld::new();
    let old = world.serve();
    world.calls("CA1", evening());
    world.until_heard("CA1", "Good evening.");
    let _new = world.serve();
    assert!(old.stop(), "it ends well");
    world.until_call("CA1", |call| call.sockets == 2);
    world.carrier.says("CA1", "A table for two, please.");
    world.until_heard("CA1", "It is done.");
    world.carrier.hangs_up("CA1");
    let runs = world.world.until_over();
    assert_eq!((runs.len(), &runs[0]["status"]), (1, &json!("completed")));
    world.holds("CA1");
}

#[test]
fn a_socket_that_comes_to_another_process_gets_the_call_from_the_first() {
    let world = MediaWorld::new();
    let _first = world.serve();
    world.calls("CA1", evening());
    world.until_heard("CA1", "Good evening.");
    // The balancer of the load sends the carrier to another process, which lives beside the first.
    let second = Served::start(&world.world.workspace);
    world.carrier.reaches(second.address);
    world.carrier.loses("CA1");
    world.until_call("CA1", |call| call.sockets == 2);
    world.carrier.says("CA1", "A table for two, please.");
    world.until_heard("CA1", "It is done.");
    world.carrier.hangs_up("CA1");
    assert_eq!(world.world.until_over().len(), 1);
    assert_eq!(world.world.effects("book").len(), 1);
    world.holds("CA1");
}

const TOOL: &str = "transfer__request_transfer";

/// A desk that may transfer its calls to these addresses; its tenant would like to transfer them there.
fn transferring(transfer_to: &str, target: &str) -> MediaWorld {
    let world = MediaWorld::new();
    let number = format!("\"{NUMBER}\" = {{ agent = \"desk\" }}");
    let allowed = format!("\"{NUMBER}\" = {{ agent = \"desk\", transfer_to = [{transfer_to}] }}");
    world.world.edit("dalsegno.toml", &number, &allowed);
    world.world.edit("agents/desk.toml", "\"text\"]", "\"text\", \"transfer.*\"]");
    let tenant = std::fs::read_to_string(world.world.workspace.path("tenants/default.toml")).unwrap();
    world.world.workspace.write(
        "tenants/default.toml",
        &format!(
            "{tenant}[features.refer]\nrequire_confirmation = false\n\
             [[features.refer.destinations]]\ndestination_id = \"sales\"\ntarget_uri = \"{target}\"\n"
        ),
    );
    world.world.workspace.succeed(&["check"]);
    world
}

fn sales() -> Vec<LiveAnswer> {
    let transfer = LiveAnswer::asks(TOOL, &json!({ "destination_id": "sales" }));
    vec![
        LiveAnswer::says("Good evening."),
        transfer,
        LiveAnswer::says("One moment."),
        LiveAnswer::says("I cannot."),
    ]
}

#[test]
fn a_caller_is_connected_with_the_address_that_the_number_allows() {
    for (allowed, target, dialled) in [
        ("\"+3314*\"", "+33140000001", "+33140000001"),
        ("\"sip:*@acme.example\"", "sip:sales@acme.example", "sip:sales@acme.example"),
    ] {
        let world = transferring(allowed, target);
        let _server = world.serve();
        world.calls("CA1", sales());
        world.until_heard("CA1", "Good evening.");
        world.carrier.says("CA1", "Sales, please.");
        world.until_call("CA1", |call| call.stage == CarrierStage::Dialled(dialled.to_owned()));
        let runs = world.world.until_over();
        assert_eq!(runs[0]["status"], "completed");
        let shown = world.show();
        assert!(shown.contains("the call was transferred"), "{shown}");
        world.holds("CA1");
    }
}

#[test]
fn a_call_stays_where_the_number_does_not_allow_the_address() {
    let world = transferring("", "+33140000001");
    let _server = world.serve();
    world.calls("CA1", sales());
    world.until_heard("CA1", "Good evening.");
    world.carrier.says("CA1", "Sales, please.");
    world.until_heard("CA1", "One moment.");
    assert_eq!(world.carrier.call("CA1").stage, CarrierStage::Streaming);
    world.carrier.hangs_up("CA1");
    world.world.until_over();
    let shown = world.show();
    assert!(!shown.contains("the call was transferred"), "{shown}");
    world.holds("CA1");
}

#[test]
fn a_process_that_dies_in_a_transfer_has_the_caller_connected_by_the_next_one() {
    let world = transferring("\"+3314*\"", "+33140000001");
    let first = world.serve();
    world.calls("CA1", sales());
    world.until_heard("CA1", "Good evening.");
    // The line is closed once the transfer is written down; the next question comes to no process, until another one is there.
    world.carrier.reaches("127.0.0.1:9".parse().unwrap());
    world.carrier.says("CA1", "Sales, please.");
    world.until_call("CA1", |call| call.stage == CarrierStage::Asking);
    first.kill();
    let _second = world.serve();
    world.until_call("CA1", |call| call.stage == CarrierStage::Dialled("+33140000001".to_owned()));
    let runs = world.world.until_over();
    assert_eq!(runs[0]["status"], "completed");
    world.holds("CA1");
}

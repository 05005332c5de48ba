//! Processes die or are replaced while calls go on, and no caller hears it.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use dalsegno_testkit::{LiveAnswer, LiveStage, LiveTelephone};
use serde_json::json;

use crate::talk::evening;
use crate::world::{PATIENCE, SURFACES, Served, World};

/// A moment of a call.
type Moment = (&'static str, fn(&LiveTelephone) -> bool);

/// The moments at which a process is killed.
const MOMENTS: [Moment; 9] = [
    ("the event was received", |_| true),
    ("the call is answered", |call| call.stage == LiveStage::Accepted),
    ("its session is found", |call| call.attached == 1),
    ("the agent speaks", |call| call.words().contains(&"Good evening.")),
    ("the caller has spoken", |call| call.words().len() > 1),
    ("a read was asked for", |call| !call.calls().is_empty()),
    ("a keyed tool was asked for", |call| call.calls().len() > 1),
    ("an unsafe tool was asked for", |call| call.calls().len() > 2),
    ("all is done", |call| call.words().contains(&"It is done.")),
];

/// How many kills there are: a few in every test, more where the variable says so.
pub(crate) fn kills(moments: usize) -> usize {
    std::env::var("DALSEGNO_PHONE_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(moments)
}

/// Kills a process that carries a call, and starts the next one. Returns that, and how long no process carried the call; none if the
/// call is over.
pub(crate) fn kill_and_follow(world: &World, first: Served, call: &str) -> (Served, Option<Duration>) {
    first.kill();
    let killed = Instant::now();
    let before = world.call(call).attached;
    let second = Served::start(&world.workspace);
    world.until_call(call, |call| call.attached > before || call.stage == LiveStage::Gone);
    let is_over = world.call(call).stage == LiveStage::Gone;
    (second, (!is_over).then(|| killed.elapsed()))
}

#[test]
fn a_process_that_is_killed_at_any_moment_doubles_no_effect_and_another_one_has_the_call() {
    let mut slowest = Duration::ZERO;
    for (number, surface) in
        (0..kills(MOMENTS.len())).flat_map(|number| SURFACES.map(|surface| (number, surface)))
    {
        let (name, moment) = MOMENTS[number % MOMENTS.len()];
        let name = format!("{surface}: {name}");
        let world = World::on(surface);
        let call = "rtc_1";
        let first = Served::start(&world.workspace);
        let webhook = world.rings(call, evening());
        assert_eq!(first.deliver(&webhook).unwrap().0, 200);
        if number % MOMENTS.len() >= 4 {
            world.until_call(call, |call| call.words().contains(&"Good evening."));
            world.live.says(call, "A table for two, please.");
        }
        world.until_call(call, moment);
        // Beyond the first round the process dies a little later each time.
        for _ in 0..(number / MOMENTS.len()) * 200 {
            std::thread::yield_now();
        }
        let (second, silence) = kill_and_follow(&world, first, call);
        eprintln!("{name}: attached {silence:?} after the kill");
        slowest = slowest.max(silence.unwrap_or_default());
        // The provider sends again what it is not sure of.
        assert_eq!(second.deliver(&webhook).unwrap(), (200, "{\"result\":\"known\"}".to_owned()), "{name}");
        let words = world.call(call).words().len();
        world.live.says(call, "Are you still there?");
        world.until_call(call, |call| {
            call.words().contains(&"Are you still there?") && call.words().len() >= words + 2
        });
        assert_eq!(world.call(call).stage, LiveStage::Accepted, "{name}: no call ends");
        world.live.hangs_up(call);
        let runs = world.until_over();
        assert_eq!(runs.len(), 1, "{name}");
        assert!(
            world.effects("book").len() <= 1 && world.effects("text").len() <= 1,
            "{name}: {:?}",
            world.effects
        );
        world.holds(call);
        world.replays(&runs[0]);
    }
    eprintln!("slowest: attached {slowest:?} after the kill");
}

#[test]
fn two_processes_that_are_told_of_a_call_five_times_answer_it_once() {
    let world = World::new();
    let servers = [Served::start(&world.workspace), Served::start(&world.workspace)];
    let webhook = world.rings("rtc_1", vec![LiveAnswer::says("Good evening.")]);
    let answers: Vec<_> = std::thread::scope(|scope| {
        let tell = |number: usize| {
            let (server, webhook) = (&servers[number % 2], &webhook);
            scope.spawn(move || server.deliver(webhook).unwrap())
        };
        let told: Vec<_> = (0..5).map(tell).collect();
        told.into_iter().map(|told| told.join().unwrap()).collect()
    });
    assert!(answers.iter().all(|(status, _)| *status == 200), "{answers:?}");
    let started = answers.iter().filter(|(_, body)| body.contains("started"));
    assert_eq!(started.count(), 1, "{answers:?}");
    world.until_call("rtc_1", |call| call.words().contains(&"Good evening."));
    assert_eq!(world.asked("rtc_1", "accept"), [200]);
    world.live.hangs_up("rtc_1");
    assert_eq!(world.until_over().len(), 1);
    world.holds("rtc_1");
}

/// The process is asked to stop while it is being told of a call: the provider does not tell that again.
#[test]
fn a_call_that_rings_while_its_process_stops_is_rejected_before_the_process_ends() {
    for _ in 0..5 {
        let world = World::new();
        let server = Served::start(&world.workspace);
        let (head, body) = world.rings("rtc_1", vec![]).halves("front", "localhost");
        let mut stream = TcpStream::connect(server.address).unwrap();
        stream.write_all(head.as_bytes()).unwrap();
        let mut asked = [0; 25];
        stream.read_exact(&mut asked).unwrap();
        assert!(asked.starts_with(b"HTTP/1.1 100 Continue\r\n"), "{}", String::from_utf8_lossy(&asked));
        let address = server.address;
        let stopped = std::thread::spawn(move || server.stop());
        let begun = Instant::now();
        while TcpStream::connect(address).is_ok() {
            assert!(begun.elapsed() < PATIENCE, "it does not stop");
            std::thread::yield_now();
        }
        stream.write_all(body.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.ends_with("{\"result\":\"rejected\"}"), "{answer}");
        assert!(stopped.join().unwrap(), "it ends well");
        assert_eq!(world.asked("rtc_1", "reject"), [200]);
        assert_eq!(world.live.book().controls[0].body, json!({ "status_code": 503 }));
        assert_eq!(world.runs().len(), 0, "nothing is begun");
    }
}

#[test]
fn a_deployment_ends_no_call() {
    let world = World::new();
    let old = Served::start(&world.workspace);
    let calls = ["rtc_1", "rtc_2", "rtc_3"];
    for call in calls {
        let story = LiveAnswer::says("A long story.").held();
        let after = LiveAnswer::asks("book", &json!({ "q": call }));
        let webhook = world.rings(
            call,
            vec![LiveAnswer::says("Good evening."), story, after, LiveAnswer::says("It is done.")],
        );
        assert_eq!(old.deliver(&webhook).unwrap().0, 200);
        world.until_call(call, |call| call.words().contains(&"Good evening."));
    }
    // One of them is in the middle of a response.
    world.live.says("rtc_1", "Tell me a story.");
    world.until_call("rtc_1", |call| call.words().contains(&"Tell me a story."));
    let new = Served::start(&world.workspace);
    assert!(old.stop(), "it ends well");
    for call in calls {
        world.until_call(call, |call| call.attached == 2);
        assert_eq!(world.call(call).stage, LiveStage::Accepted, "{call}");
        assert_eq!(world.asked(call, "hangup"), [0; 0], "{call}");
        if call != "rtc_1" {
            world.live.says(call, "Tell me a story.");
        }
        world.live.says(call, "Book me a table instead.");
        world.until_call(call, |call| call.words().contains(&"It is done."));
    }
    world.until_effects("book", 3);
    calls.iter().for_each(|call| world.live.hangs_up(call));
    let runs = world.until_over();
    assert_eq!(runs.iter().filter(|run| run["status"] == "completed").count(), 3, "{runs:#?}");
    for (call, run) in calls.iter().zip(&runs) {
        world.holds(call);
        world.replays(run);
    }
    assert!(new.stop());
}

#[test]
fn sockets_that_are_lost_are_found_again_and_the_call_is_the_same() {
    let world = World::new();
    let server = Served::start(&world.workspace);
    let webhook = world.rings("rtc_1", evening());
    server.deliver(&webhook).unwrap();
    world.until_call("rtc_1", |call| call.words().contains(&"Good evening."));
    for number in 2..5 {
        world.live.loses("rtc_1");
        world.until_call("rtc_1", |call| call.attached == number);
    }
    world.live.says("rtc_1", "A table for two, please.");
    world.until_call("rtc_1", |call| call.words().contains(&"It is done."));
    let call = world.call("rtc_1");
    assert_eq!(
        call.words().iter().filter(|words| **words == "Good evening.").count(),
        1,
        "no dialogue is sent anew"
    );
    world.live.hangs_up("rtc_1");
    let runs = world.until_over();
    assert_eq!(world.effects("book").len(), 1);
    world.holds("rtc_1");
    world.replays(&runs[0]);
}

#[test]
fn a_run_that_is_cancelled_is_hung_up() {
    let world = World::new();
    let server = Served::start(&world.workspace);
    let webhook = world.rings("rtc_1", vec![LiveAnswer::says("Good evening.")]);
    server.deliver(&webhook).unwrap();
    world.until_call("rtc_1", |call| call.words().contains(&"Good evening."));
    world.workspace.succeed(&["cancel", "last"]);
    world.until_call("rtc_1", |call| call.stage == LiveStage::Gone);
    let runs = world.until_over();
    assert_eq!(runs[0]["status"], json!("cancelled"));
    assert_eq!(world.asked("rtc_1", "hangup"), [200]);
    world.replays(&runs[0]);
}

#[test]
fn a_run_that_is_cancelled_while_its_call_is_being_answered_is_hung_up() {
    let world = World::new();
    let server = Served::start(&world.workspace);
    world.live.answers_after(Duration::from_millis(1_500));
    server.deliver(&world.rings("rtc_1", vec![LiveAnswer::says("Good evening.")])).unwrap();
    world.wait(|world| world.runs().len() == 1);
    std::thread::sleep(Duration::from_millis(200));
    world.workspace.succeed(&["cancel", "last"]);
    // It is answered after that, and no process carries it.
    world.until_call("rtc_1", |call| call.stage == LiveStage::Accepted);
    world.until_call("rtc_1", |call| call.stage == LiveStage::Gone);
    assert_eq!(world.until_over()[0]["status"], json!("cancelled"));
    assert_eq!(world.asked("rtc_1", "hangup").last(), Some(&200));
}

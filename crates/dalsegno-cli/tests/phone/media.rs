//! Calls whose sound passes through: a carrier asks what to do with them, and sends and plays it at the pace of a telephone.

use dalsegno_testkit::{Carrier, CarrierCall, CarrierStage, LiveAnswer, LiveBook};
use serde_json::{Value, json};

use crate::talk::evening;
use crate::world::{NUMBER, PATIENCE, Served, World};

/// The authentication token of the carrier.
pub(crate) const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// A world with a carrier.
pub(crate) struct MediaWorld {
    pub(crate) world: World,
    pub(crate) carrier: Carrier,
}

impl MediaWorld {
    pub(crate) fn new() -> Self {
        Self::with("max_calls = 8\n")
    }

    pub(crate) fn with(of_line: &str) -> Self {
        let world = World::with(of_line);
        world.edit("dalsegno.toml", "transport = \"sip\"", "transport = \"media\"");
        world.workspace.write("secret", TOKEN);
        world.workspace.write("old", "an-older-token-of-the-carrier");
        assert_eq!(world.workspace.succeed(&["check"]), "");
        let carrier = Carrier::new(TOKEN, "front", "127.0.0.1:9".parse().unwrap());
        Self { world, carrier }
    }

    /// A server, which the carrier reaches.
    pub(crate) fn serve(&self) -> Served {
        let server = Served::start(&self.world.workspace);
        self.carrier.reaches(server.address);
        server
    }

    /// A caller calls the desk, whose live model has these answers.
    pub(crate) fn calls(&self, call: &str, answers: Vec<LiveAnswer>) {
        self.world.live.answers(answers);
        let _there = self.world.there.enter();
        self.carrier.calls(call, "+4915112345678", NUMBER);
    }

    pub(crate) fn until_call(&self, call: &str, is_so: impl Fn(&CarrierCall) -> bool) {
        let waits = async { tokio::time::timeout(PATIENCE, self.carrier.until(call, is_so)).await };
        if self.world.there.block_on(waits).is_err() {
            let call = self.carrier.call(call);
            panic!("it does not come: {call:#?}, heard: {}: {:#?}", call.heard(), self.world.live.book());
        }
    }

    /// Waits until a caller has heard this.
    pub(crate) fn until_heard(&self, call: &str, words: &str) {
        self.until_call(call, |call| call.heard().contains(words));
    }

    pub(crate) fn until(&self, is_so: impl Fn(&LiveBook) -> bool) {
        self.world.until(is_so);
    }

    /// What must hold of every call that is over: its run replays, its provider and its carrier refused nothing, and each call of a tool
    /// has at most one output.
    pub(crate) fn holds(&self, call: &str) {
        let book = self.world.live.book();
        let known = ["response_cancel_not_active", "item_already_exists", "duplicate_tool_output"];
        let refused: Vec<_> = book.errors.iter().filter(|code| !known.contains(&code.as_str())).collect();
        assert!(refused.is_empty(), "{refused:?}: {:#?}", book.frames);
        for asked in book.calls() {
            assert!(book.outputs(asked).len() <= 1, "{asked}: {:#?}", book.items);
        }
        let call = self.carrier.call(call);
        assert!(call.wrong.is_empty() && call.stage.is_over(), "{call:#?}");
        self.world.runs().iter().for_each(|run| self.world.replays(run));
    }

    pub(crate) fn show(&self) -> String {
        self.world.workspace.succeed(&["show", "last"])
    }
}

#[test]
fn a_number_rings_and_an_agent_answers_with_its_tools() {
    let world = MediaWorld::new();
    let server = world.serve();
    world.calls("CA1", evening());
    world.until_heard("CA1", "Good evening.");
    world.carrier.says("CA1", "A table for two, please.");
    world.until_heard("CA1", "I book it.I text you.It is done.");
    world.carrier.presses("CA1", '4');
    world.carrier.presses("CA1", '#');
    world.until(|book| book.words().iter().any(|words| words.contains("pressed the keys 4#")));
    world.until_heard("CA1", "Yes.");
    world.carrier.hangs_up("CA1");
    let runs = world.world.until_over();
    assert_eq!((runs.len(), &runs[0]["status"]), (1, &json!("completed")));
    for tool in ["find", "book", "text"] {
        assert_eq!(world.world.effects(tool).len(), 1, "{tool}");
    }
    let book = world.world.live.book();
    assert!(
        book.words().contains(&"A table for two, please."),
        "what was said came through: {:?}",
        book.words()
    );
    assert_eq!(book.sessions, 1);
    let call = world.carrier.call("CA1");
    assert_eq!((call.sockets, call.answers.len()), (1, 1), "{:?}", call.answers);
    let shown = world.show();
    for words in ["Good evening.", "A table for two, please.", "I book it.", "It is done.", "hung up"] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    world.holds("CA1");
    assert!(server.stop());
}

#[test]
fn a_caller_who_interrupts_hears_no_more_and_everybody_knows_how_much_was_heard() {
    let world = MediaWorld::new();
    let _server = world.serve();
    let story = "Once upon a time there was a table by the window, and it was still free on the evening of the first of May.";
    world.calls(
        "CA1",
        vec![LiveAnswer::says("Good evening."), LiveAnswer::says(story), LiveAnswer::says("I stop.")],
    );
    world.until_heard("CA1", "Good evening.");
    world.carrier.says("CA1", "Tell me a story.");
    world.until_heard("CA1", "there was a table");
    // By now the provider has made all of it.
    world.carrier.says("CA1", "Stop!");
    world.until_heard("CA1", "I stop.");
    let call = world.carrier.call("CA1");
    assert!(!call.heard().contains("first of May"), "{}", call.heard());
    assert_eq!(call.cleared, 1);
    let book = world.world.live.book();
    let (_, told) = book.truncated[0];
    assert_eq!(book.truncated.len(), 1);
    let heard = call.heard();
    let heard = heard.split_once("Once").unwrap().1.split_once("I stop.").unwrap().0.len() + "Once".len();
    let truth = u64::try_from(heard * 10).unwrap();
    assert!(told.abs_diff(truth) <= 60, "{told} ms were told, {truth} ms heard");
    world.carrier.hangs_up("CA1");
    world.world.until_over();
    let shown = world.show();
    assert!(shown.contains("the caller interrupts, and heard"), "{shown}");
    world.holds("CA1");
}

#[test]
fn a_call_whose_socket_is_lost_continues_over_the_next_one() {
    let world = MediaWorld::new();
    let _server = world.serve();
    world.calls("CA1", evening());
    world.until_heard("CA1", "Good evening.");
    for sockets in 2..4 {
        world.carrier.loses("CA1");
        world.until_call("CA1", |call| call.sockets == sockets && call.stage == CarrierStage::Streaming);
    }
    world.carrier.says("CA1", "A table for two, please.");
    world.until_heard("CA1", "It is done.");
    world.carrier.loses("CA1");
    world.until_call("CA1", |call| call.sockets == 4 && call.stage == CarrierStage::Streaming);
    // One that is open and carries nothing is as good as lost.
    world.carrier.freezes("CA1");
    world.until_call("CA1", |call| call.sockets == 5 && call.stage == CarrierStage::Streaming);
    world.carrier.says("CA1", "Thank you.");
    world.until_heard("CA1", "Yes.");
    assert_eq!(world.world.live.book().sessions, 1, "the session of the live model is not concerned");
    world.carrier.hangs_up("CA1");
    let runs = world.world.until_over();
    assert_eq!(runs.len(), 1, "one call, one run");
    assert_eq!(world.world.effects("book").len(), 1);
    world.holds("CA1");
}

#[test]
fn a_call_that_is_over_is_hung_up_also_where_its_run_waits_for_a_person() {
    let world = MediaWorld::new();
    world.world.edit("agents/desk.toml", "\"text\"]", "\"text\", \"call.hang_up\"]\napprove = [\"book\"]");
    world.world.edit(
        "agents/desk.toml",
        "filler = false",
        "filler = false\nafter_hangup = \"keep\"\ndefer_after = \"1s\"",
    );
    let _server = world.serve();
    let bye = LiveAnswer { text: "Good bye.".into(), ..LiveAnswer::asks("call__hang_up", &json!({})) };
    let book = LiveAnswer::asks("book", &json!({ "q": "eight" }));
    world.calls("CA1", vec![LiveAnswer::says("Good evening."), book, bye]);
    world.until_heard("CA1", "Good evening.");
    world.carrier.says("CA1", "A table for two, please.");
    world.until_call("CA1", |call| call.stage == CarrierStage::HungUp);
    assert!(world.carrier.call("CA1").heard().contains("Good bye."));
    assert_eq!(world.world.live.book().sessions, 1);
    assert_eq!(world.world.runs()[0]["status"], "suspended");
    world.world.workspace.succeed(&["resume", "last", "--deny"]);
    world.world.until_over();
    world.holds("CA1");
}

#[test]
fn an_agent_that_hangs_up_is_heard_to_the_end() {
    let world = MediaWorld::new();
    world.world.edit("agents/desk.toml", "\"text\"]", "\"text\", \"call.hang_up\"]");
    let _server = world.serve();
    let bye = LiveAnswer {
        text: "Good bye, and see you tonight.".into(),
        ..LiveAnswer::asks("call__hang_up", &json!({}))
    };
    world.calls("CA1", vec![LiveAnswer::says("Good evening."), bye]);
    world.until_heard("CA1", "Good evening.");
    world.carrier.says("CA1", "Good bye.");
    world.until_call("CA1", |call| call.stage == CarrierStage::HungUp);
    assert!(world.carrier.call("CA1").heard().contains("Good bye, and see you tonight."));
    let runs = world.world.until_over();
    assert_eq!(runs[0]["status"], "completed");
    world.holds("CA1");
}

#[test]
fn a_run_that_is_cancelled_is_hung_up() {
    let world = MediaWorld::new();
    let _server = world.serve();
    world.calls("CA1", vec![LiveAnswer::says("Good evening.")]);
    world.until_heard("CA1", "Good evening.");
    world.world.workspace.succeed(&["cancel", "last"]);
    world.until_call("CA1", |call| call.stage == CarrierStage::HungUp);
    assert_eq!(world.world.until_over()[0]["status"], "cancelled");
    world.holds("CA1");
}

#[test]
fn a_caller_who_never_comes_or_never_comes_back_ends_the_call() {
    let world = MediaWorld::new();
    let server = world.serve();
    // The carrier asked, and the caller hung up before it had opened a socket.
    let asked = |call: &str| {
        let pairs = [("CallSid", call), ("From", "anonymous"), ("To", NUMBER)];
        let signature = world.carrier.signature("http://localhost/voice/front/calls", &pairs);
        let body = format!("CallSid={call}&From=anonymous&To=%2B33176540001");
        server.send(&format!(
            "POST /voice/front/calls HTTP/1.1\r\nHost: localhost\r\nX-Twilio-Signature: {signature}\r\nContent-Type: application/x-www-form-urlencoded\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        ))
    };
    let (status, document) = asked("CA1").unwrap();
    assert!(
        status == 200
            && document.contains("<Stream url=\"ws://localhost/voice/front/calls/33176540001/CA1\"/>"),
        "{document}"
    );
    world.calls("CA2", vec![LiveAnswer::says("Good evening.")]);
    world.until_heard("CA2", "Good evening.");
    // The carrier has gone with its caller.
    world.carrier.reaches("127.0.0.1:9".parse().unwrap());
    world.carrier.loses("CA2");
    let runs = world.world.until_over();
    let mut reasons: Vec<_> = runs
        .iter()
        .map(|run| {
            assert_eq!(run["status"], "completed", "{run:#}");
            world.world.replays(run);
            let run = run["run_id"].as_str().or(run["run"].as_str()).or(run["id"].as_str()).unwrap();
            let shown: Value = world.world.workspace.json(&["show", run]);
            let call = shown["call"].as_array().unwrap();
            call.last().unwrap()["words"].as_str().unwrap().to_owned()
        })
        .collect();
    reasons.sort();
    assert_eq!(
        reasons,
        [
            "the caller ends the call: hung up before the call was answered",
            "the caller ends the call: the caller's line was lost"
        ]
    );
}

#[test]
fn a_line_says_where_its_carrier_asks_and_whether_its_token_can_be_one() {
    let world = MediaWorld::new();
    let shown = world.world.workspace.succeed(&["call", "check", "front"]);
    for part in ["opens a session of gpt-realtime-2.1", "POST /voice/front/calls", NUMBER] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    world.world.workspace.write("secret", "short");
    let refused = world.world.workspace.dalsegno(&["call", "check", "front"]);
    assert!(
        refused.contains("secret 2 of `webhook_secrets` cannot be used: it is shorter than 16 characters"),
        "{refused}"
    );
}

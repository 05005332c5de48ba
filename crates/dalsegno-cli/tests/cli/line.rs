//! `dalsegno call text --line`: a call to a live model behind a real socket.

use std::io::Write as _;
use std::process::Stdio;

use dalsegno_testkit::{LiveAnswer, LiveBook, LiveModel};
use serde_json::json;
use tokio::runtime::Runtime;

use crate::support::Workspace;

const DESK: &str = r#"name = "desk"
version = "1.0.0"
description = "Takes calls."
instructions = "You take the calls of a restaurant."

[model]
use = "default"

[tools]
allow = ["memory.*"]

[voice]
"#;

/// A provider in threads of its own, and a workspace with a line to it.
struct Restaurant {
    there: Runtime,
    live: LiveModel,
    workspace: Workspace,
}

impl Restaurant {
    fn new(answers: Vec<LiveAnswer>) -> Self {
        let there =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let live = there.block_on(LiveModel::start(answers)).unwrap();
        let workspace = Workspace::empty();
        workspace.write(
            "dalsegno.toml",
            &format!(
                "[models.default]\nprovider = \"script\"\nfile = \"model.toml\"\n[voice.lines.front]\nsurface = \"realtime\"\n\
                 transport = \"text\"\nmodel = \"gpt-realtime-2.1\"\nbase_url = \"{}\"\n",
                live.base_url()
            ),
        );
        workspace.write("model.toml", "[[replies]]\ntext = \"Hello.\"\n");
        workspace.write("agents/desk.toml", DESK);
        Self { there, live, workspace }
    }

    fn until(&self, is_so: impl Fn(&LiveBook) -> bool) {
        self.there.block_on(self.live.until(is_so));
    }
}

fn noting() -> LiveAnswer {
    let asks = LiveAnswer::asks("memory__create", &json!({ "entity": "table", "content": "at the window" }));
    LiveAnswer { text: "I note it.".into(), ..asks }
}

#[test]
fn lines_of_a_pipe_are_said_in_their_turn() {
    let restaurant = Restaurant::new(vec![
        noting(),
        LiveAnswer::says("Noted: the table at the window."),
        LiveAnswer::says("The one \u{1b}[31mat the window."),
    ]);
    let workspace = &restaurant.workspace;
    assert_eq!(workspace.succeed(&["check"]), "");
    let said = "Note my usual table, please.\n\nWhich one was it?\n";
    let told = workspace.dalsegno_with_input(&["call", "text", "desk", "--line", "front"], said);
    let expected = "\
caller: Note my usual table, please.
  asks for memory__create {\"content\":\"at the window\",\"entity\":\"table\"}
agent: I note it.
agent: Noted: the table at the window.
caller: Which one was it?
";
    assert!(told.contains(expected), "{told}");
    assert!(told.contains("the caller ends the call: hung up\n"), "{told}");
    assert!(!told.contains('\u{1b}'), "what others say is screened: {told:?}");
    let replayed = workspace.dalsegno(&["replay", "last"]);
    assert!(replayed.contains("identical"), "{replayed}");
    let found = workspace.succeed(&["tools", "call", "memory.search", "--args", "{\"query\": \"window\"}"]);
    assert!(found.contains("at the window"), "{found}");
    assert_eq!(restaurant.live.book().errors, [""; 0]);
}

#[test]
fn the_caller_of_a_script_speaks_and_its_live_model_does_not() {
    let restaurant = Restaurant::new(vec![LiveAnswer::says("Good evening."), LiveAnswer::says("At eight.")]);
    let workspace = &restaurant.workspace;
    workspace.write(
        "calls/table.toml",
        "[[turns]]\nmodel = \"Hi.\"\n[[turns]]\ncaller = \"Hello?\"\n[[turns]]\nmodel = \"Yes?\"\n[[turns]]\n\
         digits = \"8#\"\n[[turns]]\ncaller = \"When?\"\n",
    );
    let told =
        workspace.dalsegno(&["call", "text", "desk", "--line", "front", "--script", "calls/table.toml"]);
    assert!(told.contains("2 `model` turns of the script are left out"), "{told}");
    assert!(told.starts_with("exit code: 0\n--- stdout\ncaller: Hello?\n"), "{told}");
    assert!(told.contains("agent: Good evening.\nagent: At eight.\ncaller: When?\nagent: Yes.\n"), "{told}");
    assert!(told.contains("  the caller presses 8\n  the caller presses #\n"), "{told}");
}

#[test]
fn after_a_kill_another_process_attaches_to_the_call() {
    let restaurant = Restaurant::new(vec![
        noting(),
        LiveAnswer::says("Noted."),
        LiveAnswer::says("A long story").held(),
        LiveAnswer::says("You are back."),
        LiveAnswer::says("Good bye."),
    ]);
    let workspace = &restaurant.workspace;
    let call = ["call", "text", "desk", "--line", "front", "--idempotency-key", "evening"];
    let mut command = workspace.command(&call);
    let mut killed =
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let mut caller = killed.stdin.take().unwrap();
    caller.write_all(b"Note my usual table, please.\nAnd a story.\n").unwrap();
    restaurant.until(|book| book.count("response.create") == 3);
    killed.kill().unwrap();
    killed.wait().unwrap();
    drop(caller);
    let told = workspace.dalsegno_with_input(&call, "Hello?\n");
    assert!(told.contains("the connection is there again"), "{told}");
    assert!(told.contains("the caller ends the call: hung up\n"), "{told}");
    let book = restaurant.live.book();
    assert_eq!((book.sessions, book.calls().len()), (2, 1), "{:#?}", book.items);
    assert_eq!(book.outputs(book.calls()[0]).len(), 1);
    let replayed = workspace.dalsegno(&["replay", "last"]);
    assert!(replayed.contains("identical"), "{replayed}");
}

#[test]
fn a_line_that_is_not_there_is_named_with_what_to_do() {
    let restaurant = Restaurant::new(Vec::new());
    let told = restaurant.workspace.dalsegno(&["call", "text", "desk", "--line", "frnt"]);
    assert!(told.contains("there is no line `frnt`") && told.contains("did you mean `front`?"), "{told}");
    let told = restaurant.workspace.dalsegno(&["runs"]);
    assert!(told.contains("no runs yet"), "nothing was written down: {told}");
}

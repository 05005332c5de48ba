//! `dalsegno test --watch`: the cases again after each change.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use crate::support::Workspace;

const AGENT: &str = "name = \"polite\"\n\n[[steps]]\nrespond = \"Hello.\"\n";
const CASE: &str = "[[cases]]\nname = \"it greets\"\nagent = \"polite\"\ninput = \"Hi\"\nanswer = \"Hello.\"\nsnapshot = true\n";

/// The command, and the lines that it writes.
struct Watched {
    child: Child,
    lines: Receiver<String>,
}

impl Watched {
    fn begin(workspace: &Workspace) -> Self {
        let mut command = workspace.command(&["test", "--watch"]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let (told, lines) = channel();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                if told.send(line).is_err() {
                    return;
                }
            }
        });
        Self { child, lines }
    }

    /// Waits for a line with these words, and then for the command to wait for a change.
    #[track_caller]
    fn expect(&self, words: &str) {
        let mut before = Vec::new();
        for expected in [words, "waiting for a change"] {
            loop {
                let Ok(line) = self.lines.recv_timeout(Duration::from_secs(60)) else {
                    panic!("no `{expected}`: {before:?}");
                };
                let found = line.contains(expected);
                before.push(line);
                if found {
                    break;
                }
            }
        }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn cases_run_again_after_each_change_and_not_because_of_themselves() {
    let workspace = Workspace::empty();
    workspace.write("dalsegno.toml", "");
    workspace.write("agents/polite.toml", AGENT);
    workspace.write("tests/polite.toml", CASE);
    let watched = Watched::begin(&workspace);
    // The run waits for a review, which is written beside the cases.
    watched.expect("1 case: 0 passed, 1 failed");
    workspace.succeed(&["test", "--accept"]);
    watched.expect("1 case passed");
    workspace.write("agents/polite.toml", &AGENT.replace("Hello.", "Go away."));
    watched.expect("1 case: 0 passed, 1 failed");
    // What is half written is told, and the command waits on.
    workspace.write("agents/polite.toml", "name = ");
    watched.expect("error");
    workspace.write("dalsegno.toml", "= ");
    watched.expect("error");
    workspace.write("dalsegno.toml", "");
    watched.expect("error");
    workspace.write("agents/polite.toml", AGENT);
    watched.expect("1 case passed");
    assert!(watched.lines.recv_timeout(Duration::from_secs(1)).is_err(), "nothing has changed since");
}

//! `dalsegno serve` and `dalsegno key` as processes: killed under load, and told to stop.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::Workspace;

/// The longest that anything may take here: a bound for what would hang.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server process, and where it listens.
pub(crate) struct Served {
    pub(crate) child: Option<Child>,
    pub(crate) address: SocketAddr,
}

impl Served {
    pub(crate) fn start(workspace: &Workspace) -> Self {
        Self::with(workspace, &[])
    }

    /// One with variables.
    pub(crate) fn with(workspace: &Workspace, variables: &[(&str, &str)]) -> Self {
        let mut command = workspace.command(&["serve", "--address", "127.0.0.1:0", "--format", "jsonl"]);
        Self::spawn(command.envs(variables.iter().copied()).stderr(Stdio::null()))
    }

    /// One that is started by this command.
    pub(crate) fn spawn(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let first: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        let address = first["address"].as_str().unwrap().parse().unwrap();
        // What it tells further is read, so that it never waits for a reader.
        thread::spawn(move || lines.for_each(drop));
        Self { child: Some(child), address }
    }

    pub(crate) fn kill(mut self) {
        let mut child = self.child.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[cfg(unix)]
    pub(crate) fn into_child(mut self) -> Child {
        self.child.take().unwrap()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // A test that fails leaves no process behind, either.
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Where the server is now.
pub(crate) type Place = Arc<Mutex<SocketAddr>>;

fn connect(place: &Place) -> std::io::Result<TcpStream> {
    let address = *place.lock().unwrap();
    let stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    Ok(stream)
}

/// Sends a request until an answer arrives whole; returns its status and body.
pub(crate) fn ask(place: &Place, key: &str, head: &str, body: &str) -> (u16, Value) {
    let begun = Instant::now();
    loop {
        assert!(begun.elapsed() < PATIENCE, "no answer to {head}");
        let answer = connect(place).and_then(|mut stream| {
            let length = body.len();
            write!(
                stream,
                "{head} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nauthorization: Bearer {key}\r\n\
                 content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}",
            )?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            Ok(answer)
        });
        let whole = answer.ok().and_then(|answer| {
            let (head, body) = answer.split_once("\r\n\r\n")?;
            let status: u16 = head.split(' ').nth(1)?.parse().ok()?;
            Some((status, serde_json::from_str(body).ok()?))
        });
        match whole {
            // A server that stops says so.
            Some((503, _)) | None => thread::yield_now(),
            Some(answer) => return answer,
        }
    }
}

/// Starts a run under a key of its own, again and again until the server has answered.
fn start(place: &Place, key: &str, number: usize) -> String {
    let begun = Instant::now();
    let body = json!({ "agent": "steps", "text": number.to_string() }).to_string();
    loop {
        assert!(begun.elapsed() < PATIENCE, "run {number} was not started");
        let answer = connect(place).and_then(|mut stream| {
            let length = body.len();
            write!(
                stream,
                "POST /v1/runs HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nauthorization: Bearer {key}\r\n\
                 idempotency-key: start-{number}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
            )?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            Ok(answer)
        });
        let run = answer.ok().and_then(|answer| {
            let (_, body) = answer.split_once("\r\n\r\n")?;
            let body: Value = serde_json::from_str(body).ok()?;
            body["run_id"].as_str().map(str::to_owned)
        });
        match run {
            Some(run) => return run,
            None => thread::yield_now(),
        }
    }
}

/// Follows a run to its end over as many connections as it takes; returns the events with their ids.
fn follow(place: &Place, key: &str, run: &str) -> Vec<(u64, Value)> {
    let begun = Instant::now();
    let mut events: Vec<(u64, Value)> = Vec::new();
    loop {
        assert!(begun.elapsed() < PATIENCE, "the stream of {run} has no end");
        let Ok(mut stream) = connect(place) else { continue };
        let last = events.last().map(|(id, _)| format!("last-event-id: {id}\r\n")).unwrap_or_default();
        let sent = write!(
            stream,
            "GET /v1/runs/{run}/events HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\naccept: text/event-stream\r\n{last}\r\n"
        );
        if sent.is_err() {
            continue;
        }
        let (mut id, mut name) = (None, String::new());
        for line in BufReader::new(stream).lines() {
            let Ok(line) = line else { break };
            if line.starts_with("HTTP/1.1 204") {
                return events;
            }
            match line.split_once(": ") {
                Some(("id", given)) => id = given.parse::<u64>().ok(),
                Some(("event", given)) => given.clone_into(&mut name),
                Some(("data", data)) if name == "record" => {
                    // A line that was cut off is no JSON, and its event is not taken.
                    if let (Some(id), Ok(data)) = (id.take(), serde_json::from_str(data)) {
                        events.push((id, data));
                    }
                }
                Some(("data", _)) if name == "end" => return events,
                _ => {}
            }
        }
    }
}

/// An agent of some steps, and a key that may run it.
pub(crate) fn workspace() -> (Workspace, String) {
    let workspace = Workspace::empty();
    workspace.write("dalsegno.toml", "");
    let steps: String = (0..6)
        .map(|step| {
            format!(
                "[[steps]]\nmemory_create = {{ entity = \"e{step}\", type = \"log\", content = \"{{{{request.text}}}} {step}\" }}\n"
            )
        })
        .collect();
    workspace
        .write("agents/steps.toml", &format!("name = \"steps\"\n{steps}[[steps]]\nrespond = \"done\"\n"));
    let scopes = ["--scope", "runs:list", "--scope", "runs:read", "--scope", "runs:write"];
    let added =
        workspace.json(&[&["key", "add", "--tenant", "default", "--name", "test"], &scopes[..]].concat());
    (workspace, added["key"].as_str().unwrap().to_owned())
}

#[test]
fn a_server_that_is_killed_under_load_loses_nothing_and_starts_nothing_twice() {
    const RUNS: usize = 12;
    let (workspace, key) = workspace();
    let mut served = Served::start(&workspace);
    let place: Place = Arc::new(Mutex::new(served.address));
    let (seen, done) = (Arc::new(Mutex::new(0_usize)), Arc::new(Mutex::new(Vec::new())));
    let clients: Vec<_> = (0..RUNS)
        .map(|number| {
            let (place, key) = (Arc::clone(&place), key.clone());
            let (seen, done) = (Arc::clone(&seen), Arc::clone(&done));
            thread::spawn(move || {
                let run = start(&place, &key, number);
                *seen.lock().unwrap() += 1;
                let events = follow(&place, &key, &run);
                done.lock().unwrap().push((run, events));
            })
        })
        .collect();
    // Killed when a quarter, a half and three quarters of the clients have an answer.
    for quarter in 1..4 {
        let begun = Instant::now();
        while *seen.lock().unwrap() < RUNS * quarter / 4 && begun.elapsed() < PATIENCE {
            thread::yield_now();
        }
        served.kill();
        served = Served::start(&workspace);
        *place.lock().unwrap() = served.address;
    }
    for client in clients {
        client.join().unwrap();
    }
    let (status, listed) = ask(&place, &key, "GET /v1/runs?limit=200", "");
    assert_eq!((status, listed["items"].as_array().map(Vec::len)), (200, Some(RUNS)), "{listed}");
    served.kill();
    let done = Arc::into_inner(done).unwrap().into_inner().unwrap();
    assert_eq!(done.len(), RUNS);
    for (run, events) in done {
        let shown = workspace.json(&["show", &run]);
        assert_eq!(shown["status"], "completed", "{shown}");
        // The stream had exactly the journal: no gap, and nothing twice.
        let told: Vec<Value> = events.iter().map(|(_, event)| event.clone()).collect();
        assert_eq!(Value::Array(told), shown["events"], "{run}");
        let ids: Vec<u64> = events.iter().map(|(id, _)| *id).collect();
        assert_eq!(ids, (0..ids.len() as u64).collect::<Vec<_>>());
    }
}

#[cfg(unix)]
#[test]
fn a_server_that_is_told_to_stop_stops_in_order() {
    let (workspace, key) = workspace();
    let served = Served::start(&workspace);
    let place: Place = Arc::new(Mutex::new(served.address));
    let run = start(&place, &key, 1);
    assert!(!follow(&place, &key, &run).is_empty());
    let pid = rustix::process::Pid::from_child(served.child.as_ref().unwrap());
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert!(served.into_child().wait().unwrap().success());
}

#[test]
fn a_key_is_shown_once_and_refused_when_it_was_revoked() {
    let (workspace, key) = workspace();
    let served = Served::start(&workspace);
    let place: Place = Arc::new(Mutex::new(served.address));
    assert_eq!(ask(&place, &key, "GET /v1/runs", "").0, 200);
    let listed = workspace.json(&["key", "list"]);
    assert!(!listed.to_string().contains(&key), "{listed}");
    assert_eq!(
        (listed[0]["state"].as_str(), listed[0]["tenant"].as_str()),
        (Some("active"), Some("default"))
    );
    let id = listed[0]["id"].as_str().unwrap();
    let revoked = workspace.json(&["key", "revoke", &id[..6]]);
    assert_eq!(revoked["state"], "revoked");
    let (status, refused) = ask(&place, &key, "GET /v1/runs", "");
    assert_eq!((status, refused["code"].as_str()), (401, Some("unauthenticated")));
    served.kill();
    for (args, code) in [
        (&["key", "revoke", "zz"][..], "unknown_key"),
        (
            &["key", "add", "--tenant", "default", "--scope", "runs:read", "--name", "a\u{1b}b"],
            "bad_argument",
        ),
        (&["serve", "--address", "0.0.0.0:0"], "not_encrypted"),
    ] {
        let output = workspace
            .command(args)
            .arg("--format")
            .arg(if args[0] == "serve" { "jsonl" } else { "json" })
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", workspace.shown(&output));
        assert!(workspace.shown(&output).contains(code), "{args:?}: {}", workspace.shown(&output));
    }
}

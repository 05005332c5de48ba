//! `dalsegno webhook`, and servers that are killed while they deliver.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::serve::Served;
use crate::support::Workspace;

/// The longest that anything may take here: a bound for what would hang.
const PATIENCE: Duration = Duration::from_secs(60);

/// The ids that came for each run.
pub(crate) type Got = Arc<Mutex<BTreeMap<String, Vec<String>>>>;

/// Receives webhooks; one of them is answered with 503.
pub(crate) fn receiver() -> (SocketAddr, Got) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, got) = (listener.local_addr().unwrap(), Got::default());
    let own = Arc::clone(&got);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let own = Arc::clone(&own);
            thread::spawn(move || serve(stream.unwrap(), &own));
        }
    });
    (address, got)
}

fn serve(stream: TcpStream, got: &Got) {
    let mut stream = BufReader::new(stream);
    loop {
        let (mut id, mut length) = (String::new(), 0);
        loop {
            let mut line = String::new();
            if stream.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            match line.trim_end().split_once(": ") {
                Some(("webhook-id", value)) => value.clone_into(&mut id),
                Some(("content-length", value)) => length = value.parse().unwrap(),
                None if line == "\r\n" => break,
                _ => {}
            }
        }
        let mut body = vec![0; length];
        if stream.read_exact(&mut body).is_err() {
            return;
        }
        let event: Value = serde_json::from_slice(&body).unwrap();
        let status = {
            let mut got = got.lock().unwrap();
            if let Some(run) = event["data"]["run_id"].as_str() {
                assert_eq!(event["type"], "run.completed");
                got.entry(run.to_owned()).or_default().push(id);
            }
            let all: usize = got.values().map(Vec::len).sum();
            if all == 4 { "503 Busy\r\nretry-after: 0" } else { "204 No Content" }
        };
        let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n");
        if stream.get_mut().write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

fn workspace(receiver: SocketAddr) -> Workspace {
    let workspace = Workspace::empty();
    workspace.write("dalsegno.toml", &format!("[serve]\nwebhooks = [\"http://{receiver}\"]\n"));
    workspace.write("agents/echo.toml", "name = \"echo\"\n[[steps]]\nrespond = \"done\"\n");
    workspace
}

#[test]
fn every_end_is_delivered_with_one_id_by_servers_that_are_killed() {
    const RUNS: usize = 24;
    let (address, got) = receiver();
    let workspace = workspace(address);
    let url = format!("http://{address}/in");
    workspace.json(&["webhook", "add", &url, "--tenant", "default", "--event", "run.completed"]);
    // They ended before a server ran.
    let runs: BTreeSet<String> = (0..RUNS)
        .map(|_| workspace.json(&["run", "echo", "x"])["run_id"].as_str().unwrap().to_owned())
        .collect();
    let begun = Instant::now();
    let number = || got.lock().unwrap().len();
    // Two servers at once, of which one delivers; the one that started first is killed, again and again.
    let mut served = vec![Served::start(&workspace), Served::start(&workspace)];
    for third in 1..3 {
        while number() < RUNS * third / 3 && begun.elapsed() < PATIENCE {
            thread::yield_now();
        }
        served.remove(0).kill();
        served.push(Served::start(&workspace));
    }
    let waits = || workspace.json(&["webhook", "list"])[0]["waiting"] != 0;
    while (number() < RUNS || waits()) && begun.elapsed() < PATIENCE {
        thread::yield_now();
    }
    served.into_iter().for_each(Served::kill);
    let got = got.lock().unwrap();
    assert_eq!(got.keys().cloned().collect::<BTreeSet<_>>(), runs, "an end was lost");
    let ids: BTreeSet<&String> = got.values().flatten().collect();
    assert_eq!(ids.len(), RUNS, "an end has more than one id, or two have the same: {got:?}");
    let listed = workspace.json(&["webhook", "list"]);
    assert_eq!((&listed[0]["waiting"], &listed[0]["given_up"]), (&0.into(), &0.into()), "{listed}");
}

#[test]
fn a_webhook_is_added_tested_rotated_and_removed() {
    let (address, _) = receiver();
    let workspace = workspace(address);
    let url = format!("http://{address}/in");
    let added = workspace.json(&["webhook", "add", &url, "--all-tenants", "--name", "mine"]);
    let (id, secret) = (added["id"].as_str().unwrap(), added["secret"].as_str().unwrap());
    assert!(secret.starts_with("whsec_"), "{added}");
    let listed = workspace.json(&["webhook", "list"]);
    assert!(!listed.to_string().contains(secret), "{listed}");
    assert_eq!((&listed[0]["tenant"], &listed[0]["state"]), (&"*".into(), &"on".into()));
    let tested = workspace.json(&["webhook", "test", &id[..6]]);
    assert_eq!((&tested["delivered"], &tested["status"]), (&true.into(), &204.into()), "{tested}");
    assert_ne!(workspace.json(&["webhook", "rotate", id])["secret"], added["secret"]);
    assert_eq!(workspace.json(&["webhook", "remove", id])["id"], added["id"]);
    assert_eq!(workspace.json(&["webhook", "list"]), Value::Array(Vec::new()));
    for (args, code) in [
        (&["webhook", "remove", "zz"][..], "unknown_webhook"),
        (&["webhook", "add", "https://169.254.169.254/", "--all-tenants"], "bad_argument"),
        (&["webhook", "add", "http://hooks.example.com/", "--all-tenants"], "bad_argument"),
    ] {
        let output = workspace.command(args).arg("--json").output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", workspace.shown(&output));
        assert!(workspace.shown(&output).contains(code), "{args:?}: {}", workspace.shown(&output));
    }
    // With another key every receiver would refuse what it gets.
    std::fs::write(workspace.path(".dalsegno/webhooks.key"), [7; 32]).unwrap();
    let output = workspace.command(&["webhook", "list", "--json"]).output().unwrap();
    assert!(workspace.shown(&output).contains("is not the key"), "{}", workspace.shown(&output));
}

#[test]
fn a_backup_of_all_has_the_documents_and_the_webhooks_with_their_key() {
    let (address, got) = receiver();
    let workspace = workspace(address);
    let url = format!("http://{address}/in");
    let added = workspace.json(&["webhook", "add", &url, "--tenant", "default", "--event", "run.completed"]);
    let run = workspace.json(&["run", "echo", "x"])["run_id"].as_str().unwrap().to_owned();
    let key = workspace.json(&["key", "add", "--all-tenants", "--scope", "tools:write"])["key"].clone();
    let served = Served::start(&workspace);
    let document = r#"{ "name": "word", "description": "Says a word.", "parameters": [],
        "actions": [{ "type": "respond", "message": "hi" }] }"#;
    let written = put(served.address, key.as_str().unwrap(), "/v1/tools/word", document);
    assert!(written.starts_with("HTTP/1.1 201"), "{written}");
    // Copied while the server has all of these open.
    let copied = workspace.json(&["backup", "--all", "copies/today"]);
    served.kill();
    let names = ["catalogue.db", "webhooks.db", "webhooks.key", "dalsegno.db"];
    let files: Vec<&str> =
        copied["files"].as_array().unwrap().iter().map(|file| file.as_str().unwrap()).collect();
    assert_eq!(files, names.map(|name| format!("copies/today/{name}")), "{copied}");
    #[cfg(unix)]
    for name in names {
        use std::os::unix::fs::PermissionsExt as _;
        let mode =
            std::fs::metadata(workspace.path(&format!("copies/today/{name}"))).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    // Nothing is overwritten.
    let again = workspace.command(&["backup", "--all", "copies/today", "--json"]).output().unwrap();
    assert_eq!(again.status.code(), Some(2), "{}", workspace.shown(&again));
    // What was copied is a workspace: the run, the document and the webhook, whose deliveries have the same signatures.
    std::fs::remove_dir_all(workspace.path(".dalsegno")).unwrap();
    std::fs::rename(workspace.path("copies/today"), workspace.path(".dalsegno")).unwrap();
    assert_eq!(workspace.json(&["show", &run])["status"], "completed");
    assert!(workspace.succeed(&["tools", "list"]).contains("word"));
    assert_eq!(workspace.json(&["webhook", "list"])[0]["id"], added["id"]);
    let served = Served::start(&workspace);
    let begun = Instant::now();
    while !got.lock().unwrap().contains_key(&run) && begun.elapsed() < PATIENCE {
        thread::yield_now();
    }
    served.kill();
    assert!(got.lock().unwrap().contains_key(&run), "what the copy has still to deliver was not delivered");
}

fn put(address: SocketAddr, key: &str, path: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(
        stream,
        "PUT {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nauthorization: Bearer {key}\r\nif-none-match: *\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

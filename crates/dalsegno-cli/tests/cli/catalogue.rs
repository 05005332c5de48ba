//! Documents by API between processes: the command sees what the server writes, `tools pull` brings it into files, and a server that
//! is killed while it writes loses nothing that it has acknowledged.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::{Value, json};

use crate::serve::Served;
use crate::support::Workspace;

const SCOPES: [&str; 4] = ["agents:write", "tools:read", "tools:write", "tenants:admin"];

fn says(name: &str, word: &str) -> String {
    let document = json!({
        "name": name,
        "description": "Says a word.",
        "actions": [{ "type": "log", "log_message": "it was asked" }],
        "output": format!("'{word}'"),
    });
    format!("{document:#}\n")
}

fn workspace() -> (Workspace, String) {
    let workspace = Workspace::empty();
    workspace.write("dalsegno.toml", "");
    workspace.write("tools/word.json", &says("word", "of the file"));
    workspace.write("tenants/acme.toml", "name = \"acme\"\n");
    let agent = "name = \"speaker\"\n[tools]\nallow = [\"word\"]\n[[steps]]\nid = \"word\"\ntool = \"word\"\n[[steps]]\nrespond = \"{{steps.word}}\"\n";
    workspace.write("agents/speaker.toml", agent);
    let scopes: Vec<&str> = SCOPES.iter().flat_map(|scope| ["--scope", *scope]).collect();
    let added =
        workspace.json(&[&["key", "add", "--all-tenants", "--name", "ops"][..], &scopes[..]].concat());
    (workspace, added["key"].as_str().unwrap().to_owned())
}

/// Sends a request once; nothing if it is not answered whole.
fn send(address: SocketAddr, key: &str, head: &str, headers: &str, body: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(address).ok()?;
    let length = body.len();
    write!(
        stream,
        "{head} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nauthorization: Bearer {key}\r\n\
         {headers}content-length: {length}\r\n\r\n{body}",
    )
    .ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let length: usize = head.lines().find_map(|line| line.strip_prefix("content-length: "))?.parse().ok()?;
    (body.len() == length).then(|| (status, body.to_owned()))
}

fn put(address: SocketAddr, key: &str, path: &str, condition: &str, body: &str) -> Option<u16> {
    let kind = if path.starts_with("/v1/agents/") { "toml" } else { "json" };
    let headers = format!("content-type: application/{kind}\r\n{condition}\r\n");
    Some(send(address, key, &format!("PUT {path}"), &headers, body)?.0)
}

/// Has a document stand in for the file of an agent.
pub(crate) fn cover(workspace: &Workspace, agent: &str, text: &str) {
    let added = workspace.json(&["key", "add", "--all-tenants", "--scope", "agents:write"]);
    let served = Served::start(workspace);
    let path = format!("/v1/agents/{agent}");
    let status = put(served.address, added["key"].as_str().unwrap(), &path, "if-match: *", text);
    assert_eq!(status, Some(200));
}

fn speaks(workspace: &Workspace, tenant: &str) -> String {
    workspace.json(&["run", "speaker", "--tenant", tenant])["answer"].as_str().unwrap().to_owned()
}

#[test]
fn the_command_uses_what_the_server_writes_and_brings_it_into_files() {
    let (workspace, key) = workspace();
    let served = Served::start(&workspace);
    let address = served.address;
    assert_eq!(speaks(&workspace, "acme"), "of the file");
    let put = |path: &str, condition: &str, body: &str| put(address, &key, path, condition, body).unwrap();
    assert_eq!(put("/v1/tools/word", "if-match: *", &says("word", "by API")), 200);
    assert_eq!(put("/v1/tenants/acme/tools/word", "if-none-match: *", &says("word", "of acme")), 201);
    assert_eq!(put("/v1/tools/other", "if-none-match: *", &says("other", "x")), 201);
    assert_eq!(
        (speaks(&workspace, "default"), speaks(&workspace, "acme")),
        ("by API".into(), "of acme".into())
    );
    let inspected = workspace.json(&["tools", "inspect", "word", "--tenant", "acme"]);
    assert_eq!(inspected["source"], "catalogue/tenants/acme/tools/word.json");
    // A check names the file that is covered, and finds no error.
    let checked = workspace.json(&["check"]);
    let found: Vec<_> = checked
        .as_array()
        .unwrap()
        .iter()
        .map(|found| (found["severity"].clone(), found["file"].clone()))
        .collect();
    assert_eq!(found, [(json!("note"), json!("tools/word.json"))]);
    // Cases read the files alone.
    workspace.write(
        "tests/speaker.toml",
        "agent = \"speaker\"\n[[cases]]\nname = \"it speaks\"\ninput = \"x\"\nanswer_contains = \"of the file\"\n",
    );
    let tested = workspace.command(&["test"]).output().unwrap();
    assert!(tested.status.success(), "{}", workspace.shown(&tested));
    fs::remove_dir_all(workspace.path("tests")).unwrap();

    // Into files: what would be overwritten is named, and nothing is written.
    let refused = workspace.command(&["tools", "pull"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert!(workspace.shown(&refused).contains("tools/word.json"), "{}", workspace.shown(&refused));
    assert!(!workspace.path("tools/other.json").exists());
    assert_eq!(workspace.json(&["tools", "pull", "other"])[0]["state"], "made");
    assert_eq!(
        workspace.json(&["tools", "pull", "--tenant", "acme"])[0]["file"],
        "tenants/acme/tools/word.json"
    );
    let pulled = workspace.json(&["tools", "pull", "--force"]);
    let states: Vec<&Value> = pulled.as_array().unwrap().iter().map(|one| &one["state"]).collect();
    assert_eq!(states, ["same", "replaced", "same"]);
    assert_eq!(fs::read_to_string(workspace.path("tools/word.json")).unwrap(), says("word", "by API"));
    let unknown = workspace.command(&["tools", "pull", "nothing"]).output().unwrap();
    assert_eq!(unknown.status.code(), Some(2), "{}", workspace.shown(&unknown));
    // Without the documents the files say the same.
    for path in ["/v1/tools/word", "/v1/tools/other", "/v1/tenants/acme/tools/word"] {
        let deleted = send(address, &key, &format!("DELETE {path}"), "if-match: *\r\n", "").unwrap();
        assert_eq!(deleted.0, 200, "{deleted:?}");
    }
    served.kill();
    assert_eq!(
        (speaks(&workspace, "default"), speaks(&workspace, "acme")),
        ("by API".into(), "of acme".into())
    );
    assert_eq!(workspace.json(&["tools", "inspect", "word"])["source"], "tools/word.json");
}

#[cfg(unix)]
#[test]
fn nothing_is_pulled_through_a_link() {
    let (workspace, key) = workspace();
    let served = Served::start(&workspace);
    assert_eq!(
        put(served.address, &key, "/v1/tools/other", "if-none-match: *", &says("other", "x")),
        Some(201)
    );
    served.kill();
    workspace.write("elsewhere.txt", "mine");
    std::os::unix::fs::symlink(workspace.path("elsewhere.txt"), workspace.path("tools/other.json")).unwrap();
    let output = workspace.command(&["tools", "pull", "--force"]).output().unwrap();
    assert!(!output.status.success(), "{}", workspace.shown(&output));
    assert_eq!(fs::read_to_string(workspace.path("elsewhere.txt")).unwrap(), "mine");
}

#[test]
fn a_server_that_is_killed_while_it_writes_loses_nothing_that_it_acknowledged() {
    const WRITERS: u64 = 3;
    let (workspace, key) = workspace();
    let mut served = Served::start(&workspace);
    let place = Arc::new(Mutex::new(Some(served.address)));
    let acknowledged: Vec<Arc<AtomicU64>> = (0..WRITERS).map(|_| Arc::default()).collect();
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let (place, key) = (Arc::clone(&place), key.clone());
            let last = Arc::clone(&acknowledged[usize::try_from(writer).unwrap()]);
            thread::spawn(move || {
                let (name, path) = (format!("tool_{writer}"), format!("/v1/tools/tool_{writer}"));
                for number in 1_u64.. {
                    let body = says(&name, &number.to_string());
                    loop {
                        let Some(address) = *place.lock().unwrap() else { return };
                        // The first write may have happened before the answer was lost.
                        let written =
                            put(address, &key, &path, "if-match: *", &body).filter(|status| *status != 412);
                        let written =
                            written.or_else(|| put(address, &key, &path, "if-none-match: *", &body));
                        match written {
                            Some(200 | 201) => break,
                            Some(412) | None => thread::yield_now(),
                            Some(other) => panic!("{other}"),
                        }
                    }
                    last.store(number, Ordering::SeqCst);
                }
            })
        })
        .collect();
    let sum = || acknowledged.iter().map(|last| last.load(Ordering::SeqCst)).sum::<u64>();
    for round in 1..=4 {
        while sum() < round * 9 {
            thread::yield_now();
        }
        let before: Vec<u64> = acknowledged.iter().map(|last| last.load(Ordering::SeqCst)).collect();
        served.kill();
        // The command reads the catalogue while no server runs.
        let errors = workspace.json(&["check"]);
        assert!(!errors.to_string().contains("\"error\""), "{errors}");
        for (writer, before) in before.into_iter().enumerate() {
            workspace.json(&["tools", "pull", &format!("tool_{writer}"), "--force"]);
            let text = fs::read_to_string(workspace.path(&format!("tools/tool_{writer}.json"))).unwrap();
            let document: Value = serde_json::from_str(&text).unwrap();
            let number: u64 = document["output"].as_str().unwrap().trim_matches('\'').parse().unwrap();
            assert!(number >= before, "tool_{writer}: {number} after {before} was acknowledged");
            fs::remove_file(workspace.path(&format!("tools/tool_{writer}.json"))).unwrap();
        }
        served = Served::start(&workspace);
        *place.lock().unwrap() = Some(served.address);
    }
    *place.lock().unwrap() = None;
    for writer in writers {
        writer.join().unwrap();
    }
    served.kill();
}

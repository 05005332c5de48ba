//! Reports: one page with a journal and the core. What a browser makes of one is tested in `browser`.

use std::fs;

use dalsegno_report::page;

use crate::double::{Double, words};
use crate::support::{Workspace, photograph};

#[test]
fn a_run_is_exported_as_a_page_and_not_over_another_file() {
    let workspace = Workspace::plain();
    workspace.succeed(&["run", "note", "disk full"]);
    workspace.succeed(&["run", "note", "disk empty"]);
    photograph!(workspace.dalsegno(&["export", "--html", "last", "report.html"]), @r"
        exit code: 0
        --- stdout
        --- stderr
        exported 1 run to `report.html`
        ");
    photograph!(workspace.dalsegno(&["export", "--html", "last", "report.html"]), @r"
        exit code: 2
        --- stdout
        --- stderr
        error: `report.html` already exists
          help: name another file, or overwrite this one with `--force`
        ");
    let first = workspace.json(&["runs"])[1]["run_id"].as_str().unwrap().to_owned();
    let document = workspace.json(&["export", "--html", "last", "report.html", "--with", &first, "--force"]);
    assert_eq!(document["runs"].as_array().unwrap().len(), 2);
    assert_eq!(document["steps"], 2);
    let bytes = fs::read(workspace.path("report.html")).unwrap();
    assert_eq!(document["bytes"], bytes.len());
    let (facts, _) = page::read(&bytes, 1 << 20).unwrap();
    assert_eq!(facts.with.unwrap().to_string(), first);
    assert_eq!(facts.seals.len(), 2);
    assert!(facts.seals.iter().all(|seal| seal.replays));
    assert_eq!(facts.notes, []);
}

#[test]
fn a_report_is_imported_like_an_archive() {
    let workspace = Workspace::plain();
    workspace.succeed(&["run", "note", "disk full"]);
    workspace.succeed(&["export", "--html", "last", "report.html"]);
    let other = Workspace::plain();
    fs::copy(workspace.path("report.html"), other.path("report.html")).unwrap();
    other.succeed(&["import", "report.html"]);
    assert_eq!(other.json(&["replay", "last"])["identical"], true);
    let text = fs::read_to_string(other.path("report.html")).unwrap();
    other.write("broken.html", &text.replace(" id=\"journal\">", " id=\"journal\">??"));
    photograph!(other.dalsegno(&["import", "broken.html"]), @r"
        exit code: 2
        --- stdout
        --- stderr
        error: `broken.html` holds no runs: its journal is damaged: export it again where it came from
          help: give a file that `dalsegno export` has written
        ");
}

#[test]
fn a_run_that_has_not_ended_is_exported_with_a_note() {
    let workspace = Workspace::empty();
    workspace.write("dalsegno.toml", "[models.default]\nprovider = \"script\"\nfile = \"replies.toml\"\n");
    workspace.write("replies.toml", "[[replies]]\ncalls = [{ name = \"refunds.create\", arguments = {} }]\n");
    workspace.write(
        "tools/refunds.json",
        r#"{ "name": "refunds", "actions": [{ "name": "create", "description": "Pays a sum back.",
            "actions": [{ "type": "respond", "message": "Paid." }] }] }"#,
    );
    workspace.write(
        "agents/desk.toml",
        "name = \"desk\"\ndescription = \"Pays back.\"\n[model]\nuse = \"default\"\n[tools]\nallow = [\"refunds.*\"]\n\
         approve = [\"refunds.*\"]\n",
    );
    assert!(workspace.dalsegno(&["run", "desk", "Please."]).starts_with("exit code: 4"));
    let shown = workspace.dalsegno(&["export", "--html", "last", "report.html"]);
    assert!(shown.contains("had not ended when this file was written: it was suspended"), "{shown}");
}

#[test]
fn a_damaged_run_is_shown_as_far_as_it_verifies() {
    let workspace = Workspace::plain();
    workspace.succeed(&["run", "note", "disk full on db-1"]);
    let database = rusqlite::Connection::open(workspace.path(".dalsegno/dalsegno.db")).unwrap();
    database
        .execute("UPDATE record SET link = zeroblob(16) WHERE key = (SELECT max(key) FROM record)", [])
        .unwrap();
    drop(database);
    let shown = workspace.dalsegno(&["export", "last", "run.dalsegno"]);
    assert!(shown.contains("error: record 5 of run"), "an archive is whole or not at all: {shown}");
    photograph!(workspace.dalsegno(&["export", "--html", "last", "report.html"]), @r"
        exit code: 0
        --- stdout
        --- stderr
        exported 1 run to `report.html`
        The journal is damaged: record 5 of run [SHORT] is damaged: it does not follow from the record before it; the 5 records before it are intact.
        ");
    let (facts, archive) = page::read(&fs::read(workspace.path("report.html")).unwrap(), 1 << 20).unwrap();
    assert_eq!(facts.seals, [], "what is damaged is never verified");
    let mut report = dalsegno_report::Report::new();
    assert_eq!(report.add(&archive).unwrap(), [facts.root]);
    let question = serde_json::json!({ "ask": "outline", "run": facts.root }).to_string();
    let outline: serde_json::Value = serde_json::from_str(&report.ask(question.as_bytes())).unwrap();
    assert_eq!(outline["ok"]["rows"].as_array().unwrap().len(), 3, "the start and two steps: {outline:#}");
}

#[test]
fn what_was_erased_is_in_no_report() {
    let workspace = Workspace::plain();
    workspace.succeed(&["run", "note", "disk full"]);
    workspace.succeed(&["erase", "last", "--yes"]);
    let shown = workspace.dalsegno(&["export", "--html", "last", "report.html"]);
    assert!(shown.contains("was erased"), "{shown}");
    assert!(!workspace.path("report.html").exists());
}

#[test]
fn a_secret_that_ran_through_a_run_is_in_no_byte_of_its_report() {
    const KEY: &str = "sk-canary-4711-secret";
    let double = Double::start(vec![words(&format!("Your key is {KEY}."))]);
    let workspace = Workspace::plain();
    workspace
        .write("dalsegno.toml", &format!("{}api_key = {{ store = \"model.key\" }}\n", double.settings()));
    workspace.dalsegno_with_input(&["secret", "put", "model.key"], &format!("{KEY}\n"));
    assert!(workspace.succeed(&["run", "chat", "hello"]).contains("Your key is [secret]."));
    assert_eq!(double.received()[0].authorization.as_deref(), Some("Bearer sk-canary-4711-secret"));
    workspace.succeed(&["export", "--html", "last", "report.html"]);
    let bytes = fs::read(workspace.path("report.html")).unwrap();
    let (facts, archive) = page::read(&bytes, 1 << 20).unwrap();
    let module = page::module();
    let contents = [bytes, archive, serde_json::to_vec(&facts).unwrap(), module];
    assert!(find(&contents[1], "Your key is [secret].".as_bytes()), "the run is in the report");
    let hex: String = KEY.bytes().map(|byte| format!("{byte:02x}")).collect();
    let mut forms = vec![KEY.as_bytes().to_vec(), hex.to_uppercase().into_bytes(), hex.into_bytes()];
    // In base64 a text has three forms, by where it begins.
    for before in 0..3 {
        let text = [vec![b'x'; before], KEY.as_bytes().to_vec()].concat();
        let encoded = base64(&text);
        // The first characters hold what stands before it, the last ones what stands after it.
        forms.push(encoded.as_bytes()[(before * 8).div_ceil(6)..encoded.len() - 4].to_vec());
    }
    for form in forms {
        for content in &contents {
            assert!(!find(content, &form), "{}", String::from_utf8_lossy(&form));
        }
    }
}

fn find(content: &[u8], wanted: &[u8]) -> bool {
    content.windows(wanted.len()).any(|window| window == wanted)
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let bits: Vec<bool> =
        bytes.iter().flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1 == 1)).collect();
    let digit = |bits: &[bool]| {
        let number = (0..6).fold(0, |number, bit| number << 1 | usize::from(bits.get(bit) == Some(&true)));
        char::from(DIGITS[number])
    };
    bits.chunks(6).map(digit).collect()
}

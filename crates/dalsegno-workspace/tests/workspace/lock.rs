//! What a lock file pins, how it reads, and what it says of a change.

use std::fs;

use dalsegno_core::{JsonSchema, OrderedJson};
use dalsegno_workspace::{Catalogue, CatalogueTool, Code, Lock, LockedTool, Severity, Workspace};
use proptest::prelude::*;
use serde_json::{Value, json};

fn tool(description: &str, input_schema: impl Into<JsonSchema>) -> CatalogueTool {
    CatalogueTool { read_only: Some(true), ..CatalogueTool::new(description, input_schema) }
}

fn catalogue(tools: impl IntoIterator<Item = (&'static str, CatalogueTool)>) -> Catalogue {
    tools.into_iter().map(|(name, tool)| (name.parse().unwrap(), tool)).collect()
}

fn text_schema() -> Value {
    json!({ "type": "object", "properties": { "text": { "type": "string" } }, "required": ["text"] })
}

fn risk() -> Catalogue {
    catalogue([
        ("risk.score", tool("Scores an incident.\nFrom 0 to 1.", text_schema())),
        ("risk.deep.explain", tool("Explains a score.", json!({ "type": "object" }))),
        ("chat.post", tool("Posts.", json!({ "type": "object" }))),
    ])
}

/// Writes a lock file and reads it again.
fn read(text: &str) -> Result<Lock, Vec<String>> {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join(Lock::FILE), text).unwrap();
    let read = Lock::read(folder.path());
    read.lock.ok_or_else(|| read.diagnostics.iter().map(ToString::to_string).collect())
}

#[test]
fn a_lock_file_reads_well_as_a_diff() {
    let lock = Lock::from_catalogue(&risk(), ["risk", "silent"]);
    insta::assert_snapshot!(lock.to_text());
}

#[test]
fn what_is_written_is_read_again() {
    let lock = Lock::from_catalogue(&risk(), ["risk", "silent"]);
    assert_eq!(lock.servers.keys().collect::<Vec<_>>(), ["risk", "silent"]);
    assert_eq!(lock.servers["risk"].tools.keys().collect::<Vec<_>>(), ["deep.explain", "score"]);
    assert_eq!(read(&lock.to_text()), Ok(lock));
}

#[test]
fn a_workspace_without_a_lock_file_pins_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let read = Lock::read(folder.path());
    assert_eq!((read.lock, read.diagnostics), (None, Vec::new()));
}

#[test]
fn the_digest_does_not_depend_on_the_order_of_keys() {
    let one: Value = serde_json::from_str(r#"{"a": 1, "b": {"c": 2, "d": 3}}"#).unwrap();
    let other: Value = serde_json::from_str(r#"{"b": {"d": 3, "c": 2}, "a": 1}"#).unwrap();
    let lock = |schema| Lock::from_catalogue(&catalogue([("risk.score", tool("x", schema))]), ["risk"]);
    assert_eq!(lock(one).to_text(), lock(other).to_text());
}

#[test]
fn the_order_of_arguments_is_pinned_and_a_change_of_it_is_told() {
    let lock = |schema: &str| {
        let schema: JsonSchema = schema.parse().unwrap();
        Lock::from_catalogue(&catalogue([("risk.score", tool("x", schema))]), ["risk"])
    };
    let written = lock(r#"{"type":"object","properties":{"why":{},"answer":{}}}"#);
    assert_eq!(read(&written.to_text()).unwrap(), written);
    let sorted = lock(r#"{"properties":{"answer":{},"why":{}},"type":"object"}"#);
    assert_ne!(written.servers["risk"].digest(), sorted.servers["risk"].digest());
    let reordered = lock(r#"{"type":"object","properties":{"answer":{},"why":{}}}"#);
    let told = |new| Lock::diff(&written, new).iter().map(ToString::to_string).collect::<Vec<_>>();
    let words = "tool `risk.score`: the keys of the schema of its arguments are in another order";
    assert_eq!(told(&reordered), [format!("{words} at `/properties`")]);
    assert_eq!(told(&sorted), [words]);
    assert_eq!(told(&written), [""; 0]);
}

#[test]
fn a_change_is_told_in_words() {
    let old = Lock::from_catalogue(
        &catalogue([
            ("risk.score", tool("Scores.", text_schema())),
            ("risk.gone", tool("x", json!({}))),
            ("risk.result", CatalogueTool { output_schema: Some(json!({})), ..tool("x", json!({})) }),
            ("old.tool", tool("x", json!({}))),
        ]),
        ["risk", "old"],
    );
    let new = Lock::from_catalogue(
        &catalogue([
            (
                "risk.score",
                CatalogueTool {
                    read_only: Some(false),
                    destructive: Some(true),
                    ..tool(
                        "Scores all.",
                        json!({ "type": "object", "properties": { "text": { "type": "number" } }, "required": ["text"] }),
                    )
                },
            ),
            ("risk.new", tool("x", json!({}))),
            ("risk.result", tool("x", json!({}))),
        ]),
        ["risk", "new"],
    );
    let changes: Vec<_> = Lock::diff(&old, &new).iter().map(ToString::to_string).collect();
    assert_eq!(
        changes,
        [
            "server `new`: is new",
            "server `old`: was removed",
            "tool `risk.gone`: was removed",
            "tool `risk.new`: is new",
            "tool `risk.result`: the schema of its result changed",
            "tool `risk.score`: was described as \"Scores.\", now as \"Scores all.\"",
            "tool `risk.score`: the schema of its arguments changed at `/properties/text/type`",
            "tool `risk.score`: `read_only` was true, now false",
            "tool `risk.score`: `destructive` was not set, now true",
        ]
    );
    assert_eq!(Lock::diff(&new, &new), []);
}

#[test]
fn a_longer_list_differs_as_a_whole() {
    let lock = |schema| Lock::from_catalogue(&catalogue([("a.b", tool("x", schema))]), ["a"]);
    let change = |old, new| Lock::diff(&lock(old), &lock(new))[0].to_string();
    assert!(change(json!({"enum": [1]}), json!({"enum": [1, 2]})).ends_with("at `/enum`"));
    assert!(change(json!({"enum": [1, 3]}), json!({"enum": [1, 2]})).ends_with("at `/enum/1`"));
    assert!(change(json!({"a/b": {"c~d": 1}}), json!({"a/b": {"c~d": 2}})).ends_with("at `/a~1b/c~0d`"));
}

/// A workspace with two servers, one of them pinned.
fn workspace(allow: &str, settings: &str) -> Workspace {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("agents")).unwrap();
    fs::write(folder.path().join("any.wasm"), "").unwrap();
    let settings =
        format!("[servers.chat]\nwasm = 'any.wasm'\n[servers.risk]\nwasm = 'any.wasm'\n{settings}");
    fs::write(folder.path().join("dalsegno.toml"), settings).unwrap();
    let agent = format!("name = 'a'\n[tools]\nallow = [{allow}]\n[[steps]]\nrespond = 'x'\n");
    fs::write(folder.path().join("agents/a.toml"), agent).unwrap();
    Workspace::load(folder.path()).workspace.unwrap()
}

fn problems(allow: &str, settings: &str) -> Vec<String> {
    let lock = Lock::from_catalogue(&risk(), ["risk"]);
    let found = workspace(allow, settings).check(&lock, &Catalogue::new());
    found.iter().map(|diagnostic| format!("{}: {}", diagnostic.severity, diagnostic.message)).collect()
}

#[test]
fn agents_are_held_against_what_is_pinned() {
    assert!(problems("'risk.score', 'risk.deep.*', 'memory.search'", "").is_empty());
    assert_eq!(problems("'risk.scroe'", ""), ["error: the tool `risk.scroe` does not exist"]);
}

#[test]
fn nothing_is_said_about_the_tools_of_a_server_that_is_not_pinned() {
    let note = "note: the tools of `chat` are not pinned, so they were not checked";
    assert_eq!(problems("'chat.whatever'", ""), [note]);
    assert_eq!(problems("'chat.*', 'risk.scroe'", ""), [note, "error: the tool `risk.scroe` does not exist"]);
    let found = workspace("'chat.post'", "").check(&Lock::default(), &Catalogue::new());
    assert_eq!((found[0].code, found[0].severity), (Code::NotPinned, Severity::Note));
}

#[test]
fn what_the_settings_hide_or_trust_holds_for_pinned_tools() {
    assert_eq!(
        problems("'risk.score'", "tools = ['deep.explain']\n"),
        ["error: the tool `risk.score` does not exist"]
    );
    let lock = Lock::from_catalogue(&risk(), ["risk"]);
    let trusted = |settings: &str| {
        let settings = workspace("'risk.score'", settings).settings;
        lock.catalogue(&settings)[&"risk.score".parse().unwrap()].trusted
    };
    assert!(trusted("trust_annotations = true\n") && !trusted(""));
}

#[test]
fn a_lock_file_that_was_edited_is_refused_with_its_place() {
    let text = Lock::from_catalogue(&risk(), ["risk"]).to_text();
    let problem = |old: &str, new: &str| {
        assert!(text.contains(old), "{text}");
        read(&text.replacen(old, new, 1)).unwrap_err()
    };
    assert_eq!(
        problem("Explains", "Describes"),
        ["dalsegno.lock:5:10: error[damaged-lock]: the digest of `risk` does not match the listed tools"]
    );
    assert!(problem("version = 1", "version = 9")[0].contains("invalid-value"));
    assert!(problem("name = \"score\"", "name = \"deep.explain\"")[0].contains("is pinned twice"));
    assert!(problem("\"type\": \"string\"", "\"type\": string")[0].contains("`input_schema` is not JSON"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_servers_say_is_written_and_read_again(
        server in "[a-z]{1,4}|\\PC{0,4}",
        name in any::<String>(),
        description in "[a\\n'\"\\\\\\r\\x00-\\x1f\\x7fé]{0,12}",
        key in any::<String>(),
        value in any::<String>(),
        annotation in any::<Option<bool>>(),
    ) {
        let tool = LockedTool {
            description,
            input_schema: OrderedJson::object([
                (key, json!([value, null, 1.5]).into()),
                ("".to_owned(), OrderedJson::object(["z", "a"].map(|name| (name.to_owned(), 1.into())))),
            ])
            .into(),
            output_schema: annotation.map(|flag| json!(flag)),
            read_only: annotation,
            idempotent: None,
            destructive: annotation,
            builtin: annotation == Some(true),
        };
        let mut lock = Lock::default();
        lock.servers.entry(server).or_default().tools.insert(name, tool);
        prop_assert_eq!(read(&lock.to_text()), Ok(lock));
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(Lock::FILE), bytes).unwrap();
        let read = Lock::read(folder.path());
        prop_assert_eq!(read.lock.is_none(), !read.diagnostics.is_empty());
    }
}

//! The lines of a workspace, and what is wrong with them.

use std::fs;

use dalsegno_workspace::Workspace;

/// Each message about a line with these keys in the place of the usual ones, or besides them.
fn messages(changes: &[(&str, &str)]) -> Vec<String> {
    let mut keys = vec![
        ("surface", "'realtime'"),
        ("transport", "'text'"),
        ("model", "'m'"),
        ("api_key", "{ env = 'K' }"),
    ];
    for (key, value) in changes {
        keys.retain(|(known, _)| known != key);
        if !value.is_empty() {
            keys.push((key, value));
        }
    }
    let keys: Vec<String> = keys.iter().map(|(key, value)| format!("{key} = {value}")).collect();
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("agents")).unwrap();
    fs::write(folder.path().join("agents/a.toml"), "name = 'a'\n[[steps]]\nrespond = 'hello'\n").unwrap();
    let settings = format!("[voice.lines.front]\n{}\n", keys.join("\n"));
    fs::write(folder.path().join("dalsegno.toml"), settings).unwrap();
    let diagnostics = Workspace::load(folder.path()).diagnostics;
    diagnostics.iter().map(|one| format!("{}: {}", one.code, one.message)).collect()
}

#[test]
fn a_line_that_cannot_be_says_why() {
    assert_eq!(messages(&[]), [""; 0]);
    assert_eq!(
        messages(&[("base_url", "'http://127.0.0.1:1/v1'"), ("api_key", "")]),
        [""; 0],
        "it may need no key"
    );
    for (key, value, expected) in [
        ("surface", "'live'", "invalid-value: `surface` cannot be `live`"),
        ("surface", "", "missing-key: `[voice.lines.front]` has no `surface`"),
        ("transport", "'sip'", "invalid-value: `transport` cannot be `sip`"),
        ("transport", "", "missing-key: `[voice.lines.front]` has no `transport`"),
        ("model", "", "missing-key: `[voice.lines.front]` has no `model`"),
        ("api_key", "", "missing-key: `[voice.lines.front]` has no `api_key`"),
        ("api_key", "'sk-123'", "secret-in-clear: "),
        ("max_calls", "0", "invalid-value: "),
        ("numbers", "1", "unknown-key: "),
        (
            "base_url",
            "'http://voice.example.com/v1'",
            "insecure-url: `base_url` sends keys and data unencrypted",
        ),
        (
            "base_url",
            "'https://a.example.com/v1/realtime/'",
            "invalid-value: `base_url` of `[voice.lines.front]` ends with `/realtime`",
        ),
        (
            "base_url",
            "'https://a.example.com/v1?x=1'",
            "invalid-value: `base_url` of `[voice.lines.front]` has a query",
        ),
        (
            "base_url",
            "'wss://a.example.com/v1'",
            "invalid-value: `base_url` cannot be `wss://a.example.com/v1`",
        ),
    ] {
        let found = messages(&[(key, value)]);
        assert!(found.len() == 1 && found[0].starts_with(expected), "{key} = {value}: {found:?}");
    }
    let private = [("base_url", "'http://10.1.2.3:8080/v1'"), ("allow_http", "true")];
    assert_eq!(messages(&private), [""; 0]);
}

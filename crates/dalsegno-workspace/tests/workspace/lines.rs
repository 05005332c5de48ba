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
        ("surface", "'media'", "invalid-value: `surface` cannot be `media`"),
        ("backend_model", "'m'", "invalid-value: `backend_model` is of no use at this line"),
        ("price", "{ input = 1 }", "missing-key: "),
        ("price", "{ input = 1, output = -1 }", "invalid-value: "),
        ("price", "{ input = 1, output = 1, audio = 1 }", "unknown-key: "),
        (
            "price",
            "{ input = 1, output = 1, minute = 1 }",
            "invalid-value: `minute` is of no use at this line",
        ),
        ("surface", "", "missing-key: `[voice.lines.front]` has no `surface`"),
        ("transport", "'phone'", "invalid-value: `transport` cannot be `phone`"),
        ("transport", "", "missing-key: `[voice.lines.front]` has no `transport`"),
        ("model", "", "missing-key: `[voice.lines.front]` has no `model`"),
        ("api_key", "", "missing-key: `[voice.lines.front]` has no `api_key`"),
        ("api_key", "'sk-123'", "secret-in-clear: "),
        ("max_calls", "0", "invalid-value: "),
        ("number", "1", "unknown-key: "),
        (
            "numbers",
            "{ '+33176540001' = { agent = 'a' } }",
            "invalid-value: `numbers` is of no use at a line for text",
        ),
        (
            "webhook_secrets",
            "[{ env = 'S' }]",
            "invalid-value: `webhook_secrets` is of no use at a line for text",
        ),
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
    let found = messages(&[("surface", "'live'"), ("backend_model", "'m'")]);
    assert_eq!(found, ["invalid-value: a line with `surface = \"live\"` takes no text"]);
    let found = rings(&[("transport", "'media'"), ("surface", "'live'"), ("backend_model", "'m'")]);
    let expected = "invalid-value: a line with `surface = \"live\"` takes no media";
    assert!(found.contains(&expected.to_owned()), "{found:?}");
    let found = messages(&[("transport", "'media'")]);
    let missing = |key: &str| format!("missing-key: `[voice.lines.front]` has no `{key}`");
    assert_eq!(found, ["webhook_secrets", "numbers"].map(missing));
    let private = [("base_url", "'http://10.1.2.3:8080/v1'"), ("allow_http", "true")];
    assert_eq!(messages(&private), [""; 0]);
}

/// The messages about a line that rings.
fn rings(changes: &[(&str, &str)]) -> Vec<String> {
    let mut keys = vec![
        ("transport", "'sip'"),
        ("webhook_secrets", "[{ env = 'S' }]"),
        ("numbers", "{ '+33176540001' = { agent = 'a' } }"),
    ];
    for (key, value) in changes {
        keys.retain(|(known, _)| known != key);
        keys.push((key, value));
    }
    messages(&keys)
}

#[test]
fn a_line_that_cannot_ring_says_why() {
    // The one agent there is takes no calls.
    let mute = "missing-key: the agent `a` takes no calls";
    assert_eq!(rings(&[]), [mute]);
    for (key, value, expected) in [
        ("webhook_secrets", "", "missing-key: `[voice.lines.front]` has no `webhook_secrets`"),
        ("webhook_secrets", "[]", "invalid-value: `webhook_secrets` of `[voice.lines.front]` cannot be used"),
        ("webhook_secrets", "['whsec_123']", "secret-in-clear: "),
        ("webhook_secrets", "{ env = 'S' }", "wrong-type: "),
        ("numbers", "", "missing-key: `[voice.lines.front]` has no `numbers`"),
        ("numbers", "{}", "invalid-value: `numbers` of `[voice.lines.front]` is empty"),
        ("numbers", "{ '0176540001' = { agent = 'a' } }", "invalid-value: `0176540001` is not a number"),
        ("numbers", "{ '+0176540001' = { agent = 'a' } }", "invalid-value: `+0176540001` is not a number"),
        ("numbers", "{ '+33 1 76' = { agent = 'a' } }", "invalid-value: `+33 1 76` is not a number"),
        ("numbers", "{ '+33176540001' = {} }", "missing-key: the number `+33176540001` has no `agent`"),
        (
            "numbers",
            "{ '+33176540001' = { agent = 'a', transfer_to = ['sales'] } }",
            "invalid-value: expected a number, or an address with `tel:`, `sip:` or `sips:`",
        ),
        ("numbers", "{ '+33176540001' = { agent = 'b' } }", "unknown-agent: the workspace has no agent `b`"),
    ] {
        let found = rings(&[(key, value)]);
        assert!(found.len() == 1 && found[0].starts_with(expected), "{key} = {value}: {found:?}");
    }
    assert_eq!(rings(&[("surface", "'live'"), ("backend_model", "'m'")]), [mute]);
    let found = rings(&[("numbers", "{ '+33176540001' = { agent = 'a', tenant = 'acme' } }")]);
    assert_eq!(found, [mute, "unknown-tenant: the workspace has no tenant `acme`"]);
    let found = rings(&[("numbers", "{ '+33176540001' = { agent = 'a', tenant = 'A B' } }")]);
    assert_eq!(found, ["invalid-value: `A B` is not the name of a tenant"]);
}

#[test]
fn two_lines_with_one_number_are_an_error_and_so_is_a_name_that_is_no_address() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("agents")).unwrap();
    fs::write(folder.path().join("agents/a.toml"), "name = 'a'\n[model]\nuse = 'default'\n[voice]\n")
        .unwrap();
    let line = |name: &str| {
        format!(
            "[voice.lines.{name}]\nsurface = 'realtime'\ntransport = 'sip'\nmodel = 'm'\napi_key = {{ env = 'K' }}\n\
             webhook_secrets = [{{ env = 'S' }}, {{ env = 'T' }}]\nnumbers = {{ '+33176540001' = {{ agent = 'a' }} }}\n"
        )
    };
    let load = |lines: &[&str]| {
        let model =
            "[models.default]\nprovider = 'openai'\nmodel = 'm'\napi_key = { env = 'K' }\n".to_owned();
        let settings: String = [model].into_iter().chain(lines.iter().map(|name| line(name))).collect();
        fs::write(folder.path().join("dalsegno.toml"), settings).unwrap();
        let diagnostics = Workspace::load(folder.path()).diagnostics;
        diagnostics.iter().map(|one| format!("{}: {}", one.code, one.message)).collect::<Vec<_>>()
    };
    assert_eq!(load(&["front"]), [""; 0]);
    assert_eq!(
        load(&["front", "back"]),
        ["invalid-value: the lines `back` and `front` both have the number `+33176540001`"]
    );
    assert_eq!(load(&["\"a/b\""]), ["invalid-value: `a/b` is not the name of a line"]);
}

#[test]
fn destinations_of_a_tenant_that_a_number_does_not_allow_are_warned_of() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["agents", "tenants"] {
        fs::create_dir(folder.path().join(name)).unwrap();
    }
    fs::write(folder.path().join("agents/a.toml"), "name = 'a'\n[model]\nuse = 'default'\n[voice]\n")
        .unwrap();
    let destination = |id: &str, target: &str| {
        format!("[[features.refer.destinations]]\ndestination_id = '{id}'\ntarget_uri = '{target}'\n")
    };
    let tenant = [
        "name = 'acme'\n",
        &destination("sales", "+33140000000"),
        &destination("desk", "sip:desk@acme.example"),
    ];
    fs::write(folder.path().join("tenants/acme.toml"), tenant.concat()).unwrap();
    let warned = |transfer_to: &str| {
        let settings = format!(
            "[models.default]\nprovider = 'openai'\nmodel = 'm'\napi_key = {{ env = 'K' }}\n\
             [voice.lines.front]\nsurface = 'realtime'\ntransport = 'sip'\nmodel = 'm'\napi_key = {{ env = 'K' }}\n\
             webhook_secrets = [{{ env = 'S' }}]\n\
             numbers = {{ '+33176540001' = {{ agent = 'a', tenant = 'acme', transfer_to = [{transfer_to}] }} }}\n"
        );
        fs::write(folder.path().join("dalsegno.toml"), settings).unwrap();
        let diagnostics = Workspace::load(folder.path()).diagnostics;
        assert!(diagnostics.iter().all(|one| !one.is_error()), "{diagnostics:?}");
        diagnostics.iter().map(|one| one.message.clone()).collect::<Vec<_>>()
    };
    let of = |id: &str| format!("calls to +33176540001 cannot be transferred to `{id}` of the tenant `acme`");
    assert_eq!(warned(""), [of("sales"), of("desk")]);
    assert_eq!(warned("'+3314*'"), [of("desk")]);
    assert_eq!(warned("'+3314*', 'sip:*@acme.example'"), [""; 0]);
}

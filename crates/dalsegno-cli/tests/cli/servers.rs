//! `dalsegno servers`.

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::{Workspace, guest, photograph};

/// Whether one of the lines begins so.
fn has_line(text: &str, beginning: &str) -> bool {
    text.lines().any(|line| line.starts_with(beginning))
}

#[test]
fn every_server_says_how_it_is_and_what_it_may_do() {
    let text = Workspace::guarded().succeed(&["servers"]);
    for beginning in [
        "risk",
        "  state     ready, 3 tools",
        "  may       read and write ",
        "  lifetime  per_run",
        "  digest    sha256:",
        "  memory    ",
    ] {
        assert!(has_line(&text, beginning), "{beginning}: {text}");
    }
}

#[test]
fn a_compiled_module_that_was_changed_is_compiled_anew_with_a_warning() {
    let workspace = Workspace::guarded();
    let cache = workspace.path("cache");
    let servers = || {
        let mut command = workspace.command(&["servers"]);
        workspace.shown(&command.env("DALSEGNO_CACHE", &cache).output().unwrap())
    };
    let warning = "a compiled module is not trusted, and is compiled anew";
    assert!(!servers().contains(warning));
    let machine_code = |folder: &Path| -> Vec<PathBuf> {
        folder.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect()
    };
    let of_this_engine = machine_code(&cache).pop().unwrap();
    let module = machine_code(&of_this_engine)
        .into_iter()
        .find(|path| path.extension().is_some_and(|end| end == "cwasm"));
    let module = module.unwrap();
    let mut bytes = fs::read(&module).unwrap();
    let place = bytes.len() / 2;
    bytes[place] ^= 1;
    fs::write(&module, bytes).unwrap();
    let text = servers();
    assert!(text.contains(warning) && text.contains("ready, 3 tools"), "{text}");
    assert!(!servers().contains(warning));
}

#[test]
fn permissions_are_told_in_words() {
    let workspace = Workspace::guarded();
    let settings = fs::read_to_string(workspace.path("dalsegno.toml")).unwrap();
    let granted = r#"
[servers.risk.permissions]
network = ["https://crm.example.com", "https://www.example.com"]
secrets = { "https://crm.example.com" = { header = "Authorization", value = { env = "NOT_THERE" } } }
env = { REGION = "eu" }
clock = true
random = true
"#;
    let (before, after) = settings.split_once("\n[servers.risk.permissions]\n").unwrap();
    let after = after.split_once("\n[").map_or("", |(_, after)| after);
    workspace.write("dalsegno.toml", &format!("{before}\n{granted}\n[{after}"));
    let servers = workspace.json(&["servers"]);
    let grants: Vec<_> =
        servers[0]["grants"].as_array().unwrap().iter().map(|words| words.as_str().unwrap()).collect();
    assert_eq!(
        grants,
        [
            "send requests to https://crm.example.com, to which the host adds a secret in `authorization`",
            "send requests to https://www.example.com",
            "see the variable REGION, which is `eu`",
            "see the real time",
            "use real random numbers",
        ]
    );
}

#[test]
fn a_server_is_checked_and_measured() {
    let workspace = Workspace::guarded();
    let text = workspace.succeed(&["servers", "check", "risk"]);
    for beginning in ["  loaded in ", "  ready in  ", "  tools     explain", "            record"] {
        assert!(has_line(&text, beginning), "{beginning}: {text}");
    }
    let checked = workspace.json(&["servers", "check", "risk"]);
    assert_eq!(checked["from_cache"], true);
    for key in ["state", "digest", "load_us", "start_us", "memory_peak", "instances", "calls", "denials"] {
        assert!(checked.get(key).is_some(), "{key} in {checked}");
    }
    assert_eq!(checked["tools"][0]["problems"], serde_json::json!([]));
}

#[test]
fn a_server_that_cannot_be_used_says_why() {
    let workspace = Workspace::guarded();
    fs::write(workspace.path("risk.wasm"), "no module").unwrap();
    photograph!(workspace.dalsegno(&["servers"]), @r"
        exit code: 2
        --- stdout
        risk
          state     cannot be used
          may       read and write [WORKSPACE]/.dalsegno/incidents as /incidents
          place     [WORKSPACE]/risk.wasm
          lifetime  per_run
        --- stderr
        error: tool server `risk`: `[WORKSPACE]/risk.wasm` is not a WebAssembly module: it begins with the text `no modul`, expected the bytes 00 61 73 6d
        ");
}

#[test]
fn a_program_is_shown_with_its_arguments() {
    let workspace = Workspace::empty().trusted();
    workspace.write("dalsegno.toml", "[servers.bell]\ncommand = [\"/bin/sh\", \"-c\", \"exit 3\"]\n");
    let shown = workspace.dalsegno(&["servers"]);
    assert!(has_line(&shown, "  place     /bin/sh -c 'exit 3'"), "{shown}");
    assert_eq!(workspace.json(&["servers"])[0]["place"], "/bin/sh -c 'exit 3'");
}

#[test]
fn the_last_words_of_a_program_that_does_not_start_are_told() {
    let workspace = Workspace::empty().trusted();
    let program = "command = [\"/bin/sh\", \"-c\", \"echo no module named foo >&2; exit 3\"]";
    workspace.write("dalsegno.toml", &format!("[servers.bell]\n{program}\n"));
    let shown = workspace.dalsegno(&["tools", "list"]);
    assert!(has_line(&shown, "error: tool server `bell`: the server exited (code 3)"), "{shown}");
    assert!(has_line(&shown, "  it last wrote: no module named foo"), "{shown}");
}

/// A server that offers one tool, and breaks off when it is called.
const BREAKS: &str = r#"
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case "$line" in
    *'"initialize"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"b","version":"1"}}}\n' "$id" ;;
    *'"tools/list"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"ring","description":"Rings.","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}]}}\n' "$id" ;;
    *'"tools/call"'*) echo "cannot open /etc/bell.key" >&2; exit 3 ;;
    *'"id"'*) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}\n' "$id" ;;
  esac
done
"#;

#[test]
fn a_person_reads_the_last_words_of_a_server_and_a_plan_the_careful_message() {
    let workspace = Workspace::empty().trusted();
    workspace.write("bell.sh", BREAKS);
    workspace.write(
        "dalsegno.toml",
        "[servers.bell]\ncommand = [\"/bin/sh\", \"bell.sh\"]\ntrust_annotations = true\n",
    );
    let agent = "name = \"rings\"\n[tools]\nallow = [\"bell.*\"]\n[tools.settings.\"bell.ring\"]\nretries = 0\n\n\
                 [[steps]]\nid = \"ring\"\ntool = \"bell.ring\"\n";
    workspace.write("agents/rings.toml", agent);
    let told = workspace.dalsegno(&["run", "rings"]);
    assert!(
        has_line(&told, "error[tool_failed]: plan step 1 `ring`: `bell.ring` failed with unavailable: "),
        "{told}"
    );
    assert!(has_line(&told, "  cause: tool `bell.ring`, it last wrote: cannot open /etc/bell.key"), "{told}");
    let shown = workspace.json(&["show", "last", "--state"]);
    let error = shown["error"].to_string();
    assert!(error.contains("exited (code 3)") && !error.contains("bell.key"), "{error}");
    assert!(
        workspace.succeed(&["show", "last", "--full"]).contains("it last wrote: cannot open /etc/bell.key")
    );
}

#[test]
fn a_server_that_is_not_there_is_told() {
    let told = Workspace::guarded().dalsegno(&["servers", "check", "crm"]);
    assert!(told.starts_with("exit code: 2"), "{told}");
    assert!(told.contains("`crm`") && told.contains("risk"), "{told}");
}

/// An agent with the guest that tries what it is not granted.
fn probing() -> Workspace {
    let workspace = Workspace::empty();
    fs::copy(guest("probe"), workspace.path("probe.wasm")).unwrap();
    workspace.write("dalsegno.toml", "[servers.probe]\nwasm = \"probe.wasm\"\n");
    let agent = "name = \"prober\"\nversion = \"1.0.0\"\ndescription = \"Tries.\"\n[tools]\nallow = [\"probe.*\"]\n\
                 [[steps]]\nid = \"it\"\ntool = \"probe.connect\"\nwith = { at = \"127.0.0.1:9\" }\n[[steps]]\n\
                 respond = \"{{steps.it.open}}\"\n";
    workspace.write("agents/prober.toml", agent);
    workspace
}

#[test]
fn what_a_server_was_refused_stands_in_the_journal_before_the_outcome_of_its_call() {
    let workspace = probing();
    assert_eq!(workspace.succeed(&["run", "prober", "go"]).trim(), "false");
    let runs = workspace.json(&["runs"]);
    let run = runs[0]["run_id"].as_str().unwrap();
    let shown = workspace.json(&["show", run]);
    let events = shown["events"].as_array().unwrap();
    let denied = events.iter().position(|event| event["kind"] == "denied").expect("a denial is recorded");
    assert_eq!(events[denied]["data"]["server"], "probe", "{}", events[denied]);
    assert_eq!(events[denied]["data"]["denials"][0]["kind"], "socket", "{}", events[denied]);
    assert_eq!(events[denied]["operation"], events[denied + 1]["operation"]);
    assert_eq!(events[denied + 1]["kind"], "resolved");
    workspace.succeed(&["replay", run]);
}

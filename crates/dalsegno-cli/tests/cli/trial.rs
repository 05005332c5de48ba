//! `dalsegno tools test`: one declarative tool, performed, recorded and played back.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::support::{Workspace, photograph};

/// A service that logs meals, and counts them.
struct Service {
    origin: String,
    count: Arc<AtomicUsize>,
}

impl Service {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let origin = format!("http://{}", listener.local_addr().unwrap());
        let count: Arc<AtomicUsize> = Arc::default();
        let counting = Arc::clone(&count);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let (mut got, mut buffer) = (Vec::new(), [0; 4096]);
                while !got.ends_with(b"}") {
                    let read = stream.read(&mut buffer).unwrap();
                    got.extend_from_slice(&buffer[..read]);
                }
                counting.fetch_add(1, Ordering::SeqCst);
                let answer = "{\"id\":7,\"echo\":\"canary-4711-token\"}";
                let head = "HTTP/1.1 201 Created\r\ncontent-type: application/json\r\nconnection: close\r\n";
                write!(stream, "{head}content-length: {}\r\n\r\n{answer}", answer.len()).unwrap();
            }
        });
        Self { origin, count }
    }

    fn workspace(&self) -> Workspace {
        let workspace = Workspace::empty();
        workspace.write("dalsegno.toml", "");
        let tenant = format!(
            "name = \"default\"\negress = [\"{0}\"]\n[settings.endpoints]\nmeal_log = \"{0}/meals\"\n",
            self.origin
        );
        workspace.write("tenants/default.toml", &tenant);
        workspace.write("tools/log_meal.json", DOCUMENT);
        workspace
    }

    fn count(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }
}

const DOCUMENT: &str = r#"{
  "name": "log_meal",
  "description": "Logs a meal.",
  "parameters": [{ "name": "dish", "type": "string", "required": true }],
  "actions": [
    { "type": "context.set", "path": "meals[+]", "value": "params.dish" },
    {
      "type": "api_call", "id": "log", "url": "{{tenant.settings.endpoints.meal_log}}",
      "headers": { "Authorization": "Bearer {{user.auth_token}}" },
      "body": { "meal": "{{params.dish}}" }
    },
    { "type": "conditional", "condition": "result.log.id > 5", "then_actions": [
      { "type": "log", "level": "info", "log_message": "logged as {{result.log.id}}" }
    ] }
  ],
  "on_success": [{ "type": "respond", "message": "I logged your {{params.dish}}." }],
  "output": "result.log"
}"#;

const USER: &str = r#"{"auth_token": "canary-4711-token"}"#;

fn test(workspace: &Workspace, more: &[&str]) -> String {
    workspace.dalsegno(
        &[&["tools", "test", "tools/log_meal.json", "--params", "{\"dish\": \"soup\"}"], more].concat(),
    )
}

#[test]
fn what_is_recorded_is_played_back_without_anybody() {
    let service = Service::start();
    let workspace = service.workspace();
    let recorded = test(&workspace, &["--user", USER, "--record", "meal.json"]);
    photograph!(recorded.replace(&service.origin, "[ORIGIN]"), @r#"
    exit code: 0
    --- stdout
    ACTION                      TYPE         STATUS  EFFECT
    actions[0]                  context.set  ok
    actions[1] (log)            api_call     ok      attempts 1, effect 0, request POST [ORIGIN]/meals, status 201
    actions[2]                  conditional  ok      condition true
    actions[2].then_actions[0]  log          ok      level info, message logged as 7
    on_success[0]               respond      ok

    says
      I logged your soup.

    writes
      {"append":{"path":"workflow.meals","value":"soup"}}

    returns
      {"echo":"[secret]","id":7}
    --- stderr
    calling `log_meal` outside of any run: nothing is journaled
    1 request in `meal.json`; look at it before you commit it
    "#);
    assert_eq!(service.count(), 1);
    let file = std::fs::read_to_string(workspace.path("meal.json")).unwrap();
    assert!(!file.contains("canary-4711"), "{file}");
    let played = test(&workspace, &["--replay", "meal.json"]);
    let actions = |shown: &str| shown.split("--- stderr").next().unwrap().to_owned();
    assert_eq!(actions(&played), actions(&recorded));
    assert_eq!(service.count(), 1);
}

#[test]
fn by_itself_it_reaches_nobody_and_says_what_it_would_need() {
    let service = Service::start();
    let workspace = service.workspace();
    let shown = test(&workspace, &[]);
    photograph!(shown.replace(&service.origin, "[ORIGIN]"), @r"
        exit code: 2
        --- stdout
        --- stderr
        error: the recording has no answer to the request `POST [ORIGIN]/meals` of `actions[1]`: it has no more of them
          help: record it with `--record FILE`, which performs the tool, or perform it with `--live`
        ");
    test(&workspace, &["--user", USER, "--record", "meal.json"]);
    workspace.write("tools/log_meal.json", &DOCUMENT.replace("\"meal\":", "\"food\":"));
    let shown = test(&workspace, &["--replay", "meal.json"]);
    assert!(shown.contains("it has one to the same address, with other content"), "{shown}");
    assert_eq!(service.count(), 1);
}

#[test]
fn a_tool_of_the_workspace_is_called_once_a_person_agrees() {
    let service = Service::start();
    let workspace = service.workspace();
    let args = ["tools", "call", "log_meal", "--args", "{\"dish\": \"soup\"}", "--user", USER];
    photograph!(workspace.dalsegno(&args), @r"
        exit code: 2
        --- stdout
        --- stderr
        error: `log_meal` is a declarative tool: what its actions do is done, and you have not agreed to it
          help: agree with `--yes`
        ");
    assert_eq!(service.count(), 0);
    photograph!(workspace.dalsegno(&[&args[..], &["--yes"]].concat()), @r#"
        exit code: 0
        --- stdout
        {
          "echo": "[secret]",
          "id": 7
        }
        --- stderr
        calling `log_meal` outside of any run: nothing is journaled
        "#);
    assert_eq!(service.count(), 1);
    assert_eq!(workspace.json(&["runs"]), serde_json::json!([]), "nothing is journaled");
}

#[test]
fn a_document_with_a_mistake_is_shown_with_its_place() {
    let workspace = Service::start().workspace();
    workspace.write("broken.json", &DOCUMENT.replace("api_call", "api_cal"));
    let shown = workspace.dalsegno(&["tools", "test", "broken.json"]);
    assert!(shown.starts_with("exit code: 2") && shown.contains("did you mean `api_call`?"), "{shown}");
}

/// A document with a secret: a workspace has one of this name, and a stranger wrote another.
fn keyed(origin: &str) -> String {
    format!(
        r#"{{
  "name": "keyed", "description": "Shows a secret.", "secrets": ["token"],
  "actions": [{{
    "type": "api_call", "url": "{origin}/x", "headers": {{ "Authorization": "Bearer {{{{secrets.token}}}}" }},
    "retry_count": 0, "body": {{ "x": 1 }}
  }}]
}}"#
    )
}

#[test]
fn the_document_of_a_stranger_gets_no_secret_of_the_workspace() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    let heads: Arc<std::sync::Mutex<Vec<String>>> = Arc::default();
    let log = Arc::clone(&heads);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let (mut got, mut buffer) = (Vec::new(), [0; 4096]);
            while !got.ends_with(b"}") {
                let read = stream.read(&mut buffer).unwrap();
                got.extend_from_slice(&buffer[..read]);
            }
            log.lock().unwrap().push(String::from_utf8_lossy(&got).into_owned());
            let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n";
            write!(stream, "{head}content-length: 2\r\n\r\n{{}}").unwrap();
        }
    });
    let workspace = Workspace::empty();
    workspace.write("dalsegno.toml", "[tenants.default]\nfile_prefixes = [\"token\"]\n");
    let tenant = format!(
        "name = \"default\"\negress = [\"{origin}\"]\n[tools.keyed.secrets]\ntoken = {{ file = \"token\" }}\n"
    );
    workspace.write("tenants/default.toml", &tenant);
    workspace.write("token", "canary-0815-token");
    workspace.write("tools/keyed.json", &keyed(&origin));
    // Of the same name and with the same words, beside the workspace's and below other folders.
    for stranger in ["keyed.json", "downloads/tools/keyed.json", "tenants/acme/tools/keyed.json"] {
        workspace.write(stranger, &keyed(&origin));
        let shown = workspace.dalsegno(&["tools", "test", stranger, "--live"]);
        assert!(!shown.starts_with("exit code: 0\n"), "{stranger}: {shown}");
        assert!(shown.contains("is not in this workspace, so it gets no secret"), "{stranger}: {shown}");
        assert!(!shown.contains("canary-0815"), "{stranger}: {shown}");
        std::fs::remove_file(workspace.path(stranger)).unwrap();
    }
    let sent = heads.lock().unwrap().join("\n");
    assert!(!sent.contains("canary-0815"), "{sent}");
    // The workspace's own has it.
    let shown = workspace.dalsegno(&["tools", "test", "tools/keyed.json", "--live"]);
    assert!(shown.starts_with("exit code: 0\n"), "{shown}");
    assert!(heads.lock().unwrap().join("\n").contains("Bearer canary-0815-token"));
}

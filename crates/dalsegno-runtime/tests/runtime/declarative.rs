//! Declarative tools, from their files to the endpoints that they call.

mod unsettled;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use dalsegno_core::{AgentRequest, EffectClass, Gate, RunErrorCode, Status};
use dalsegno_runtime::{RunEnd, RunEvent, RunReport, Secret, Settlement, StartOptions};
use dalsegno_secrets::Put;
use dalsegno_store::{Body, Evidence};
use serde_json::{Value, json};

use crate::support::{Behaviour, World, answer, waits};

/// A request as an endpoint got it.
#[derive(Debug, Clone)]
struct Got {
    line: String,
    headers: String,
    body: Value,
}

impl Got {
    fn header(&self, name: &str) -> Option<&str> {
        let found =
            self.headers.lines().find_map(|line| line.split_once(": ").filter(|(key, _)| key == &name));
        found.map(|(_, value)| value)
    }
}

/// What an endpoint does with a request.
#[derive(Clone)]
enum Course {
    /// Answers with this status, further headers and body.
    Answer(u16, &'static str, Value),
    /// Answers with this status, and closes the connection in the middle of the body.
    Cut(u16),
    /// Answers 200 with these bytes, which are said to be text.
    Bytes(&'static [u8]),
    /// Closes the connection when it has read the request.
    HangUp,
}

/// An endpoint that does one thing after the other, the last one for ever.
struct Endpoint {
    origin: String,
    got: Arc<Mutex<Vec<Got>>>,
}

impl Endpoint {
    fn start(courses: Vec<Course>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let origin = format!("http://{}", listener.local_addr().unwrap());
        let got: Arc<Mutex<Vec<Got>>> = Arc::default();
        let log = Arc::clone(&got);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                serve(stream.unwrap(), &log, &courses);
            }
        });
        Self { origin, got }
    }

    fn got(&self) -> Vec<Got> {
        self.got.lock().unwrap().clone()
    }

    /// A workspace whose agent logs a meal through this endpoint.
    fn world(&self, agent: &str, document: &Value) -> World {
        let world = World::new(agent);
        self.tenant(&world, "default", &[&self.origin]);
        std::fs::create_dir(world.path().join("tools")).unwrap();
        std::fs::write(world.path().join("tools/save_meal.json"), document.to_string()).unwrap();
        world
    }

    fn tenant(&self, world: &World, name: &str, egress: &[&str]) {
        let _ = std::fs::create_dir(world.path().join("tenants"));
        let file = format!(
            "name = \"{name}\"\negress = {}\n[settings.endpoints]\nmeal_log = \"{}/meals\"\n",
            json!(egress),
            self.origin
        );
        std::fs::write(world.path().join(format!("tenants/{name}.toml")), file).unwrap();
    }
}

fn serve(mut stream: TcpStream, log: &Mutex<Vec<Got>>, courses: &[Course]) {
    let (mut bytes, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        let head = bytes.windows(4).position(|window| window == b"\r\n\r\n");
        if let Some(head) = head {
            let text = String::from_utf8_lossy(&bytes[..head]).into_owned();
            let (line, headers) = text.split_once("\r\n").unwrap();
            let headers = headers.to_ascii_lowercase().replace("\r\n", "\n");
            let length: usize = headers
                .lines()
                .find_map(|line| line.strip_prefix("content-length: "))
                .map_or(0, |length| length.parse().unwrap());
            let body = &bytes[head + 4..];
            if body.len() >= length {
                let body = serde_json::from_slice(&body[..length]).unwrap_or(Value::Null);
                let mut log = log.lock().unwrap();
                let course = courses[log.len().min(courses.len() - 1)].clone();
                log.push(Got { line: line.to_owned(), headers, body });
                drop(log);
                let (status, more, body) = match course {
                    Course::Answer(status, more, body) => (status, more, body),
                    Course::Cut(status) => {
                        let head = format!(
                            "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{{\"id"
                        );
                        let _ = stream.write_all(head.as_bytes());
                        return;
                    }
                    Course::Bytes(bytes) => {
                        let head = format!(
                            "HTTP/1.1 200 X\r\ncontent-type: text/plain\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                            bytes.len()
                        );
                        let _ = stream.write_all(&[head.as_bytes(), bytes].concat());
                        return;
                    }
                    Course::HangUp => return,
                };
                let body = body.to_string();
                let head = format!(
                    "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n{more}\r\n",
                    body.len()
                );
                let _ = stream.write_all((head + &body).as_bytes());
                return;
            }
        }
        match stream.read(&mut buffer) {
            Ok(0) | Err(_) => return,
            Ok(read) => bytes.extend_from_slice(&buffer[..read]),
        }
    }
}

/// The tool of the examples: it keeps a meal, and sends it away.
fn save_meal() -> Value {
    json!({
        "name": "save_meal",
        "description": "Log a meal the user consumed.",
        "parameters": [
            {"name": "meal_type", "type": "string", "enum": ["breakfast", "lunch", "dinner"], "required": true},
            {"name": "dishes", "type": "array", "items": {"type": "string"}, "required": true}
        ],
        "actions": [
            {"type": "context.set", "path": "logged_meals[+]", "value": "params.meal_type"},
            {"type": "api_call", "id": "log", "url": "{{tenant.settings.endpoints.meal_log}}",
             "headers": {"Authorization": "Bearer {{user.auth_token}}"}, "retry_delay": 0.01, "effect": "keyed",
             "body": {"user_id": "{{user.id}}", "meal": "{{params}}"}}
        ],
        "on_success": [{"type": "respond", "message": "I logged your {{params.meal_type}} as {{result.log.id}}."}],
        "on_failure": [{"type": "respond", "message": "I could not log it: {{error.code}}."}]
    })
}

const AGENT: &str = "[tools]\nallow = [\"save_meal\"]\n\
    [[steps]]\nid = \"meal\"\ntool = \"save_meal\"\nwith = { meal_type = \"lunch\", dishes = [\"soup\", \"pie\"] }\n\
    [[steps]]\nrespond = \"{{steps.meal.id}} {{workflow.logged_meals}}\"\n";

async fn run(world: &World, request: AgentRequest) -> RunReport {
    let engine = world.engine().await;
    let handle = engine.start(&"a".parse().unwrap(), request, StartOptions::default()).await.unwrap();
    handle.finish().await.unwrap()
}

fn of_user() -> AgentRequest {
    let user = json!({"id": "u-7", "auth_token": "canary-4711-token"});
    AgentRequest { user, ..AgentRequest::text("lunch") }
}

/// Every byte that a run leaves behind in its workspace, but for the secret store.
fn bytes_of(world: &World) -> Vec<(String, Vec<u8>)> {
    let folder = world.path().join(".dalsegno");
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files = entries.filter(|path| path.is_file() && !path.to_string_lossy().contains("secret"));
    files.map(|path| (path.display().to_string(), std::fs::read(&path).unwrap())).collect()
}

#[tokio::test]
async fn a_tool_calls_its_endpoint_and_answers() {
    let endpoint = Endpoint::start(vec![Course::Answer(201, "", json!({"id": 7}))]);
    let world = endpoint.world(AGENT, &save_meal());
    let report = run(&world, of_user()).await;
    assert_eq!(answer(&report), "I logged your lunch as 7.\n\n7 [\"lunch\"]");
    let got = endpoint.got();
    assert_eq!(got.len(), 1);
    assert_eq!(got[0].line, "POST /meals HTTP/1.1");
    assert_eq!(got[0].header("authorization"), Some("bearer canary-4711-token"));
    assert_eq!(
        got[0].body,
        json!({"user_id": "u-7", "meal": {"meal_type": "lunch", "dishes": ["soup", "pie"]}})
    );
}

#[tokio::test]
async fn a_replay_calls_nobody() {
    let endpoint = Endpoint::start(vec![Course::Answer(201, "", json!({"id": 7}))]);
    let world = endpoint.world(AGENT, &save_meal());
    let report = run(&world, of_user()).await;
    let replayed = world.engine().await.journal().replay(report.run).await.unwrap();
    assert!(replayed.identical, "{:?}", replayed.divergence);
    assert_eq!(endpoint.got().len(), 1);
}

#[tokio::test]
async fn a_secret_that_came_with_the_request_is_nowhere_on_the_disk() {
    let echo = Course::Answer(201, "x-request-id: canary-4711-token\r\n", json!({"id": "canary-4711-token"}));
    let endpoint = Endpoint::start(vec![echo]);
    let world = endpoint.world(AGENT, &save_meal());
    // A person may have pasted it into the text as well, and a program into the data.
    let text = "lunch, my token is canary-4711-token".to_owned();
    let request = AgentRequest { text, data: json!({ "note": "canary-4711-token" }), ..of_user() };
    let report = run(&world, request).await;
    assert_eq!(answer(&report), "I logged your lunch as [secret].\n\n[secret] [\"lunch\"]");
    for (file, bytes) in bytes_of(&world) {
        let found = bytes.windows(11).any(|window| window == b"canary-4711");
        assert!(!found, "{file} holds the secret");
    }
}

#[tokio::test]
async fn the_same_start_with_the_same_secret_is_the_same_run() {
    let endpoint = Endpoint::start(vec![Course::Answer(201, "", json!({"id": 7}))]);
    let world = endpoint.world(AGENT, &save_meal());
    let engine = world.engine().await;
    let mut runs = Vec::new();
    for _ in 0..2 {
        let options = StartOptions { key: Some("meal 1".to_owned()), ..StartOptions::default() };
        let handle = engine.start(&"a".parse().unwrap(), of_user(), options).await.unwrap();
        runs.push(handle.finish().await.unwrap().run);
    }
    assert_eq!(runs[0], runs[1]);
    assert_eq!(endpoint.got().len(), 1);
}

#[tokio::test]
async fn a_caller_cannot_point_to_a_secret_of_somebody_else() {
    let endpoint = Endpoint::start(vec![Course::Answer(201, "", json!({"id": 7}))]);
    let world = endpoint.world(AGENT, &save_meal());
    let engine = world.engine().await;
    let user = json!({"id": "u-7", "auth_token": {"dalsegno_secret": "model.key"}});
    let request = AgentRequest { user, ..AgentRequest::text("lunch") };
    let error = engine.start(&"a".parse().unwrap(), request, StartOptions::default()).await.unwrap_err();
    assert!(error.to_string().contains("`user.auth_token`"), "{error}");
    assert!(endpoint.got().is_empty());
}

#[tokio::test]
async fn an_endpoint_is_tried_again_with_the_same_key() {
    let courses = vec![
        Course::Answer(503, "retry-after: 0\r\n", json!({})),
        Course::HangUp,
        Course::Answer(500, "", json!({})),
        Course::Answer(201, "", json!({"id": 8})),
    ];
    let endpoint = Endpoint::start(courses);
    let world = endpoint.world(AGENT, &save_meal());
    let report = run(&world, of_user()).await;
    assert_eq!(answer(&report), "I logged your lunch as 8.\n\n8 [\"lunch\"]");
    let got = endpoint.got();
    assert_eq!(got.len(), 4);
    let key = got[0].header("idempotency-key").unwrap().to_owned();
    assert!(got.iter().all(|got| got.header("idempotency-key") == Some(&key)), "{got:?}");
}

#[tokio::test]
async fn an_unsafe_call_without_an_answer_asks_and_goes_on_with_what_a_person_says() {
    let endpoint = Endpoint::start(vec![Course::HangUp]);
    let mut document = save_meal();
    document["actions"][1]["effect"] = json!("unsafe");
    let world = endpoint.world(AGENT, &document);
    let report = run(&world, of_user()).await;
    let waiting = waits(&report);
    assert_eq!(waiting.len(), 1);
    assert_eq!(waiting[0].kind(), "in_doubt");
    let done = Settlement::Done { result: Some(json!({"id": 9})) };
    let report = world.resume(report.run, Some(done)).await;
    assert_eq!(answer(&report), "I logged your lunch as 9.\n\n9 [\"lunch\"]");
    assert_eq!(endpoint.got().len(), 1);
}

#[tokio::test]
async fn whom_the_tenant_may_not_reach_is_not_reached() {
    let endpoint = Endpoint::start(vec![Course::Answer(201, "", json!({"id": 7}))]);
    let world = endpoint.world(AGENT, &save_meal());
    // Nothing is said about whom its tools may reach, so that nobody may be.
    let file = format!("name = \"default\"\n[settings]\nhost = \"{}\"\n", endpoint.origin);
    std::fs::write(world.path().join("tenants/default.toml"), file).unwrap();
    let mut document = save_meal();
    document["actions"][1]["url"] = json!("{{tenant.settings.host}}/meals");
    std::fs::write(world.path().join("tools/save_meal.json"), document.to_string()).unwrap();
    let report = run(&world, of_user()).await;
    let RunEnd::Ended(response) = &report.end else { panic!("{:?}", report.end) };
    assert_eq!(response.status, Status::Failed);
    let error = response.error.as_ref().unwrap();
    assert_eq!(error.code, RunErrorCode::ToolFailed);
    assert!(error.message.contains("egress_denied"), "{}", error.message);
    assert_eq!(response.answer.as_deref(), Some("I could not log it: egress_denied."));
    assert!(endpoint.got().is_empty());
}

#[tokio::test]
async fn a_redirect_to_somebody_who_is_not_granted_is_not_followed() {
    let inner = Endpoint::start(vec![Course::Answer(200, "", json!({"secret": true}))]);
    let location = format!("location: {}/inner\r\n", inner.origin);
    let outer = Endpoint::start(vec![Course::Answer(307, location.leak(), json!({}))]);
    let mut document = save_meal();
    document["actions"][1]["method"] = json!("GET");
    for key in ["body", "effect"] {
        document["actions"][1].as_object_mut().unwrap().remove(key);
    }
    let world = outer.world(AGENT, &document);
    let report = run(&world, of_user()).await;
    let RunEnd::Ended(response) = &report.end else { panic!("{:?}", report.end) };
    assert!(response.error.as_ref().unwrap().message.contains("egress_denied"), "{response:?}");
    assert!(inner.got().is_empty());
}

#[tokio::test]
async fn a_tenant_has_its_own_endpoints_and_nothing_of_another() {
    let (ours, theirs) = (
        Endpoint::start(vec![Course::Answer(201, "", json!({"id": 1}))]),
        Endpoint::start(vec![Course::Answer(201, "", json!({"id": 2}))]),
    );
    let world = ours.world(AGENT, &save_meal());
    theirs.tenant(&world, "acme", &[&theirs.origin]);
    let report = run(&world, AgentRequest { tenant: "acme".to_owned(), ..of_user() }).await;
    assert_eq!(answer(&report), "I logged your lunch as 2.\n\n2 [\"lunch\"]");
    assert_eq!((ours.got().len(), theirs.got().len()), (0, 1));
}

#[tokio::test]
async fn the_journal_has_every_part_under_its_tool() {
    let endpoint = Endpoint::start(vec![Course::Answer(201, "", json!({"id": 7}))]);
    let world = endpoint.world(AGENT, &save_meal());
    let report = run(&world, of_user()).await;
    let inspection = world.engine().await.journal().inspect(report.run, None).await.unwrap();
    let requested: Vec<_> =
        inspection.records.iter().filter(|record| matches!(record.body, Body::Requested { .. })).collect();
    let [tool, part] = requested.as_slice() else { panic!("{requested:?}") };
    assert_eq!(part.parent, tool.operation);
    let resolved = inspection.records.iter().filter(|record| matches!(record.body, Body::Resolved { .. }));
    let resolved: Vec<_> = resolved.map(|record| record.operation).collect();
    assert_eq!(resolved, [part.operation, tool.operation]);
}

#[tokio::test]
async fn the_next_run_of_a_session_reads_what_the_one_before_it_wrote() {
    let endpoint = Endpoint::start(vec![Course::Answer(201, "", json!({"id": 7}))]);
    let world = endpoint.world(AGENT, &save_meal());
    let engine = world.engine().await;
    for expected in ["7 [\"lunch\"]", "7 [\"lunch\",\"lunch\"]"] {
        let options = StartOptions { session: Some("day".to_owned()), ..StartOptions::default() };
        let handle = engine.start(&"a".parse().unwrap(), of_user(), options).await.unwrap();
        let report = handle.finish().await.unwrap();
        assert!(answer(&report).ends_with(expected), "{}", answer(&report));
    }
}

#[tokio::test]
async fn a_tool_is_found_whether_its_name_is_written_with_a_hyphen_or_an_underscore() {
    let agent = "[tools]\nallow = [\"local.*\", \"relay\"]\n\
        [[steps]]\nid = \"it\"\ntool = \"relay\"\n[[steps]]\nrespond = \"{{steps.it}}\"\n";
    for (name, called) in [("local.do-it", "local.do_it"), ("local.do_it", "local.do-it")] {
        let world = World::new(agent).tool(name, EffectClass::Read, Behaviour::Answer(json!(7)));
        std::fs::create_dir(world.path().join("tools")).unwrap();
        let document = json!({
            "name": "relay", "description": "Calls another tool.",
            "actions": [{"type": "tool", "id": "it", "name": called, "arguments": {"n": 1}}],
            "output": "result.it"
        });
        std::fs::write(world.path().join("tools/relay.json"), document.to_string()).unwrap();
        assert_eq!(answer(&world.run("go").await), "7", "{called}");
    }
}

#[tokio::test]
async fn a_secret_that_comes_while_its_run_is_busy_is_found_without_a_word() {
    let endpoint = Endpoint::start(vec![Course::Answer(200, "", json!({"n": 7}))]);
    let agent = "[tools]\nallow = [\"local.*\", \"ask\"]\n\
        [[steps]]\nparallel = [ { id = \"asked\", tool = \"ask\" }, { tool = \"local.slow\", with = { n = 1 } } ]\n\
        [[steps]]\nrespond = \"{{steps.asked.n}}\"\n";
    let world = World::new(agent).tool("local.slow", EffectClass::Unsafe, Behaviour::Slow(1_500));
    let document = json!({
        "name": "ask", "description": "Asks with a token.", "secrets": ["token"], "parameters": [],
        "actions": [{"type": "api_call", "id": "it", "method": "GET", "url": "{{tenant.settings.url}}",
                     "headers": {"Authorization": "Bearer {{secrets.token}}"}}],
        "output": "result.it"
    });
    std::fs::create_dir(world.path().join("tools")).unwrap();
    std::fs::write(world.path().join("tools/ask.json"), document.to_string()).unwrap();
    std::fs::create_dir(world.path().join("tenants")).unwrap();
    let file = format!(
        "name = \"default\"\negress = [\"{0}\"]\n[settings]\nurl = \"{0}/ask\"\n\
         [tools.ask.secrets]\ntoken = {{ store = \"ask.token\" }}\n",
        endpoint.origin
    );
    std::fs::write(world.path().join("tenants/default.toml"), file).unwrap();
    let engine = world.engine().await;
    let request = AgentRequest::text("go");
    let mut handle = engine.start(&"a".parse().unwrap(), request, StartOptions::default()).await.unwrap();
    while let Some(event) = handle.next_event().await {
        if let RunEvent::Recorded { record, .. } = event
            && matches!(record.body, Body::Waiting { gate: Gate::Secret { .. } })
        {
            break;
        }
    }
    // The run is busy with the other call, and in no list of runs that wait for a secret.
    let source = engine.secret_source();
    let store = source.make().await.unwrap();
    let put = Put::new(Secret::new("canary-4711-token"), 1);
    store.put(&source.owner(Some("default")).unwrap(), &"ask.token".parse().unwrap(), put).await.unwrap();
    assert_eq!(answer(&handle.finish().await.unwrap()), "7");
    assert_eq!(endpoint.got.lock().unwrap().len(), 1);
}

/// A document whose call has a class, and whatever else a test sets.
fn of_class(class: &str, more: &Value) -> Value {
    let mut document = save_meal();
    let call = document["actions"][1].as_object_mut().unwrap();
    call.insert("effect".to_owned(), json!(class));
    for (key, value) in more.as_object().unwrap() {
        call.insert(key.clone(), value.clone());
    }
    document
}

#[tokio::test]
async fn an_answer_that_proves_nothing_leaves_an_unsafe_call_in_doubt() {
    for (status, headers) in [(504, ""), (500, ""), (408, ""), (409, ""), (503, "retry-after: 0\r\n")] {
        let endpoint = Endpoint::start(vec![Course::Answer(status, headers, json!({}))]);
        let world = endpoint.world(AGENT, &of_class("unsafe", &json!({})));
        let report = run(&world, of_user()).await;
        let waiting = waits(&report);
        assert_eq!(waiting.len(), 1, "{status}");
        assert_eq!(waiting[0].kind(), "in_doubt", "{status}");
        assert_eq!(endpoint.got().len(), 1, "{status}");
    }
}

#[tokio::test]
async fn a_refused_repeat_leaves_the_doubt_of_the_attempt_before_it() {
    for last in [429, 404, 500, 409] {
        let endpoint = Endpoint::start(vec![Course::HangUp, Course::Answer(last, "", json!({}))]);
        let world = endpoint.world(AGENT, &of_class("keyed", &json!({ "retry_count": 1 })));
        let report = run(&world, of_user()).await;
        let waiting = waits(&report);
        assert_eq!(waiting.len(), 1, "{last}");
        assert_eq!(waiting[0].kind(), "in_doubt", "{last}");
        assert_eq!(endpoint.got().len(), 2, "{last}");
        let done = Settlement::Done { result: Some(json!({"id": 9})) };
        let report = world.resume(report.run, Some(done)).await;
        assert_eq!(answer(&report), "I logged your lunch as 9.\n\n9 [\"lunch\"]");
    }
}

#[tokio::test]
async fn a_body_that_cannot_be_read_is_one_of_a_call_that_took_place() {
    let large = Course::Answer(200, "", json!({"text": "x".repeat(4_000)}));
    let unfit = json!({"response_schema": {"type": "object", "required": ["id"]}});
    for (course, more) in [
        (large, json!({"max_response_bytes": 1_000})),
        (Course::Cut(200), json!({})),
        (Course::Cut(201), json!({})),
        (Course::Bytes(b"\xff\xfe\xfd"), json!({})),
        (Course::Answer(200, "", json!({"no": "id"})), unfit),
    ] {
        for class in ["unsafe", "keyed", "idempotent"] {
            let endpoint = Endpoint::start(vec![course.clone()]);
            let agent = AGENT.replace("with = {", "on_failure = \"report\"\nwith = {");
            let agent = agent.replace("{{steps.meal.id}}", "{{steps.meal.error.code}}");
            let world = endpoint.world(&agent, &of_class(class, &more));
            let report = run(&world, of_user()).await;
            let expected = "I could not log it: result_unreadable.\n\nresult_unreadable ";
            assert_eq!(answer(&report).trim_end(), expected.trim_end(), "{class}");
            assert_eq!(endpoint.got().len(), 1, "{class}");
        }
    }
}

#[tokio::test]
async fn a_documents_word_for_a_status_stands_above_what_http_says() {
    let known = Course::Answer(409, "", json!({"id": 4}));
    let endpoint = Endpoint::start(vec![Course::HangUp, known]);
    let word = json!({ "statuses": {"409": "performed"}, "retry_count": 1 });
    let world = endpoint.world(AGENT, &of_class("keyed", &word));
    assert_eq!(answer(&run(&world, of_user()).await), "I logged your lunch as 4.\n\n4 [\"lunch\"]");
    let endpoint =
        Endpoint::start(vec![Course::Answer(503, "", json!({})), Course::Answer(201, "", json!({"id": 5}))]);
    let word = json!({ "statuses": {"503": "not_performed"} });
    let world = endpoint.world(AGENT, &of_class("unsafe", &word));
    assert_eq!(answer(&run(&world, of_user()).await), "I logged your lunch as 5.\n\n5 [\"lunch\"]");
    assert_eq!(endpoint.got().len(), 2);
}

#[tokio::test]
async fn neither_continue_nor_a_default_passes_over_a_doubt() {
    for (of_step, expected) in [("report", Some("indeterminate")), ("{ default = {} }", None)] {
        let endpoint = Endpoint::start(vec![Course::Answer(502, "", json!({}))]);
        let of_step = of_step.replace("report", "\"report\"");
        let agent = AGENT.replace("with = {", &format!("on_failure = {of_step}\nwith = {{"));
        let agent = agent.replace("{{steps.meal.id}}", "{{steps.meal.error.code}}").replacen(
            "[[steps]]",
            "[tools.settings.save_meal]\non_indeterminate = \"report\"\n[[steps]]",
            1,
        );
        let document = of_class("keyed", &json!({ "on_error": "continue", "retry_count": 0 }));
        let world = endpoint.world(&agent, &document);
        let report = run(&world, of_user()).await;
        let RunEnd::Ended(response) = &report.end else { panic!("{:?}", report.end) };
        match expected {
            Some(code) => assert!(answer(&report).contains(code), "{}", answer(&report)),
            None => {
                assert_eq!(response.status, Status::Failed);
                let error = response.error.as_ref().unwrap();
                assert!(error.message.contains("failed with indeterminate"), "{}", error.message);
            }
        }
        let replayed = world.engine().await.journal().replay(report.run).await.unwrap();
        assert!(replayed.identical, "{:?}", replayed.divergence);
    }
}

#[tokio::test]
async fn what_an_agents_file_says_of_a_declarative_tool_counts_for_its_parts() {
    let endpoint = Endpoint::start(vec![Course::Answer(503, "retry-after: 0\r\n", json!({}))]);
    let agent = AGENT.replacen("[[steps]]", "[tools.settings.save_meal]\nretries = 1\n[[steps]]", 1);
    let world = endpoint.world(&agent, &of_class("keyed", &json!({ "retry_count": 3 })));
    let report = run(&world, of_user()).await;
    assert!(matches!(&report.end, RunEnd::Ended(response) if response.status == Status::Failed));
    assert_eq!(endpoint.got().len(), 2);
}

#[tokio::test]
async fn a_person_says_that_it_arrived_and_was_refused() {
    let endpoint = Endpoint::start(vec![Course::HangUp]);
    let agent = AGENT.replace("with = {", "on_failure = \"report\"\nwith = {");
    let agent = agent.replace("{{steps.meal.id}}", "{{steps.meal.error.message}}");
    let world = endpoint.world(&agent, &of_class("unsafe", &json!({})));
    let report = run(&world, of_user()).await;
    assert_eq!(waits(&report)[0].kind(), "in_doubt");
    let refused = Settlement::Refused { error: "the kitchen is closed".to_owned() };
    let report = world.resume(report.run, Some(refused)).await;
    assert!(answer(&report).starts_with("I could not log it: action_failed."), "{}", answer(&report));
    assert_eq!(endpoint.got().len(), 1);
    assert!(world.engine().await.journal().replay(report.run).await.unwrap().identical);
}

/// A document that looks a meal up by the key of the call that logged it, with further actions.
fn find_meal(more: &[Value]) -> Value {
    let mut actions = vec![json!({
        "type": "api_call", "id": "found", "method": "GET", "retry_count": 0,
        "url": "{{tenant.settings.endpoints.meal_log}}/{{params.key}}",
        "headers": {"Authorization": "Bearer {{user.auth_token}}"}
    })];
    actions.extend_from_slice(more);
    json!({
        "name": "find_meal",
        "description": "Look a meal up.",
        "parameters": [{"name": "key", "type": "string", "required": true}],
        "actions": actions,
        "output": "result.found"
    })
}

/// The agent of these tests, which looks up what is in doubt with `find_meal`.
fn verifying() -> String {
    let settings = "[tools]\nallow = [\"save_meal\", \"find_meal\"]\n[tools.settings.save_meal]\n\
        verify = { tool = \"find_meal\", with = { key = \"{{operation.key}}\" }, \
        verdict = \"result.id ? 'happened' : 'unknown'\", result = \"result\", delay = \"1ms\", tries = 2 }\n";
    AGENT.replace("[tools]\nallow = [\"save_meal\"]\n", settings)
}

#[tokio::test]
async fn a_document_is_asked_whether_a_call_in_doubt_took_place() {
    let endpoint = Endpoint::start(vec![
        Course::Answer(502, "", json!({})),
        Course::Answer(404, "", json!({"error": "not yet"})),
        Course::Answer(200, "", json!({"id": 9})),
    ]);
    let world = endpoint.world(&verifying(), &of_class("keyed", &json!({ "retry_count": 0 })));
    std::fs::write(world.path().join("tools/find_meal.json"), find_meal(&[]).to_string()).unwrap();
    let report = run(&world, of_user()).await;
    assert_eq!(answer(&report), "I logged your lunch as 9.\n\n9 [\"lunch\"]");
    let got = endpoint.got();
    assert_eq!(got.len(), 3, "one call and two questions about it: {got:?}");
    let key = got[0].header("idempotency-key").unwrap();
    for asked in &got[1..] {
        assert_eq!(asked.line, format!("GET /meals/{key} HTTP/1.1"));
        assert_eq!(
            asked.header("authorization"),
            Some("bearer canary-4711-token"),
            "it has the secrets of the call"
        );
    }
    let records = world.engine().await.journal().inspect(report.run, None).await.unwrap().records;
    let told = records.iter().find_map(|record| match &record.body {
        Body::Verified { tool, tries, evidence, .. } if *tries > 0 => {
            Some((tool.to_string(), *tries, *evidence))
        }
        _ => None,
    });
    assert_eq!(told, Some(("find_meal".to_owned(), 2, Evidence::Happened)));
    assert!(world.engine().await.journal().replay(report.run).await.unwrap().identical);
    assert_eq!(endpoint.got().len(), 3, "a replay asks nothing");
    for (file, bytes) in bytes_of(&world) {
        assert!(!String::from_utf8_lossy(&bytes).contains("canary-4711"), "{file} holds a secret");
    }
}

#[tokio::test]
async fn a_document_names_whom_to_ask_about_its_own_calls() {
    let endpoint =
        Endpoint::start(vec![Course::Answer(502, "", json!({})), Course::Answer(200, "", json!({"id": 9}))]);
    let mut document = of_class("unsafe", &json!({}));
    document["verify"] = json!({
        "tool": "find_meal", "with": {"key": "{{operation.key}}"}, "verdict": "result.id ? 'happened' : 'unknown'",
        "result": "result", "delay": 0.001, "tries": 2
    });
    let agent = AGENT.replace("allow = [\"save_meal\"]", "allow = [\"save_meal\", \"find_meal\"]");
    let world = endpoint.world(&agent, &document);
    std::fs::write(world.path().join("tools/find_meal.json"), find_meal(&[]).to_string()).unwrap();
    let report = run(&world, of_user()).await;
    assert_eq!(answer(&report), "I logged your lunch as 9.\n\n9 [\"lunch\"]");
    assert_eq!(endpoint.got().len(), 2, "one call and one question about it");
    // An agent that may not call the tool asks a person.
    let endpoint = Endpoint::start(vec![Course::Answer(502, "", json!({}))]);
    let world = endpoint.world(AGENT, &document);
    std::fs::write(world.path().join("tools/find_meal.json"), find_meal(&[]).to_string()).unwrap();
    let report = run(&world, of_user()).await;
    assert_eq!(waits(&report)[0].kind(), "in_doubt");
    assert_eq!(endpoint.got().len(), 1);
}

#[tokio::test]
async fn a_document_that_does_not_know_leaves_the_question_to_a_person() {
    let endpoint = Endpoint::start(vec![Course::Answer(502, "", json!({}))]);
    let world = endpoint.world(&verifying(), &of_class("unsafe", &json!({})));
    std::fs::write(world.path().join("tools/find_meal.json"), find_meal(&[]).to_string()).unwrap();
    let report = run(&world, of_user()).await;
    assert_eq!(waits(&report)[0].kind(), "in_doubt");
    assert_eq!(endpoint.got().len(), 3);
}

#[tokio::test]
async fn only_a_document_that_reads_can_be_asked() {
    for (more, reads) in [
        (json!({"type": "context.set", "path": "seen", "value": "1"}), true),
        (json!({"type": "context.set", "path": "seen", "value": "1", "persist": true}), false),
        (json!({"type": "api_call", "url": "{{tenant.settings.endpoints.meal_log}}"}), false),
        (
            json!({"type": "api_call", "url": "{{tenant.settings.endpoints.meal_log}}", "effect": "read"}),
            true,
        ),
        (json!({"type": "respond", "message": "Here."}), false),
        (
            json!({"type": "conditional", "condition": "params.key", "then_actions": [
                {"type": "api_call", "method": "DELETE", "url": "{{tenant.settings.endpoints.meal_log}}"}]}),
            false,
        ),
    ] {
        let endpoint = Endpoint::start(vec![Course::Answer(200, "", json!({"id": 1}))]);
        let world = endpoint.world(&verifying(), &save_meal());
        let document = find_meal(std::slice::from_ref(&more));
        std::fs::write(world.path().join("tools/find_meal.json"), document.to_string()).unwrap();
        let engine = world.engine().await;
        let started = engine.start(&"a".parse().unwrap(), of_user(), StartOptions::default()).await;
        let words = started.err().map(|error| format!("{error:?}")).unwrap_or_default();
        assert_eq!(words.contains("which does not only read"), !reads, "{more}: {words}");
    }
}

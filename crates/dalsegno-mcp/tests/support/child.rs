//! A tool server for tests, by hand and without an SDK, so that it can misbehave in every way that one can.
//!
//! The first argument says how: `legacy` and `modern` speak one era of the protocol, `either` both, `old` ends when it
//! is asked something that it does not know, `own` has a tool with the name of a built-in one, `slow` takes its time to
//! start, `crash` ends at once, `stubborn` stays when its input ends, and `host` is no server but an engine that has one.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a server for tests that fails fails its test, and it speaks on its standard streams"
)]

use std::io::{self, BufRead, Write};
use std::process::{Command, Stdio, exit};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use self::tasks::Tasks;

mod tasks;

fn main() {
    let mode = std::env::args().nth(1).unwrap();
    match mode.as_str() {
        "crash" => {
            eprintln!("no licence found");
            exit(1);
        }
        "slow" => thread::sleep(Duration::from_millis(700)),
        "host" => host(),
        _ => {}
    }
    let mut server = Server { mode, changed: false, listener: None, tasks: Tasks::default() };
    let mut waiting = None;
    for line in io::stdin().lock().lines() {
        let message: Value = serde_json::from_str(&line.unwrap()).unwrap();
        match message["method"].as_str() {
            Some(_) if message.get("id").is_some() => server.request(&message, &mut waiting),
            Some("notifications/cancelled") => {
                if let Some(file) = std::env::var_os("CANCELLED_FILE") {
                    std::fs::write(file, message["params"]["requestId"].to_string()).unwrap();
                }
            }
            Some(_) => {}
            // What the client said to a question of this server: the call that asked it is over.
            None => {
                if let Some(id) = waiting.take() {
                    text(&id, &message.to_string());
                }
            }
        }
    }
    if server.mode == "stubborn" {
        loop {
            thread::sleep(Duration::from_secs(1));
        }
    }
}

/// Where the id of a request stands that wants to be told of changes.
const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

struct Server {
    mode: String,
    changed: bool,
    /// The request that wants to be told of changes.
    listener: Option<Value>,
    /// The calls that were made tasks.
    tasks: Tasks,
}

impl Server {
    fn request(&mut self, message: &Value, waiting: &mut Option<Value>) {
        let (id, params) = (&message["id"], &message["params"]);
        let is_modern = self.mode == "modern";
        match message["method"].as_str().unwrap() {
            "server/discover" if is_modern => {
                let capabilities =
                    json!({ "tools": { "listChanged": true }, "resources": {}, "prompts": {} });
                let result = json!({
                    "supportedVersions": ["2026-07-28"], "capabilities": capabilities, "ttlMs": 0, "cacheScope": "private",
                });
                answer(id, result);
            }
            "subscriptions/listen" if is_modern => {
                self.listener = Some(id.clone());
                send(
                    &json!({ "jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": {
                    "notifications": params["notifications"], "_meta": { SUBSCRIPTION: id },
                } }),
                );
            }
            "initialize" if !is_modern => {
                let capabilities =
                    json!({ "tools": { "listChanged": true }, "resources": {}, "prompts": {} });
                let info = json!({ "name": "child", "version": "1.0.0" });
                answer(
                    id,
                    json!({ "protocolVersion": "2025-06-18", "capabilities": capabilities, "serverInfo": info }),
                );
            }
            "tools/list" => {
                let first = params["cursor"].is_null();
                let names: &[&str] = match (first, self.changed) {
                    (true, _) => &["echo", "environment", "hang", "progress", "exit", "garbage", "giant"],
                    (false, false) => {
                        &["chatter", "ask", "sample", "input", "change", "pids", "refuse", "log"]
                    }
                    (false, true) => &["brand_new"],
                };
                let tools = names.iter().map(|name| {
                    json!({ "name": name, "description": "for tests", "inputSchema": { "type": "object" } })
                });
                let mut tools: Vec<Value> = tools.collect();
                if self.mode == "own" && first {
                    tools.push(json!({ "name": "resources.list", "inputSchema": { "type": "object" } }));
                }
                let mut result = json!({ "tools": tools, "ttlMs": 0, "cacheScope": "private" });
                if first {
                    result["nextCursor"] = json!("two");
                }
                answer(id, result);
            }
            "tools/call" if params["name"] == "task" => {
                let capabilities = &params["_meta"]["io.modelcontextprotocol/clientCapabilities"];
                assert!(capabilities["extensions"]["io.modelcontextprotocol/tasks"].is_object(), "{params}");
                answer(id, self.tasks.begin(&params["arguments"]));
            }
            method @ ("tasks/get" | "tasks/update" | "tasks/cancel") if is_modern => {
                match self.tasks.request(method, params) {
                    Some(Value::Null) => {
                        let error = json!({ "code": -32603, "message": "try later" });
                        send(&json!({ "jsonrpc": "2.0", "id": id, "error": error }));
                    }
                    Some(result) => answer(id, result),
                    None => {
                        let error = json!({ "code": -32602, "message": "unknown task" });
                        send(&json!({ "jsonrpc": "2.0", "id": id, "error": error }));
                    }
                }
            }
            "tools/call" => self.call(id, params, waiting),
            "resources/list" if params["cursor"].is_null() => answer(
                id,
                json!({
                    "resources": [{ "uri": "test://a", "name": "a", "description": "the first", "size": 8 }],
                    "nextCursor": "two", "ttlMs": 0, "cacheScope": "private",
                }),
            ),
            "resources/list" => answer(
                id,
                json!({
                    "resources": [{ "uri": "test://b", "name": "b", "mimeType": "image/png" }],
                    "ttlMs": 0, "cacheScope": "private",
                }),
            ),
            // Of the old era there is none that has templates.
            "resources/templates/list" if is_modern => answer(
                id,
                json!({
                    "resourceTemplates": [{ "uriTemplate": "test://{name}", "name": "any" }],
                    "ttlMs": 0, "cacheScope": "private",
                }),
            ),
            "resources/read" => self.read(id, params),
            "prompts/list" => {
                let arguments = json!([{ "name": "who", "required": true }]);
                answer(
                    id,
                    json!({ "prompts": [{ "name": "greet", "arguments": arguments }], "ttlMs": 0, "cacheScope": "private" }),
                );
            }
            "prompts/get" => {
                let said = format!("Hello {}", params["arguments"]["who"].as_str().unwrap());
                let message = json!({ "role": "user", "content": { "type": "text", "text": said } });
                answer(id, json!({ "messages": [message] }));
            }
            _ if self.mode == "old" => exit(9),
            _ => send(
                &json!({ "jsonrpc": "2.0", "id": id, "error": { "code": -32601, "message": "unknown method" } }),
            ),
        }
    }

    fn read(&self, id: &Value, params: &Value) {
        let uri = params["uri"].as_str().unwrap();
        let contents = match uri {
            "test://a" => json!([{ "uri": uri, "text": "contents" }]),
            "test://b" => json!([{ "uri": uri, "mimeType": "image/png", "blob": "QUJDRA==" }]),
            "test://both" => {
                json!([{ "uri": "test://a", "text": "contents" }, { "uri": "test://b", "blob": "QUI=" }])
            }
            "test://meta" => json!([{ "uri": uri, "text": params["_meta"].to_string() }]),
            "test://giant" => json!([{ "uri": uri, "text": "x".repeat(3 << 20) }]),
            "test://hang" => return,
            "test://ask" if params["inputResponses"].is_null() => {
                let question = json!({ "method": "elicitation/create", "params": {
                    "mode": "form", "message": "which one?", "requestedSchema": { "type": "object", "properties": {} },
                }});
                return answer(
                    id,
                    json!({
                        "resultType": "input_required", "inputRequests": { "which": question }, "requestState": "state-1",
                    }),
                );
            }
            "test://ask" => json!([{ "uri": uri, "text": params["requestState"] }]),
            _ => {
                let error = json!({ "code": -32602, "message": "no such resource" });
                return send(&json!({ "jsonrpc": "2.0", "id": id, "error": error }));
            }
        };
        answer(id, json!({ "contents": contents, "ttlMs": 0, "cacheScope": "private" }));
    }

    fn call(&mut self, id: &Value, params: &Value, waiting: &mut Option<Value>) {
        match params["name"].as_str().unwrap() {
            "echo" => text(id, &params.to_string()),
            "resources.list" => text(id, "my own"),
            "environment" => {
                let mut lines: Vec<String> =
                    std::env::vars().map(|(name, value)| format!("{name}={value}")).collect();
                lines.push(format!("cwd={}", std::env::current_dir().unwrap().display()));
                text(id, &lines.join("\n"));
            }
            "hang" => {}
            "progress" => {
                let token = &params["_meta"]["progressToken"];
                for step in 1..=5 {
                    thread::sleep(Duration::from_millis(150));
                    send(&json!({
                        "jsonrpc": "2.0", "method": "notifications/progress",
                        "params": { "progressToken": token, "progress": step },
                    }));
                }
                text(id, "done");
            }
            "exit" => {
                eprintln!("giving up");
                exit(3);
            }
            "garbage" => println!("Listening on port 8080"),
            "giant" => println!("\"{}\"", "x".repeat(3 << 20)),
            "chatter" => {
                let line = "x".repeat(1023);
                for _ in 0..4096 {
                    eprintln!("{line}");
                }
                text(id, "said");
            }
            "ask" => {
                *waiting = Some(id.clone());
                let schema = json!({ "type": "object", "properties": {} });
                ask("elicitation/create", &json!({ "message": "your password?", "requestedSchema": schema }));
            }
            "sample" => {
                *waiting = Some(id.clone());
                ask("sampling/createMessage", &json!({ "messages": [], "maxTokens": 1 }));
            }
            "input" if params["inputResponses"].is_null() => {
                let question = json!({ "method": "elicitation/create", "params": {
                    "mode": "form", "message": "which one?", "requestedSchema": { "type": "object", "properties": {} },
                }});
                answer(
                    id,
                    json!({
                        "resultType": "input_required", "inputRequests": { "which": question }, "requestState": "state-1",
                    }),
                );
            }
            "input" => text(id, &format!("{} {}", params["inputResponses"]["which"], params["requestState"])),
            "change" => {
                self.changed = true;
                let mut note = json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" });
                if let Some(listener) = &self.listener {
                    note["params"]["_meta"][SUBSCRIPTION] = listener.clone();
                }
                send(&note);
                text(id, "changed");
            }
            "pids" => {
                let mut sleeper = Command::new("sleep");
                let sleeper =
                    sleeper.arg("600").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
                text(id, &format!("{} {}", std::process::id(), sleeper.spawn().unwrap().id()));
            }
            "log" => {
                let params = json!({ "level": "warning", "data": "watch out" });
                send(&json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": params }));
                text(id, "logged");
            }
            _ => {
                let error = json!({ "code": -32602, "message": "no" });
                send(&json!({ "jsonrpc": "2.0", "id": id, "error": error }));
            }
        }
    }
}

fn ask(method: &str, params: &Value) {
    send(&json!({ "jsonrpc": "2.0", "id": "q1", "method": method, "params": params }));
}

fn text(id: &Value, text: &str) {
    answer(id, json!({ "content": [{ "type": "text", "text": text }] }));
}

fn answer(id: &Value, mut result: Value) {
    if result.get("resultType").is_none() {
        result["resultType"] = json!("complete");
    }
    send(&json!({ "jsonrpc": "2.0", "id": id, "result": result }));
}

fn send(message: &Value) {
    let mut output = io::stdout().lock();
    writeln!(output, "{message}").unwrap();
    output.flush().unwrap();
}

/// An engine with a server that does not end by itself. Prints the ids of its processes and waits to be killed.
fn host() -> ! {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let command = dalsegno_mcp::Command::new(std::env::current_exe().unwrap(), ["stubborn"]);
        let server = dalsegno_mcp::Server::new(dalsegno_mcp::ServerConfig::stdio("child", command));
        let call = dalsegno_mcp::CallContext::new("op_1", Duration::from_secs(20));
        let answer = server.session("default").call("pids", serde_json::Map::new(), call).await.unwrap();
        let dalsegno_mcp::Answer::Done(output) = answer else { panic!("no output") };
        println!("{}", output.text);
        tokio::time::sleep(Duration::from_secs(600)).await;
    });
    exit(0)
}

//! A provider, a workspace with a line to it, a receiver of effects, and servers as processes.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, SystemTime};

use dalsegno_testkit::{LiveAnswer, LiveBook, LiveModel, LiveStage, LiveTelephone, LiveWebhook};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::support::Workspace;

/// The secret of the webhooks, and one that is not.
pub(crate) const SECRET: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
pub(crate) const OLD_SECRET: &str = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
pub(crate) const OTHER_SECRET: &str = "whsec_BBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBB";

/// The number at which the desk answers.
pub(crate) const NUMBER: &str = "+33176540001";

/// The key of the provider.
const KEY: &str = "sk-of-the-line-0123456789";

/// How long is waited for what must come: a bound for what would hang.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// What the receiver was asked, by tool: the idempotency keys, each as often as it came.
type Effects = Arc<Mutex<BTreeMap<String, Vec<String>>>>;

pub(crate) struct World {
    pub(crate) there: Runtime,
    pub(crate) live: LiveModel,
    pub(crate) workspace: Workspace,
    pub(crate) effects: Effects,
    is_live: bool,
}

/// What the provider speaks.
pub(crate) const SURFACES: [&str; 2] = ["realtime", "live"];

/// A server process, and where it listens.
pub(crate) struct Served {
    child: Child,
    pub(crate) address: SocketAddr,
}

const DESK: &str = "name = \"desk\"\nversion = \"1.0.0\"\ndescription = \"Takes calls.\"\n\
    instructions = \"You are the desk of {{tenant.name}}. {{user.caller}} calls.\"\n[model]\nuse = \"default\"\n\
    [tools]\nallow = [\"find\", \"book\", \"text\"]\n[voice]\ngreeting = \"Greet.\"\nfiller = false\n";

impl World {
    pub(crate) fn new() -> Self {
        Self::with("max_calls = 8\n")
    }

    /// One whose provider speaks this.
    pub(crate) fn on(surface: &str) -> Self {
        Self::of(surface, "max_calls = 8\n")
    }

    /// One whose line has these keys besides.
    pub(crate) fn with(of_line: &str) -> Self {
        Self::of("realtime", of_line)
    }

    fn of(surface: &str, of_line: &str) -> Self {
        let is_live = surface == "live";
        let of_surface = match is_live {
            true => "model = \"gpt-live-1\"\nbackend_model = \"gpt-5.2\"",
            false => "model = \"gpt-realtime-2.1\"",
        };
        let there =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let live = there.block_on(LiveModel::listen(0, Some(KEY), [])).unwrap();
        let (receiver, effects) = receiver();
        let workspace = Workspace::empty();
        workspace.write(
            "dalsegno.toml",
            &format!(
                "[models.default]\nprovider = \"script\"\nfile = \"model.toml\"\n\n[voice.lines.front]\n\
                 surface = \"{surface}\"\ntransport = \"sip\"\n{of_surface}\nbase_url = \"{}\"\n\
                 api_key = {{ file = \"key\" }}\nwebhook_secrets = [{{ file = \"old\" }}, {{ file = \"secret\" }}]\n{of_line}\
                 [voice.lines.front.numbers]\n\"{NUMBER}\" = {{ agent = \"desk\" }}\n\
                 \"+33176540002\" = {{ tenant = \"acme\", agent = \"desk\" }}\n",
                live.base_url()
            ),
        );
        workspace.write("key", KEY);
        workspace.write("secret", SECRET);
        workspace.write("old", OLD_SECRET);
        workspace.write("model.toml", "[[replies]]\ntext = \"Hello.\"\n");
        workspace.write("agents/desk.toml", DESK);
        workspace.write(
            "tenants/default.toml",
            &format!("name = \"default\"\negress = [\"http://{receiver}\"]\n"),
        );
        workspace.write("tenants/acme.toml", &format!("name = \"acme\"\negress = [\"http://{receiver}\"]\n"));
        for (name, method, effect) in
            [("find", "GET", "read"), ("book", "POST", "keyed"), ("text", "POST", "unsafe")]
        {
            let document = json!({
                "name": name, "description": "A tool.",
                "parameters": [{ "name": "q", "type": "string", "required": true }],
                "actions": [{
                    "type": "api_call", "id": "done", "method": method, "effect": effect,
                    "url": format!("http://{receiver}/{name}?q={{{{params.q}}}}"),
                }],
                "output": "result.done",
            });
            workspace.write(&format!("tools/{name}.json"), &document.to_string());
        }
        assert_eq!(workspace.succeed(&["check"]), "");
        Self { there, live, workspace, effects, is_live }
    }

    /// Replaces a part of a file of the workspace.
    pub(crate) fn edit(&self, file: &str, part: &str, by: &str) {
        let before = std::fs::read_to_string(self.workspace.path(file)).unwrap();
        assert!(before.contains(part), "{before}");
        self.workspace.write(file, &before.replace(part, by));
    }

    pub(crate) fn until(&self, is_so: impl Fn(&LiveBook) -> bool) {
        let waits = async { tokio::time::timeout(PATIENCE, self.live.until(is_so)).await };
        if self.there.block_on(waits).is_err() {
            panic!("it does not come: {:#?}", self.live.book());
        }
    }

    /// Waits until a call is so.
    pub(crate) fn until_call(&self, call: &str, is_so: impl Fn(&LiveTelephone) -> bool) {
        self.until(|book| book.telephones.get(call).is_some_and(&is_so));
    }

    pub(crate) fn call(&self, call: &str) -> LiveTelephone {
        self.live.book().telephones[call].clone()
    }

    /// How often this was asked about a call, and what it came to.
    pub(crate) fn asked(&self, call: &str, verb: &str) -> Vec<u16> {
        let book = self.live.book();
        let asked = book.controls.iter().filter(|control| control.call == call && control.verb == verb);
        asked.map(|control| control.status).collect()
    }

    /// A telephone rings at the provider, and this is the webhook that says so.
    pub(crate) fn rings(&self, call: &str, answers: Vec<LiveAnswer>) -> LiveWebhook {
        match self.is_live {
            true => self.live.rings_live(call, 1, answers),
            false => self.live.rings(call, 1, answers),
        }
        self.webhook(call)
    }

    pub(crate) fn webhook(&self, call: &str) -> LiveWebhook {
        let to = format!("<sip:{NUMBER}@sip.example.com>");
        let headers = [("From", "\"A\" <sip:+4915112345678@x>"), ("To", to.as_str())];
        match self.is_live {
            true => LiveWebhook::ringing_live(SECRET, now(), call, &headers),
            false => LiveWebhook::ringing(SECRET, now(), call, &headers),
        }
    }

    /// How often a tool took place, each by its key.
    pub(crate) fn effects(&self, tool: &str) -> Vec<String> {
        self.effects.lock().unwrap().get(tool).cloned().unwrap_or_default()
    }

    /// Waits until this is so.
    pub(crate) fn wait(&self, is_so: impl Fn(&Self) -> bool) {
        let begun = std::time::Instant::now();
        while !is_so(self) {
            assert!(begun.elapsed() < PATIENCE, "{:#?}, {:?}", self.runs(), self.effects);
            thread::yield_now();
        }
    }

    /// Waits until a tool took place so often.
    pub(crate) fn until_effects(&self, tool: &str, times: usize) {
        self.wait(|world| world.effects(tool).len() >= times);
        assert_eq!(self.effects(tool).len(), times);
    }

    /// The runs, newest first.
    pub(crate) fn runs(&self) -> Vec<Value> {
        self.workspace.json(&["runs"]).as_array().unwrap().clone()
    }

    /// Waits until no run is open. If it is not known whether a text was sent, a person looks at the receiver and says it.
    pub(crate) fn until_over(&self) -> Vec<Value> {
        let begun = std::time::Instant::now();
        loop {
            let runs = self.runs();
            if runs.iter().all(|run| {
                ["completed", "failed", "cancelled"].contains(&run["status"].as_str().unwrap_or_default())
            }) {
                return runs;
            }
            assert!(begun.elapsed() < PATIENCE, "{runs:#?}");
            for run in runs.iter().filter(|run| run["waiting"] == json!(["in_doubt"])) {
                let outcome = if self.effects("text").is_empty() { "not-happened" } else { "happened" };
                // Another process may have it again by now: then it is asked once more.
                self.workspace.dalsegno(&["resume", run["run_id"].as_str().unwrap(), "--outcome", outcome]);
            }
            thread::yield_now();
        }
    }

    /// What must hold of every call that is over: its run replays, the provider refused nothing, each call of a tool has one
    /// output, and it was accepted once.
    pub(crate) fn holds(&self, call: &str) {
        let book = self.live.book();
        let refused = book.errors.iter().filter(|code| *code != "response_cancel_not_active");
        let known = ["item_already_exists", "duplicate_tool_output"];
        let refused: Vec<_> = refused.filter(|code| !known.contains(&code.as_str())).collect();
        assert!(refused.is_empty(), "{refused:?}: {:#?}", book.frames);
        let telephone = &book.telephones[call];
        for asked in telephone.calls() {
            assert!(telephone.outputs(asked).len() <= 1, "{asked}: {:#?}", telephone.items);
        }
        let accepted = self.asked(call, "accept");
        assert_eq!(accepted.iter().filter(|status| **status == 200).count(), 1, "{accepted:?}");
        assert_eq!(telephone.stage, LiveStage::Gone);
    }

    pub(crate) fn replays(&self, run: &Value) {
        let run = run["run"].as_str().or(run["run_id"].as_str()).or(run["id"].as_str()).unwrap();
        let replayed = self.workspace.dalsegno(&["replay", run]);
        assert!(replayed.contains("identical"), "{replayed}");
    }
}

impl Served {
    pub(crate) fn start(workspace: &Workspace) -> Self {
        let mut command = workspace.command(&["serve", "--address", "127.0.0.1:0", "--format", "jsonl"]);
        let log =
            std::fs::File::options().append(true).create(true).open(workspace.path("serve.log")).unwrap();
        command.env("DALSEGNO_LOG", "debug");
        let mut child = command.stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let first: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        let address = first["address"].as_str().unwrap().parse().unwrap();
        // What it tells further is read, so that it never waits for a reader.
        thread::spawn(move || lines.for_each(drop));
        Self { child, address }
    }

    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Asks it to stop, and waits until it has; says whether it ended well.
    pub(crate) fn stop(mut self) -> bool {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        self.child.wait().unwrap().success()
    }

    /// Delivers a webhook; returns the status and the body, or nothing where there is no answer.
    pub(crate) fn deliver(&self, webhook: &LiveWebhook) -> Option<(u16, String)> {
        self.send(&webhook.request("front", "localhost"))
    }

    pub(crate) fn send(&self, request: &str) -> Option<(u16, String)> {
        let mut stream = TcpStream::connect(self.address).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
        stream.write_all(request.as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let (head, body) = answer.split_once("\r\n\r\n")?;
        Some((head.split(' ').nth(1)?.parse().ok()?, body.to_owned()))
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // One that was stopped is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs()
}

/// Receives what tools do. What has a key takes place once.
fn receiver() -> (SocketAddr, Effects) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, effects) = (listener.local_addr().unwrap(), Effects::default());
    let own = Arc::clone(&effects);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let own = Arc::clone(&own);
            thread::spawn(move || receive(stream, &own));
        }
    });
    (address, effects)
}

fn receive(stream: TcpStream, effects: &Effects) {
    let mut stream = BufReader::new(stream);
    loop {
        let (mut tool, mut key, mut length) = (String::new(), String::new(), 0);
        loop {
            let mut line = String::new();
            if stream.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            if tool.is_empty() {
                line.split(['/', '?']).nth(1).unwrap_or_default().clone_into(&mut tool);
            }
            match line.trim_end().split_once(": ") {
                Some((name, value)) if name.eq_ignore_ascii_case("idempotency-key") => {
                    value.clone_into(&mut key);
                }
                Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                    length = value.parse().unwrap();
                }
                None if line == "\r\n" => break,
                _ => {}
            }
        }
        let mut body = vec![0; length];
        if stream.read_exact(&mut body).is_err() {
            return;
        }
        {
            let mut effects = effects.lock().unwrap();
            let of_tool = effects.entry(tool.clone()).or_default();
            if key.is_empty() || !of_tool.contains(&key) {
                of_tool.push(key);
            }
        }
        let answer = json!({ "done": tool }).to_string();
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n";
        let written = write!(stream.get_mut(), "{head}content-length: {}\r\n\r\n{answer}", answer.len());
        if written.is_err() {
            return;
        }
    }
}

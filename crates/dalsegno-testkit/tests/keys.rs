//! Generated workspaces in which tenants have keys of their own for models: through all failures, each request carries the key of
//! its own tenant, and no key is written down.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::{Read, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use dalsegno_core::AgentRequest;
use dalsegno_runtime::{Engine, EngineError, RunEnd, RunFailure, Secret, StartOptions};
use dalsegno_secrets::Put;
use dalsegno_store::RunFilter;
use serde_json::{Value, json};

const TENANTS: [&str; 3] = ["acme", "other", "third"];
const MODELS: [&str; 2] = ["first", "second"];

/// How each key begins, and nothing else that is sent.
const KEY: &str = "k3y-";

/// Workspaces, each with a number of runs at once.
const SEEDS: u64 = 6;
const RUNS: usize = 24;

/// Where a key is found.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Place {
    File,
    Store,
    Command,
}

/// Which keys there are: of a model by tenant, or for all tenants without one.
#[derive(Debug, Clone, Default)]
struct Plan {
    own: BTreeMap<(&'static str, &'static str), Option<Place>>,
    shared: BTreeSet<&'static str>,
}

impl Plan {
    fn generate(random: &mut fastrand::Rng) -> Self {
        let mut plan = Self::default();
        for model in MODELS {
            if random.bool() {
                plan.shared.insert(model);
            }
            for tenant in TENANTS {
                let place = [Place::File, Place::Store, Place::Command][random.usize(..3)];
                plan.own.insert((model, tenant), (random.u8(..10) < 7).then_some(place));
            }
        }
        plan
    }

    /// How the key begins with which a tenant asks a model; none where it may not.
    fn expected(&self, model: &str, tenant: &str) -> Option<String> {
        let own = self.own.iter().any(|((m, t), place)| *m == model && *t == tenant && place.is_some());
        let whose = if own { tenant } else { "shared" };
        (own || self.shared.contains(model)).then(|| format!("{KEY}{model}-{whose}-"))
    }

    async fn write(&self, root: &Path, address: &str) {
        let write = |name: &str, text: &str| {
            let path = root.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let mut settings = String::new();
        for model in MODELS {
            let _ = write!(
                settings,
                "[models.{model}]\nprovider = \"openai\"\nmodel = \"{model}\"\nbase_url = \"{address}/v1\"\n"
            );
            if self.shared.contains(model) {
                let _ = writeln!(settings, "api_key = {{ file = \"keys/{model}-shared\" }}");
                write(&format!("keys/{model}-shared"), &format!("{KEY}{model}-shared-t0ken"));
            }
            let _ = writeln!(settings, "[models.{model}.keys]");
            for tenant in TENANTS {
                let Some(place) = self.own[&(model, tenant)] else { continue };
                let reference = match place {
                    Place::File => {
                        write(&format!("keys/{model}-{tenant}"), &format!("{KEY}{model}-{tenant}-t0ken"));
                        format!("file = \"keys/{model}-{tenant}\"")
                    }
                    Place::Store => format!("store = \"{model}.{tenant}\""),
                    Place::Command => {
                        format!("command = [\"/bin/sh\", \"print.sh\", \"{model}-{tenant}\"], ttl = \"50m\"")
                    }
                };
                let _ = writeln!(settings, "{tenant} = {{ {reference} }}");
            }
        }
        write("dalsegno.toml", &settings);
        // The first starts print another key each, so that a refused one can be exchanged; as many as are still scrubbed later.
        let print = format!(
            "echo start >> starts-$1\nn=$(wc -l < starts-$1 | tr -d ' ')\n[ $n -gt 3 ] && n=3\necho {KEY}$1-$n-t0ken\n"
        );
        write("print.sh", &print);
        for tenant in TENANTS {
            write(&format!("tenants/{tenant}.toml"), &format!("name = \"{tenant}\"\n"));
        }
        let prompt = "prompt = \"<<{{tenant.name}}>> {{request.text}}\"\n";
        let words = format!(
            "description = \"Generated.\"\ninstructions = \"You work for <<{{{{tenant.name}}}}>>.\"\n{prompt}"
        );
        for (name, rest) in [
            (
                "talk",
                "[model]\nuse = \"first\"\nfallback = [\"second\"]\nretries = 1\n[tools]\nallow = [\"agents.helper\"]\n\
                 [limits]\nmax_steps = 12\n[context]\nmax_tokens = 1000\ncompact = \"summarise\"\n",
            ),
            ("helper", "[model]\nuse = \"second\"\nretries = 1\n"),
        ] {
            write(&format!("agents/{name}.toml"), &format!("name = \"{name}\"\n{words}{rest}"));
        }
        let steps = "[[steps]]\nid = \"one\"\nagent = \"talk\"\non_failure = \"report\"\n\
                     [[steps]]\nid = \"two\"\nmodel = { use = \"first\", prompt = \"<<{{tenant.name}}>> {{request.text}}\" }\n\
                     on_failure = \"report\"\n[[steps]]\nhandoff = \"helper\"\n";
        write("agents/plan.toml", &format!("name = \"plan\"\ndescription = \"Generated.\"\n{steps}"));
    }

    /// Stores the keys that the secret store has.
    async fn store(&self, engine: &Engine) {
        let source = engine.secret_source();
        let store = source.make().await.unwrap();
        for ((model, tenant), place) in &self.own {
            if *place == Some(Place::Store) {
                let name = format!("{model}.{tenant}").parse().unwrap();
                let key = Secret::new(&format!("{KEY}{model}-{tenant}-t0ken"));
                store.put(source.tenant(), &name, Put::new(key, 1)).await.unwrap();
            }
        }
    }
}

/// A provider that fails in many ways, and tells everybody all keys that it was ever shown.
struct Provider {
    plan: Mutex<Plan>,
    random: Mutex<fastrand::Rng>,
    shown: Mutex<BTreeSet<String>>,
    /// Whether it also tells keys that a program prints: another process has others.
    tells_printed: Mutex<bool>,
    wrong: Mutex<Vec<String>>,
    asked: Mutex<BTreeMap<(String, String), usize>>,
    /// Requests for a summary, and requests of `talk` to the model that it falls back to: it alone has tools.
    summaries: AtomicUsize,
    fallbacks: AtomicUsize,
}

impl Provider {
    fn start(plan: &Plan, random: fastrand::Rng) -> (Arc<Self>, String) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let provider = Arc::new(Self {
            plan: Mutex::new(plan.clone()),
            random: Mutex::new(random),
            shown: Mutex::default(),
            tells_printed: Mutex::new(true),
            wrong: Mutex::default(),
            asked: Mutex::default(),
            summaries: AtomicUsize::new(0),
            fallbacks: AtomicUsize::new(0),
        });
        let shared = Arc::clone(&provider);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let provider = Arc::clone(&shared);
                std::thread::spawn(move || provider.serve(stream.unwrap()));
            }
        });
        (provider, address)
    }

    /// Answers the requests of one connection, which those of all tenants use.
    fn serve(&self, mut stream: TcpStream) -> Option<()> {
        loop {
            let (head, body) = request(&mut stream)?;
            let key = head.lines().find_map(|line| line.split_once("Bearer ").map(|(_, key)| key.to_owned()));
            let body: Value = serde_json::from_slice(&body).unwrap();
            let tenant = self.judge(key.as_deref(), &body);
            if let Some(key) = key {
                self.shown.lock().unwrap().insert(key);
            }
            let answer = self.answer(&body, &tenant);
            let is_over = answer.is_none();
            stream.write_all(&answer.unwrap_or_default()).ok()?;
            if is_over {
                return None;
            }
        }
    }

    /// Compares the key of a request with the tenant on whose behalf it is made.
    fn judge(&self, key: Option<&str>, body: &Value) -> String {
        let text = body.to_string();
        let tenants: Vec<&str> =
            TENANTS.into_iter().filter(|tenant| text.contains(&format!("<<{tenant}>>"))).collect();
        let model = body["model"].as_str().unwrap_or_default().to_owned();
        let expected = match tenants[..] {
            [tenant] => self.plan.lock().unwrap().expected(&model, tenant),
            _ => None,
        };
        let fits =
            expected.as_ref().zip(key).is_some_and(|(expected, key)| key.starts_with(expected.as_str()));
        if !fits {
            let wrong =
                format!("`{model}` is asked for {tenants:?} with {key:?}, not with {expected:?}: {text}");
            self.wrong.lock().unwrap().push(wrong);
        }
        let summary = text.contains("You shorten the record of an agent's work");
        self.summaries.fetch_add(usize::from(summary), Ordering::Relaxed);
        let has_tools = body["tools"].as_array().is_some_and(|tools| !tools.is_empty());
        self.fallbacks.fetch_add(usize::from(model == "second" && has_tools), Ordering::Relaxed);
        let tenant = tenants.first().copied().unwrap_or_default().to_owned();
        *self.asked.lock().unwrap().entry((model, tenant.clone())).or_default() += 1;
        tenant
    }

    /// The bytes of an answer; none where the connection is lost.
    fn answer(&self, body: &Value, tenant: &str) -> Option<Vec<u8>> {
        let tells_printed = *self.tells_printed.lock().unwrap();
        let shown = self.shown.lock().unwrap().clone();
        // A key that a program printed has its number.
        let told: Vec<&str> = shown
            .iter()
            .map(String::as_str)
            .filter(|key| {
                tells_printed || key.trim_end_matches("-t0ken").ends_with(|end: char| !end.is_ascii_digit())
            })
            .collect();
        let told = told.join(" and ");
        let mut random = self.random.lock().unwrap();
        let status = match random.u8(..100) {
            0..8 => "401 Unauthorized",
            8..14 => "429 Too Many Requests",
            14..20 => "500 Internal Server Error",
            20..23 => return None,
            _ => "200 OK",
        };
        if status != "200 OK" {
            let body = json!({ "error": { "message": format!("no: {told}") } }).to_string();
            let head =
                format!("HTTP/1.1 {status}\r\nretry-after-ms: 1\r\ncontent-length: {}\r\n\r\n", body.len());
            return Some(format!("{head}{body}").into_bytes());
        }
        let tool = body["tools"][0]["function"]["name"].as_str().filter(|_| random.bool());
        let delta = match tool {
            Some(tool) => {
                json!({ "role": "assistant", "tool_calls": [{ "index": 0, "id": format!("c{}", random.u32(..)),
                "type": "function", "function": { "name": tool, "arguments": json!({ "text": format!("<<{tenant}>> {told}") }).to_string() } }] })
            }
            None => {
                json!({ "role": "assistant", "content": format!("<<{tenant}>> {told} {}", "word ".repeat(200)) })
            }
        };
        let reason = if tool.is_some() { "tool_calls" } else { "stop" };
        let event = json!({ "id": "r", "object": "chat.completion.chunk", "created": 0, "model": "m",
            "choices": [{ "index": 0, "delta": delta, "finish_reason": reason }],
            "usage": { "prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7 } });
        let body = format!("data: {event}\n\ndata: [DONE]\n\n");
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        Some(format!("{head}{body}").into_bytes())
    }
}

/// Reads the next request of a connection: its head and its body.
fn request(stream: &mut TcpStream) -> Option<(String, Vec<u8>)> {
    let (mut bytes, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
            let length = head
                .lines()
                .find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
            let whole = end + 4 + length.unwrap_or(0);
            if bytes.len() >= whole {
                return Some((head, bytes[end + 4..whole].to_vec()));
            }
        }
        match stream.read(&mut buffer) {
            Ok(read) if read > 0 => bytes.extend_from_slice(&buffer[..read]),
            _ => return None,
        }
    }
}

/// Runs an agent for a tenant: the words of what came of it.
async fn run(engine: Engine, agent: &str, tenant: &str, number: usize) -> String {
    let request = AgentRequest { tenant: tenant.into(), ..AgentRequest::text(&format!("request {number}")) };
    let options =
        StartOptions { session: Some(format!("{agent} {tenant} {number}")), ..StartOptions::default() };
    match engine.start(&agent.parse().unwrap(), request, options).await {
        Ok(handle) => match handle.finish().await {
            Ok(report) => {
                assert!(matches!(report.end, RunEnd::Ended(_)), "{report:?}");
                format!("{report:?}")
            }
            // It continues when the tenant has a key.
            Err(RunFailure::Handoff { source, .. }) if matches!(*source, EngineError::TenantKey { .. }) => {
                "not handed over".to_owned()
            }
            Err(error) => panic!("{error}: {error:?}"),
        },
        Err(EngineError::TenantKey { tenant: refused, .. }) if refused == tenant => "refused".to_owned(),
        Err(error) => panic!("{error}: {error:?}"),
    }
}

/// What happened in all worlds together.
#[derive(Debug, Default)]
struct Seen {
    asked: usize,
    refused: usize,
    children: usize,
    summaries: usize,
    fallbacks: usize,
    own_printed_anew: usize,
}

async fn world(seed: u64, seen: &mut Seen) {
    let mut random = fastrand::Rng::with_seed(seed);
    let plan = Plan::generate(&mut random);
    let dir = tempfile::tempdir().unwrap();
    let (provider, address) = Provider::start(&plan, random.fork());
    plan.write(dir.path(), &address).await;
    let engine = Engine::builder().open(dir.path()).await.unwrap();
    plan.store(&engine).await;
    let runs = (0..RUNS).map(|number| {
        let (agent, tenant) = (["talk", "talk", "plan", "helper"][number % 4], TENANTS[random.usize(..3)]);
        (agent, tenant, tokio::spawn(run(engine.clone(), agent, tenant, number)))
    });
    let runs: Vec<_> = runs.collect();
    for (agent, tenant, run) in runs {
        let words = run.await.unwrap();
        let asks: &[&str] = match agent {
            "talk" => &["first", "second"],
            "plan" => &["first"],
            _ => &["second"],
        };
        let lacks = asks.iter().any(|model| plan.expected(model, tenant).is_none());
        assert_eq!(words == "refused", lacks, "seed {seed}: {agent} of {tenant}: {words}");
        assert!(!words.contains(KEY), "seed {seed}: {words}");
        assert!(words != "not handed over" || plan.expected("second", tenant).is_none(), "seed {seed}");
        seen.refused += usize::from(lacks);
    }
    audit(&engine, seed, seen).await;
    drop(engine);
    // Another process has sent nothing yet, and is told what this one has sent.
    *provider.tells_printed.lock().unwrap() = false;
    let engine = Engine::builder().open(dir.path()).await.unwrap();
    for (number, tenant) in TENANTS.into_iter().enumerate() {
        let words = run(engine.clone(), "helper", tenant, RUNS + number).await;
        assert!(!words.contains(KEY), "seed {seed}: {words}");
    }
    audit(&engine, seed, seen).await;
    let wrong = provider.wrong.lock().unwrap();
    assert!(wrong.is_empty(), "seed {seed}: {} of them: {}", wrong.len(), wrong[0]);
    let asked = provider.asked.lock().unwrap();
    seen.asked += asked.values().sum::<usize>();
    seen.summaries += provider.summaries.load(Ordering::Relaxed);
    seen.fallbacks += provider.fallbacks.load(Ordering::Relaxed);
    for ((model, tenant), place) in &plan.own {
        let starts = std::fs::read_to_string(dir.path().join(format!("starts-{model}-{tenant}")));
        let starts = starts.map_or(0, |starts| starts.lines().count());
        assert!(starts == 0 || *place == Some(Place::Command), "seed {seed}: {model}-{tenant}");
        seen.own_printed_anew += starts.saturating_sub(1);
    }
}

/// No journal has a key, and each says the same again.
async fn audit(engine: &Engine, seed: u64, seen: &mut Seen) {
    let filter = RunFilter { limit: u32::MAX, ..RunFilter::default() };
    for summary in engine.journal().runs(&filter).await.unwrap() {
        let inspection = engine.journal().inspect(summary.run, None).await.unwrap();
        let words = format!("{inspection:?}");
        assert!(!words.contains(KEY), "seed {seed}: {words}");
        assert!(engine.journal().replay(summary.run).await.unwrap().identical, "seed {seed}");
        seen.children += usize::from(summary.parent.is_some());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn each_request_carries_the_key_of_its_own_tenant_whatever_goes_wrong() {
    let mut seen = Seen::default();
    for seed in 1..=SEEDS {
        world(seed, &mut seen).await;
    }
    println!("{seen:?}");
    // A world in which nothing happens keeps every promise, too.
    let Seen { asked, refused, children, summaries, fallbacks, own_printed_anew } = seen;
    assert!(asked > 200 && refused > 5 && children > 20, "{seen:?}");
    assert!(summaries > 0 && fallbacks > 0 && own_printed_anew > 0, "{seen:?}");
}

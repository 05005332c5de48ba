//! Keys of tenants for models: which key a run has, and what comes of a run that has none.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod support;

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use dalsegno_core::{AgentRequest, RunErrorCode, Status};
use dalsegno_runtime::{Engine, EngineError, ErrorKind, RunEnd, RunReport, Settlement, StartOptions};
use serde_json::json;

use support::World;

/// A provider that keeps the keys that it is shown, and says the first one to everybody.
struct Provider {
    address: String,
    keys: Arc<Mutex<Vec<String>>>,
}

impl Provider {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}/v1", listener.local_addr().unwrap());
        let keys = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&keys);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let (mut bytes, mut buffer) = (Vec::new(), [0; 4096]);
                let whole = |bytes: &[u8]| {
                    let text = String::from_utf8_lossy(bytes).into_owned();
                    let (head, body) = text.split_once("\r\n\r\n")?;
                    let length = |line: &str| {
                        line.to_lowercase().strip_prefix("content-length: ")?.parse::<usize>().ok()
                    };
                    (body.len() >= head.lines().find_map(length)?).then(|| head.to_owned())
                };
                let head = loop {
                    if let Some(head) = whole(&bytes) {
                        break head;
                    }
                    let read = stream.read(&mut buffer).unwrap();
                    bytes.extend_from_slice(&buffer[..read]);
                };
                let bearer = |line: &str| line.split_once("Bearer ").map(|(_, key)| key.to_owned());
                log.lock().unwrap().push(head.lines().find_map(bearer).unwrap_or_default());
                let told = log.lock().unwrap()[0].clone();
                let event = json!({ "id": "r", "object": "chat.completion.chunk", "created": 0, "model": "m",
                    "choices": [{ "index": 0, "delta": { "content": format!("I know {told}") }, "finish_reason": "stop" }] });
                let body = format!("data: {event}\n\ndata: [DONE]\n\n");
                let head = format!(
                    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                    body.len()
                );
                stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
            }
        });
        Self { address, keys }
    }

    fn keys(&self) -> Vec<String> {
        self.keys.lock().unwrap().clone()
    }

    /// A workspace whose agent asks it, with these keys.
    fn world(&self, keys: &str) -> World {
        let agent = "prompt = \"{{request.text}}\"\n[model]\nuse = \"default\"\nretries = 0\n";
        let world = World::new(agent).tenants(&["acme", "other"]).settings(&format!(
            "[models.default]\nprovider = \"openai\"\nmodel = \"m\"\nbase_url = \"{}\"\n{keys}",
            self.address
        ));
        for name in ["acme", "other", "shared"] {
            std::fs::write(world.path().join(name), format!("k3y-of-{name}")).unwrap();
        }
        world
    }
}

async fn start(engine: &Engine, agent: &str, tenant: &str) -> Result<RunReport, EngineError> {
    let request = AgentRequest { tenant: tenant.into(), ..AgentRequest::text("x") };
    let handle = engine.start(&agent.parse().unwrap(), request, StartOptions::default()).await?;
    Ok(handle.finish().await.unwrap())
}

fn answered(report: &RunReport) -> &str {
    let RunEnd::Ended(response) = &report.end else { panic!("{report:?}") };
    assert_eq!(response.status, Status::Completed, "{response:?}");
    response.answer.as_deref().unwrap()
}

#[tokio::test]
async fn a_tenant_has_its_own_key_and_the_others_have_that_of_the_model() {
    let provider = Provider::start();
    let world = provider.world("api_key = { file = \"shared\" }\nkeys = { acme = { file = \"acme\" } }\n");
    let engine = world.engine().await;
    for tenant in ["acme", "other", "default", "acme"] {
        let report = start(&engine, "a", tenant).await.unwrap();
        assert_eq!(answered(&report), "I know [secret]", "{tenant}");
    }
    assert_eq!(provider.keys(), ["k3y-of-acme", "k3y-of-shared", "k3y-of-shared", "k3y-of-acme"]);
    // Another process is told the key of a tenant for which it has sent nothing.
    let report = start(&world.engine().await, "a", "other").await.unwrap();
    assert_eq!(answered(&report), "I know [secret]");
}

#[tokio::test]
async fn without_a_key_for_all_a_tenant_without_one_starts_no_run() {
    for keys in ["keys = { acme = { file = \"acme\" } }\n", "[models.default.keys]\n"] {
        let provider = Provider::start();
        let world = provider
            .world(keys)
            .agent("b", "[model]\nuse = \"spare\"\nfallback = [\"default\"]\n")
            .agent("c", "[[steps]]\nmodel = { use = \"default\", prompt = \"x\" }\n")
            .agent("d", "[[steps]]\nid = \"one\"\nagent = \"a\"\n[[steps]]\nrespond = \"{{steps.one}}\"\n");
        let settings = std::fs::read_to_string(world.path().join("dalsegno.toml")).unwrap();
        let world = world
            .settings(&format!("[models.spare]\nprovider = \"script\"\nfile = \"script.toml\"\n{settings}"));
        std::fs::write(world.path().join("script.toml"), "[[replies]]\ntext = \"Yes.\"\n").unwrap();
        let engine = world.engine().await;
        for (agent, tenant) in [("a", "other"), ("b", "other"), ("c", "other"), ("a", "default")] {
            let error = start(&engine, agent, tenant).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid);
            assert_eq!(
                error.to_string(),
                format!(
                    "the agent `{agent}` asks the model `default`, which has no key for the tenant `{tenant}`: add `{tenant} = {{ env = \
                     \"NAME\" }}` to `[models.default.keys]` of dalsegno.toml, or an `api_key` to `[models.default]` for all tenants \
                     without a key of their own"
                )
            );
        }
        // A child run is one that cannot be started.
        let report = start(&engine, "d", "other").await.unwrap();
        let RunEnd::Ended(response) = &report.end else { panic!("{report:?}") };
        let error = response.error.as_ref().unwrap();
        assert_eq!(error.code, RunErrorCode::AgentFailed, "{error:?}");
        assert!(error.message.contains("no key for the tenant `other`"), "{error:?}");
        assert_eq!(provider.keys(), [] as [&str; 0], "nobody is asked");
    }
}

#[tokio::test]
async fn a_run_that_goes_on_after_its_tenants_key_was_taken_away_asks_nobody() {
    let provider = Provider::start();
    let keys = "keys = { acme = { store = \"acme.key\" }, other = { file = \"other\" } }\n";
    let world = provider.world(keys);
    // It waits for the secret that is not stored.
    let report = start(&world.engine().await, "a", "acme").await.unwrap();
    assert!(matches!(report.end, RunEnd::Suspended { .. }), "{report:?}");
    let settings = std::fs::read_to_string(world.path().join("dalsegno.toml")).unwrap();
    let settings = settings.replace("acme = { store = \"acme.key\" }, ", "");
    std::fs::write(world.path().join("dalsegno.toml"), settings).unwrap();
    // Somebody says that it is to look again.
    let report = world.resume(report.run, Some(Settlement::Approve { edited: None, reason: None })).await;
    let RunEnd::Ended(response) = &report.end else { panic!("{report:?}") };
    let error = response.error.as_ref().unwrap();
    assert!(error.message.contains("it has no key for the tenant `acme`"), "{error:?}");
    assert_eq!(provider.keys(), [] as [&str; 0]);
    assert!(world.engine().await.journal().replay(report.run).await.unwrap().identical);
}

#[cfg(unix)]
#[tokio::test]
async fn each_key_that_a_program_prints_is_printed_for_its_tenant_alone() {
    let provider = Provider::start();
    let printed = |name: &str| {
        format!("{name} = {{ command = [\"/bin/sh\", \"print.sh\", \"{name}\"], ttl = \"50m\" }}")
    };
    let world =
        provider.world(&format!("[models.default.keys]\n{}\n{}\n", printed("acme"), printed("other")));
    std::fs::write(world.path().join("print.sh"), "echo $1 >> starts\necho k3y-of-$1\n").unwrap();
    let engine = world.engine().await;
    for tenant in ["acme", "other", "other", "acme"] {
        assert_eq!(answered(&start(&engine, "a", tenant).await.unwrap()), "I know [secret]", "{tenant}");
    }
    assert_eq!(provider.keys(), ["k3y-of-acme", "k3y-of-other", "k3y-of-other", "k3y-of-acme"]);
    assert_eq!(std::fs::read_to_string(world.path().join("starts")).unwrap(), "acme\nother\n");
}

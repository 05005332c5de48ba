//! Secrets from the store: read when they are needed, missed without harm, and in no journal.

#[allow(unreachable_pub, reason = "the fuzz targets, which are another crate, call it too")]
#[path = "../../fuzz/checks.rs"]
mod checks;

use std::io::{Read, Write};
use std::net::TcpListener;

use dalsegno_core::{AgentRequest, Gate, Status};
use dalsegno_runtime::{
    Engine, GateInput, RunEnd, RunReport, Secret, Settlement, StartOptions, WorkerOptions,
};
use dalsegno_secrets::{Put, Rotation};
use dalsegno_store::{RunFilter, Waiting};
use serde_json::json;

use crate::support::provider::Provider;
use crate::support::{World, answer, waits};

/// A workspace whose agent asks this provider, with a key from the store.
fn world(provider: &Provider) -> World {
    World::new("prompt = \"{{request.text}}\"\n[model]\nuse = \"default\"\n").settings(&format!(
        "[models.default]\nprovider = \"openai\"\nmodel = \"m\"\nbase_url = \"{}\"\n\
         api_key = {{ store = \"model.key\" }}\n",
        provider.address
    ))
}

/// The bytes of all files that the engine keeps in a workspace.
fn kept(world: &World) -> Vec<u8> {
    let files = std::fs::read_dir(world.path().join(".dalsegno")).unwrap();
    let files = files.map(|file| file.unwrap().path()).filter(|path| path.is_file());
    files.flat_map(|path| std::fs::read(path).unwrap()).collect()
}

/// The credentials of AWS come as one document, whose parts are sent one by one.
#[tokio::test]
async fn each_part_of_a_document_with_credentials_is_a_secret() {
    let world = World::new("steps = [{ respond = \"{{request.text}}\" }]\n").settings(
        "[models.claude]\nprovider = \"bedrock\"\nmodel = \"m\"\nregion = \"eu-central-1\"\n\
         credentials = { file = \"aws.json\" }\n",
    );
    let document = json!({ "Version": 1, "AccessKeyId": "ASIAT0KEN1", "SecretAccessKey": "wJal/t0ken+2",
        "SessionToken": "IQoJ//t0ken3==", "Expiration": "2999-01-01T00:00:00Z" });
    std::fs::write(world.path().join("aws.json"), document.to_string()).unwrap();
    let report = world.run("ASIAT0KEN1, wJal/t0ken+2, IQoJ%2F%2Ft0ken3%3D%3D, 2999-01-01T00:00:00Z").await;
    assert_eq!(answer(&report), "[secret], [secret], [secret], 2999-01-01T00:00:00Z");
    assert!(!kept(&world).to_ascii_lowercase().windows(5).any(|window| window == b"t0ken"));
}

#[cfg(unix)]
mod printed {
    use std::time::{Duration, Instant};

    use super::*;

    /// A workspace whose model has the key that this script prints.
    fn world(provider: &Provider, script: &str) -> World {
        let world = World::new("prompt = \"{{request.text}}\"\n[model]\nuse = \"default\"\nretries = 0\n");
        std::fs::write(world.path().join("key.sh"), format!("echo start >> starts\n{script}\n")).unwrap();
        world.settings(&format!(
            "[models.default]\nprovider = \"openai\"\nmodel = \"m\"\nbase_url = \"{}\"\n\
             api_key = {{ command = [\"/bin/sh\", \"key.sh\"], ttl = \"50m\", timeout = \"2s\" }}\n",
            provider.address
        ))
    }

    fn starts(world: &World) -> usize {
        std::fs::read_to_string(world.path().join("starts")).map_or(0, |text| text.lines().count())
    }

    async fn start(engine: &Engine) -> RunReport {
        let agent = "a".parse().unwrap();
        let start = engine.start(&agent, AgentRequest::text("hi"), StartOptions::default());
        start.await.unwrap().finish().await.unwrap()
    }

    #[tokio::test]
    async fn a_program_prints_the_key_once_for_many_runs_and_no_journal_has_it() {
        let provider = Provider::start();
        let world = world(&provider, "sleep 0.2; echo t0ken-of-the-program");
        let engine = world.engine().await;
        assert_eq!(starts(&world), 0, "nothing is started before it is needed");
        let runs = futures::future::join_all((0..30).map(|_| start(&engine))).await;
        for report in &runs {
            let answer = answer(report);
            assert!(answer.contains("[secret]") && !answer.contains("t0ken"), "{answer}");
        }
        assert_eq!(starts(&world), 1);
        assert!(provider.keys().iter().all(|key| key == "t0ken-of-the-program"));
        assert!(!kept(&world).windows(5).any(|window| window == b"t0ken"));
    }

    #[tokio::test]
    async fn a_key_that_expires_in_the_middle_of_a_run_is_printed_anew() {
        let provider = Provider::start();
        let world = world(
            &provider,
            "if [ $(wc -l < starts) = 1 ]; then echo expired-t0ken; else echo good-t0ken; fi",
        );
        let report = world.run("hello").await;
        assert_eq!(answer(&report), "you sent [secret] and [secret]");
        assert_eq!(provider.keys(), ["expired-t0ken", "good-t0ken"]);
        assert_eq!(starts(&world), 2);
    }

    #[tokio::test]
    async fn a_key_that_is_refused_twice_is_an_error_that_does_not_show_it() {
        let provider = Provider::start();
        let world = world(&provider, "echo expired-t0ken-$(wc -l < starts | tr -d ' ')");
        let report = world.run("hello").await;
        let shown = format!("{report:?}");
        assert!(shown.contains("401") && !shown.contains("t0ken"), "{shown}");
        assert_eq!((provider.keys().len(), starts(&world)), (2, 2));
        assert!(!kept(&world).windows(5).any(|window| window == b"t0ken"));
    }

    #[tokio::test]
    async fn a_program_that_is_slow_or_fails_ends_the_run_with_clear_words_and_nothing_is_sent() {
        for (script, words) in [
            ("echo hunter2; sleep 60", "`/bin/sh key.sh` was not done within 2s"),
            (
                "echo hunter2; echo hunter2 >&2; exit 7",
                "`/bin/sh key.sh` failed (exit status: 7); run it yourself",
            ),
            ("head -c 1000000 /dev/zero | tr '\\0' a", "printed more than 65536 bytes"),
        ] {
            let provider = Provider::start();
            let world = world(&provider, script);
            let began = Instant::now();
            let report = world.run("hello").await;
            assert!(began.elapsed() < Duration::from_secs(20));
            let shown = format!("{report:?}");
            assert!(shown.contains(words) && !shown.contains("hunter2"), "{shown}");
            assert_eq!(provider.keys(), [] as [&str; 0]);
        }
    }

    #[tokio::test]
    async fn an_engine_without_programs_starts_none() {
        let provider = Provider::start();
        let world = world(&provider, "echo t0ken-of-the-program");
        let engine = world.builder().without_programs().open(world.path()).await.unwrap();
        let shown = format!("{:?}", start(&engine).await);
        assert!(shown.contains("this command starts no programs"), "{shown}");
        assert_eq!((starts(&world), provider.keys().len()), (0, 0));
    }
}

async fn put(engine: &Engine, value: &str) {
    let source = engine.secret_source();
    let store = source.make().await.unwrap();
    store.put(source.tenant(), &"model.key".parse().unwrap(), Put::new(Secret::new(value), 1)).await.unwrap();
}

/// The answer is given in processes that have used no secret yet.
#[tokio::test]
async fn an_answer_with_a_secret_waits_without_it_and_is_the_same_answer_again() {
    let steps = "[[steps]]\nid = \"q\"\nask = \"which word?\"\n[[steps]]\nrespond = \"{{steps.q}}\"\n";
    let world = World::new(steps).settings(
        "[models.default]\nprovider = \"openai\"\nmodel = \"m\"\napi_key = { store = \"model.key\" }\n",
    );
    put(&world.engine().await, "t0ken-of-the-store").await;
    let run = world.run("hello").await.run;
    let settlement = Settlement::Give { value: json!("t0ken-of-the-store") };
    let given = GateInput { operation: None, seen: None, settlement, by: None };
    let engine = world.engine().await;
    engine.pass_on(run, vec![given.clone()]).await.unwrap();
    let inbox = format!("{:?}", engine.journal().store().inbox(run).await.unwrap());
    assert!(inbox.contains("[secret]") && !inbox.contains("t0ken"), "{inbox}");
    let engine = world.engine().await;
    let report = engine.resume(run, vec![given]).await.unwrap().finish().await.unwrap();
    assert_eq!(answer(&report), "[secret]");
}

async fn work(engine: &Engine) -> u64 {
    let options = WorkerOptions { until_idle: true, ..WorkerOptions::default() };
    engine.work(&options, std::future::pending(), |_| {}).await.unwrap().taken
}

fn assert_missing(report: &RunReport) {
    let [waiting] = waits(report) else { panic!("{report:?}") };
    assert_eq!(waiting.gate, Gate::Secret { name: "model.key".into() });
    assert!(waiting.question.contains("the secret `model.key` is missing"), "{waiting:?}");
}

#[tokio::test]
async fn a_run_waits_for_a_secret_that_is_missing_and_a_worker_goes_on_when_it_is_there() {
    let provider = Provider::start();
    let world = world(&provider);
    let report = world.run("hello").await;
    assert_missing(&report);
    assert_eq!(provider.keys(), [] as [&str; 0], "nothing is sent without the key");
    let engine = world.engine().await;
    let filter = RunFilter { waiting: Some(Waiting::Secret), ..RunFilter::default() };
    assert_eq!(engine.journal().runs(&filter).await.unwrap().len(), 1);
    assert_eq!(work(&engine).await, 0);

    // Told too early, the run waits again. The record that says so takes the message out of the inbox, and no other.
    let before = engine.journal().inspect(report.run, None).await.unwrap().records.len();
    engine.tell_to_look(report.run).await.unwrap();
    assert_eq!(work(&engine).await, 1);
    assert_eq!(engine.journal().inspect(report.run, None).await.unwrap().records.len(), before + 1);
    assert_eq!(work(&engine).await, 0);

    put(&engine, "first-k3y").await;
    engine.tell_to_look(report.run).await.unwrap();
    assert_eq!(work(&engine).await, 1);
    let inspection = engine.journal().inspect(report.run, None).await.unwrap();
    assert_eq!(inspection.response.unwrap().answer.as_deref(), Some("you sent [secret]"));
    assert_eq!(provider.keys(), ["first-k3y"]);
    assert!(engine.journal().replay(report.run).await.unwrap().identical);
}

#[tokio::test]
async fn a_key_that_changes_is_the_new_one_at_once_and_both_are_scrubbed() {
    let provider = Provider::start();
    let world = world(&provider);
    let engine = world.engine().await;
    put(&engine, "first-k3y").await;
    let run = async || {
        let agent = "a".parse().unwrap();
        let start = engine.start(&agent, AgentRequest::text("hi"), StartOptions::default());
        start.await.unwrap().finish().await.unwrap()
    };
    assert_eq!(answer(&run().await), "you sent [secret]");
    // Another process changes it.
    put(&world.engine().await, "second-k3y\n").await;
    assert_eq!(answer(&run().await), "you sent [secret] and [secret]");
    assert_eq!(provider.keys(), ["first-k3y", "second-k3y"]);
    // No byte of it stands in the journal.
    for file in std::fs::read_dir(world.path().join(".dalsegno")).unwrap() {
        let path = file.unwrap().path();
        let is_journal = path.file_name().unwrap().to_string_lossy().starts_with("dalsegno.db");
        let bytes = if is_journal { std::fs::read(&path).unwrap() } else { Vec::new() };
        let contains = |text: &str| bytes.windows(text.len()).any(|window| window == text.as_bytes());
        assert!(!contains("first-k3y") && !contains("second-k3y"), "{path:?}");
    }
}

#[tokio::test]
async fn a_person_may_deny_what_waits_for_a_secret_and_an_approval_looks_again() {
    let provider = Provider::start();
    let world = world(&provider);
    let report = world.run("hello").await;
    assert_missing(&report);
    // Approved, and still not there: it waits again.
    let report = world.resume(report.run, Some(Settlement::Approve { edited: None, reason: None })).await;
    assert_missing(&report);
    let report = world.resume(report.run, Some(Settlement::Deny { reason: Some("no money".into()) })).await;
    let RunEnd::Ended(response) = &report.end else { panic!("{report:?}") };
    assert_eq!(response.status, Status::Failed, "{response:?}");
    assert!(format!("{response:?}").contains("no money"), "{response:?}");
    assert_eq!(provider.keys(), [] as [&str; 0]);
    assert!(world.engine().await.journal().replay(report.run).await.unwrap().identical);
}

#[tokio::test]
async fn a_key_that_rotates_opens_the_store_even_if_the_process_dies_between_its_steps() {
    let provider = Provider::start();
    let world = world(&provider);
    let engine = world.engine().await;
    put(&engine, "first-k3y").await;
    let key = world.path().join(".dalsegno/secrets.key");
    let before = std::fs::read_to_string(&key).unwrap();
    engine.secret_source().rotate_key(None, Rotation::Everything).await.unwrap();
    let after = std::fs::read_to_string(&key).unwrap();
    assert_ne!(before, after);
    drop(engine);
    assert_eq!(answer(&world.run("hi").await), "you sent [secret]");
    // The rotation was killed before the new key was in its place.
    let next = world.path().join(".dalsegno/secrets.key.next");
    std::fs::rename(&key, &next).unwrap();
    std::fs::write(&key, &before).unwrap();
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
    assert!(answer(&world.run("hi").await).starts_with("you sent [secret]"));
    assert_eq!(std::fs::read_to_string(&key).unwrap(), after);
    assert!(!next.exists());
}

/// A service that answers each request with what was last shown to it.
fn echo() -> String {
    echo_of("nothing yet")
}

/// A service that answers each request with what was last shown to it, by another program before.
fn echo_of(before: &str) -> String {
    let mut seen = before.to_owned();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let (mut head, mut buffer) = (String::new(), [0; 4096]);
            while !head.contains("\r\n\r\n") {
                match stream.read(&mut buffer).unwrap() {
                    0 => break,
                    read => head.push_str(&String::from_utf8_lossy(&buffer[..read])),
                }
            }
            if let Some((_, shown)) = head.split_once("Bearer ") {
                seen = shown.lines().next().unwrap_or_default().to_owned();
            }
            let body = json!({ "note": format!("you showed {seen}") }).to_string();
            let length = body.len();
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n"
            );
            stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
        }
    });
    address
}

/// A workspace with a tool that shows a secret to the service, and one that only asks it.
fn two_tools(address: &str, secrets: &str) -> World {
    let agent = |tool: &str| {
        format!(
            "[tools]\nallow = [\"{tool}\"]\n[[steps]]\nid = \"x\"\ntool = \"{tool}\"\n[[steps]]\nrespond = \"{{{{steps.x}}}}\"\n"
        )
    };
    let world = World::new(&agent("show")).agent("b", &agent("ask"));
    let document = |name: &str, headers: &str| {
        format!(
            "{{\"name\":\"{name}\",\"description\":\"x\",{headers}\"url\":\"{address}/x\",\"method\":\"GET\"}}]}}"
        )
    };
    let show = document(
        "show",
        "\"secrets\":[\"token\"],\"actions\":[{\"type\":\"api_call\",\"headers\":{\"Authorization\":\"Bearer {{secrets.token}}\"},",
    );
    let ask = document("ask", "\"actions\":[{\"type\":\"api_call\",");
    let tenant = format!("name = \"default\"\negress = [\"{address}\"]\n{secrets}");
    let settings = "[tenants.default]\nfile_prefixes = [\"token\"]\n".to_owned();
    for (name, text) in [
        ("tools/show.json", &show),
        ("tools/ask.json", &ask),
        ("tenants/default.toml", &tenant),
        ("dalsegno.toml", &settings),
    ] {
        write(&world, name, text);
    }
    world
}

fn write(world: &World, name: &str, text: &str) {
    let path = world.path().join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

/// Runs the agent that only asks, in a new engine.
async fn ask(world: &World) -> Result<RunReport, dalsegno_runtime::EngineError> {
    let engine = world.engine().await;
    let agent = "b".parse().unwrap();
    let handle = engine.start(&agent, AgentRequest::text("x"), StartOptions::default()).await?;
    Ok(handle.finish().await.unwrap())
}

#[tokio::test]
async fn a_process_scrubs_what_another_process_has_sent() {
    let world = two_tools(&echo(), "[secrets]\ntoken = { file = \"token\" }\n");
    write(&world, "token", "tenant-secret-0815");
    let shown = world.run("x").await;
    assert!(format!("{shown:?}").contains("you showed [secret]"), "{shown:?}");
    // A new engine has read nothing of the tenant's; the other tool needs no secret.
    let asked = ask(&world).await.unwrap();
    assert!(format!("{asked:?}").contains("you showed [secret]"), "{asked:?}");
    let journal = world.engine().await.journal().inspect(asked.run, None).await.unwrap();
    assert!(!format!("{:?}", journal.records).contains("tenant-secret-0815"));
}

/// Puts a secret into the store as another process does, of the workspace or of a tenant.
async fn put_as(world: &World, owner: Option<&str>, name: &str, value: &str) {
    let engine = world.engine().await;
    let source = engine.secret_source();
    let store = source.make().await.unwrap();
    let whose = source.owner(owner).unwrap();
    store.put(&whose, &name.parse().unwrap(), Put::new(Secret::new(value), 1)).await.unwrap();
}

/// Says that a run heard of a secret, and that neither it nor its journal holds it.
async fn assert_scrubbed(world: &World, report: &RunReport, value: &str) {
    let told = format!("{report:?}");
    assert!(told.contains("you showed [secret]") && !told.contains(value), "{value}: {told}");
    let journal = world.engine().await.journal().inspect(report.run, None).await.unwrap();
    assert!(!format!("{:?}", journal.records).contains(value), "{value}");
}

#[tokio::test]
async fn a_process_scrubs_the_secrets_of_the_store_that_another_process_has_sent() {
    let world = two_tools(&echo(), "[secrets]\ntoken = { store = \"tok\" }\n");
    put_as(&world, Some("default"), "tok", "stored-secret-0815").await;
    assert_scrubbed(&world, &world.run("x").await, "stored-secret-0815").await;
    assert_scrubbed(&world, &ask(&world).await.unwrap(), "stored-secret-0815").await;
    // What the service keeps saying is an earlier version by now.
    put_as(&world, Some("default"), "tok", "another-secret-4711").await;
    assert_scrubbed(&world, &ask(&world).await.unwrap(), "stored-secret-0815").await;
}

#[tokio::test]
async fn a_process_scrubs_the_tokens_of_consent_that_it_did_not_send() {
    let grant = json!({
        "access_token": "canary-access-0815", "refresh_token": "canary-refresh-0815", "expires_at": 1
    });
    // Those of the tenant, of one of its agents, and of a tool server.
    for name in ["oauth.default.crm", "oauth.tickets"] {
        for token in ["canary-access-0815", "canary-refresh-0815"] {
            let world = two_tools(&echo_of(token), "");
            put_as(&world, None, name, &grant.to_string()).await;
            assert_scrubbed(&world, &ask(&world).await.unwrap(), token).await;
        }
    }
    // What another tenant gave is none that this one's runs may meet.
    let world = two_tools(&echo_of("canary-access-0815"), "");
    put_as(&world, None, "oauth.acme.crm", &grant.to_string()).await;
    let report = ask(&world).await.unwrap();
    assert!(answer(&report).contains("canary-access-0815"), "{report:?}");
}

#[tokio::test]
async fn a_process_scrubs_what_came_with_the_request_of_a_run_that_it_takes_up() {
    let world = two_tools(&echo(), "");
    let show = std::fs::read_to_string(world.path().join("tools/show.json")).unwrap();
    let show =
        show.replace("\"secrets\":[\"token\"],", "").replace("{{secrets.token}}", "{{user.auth_token}}");
    write(&world, "tools/show.json", &show);
    let agent = "name = \"a\"\n[tools]\nallow = [\"show\", \"ask\"]\n[[steps]]\ntool = \"show\"\n\
                 [[steps]]\nid = \"x\"\ntool = \"ask\"\napprove = true\n[[steps]]\nrespond = \"{{steps.x}}\"\n";
    write(&world, "agents/a.toml", agent);
    let user = json!({ "id": "u", "auth_token": "request-token-0815" });
    let request = AgentRequest { user, ..AgentRequest::text("x") };
    let engine = world.engine().await;
    let handle = engine.start(&"a".parse().unwrap(), request, StartOptions::default()).await.unwrap();
    let asked = handle.finish().await.unwrap();
    assert_eq!(waits(&asked)[0].kind(), "approval");
    drop(engine);
    let report = world.resume(asked.run, Some(Settlement::Approve { edited: None, reason: None })).await;
    assert_scrubbed(&world, &report, "request-token-0815").await;
}

#[tokio::test]
async fn a_secret_that_cannot_be_read_is_told_before_anything_is_recorded() {
    // A folder is there and is no value; a file that is missing has none to scrub.
    let world = two_tools(&echo(), "[secrets]\ntoken = { file = \"token\" }\n");
    assert!(answer(&ask(&world).await.unwrap()).contains("you showed nothing yet"));
    write(&world, "token/inner", "x");
    let error = ask(&world).await.unwrap_err().to_string();
    assert!(error.contains("cannot read a secret that has to be scrubbed from the records"), "{error}");
    assert_eq!(world.engine().await.journal().runs(&RunFilter::default()).await.unwrap().len(), 1);
}

#[test]
fn the_corpus_of_the_scrubber_holds() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus/scrub");
    let files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(files.len() >= 20, "only {} files", files.len());
    for file in files {
        let data = std::fs::read(&file).unwrap();
        if std::panic::catch_unwind(|| checks::scrub(&data)).is_err() {
            panic!("{} does not hold: {:?}", file.display(), String::from_utf8_lossy(&data));
        }
    }
}

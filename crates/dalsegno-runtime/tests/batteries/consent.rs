//! Access by consent: given once, refreshed ahead of its end, by one at a time, and asked for again when it is gone.

use dalsegno_runtime::{ConsentError, Engine, RunEnd, RunReport, SecretGiver, StartOptions};
use serde_json::json;
use url::Url;

use crate::google::{Google, LIFETIME};
use crate::support::{World, answer, waits};

const LIST: &str = "[[steps]]\nid = \"found\"\ntool = \"google_calendar.list_events\"\n\
    with = { time_min = \"2026-01-31T09:00:00Z\" }\n[[steps]]\nrespond = \"found {{steps.found.length}}\"\n";

/// An engine whose clock is the service's.
pub(crate) async fn engine(google: &Google, world: &World) -> Engine {
    world.builder().clock(google.clock.clone()).open(world.path()).await.unwrap()
}

/// Goes the way of a person and a browser.
pub(crate) async fn give(engine: &Engine, tenant: &str) -> Result<(), ConsentError> {
    give_to(engine, tenant, None).await
}

async fn give_to(engine: &Engine, tenant: &str, agent: Option<&str>) -> Result<(), ConsentError> {
    let redirect: Url = "http://127.0.0.1:8431/callback".parse().unwrap();
    let agent = agent.map(|agent| agent.parse().unwrap());
    let consent = engine.ask_consent("google_calendar", tenant, agent.as_ref(), &redirect).await?;
    let asked = consent.url().clone();
    visit(&asked);
    let state = asked.query_pairs().find(|(name, _)| name == "state").unwrap().1.into_owned();
    let mut answered = redirect;
    answered.query_pairs_mut().append_pair("state", &state).append_pair("code", "a-code");
    engine.take_consent(consent, &answered).await.map(|_| ())
}

fn visit(url: &Url) {
    use std::io::{Read as _, Write as _};
    let mut stream = std::net::TcpStream::connect((url.host_str().unwrap(), url.port().unwrap())).unwrap();
    write!(stream, "GET {}?{} HTTP/1.1\r\n\r\n", url.path(), url.query().unwrap()).unwrap();
    stream.read_to_end(&mut Vec::new()).unwrap();
}

pub(crate) async fn run(engine: &Engine) -> RunReport {
    let request = dalsegno_core::AgentRequest::text("go");
    let handle = engine.start(&"a".parse().unwrap(), request, StartOptions::default()).await.unwrap();
    handle.finish().await.unwrap()
}

#[tokio::test]
async fn a_run_waits_for_consent_and_goes_on() {
    let google = Google::start();
    let world = google.world(LIST);
    let engine = engine(&google, &world).await;
    let report = run(&engine).await;
    let waiting = waits(&report);
    assert_eq!(waiting[0].kind(), "secret");
    let dalsegno_core::Gate::Secret { name } = &waiting[0].gate else { panic!("{waiting:?}") };
    assert_eq!(SecretGiver::of(name).to_string(), "dalsegno auth google_calendar");
    assert!(google.server.got("GET /calendars").is_empty());
    give(&engine, "default").await.unwrap();
    let handle = engine.resume(report.run, Vec::new()).await.unwrap();
    assert_eq!(answer(&handle.finish().await.unwrap()), "found 0");
    assert_eq!(google.server.got("POST /token").len(), 1);
}

#[tokio::test]
async fn a_token_is_refreshed_ahead_of_its_end_and_the_next_one_is_kept() {
    let google = Google::start();
    let world = google.world(LIST);
    let first = engine(&google, &world).await;
    give(&first, "default").await.unwrap();
    for _ in 0..3 {
        google.clock.forward(LIFETIME - 59);
        // Each time another process: what is good is what is kept.
        let engine = engine(&google, &world).await;
        assert_eq!(answer(&run(&engine).await), "found 0");
    }
    let asked = google.server.got("POST /token");
    let used: Vec<String> = asked[1..].iter().map(|asked| asked.form()["refresh_token"].clone()).collect();
    assert_eq!(used, ["canary-4711-refresh-1", "canary-4711-refresh-2", "canary-4711-refresh-3"]);
    // No call ever met a token that had ended.
    assert_eq!(google.server.got("GET /calendars").len(), 3);
}

#[tokio::test]
async fn calls_at_the_same_time_refresh_once() {
    let google = Google::start();
    let world = google.world(LIST);
    let one = engine(&google, &world).await;
    give(&one, "default").await.unwrap();
    google.clock.forward(LIFETIME + 1);
    // Two engines are as two processes.
    let two = engine(&google, &world).await;
    let runs = (0..4).flat_map(|_| [run(&one), run(&two)]);
    for report in futures::future::join_all(runs).await {
        assert_eq!(answer(&report), "found 0");
    }
    assert_eq!(google.server.got("POST /token").len(), 2, "one consent and one refresh");
}

#[tokio::test]
async fn a_token_that_is_not_taken_is_refreshed_once_in_the_same_call() {
    let google = Google::start();
    let world = google.world(LIST);
    let engine = engine(&google, &world).await;
    give(&engine, "default").await.unwrap();
    google.end_access();
    assert_eq!(answer(&run(&engine).await), "found 0");
    assert_eq!(google.server.got("GET /calendars").len(), 2);
    assert_eq!(google.server.got("POST /token").len(), 2);
}

#[tokio::test]
async fn a_refresh_that_is_refused_asks_for_consent_again() {
    let google = Google::start();
    let world = google.world(LIST);
    let engine = engine(&google, &world).await;
    give(&engine, "default").await.unwrap();
    google.revoke();
    let report = run(&engine).await;
    assert_eq!(waits(&report)[0].kind(), "secret");
    // It is not asked again and again: nobody has given anything since.
    let handle = engine.resume(report.run, Vec::new()).await.unwrap();
    assert_eq!(waits(&handle.finish().await.unwrap())[0].kind(), "secret");
    assert_eq!(google.server.got("POST /token").len(), 2);
    give(&engine, "default").await.unwrap();
    let handle = engine.resume(report.run, Vec::new()).await.unwrap();
    assert_eq!(answer(&handle.finish().await.unwrap()), "found 0");
}

#[tokio::test]
async fn a_service_that_is_down_takes_no_access_away() {
    let google = Google::start();
    let world = google.world(LIST);
    let engine = engine(&google, &world).await;
    give(&engine, "default").await.unwrap();
    google.clock.forward(LIFETIME - 30);
    google.trouble([(503, json!({}))]);
    assert_eq!(answer(&run(&engine).await), "found 0", "the token is good for half a minute yet");
    google.clock.forward(60);
    google.trouble([(503, json!({})), (500, json!({}))]);
    assert_eq!(answer(&run(&engine).await), "found 0", "the attempts of the call go on until it is back");
    assert_eq!(google.server.got("POST /token").len(), 5);
}

#[tokio::test]
async fn a_client_that_is_refused_is_a_failure_with_words() {
    let google = Google::start();
    let world = google.world(LIST);
    let first = engine(&google, &world).await;
    give(&first, "default").await.unwrap();
    std::fs::write(world.path().join("client.secret"), "another-secret").unwrap();
    google.clock.forward(LIFETIME + 1);
    let engine = engine(&google, &world).await;
    let report = run(&engine).await;
    let RunEnd::Ended(response) = &report.end else { panic!("{report:?}") };
    assert!(response.error.is_some());
    let inspection = engine.journal().inspect(report.run, None).await.unwrap();
    let told = format!("{inspection:?}");
    assert!(told.contains("invalid_client"), "{told}");
}

#[tokio::test]
async fn the_access_of_one_tenant_is_not_anothers() {
    let google = Google::start();
    let world = google.world(LIST);
    google.tenant(&world, "acme");
    let engine = engine(&google, &world).await;
    give(&engine, "acme").await.unwrap();
    assert_eq!(waits(&run(&engine).await)[0].kind(), "secret");
    let request =
        dalsegno_core::AgentRequest { tenant: "acme".to_owned(), ..dalsegno_core::AgentRequest::text("go") };
    let handle = engine.start(&"a".parse().unwrap(), request, StartOptions::default()).await.unwrap();
    assert_eq!(answer(&handle.finish().await.unwrap()), "found 0");
}

#[tokio::test]
async fn an_agent_with_an_access_of_its_own_uses_no_others_and_no_other_uses_its() {
    let google = Google::start();
    let world = google.world(LIST);
    let tenant = world.path().join("tenants/default.toml");
    let text = std::fs::read_to_string(&tenant).unwrap();
    let own = "\n[tools.google_calendar.agents.a]\nown_access = true\n";
    std::fs::write(&tenant, text.clone() + own).unwrap();
    let engine = engine(&google, &world).await;
    give(&engine, "default").await.unwrap();
    let report = run(&engine).await;
    let dalsegno_core::Gate::Secret { name } = &waits(&report)[0].gate else { panic!("{report:?}") };
    assert_eq!(SecretGiver::of(name).to_string(), "dalsegno auth google_calendar --agent a");
    let error = give_to(&engine, "default", Some("b")).await.unwrap_err();
    assert!(matches!(error, ConsentError::NoAccessOfItsOwn { .. }), "{error}");
    give_to(&engine, "default", Some("a")).await.unwrap();
    let handle = engine.resume(report.run, Vec::new()).await.unwrap();
    assert_eq!(answer(&handle.finish().await.unwrap()), "found 0");
    let tokens = google.server.got("POST /token").len();
    // Without the line the agent is one of the tenant's again, and what it uses is the tenant's.
    std::fs::write(&tenant, text).unwrap();
    assert_eq!(answer(&run(&engine).await), "found 0");
    assert_eq!(google.server.got("POST /token").len(), tokens, "both accesses were there");
}

#[tokio::test]
async fn an_answer_to_another_question_is_not_taken() {
    let google = Google::start();
    let world = google.world(LIST);
    let engine = engine(&google, &world).await;
    let redirect: Url = "http://127.0.0.1:8431/callback".parse().unwrap();
    let consent = engine.ask_consent("google-calendar", "default", None, &redirect).await.unwrap();
    let asked: std::collections::BTreeMap<_, _> = consent.url().query_pairs().into_owned().collect();
    assert_eq!(asked["redirect_uri"], redirect.as_str());
    assert_eq!((asked["access_type"].as_str(), asked["prompt"].as_str()), ("offline", "consent"));
    let state = &asked["state"];
    for wrong in [
        "http://127.0.0.1:8431/callback?code=a-code".to_owned(),
        "http://127.0.0.1:8431/callback?code=a-code&state=x".to_owned(),
        format!("http://127.0.0.1:8431/callback?state={state}"),
        format!("http://127.0.0.1:8432/callback?code=a-code&state={state}"),
        format!("http://127.0.0.1:8431/callback?code=a&code=b&state={state}"),
        format!("https://127.0.0.1:8431/callback?code=a-code&state={state}"),
    ] {
        assert!(consent.accepts(&wrong.parse().unwrap()).is_err(), "{wrong}");
    }
}

#[tokio::test]
async fn no_byte_that_is_kept_holds_a_token() {
    let google = Google::start();
    google.event(
        json!({"id": "echo1", "summary": "canary-4711-access-1 canary-4711-refresh-1 canary-4711-client",
        "start": {"dateTime": "2026-02-01T09:00:00Z"}, "end": {"dateTime": "2026-02-01T10:00:00Z"}}),
    );
    let world = google.world(&LIST.replace("{{steps.found.length}}", "{{steps.found[0].title}}"));
    let engine = engine(&google, &world).await;
    give(&engine, "default").await.unwrap();
    let report = run(&engine).await;
    assert_eq!(answer(&report), "found [secret] [secret] [secret]");
    drop(engine);
    let mut folders = vec![world.path().join(".dalsegno")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let bytes = std::fs::read(&path).unwrap();
            assert!(!bytes.windows(11).any(|part| part == b"canary-4711"), "{}", path.display());
        }
    }
}

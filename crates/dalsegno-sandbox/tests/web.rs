//! The `web` server from end to end: HTTP requests of a guest against servers on this machine, and all that is denied.
#![expect(clippy::unwrap_used, reason = "a helper that fails fails its test")]

#[path = "support/site.rs"]
mod site;
mod support;

use std::sync::Arc;
use std::time::Duration;

use dalsegno_sandbox::{
    Allocation, CallErrorKind, Denial, DenialKind, Injection, LoadError, Origin, Permissions, Resolver,
    Sandbox, SandboxOptions, ServerConfig, ToolOutput, ToolServer,
};
use dalsegno_secrets::{Reveal, RevealError, Secret};
use serde_json::{Value, json};

use site::{Names, Site};
use support::{arguments, cache_place, call, guest_module};

async fn load(
    permissions: Permissions,
    names: Option<Arc<Names>>,
    change: impl FnOnce(&mut ServerConfig),
) -> Result<ToolServer, LoadError> {
    let options = SandboxOptions {
        cache: Some(cache_place()),
        resolver: names.map(|names| names as Arc<dyn Resolver>),
        // Each of these sandboxes has few instances: there is no point in reserving places for thousands.
        allocation: Allocation::OnDemand,
    };
    let mut config = ServerConfig { permissions, ..ServerConfig::new("web", guest_module("web")) };
    config.limits.call_timeout = Duration::from_secs(30);
    config.limits.start_timeout = Duration::from_secs(30);
    change(&mut config);
    Sandbox::new(options).unwrap().load(config).await
}

fn network(grants: &[&str]) -> Permissions {
    let network = grants.iter().map(|grant| grant.parse::<Origin>().unwrap()).collect();
    Permissions { network, ..Permissions::default() }
}

async fn web(grants: &[&str]) -> ToolServer {
    load(network(grants), None, |_| {}).await.unwrap()
}

async fn named(grants: &[&str], names: &Arc<Names>) -> ToolServer {
    load(network(grants), Some(Arc::clone(names)), |_| {}).await.unwrap()
}

async fn fetch(server: &ToolServer, parameters: Value) -> ToolOutput {
    server.open("tenant").call("fetch", arguments(parameters), call()).await.unwrap()
}

/// Fetches a page that is there.
async fn page(server: &ToolServer, url: &str) -> Value {
    let answer = fetch(server, json!({"url": url})).await;
    assert!(!answer.is_error, "{}", answer.text);
    answer.structured.unwrap()
}

/// Fetches a page that must be refused, and says why.
async fn refusal(server: &ToolServer, url: &str) -> Denial {
    let answer = fetch(server, json!({"url": url})).await;
    assert!(answer.is_error, "{:?}", answer);
    assert_eq!(answer.denials.len(), 1, "{:?}", answer.denials);
    let denial = answer.denials[0].clone();
    assert_eq!(server.stats().denials[&denial.kind], denial.count);
    denial
}

#[tokio::test]
async fn a_granted_address_on_this_machine_is_reached() {
    let site = Site::start().await;
    let server = web(&[&site.url("")]).await;
    let page = page(&server, &site.url("/hello?a=b")).await;
    assert_eq!((page["status"].as_u64(), page["text"].as_str()), (Some(200), Some("hello")));
    let heads = site.heads();
    assert!(heads[0].starts_with("GET /hello?a=b HTTP/1.1\r\n"), "{heads:?}");
    assert!(heads[0].contains(&format!("host: {}\r\n", site.address)), "{heads:?}");
    assert!(server.stats().denials.is_empty());
}

#[tokio::test]
async fn nothing_is_reached_without_a_grant() {
    let site = Site::start().await;
    let server = web(&[]).await;
    let denial = refusal(&server, &site.url("/hello")).await;
    assert_eq!((denial.kind, denial.subject), (DenialKind::Network, site.url("")));
    assert!(site.heads().is_empty());
}

#[tokio::test]
async fn scheme_host_and_port_must_all_be_those_of_the_grant() {
    let site = Site::start().await;
    let server = web(&[&site.url("")]).await;
    let port = site.address.port();
    for url in [
        format!("https://127.0.0.1:{port}/"),
        "http://127.0.0.1/".to_owned(),
        format!("http://localhost:{port}/"),
        format!("http://127.0.0.2:{port}/"),
        format!("http://[::1]:{port}/"),
        format!("http://[::ffff:127.0.0.1]:{port}/"),
    ] {
        let answer = fetch(&server, json!({"url": url})).await;
        assert!(answer.is_error, "{url}");
        assert_eq!(answer.denials[0].kind, DenialKind::Network, "{url}");
    }
    assert!(site.heads().is_empty());
}

#[tokio::test]
async fn a_redirect_is_another_request_and_checked_like_the_first() {
    let (site, other) = (Site::start().await, Site::start().await);
    let server = web(&[&site.url("")]).await;
    let inside = page(&server, &site.url(&format!("/to/{}", site.url("/end")))).await;
    assert_eq!(inside["url"], site.url("/end"));

    let denial = refusal(&server, &site.url(&format!("/to/{}", other.url("/internal")))).await;
    assert_eq!((denial.kind, denial.subject), (DenialKind::Network, other.url("")));
    assert!(other.heads().is_empty(), "the redirect was followed");
}

#[tokio::test]
async fn a_name_that_resolves_to_an_address_inside_is_refused() {
    let site = Site::start().await;
    for address in [
        "127.0.0.1",
        "10.0.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "::1",
        "fd00::1",
        "::ffff:127.0.0.1",
        "0.0.0.0",
    ] {
        let names = Arc::new(Names::default().with("inside.test", &[&[address]]));
        let server = named(&[&site.named("inside.test", "")], &names).await;
        let denial = refusal(&server, &site.named("inside.test", "/")).await;
        assert_eq!(denial.kind, DenialKind::Address, "{address}");
        assert!(denial.reason.contains(address), "{}", denial.reason);
    }
    assert!(site.heads().is_empty());
}

#[tokio::test]
async fn one_bad_address_among_good_ones_is_enough() {
    let site = Site::start().await;
    let names = Arc::new(Names::default().with("mixed.test", &[&["127.0.0.1", "10.0.0.1"]]));
    // The address itself is granted, so that this machine may stand for a public one.
    let server = named(&[&site.named("mixed.test", ""), &site.url("")], &names).await;
    assert_eq!(refusal(&server, &site.named("mixed.test", "/")).await.kind, DenialKind::Address);
    assert!(site.heads().is_empty());
}

#[tokio::test]
async fn a_name_that_changes_its_address_is_checked_anew_and_looked_up_once() {
    let site = Site::start().await;
    let names = Arc::new(Names::default().with("rebind.test", &[&["127.0.0.1"], &["10.0.0.1"]]));
    let server = named(&[&site.named("rebind.test", ""), &site.url("")], &names).await;
    let first = page(&server, &site.named("rebind.test", "/")).await;
    assert_eq!(first["text"], "hello");
    // What was checked is what was dialled: a second look-up would have had the other answer.
    assert_eq!(names.lookups(), ["rebind.test"]);
    let denial = refusal(&server, &site.named("rebind.test", "/")).await;
    assert_eq!(denial.kind, DenialKind::Address);
    assert_eq!(site.heads().len(), 1);
}

#[tokio::test]
async fn a_name_without_an_address_is_no_denial() {
    let names = Arc::new(Names::default());
    let server = named(&["https://nowhere.test"], &names).await;
    let answer = fetch(&server, json!({"url": "https://nowhere.test/"})).await;
    assert!(answer.is_error && answer.text.contains("Dns"), "{}", answer.text);
    assert!(answer.denials.is_empty());
}

#[tokio::test]
async fn an_address_with_a_password_is_never_sent() {
    let site = Site::start().await;
    let server = web(&[&site.url("")]).await;
    let url = format!("http://user:password@{}/", site.address);
    let answer = fetch(&server, json!({"url": url})).await;
    assert!(answer.is_error, "{:?}", answer);
    assert!(site.heads().is_empty());
}

/// A secret, or the reason why it is not there.
struct Token(Result<&'static str, &'static str>);

#[async_trait::async_trait]
impl Reveal for Token {
    async fn reveal(&self) -> Result<Secret, RevealError> {
        self.0.map(Secret::new).map_err(RevealError::new)
    }
}

fn injection(destination: &str, token: Result<&'static str, &'static str>) -> Injection {
    Injection {
        destination: destination.parse().unwrap(),
        header: "Authorization".to_owned(),
        prefix: "Bearer ".to_owned(),
        value: Arc::new(Token(token)),
    }
}

#[tokio::test]
async fn a_secret_reaches_its_destination_and_nobody_else() {
    let (crm, other) = (Site::start().await, Site::start().await);
    let secrets = vec![injection(&crm.url(""), Ok("s3cret-of-crm"))];
    let permissions = Permissions { secrets, ..network(&[&crm.url(""), &other.url("")]) };
    let server = load(permissions, None, |_| {}).await.unwrap();

    let read = page(&server, &crm.url("/hello")).await;
    assert!(crm.heads()[0].contains("authorization: Bearer s3cret-of-crm\r\n"), "{:?}", crm.heads());
    assert!(!read.to_string().contains("s3cret"), "{read}");
    // A redirect takes nothing along: it is a request of the guest, which does not have the secret.
    page(&server, &crm.url(&format!("/to/{}", other.url("/echo")))).await;
    assert!(!other.heads()[0].contains("authorization"), "{:?}", other.heads());
}

#[tokio::test]
async fn a_guest_cannot_set_the_header_of_a_secret_nor_see_it_in_a_response() {
    let site = Site::start().await;
    let secrets = vec![injection(&site.url(""), Ok("s3cret-of-crm"))];
    let permissions = Permissions { secrets, ..network(&[&site.url("")]) };
    let server = load(permissions, None, |_| {}).await.unwrap();
    let parameters = json!({"url": site.url("/"), "headers": {"AUTHORIZATION": "Bearer mine"}});
    let answer = fetch(&server, parameters).await;
    assert!(answer.is_error, "{:?}", answer);
    let kinds: Vec<_> = answer.denials.iter().map(|denial| (denial.kind, denial.subject.as_str())).collect();
    assert_eq!(kinds, [(DenialKind::Header, "authorization")]);
    assert!(site.heads().is_empty());
}

#[tokio::test]
async fn a_request_without_its_secret_is_not_sent() {
    for token in [Err("it was deleted"), Ok("two\r\nlines")] {
        let site = Site::start().await;
        let permissions =
            Permissions { secrets: vec![injection(&site.url(""), token)], ..network(&[&site.url("")]) };
        let server = load(permissions, None, |_| {}).await.unwrap();
        let denial = refusal(&server, &site.url("/")).await;
        assert_eq!(denial.kind, DenialKind::Request);
        assert!(!denial.reason.contains("lines"), "{}", denial.reason);
        assert!(site.heads().is_empty());
    }
}

#[tokio::test]
async fn a_grant_that_makes_no_sense_refuses_to_load() {
    let cases = [
        (network(&["https://crm.test"]), injection("https://www.test", Ok("x"))),
        (network(&["http://crm.test"]), injection("http://crm.test", Ok("x"))),
        (
            network(&["https://crm.test"]),
            Injection { header: "host".to_owned(), ..injection("https://crm.test", Ok("x")) },
        ),
        (
            network(&["https://crm.test"]),
            Injection { header: "a b".to_owned(), ..injection("https://crm.test", Ok("x")) },
        ),
    ];
    for (permissions, secret) in cases {
        let permissions = Permissions { secrets: vec![secret], ..permissions };
        let error = load(permissions, None, |_| {}).await.unwrap_err();
        assert!(matches!(error, LoadError::Permission { .. }), "{error}");
    }
}

#[tokio::test]
async fn a_response_is_cut_off_at_its_limit() {
    let site = Site::start().await;
    let server =
        load(network(&[&site.url("")]), None, |config| config.limits.response = 10_000).await.unwrap();
    let answer = fetch(&server, json!({"url": site.url("/endless")})).await;
    assert!(answer.is_error && answer.text.contains("broke off"), "{}", answer.text);
}

#[tokio::test]
async fn a_response_that_does_not_end_takes_no_longer_than_the_call() {
    let site = Site::start().await;
    let hurry = |config: &mut ServerConfig| config.limits.call_timeout = Duration::from_millis(500);
    let server = load(network(&[&site.url("")]), None, hurry).await.unwrap();
    let session = server.open("tenant");
    // Either the host's limit for the request ends it, which the guest can tell, or the one for the call.
    match session.call("fetch", arguments(json!({"url": site.url("/slow")})), call()).await {
        Ok(answer) => assert!(answer.is_error, "{:?}", answer),
        Err(error) => assert_eq!(error.kind, CallErrorKind::Timeout, "{error}"),
    }
    let answer = session.call("fetch", arguments(json!({"url": site.url("/hello")})), call()).await.unwrap();
    assert!(!answer.is_error, "{}", answer.text);
}

#[tokio::test]
async fn a_request_that_should_be_encrypted_is_never_sent_in_the_clear() {
    let site = Site::start().await;
    let secure = format!("https://{}", site.address);
    let server = web(&[&secure]).await;
    let answer = fetch(&server, json!({"url": format!("{secure}/")})).await;
    assert!(answer.is_error && answer.text.contains("Tls"), "{}", answer.text);
    assert!(site.heads().is_empty());
}

/// A receiver over TLS: the certificate decides, not the address.
#[tokio::test]
#[ignore = "needs a process that trusts the authority of the tests; the next test starts one"]
async fn encrypted_requests_in_a_process_that_trusts_the_authority() {
    let site = Site::encrypted().await;
    let port = site.address.port();
    let (crm, www) = (format!("https://crm.test:{port}"), format!("https://www.test:{port}"));
    let names = Names::default().with("crm.test", &[&["127.0.0.1"]]).with("www.test", &[&["127.0.0.1"]]);
    let secrets = vec![injection(&crm, Ok("s3cret-of-crm")), injection(&www, Ok("s3cret-of-www"))];
    let here = format!("https://{}", site.address);
    let permissions = Permissions { secrets, ..network(&[&crm, &www, &here]) };
    let server = load(permissions, Some(Arc::new(names)), |_| {}).await.unwrap();

    assert_eq!(page(&server, &format!("{crm}/hello")).await["text"], "hello");
    assert!(site.heads()[0].contains("authorization: Bearer s3cret-of-crm\r\n"), "{:?}", site.heads());

    let answer = fetch(&server, json!({"url": format!("{www}/hello")})).await;
    assert!(answer.is_error && answer.text.contains("Tls"), "{}", answer.text);
    assert_eq!(site.heads().len(), 1, "a secret went to somebody else");
}

#[test]
fn an_encrypted_request_goes_to_whom_the_certificate_names_and_to_nobody_else() {
    let authority = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tls/authority.pem");
    let inner = "encrypted_requests_in_a_process_that_trusts_the_authority";
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", inner, "--ignored"])
        .env("SSL_CERT_FILE", authority)
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && told.contains("1 passed"), "{told}");
}

#[tokio::test]
async fn a_certificate_that_nobody_trusts_is_refused() {
    let site = Site::encrypted().await;
    let crm = format!("https://crm.test:{}", site.address.port());
    let names = Arc::new(Names::default().with("crm.test", &[&["127.0.0.1"]]));
    let server = named(&[&crm, &format!("https://{}", site.address)], &names).await;
    let answer = fetch(&server, json!({"url": format!("{crm}/hello")})).await;
    assert!(answer.is_error && answer.text.contains("Tls"), "{}", answer.text);
    assert!(site.heads().is_empty());
}

//! Who may be reached, and who may not, with servers on this machine and resolvers that lie.
#![expect(clippy::unwrap_used, reason = "a helper that fails fails its test")]

mod support;

use std::sync::Arc;
use std::time::Duration;

use dalsegno_net::{
    AddressKind, Client, DenialReason, Egress, EgressError, NetError, Origin, Request, Scheme,
};
use reqwest::header::{AUTHORIZATION, HeaderValue};
use reqwest::{Method, StatusCode, Url};

use support::{Scripted, Server, ok, redirect};

fn origin(text: &str) -> Origin {
    text.parse().unwrap()
}

fn url(text: &str) -> Url {
    text.parse().unwrap()
}

fn client(grants: &[String], resolver: Arc<Scripted>) -> Client {
    Client::new(Egress::with_resolver(grants.iter().map(|grant| origin(grant)), resolver))
}

/// A client for granted addresses, where no name is resolved.
fn client_of(servers: &[&Server]) -> Client {
    let grants: Vec<String> = servers.iter().map(|server| format!("http://{}", server.address)).collect();
    client(&grants, Scripted::new(&[]))
}

async fn checked(grants: &[&str], answers: &[&str], asked: &str) -> Result<Vec<String>, EgressError> {
    let grants = grants.iter().map(|grant| origin(grant));
    let egress = Egress::with_resolver(grants, Scripted::new(&[answers]));
    let addresses = egress.check(&origin(asked)).await?;
    Ok(addresses.iter().map(ToString::to_string).collect())
}

fn denied_kind(error: &EgressError) -> AddressKind {
    match error {
        EgressError::Denied(denied) => match denied.reason {
            DenialReason::Address { kind, .. } => kind,
            ref other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn nothing_is_reached_without_a_grant() {
    let error =
        Client::new(Egress::default()).send(Request::get(url("https://example.com"))).await.unwrap_err();
    assert_eq!(error.to_string(), "`https://example.com` may not be reached: no network is granted");
    assert!(!error.is_possibly_received());
}

#[tokio::test]
async fn a_grant_is_for_its_scheme_its_name_and_its_port() {
    let resolver = Scripted::new(&[&["8.8.8.8"]]);
    let egress = Egress::with_resolver([origin("https://crm.example.com")], Arc::clone(&resolver) as _);
    for other in [
        "http://crm.example.com",
        "https://crm.example.com:8443",
        "https://a.crm.example.com",
        "https://example.com",
        "https://crm.example.com.evil.example",
        "https://8.8.8.8",
    ] {
        let error = egress.check(&origin(other)).await.unwrap_err();
        assert!(error.to_string().contains("granted are only `https://crm.example.com`"), "{error}");
    }
    assert_eq!(resolver.asked(), 0, "a name that is not granted is not even resolved");
    assert_eq!(egress.check(&origin("https://CRM.example.com")).await.unwrap()[0].to_string(), "8.8.8.8:443");
}

#[tokio::test]
async fn a_name_that_leads_to_an_address_outside_of_the_public_network_is_denied() {
    let cases = [
        ("127.0.0.1", AddressKind::Loopback),
        ("10.1.2.3", AddressKind::Private),
        ("169.254.169.254", AddressKind::LinkLocal),
        ("100.100.100.200", AddressKind::Shared),
        ("224.0.0.1", AddressKind::Multicast),
        ("0.0.0.0", AddressKind::Unspecified),
        ("::1", AddressKind::Loopback),
        ("::ffff:169.254.169.254", AddressKind::Embedded),
        ("::127.0.0.1", AddressKind::Embedded),
        ("2002:7f00:1::", AddressKind::Embedded),
        ("64:ff9b::7f00:1", AddressKind::Embedded),
        ("fd00:ec2::254", AddressKind::Private),
    ];
    for (address, kind) in cases {
        let grants = ["https://crm.example.com"];
        let error = checked(&grants, &[address], "https://crm.example.com").await.unwrap_err();
        assert_eq!(denied_kind(&error), kind, "{address}");
    }
}

#[tokio::test]
async fn one_bad_address_among_good_ones_refuses_them_all() {
    let grants = ["https://crm.example.com"];
    let error = checked(&grants, &["8.8.8.8", "192.168.0.1"], "https://crm.example.com").await.unwrap_err();
    assert_eq!(denied_kind(&error), AddressKind::Private);
}

#[tokio::test]
async fn a_private_address_is_reached_where_it_is_granted_itself() {
    let grants = ["https://crm.corp.example", "https://10.0.0.5"];
    let found = checked(&grants, &["10.0.0.5"], "https://crm.corp.example").await.unwrap();
    assert_eq!(found, ["10.0.0.5:443"]);
    // For its port and its scheme only, and never in disguise.
    let grants = ["https://crm.corp.example", "https://10.0.0.5:8443", "http://10.0.0.5:443"];
    assert!(checked(&grants, &["10.0.0.5"], "https://crm.corp.example").await.is_err());
    let grants = ["https://crm.corp.example", "https://10.0.0.5"];
    assert!(checked(&grants, &["::ffff:10.0.0.5"], "https://crm.corp.example").await.is_err());
}

#[tokio::test]
async fn localhost_is_this_machine_whatever_a_name_server_says() {
    let found = checked(&["http://localhost:8080"], &["8.8.8.8"], "http://localhost:8080").await.unwrap();
    assert_eq!(found, ["127.0.0.1:8080", "[::1]:8080"]);
}

#[tokio::test]
async fn an_address_in_disguise_needs_the_grant_of_the_address() {
    let egress = Egress::new([origin("http://localhost")]);
    for host in ["0x7f.1", "2130706433", "127.1", "[::ffff:127.0.0.1]"] {
        let disguised = Origin::new(Scheme::Http, host, 80).unwrap();
        assert!(egress.check(&disguised).await.is_err(), "{host}");
    }
}

#[tokio::test]
async fn a_name_without_an_address_is_no_denial() {
    let error = checked(&["https://crm.example.com"], &[], "https://crm.example.com").await.unwrap_err();
    assert!(matches!(error, EgressError::Unresolved { .. }), "{error:?}");
}

#[tokio::test]
async fn the_checked_address_is_the_one_that_is_dialled_and_a_changed_one_is_denied() {
    // The same port on two addresses of this machine; only the first is granted.
    let granted = Server::start("127.0.0.1:0", vec![ok("granted")]).await;
    let other = Server::start(&format!("127.0.0.2:{}", granted.port()), vec![ok("other")]).await;
    let resolver = Scripted::new(&[&["127.0.0.1"], &["127.0.0.2"]]);
    let name = format!("http://rebind.example:{}", granted.port());
    let client = client(&[name.clone(), format!("http://{}", granted.address)], Arc::clone(&resolver));

    let answer = client.send(Request::get(url(&name))).await.unwrap();
    assert_eq!(answer.bytes().await.unwrap(), b"granted");
    assert_eq!(resolver.asked(), 1, "a second look-up could have answered otherwise");

    let error = client.send(Request::get(url(&name))).await.unwrap_err();
    let denied = error.denied().unwrap_or_else(|| panic!("{error:?}"));
    assert!(matches!(denied.reason, DenialReason::Address { kind: AddressKind::Loopback, .. }), "{denied:?}");
    assert!(!error.is_possibly_received());
    assert_eq!(other.requests().len(), 0);
}

#[tokio::test]
async fn a_redirect_is_an_answer_where_none_is_to_be_followed() {
    let server = Server::start("127.0.0.1:0", vec![redirect(302, "/there")]).await;
    let answer =
        client_of(&[&server]).send(Request::get(url(&format!("http://{}/", server.address)))).await.unwrap();
    assert_eq!(answer.status(), StatusCode::FOUND);
}

#[tokio::test]
async fn a_redirect_to_a_loopback_address_is_denied() {
    let inner = Server::start("127.0.0.1:0", vec![ok("secret")]).await;
    for location in [
        format!("http://127.0.0.1:{}/", inner.port()),
        format!("http://localhost:{}/", inner.port()),
        format!("http://[::ffff:127.0.0.1]:{}/", inner.port()),
        format!("http://0x7f.1:{}/", inner.port()),
        format!("http://user@127.0.0.1:{}/", inner.port()),
        "file:///etc/passwd".to_owned(),
    ] {
        let server = Server::start("127.0.0.1:0", vec![redirect(302, &location)]).await;
        let mut request = Request::get(url(&format!("http://{}/", server.address)));
        request.redirects = 5;
        let error = client_of(&[&server]).send(request).await.unwrap_err();
        assert!(error.denied().is_some(), "{location}: {error:?}");
        assert!(error.is_possibly_received(), "the first receiver may have acted");
    }
    assert_eq!(inner.requests().len(), 0);
}

#[tokio::test]
async fn a_redirect_to_a_name_that_leads_inside_is_denied() {
    let inner = Server::start("127.0.0.1:0", vec![ok("secret")]).await;
    let name = format!("http://inside.example:{}", inner.port());
    let outer = Server::start("127.0.0.2:0", vec![redirect(307, &name)]).await;
    let client = client(&[format!("http://{}", outer.address), name], Scripted::new(&[&["127.0.0.1"]]));
    let mut request = Request::get(url(&format!("http://{}/", outer.address)));
    request.redirects = 1;
    let error = client.send(request).await.unwrap_err();
    assert!(error.denied().is_some(), "{error:?}");
    assert_eq!(inner.requests().len(), 0);
}

#[tokio::test]
async fn credentials_stay_with_the_origin_that_they_are_for() {
    let last = Server::start("127.0.0.1:0", vec![ok("done")]).await;
    let there = format!("http://{}/last", last.address);
    let first = Server::start("127.0.0.1:0", vec![redirect(302, "/again"), redirect(302, &there)]).await;
    let mut request = Request::get(url(&format!("http://{}/", first.address)));
    request.redirects = 2;
    request.headers.insert(AUTHORIZATION, HeaderValue::from_static("Bearer abc"));
    request.headers.insert("x-api-key", HeaderValue::from_static("def"));
    request.headers.insert("accept", HeaderValue::from_static("text/plain"));
    let answer = client_of(&[&first, &last]).send(request).await.unwrap();
    assert_eq!(answer.url().as_str(), there);

    assert!(
        first.requests().iter().all(|asked| asked.contains("Bearer abc") && asked.contains("x-api-key: def"))
    );
    let asked = last.requests().concat();
    assert!(!asked.contains("Bearer") && !asked.contains("x-api-key"), "{asked}");
    assert!(asked.contains("accept: text/plain"), "{asked}");
}

#[tokio::test]
async fn a_body_is_not_sent_on_to_another_origin() {
    let last = Server::start("127.0.0.1:0", vec![ok("done")]).await;
    let first = Server::start("127.0.0.1:0", vec![redirect(307, &format!("http://{}/", last.address))]).await;
    let mut request = Request::new(Method::POST, url(&format!("http://{}/", first.address)));
    request.body = Some(b"amount=1".to_vec());
    request.redirects = 1;
    let error = client_of(&[&first, &last]).send(request).await.unwrap_err();
    assert!(matches!(error, NetError::BodyElsewhere { .. }) && error.is_possibly_received(), "{error:?}");
    assert_eq!(last.requests().len(), 0);
}

#[tokio::test]
async fn redirects_without_end_are_cut_off() {
    let server = Server::start("127.0.0.1:0", vec![redirect(302, "/again")]).await;
    let mut request = Request::get(url(&format!("http://{}/", server.address)));
    request.redirects = 3;
    let error = client_of(&[&server]).send(request).await.unwrap_err();
    assert!(matches!(error, NetError::Redirects { limit: 3, .. }), "{error:?}");
    assert_eq!(server.requests().len(), 4);
}

#[tokio::test]
async fn an_answer_that_is_too_long_is_cut_off_with_and_without_a_length() {
    let endless = format!("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{}", "x".repeat(4096));
    for answer in [ok(&"x".repeat(4096)), endless] {
        let server = Server::start("127.0.0.1:0", vec![answer]).await;
        let mut request = Request::get(url(&format!("http://{}/", server.address)));
        request.max_bytes = 1024;
        let read = match client_of(&[&server]).send(request).await {
            Ok(response) => response.bytes().await,
            Err(error) => Err(error),
        };
        assert!(matches!(read.unwrap_err(), NetError::TooLarge { limit: 1024, .. }));
    }
}

#[tokio::test]
async fn who_does_not_answer_is_left_when_the_time_is_over() {
    // Accepted by the system, read by nobody.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let mut request = Request::get(url(&address));
    request.timeout = Duration::from_millis(50);
    let error = client(&[address], Scripted::new(&[])).send(request).await.unwrap_err();
    assert!(matches!(error, NetError::Timeout { sent: true, .. }), "{error:?}");
}

#[tokio::test]
async fn nobody_at_an_address_means_that_nothing_was_sent() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let error = client(std::slice::from_ref(&address), Scripted::new(&[]))
        .send(Request::get(url(&address)))
        .await
        .unwrap_err();
    assert!(matches!(error, NetError::Unreachable { .. }), "{error:?}");
    assert!(!error.is_possibly_received());
}

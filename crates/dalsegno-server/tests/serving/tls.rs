//! A server that encrypts its connections itself.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use dalsegno_workspace::{ServeSettings, TlsFiles};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::world::{World, settings};

/// Writes a new certificate of its own, and returns it.
fn write(folder: &Path) -> CertificateDer<'static> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    std::fs::write(folder.join("key.pem"), made.signing_key.serialize_pem()).unwrap();
    std::fs::write(folder.join("cert.pem"), made.cert.pem()).unwrap();
    made.cert.der().clone()
}

fn encrypted(folder: &Path) -> ServeSettings {
    let files = TlsFiles { certificate: folder.join("cert.pem"), private_key: folder.join("key.pem") };
    ServeSettings { tls: Some(files), ..settings() }
}

/// Sends a request to a server that must have this certificate; none where it has another one.
async fn ask(
    address: SocketAddr,
    trusted: &CertificateDer<'static>,
    key: &str,
    path: &str,
) -> Option<String> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.ok()?;
    let head = format!(
        "GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nauthorization: Bearer {key}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    Some(answer)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_with_a_certificate_answers_over_tls_alone_and_takes_a_new_one_without_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let first = write(folder.path());
    let world = World::with(encrypted(folder.path())).await;
    let acme = world.all("acme");
    let key = acme.key.clone().unwrap();
    let answer = ask(world.address, &first, &key, "/v1/runs").await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    // Who speaks plainly gets no answer.
    let plain = acme.get("/v1/runs").await;
    assert_eq!((plain.status, plain.text.as_str()), (0, ""), "{plain:?}");
    let second = write(folder.path());
    let taken = async { while ask(world.address, &second, &key, "/livez").await.is_none() {} };
    tokio::time::timeout(std::time::Duration::from_secs(60), taken).await.unwrap();
    assert!(ask(world.address, &first, &key, "/livez").await.is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_never_greets_has_no_place_for_long_and_others_are_served() {
    let folder = tempfile::tempdir().unwrap();
    let certificate = write(folder.path());
    let world = World::with(ServeSettings { connections: 3, ..encrypted(folder.path()) }).await;
    let key = world.all("acme").key.unwrap();
    let mut silent = Vec::new();
    for _ in 0..2 {
        silent.push(TcpStream::connect(world.address).await.unwrap());
    }
    let answer = ask(world.address, &certificate, &key, "/v1/agents").await.unwrap();
    assert!(answer.contains("echo"), "{answer}");
    // They are closed after a while, all by themselves.
    for stream in &mut silent {
        let mut byte = [0];
        let closed = tokio::time::timeout(std::time::Duration::from_secs(60), stream.read(&mut byte)).await;
        assert!(matches!(closed, Ok(Ok(0) | Err(_))), "{closed:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn beyond_loopback_it_serves_with_a_certificate_and_a_key() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path());
    let world = World::new().await;
    let telemetry =
        || dalsegno_telemetry::Telemetry::start(dalsegno_telemetry::TelemetryConfig::default()).unwrap();
    let open = || ServeSettings { address: SocketAddr::from(([0, 0, 0, 0], 0)), ..encrypted(folder.path()) };
    let bind =
        || dalsegno_server::Server::bind(world.engine.clone(), world.keys.clone(), telemetry(), open());
    assert!(matches!(bind().await, Err(dalsegno_server::ServeError::NoKeys { .. })));
    world.all("acme");
    assert!(bind().await.unwrap().is_encrypted());
    std::fs::write(folder.path().join("key.pem"), "").unwrap();
    assert!(matches!(bind().await, Err(dalsegno_server::ServeError::Tls(_))));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_stream_comes_through_tls_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let certificate = write(folder.path());
    let world = World::with(encrypted(folder.path())).await;
    let access = world.all("acme");
    let engine = world.engine.clone();
    let mut request = dalsegno_core::AgentRequest::text("x");
    request.tenant = "acme".to_owned();
    let options = dalsegno_runtime::StartOptions::default();
    let handle = engine.start(&"echo".parse().unwrap(), request, options).await.unwrap();
    let run = handle.run();
    handle.finish().await.unwrap();
    let path = format!("/v1/runs/{run}/events");
    let page = ask(world.address, &certificate, &access.key.unwrap(), &path).await.unwrap();
    let body = page.split_once("\r\n\r\n").unwrap().1;
    let page: serde_json::Value = serde_json::from_str(body).unwrap();
    assert_eq!(page["items"][0]["run_id"], json!(run));
}

//! A component that tries what it was not granted: nothing goes through, and each refusal is told and counted.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use dalsegno_sandbox::{
    Access, CallErrorKind, DenialKind, Permissions, Preopen, Received, ServerConfig, ServerState, ToolOutput,
    ToolServer,
};
use dalsegno_secrets::{MaybeSecret, Reveal, RevealError, Secret};
use serde_json::json;

use crate::support::{arguments, call, guest_module, sandbox};

async fn probe(permissions: Permissions) -> ToolServer {
    let mut config = ServerConfig { permissions, ..ServerConfig::new("probe", guest_module("probe")) };
    config.limits.call_timeout = Duration::from_secs(30);
    config.limits.start_timeout = Duration::from_secs(30);
    sandbox().load(config).await.unwrap()
}

/// Calls a tool; says whether it went through, and what was found.
async fn ask(server: &ToolServer, tool: &str, at: &str) -> (bool, String, ToolOutput) {
    let answer = server.open("tenant").call(tool, arguments(json!({"at": at})), call()).await.unwrap();
    let found = answer.structured.clone().unwrap();
    (found["open"].as_bool().unwrap(), found["what"].as_str().unwrap().to_owned(), answer)
}

/// Calls a tool that must be refused, and says for what.
async fn refused(server: &ToolServer, tool: &str, at: &str) -> Vec<(DenialKind, String)> {
    let (open, what, answer) = ask(server, tool, at).await;
    assert!(!open, "{tool} {at}: {what}");
    answer.denials.into_iter().map(|denial| (denial.kind, denial.subject)).collect()
}

#[tokio::test]
async fn sockets_and_names_are_refused_whatever_is_granted() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let server = probe(Permissions { clock: true, random: true, ..Permissions::default() }).await;

    let tcp = (DenialKind::Socket, "tcp".to_owned());
    assert_eq!(refused(&server, "connect", &address).await, [tcp]);
    assert_eq!(refused(&server, "datagram", "127.0.0.1:0").await, [(DenialKind::Socket, "udp".to_owned())]);
    let name = (DenialKind::NameLookup, "internal.example".to_owned());
    assert_eq!(refused(&server, "resolve", "internal.example").await, [name]);

    let stats = server.stats();
    assert_eq!(stats.denials, BTreeMap::from([(DenialKind::Socket, 2), (DenialKind::NameLookup, 1)]));
    listener.set_nonblocking(true).unwrap();
    assert!(listener.accept().is_err(), "somebody connected");
}

#[tokio::test]
async fn a_folder_is_all_that_is_seen_of_the_files() {
    let folder = tempfile::tempdir().unwrap();
    let granted = folder.path().join("granted");
    std::fs::create_dir(&granted).unwrap();
    std::fs::write(folder.path().join("secret"), "secret").unwrap();
    std::fs::write(granted.join("note"), "open").unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink(folder.path().join("secret"), granted.join("link")).unwrap();

    let files = vec![Preopen { host: granted.clone(), guest: "/data".to_owned(), access: Access::Read }];
    let server = probe(Permissions { files, ..Permissions::default() }).await;
    let (open, text, answer) = ask(&server, "read", "/data/note").await;
    assert_eq!((open, text.as_str(), answer.denials.len()), (true, "open", 0));

    for path in ["/data/../secret", "/data/link"] {
        let denials = refused(&server, "read", path).await;
        assert!(denials.iter().all(|(kind, _)| *kind == DenialKind::File) && !denials.is_empty(), "{path}");
    }
    assert!(!refused(&server, "write", "/data/note").await.is_empty());
    // No folder has these: the guest's own library finds nothing to ask the host for.
    for path in ["/etc/passwd", "/secret", "note"] {
        assert!(refused(&server, "read", path).await.is_empty(), "{path}");
    }
    assert_eq!(std::fs::read_to_string(granted.join("note")).unwrap(), "open");
    assert!(server.stats().denials[&DenialKind::File] >= 3);
}

#[tokio::test]
async fn without_a_grant_there_is_no_environment_and_the_clock_stands_still() {
    let server = probe(Permissions::default()).await;
    assert_eq!(ask(&server, "environment", "").await.1, " / 0 arguments");
    assert_eq!(ask(&server, "clock", "").await.1, "946684800");
    let first = ask(&server, "random", "").await.1;
    assert_eq!(ask(&server, "random", "").await.1, first, "another instance, the same numbers");
    assert!(server.stats().denials.is_empty());
}

#[tokio::test]
async fn clock_and_randomness_are_real_when_granted() {
    let server = probe(Permissions { clock: true, random: true, ..Permissions::default() }).await;
    let now: u64 = ask(&server, "clock", "").await.1.parse().unwrap();
    assert!(now > 1_700_000_000, "{now}");
    assert_ne!(ask(&server, "random", "").await.1, ask(&server, "random", "").await.1);
}

/// A secret that changes each time, or is not there.
struct Changing(AtomicU32);

#[async_trait::async_trait]
impl Reveal for Changing {
    async fn reveal(&self) -> Result<Secret, RevealError> {
        match self.0.fetch_add(1, Ordering::Relaxed) {
            0 => Ok(Secret::new("first")),
            1 => Ok(Secret::new("second")),
            _ => Err(RevealError::new("it was deleted")),
        }
    }
}

#[tokio::test]
async fn granted_variables_are_seen_and_secrets_are_read_for_each_instance() {
    let secret = MaybeSecret::Secret(Arc::new(Changing(AtomicU32::new(0))));
    let region = MaybeSecret::from("eu");
    let env = BTreeMap::from([("REGION".to_owned(), region), ("TOKEN".to_owned(), secret)]);
    assert!(!format!("{env:?}").contains("first"));
    let server = probe(Permissions { env, ..Permissions::default() }).await;
    assert_eq!(ask(&server, "environment", "").await.1, "REGION=eu,TOKEN=first / 0 arguments");
    assert_eq!(ask(&server, "environment", "").await.1, "REGION=eu,TOKEN=second / 0 arguments");

    let error = server.open("tenant").call("environment", arguments(json!({})), call()).await.unwrap_err();
    assert_eq!((error.kind, error.received), (CallErrorKind::Start, Received::No));
    assert!(error.message.contains("`TOKEN`") && error.message.contains("it was deleted"), "{error}");
}

#[tokio::test]
async fn a_picture_comes_as_a_file() {
    let server = probe(Permissions::default()).await;
    let answer = server.open("tenant").call("picture", arguments(json!({})), call()).await.unwrap();
    assert_eq!(answer.text, "a pixel\n[image content, image/png, 70 bytes]");
    let [file] = answer.files.files() else { panic!("{:?}", answer.files) };
    assert_eq!((file.name.as_str(), file.media_type, file.bytes.len()), ("image.png", "image/png", 70));
    assert!(file.bytes.starts_with(b"\x89PNG\r\n\x1a\n") && answer.files.refused().is_empty());
}

#[tokio::test]
async fn a_loop_that_yields_all_the_time_is_stopped_at_the_timeout() {
    let mut config = ServerConfig::new("probe", guest_module("probe"));
    config.limits.call_timeout = Duration::from_millis(300);
    config.limits.start_timeout = Duration::from_secs(30);
    let server = sandbox().load(config).await.unwrap();
    let session = server.open("tenant");
    let error = session.call("dawdle", arguments(json!({"at": ""})), call()).await.unwrap_err();
    assert_eq!((error.kind, error.received), (CallErrorKind::Timeout, Received::Possibly));
    session.call("clock", arguments(json!({})), call()).await.unwrap();
}

#[tokio::test]
async fn endless_standard_error_keeps_only_its_end() {
    let mut config = ServerConfig::new("probe", guest_module("probe"));
    config.limits.call_timeout = Duration::from_millis(300);
    config.limits.start_timeout = Duration::from_secs(30);
    config.limits.stderr = 1024;
    let server = sandbox().load(config).await.unwrap();
    let session = server.open("tenant");
    let error = session.call("lament", arguments(json!({"at": ""})), call()).await.unwrap_err();
    assert_eq!(error.kind, CallErrorKind::Timeout);
    assert_eq!(error.stderr, "o".repeat(1024));
    session.call("clock", arguments(json!({})), call()).await.unwrap();
}

#[tokio::test]
async fn memory_is_counted_and_given_back() {
    let server = probe(Permissions::default()).await;
    assert_eq!(server.stats().state, ServerState::Cold);
    let session = server.open("tenant");
    session.call("hoard", arguments(json!({"at": "16"})), call()).await.unwrap();
    let stats = server.stats();
    assert_eq!((stats.state, stats.instances, stats.calls, stats.failures), (ServerState::Idle, 1, 1, 0));
    assert!(stats.memory >= 16 << 20 && stats.memory_peak == stats.memory, "{stats:?}");

    let error = session.call("hoard", arguments(json!({"at": "1000"})), call()).await.unwrap_err();
    assert_eq!(error.kind, CallErrorKind::OutOfMemory);
    session.close().await;
    // The store of a guest is dropped by its task, which may come a moment later.
    while server.stats().instances > 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let stats = server.stats();
    assert_eq!((stats.state, stats.memory, stats.failures), (ServerState::Cold, 0, 1));
    assert!(stats.memory_peak <= 64 << 20, "{stats:?}");
}

//! The `statistics` server: the contract in Python. Built here where `componentize-py` is at hand.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use dalsegno_sandbox::ServerConfig;
use serde_json::json;

use crate::support::{arguments, call, sandbox};

/// Builds the component; `None` where the tool for it is missing.
fn build(folder: &Path) -> Option<PathBuf> {
    let tool = std::env::var_os("COMPONENTIZE_PY").unwrap_or_else(|| "componentize-py".into());
    Command::new(&tool).arg("--version").output().ok().filter(|output| output.status.success())?;
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tool-servers/statistics");
    let component = folder.join("statistics.wasm");
    let built = Command::new(&tool)
        .args(["-d", "wit", "-w", "server", "componentize", "app", "-o"])
        .arg(&component)
        .current_dir(source)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    Some(component)
}

#[tokio::test]
async fn a_server_in_python_keeps_the_contract() {
    let folder = tempfile::tempdir().unwrap();
    let Some(component) = build(folder.path()) else {
        eprintln!(
            "skipped: `componentize-py` is not on the path; `pip install componentize-py==0.25.1` brings it"
        );
        return;
    };
    let mut config = ServerConfig::new("statistics", component);
    config.limits.memory = 128 << 20;
    config.limits.start_timeout = Duration::from_secs(60);
    config.limits.call_timeout = Duration::from_secs(60);
    let server = sandbox().load(config).await.unwrap();
    let tools = server.catalogue().await.unwrap();
    assert_eq!(tools.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>(), ["summary"]);

    let session = server.open("tenant");
    let numbers = json!({"numbers": [1, 2, 3, 10]});
    let output = session.call("summary", arguments(numbers), call()).await.unwrap();
    let found = output.structured.unwrap();
    assert_eq!((&found["count"], &found["mean"], &found["median"]), (&json!(4), &json!(4.0), &json!(2.5)));

    let output = session.call("summary", arguments(json!({"numbers": []})), call()).await.unwrap();
    assert!(output.is_error, "{output:?}");
    assert_eq!(server.stats().started, 2, "one for the catalogue, one for the session");
    session.close().await;
}

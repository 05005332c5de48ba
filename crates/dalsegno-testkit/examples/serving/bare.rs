//! A bare route, to compare with: a process of this program that answers the same bytes to every request.

use std::env;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use axum::Router;
use axum::body::Bytes;
use axum::http::header::CONTENT_TYPE;
use axum::routing::get;
use axum::serve::ListenerExt as _;
use serde_json::json;
use tokio::net::TcpListener;

use crate::process::Running;

/// The environment variable with what a process of this program is to answer.
const BODY: &str = "DALSEGNO_SERVING_BARE";

/// Starts one that answers this. Its log is in the folder.
///
/// # Errors
/// It cannot be started.
pub(crate) fn start(body: &str, folder: &Path) -> anyhow::Result<Running> {
    let mut command = Command::new(env::current_exe()?);
    command.env(BODY, body);
    Running::start(command, &folder.join("bare.log"))
}

/// What this process is to answer, if it is a bare route.
pub(crate) fn body_of_this_process() -> Option<String> {
    env::var(BODY).ok()
}

/// Serves until it is killed, on as many threads as the command has.
///
/// # Errors
/// No port can be had.
pub(crate) fn serve(body: String) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        writeln!(std::io::stdout(), "{}", json!({ "address": listener.local_addr()?.to_string() }))?;
        let listener = listener.tap_io(|stream| {
            let _ = stream.set_nodelay(true);
        });
        let body = Bytes::from(body);
        let answer = move || {
            let body = body.clone();
            async move { ([(CONTENT_TYPE, "application/json")], body) }
        };
        axum::serve(listener, Router::new().route("/v1/runs/{id}", get(answer))).await?;
        anyhow::Ok(())
    })
}

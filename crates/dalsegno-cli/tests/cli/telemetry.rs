//! Traces for a collector and metrics for Prometheus: where the workspace and the arguments say, and nowhere else.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Stdio;
use std::sync::mpsc;
use std::time::Duration;

use crate::support::{Workspace, photograph};

/// A collector that takes everything; yields the head of each request, and its body.
fn collector() -> (SocketAddr, mpsc::Receiver<(String, Vec<u8>)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.unwrap());
            let (mut head, mut line) = (String::new(), String::new());
            while stream.read_line(&mut line).unwrap() > 2 {
                head.push_str(&line);
                line.clear();
            }
            let length = head
                .lines()
                .find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
            let mut body = vec![0; length.unwrap_or(0)];
            stream.read_exact(&mut body).unwrap();
            stream
                .get_mut()
                .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
                .unwrap();
            sender.send((head, body)).unwrap();
        }
    });
    (address, receiver)
}

fn traced(address: SocketAddr) -> Workspace {
    let workspace = Workspace::plain();
    let settings = std::fs::read_to_string(workspace.path("dalsegno.toml")).unwrap();
    workspace.write(
        "dalsegno.toml",
        &format!(
            "{settings}\n[telemetry]\nendpoint = \"http://{address}\"\nheaders = {{ x-key = {{ file = \"key.txt\" }} }}\n"
        ),
    );
    workspace.write("key.txt", "canary-key\n");
    workspace
}

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

#[test]
fn a_run_is_traced_where_the_workspace_says_without_what_was_said() {
    let (address, requests) = collector();
    let workspace = traced(address);
    workspace.succeed(&["run", "note", "canary text"]);
    let (head, body) = requests.recv_timeout(Duration::from_secs(10)).unwrap();
    assert!(head.starts_with("POST /v1/traces ") && head.contains("x-key: canary-key\r\n"), "{head}");
    assert!(contains(&body, "invoke_agent note") && !contains(&body, "canary text"));
    // A replay performs nothing, and reading is no event either.
    workspace.succeed(&["replay", "last"]);
    workspace.succeed(&["show", "last"]);
    assert!(requests.try_recv().is_err());
}

#[test]
fn a_collector_that_is_away_harms_no_run() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let workspace = traced(address);
    photograph!(workspace.dalsegno(&["run", "note", "hello"]), @r"
        exit code: 0
        --- stdout
        0 known. Noted: hello
        --- stderr
        completed · 2 steps · [TOOK] · run [SHORT]
        5 spans did not reach the collector of `[telemetry]`; the journal has everything
        ");
}

#[test]
fn a_worker_offers_metrics_while_it_works() {
    let workspace = Workspace::plain();
    let mut worker = workspace
        .command(&["worker", "--metrics", "127.0.0.1:0"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(worker.stderr.take().unwrap()).lines();
    let line = lines.next().unwrap().unwrap();
    let address = line.strip_prefix("metrics at http://").and_then(|line| line.strip_suffix("/metrics"));
    let address = address.unwrap_or_else(|| panic!("{line}"));
    let ask = |request: &str| {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(format!("{request} HTTP/1.1\r\nhost: dalsegno\r\n\r\n").as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let metrics = ask("GET /metrics");
    assert!(metrics.starts_with("HTTP/1.1 200 "), "{metrics}");
    assert!(metrics.contains("content-type: application/openmetrics-text"), "{metrics}");
    assert!(metrics.contains("dalsegno_effects_queued 0\n") && metrics.ends_with("# EOF\n"), "{metrics}");
    assert!(ask("GET /").starts_with("HTTP/1.1 404 "));
    assert!(ask("POST /metrics").starts_with("HTTP/1.1 405 "));
    // Those who connect and say nothing, or nonsense, harm nobody.
    let silent: Vec<TcpStream> = (0..8).map(|_| TcpStream::connect(address).unwrap()).collect();
    ask("nonsense");
    assert!(ask("GET /metrics").starts_with("HTTP/1.1 200 "));
    drop(silent);
    worker.kill().unwrap();
    worker.wait().unwrap();
    photograph!(workspace.dalsegno(&["worker", "--metrics", "192.0.2.1:1"]), @r"
        exit code: 2
        --- stdout
        --- stderr
        error: cannot serve metrics at `192.0.2.1:1`: Cannot assign requested address (os error 99)
          help: name an address of this machine with a free port, such as `127.0.0.1:9464`
        ");
}

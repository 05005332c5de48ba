//! Triggers and webhooks while processes die: two servers and a worker of one workspace are killed at random instants, again and
//! again. Each delivery starts its run once, and each end arrives, with one id.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Stdio};
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::serve::Served;
use crate::support::Workspace;
use crate::webhooks::receiver;

/// The longest that anything may take here: a bound for what would hang.
const PATIENCE: Duration = Duration::from_secs(240);
/// Deliveries from outside, each of which starts a run.
const DELIVERIES: usize = 40;
/// Processes that are ended: one of eight is asked to stop, all others are killed.
const ENDS: usize = 60;
/// What proves deliveries.
const SECRET: &str = "a secret of the storm";

fn workspace(receiver: SocketAddr) -> Workspace {
    let workspace = Workspace::empty();
    workspace.write(
        "dalsegno.toml",
        &format!(
            "[serve]\nwebhooks = [\"http://{receiver}\"]\n\n[triggers.hook]\nagent = \"steps\"\nsignature = \"token\"\n\
             token_header = \"x-token\"\nid_header = \"x-id\"\nsecret = {{ env = \"STORM\" }}\ntext = \"{{{{body.number}}}}\"\n"
        ),
    );
    let steps: String = (0..3)
        .map(|step| {
            format!(
                "[[steps]]\nmemory_create = {{ entity = \"e{step}\", type = \"log\", content = \"{{{{request.text}}}} {step}\" }}\n"
            )
        })
        .collect();
    workspace
        .write("agents/steps.toml", &format!("name = \"steps\"\n{steps}[[steps]]\nrespond = \"done\"\n"));
    workspace
}

/// Where the servers are now.
type Places = Arc<Mutex<Vec<SocketAddr>>>;

/// Sends a delivery, again and again, until a server has accepted it; returns its run.
fn deliver(places: &Places, number: usize, first: usize) -> String {
    let begun = Instant::now();
    let body = format!("{{\"number\": {number}}}");
    let mut turn = first;
    loop {
        assert!(begun.elapsed() < PATIENCE, "delivery {number} was not accepted");
        let address = {
            let places = places.lock().unwrap();
            places[turn % places.len()]
        };
        turn += 1;
        let answer = TcpStream::connect(address).and_then(|mut stream| {
            stream.set_read_timeout(Some(Duration::from_secs(30)))?;
            write!(
                stream,
                "POST /triggers/hook HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nx-token: {SECRET}\r\nx-id: {number}\r\n\
                 content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            )?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            Ok(answer)
        });
        let accepted = answer.ok().and_then(|answer| {
            let (_, body) = answer.split_once("\r\n\r\n")?;
            let body: Value = serde_json::from_str(body).ok()?;
            body["run_id"].as_str().map(str::to_owned)
        });
        match accepted {
            Some(run) => return run,
            None => thread::yield_now(),
        }
    }
}

/// Instants that look random, the same each time.
struct Instants(u64);

impl Instants {
    fn next(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % below
    }
}

/// A process of the workspace.
enum Process {
    Server(Served),
    Worker(Child),
}

impl Process {
    fn server(workspace: &Workspace) -> Self {
        Self::Server(Served::with(workspace, &[("STORM", SECRET)]))
    }

    fn worker(workspace: &Workspace) -> Self {
        let mut command = workspace.command(&["worker", "--format", "jsonl"]);
        Self::Worker(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }

    fn kill(self) {
        match self {
            Self::Server(served) => served.kill(),
            Self::Worker(mut child) => {
                child.kill().unwrap();
                child.wait().unwrap();
            }
        }
    }

    /// Asks it to stop, as an operator does, and waits until it has.
    #[cfg(unix)]
    fn stop(self) {
        let mut child = match self {
            Self::Server(served) => served.into_child(),
            Self::Worker(child) => child,
        };
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        child.wait().unwrap();
    }

    #[cfg(not(unix))]
    fn stop(self) {
        self.kill();
    }
}

#[test]
fn each_delivery_starts_its_run_once_and_each_end_arrives_while_processes_are_killed() {
    let (address, got) = receiver();
    let workspace = workspace(address);
    let url = format!("http://{address}/in");
    workspace.json(&["webhook", "add", &url, "--tenant", "default", "--event", "run.completed"]);
    let start =
        |which: usize| if which < 2 { Process::server(&workspace) } else { Process::worker(&workspace) };
    let mut processes: Vec<Option<Process>> = (0..3).map(|which| Some(start(which))).collect();
    let place = |process: &Option<Process>| match process {
        Some(Process::Server(served)) => Some(served.address),
        _ => None,
    };
    let places: Places = Arc::new(Mutex::new(processes.iter().filter_map(place).collect()));
    let ended = Arc::new((Mutex::new(0_usize), Condvar::new()));
    // Each delivery is sent by two senders at once, at first to another server each, while processes end all along.
    let senders: Vec<_> = (0..DELIVERIES * 2)
        .map(|sender| {
            let (places, ended, number) = (Arc::clone(&places), Arc::clone(&ended), sender / 2);
            thread::spawn(move || {
                let (count, more) = &*ended;
                let is_early = |ended: &mut usize| *ended < number * ENDS / DELIVERIES;
                drop(more.wait_timeout_while(count.lock().unwrap(), PATIENCE, is_early).unwrap());
                (number, deliver(&places, number, sender))
            })
        })
        .collect();
    let mut instants = Instants(0x0da1_5e60);
    for number in 0..ENDS {
        // An instant of no meaning: anything may be under way.
        thread::sleep(Duration::from_millis(instants.next(120)));
        let which = usize::try_from(instants.next(3)).unwrap();
        let process = processes[which].take().unwrap();
        if number % 8 == 7 {
            process.stop();
        } else {
            process.kill();
        }
        processes[which] = Some(start(which));
        *places.lock().unwrap() = processes.iter().filter_map(place).collect();
        *ended.0.lock().unwrap() += 1;
        ended.1.notify_all();
    }
    let mut runs: BTreeMap<usize, BTreeSet<String>> = BTreeMap::new();
    for sender in senders {
        let (number, run) = sender.join().unwrap();
        runs.entry(number).or_default().insert(run);
    }
    assert!(runs.values().all(|runs| runs.len() == 1), "a delivery has started two runs: {runs:?}");
    let runs: BTreeSet<String> = runs.into_values().flatten().collect();
    assert_eq!(runs.len(), DELIVERIES, "two deliveries have one run");
    let begun = Instant::now();
    let arrived = || got.lock().unwrap().len();
    let waits = || workspace.json(&["webhook", "list"])[0]["waiting"] != 0;
    while (arrived() < DELIVERIES || waits()) && begun.elapsed() < PATIENCE {
        thread::yield_now();
    }
    processes.into_iter().flatten().for_each(Process::kill);
    let listed = workspace.json(&["runs", "--limit", "1000"]);
    let listed = listed.as_array().unwrap();
    assert_eq!(listed.len(), DELIVERIES, "a delivery has started a run that no answer named");
    assert!(listed.iter().all(|run| run["status"] == "completed"), "{listed:?}");
    let got = got.lock().unwrap();
    assert_eq!(got.keys().cloned().collect::<BTreeSet<_>>(), runs, "an end was lost");
    let ids: BTreeSet<&String> = got.values().flatten().collect();
    assert_eq!(ids.len(), DELIVERIES, "an end has more than one id, or two have the same: {got:?}");
    let listed = workspace.json(&["webhook", "list"]);
    assert_eq!((&listed[0]["waiting"], &listed[0]["given_up"]), (&0.into(), &0.into()), "{listed}");
}

/// Receives one delivery at a time: says when one is there, and answers when it may.
fn slow_receiver() -> (SocketAddr, mpsc::Receiver<()>, mpsc::Sender<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (arrives, arrived) = mpsc::channel();
    let (answer, may_answer) = mpsc::channel::<()>();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.unwrap());
            let mut line = String::new();
            while stream.read_line(&mut line).is_ok_and(|read| read > 2) {
                line.clear();
            }
            if arrives.send(()).is_err() || may_answer.recv().is_err() {
                return;
            }
            let answer = b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n";
            let _ = stream.get_mut().write_all(answer);
        }
    });
    (address, arrived, answer)
}

#[cfg(unix)]
#[test]
fn a_delivery_under_way_is_settled_by_a_server_that_is_asked_to_stop() {
    let (address, arrived, answer) = slow_receiver();
    let workspace = workspace(address);
    let url = format!("http://{address}/in");
    workspace.json(&["webhook", "add", &url, "--tenant", "default", "--event", "run.completed"]);
    workspace.json(&["run", "steps", "x"]);
    let server = Process::server(&workspace);
    arrived.recv_timeout(PATIENCE).unwrap();
    // It is told while the receiver has the delivery and has not answered.
    let stopping = thread::spawn(move || server.stop());
    answer.send(()).unwrap();
    stopping.join().unwrap();
    let listed = workspace.json(&["webhook", "list"]);
    assert_eq!((&listed[0]["waiting"], &listed[0]["deliveries"]), (&0.into(), &1.into()), "{listed}");
    assert!(arrived.try_recv().is_err(), "it was made twice");
}

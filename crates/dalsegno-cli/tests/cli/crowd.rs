//! A server with more clients than the files that its process may open.

use std::io::{BufRead as _, BufReader};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::double::{Double, words};
use crate::serve::{Place, Served, ask, workspace};
use crate::support::{Workspace, kept};

/// A server of an agent with a model of its own, started by a shell after this command.
struct World {
    _workspace: Workspace,
    key: String,
    served: Served,
    /// What it tells its operator, line by line.
    tells: Receiver<String>,
    place: Place,
    double: Double,
}

impl World {
    fn after(limit: &str) -> Self {
        let (workspace, key) = workspace();
        let double = Double::start(vec![words("Good morning.")]);
        let url = double.url();
        let model = format!("provider = \"openai\"\nmodel = \"test\"\nbase_url = \"{url}\"\n");
        workspace.write("dalsegno.toml", &format!("[models.default]\n{model}"));
        let agent = "name = \"chat\"\nprompt = \"{{request.text}}\"\n[model]\nuse = \"default\"\n";
        workspace.write("agents/chat.toml", agent);
        let serve = workspace.command(&["serve", "--address", "127.0.0.1:0", "--format", "jsonl"]);
        let mut command = Command::new("/bin/sh");
        command.arg("-c").arg(format!("{limit} && exec \"$0\" \"$@\""));
        command.arg(serve.get_program()).args(serve.get_args());
        command.current_dir(workspace.path("")).env_clear().envs(kept()).stdin(Stdio::null());
        let mut served = Served::spawn(command.stderr(Stdio::piped()));
        let lines = BufReader::new(served.child.as_mut().unwrap().stderr.take().unwrap()).lines();
        let (sender, tells) = channel();
        thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| sender.send(line)));
        let place = Arc::new(Mutex::new(served.address));
        Self { _workspace: workspace, key, served, tells, place, double }
    }

    /// So many clients that connect and say nothing.
    fn crowd(&self, clients: usize) -> Vec<TcpStream> {
        (0..clients).map(|_| TcpStream::connect(self.served.address).unwrap()).collect()
    }

    /// A run that asks the model, over a connection that the server has to open.
    fn run(&self) {
        let asked = self.double.received().len();
        let body = json!({ "agent": "chat", "text": "hello" }).to_string();
        let (_, run) = ask(&self.place, &self.key, "POST /v1/runs", &body);
        let end = format!("GET /v1/runs/{}?wait=60", run["run_id"].as_str().unwrap());
        let (status, run) = ask(&self.place, &self.key, &end, "");
        assert_eq!((status, run["status"].as_str()), (200, Some("completed")), "{run}");
        assert_eq!(self.double.received().len(), asked + 1);
    }

    /// Stops the server, and returns what it has told its operator.
    fn told(self) -> String {
        let mut child = self.served.into_child();
        kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
        let told: Vec<String> = self.tells.iter().collect();
        assert!(child.wait().unwrap().success(), "{told:?}");
        told.join("\n")
    }
}

#[test]
fn a_server_opens_as_many_files_as_its_connections_need() {
    let world = World::after("ulimit -Sn 128");
    let crowd = world.crowd(300);
    world.run();
    drop(crowd);
    let told = world.told();
    assert!(!told.contains("connections"), "{told}");
}

#[test]
fn a_crowd_of_clients_leaves_the_files_that_runs_need() {
    let world = World::after("ulimit -n 128");
    // More than there are places and files: the others wait until the server closes connections on which nothing is asked.
    let crowd = world.crowd(120);
    world.run();
    drop(crowd);
    let told = world.told();
    let note =
        "the server takes 64 connections at once instead of 12000, since this process may open no more files";
    assert!(told.contains(note), "{told}");
    assert!(!told.contains("no connection can be accepted"), "{told}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_server_that_cannot_accept_says_so_and_tries_again() {
    use rustix::process::{Resource, Rlimit, getrlimit, prlimit};

    let world = World::after("true");
    // After a run, all is open that it opens only once.
    world.run();
    let server = Pid::from_child(world.served.child.as_ref().unwrap());
    let few = Rlimit { current: Some(1), ..getrlimit(Resource::Nofile) };
    let before = prlimit(Some(server), Resource::Nofile, few).unwrap();
    let waits = TcpStream::connect(world.served.address).unwrap();
    let says = |line: &str| line.contains("no connection can be accepted");
    loop {
        let line = world.tells.recv_timeout(Duration::from_secs(60));
        if says(&line.expect("the server says that it cannot accept")) {
            break;
        }
    }
    prlimit(Some(server), Resource::Nofile, before).unwrap();
    world.run();
    drop(waits);
    // It has tried more than once, and said so once.
    let told = world.told();
    assert!(!told.lines().any(says), "{told}");
}

//! What keeps a journal: workers, pruning, examination, copies, erasure, replays of all runs.

use std::fs;
use std::process::Stdio;
use std::time::Duration;

use crate::guest::{SILENT, paging};
use crate::support::{Workspace, photograph};

/// An agent whose question nobody answers in time.
fn asking() -> Workspace {
    let workspace = Workspace::plain();
    workspace.write(
        "agents/asking.toml",
        "name = \"asking\"\n\n[limits]\nanswer_timeout = \"300ms\"\n\n\
         [[steps]]\nid = \"reply\"\nask = \"now?\"\non_failure = \"report\"\n\n\
         [[steps]]\nrespond = \"{{steps.reply.error.message}}\"\n",
    );
    workspace
}

#[test]
fn a_worker_goes_on_with_what_nobody_answers() {
    let workspace = asking();
    assert_eq!(workspace.command(&["run", "asking"]).output().unwrap().status.code(), Some(4));
    assert_eq!(workspace.json(&["show", "last"])["status"], "suspended");
    std::thread::sleep(Duration::from_millis(400));
    photograph!(workspace.dalsegno(&["worker", "--until-idle"]), @r"
        exit code: 0
        --- stdout
        --- stderr
        run [SHORT] goes on
        run [SHORT] is completed
        resumed runs 1 time: 1 ended, 0 suspended, 0 left for another process, 0 could not be resumed
        ");
    let show = workspace.json(&["show", "last"]);
    assert_eq!((&show["status"], &show["answer"]), (&"completed".into(), &"no answer within 300 ms".into()));
}

#[test]
fn a_question_says_when_no_answer_becomes_a_no() {
    let workspace = asking();
    let agent = fs::read_to_string(workspace.path("agents/asking.toml")).unwrap();
    workspace.write("agents/asking.toml", &agent.replace("300ms", "1h"));
    photograph!(workspace.dalsegno(&["run", "asking"]), @r#"
        exit code: 4
        --- stdout
        --- stderr
        suspended · 1 step · [TOOK] · run [SHORT]

        now?
        resume with one of
          dalsegno resume [SHORT] --answer "…"
          dalsegno resume [SHORT] --answer @FILE
        without an answer until [TIME], the answer is no: then a worker resumes it, or `dalsegno resume [SHORT]`
        "#);
    let run = workspace.json(&["run", "asking"]);
    assert_eq!(run["answer_by"], run["wake_at"], "{run}");
    assert!(run["answer_by"].is_string(), "{run}");
}

#[test]
fn a_worker_takes_over_within_a_second_from_a_process_that_was_killed() {
    let workspace = paging(SILENT, "1h");
    let mut worker = workspace
        .command(&["worker", "--format", "jsonl"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut child = workspace
        .command(&["run", "page", "ada"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_for(|| workspace.json(&["runs"])[0]["records"].as_u64().is_some_and(|records| records >= 2));
    child.kill().unwrap();
    child.wait().unwrap();
    wait_for(|| workspace.json(&["runs"])[0]["status"] == "suspended");
    let waiting = &workspace.json(&["show", "last"])["waiting_for"][0];
    assert_eq!(waiting["kind"], "in_doubt");
    terminate(&worker);
    let output = worker.stdout.take().unwrap();
    assert!(worker.wait().unwrap().success());
    let lines: Vec<serde_json::Value> = std::io::BufRead::lines(std::io::BufReader::new(output))
        .map(|line| serde_json::from_str(&line.unwrap()).unwrap())
        .collect();
    assert_eq!((&lines[0]["event"], &lines[1]["status"]), (&"taken".into(), &"suspended".into()));
    // All that is in doubt is found, and answered at once.
    let listed = workspace.json(&["runs", "--waiting", "in-doubt"]);
    assert_eq!(listed.as_array().unwrap().len(), 1);
    assert_eq!(workspace.json(&["runs", "--waiting", "approval"]), serde_json::json!([]));
}

fn wait_for(mut condition: impl FnMut() -> bool) {
    for _ in 0..600 {
        if condition() {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("it did not come to that within 30 s");
}

fn terminate(child: &std::process::Child) {
    let told = std::process::Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    assert!(told.success());
}

#[test]
fn old_runs_go_when_somebody_says_so() {
    let workspace = Workspace::plain();
    workspace.succeed(&["run", "note", "disk full on db-1"]);
    // How many bytes depends on how long each step took.
    let shown = workspace.dalsegno(&["gc", "--older-than", "0s"]);
    let would =
        "exit code: 0\n--- stdout\n--- stderr\nwould delete 1 run with 6 records, 0 files, 1 configuration: ";
    assert!(shown.starts_with(would) && shown.ends_with(" bytes; `--yes` does it\n"), "{shown}");
    assert_eq!(workspace.json(&["runs"]).as_array().unwrap().len(), 1);
    assert!(workspace.dalsegno(&["gc", "--older-than", "1d", "--yes"]).contains("deleted 0 runs"));
    let shown = workspace.dalsegno(&["gc", "--older-than", "0s", "--yes"]);
    let deleted =
        "exit code: 0\n--- stdout\n--- stderr\ndeleted 1 run with 6 records, 0 files, 1 configuration: ";
    assert!(shown.starts_with(deleted) && shown.ends_with(" bytes\n"), "{shown}");
    assert_eq!(workspace.json(&["runs"]), serde_json::json!([]));
    photograph!(workspace.dalsegno(&["gc", "--older-than", "soon"]), @r"
    exit code: 2
    --- stdout
    --- stderr
    error: invalid value 'soon' for '--older-than <TIME>': expected a whole number and a unit, such as `250ms`, `2s`, `5m` or `1h`

    For more information, try '--help'.
    ");
}

#[test]
fn a_doctor_says_whether_a_journal_is_sound_and_what_is_not() {
    let workspace = Workspace::plain();
    workspace.succeed(&["run", "note", "disk full on db-1"]);
    photograph!(workspace.dalsegno(&["doctor"]), @r"
        exit code: 0
        --- stdout
        --- stderr
        sound: 1 run, 6 records, 0 files, 1 configuration, and the memory
        ");
    assert_eq!(workspace.json(&["doctor"])["sound"], true);
    let journal = workspace.path(".dalsegno/dalsegno.db");
    let bytes = fs::read(&journal).unwrap();
    // A byte of the table that holds the run's configuration.
    let place = bytes.windows(16).position(|window| window == b"\"name\":\"note\",\"v").unwrap();
    let mut damaged = bytes.clone();
    damaged[place + 2] ^= 1;
    fs::write(&journal, damaged).unwrap();
    let output = workspace.dalsegno(&["doctor"]);
    assert!(output.starts_with("exit code: 1\n") && output.contains("damaged"), "{output}");
    fs::write(&journal, bytes).unwrap();
    assert_eq!(workspace.json(&["doctor"])["sound"], true);
}

#[test]
fn a_copy_is_a_journal_and_no_file_is_written_over() {
    let workspace = Workspace::plain();
    workspace.succeed(&["run", "note", "disk full on db-1"]);
    workspace.succeed(&["backup", "copy.db"]);
    photograph!(workspace.dalsegno(&["backup", "copy.db"]), @r"
        exit code: 2
        --- stdout
        --- stderr
        error: `[WORKSPACE]/copy.db` already exists: name a new file
        ");
    fs::remove_dir_all(workspace.path(".dalsegno")).unwrap();
    fs::create_dir(workspace.path(".dalsegno")).unwrap();
    fs::rename(workspace.path("copy.db"), workspace.path(".dalsegno/dalsegno.db")).unwrap();
    assert_eq!(workspace.json(&["replay", "last"])["identical"], true);
}

#[test]
fn what_is_erased_cannot_be_replayed_and_harms_no_other_run() {
    let workspace = Workspace::plain();
    workspace.succeed(&["run", "note", "of Ada Lovelace"]);
    workspace.succeed(&["run", "note", "stays"]);
    let first = workspace.json(&["runs"])[1]["run_id"].as_str().unwrap().to_owned();
    photograph!(workspace.dalsegno(&["erase", &first]), @"
    exit code: 0
    --- stdout
    --- stderr
    would erase the content of run [SHORT]: 6 records; `--yes` does it, for ever
    ");
    workspace.succeed(&["replay", &first]);
    photograph!(workspace.dalsegno(&["erase", &first, "--yes"]), @r"
        exit code: 0
        --- stdout
        --- stderr
        erased the content of 6 records of run [SHORT], and 0 files
        ");
    photograph!(workspace.dalsegno(&["show", &first]), @r"
        exit code: 0
        --- stdout
        run [ID]
        note · completed · [TIME] · 6 records
        last record: [TIME]
        erased: content of this run was erased for ever, so its steps cannot be shown; this is what the journal keeps
        --- stderr
        ");
    let shown = workspace.json(&["show", &first]);
    assert_eq!((&shown["erased"], &shown["agent"]), (&true.into(), &"note".into()), "{shown}");
    photograph!(workspace.dalsegno(&["replay", &first]), @r"
        exit code: 1
        --- stdout
        --- stderr
        error: the content of record 0 of run [SHORT] was erased: only its number and checksum are left
        ");
    photograph!(workspace.dalsegno(&["replay", "--all"]), @r"
        exit code: 0
        --- stdout
        [SHORT]  erased  the content of record 0 of run [SHORT] was erased: only its number and checksum are left
        --- stderr
        1 erased, 1 identical, nothing performed
        ");
    assert_eq!(workspace.json(&["doctor"])["sound"], true);
    assert_eq!(workspace.json(&["replay", "last"])["identical"], true);
}

#[test]
fn all_runs_are_replayed_and_counted_by_what_came_of_them() {
    let workspace = Workspace::plain();
    for text in ["one", "two", "three"] {
        workspace.succeed(&["run", "note", text]);
    }
    photograph!(workspace.dalsegno(&["replay", "--all"]), @r"
        exit code: 0
        --- stdout
        --- stderr
        3 identical, nothing performed
        ");
    photograph!(workspace.dalsegno(&["replay", "last", "--until", "1"]), @r"
        exit code: 0
        --- stdout
        --- stderr
        identical: 1 step, 3 records, nothing performed
        ");
    let document = workspace.json(&["replay", "--all"]);
    assert_eq!(document["verdicts"], serde_json::json!({ "identical": 3 }));
    assert!(workspace.dalsegno(&["replay"]).starts_with("exit code: 2\n"));
}

#[test]
fn what_many_runs_wait_for_is_answered_at_once() {
    let workspace = Workspace::plain();
    workspace.write("agents/asking.toml", "name = \"asking\"\n\n[[steps]]\nid = \"q\"\nask = \"now?\"\n\n[[steps]]\nrespond = \"{{steps.q}}\"\n");
    workspace.write(
        "agents/other.toml",
        "name = \"other\"\n\n[[steps]]\nask = \"then?\"\n\n[[steps]]\nrespond = \"done\"\n",
    );
    for agent in ["asking", "asking", "other"] {
        assert_eq!(workspace.command(&["run", agent]).output().unwrap().status.code(), Some(4));
    }
    let answer = ["answer", "--waiting", "input", "--answer", "yes", "--agent", "asking", "--by", "eve"];
    photograph!(workspace.dalsegno(&answer), @r"
        exit code: 0
        --- stdout
        run [SHORT] · operation [SHORT] · asking
        now?

        run [SHORT] · operation [SHORT] · asking
        now?

        --- stderr
        2 operations would be answered: `--yes [SHOWN]` does it
        ");
    assert_eq!(workspace.json(&["worker", "--until-idle"])["taken"], 0);
    let list = workspace.json(&answer);
    assert_eq!((&list["answered"], list["operations"].as_array().unwrap().len()), (&serde_json::json!(0), 2));
    let shown = list["shown"].as_str().unwrap();
    assert_eq!(workspace.json(&[&answer[..], &["--yes", shown]].concat())["answered"], 2);
    assert_eq!(workspace.json(&["worker", "--until-idle"])["ended"], 2);
    let runs = workspace.json(&["runs"]);
    let status = |agent: &str| {
        let runs = runs.as_array().unwrap().iter().filter(move |run| run["agent"] == agent);
        runs.map(|run| run["status"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!((status("asking"), status("other")), (vec!["completed".into(); 2], vec!["suspended".into()]));
    assert!(workspace.succeed(&["show", runs[1]["run_id"].as_str().unwrap(), "--json"]).contains("\"eve\""));
    photograph!(workspace.dalsegno(&["answer", "--waiting", "approval", "--yes", "0"]), @r"
        exit code: 2
        --- stdout
        --- stderr
        error: missing answer
          help: pass `--approve`, `--deny`, `--answer TEXT` or `--outcome happened|not-happened|@FILE`
        ");
}

/// A workspace with an agent that asks before it answers `wait`.
fn chatty() -> Workspace {
    let workspace = Workspace::plain();
    workspace.write(
        "agents/chatty.toml",
        "name = \"chatty\"\n\n[[steps]]\nid = \"how\"\nwhen = \"request.text === 'wait'\"\nask = \"Well?\"\n\n\
         [[steps]]\nrespond = \"{{request.text}}\"\n",
    );
    workspace
}

#[test]
fn a_session_goes_on_after_its_first_run_was_erased() {
    let workspace = chatty();
    let say = |text: &str| workspace.dalsegno(&["run", "chatty", text, "--session", "s"]);
    say("one");
    say("two");
    let runs = workspace.json(&["runs"]);
    let (second, first) = (runs[0]["run_id"].as_str().unwrap(), runs[1]["run_id"].as_str().unwrap());
    photograph!(workspace.dalsegno(&["erase", first, "--yes"]), @r"
        exit code: 0
        --- stdout
        --- stderr
        erased the content of 2 records of run [SHORT], and 0 files
        1 run of its session or forked from it holds what it said: [SHORT]; `--everywhere` erases that, too
        ");
    assert!(workspace.dalsegno(&["replay", second]).starts_with("exit code: 0"));
    assert!(say("three").starts_with("exit code: 0"));
    let erased = workspace.dalsegno(&["erase", first, "--everywhere", "--yes"]);
    assert!(erased.contains("and of 2 other runs that held it"), "{erased}");
    let again = workspace.json(&["erase", first, "--everywhere", "--yes"]);
    assert_eq!((&again["records"], &again["held_by"]), (&0.into(), &serde_json::json!([])));
    assert!(say("wait").starts_with("exit code: 4"));
}

#[test]
fn a_run_that_cannot_be_cancelled_is_abandoned() {
    let workspace = chatty();
    assert!(workspace.dalsegno(&["run", "chatty", "wait", "--session", "s"]).starts_with("exit code: 4"));
    photograph!(workspace.dalsegno(&["abandon", "last", "--reason", "no use"]), @r"
        exit code: 2
        --- stdout
        --- stderr
        error: run [SHORT] is healthy: end it with `dalsegno cancel [ID]`, which also settles its unfinished operations, or add `--force`
        ");
    let behind = rusqlite::Connection::open(workspace.path(".dalsegno/dalsegno.db")).unwrap();
    behind.execute("UPDATE record SET body = x'00' WHERE kind = 1", []).unwrap();
    drop(behind);
    let cancelled = workspace.dalsegno(&["cancel", "last"]);
    assert!(cancelled.contains("end it with `dalsegno abandon "), "{cancelled}");
    workspace.write("agents/broken.toml", "name = [");
    let abandoned = workspace.dalsegno(&["abandon", "last", "--reason", "damaged", "--by", "ada"]);
    assert!(abandoned.starts_with("exit code: 0") && abandoned.contains("is abandoned"), "{abandoned}");
    assert!(abandoned.contains("its records cannot be read"), "{abandoned}");
    assert_eq!(workspace.json(&["runs", "--status", "abandoned"]).as_array().unwrap().len(), 1);
    let again = workspace.dalsegno(&["abandon", "last", "--reason", "damaged"]);
    assert!(again.contains("has already ended (abandoned)"), "{again}");
    fs::remove_file(workspace.path("agents/broken.toml")).unwrap();
    assert!(workspace.dalsegno(&["run", "chatty", "two", "--session", "s"]).starts_with("exit code: 0"));
}

#[test]
fn a_backup_of_all_has_the_memory_and_doctor_examines_it() {
    let workspace = Workspace::plain();
    workspace.succeed(&["run", "note", "disk full on db-1"]);
    let settings = fs::read_to_string(workspace.path("dalsegno.toml")).unwrap();
    workspace.succeed(&["memory", "add", "INC-7", "kept in the memory"]);
    workspace.succeed(&[
        "memory",
        "add",
        "INC-8",
        "kept for an agent",
        "--scope",
        "agent",
        "--agent",
        "note",
    ]);
    let copied = workspace.json(&["backup", "--all", "copies"]);
    assert_eq!(copied["files"], serde_json::json!(["copies/dalsegno.db", "copies/memory.db"]), "{settings}");
    fs::remove_dir_all(workspace.path(".dalsegno")).unwrap();
    fs::rename(workspace.path("copies"), workspace.path(".dalsegno")).unwrap();
    assert!(workspace.succeed(&["memory", "show", "INC-7"]).contains("kept in the memory"));
    let narrow = workspace.succeed(&["memory", "show", "INC-8", "--scope", "agent", "--agent", "note"]);
    assert!(narrow.contains("kept for an agent"), "{narrow}");
    assert_eq!(workspace.json(&["doctor"])["memory"], true);

    let memory = workspace.path(".dalsegno/memory.db");
    let sound = fs::read(&memory).unwrap();
    fs::write(&memory, &sound[..sound.len() / 2]).unwrap();
    let output = workspace.dalsegno(&["doctor"]);
    assert!(output.starts_with("exit code: 1\n") && output.contains("memory.db"), "{output}");
    let failed = workspace.dalsegno(&["backup", "--all", "again"]);
    assert!(failed.starts_with("exit code: 1\n"), "{failed}");
    assert!(!workspace.path("again/memory.db").exists(), "a copy of a damaged memory is not left");
}

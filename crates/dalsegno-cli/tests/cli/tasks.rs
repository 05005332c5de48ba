//! Calls that a tool server makes tasks of, through crashes, questions and cancels. The server is a real child process that
//! keeps all it knows in files, so that a test says by a file what comes next and reads in one what was asked.
#![cfg(unix)]

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{Workspace, photograph};

/// A server of the stateless revision, in nothing but what a shell has built in. The work goes on until there is a file
/// `result`, `failed` or `cancelled`; with `asks` it waits for an answer; the task that `forgotten` names is not known; with
/// `hold` the call itself gets no answer, and with `hold-cancel` the wish to end a task gets none.
const PLANT: &str = r#"
reply() { printf '{"jsonrpc":"2.0","id":%s,"result":{"resultType":"%s",%s}}\n' "$id" "$1" "$2"; }
stands() {
  reply "$1" "\"taskId\":\"$task\",\"status\":\"$2\",\"ttlMs\":$ttl,\"pollIntervalMs\":100,\"createdAt\":\"2026-07-28T00:00:00Z\",\"lastUpdatedAt\":\"2026-07-28T00:00:00Z\"$3"
}
ended() { stands complete completed ",\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"$1\"}]}"; }
ttl=null; if [ -e ttl ]; then read -r ttl < ttl; fi
while IFS= read -r line; do
  id=${line#*\"id\":}; id=${id%%[,\}]*}
  task=${line#*\"taskId\":\"}; task=${task%%\"*}
  case $line in
  *'"method":"server/discover"'*) reply complete '"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private"' ;;
  *'"method":"tools/list"'*) reply complete '"tools":[{"name":"work","inputSchema":{"type":"object"}}],"ttlMs":0,"cacheScope":"private"' ;;
  *'"method":"tools/call"'*)
    n=0; if [ -e count ]; then read -r n < count; fi
    n=$((n + 1)); echo $n > count; task=t-$n
    echo begun >> log
    if [ ! -e hold ]; then stands task working; fi ;;
  *'"method":"tasks/get"'*)
    known=; if [ -e forgotten ]; then read -r known < forgotten; fi
    if [ "$task" = "$known" ]; then printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"unknown task"}}\n' "$id"
    elif [ -e result ]; then read -r text < result; ended "$text"
    elif [ -e failed ]; then read -r text < failed; stands complete failed ",\"error\":{\"code\":-32603,\"message\":\"$text\"}"
    elif [ -e cancelled ]; then stands complete cancelled
    elif [ -e answered ]; then ended "went on"
    elif [ -e asks ]; then stands complete input_required ',"inputRequests":{"seats":{"method":"elicitation/create","params":{"message":"how many seats?","requestedSchema":{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}}}}'
    else stands complete working; fi
    echo "asked $task" >> log ;;
  *'"method":"tasks/update"'*) echo "told $task" >> log; printf '%s\n' "$line" > answered; printf '{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete"}}\n' "$id" ;;
  *'"method":"tasks/cancel"'*) : > cancelled; echo "cancelled $task" >> log; while [ -e hold-cancel ]; do sleep 0.05; done; printf '{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete"}}\n' "$id" ;;
  esac
done
"#;

/// A workspace whose agent calls the server's tool, with this class.
fn plant(effect: &str) -> Workspace {
    let workspace = Workspace::empty().trusted();
    workspace.write("plant.sh", PLANT);
    workspace.write("dalsegno.toml", "[servers.plant]\ncommand = [\"/bin/sh\", \"plant.sh\"]\n");
    let agent = format!(
        "name = \"maker\"\nversion = \"1.0.0\"\ndescription = \"Makes.\"\n[tools]\nallow = [\"plant.*\"]\n\
         [tools.settings.\"plant.work\"]\neffect = \"{effect}\"\n\
         [[steps]]\nid = \"it\"\ntool = \"plant.work\"\n[[steps]]\nrespond = \"Made: {{{{steps.it}}}}\"\n"
    );
    workspace.write("agents/maker.toml", &agent);
    workspace
}

/// What the server did and was asked about its tasks.
fn log(workspace: &Workspace) -> Vec<String> {
    let text = fs::read_to_string(workspace.path("log")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

fn count(workspace: &Workspace, line: &str) -> usize {
    log(workspace).iter().filter(|logged| *logged == line).count()
}

/// Waits for something that another process does.
fn until(what: &str, mut done: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::yield_now();
        std::thread::park_timeout(Duration::from_millis(5));
    }
}

/// Starts a run, and waits until its server has logged this line.
fn start(workspace: &Workspace, line: &str) -> Child {
    let mut command = workspace.command(&["run", "maker", "go"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    until(line, || count(workspace, line) > 0);
    child
}

/// Starts a run, and kills its process when its server has logged this line.
fn killed(workspace: &Workspace, line: &str) {
    let mut child = start(workspace, line);
    child.kill().unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(9));
    assert_eq!(workspace.json(&["runs"])[0]["status"], "running");
}

fn events(workspace: &Workspace) -> Vec<Value> {
    workspace.json(&["show", "last"])["events"].as_array().unwrap().clone()
}

/// The data of the records of this kind.
fn of_kind(workspace: &Workspace, kind: &str) -> Vec<Value> {
    let all = events(workspace).into_iter();
    all.filter(|event| event["kind"] == kind).map(|event| event["data"].clone()).collect()
}

fn operation(workspace: &Workspace) -> String {
    let events = events(workspace);
    let asked = events.iter().find(|event| event["kind"] == "requested").unwrap();
    asked["operation"].as_str().unwrap().to_owned()
}

#[test]
fn a_run_that_was_killed_goes_on_with_the_same_task_and_its_result() {
    let workspace = plant("unsafe");
    killed(&workspace, "asked t-1");
    let tasked = of_kind(&workspace, "tasked");
    assert_eq!(tasked, [json!({ "attempt": 1, "server": "plant", "task": "t-1" })]);
    // It ends while nobody listens.
    workspace.write("result", "a thing\n");
    photograph!(workspace.dalsegno(&["resume", "last"]), @r"
        exit code: 0
        --- stdout
        Made: a thing
        --- stderr
        completed · 1 step · 1 tool call · [TOOK] · run [SHORT]
        ");
    assert_eq!(count(&workspace, "begun"), 1);
    assert_eq!(of_kind(&workspace, "attempted"), [] as [Value; 0], "it was the same attempt");
    let shown = workspace.succeed(&["show", "last"]);
    assert!(shown.lines().any(|line| line == "  task `t-1` at `plant`"), "{shown}");

    // A replay needs nobody.
    let before = log(&workspace);
    let replayed = workspace.succeed(&["replay", "last", "--json"]);
    assert!(
        replayed.contains("\"identical\": true") || replayed.contains("\"identical\":true"),
        "{replayed}"
    );
    assert_eq!(log(&workspace), before);
}

#[test]
fn a_process_that_was_killed_before_it_knew_the_task_leaves_the_call_in_doubt() {
    let workspace = plant("unsafe");
    workspace.write("hold", "");
    killed(&workspace, "begun");
    assert_eq!(of_kind(&workspace, "tasked"), [] as [Value; 0]);
    let output = workspace.dalsegno(&["resume", "last"]);
    assert!(output.starts_with("exit code: 4\n"), "{output}");
    assert!(output.contains("did `plant.work` take place?"), "{output}");
    assert_eq!(log(&workspace), ["begun"]);
}

#[test]
fn a_task_that_its_server_lost_is_in_doubt_if_it_may_not_be_repeated() {
    let workspace = plant("unsafe");
    // It may be forgotten at once: all the same its server is asked once.
    workspace.write("ttl", "1\n");
    killed(&workspace, "asked t-1");
    assert!(of_kind(&workspace, "tasked")[0]["expires_at"].is_u64(), "{:?}", of_kind(&workspace, "tasked"));
    workspace.write("forgotten", "t-1\n");
    let before = count(&workspace, "asked t-1");
    let output = workspace.dalsegno(&["resume", "last"]);
    assert!(output.starts_with("exit code: 4\n"), "{output}");
    assert!(output.contains("did `plant.work` take place?"), "{output}");
    let waiting = &workspace.json(&["show", "last"])["waiting_for"][0];
    assert!(waiting["reason"].as_str().unwrap().contains("does not know the task `t-1`"), "{waiting}");
    assert_eq!((count(&workspace, "asked t-1"), count(&workspace, "begun")), (before + 1, 1));

    // A person says that it did not take place: it is begun anew, with another task.
    workspace.write("result", "a thing\n");
    let output = workspace.dalsegno(&["resume", "last", "--outcome", "not-happened"]);
    assert!(output.contains("Made: a thing"), "{output}");
    assert_eq!(count(&workspace, "begun"), 2);
    assert_eq!(of_kind(&workspace, "tasked")[1]["task"], "t-2");
    workspace.succeed(&["replay", "last"]);
}

#[test]
fn a_task_that_its_server_lost_is_begun_again_if_it_only_reads() {
    let workspace = plant("read");
    killed(&workspace, "asked t-1");
    workspace.write("forgotten", "t-1\n");
    workspace.write("result", "a thing\n");
    let output = workspace.dalsegno(&["resume", "last"]);
    assert!(output.contains("Made: a thing"), "{output}");
    assert_eq!(count(&workspace, "begun"), 2);
    workspace.succeed(&["replay", "last"]);
}

#[test]
fn a_question_in_the_middle_of_a_task_is_answered_in_another_process() {
    let workspace = plant("unsafe");
    workspace.write("asks", "");
    let output = workspace.dalsegno(&["run", "maker", "go"]);
    assert!(output.starts_with("exit code: 4\n"), "{output}");
    assert!(output.contains("how many seats?"), "{output}");
    let output = workspace.dalsegno(&["resume", "last", "--answer", "{\"n\": 3}"]);
    assert!(output.contains("Made: went on"), "{output}");
    assert_eq!((count(&workspace, "begun"), count(&workspace, "told t-1")), (1, 1));
    let told = fs::read_to_string(workspace.path("answered")).unwrap();
    assert!(told.contains("\"seats\":{") && told.contains("\"n\":3"), "{told}");
    assert_eq!(count(&workspace, "cancelled t-1"), 0);
    assert_eq!(of_kind(&workspace, "tasked").len(), 1);
    workspace.succeed(&["replay", "last"]);
}

#[test]
fn a_no_to_the_question_of_a_task_ends_it_at_its_server() {
    let workspace = plant("unsafe");
    workspace.write("asks", "");
    assert!(workspace.dalsegno(&["run", "maker", "go"]).starts_with("exit code: 4\n"));
    let output = workspace.dalsegno(&["resume", "last", "--deny", "--reason", "not today"]);
    assert!(output.contains("not today"), "{output}");
    assert_eq!((count(&workspace, "begun"), count(&workspace, "cancelled t-1")), (1, 1));
    workspace.succeed(&["replay", "last"]);
}

#[test]
fn a_cancel_of_the_run_cancels_the_task_that_its_process_follows() {
    for effect in ["unsafe", "read"] {
        let workspace = plant(effect);
        let child = start(&workspace, "asked t-1");
        workspace.succeed(&["cancel", "last"]);
        let output = child.wait_with_output().unwrap();
        assert_eq!(workspace.json(&["runs"])[0]["status"], "cancelled", "{}", workspace.shown(&output));
        assert_eq!((count(&workspace, "begun"), count(&workspace, "cancelled t-1")), (1, 1), "{effect}");
        workspace.succeed(&["replay", "last"]);
    }
}

#[test]
fn a_cancel_of_a_run_that_nobody_performs_cancels_its_task() {
    let workspace = plant("unsafe");
    killed(&workspace, "asked t-1");
    workspace.succeed(&["cancel", "last"]);
    assert_eq!((count(&workspace, "begun"), count(&workspace, "cancelled t-1")), (1, 1));
    let late = of_kind(&workspace, "late");
    // The end says that it is under way, and then what came of it.
    assert_eq!(late.len(), 2, "{late:?}");
    assert!(late[1]["outcome"].to_string().contains("the task was cancelled"), "{late:?}");
    workspace.succeed(&["replay", "last"]);
}

#[test]
fn a_task_that_ended_before_its_run_was_cancelled_keeps_its_result() {
    let workspace = plant("unsafe");
    killed(&workspace, "asked t-1");
    workspace.write("result", "a thing\n");
    workspace.succeed(&["cancel", "last"]);
    let late = of_kind(&workspace, "late");
    assert!(late.len() == 2 && late[1].to_string().contains("a thing"), "{late:?}");
    assert_eq!(count(&workspace, "begun"), 1);
}

#[test]
fn a_call_that_is_given_up_has_its_task_cancelled_and_the_run_goes_on() {
    // Its own process is told.
    let workspace = plant("unsafe");
    let child = start(&workspace, "asked t-1");
    workspace.succeed(&["cancel", "last", "--op", &operation(&workspace), "--reason", "too slow"]);
    let output = child.wait_with_output().unwrap();
    let resolved = of_kind(&workspace, "resolved");
    assert!(resolved[0]["outcome"].to_string().contains("it was given up: too slow"), "{resolved:?}");
    assert_eq!(output.status.code(), Some(1), "{}", workspace.shown(&output));
    assert_eq!((count(&workspace, "begun"), count(&workspace, "cancelled t-1")), (1, 1));
    workspace.succeed(&["replay", "last"]);

    // Nobody performs it: whoever gives it up goes on with the run.
    let workspace = plant("unsafe");
    killed(&workspace, "asked t-1");
    workspace.dalsegno(&["cancel", "last", "--op", &operation(&workspace)]);
    let resolved = of_kind(&workspace, "resolved");
    assert!(resolved[0]["outcome"].to_string().contains("it was given up"), "{resolved:?}");
    assert_eq!((count(&workspace, "begun"), count(&workspace, "cancelled t-1")), (1, 1));

    // It waits for an answer.
    let workspace = plant("unsafe");
    workspace.write("asks", "");
    assert!(workspace.dalsegno(&["run", "maker", "go"]).starts_with("exit code: 4\n"));
    workspace.dalsegno(&["cancel", "last", "--op", &operation(&workspace)]);
    assert_eq!((count(&workspace, "begun"), count(&workspace, "cancelled t-1")), (1, 1));
}

#[test]
fn a_task_that_was_given_up_stays_given_up_although_its_process_dies_before_it_says_so() {
    let workspace = plant("unsafe");
    workspace.write("hold-cancel", "");
    let mut child = start(&workspace, "asked t-1");
    workspace.succeed(&["cancel", "last", "--op", &operation(&workspace), "--reason", "too slow"]);
    // The server was told, and the process dies while it waits for a word from it.
    until("the task is ended", || count(&workspace, "cancelled t-1") > 0);
    child.kill().unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(9));
    assert_eq!(of_kind(&workspace, "resolved"), [] as [Value; 0], "the journal does not have it yet");
    fs::remove_file(workspace.path("hold-cancel")).unwrap();
    // Nobody asks for it again: a worker alone leads the run to its end.
    let output = workspace.dalsegno(&["worker", "--until-idle"]);
    let resolved = of_kind(&workspace, "resolved");
    let [resolved] = &resolved[..] else { panic!("{resolved:?} {output}") };
    assert!(resolved["outcome"].to_string().contains("it was given up: too slow"), "{resolved}");
    assert_eq!(workspace.json(&["runs"])[0]["status"], "failed", "{output}");
    assert_eq!(count(&workspace, "begun"), 1);
    workspace.succeed(&["replay", "last"]);
}

#[test]
fn a_task_that_failed_because_its_time_is_over_says_so() {
    let workspace = plant("unsafe");
    workspace.write("ttl", "1\n");
    workspace.write("failed", "the time to live is over\n");
    let output = workspace.dalsegno(&["run", "maker", "go"]);
    assert!(output.starts_with("exit code: 1\n"), "{output}");
    assert!(output.contains("the task failed: the time to live is over (-32603)"), "{output}");
    assert_eq!((count(&workspace, "begun"), count(&workspace, "cancelled t-1")), (1, 0));
}

#[test]
fn an_interrupted_process_leaves_the_task_to_whoever_goes_on() {
    let workspace = plant("unsafe");
    let child = start(&workspace, "asked t-1");
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(workspace.json(&["runs"])[0]["status"], "running", "{}", workspace.shown(&output));
    assert_eq!(count(&workspace, "cancelled t-1"), 0);
    workspace.write("result", "a thing\n");
    let output = workspace.dalsegno(&["resume", "last"]);
    assert!(output.contains("Made: a thing"), "{output}");
    assert_eq!((count(&workspace, "begun"), of_kind(&workspace, "attempted").len()), (1, 0));
    workspace.succeed(&["replay", "last"]);
}

#[test]
fn a_task_has_as_much_time_as_the_settings_say() {
    let workspace = plant("unsafe");
    let settings = fs::read_to_string(workspace.path("dalsegno.toml")).unwrap();
    let limits = "\n[servers.plant.limits]\ncall_timeout = \"500ms\"\ntotal_timeout = \"500ms\"\n";
    workspace.write("dalsegno.toml", &format!("{settings}{limits}"));
    let output = workspace.dalsegno(&["run", "maker", "go"]);
    assert!(output.starts_with("exit code: 4\n"), "{output}");
    let waiting = &workspace.json(&["show", "last"])["waiting_for"][0];
    assert!(waiting["reason"].as_str().unwrap().contains("did not end within 500ms"), "{waiting}");
    assert_eq!((count(&workspace, "begun"), count(&workspace, "cancelled t-1")), (1, 1));
}

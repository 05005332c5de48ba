//! Servers that ask for more in the middle of a call: the run waits for a person, and the same call goes on.
#![cfg(unix)]

use dalsegno_core::Gate;
use dalsegno_runtime::{
    EngineError, GateInput, Received, RunEnd, RunReport, Settlement, ToolCallOptions, ToolboxError,
};
use serde_json::{Value, json};

use crate::support::{World, answer, waits};

/// A server of the stateless revision, in nothing but what a shell has built in. It keeps a list of what it was asked.
const CLERK: &str = r#"
reply() { printf '{"jsonrpc":"2.0","id":%s,"result":{"resultType":"%s","ttlMs":0,"cacheScope":"private",%s}}\n' "$id" "$1" "$2"; }
ask='"inputRequests":{"seats":{"method":"elicitation/create","params":{"message":"how many seats? (key tell-nobody-4711)","requestedSchema":{"type":"object","properties":{"n":{"type":"integer","minimum":1}},"required":["n"]}}}}'
while IFS= read -r line; do
  id=${line#*\"id\":}; id=${id%%[,\}]*}
  case $line in
  *'"method":"server/discover"'*) reply complete '"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}' ;;
  *'"method":"tools/list"'*) reply complete '"tools":[{"name":"book","inputSchema":{"type":"object"}},{"name":"wait","inputSchema":{"type":"object"}},{"name":"sample","inputSchema":{"type":"object"}}]' ;;
  *'"requestState":"ticket-7"'*)
    echo "went on as $$" >> calls; n=${line#*\"n\":}; n=${n%%\}*}
    reply complete "\"content\":[{\"type\":\"text\",\"text\":\"booked $n seats\"}]" ;;
  *'"requestState":"later"'*) reply complete '"content":[{"type":"text","text":"here it is"}]' ;;
  *'"name":"wait"'*) reply input_required '"requestState":"later"' ;;
  *'"name":"sample"'*) reply input_required '"inputRequests":{"x":{"method":"roots/list"}}' ;;
  *'"name":"book"'*)
    echo "asked as $$" >> calls
    reply input_required "$ask,\"requestState\":\"ticket-7\"" ;;
  esac
done
"#;

fn world(tool: &str) -> World {
    let agent = format!(
        "[tools]\nallow = [\"*\"]\n[[steps]]\nid = \"it\"\ntool = \"clerk.{tool}\"\nwith = {{ day = \"friday\" }}\n\
         [[steps]]\nrespond = \"{{{{steps.it}}}}\"\n"
    );
    let settings =
        "[servers.clerk]\ncommand = [\"/bin/sh\", \"clerk.sh\"]\nenv = { TOKEN = { file = \"token\" } }\n";
    let world = World::new(&agent).settings(settings);
    std::fs::write(world.path().join("clerk.sh"), CLERK).unwrap();
    std::fs::write(world.path().join("token"), "tell-nobody-4711\n").unwrap();
    world
}

/// What the server was asked, without the numbers of its processes; and how many processes there were.
fn calls(world: &World) -> (Vec<String>, usize) {
    let text = std::fs::read_to_string(world.path().join("calls")).unwrap();
    let lines = text.lines().map(|line| line.split_once(" as ").unwrap());
    let mut processes: Vec<&str> = lines.clone().map(|(_, process)| process).collect();
    processes.dedup();
    (lines.map(|(what, _)| what.to_owned()).collect(), processes.len())
}

fn given(value: Value) -> Settlement {
    Settlement::Give { value }
}

#[tokio::test]
async fn a_call_whose_server_asks_waits_for_a_person_and_goes_on_in_another_process() {
    let world = world("book");
    let report = world.run("go").await;
    let [waiting] = waits(&report) else { panic!("{report:?}") };
    assert_eq!(waiting.kind(), "input");
    assert!(waiting.question.ends_with("how many seats? (key [secret])"), "{}", waiting.question);
    assert_eq!(waiting.schema.as_ref().unwrap()["required"], json!(["n"]));
    assert_eq!(waiting.arguments, Some(json!({ "day": "friday" })));
    let Gate::Elicitation { request_state, .. } = &waiting.gate else { panic!("{waiting:?}") };
    assert_eq!(request_state.as_deref(), Some("ticket-7"));

    let report = world.resume(report.run, Some(given(json!({ "n": 3 })))).await;
    assert_eq!(answer(&report), "booked 3 seats");
    assert_eq!(calls(&world), (vec!["asked".to_owned(), "went on".to_owned()], 2));

    std::fs::remove_file(world.path().join("clerk.sh")).unwrap();
    let replay = world.engine().await.journal().replay(report.run).await.unwrap();
    assert!(replay.identical, "{replay:?}");
}

#[tokio::test]
async fn an_answer_that_does_not_fit_the_form_is_refused_and_nothing_is_recorded() {
    let world = world("book");
    let report = world.run("go").await;
    let inputs =
        vec![GateInput { operation: None, seen: None, settlement: given(json!({ "n": 0 })), by: None }];
    let error = world.engine().await.resume(report.run, inputs).await.err().unwrap();
    assert!(matches!(&error, EngineError::Answer { message, .. } if message.contains("`/n`")), "{error}");
    let approved = Settlement::Approve { edited: None, reason: None };
    let inputs = vec![GateInput { operation: None, seen: None, settlement: approved, by: None }];
    assert!(world.engine().await.resume(report.run, inputs).await.is_err());
    let again = world.resume(report.run, None).await;
    assert_eq!(waits(&again).len(), 1);
}

#[tokio::test]
async fn a_no_ends_the_call_without_another_word_to_its_server() {
    let world = world("book");
    let report = world.run("go").await;
    let report =
        world.resume(report.run, Some(Settlement::Deny { reason: Some("not on fridays".into()) })).await;
    let RunEnd::Ended(response) = &report.end else { panic!("{report:?}") };
    assert!(format!("{response:?}").contains("not on fridays"), "{response:?}");
    assert_eq!(calls(&world).0, ["asked"]);
}

#[tokio::test]
async fn outside_of_a_run_a_call_whose_server_asks_says_where_it_could_wait() {
    let world = world("book");
    let engine = world.engine().await;
    let (tool, options) = ("clerk.book".parse().unwrap(), ToolCallOptions::default());
    let error = engine.call_tool(&tool, json!({}), &options).await.unwrap_err();
    assert!(matches!(&error, ToolboxError::NoAnswer { received: Received::No, .. }), "{error}");
    assert_eq!(
        error.to_string(),
        "`clerk.book` did not answer: its server asks for input first (seats), and only a run can wait for that: \
         allow the tool to an agent"
    );
    assert_eq!(calls(&world).0, ["asked"]);
}

#[tokio::test]
async fn a_server_that_only_wants_to_be_asked_again_is_asked_again() {
    let report: RunReport = world("wait").run("go").await;
    assert_eq!(answer(&report), "here it is");
}

#[tokio::test]
async fn what_is_no_form_for_a_person_fails_the_call() {
    let report = world("sample").run("go").await;
    let RunEnd::Ended(response) = &report.end else { panic!("{report:?}") };
    assert!(format!("{response:?}").contains("roots/list"), "{response:?}");
}

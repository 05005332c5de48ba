//! Documents by API: what is written is in use from the next start on, and nothing is lost on the way.

use dalsegno_access::Scope;
use dalsegno_core::AgentRequest;
use dalsegno_runtime::{Engine, GateInput, RunEnd, Settlement};
use serde_json::{Value, json};

use crate::client::{Answer, Client};
use crate::world::World;

pub(crate) const NEW: (&str, &str) = ("if-none-match", "*");
pub(crate) const ANY: (&str, &str) = ("if-match", "*");

/// A tool that says a word.
pub(crate) fn says(name: &str, word: &str) -> String {
    // A text without a template is an expression.
    let output = if word.contains("{{") { word.to_owned() } else { format!("'{word}'") };
    let document = json!({
        "name": name,
        "description": "Says a word.",
        "parameters": [],
        "actions": [{ "type": "log", "log_message": "it was asked" }],
        "output": output,
    });
    format!("{document:#}\n")
}

/// An agent that calls a tool and answers with what it returns.
pub(crate) fn calls(name: &str, tool: &str) -> String {
    format!(
        "name = \"{name}\"\n[tools]\nallow = [\"{tool}\"]\n[[steps]]\nid = \"word\"\ntool = \"{tool}\"\n[[steps]]\nrespond = \"{{{{steps.word}}}}\"\n"
    )
}

pub(crate) fn etag(answer: &Answer) -> String {
    answer.header("etag").unwrap_or_else(|| panic!("no ETag: {answer:?}"))
}

pub(crate) fn write(world: &World, file: &str, text: &str) {
    let path = world.root().join(file);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

/// A workspace with a tool `word`, and an agent that calls it.
async fn world() -> (World, Client) {
    let world = World::new().await;
    write(&world, "tools/word.json", &says("word", "of the file"));
    write(&world, "agents/speaker.toml", &calls("speaker", "word"));
    let client = world.all("*");
    (world, client)
}

async fn answer(client: &Client, tenant: &str) -> Value {
    let body = json!({ "agent": "speaker", "tenant": tenant });
    let run = client.post_with("/v1/runs", &[("prefer", "wait=30")], &body).await;
    assert_eq!(run.status, 201, "{run:?}");
    run.json()["answer"].clone()
}

/// What a run of another process answers, which has the same folder open.
async fn elsewhere(engine: &Engine) -> String {
    let response =
        engine.execute_agent_request(&"speaker".parse().unwrap(), AgentRequest::text("")).await.unwrap();
    response.answer.unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_written_is_in_use_from_the_next_start_on_in_every_process() {
    let (world, client) = world().await;
    let other = Engine::open(world.root()).await.unwrap();
    assert_eq!(
        (answer(&client, "default").await, elsewhere(&other).await),
        (json!("of the file"), "of the file".to_owned())
    );
    let file = client.get("/v1/tools/word").await;
    assert_eq!((file.status, file.header("dalsegno-layer").as_deref()), (200, Some("file")));
    assert_eq!(file.text, says("word", "of the file"));

    let put =
        client.put("/v1/tools/word", "json", ("if-match", &etag(&file)), &says("word", "written")).await;
    assert_eq!(put.status, 200, "{put:?}");
    assert_eq!(
        (answer(&client, "default").await, elsewhere(&other).await),
        (json!("written"), "written".to_owned())
    );
    let shown = client.get("/v1/tools/word").await;
    assert_eq!((shown.text.clone(), etag(&shown)), (says("word", "written"), etag(&put)));
    assert_eq!(shown.header("dalsegno-layer").as_deref(), Some("catalogue"));
    let seen = client.send("GET", "/v1/tools/word", &[("if-none-match", &etag(&put))], b"").await;
    assert_eq!((seen.status, seen.text.as_str()), (304, ""));

    // A tenant's own stands in for it, for that tenant alone.
    let own = "/v1/tenants/acme/tools/word";
    let put = client.put(own, "json", NEW, &says("word", "of acme")).await;
    assert_eq!((put.status, put.header("location").as_deref()), (201, Some(own)));
    assert_eq!(answer(&client, "acme").await, "of acme");
    assert_eq!(answer(&client, "rival").await, "written");

    // What is deleted uncovers what is below.
    let gone = client.delete("/v1/tools/word", ANY).await;
    assert_eq!((gone.status, gone.json()["uncovers"]["layer"].clone()), (200, json!("file")));
    assert_eq!(
        (answer(&client, "default").await, elsewhere(&other).await),
        (json!("of the file"), "of the file".to_owned())
    );
    assert_eq!(answer(&client, "acme").await, "of acme");
    assert_eq!(client.delete(own, ANY).await.json()["uncovers"], Value::Null);
    assert_eq!(answer(&client, "acme").await, "of the file");
    client.get(own).await.is_problem(404, "not_found");
    // A file is not deleted, and neither is what is not there.
    client.delete("/v1/tools/word", ANY).await.is_problem(409, "conflict");
    client.delete(own, ANY).await.is_problem(404, "not_found");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_a_tool_and_a_tenant_are_added_without_any_file() {
    let world = World::new().await;
    let client = world.all("*");
    let tenant =
        client.put("/v1/tenants/new", "toml", NEW, "name = \"new\"\n[settings]\nword = \"set\"\n").await;
    assert_eq!(tenant.status, 201, "{tenant:?}");
    let tool = client
        .put("/v1/tenants/new/tools/word", "json", NEW, &says("word", "{{tenant.settings.word}}"))
        .await;
    assert_eq!(tool.status, 201, "{tool:?}");
    let agent = client.put("/v1/agents/speaker", "toml", NEW, &calls("speaker", "word")).await;
    assert_eq!(agent.status, 201, "{agent:?}");
    assert_eq!(answer(&client, "new").await, "set");
    let agents = client.get("/v1/agents").await.json();
    let speaker =
        agents["agents"].as_array().unwrap().iter().find(|agent| agent["name"] == "speaker").unwrap().clone();
    assert_eq!(speaker["layer"], "catalogue");
    let tools = client.get("/v1/tenants/new/tools").await.json();
    assert_eq!(
        (
            tools["items"][0]["name"].clone(),
            tools["items"][0]["of"].clone(),
            tools["items"][0]["layer"].clone()
        ),
        (json!("word"), json!("tenant"), json!("catalogue"))
    );
    // The tenant cannot go before its tools do.
    client.delete("/v1/tenants/new", ANY).await.is_problem(422, "invalid");
    client.delete("/v1/agents/speaker", ANY).await;
    client.delete("/v1/tenants/new/tools/word", ANY).await;
    assert_eq!(client.delete("/v1/tenants/new", ANY).await.status, 200);
    client
        .put("/v1/tenants/new/tools/word", "json", NEW, &says("word", "x"))
        .await
        .is_problem(404, "not_found");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_keeps_what_it_began_with() {
    let (world, client) = world().await;
    let text = "name = \"slow\"\n[tools]\nallow = [\"word\"]\n[[steps]]\nid = \"n\"\nask = \"Now?\"\n[[steps]]\nid = \"word\"\ntool = \"word\"\n[[steps]]\nrespond = \"{{steps.word}}\"\n";
    assert_eq!(client.put("/v1/agents/slow", "toml", NEW, text).await.status, 201);
    let run = client.start("slow", "").await;
    assert_eq!(run["status"], "suspended");
    assert_eq!(client.put("/v1/tools/word", "json", ANY, &says("word", "later")).await.status, 200);
    // Another process resumes it.
    let other = Engine::open(world.root()).await.unwrap();
    let operation = run["waiting_for"][0]["operation"].as_str().unwrap().parse().unwrap();
    let settlement = Settlement::Give { value: json!("yes") };
    let given = GateInput { operation: Some(operation), seen: None, settlement, by: None };
    let handle = other.resume(run["run_id"].as_str().unwrap().parse().unwrap(), vec![given]).await.unwrap();
    let report = handle.finish().await.unwrap();
    let RunEnd::Ended(response) = report.end else { panic!("{report:?}") };
    assert_eq!(response.answer.as_deref(), Some("of the file"));
    assert_eq!(answer(&client, "default").await, "later");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_writer_says_what_it_has_seen_and_of_two_one_is_refused() {
    let (world, client) = world().await;
    let other_client = world.all("*");
    let path = "/v1/tools/word";
    let seen = etag(&client.get(path).await);
    client
        .send("PUT", path, &[("content-type", "application/json")], b"{}")
        .await
        .is_problem(428, "precondition_required");
    client.send("DELETE", path, &[], b"").await.is_problem(428, "precondition_required");
    client.put(path, "json", NEW, &says("word", "x")).await.is_problem(412, "stale");
    let other = format!("\"{}\"", "0".repeat(64));
    client.put(path, "json", ("if-match", &other), &says("word", "x")).await.is_problem(412, "stale");
    let weak = format!("W/{seen}");
    client.put(path, "json", ("if-match", &weak), &says("word", "x")).await.is_problem(412, "stale");
    for round in 0..8 {
        let seen = etag(&client.get(path).await);
        let texts = [0, 1].map(|who| says("word", &format!("{round} {who}")));
        let [one, two] = &texts;
        let condition = ("if-match", seen.as_str());
        let (one, two) = tokio::join!(
            client.put(path, "json", condition, one),
            other_client.put(path, "json", condition, two)
        );
        let mut statuses = [one.status, two.status];
        statuses.sort_unstable();
        assert_eq!(statuses, [200, 412], "round {round}");
        let won = if one.status == 200 { 0 } else { 1 };
        assert_eq!(client.get(path).await.text, texts[won]);
    }
    // Documents that have nothing to do with each other are all written, however many write at once.
    let paths: Vec<String> = (0..6).map(|number| format!("/v1/tools/tool_{number}")).collect();
    let puts = paths.iter().map(|path| {
        let (client, name) = (client.clone(), path.rsplit('/').next().unwrap().to_owned());
        async move { client.put(path, "json", NEW, &says(&name, "x")).await.status }
    });
    assert_eq!(futures::future::join_all(puts).await, [201; 6]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_change_is_kept_with_who_made_it_and_earlier_versions_are_read() {
    let (world, client) = world().await;
    let path = "/v1/tenants/acme/tools/own";
    let acme = world.client("acme", &[Scope::ToolsRead, Scope::ToolsWrite]);
    let first = acme.put(path, "json", NEW, &says("own", "one")).await;
    assert_eq!(first.json()["by"]["key"], acme.id.as_str());
    // The same text again is no change.
    let again = acme.put(path, "json", ANY, &says("own", "one").replace('\n', "\r\n")).await;
    assert_eq!((again.status, etag(&again)), (200, etag(&first)));
    client.put(path, "json", ANY, &says("own", "two")).await;
    acme.delete(path, ANY).await;
    let versions = acme.get(&format!("{path}/versions")).await.json();
    let told: Vec<_> = versions["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one["number"].clone(), one["by"]["key"].clone()))
        .collect();
    let (own, all) = (json!(acme.id), json!(client.id));
    assert_eq!(told, [(json!(3), own.clone()), (json!(2), all), (json!(1), own)]);
    assert_eq!(versions["items"][0]["version"], Value::Null);
    let version = etag(&first).trim_matches('"').to_owned();
    let read = acme.get(&format!("{path}/versions/{version}")).await;
    assert_eq!((read.status, read.text.as_str()), (200, says("own", "one").as_str()));
    for wrong in ["x", &"0".repeat(64), &version.to_uppercase(), ".."] {
        acme.get(&format!("{path}/versions/{wrong}")).await.is_problem(404, "not_found");
    }
    // A file has one version, which is the one that is there.
    assert_eq!(client.get("/v1/tools/word/versions").await.json()["items"], json!([]));
    client.get("/v1/tools/nothing/versions").await.is_problem(404, "not_found");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_document_is_checked_with_all_that_it_touches() {
    let (world, client) = world().await;
    let broken = says("word", "x").replace(
        "\"parameters\": []",
        "\"parameters\": [{\"name\": \"who\", \"type\": \"string\", \"required\": true}]",
    );
    let refused = client.put("/v1/tools/word", "json", ANY, &broken).await;
    refused.is_problem(422, "invalid");
    let problem = refused.json();
    assert!(problem["detail"].as_str().unwrap().contains("`speaker`"), "{problem}");
    let found = &problem["diagnostics"][0];
    assert_eq!((found["file"].as_str(), found["line"].as_u64()), (Some("agents/speaker.toml"), Some(6)));
    let text = calls("speaker", "word");
    let (offset, length) =
        (found["offset"].as_u64().unwrap() as usize, found["length"].as_u64().unwrap() as usize);
    assert_eq!(&text[offset..offset + length], "\"word\"");
    let checked = client
        .send("POST", "/v1/tools/word/check", &[("content-type", "application/json")], broken.as_bytes())
        .await;
    assert_eq!(
        (checked.json()["ok"].clone(), checked.json()["agents"].clone()),
        (json!(false), json!(["speaker"]))
    );
    // Nothing was written, by either.
    assert_eq!(client.get("/v1/tools/word").await.header("dalsegno-layer").as_deref(), Some("file"));
    assert!(!world.root().join(".dalsegno/catalogue.db").exists());
    // An agent that nothing offers its tool to, and one that another agent calls.
    client.put("/v1/agents/lost", "toml", NEW, &calls("lost", "nothing")).await.is_problem(422, "invalid");
    let calling = "name = \"calling\"\n[tools]\nallow = [\"agents.called\"]\n[[steps]]\nid = \"a\"\nagent = \"called\"\n";
    client.put("/v1/agents/calling", "toml", NEW, calling).await.is_problem(422, "invalid");
    let called = "name = \"called\"\ndescription = \"Answers.\"\n[[steps]]\nrespond = \"x\"\n";
    assert_eq!(client.put("/v1/agents/called", "toml", NEW, called).await.status, 201);
    let put = client.put("/v1/agents/calling", "toml", NEW, calling).await;
    assert_eq!(put.status, 201, "{put:?}");
    let refused = client.delete("/v1/agents/called", ANY).await;
    assert!(refused.is_problem(422, "invalid").text.contains("calling"), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_later_file_breaks_is_out_of_use_alone() {
    let (world, client) = world().await;
    assert_eq!(client.put("/v1/tools/second", "json", NEW, &says("second", "x")).await.status, 201);
    assert_eq!(client.put("/v1/agents/other", "toml", NEW, &calls("other", "second")).await.status, 201);
    // The operator gives the name of the document to a tool that a program brings.
    write(&world, "agents/other.toml", "this is not even TOML");
    assert_eq!(client.start("other", "").await["answer"], "x", "the document stands in for the file");
    write(&world, "agents/speaker.toml", "name = ");
    client.post("/v1/runs", &json!({ "agent": "speaker" })).await.is_problem(422, "invalid");
    assert_eq!(client.start("other", "").await["answer"], "x");
    // Other documents are written all the same, and what is broken can be mended by a document.
    assert_eq!(client.put("/v1/tools/third", "json", NEW, &says("third", "x")).await.status, 201);
    assert_eq!(client.put("/v1/agents/speaker", "toml", ANY, &calls("speaker", "word")).await.status, 200);
    assert_eq!(answer(&client, "default").await, "of the file");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_is_tried_before_it_is_written() {
    let (world, client) = world().await;
    let path = "/v1/tenants/acme/tools/meal/try";
    let meal = json!({
        "name": "meal",
        "description": "Logs a meal.",
        "parameters": [{ "name": "dish", "type": "string", "required": true }],
        "actions": [{ "type": "api_call", "url": "https://meals.example/log", "body": { "dish": "{{params.dish}}" } }],
    });
    let body = json!({ "document": meal, "params": { "dish": "soup" } });
    let refused = client.post(path, &body).await;
    assert!(refused.is_problem(422, "invalid").text.contains("has no answer"), "{refused:?}");
    // No person is asked about what a live call does, so it takes the scopes of a start and of an approval.
    let mut live = body.clone();
    live["live"] = json!(true);
    for scopes in [
        &[Scope::ToolsWrite][..],
        &[Scope::ToolsWrite, Scope::RunsWrite],
        &[Scope::ToolsWrite, Scope::AnswersWrite],
    ] {
        world.client("acme", scopes).post(path, &live).await.is_problem(403, "forbidden");
    }
    let may = [Scope::ToolsWrite, Scope::RunsWrite, Scope::AnswersWrite];
    let tried = world.client("acme", &may).post(path, &live).await;
    // It is performed, and the tenant may reach no such host.
    assert_eq!((tried.status, tried.json()["outcome"]["ok"].clone()), (200, json!(false)), "{tried:?}");
    assert!(tried.text.contains("not_permitted") || tried.text.contains("egress"), "{tried:?}");
    // What it asked for, and what came of it, is played back without the scopes.
    let mut with = body.clone();
    with["recording"] = tried.json()["recording"].clone();
    let played = world.client("acme", &[Scope::ToolsWrite]).post(path, &with).await;
    assert_eq!((played.status, played.json()["outcome"].clone()), (200, tried.json()["outcome"].clone()));
    with["live"] = json!(true);
    client.post(path, &with).await.is_problem(422, "invalid");
    let broken = client.post(path, &json!({ "document": { "name": "meal" } })).await;
    let found = broken.is_problem(422, "invalid").json()["diagnostics"][0].clone();
    // It was sent as a value: a line of a text would be one that the client does not have.
    assert!(found["message"].is_string() && found["line"].is_null(), "{broken:?}");
    client.post("/v1/tools/word/try", &json!({ "tenant": "missing" })).await.is_problem(404, "not_found");
    assert_eq!(
        client.post("/v1/tools/word/try", &json!({})).await.json()["outcome"]["output"],
        "of the file"
    );
    assert_eq!(world.runs().await, 0);
}

//! Models that are given with the run: an endpoint, another model of the workspace, files that go with the input.

use std::path::{Path, PathBuf};

use crate::double::{Double, words};
use crate::support::{Workspace, photograph};

/// The agent that the repository ships, in a workspace without its memory's seeds.
fn responder() -> Workspace {
    let workspace = Workspace::guarded();
    let agent = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../agents/responder.toml");
    std::fs::copy(agent, workspace.path("agents/responder.toml")).unwrap();
    workspace.write("replies.toml", "[[replies]]\ntext = \"From the script.\"\n");
    let settings = std::fs::read_to_string(workspace.path("dalsegno.toml")).unwrap();
    let script = "[models.default]\nprovider = \"script\"\nfile = \"replies.toml\"\n\n";
    workspace.write("dalsegno.toml", &format!("{script}{settings}"));
    workspace
}

fn endpoint(double: &Double) -> String {
    format!("openai:test@{}", double.url())
}

/// Every file below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = folder.read_dir().unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

#[test]
fn an_endpoint_takes_the_place_of_the_agents_model() {
    let (workspace, double) = (responder(), Double::start(vec![words("The disk is full on db-1.")]));
    photograph!(workspace.dalsegno(&["run", "responder", "disk full", "--endpoint", &endpoint(&double)]), @r"
        exit code: 0
        --- stdout
        The disk is full on db-1.
        --- stderr
        completed · 2 steps · 1 model call · 17 tokens · [TOOK] · run [SHORT]
        ");
    let received = &double.received()[0];
    assert_eq!((received.path.as_str(), &received.authorization), ("/v1/chat/completions", &None));
    assert_eq!((&received.body["model"], &received.body["stream"]), (&"test".into(), &true.into()));
    assert!(received.body["messages"].to_string().contains("disk full"), "{}", received.body);
    assert!(received.body["tools"].to_string().contains("risk"), "{}", received.body);
    workspace.succeed(&["replay", "last"]);
    // Without the flag the agent's own model is asked.
    assert_eq!(workspace.succeed(&["run", "responder", "disk full"]), "From the script.\n");
    assert_eq!(double.received().len(), 1);
}

#[test]
fn the_key_of_an_endpoint_goes_to_the_endpoint_and_nowhere_else() {
    const KEY: &str = "sk-canary-4711-secret";
    let double = Double::start(vec![words(&format!("Your key is {KEY}, is it not?"))]);
    let workspace = responder();
    let endpoint = endpoint(&double);
    let mut command =
        workspace.command(&["run", "responder", "disk full", "--endpoint", &endpoint, "--verbose"]);
    let output = command.env("DALSEGNO_API_KEY", KEY).env("DALSEGNO_LOG", "trace").output().unwrap();
    let shown = workspace.shown(&output);
    assert!(output.status.success(), "{shown}");
    assert_eq!(double.received()[0].authorization.as_deref(), Some("Bearer sk-canary-4711-secret"));
    assert!(shown.contains("Your key is") && !shown.contains("canary-4711"), "{shown}");
    let show = workspace.succeed(&["show", "last", "--json"]);
    assert!(show.contains("Your key is") && !show.contains("canary-4711"), "{show}");
    let journal = files(&workspace.path(".dalsegno"));
    assert!(journal.iter().any(|file| file.ends_with("dalsegno.db")), "{journal:?}");
    for file in journal {
        let bytes = std::fs::read(&file).unwrap();
        assert!(!bytes.windows(11).any(|window| window == b"canary-4711"), "{}", file.display());
    }
}

#[test]
fn an_endpoint_that_cannot_be_used_starts_no_run() {
    let workspace = Workspace::plain();
    photograph!(workspace.dalsegno(&["run", "chat", "hello", "--endpoint", "qwen3@http://127.0.0.1:1/v1"]), @r"
        exit code: 2
        --- stdout
        --- stderr
        error: invalid value 'qwen3@http://127.0.0.1:1/v1' for '--endpoint <PROVIDER:MODEL@URL>': expected PROVIDER:MODEL@URL, such as openai:qwen3@http://127.0.0.1:11434/v1; providers: openai, openai-responses, anthropic, gemini, bedrock

        For more information, try '--help'.
        ");
    photograph!(workspace.dalsegno(&["run", "note", "hello", "--endpoint", "openai:test@http://127.0.0.1:1/v1"]), @r"
        exit code: 2
        --- stdout
        --- stderr
        error: agent `note` has no model, so `--endpoint` has nothing to replace
          help: name an agent of this workspace that has `[model]`
        ");
    photograph!(workspace.dalsegno(&["run", "chat", "hello", "--endpoint", "openai:test@http://example.com/v1"]), @r"
        exit code: 2
        --- stdout
        --- stderr
        error: invalid value 'openai:test@http://example.com/v1' for '--endpoint <PROVIDER:MODEL@URL>': requests to `http://example.com/v1` would be unencrypted: use `https://…`, or a model of `dalsegno.toml` with `allow_http`

        For more information, try '--help'.
        ");
    photograph!(workspace.dalsegno(&["run", "chat", "hello", "--endpoint", "bedrock:amazon.nova-lite-v1:0"]), @r"
        exit code: 2
        --- stdout
        --- stderr
        error: invalid value 'bedrock:amazon.nova-lite-v1:0' for '--endpoint <PROVIDER:MODEL@URL>': `bedrock` needs the address of a region, such as bedrock:amazon.nova-lite-v1:0@https://bedrock-runtime.eu-central-1.amazonaws.com

        For more information, try '--help'.
        ");
    for url in ["https://ada:key@example.com/v1", "http://localhost.example.com/v1", "http://10.0.0.1/v1"] {
        let output =
            workspace.dalsegno(&["run", "chat", "hello", "--endpoint", &format!("openai:test@{url}")]);
        assert!(output.starts_with("exit code: 2\n"), "{output}");
    }
    assert_eq!(workspace.json(&["runs"]), serde_json::json!([]));
}

#[test]
fn another_model_of_the_workspace_is_named() {
    let (workspace, double) = (Workspace::plain(), Double::start(vec![words("Hello to you.")]));
    let settings = std::fs::read_to_string(workspace.path("dalsegno.toml")).unwrap();
    let other = double.settings().replace("models.default", "models.other");
    workspace.write("dalsegno.toml", &format!("{other}\n{settings}"));
    assert_eq!(workspace.succeed(&["run", "chat", "hello", "--model", "other"]), "Hello to you.\n");
    assert_eq!(workspace.succeed(&["run", "chat", "hello"]), "You said: hello\n");
    assert_eq!(double.received().len(), 1);
    photograph!(workspace.dalsegno(&["run", "chat", "hello", "--model", "otter"]), @r"
        exit code: 2
        --- stdout
        --- stderr
        error: `dalsegno.toml` has no model `otter`: it has default, other
          help: did you mean `other`?
        ");
    photograph!(workspace.dalsegno(&["run", "note", "hello", "--model", "other"]), @r"
        exit code: 2
        --- stdout
        --- stderr
        error: cannot replace the model of agent `note`: its agent is a plan: a model can be changed in an agent that has `[model]`
        ");
    assert_eq!(workspace.json(&["runs"]).as_array().unwrap().len(), 2);
}

/// From the files to the wire: schemas keep their order, and the settings of the model and of the agent arrive.
#[test]
fn what_the_files_say_of_a_model_arrives_in_the_request() {
    let reply = r#"{"why": "it is full", "answer": "yes"}"#;
    let (workspace, double) = (Workspace::plain(), Double::start(vec![words(reply)]));
    workspace.write(
        "dalsegno.toml",
        &format!("{}seed = 7\ntop_p = 0.5\nheaders = {{ x-team = \"ops\" }}\n", double.settings()),
    );
    workspace.write(
        "tools/rate.json",
        r#"{"name": "rate", "description": "Rates.", "actions": [{"type": "respond", "message": "ok"}], "parameters": [
            {"name": "why", "type": "string", "required": true}, {"name": "grade", "type": "integer", "required": true}]}"#,
    );
    workspace.write(
        "agents/judge.toml",
        "name = \"judge\"\ntools.allow = [\"rate\"]\n[model]\nuse = \"default\"\nfirst = \"rate\"\ntop_p = 0.25\n[output.schema]\n\
         type = \"object\"\nproperties = { why = { type = \"string\" }, answer = { type = \"string\" } }\n\
         required = [\"why\", \"answer\"]\n",
    );
    workspace.succeed(&["run", "judge", "disk full"]);
    let received = &double.received()[0];
    let places =
        ["\"why\":{", "\"grade\":{", "\"answer\":{"].map(|property| received.text.find(property).unwrap());
    assert!(places[0] < places[1], "{}", received.text);
    let answer = &received.text[received.text.find("response_format").unwrap()..];
    assert!(answer.find("\"why\":{").unwrap() < answer.find("\"answer\":{").unwrap(), "{answer}");
    assert_eq!((&received.body["seed"], &received.body["top_p"]), (&7.into(), &0.25.into()));
    assert_eq!(received.body["tool_choice"]["function"]["name"], "rate");
    assert_eq!(received.body["response_format"]["json_schema"]["strict"], true);
    workspace.succeed(&["replay", "last"]);
}

#[test]
fn a_text_that_is_attached_arrives_in_the_request() {
    let (workspace, double) = (Workspace::plain(), Double::start(vec![words("I have read it.")]));
    workspace.write("dalsegno.toml", &double.settings());
    workspace.write("report.txt", "the fan of rack 7 stands still");
    let answer = workspace.succeed(&["run", "chat", "read this", "--attach", "report.txt"]);
    assert_eq!(answer, "I have read it.\n");
    let messages = double.received()[0].body["messages"].to_string();
    assert!(
        messages.contains("the fan of rack 7 stands still") && messages.contains("read this"),
        "{messages}"
    );
    workspace.succeed(&["replay", "last"]);

    workspace.write("report.xyz", "of no known kind");
    photograph!(workspace.dalsegno(&["run", "chat", "read this", "--attach", "report.xyz"]), @r"
        exit code: 2
        --- stdout
        --- stderr
        error: `report.xyz` has an unknown file type
          help: attach a png, jpg, gif, webp, pdf, txt, log, md, csv or json file, or sound (wav, mp3, ogg, flac, aac, aiff) or a video (mp4, mpeg, mov, webm) for a model over `gemini`
        ");
    photograph!(workspace.dalsegno(&["run", "chat", "read this", "--attach", "nothing.txt"]), @r"
        exit code: 2
        --- stdout
        --- stderr
        error: cannot read `nothing.txt`: No such file or directory (os error 2)
          help: name a readable file of UTF-8 text, or `-`
        ");
    assert_eq!(double.received().len(), 1);
}

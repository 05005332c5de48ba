//! A workspace with errors: what works all the same, and what `dalsegno check` says of the files beside its own.

use crate::support::Workspace;

const WAITS: &str =
    "name = \"waits\"\nversion = \"1.0.0\"\ndescription = \"Waits.\"\n\n[[steps]]\nask = \"Go on?\"\n";

#[test]
fn a_run_is_ended_and_read_whatever_errors_the_files_have() {
    for (file, text) in [
        ("agents/broken.toml", "[[[\n"),
        ("agents/waits.toml", "name = \n"),
        ("tools/broken.json", "{"),
        ("tenants/broken.toml", "[[[\n"),
        ("dalsegno.lock", "[[[\n"),
        ("dalsegno.toml", "[store]\npath = \".dalsegno/dalsegno.db\"\n[unknown]\n"),
    ] {
        let workspace = Workspace::plain();
        workspace.write("agents/waits.toml", WAITS);
        assert!(workspace.dalsegno(&["run", "waits"]).starts_with("exit code: 4"), "{file}");
        workspace.write(file, text);
        for args in [
            &["runs"][..],
            &["show", "last"],
            &["replay", "last"],
            &["export", "last", "x"],
            &["cancel", "last"],
        ] {
            let shown = workspace.dalsegno(args);
            assert!(shown.starts_with("exit code: 0"), "{file}: {args:?}: {shown}");
        }
        assert_eq!(workspace.json(&["runs"])[0]["status"], "cancelled", "{file}");
    }
}

#[test]
fn what_editors_keep_beside_a_file_is_no_agent() {
    let workspace = Workspace::plain();
    for file in [
        "agents/.#note.toml",
        "agents/~note.toml",
        "agents/#x.toml",
        "agents/.note.toml",
        "agents/note.toml~",
        "tools/.#a.json",
        "tenants/~a.toml",
    ] {
        workspace.write(file, "[[[");
    }
    std::fs::create_dir_all(workspace.path("tenants/.cache")).unwrap();
    let shown = workspace.dalsegno(&["check"]);
    assert!(shown.starts_with("exit code: 0"), "{shown}");
}

/// What `check` says, which must be an error.
fn refused(workspace: &Workspace) -> String {
    let shown = workspace.dalsegno(&["check"]);
    assert!(shown.starts_with("exit code: 2"), "{shown}");
    shown
}

#[test]
fn scripts_cassettes_and_seeds_are_read_by_a_check() {
    let workspace = Workspace::plain();
    workspace.write("replies.toml", "[[reply]]\ntext = \"x\"\n");
    let shown = refused(&workspace);
    assert!(shown.contains("reply"), "{shown}");

    let workspace = Workspace::plain();
    let settings = std::fs::read_to_string(workspace.path("dalsegno.toml")).unwrap();
    workspace.write("seeds.jsonl", "{\"entity\": \"a\"}\n");
    workspace
        .write("dalsegno.toml", &settings.replace("[memory]\n", "[memory]\nseeds = [\"seeds.jsonl\"]\n"));
    let shown = refused(&workspace);
    assert!(shown.contains("seeds.jsonl") && shown.contains("line 1"), "{shown}");
    assert!(!workspace.path(".dalsegno").exists(), "a check makes nothing");

    let workspace = Workspace::plain();
    workspace.write("run.jsonl", "no cassette\n");
    workspace.write("dalsegno.toml", "[models.default]\nprovider = \"cassette\"\nfile = \"run.jsonl\"\n");
    let shown = refused(&workspace);
    assert!(shown.contains("run.jsonl"), "{shown}");
}

#[test]
fn an_address_with_the_path_of_a_request_is_refused() {
    let workspace = Workspace::plain();
    workspace.write(
        "dalsegno.toml",
        "[models.default]\nprovider = \"openai\"\nmodel = \"m\"\nbase_url = \"http://127.0.0.1:9/v1/chat/completions\"\n",
    );
    let shown = refused(&workspace);
    assert!(
        shown.contains("ends with `/chat/completions`") && shown.contains("write `http://127.0.0.1:9/v1`"),
        "{shown}"
    );
}

#[test]
fn plans_that_call_each_other_without_an_end_are_noticed() {
    let workspace = Workspace::plain();
    let agent = |name: &str, other: &str, when: &str| {
        format!(
            "name = \"{name}\"\nversion = \"1.0.0\"\ndescription = \"Calls.\"\n\n[[steps]]\nid = \"it\"\nagent = \"{other}\"\nmessage = \"hello\"\n{when}\n[[steps]]\nrespond = \"done\"\n"
        )
    };
    workspace.write("agents/one.toml", &agent("one", "two", ""));
    workspace.write("agents/two.toml", &agent("two", "one", ""));
    let shown = workspace.dalsegno(&["check"]);
    assert!(shown.contains("the plans of `one`, `two` always call each other"), "{shown}");
    assert_eq!(shown.matches("endless-call").count(), 1, "{shown}");
    workspace.write("agents/two.toml", &agent("two", "one", "when = \"request.text != 'hello'\"\n"));
    let shown = workspace.dalsegno(&["check"]);
    assert!(!shown.contains("endless-call"), "{shown}");
}

#[test]
fn a_price_is_missing_only_where_it_is_missing() {
    let workspace = Workspace::plain();
    workspace.write(
        "agents/chat.toml",
        "name = \"chat\"\nversion = \"1.0.0\"\ndescription = \"Talks.\"\nprompt = \"{{request.text}}\"\n\n[model]\nuse = \"default\"\n\n[limits]\nmax_cost_usd = 1.0\n",
    );
    workspace.write(
        "dalsegno.toml",
        "[models.default]\nprovider = \"script\"\nfile = \"replies.toml\"\nprice = { input = 0.25, output = 2 }\n\n[unknown]\n",
    );
    let shown = refused(&workspace);
    assert!(!shown.contains("missing-price"), "{shown}");
}

#[test]
fn tools_that_a_server_does_not_offer_are_named() {
    let workspace = Workspace::guarded();
    let settings = std::fs::read_to_string(workspace.path("dalsegno.toml")).unwrap();
    workspace.succeed(&["check", "--connect"]);
    let narrowed =
        settings.replace("[servers.risk]\n", "[servers.risk]\ntools = [\"score\", \"record\", \"lookup\"]\n");
    workspace.write("dalsegno.toml", &narrowed);
    for args in [&["check"][..], &["check", "--connect"]] {
        let shown = workspace.dalsegno(args).replace("\n  │", "");
        assert!(shown.contains("names `lookup`, which the server does not offer"), "{args:?}: {shown}");
        assert!(shown.contains("`risk` offers `") && shown.contains("`score`"), "{args:?}: {shown}");
    }
}

#[test]
fn a_mark_before_json_is_named() {
    let workspace = Workspace::plain();
    workspace.write(
        "tools/marked.json",
        "\u{feff}{\"name\": \"marked\", \"description\": \"x\", \"actions\": []}",
    );
    let output = workspace.dalsegno(&["check"]);
    assert!(output.contains("the file begins with a byte order mark"), "{output}");
}

const SAYS: &str =
    "name = \"says\"\nversion = \"1.0.0\"\ndescription = \"Speaks.\"\n\n[[steps]]\nrespond = \"here I am\"\n";

#[test]
fn a_broken_agent_takes_out_itself_alone() {
    for broken in ["name = \"waits\"\n[[[\n", "name = \n", "", "name = \"waits\"\nsteps = 3\n"] {
        let workspace = Workspace::plain();
        workspace.write("agents/waits.toml", WAITS);
        workspace.write("agents/says.toml", SAYS);
        assert!(workspace.dalsegno(&["run", "waits"]).starts_with("exit code: 4"));
        workspace.write("agents/waits.toml", broken);
        for args in [
            &["run", "says", "hi"][..],
            &["worker", "--until-idle"],
            &["tools", "list"],
            &["memory", "search", "anything"],
        ] {
            let shown = workspace.dalsegno(args);
            let expected = if args[0] == "worker" { "exit code: " } else { "exit code: 0" };
            assert!(
                shown.starts_with(expected) && !shown.starts_with("exit code: 2"),
                "{broken}: {args:?}: {shown}"
            );
            assert!(
                shown.contains("warning: `agents/waits.toml` has errors, so what it describes is not in use"),
                "{broken}: {args:?}: {shown}"
            );
        }
        // Its own runs wait until it is mended.
        for args in [&["run", "waits"][..], &["resume", "last=waits", "--answer", "yes"]] {
            let run = workspace
                .json(&["runs"])
                .as_array()
                .unwrap()
                .iter()
                .find(|run| run["agent"] == "waits")
                .unwrap()["run_id"]
                .clone();
            let args: Vec<&str> = args
                .iter()
                .map(|arg| if *arg == "last=waits" { run.as_str().unwrap() } else { arg })
                .collect();
            let shown = workspace.dalsegno(&args);
            assert!(shown.starts_with("exit code: 2"), "{broken}: {args:?}: {shown}");
            assert!(shown.contains("the agent `waits` cannot be used: "), "{broken}: {args:?}: {shown}");
            assert!(shown.contains("agents/waits.toml:"), "{broken}: {args:?}: {shown}");
        }
        workspace.write("agents/waits.toml", WAITS);
        let runs = workspace.json(&["runs"]);
        let waiting = runs.as_array().unwrap().iter().find(|run| run["agent"] == "waits").unwrap();
        assert_eq!(waiting["status"], "suspended", "{broken}");
        let shown = workspace.dalsegno(&["resume", waiting["run_id"].as_str().unwrap(), "--answer", "yes"]);
        assert!(shown.starts_with("exit code: 0"), "{broken}: {shown}");
    }
}

#[test]
fn an_agent_that_needs_a_broken_one_cannot_be_used_either() {
    let step = |action: &str| {
        format!("name = \"calls\"\nversion = \"1.0.0\"\ndescription = \"Calls.\"\n\n[[steps]]\n{action}\n")
    };
    let model = |pattern: &str| {
        format!(
            "name = \"calls\"\nversion = \"1.0.0\"\ndescription = \"Calls.\"\nprompt = \"{{{{request.text}}}}\"\n\n[model]\nuse = \"default\"\n\n[tools]\nallow = [\"{pattern}\"]\n"
        )
    };
    for caller in [
        step("agent = \"lost\"\ninput = \"hello\""),
        step("handoff = \"lost\"\nmessage = \"hello\""),
        model("agents.lost"),
        model("agents.*"),
        model("handoff.lost"),
    ] {
        for (broken, named) in
            [("name = \"lost\"\ndescription = \"Lost.\"\nsteps = 3\n", true), ("[[[\n", false)]
        {
            let workspace = Workspace::plain();
            workspace.write("agents/calls.toml", &caller);
            workspace.write(
                "agents/above.toml",
                &step("agent = \"calls\"\ninput = \"hello\"").replace("name = \"calls\"", "name = \"above\""),
            );
            workspace.write("agents/lost.toml", broken);
            for agent in ["calls", "above"] {
                let shown = workspace.dalsegno(&["run", agent, "hi"]);
                assert!(shown.starts_with("exit code: 2"), "{caller}: {shown}");
                let flat = shown.replace("\n  │", "");
                assert!(flat.contains(&format!("the agent `{agent}` cannot be used: ")), "{caller}: {shown}");
                assert!(
                    flat.contains("agents/lost.toml:") && (!named || flat.contains("`lost`")),
                    "{caller}: {shown}"
                );
            }
            assert!(refused(&workspace).contains("agents/lost.toml"));
        }
    }
    // Of a file whose name is none nobody knows which agent it is, so it may be one of all.
    let workspace = Workspace::plain();
    workspace.write("agents/calls.toml", &model("agents.*"));
    workspace.write("agents/Lost one.toml", "[[[\n");
    let shown = workspace.dalsegno(&["run", "calls", "hi"]);
    assert!(shown.starts_with("exit code: 2") && shown.contains("agents/Lost one.toml:"), "{shown}");
}

#[test]
fn a_journal_is_read_although_the_settings_are_no_toml() {
    let workspace = Workspace::plain();
    workspace.write("agents/waits.toml", WAITS);
    assert!(workspace.dalsegno(&["run", "waits"]).starts_with("exit code: 4"));
    let settings = std::fs::read_to_string(workspace.path("dalsegno.toml")).unwrap();
    let settings = settings.replace("[store]\npath = \".dalsegno/dalsegno.db\"\n", "");
    // One that may name another place: nobody can say which.
    workspace.write("dalsegno.toml", &format!("[store]\npath = \"elsewhere.db\n{settings}"));
    for args in [&["runs"][..], &["show", "last"], &["cancel", "last"]] {
        let shown = workspace.dalsegno(args);
        assert!(shown.starts_with("exit code: 2"), "{args:?}: {shown}");
        assert!(shown.contains("may say where the journal is"), "{args:?}: {shown}");
    }
    workspace.write("dalsegno.toml", &format!("[[[\n{settings}"));
    for args in [&["runs"][..], &["show", "last"], &["replay", "last"], &["cancel", "last"], &["runs"]] {
        let shown = workspace.dalsegno(args);
        assert!(shown.starts_with("exit code: 0"), "{args:?}: {shown}");
        assert!(shown.contains("this is the journal at the default place"), "{args:?}: {shown}");
    }
    // What keeps more than the journal waits until the file is mended.
    for args in [&["gc", "--yes"][..], &["run", "waits"], &["doctor"]] {
        let shown = workspace.dalsegno(args);
        assert!(shown.starts_with("exit code: 2"), "{args:?}: {shown}");
    }
    workspace.write("dalsegno.toml", &settings);
    assert_eq!(workspace.json(&["runs"])[0]["status"], "cancelled");
}

const GREETS: &str = r#"{
  "name": "greet",
  "description": "Greets.",
  "parameters": [
    { "name": "who", "type": "string", "required": true },
    { "name": "times", "type": "integer" }
  ],
  "actions": [{ "type": "respond", "message": "Hello {{params.who}}." }]
}"#;

#[test]
fn what_steps_give_to_tools_is_held_against_what_the_tools_take() {
    let workspace = Workspace::plain();
    workspace.write("tools/greet.json", GREETS);
    let agent = |with: &str| {
        let head = "name = \"greets\"\nversion = \"1.0.0\"\ndescription = \"Greets.\"\n\n[tools]\nallow = [\"greet\"]\n";
        workspace.write("agents/greets.toml", &format!("{head}\n[[steps]]\ntool = \"greet\"\n{with}"));
        workspace.dalsegno(&["check"]).replace("\n  │", "")
    };
    for with in [
        "with = { who = \"Ada\", times = 2 }",
        "with = { who = \"{{request.text}}\", times = \"{{request.data.times}}\" }",
    ] {
        let shown = agent(with);
        assert!(shown.starts_with("exit code: 0"), "{with}: {shown}");
    }
    for (with, words) in [
        ("", "the call of `greet` is missing `who`"),
        ("with = { times = 2 }", "the call of `greet` is missing `who`"),
        ("with = { who = \"Ada\", time = 2 }", "`greet` has no argument `time`"),
        ("with = { who = \"Ada\", time = 2 }", "did you mean `times`?"),
        (
            "with = { who = 7 }",
            "the argument `who` of `greet` does not match its schema: 7 is not of type \"string\"",
        ),
        (
            "with = { who = \"Ada\", times = \"two\" }",
            "the argument `times` of `greet` does not match its schema",
        ),
    ] {
        let shown = agent(with);
        assert!(shown.starts_with("exit code: 2") && shown.contains(words), "{with}: {shown}");
    }
}

#[test]
fn names_in_scripts_that_nothing_gives_a_value_are_noticed() {
    let workspace = Workspace::plain();
    let replies = "[[replies]]\ntext = \"{{request.text}} {{lsat.value}}\"\n[[replies]]\ncalls = [{ name = \"t\", arguments = { n = \"{{result.n}}\" } }]\n";
    workspace.write("replies.toml", replies);
    let shown = workspace.dalsegno(&["check"]).replace("\n  │", "");
    assert!(shown.starts_with("exit code: 0"), "{shown}");
    assert!(shown.contains("reply 0 (counted from 0) reads `lsat`, which is empty"), "{shown}");
    assert!(shown.contains("reply 1 (counted from 0) reads `result`, which is empty"), "{shown}");
    assert_eq!(shown.matches("unknown-name").count(), 2, "{shown}");
}

#[test]
fn secrets_of_the_environment_that_are_not_set_are_noticed() {
    let workspace = Workspace::plain();
    let settings = std::fs::read_to_string(workspace.path("dalsegno.toml")).unwrap();
    let secrets =
        "\n[secrets]\ncrm = { env = \"DALSEGNO_TEST_UNSET\" }\nhere = { env = \"DALSEGNO_TEST_SET\" }\n";
    workspace.write("dalsegno.toml", &(settings + secrets));
    let output = workspace.command(&["check"]).env("DALSEGNO_TEST_SET", "x").output().unwrap();
    let shown = workspace.shown(&output);
    assert!(shown.starts_with("exit code: 0"), "{shown}");
    let words = "warning: the secret `crm` is in the environment variable `DALSEGNO_TEST_UNSET`, which is not set here";
    assert!(shown.contains(words), "{shown}");
    assert!(!shown.contains("DALSEGNO_TEST_SET"), "{shown}");
}

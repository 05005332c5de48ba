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
    assert!(shown.contains("the plans of `one`, `two` call each other, whatever happens"), "{shown}");
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

//! The secret store: what is put there reaches the endpoint, and nothing else.

use std::io::Write as _;
use std::process::Stdio;

use crate::double::{Double, words};
use crate::support::{Workspace, photograph};

const KEY: &str = "sk-canary-4711-secret";

/// A workspace whose agent asks an endpoint with a key from the store.
fn stored(double: &Double) -> Workspace {
    let workspace = Workspace::plain();
    let settings = format!("{}api_key = {{ store = \"model.key\" }}\n", double.settings());
    workspace.write("dalsegno.toml", &settings);
    workspace
}

#[test]
fn a_secret_is_put_listed_used_and_removed() {
    let double = Double::start(vec![words(&format!("Your key is {KEY}."))]);
    let workspace = stored(&double);
    photograph!(workspace.dalsegno(&["secret", "list"]), @r"
        exit code: 0
        --- stdout
        --- stderr
        the store is empty: put a secret there with `dalsegno secret put NAME`
        ");
    photograph!(workspace.dalsegno(&["run", "chat", "hello"]), @r"
        exit code: 4
        --- stdout
        --- stderr
        suspended · 1 step · [TOOK] · run [SHORT]

        the secret `model.key` is missing, which the model completion needs
        put it into the secret store, and go on
          dalsegno secret put model.key
          dalsegno resume [SHORT]
        ");
    photograph!(workspace.dalsegno_with_input(&["secret", "put", "model.key"], &format!("{KEY}\n")), @r"
        exit code: 0
        --- stdout
        --- stderr
        `model.key` is in the store, as version 1
        1 run waiting for a secret: a worker goes on, or `dalsegno resume RUN`
        ");
    photograph!(workspace.dalsegno(&["resume", "last"]), @r"
        exit code: 0
        --- stdout
        Your key is [secret].
        --- stderr
        completed · 1 step · 1 model call · 17 tokens · [TOOK] · run [SHORT]
        ");
    assert_eq!(double.received()[0].authorization.as_deref(), Some("Bearer sk-canary-4711-secret"));
    photograph!(workspace.dalsegno(&["secret", "list"]), @r"
        exit code: 0
        --- stdout
        NAME       VERSION  CHANGED
        model.key  1        [TIME]
        --- stderr
        ");
    let list = workspace.succeed(&["secret", "list", "--json"]);
    assert!(list.contains("\"model.key\"") && !list.contains("canary"), "{list}");
    workspace.succeed(&["secret", "rotate-key", "--everything"]);
    workspace.succeed(&["run", "chat", "again"]);
    assert_eq!(double.received().len(), 2);
    photograph!(workspace.dalsegno(&["secret", "remove", "model.key"]), @r"
        exit code: 0
        --- stdout
        --- stderr
        `model.key` is removed
        ");
    photograph!(workspace.dalsegno(&["secret", "remove", "model.key"]), @r"
        exit code: 2
        --- stdout
        --- stderr
        error: the secret store does not have `model.key`
          help: list its secrets with `dalsegno secret list`
        ");
    // What only reads needs no key.
    workspace.write(".dalsegno/secrets.key", "gone");
    workspace.succeed(&["replay", "last"]);
    workspace.succeed(&["doctor"]);
}

#[test]
fn a_key_from_the_environment_opens_the_store_and_another_one_does_not() {
    let double = Double::start(vec![words("Well.")]);
    let workspace = stored(&double);
    let settings = std::fs::read_to_string(workspace.path("dalsegno.toml")).unwrap();
    workspace
        .write("dalsegno.toml", &format!("{settings}\n[secret_store]\nkey = {{ env = \"STORE_KEY\" }}\n"));
    let new_key = || workspace.succeed(&["secret", "new-key"]).trim().to_owned();
    let (key, other) = (new_key(), new_key());
    assert_ne!(key, other);
    let with = |args: &[&str], variables: &[(&str, &str)], input: &str| {
        let mut command = workspace.command(args);
        command
            .envs(variables.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        workspace.shown(&child.wait_with_output().unwrap())
    };
    photograph!(with(&["secret", "put", "model.key"], &[], KEY), @r"
        exit code: 2
        --- stdout
        --- stderr
        error: cannot read the key of the secret store: the environment variable `STORE_KEY` is not set, expected the key of the secret store in base64
        ");
    with(&["secret", "put", "model.key"], &[("STORE_KEY", &key)], KEY);
    let refused = with(&["secret", "list"], &[("STORE_KEY", &other)], "");
    assert!(refused.contains("exit code: 2") && refused.contains("is encrypted with the key"), "{refused}");
    photograph!(with(&["secret", "rotate-key"], &[("STORE_KEY", &key)], ""), @r"
        exit code: 2
        --- stdout
        --- stderr
        error: the environment variable `STORE_KEY` has the present key of the secret store: name another variable, with the new key
        ");
    let rotated =
        with(&["secret", "rotate-key", "--new-env", "NEXT"], &[("STORE_KEY", &key), ("NEXT", &other)], "");
    assert!(rotated.contains("exit code: 0"), "{rotated}");
    let run = with(&["run", "chat", "hello"], &[("STORE_KEY", &other)], "");
    assert!(run.contains("exit code: 0") && run.contains("Well."), "{run}");
    for args in [["run", "chat", "hello"], ["secret", "put", "a b"]] {
        let refused = with(&args, &[("STORE_KEY", &key)], "value");
        assert!(!refused.contains("exit code: 0") && !refused.contains("value"), "{refused}");
    }
}

#[test]
fn a_secret_that_could_not_be_scrubbed_is_not_stored() {
    let workspace = Workspace::plain();
    photograph!(workspace.dalsegno_with_input(&["secret", "put", "pin"], "1234\n"), @r"
    exit code: 2
    --- stdout
    --- stderr
    error: the secret is shorter than 6 bytes and could not be scrubbed from the records
      help: use a longer one: a short secret also matches ordinary words
    ");
    assert!(!workspace.succeed(&["secret", "list"]).contains("pin"));
}

#[test]
fn a_server_that_is_not_pinned_and_lacks_a_secret_is_named_with_what_to_do() {
    let workspace = Workspace::empty().trusted();
    workspace.write(
        "dalsegno.toml",
        "[servers.bell]\ncommand = [\"/bin/sh\", \"bell.sh\"]\nenv = { TOKEN = { store = \"bell.token\" } }\n",
    );
    workspace.write("bell.sh", "exit 3\n");
    let agent = "name = \"a\"\n[tools]\nallow = [\"bell.ring\"]\n[[steps]]\ntool = \"bell.ring\"\n";
    workspace.write("agents/a.toml", agent);
    photograph!(workspace.dalsegno(&["run", "a"]), @r"
        exit code: 1
        --- stdout
        --- stderr
        error: tool server `bell` needs the secret `bell.token`, which the secret store does not have, and its tools are not pinned: no run was started
          help: store it with `dalsegno secret put bell.token`; once `dalsegno check --connect` has pinned the tools, runs wait for a secret
        ");
}

//! `dalsegno memory`.

use std::fs;

use crate::support::{Workspace, photograph};

fn told() -> Workspace {
    let workspace = Workspace::plain();
    for args in [
        &[
            "memory",
            "add",
            "INC-7",
            "disk full on db-1",
            "--type",
            "incident",
            "--relation",
            "caused_by=DEP-3",
        ][..],
        &["memory", "add", "DEP-3", "deployed a chatty logger", "--type", "deployment"],
        &["memory", "relate", "DEP-3", "made_by", "ada", "--strength", "0.5"],
    ] {
        workspace.succeed(args);
    }
    workspace
}

#[test]
fn what_is_added_is_found() {
    let workspace = Workspace::plain();
    photograph!(workspace.dalsegno(&["memory", "add", "INC-7", "disk full on db-1", "--type", "incident"]), @r"
        exit code: 0
        --- stdout
        --- stderr
        remembered: `INC-7`, in the scope `workspace`
        ");
    photograph!(workspace.dalsegno(&["memory", "add", "INC-7", "disk full on db-1", "--type", "incident"]), @r"
        exit code: 0
        --- stdout
        --- stderr
        known already: `INC-7`, in the scope `workspace`
        ");
    photograph!(workspace.dalsegno(&["memory", "search", "which disk is full?"]), @r"
        exit code: 0
        --- stdout
        SCORE  ENTITY  TYPE      OBSERVATION
        0.37   INC-7   incident  disk full on db-1
        --- stderr
        ");
    photograph!(workspace.dalsegno(&["memory", "search", "weather"]), @r"
        exit code: 0
        --- stdout
        --- stderr
        nothing found: try other words, or another `--scope`
        ");
    let hits = workspace.json(&["memory", "search", "disk"]);
    assert_eq!(
        (&hits[0]["entity"], &hits[0]["entity_type"]),
        (&"INC-7".into(), &"incident".into()),
        "{hits}"
    );
}

#[test]
fn what_a_run_remembers_is_found_and_the_other_way_round() {
    let workspace = Workspace::plain();
    workspace.succeed(&["memory", "add", "INC-7", "disk full on db-1"]);
    assert!(workspace.succeed(&["run", "note", "the disk of db-2"]).starts_with("1 known."));
    let hits = workspace.json(&["memory", "search", "db-2"]);
    assert_eq!(hits[0]["entity"], "notes", "{hits}");
}

#[test]
fn relations_are_followed_and_shown() {
    let workspace = told();
    photograph!(workspace.dalsegno(&["memory", "relate", "INC-7", "affects", "db-1"]), @r"
        exit code: 0
        --- stdout
        --- stderr
        related: INC-7 affects db-1
        new entity: `db-1`; is the name right?
        ");
    photograph!(workspace.dalsegno(&["memory", "traverse", "INC-7"]), @r"
        exit code: 0
        --- stdout
        DEPTH  ENTITY  TYPE        OBSERVATION
        0      INC-7   incident    disk full on db-1
        1      DEP-3   deployment  deployed a chatty logger
        1      db-1    unknown
        2      ada     unknown

        FROM   RELATION   TO     STRENGTH
        INC-7  affects    db-1   1.00
        INC-7  caused_by  DEP-3  1.00
        DEP-3  made_by    ada    0.50
        --- stderr
        ");
    photograph!(workspace.dalsegno(&["memory", "traverse", "ada", "--direction", "in", "--depth", "1"]), @r"
        exit code: 0
        --- stdout
        DEPTH  ENTITY  TYPE        OBSERVATION
        0      ada     unknown
        1      DEP-3   deployment  deployed a chatty logger

        FROM   RELATION  TO   STRENGTH
        DEP-3  made_by   ada  0.50
        --- stderr
        ");
    photograph!(workspace.dalsegno(&["memory", "show", "DEP-3"]), @r"
        exit code: 0
        --- stdout
        DEP-3 (deployment)

        observations
          [SHORT] · [TIME] · workspace
            deployed a chatty logger

        relations
          DEP-3 made_by ada (0.50)
          INC-7 caused_by DEP-3
        --- stderr
        ");
    let shown = workspace.json(&["memory", "show", "DEP-3"]);
    assert_eq!(shown["relations_out"][0]["to"], "ada", "{shown}");
}

#[test]
fn an_unknown_entity_is_told_with_the_nearest() {
    let workspace = told();
    photograph!(workspace.dalsegno(&["memory", "show", "INC-8"]), @r"
        exit code: 2
        --- stdout
        --- stderr
        error: there is no entity `INC-8` in this memory
          help: did you mean `INC-7`?
        ");
    photograph!(workspace.dalsegno(&["memory", "traverse", "weather"]), @r"
        exit code: 2
        --- stdout
        --- stderr
        error: there is no entity `weather` in this memory
          help: look for it with `dalsegno memory search`; each `--scope` is a separate memory
        ");
}

#[test]
fn scopes_are_apart() {
    let workspace = Workspace::plain();
    workspace.succeed(&["memory", "add", "secret", "only for chat", "--scope", "agent", "--agent", "chat"]);
    let elsewhere = workspace.json(&["memory", "search", "chat", "--agent", "note"]);
    assert_eq!(elsewhere.as_array().unwrap().len(), 0, "{elsewhere}");
    let here = workspace.json(&["memory", "search", "chat", "--agent", "chat"]);
    assert_eq!(here.as_array().unwrap().len(), 1, "{here}");
    photograph!(workspace.dalsegno(&["memory", "search", "chat", "--scope", "agent"]), @r"
        exit code: 2
        --- stdout
        --- stderr
        error: the scope `agent` belongs to an agent: say which
        ");
    photograph!(workspace.dalsegno(&["memory", "search", "chat", "--scope", "session", "--agent", "chat"]), @r"
        exit code: 2
        --- stdout
        --- stderr
        error: the scope `session` belongs to a session: say which
        ");
    photograph!(workspace.dalsegno(&["memory", "search", "chat", "--agent", "caht"]), @r"
        exit code: 2
        --- stdout
        --- stderr
        error: there is no agent `caht`: the agents are broken, chat, note
          help: did you mean `chat`?
        ");
    photograph!(workspace.dalsegno(&["memory", "search", "chat", "--scope", "planet"]), @r"
        exit code: 2
        --- stdout
        --- stderr
        error: invalid value 'planet' for '--scope <SCOPE>'
          [possible values: session, agent, workspace, tenant]

          tip: a similar value exists: 'agent'

        For more information, try '--help'.
        ");
}

#[test]
fn a_memory_moves_to_another_workspace() {
    let workspace = told();
    photograph!(workspace.dalsegno(&["memory", "export", "backup.jsonl"]), @r"
        exit code: 0
        --- stdout
        --- stderr
        exported the scope `workspace`: 3 entities, 2 observations, 2 relations
        ");
    let written = fs::read_to_string(workspace.path("backup.jsonl")).unwrap();
    assert_eq!(workspace.succeed(&["memory", "export"]), written);
    photograph!(workspace.dalsegno(&["memory", "export", "backup.jsonl"]), @r"
        exit code: 1
        --- stdout
        --- stderr
        error: cannot write `backup.jsonl`: File exists (os error 17)
          help: name a new path that this user may write
        ");

    let other = Workspace::plain();
    photograph!(other.dalsegno_with_input(&["memory", "import", "-"], &written), @r"
        exit code: 0
        --- stdout
        --- stderr
        imported into the scope `workspace`: 7 new, 0 updated, 0 left as they were
        ");
    assert_eq!(other.succeed(&["memory", "export"]), written);
    photograph!(other.dalsegno_with_input(&["memory", "import", "-", "--merge", "skip"], &written), @r"
        exit code: 0
        --- stdout
        --- stderr
        imported into the scope `workspace`: 0 new, 0 updated, 7 left as they were
        ");
}

#[test]
fn a_file_that_is_no_export_is_refused_as_a_whole() {
    let workspace = Workspace::plain();
    workspace.write("notes.txt", "these are my notes\n");
    photograph!(workspace.dalsegno(&["memory", "import", "notes.txt"]), @r"
        exit code: 2
        --- stdout
        --- stderr
        error: nothing was imported from `notes.txt`: line 1: expected ident (column 2); expected one JSON object on each line
          help: correct that line, then import the whole file again
        ");
    photograph!(workspace.dalsegno(&["memory", "import", "nowhere.jsonl"]), @r"
        exit code: 2
        --- stdout
        --- stderr
        error: cannot read `nowhere.jsonl`: No such file or directory (os error 2)
          help: name a readable file of UTF-8 text, or `-`
        ");
}

#[test]
fn values_out_of_bounds_are_told() {
    let workspace = Workspace::plain();
    photograph!(workspace.dalsegno(&["memory", "add", "INC-7", " "]), @r"
        exit code: 2
        --- stdout
        --- stderr
        error: the text has 0 bytes, expected 1 to 65536 that are not all white space; split it into several observations or keep a summary
        ");
    photograph!(workspace.dalsegno(&["memory", "relate", "a", "b", "c", "--strength", "2"]), @r"
        exit code: 2
        --- stdout
        --- stderr
        error: the strength is 2, expected 0 to 1
        ");
    photograph!(workspace.dalsegno(&["memory", "traverse", "a", "--depth", "9"]), @r"
        exit code: 2
        --- stdout
        --- stderr
        error: invalid value '9' for '--depth <N>': 9 is not in 1..=8

        For more information, try '--help'.
        ");
}

/// The id of the only observation about an entity that stands.
fn observation(workspace: &Workspace, entity: &str) -> String {
    let shown = workspace.json(&["memory", "show", entity]);
    let observations = shown["observations"].as_array().unwrap();
    let standing: Vec<_> = observations.iter().filter(|one| one.get("valid_to").is_none()).collect();
    assert_eq!(standing.len(), 1, "{shown}");
    standing[0]["observation"].as_str().unwrap().to_owned()
}

#[test]
fn a_wrong_observation_is_corrected() {
    let workspace = told();
    let id = observation(&workspace, "INC-7");
    photograph!(workspace.dalsegno(&["memory", "edit", &id[..8], "disk full on db-2"]), @r"
        exit code: 0
        --- stdout
        --- stderr
        corrected: `INC-7`, in the scope `workspace`: [SHORT] replaces [SHORT]
        ");
    photograph!(workspace.dalsegno(&["memory", "show", "INC-7"]), @r"
        exit code: 0
        --- stdout
        INC-7 (incident)

        observations
          [SHORT] · [TIME] · workspace
            disk full on db-2
          [SHORT] · [TIME] until [TIME], replaced by [SHORT] · workspace
            disk full on db-1

        relations
          INC-7 caused_by DEP-3
        --- stderr
        ");
    assert_eq!(workspace.json(&["memory", "search", "disk"])[0]["text"], "disk full on db-2");
    let new = observation(&workspace, "INC-7");
    let again = workspace.json(&["memory", "edit", &new, "disk full on db-2"]);
    assert_eq!((&again["changed"], again["observation"].as_str()), (&false.into(), Some(&*new)), "{again}");
    photograph!(workspace.dalsegno(&["memory", "edit", &new, "disk full on db-2"]), @r"
        exit code: 0
        --- stdout
        --- stderr
        nothing to correct: the text of [SHORT] is the same
        ");
    photograph!(workspace.dalsegno(&["memory", "edit", &id, "disk full on db-3"]), @r"
        exit code: 2
        --- stdout
        --- stderr
        error: the observation `[ID]` no longer holds; correct the one that replaced it
        ");
    photograph!(workspace.dalsegno(&["memory", "edit", "INC-7", "disk full on db-3"]), @r"
        exit code: 2
        --- stdout
        --- stderr
        error: `INC-7` is not an observation id: expected 4 to 32 hexadecimal digits
          help: `dalsegno memory show ENTITY` lists the ids of its observations
        ");
    photograph!(workspace.dalsegno(&["memory", "edit", &new, "x", "--scope", "agent", "--agent", "chat"]), @r"
        exit code: 2
        --- stdout
        --- stderr
        error: the scope `agent` does not have an observation whose id begins with `[ID]`
          help: `dalsegno memory show ENTITY` says in which scope each entry is: name it with `--scope`
        ");
}

#[test]
fn what_should_not_be_known_is_deleted() {
    let workspace = told();
    photograph!(workspace.dalsegno(&["memory", "delete", "INC-7"]), @r"
        exit code: 0
        --- stdout
        --- stderr
        would delete the entity `INC-7` from the scope `workspace`: 1 entity, 1 observation, 1 relation; `--yes` does it, for ever
        ");
    let told = workspace.json(&["memory", "delete", "INC-7"]);
    assert_eq!((&told["deleted"], &told["relations"]), (&false.into(), &1.into()), "{told}");
    let id = observation(&workspace, "DEP-3");
    photograph!(workspace.dalsegno(&["memory", "delete", "--observation", &id, "--yes"]), @r#"
        exit code: 0
        --- stdout
        --- stderr
        deleted the observation [SHORT] about `DEP-3`, "deployed a chatty logger", from the scope `workspace`: 1 observation
        "#);
    photograph!(workspace.dalsegno(&["memory", "delete", "DEP-3", "made_by", "ada", "--yes"]), @r"
        exit code: 0
        --- stdout
        --- stderr
        deleted the relation `DEP-3 made_by ada` from the scope `workspace`: 1 relation
        ");
    photograph!(workspace.dalsegno(&["memory", "delete", "INC-7", "--yes"]), @r"
        exit code: 0
        --- stdout
        --- stderr
        deleted the entity `INC-7` from the scope `workspace`: 1 entity, 1 observation, 1 relation
        ");
    assert!(workspace.json(&["memory", "search", "disk full chatty logger"]).as_array().unwrap().is_empty());
    photograph!(workspace.dalsegno(&["memory", "show", "DEP-3"]), @r"
        exit code: 0
        --- stdout
        DEP-3 (deployment)
        --- stderr
        ");
    photograph!(workspace.dalsegno(&["memory", "delete", "INC-7", "--yes"]), @r"
        exit code: 2
        --- stdout
        --- stderr
        error: there is no entity `INC-7` in this memory
          help: look for it with `dalsegno memory search`; each `--scope` is a separate memory
        ");
    photograph!(workspace.dalsegno(&["memory", "delete", "DEP-3", "made_by", "ada"]), @r"
        exit code: 2
        --- stdout
        --- stderr
        error: the scope `workspace` does not have the relation `DEP-3 made_by ada`
          help: `dalsegno memory show ENTITY` says in which scope each entry is: name it with `--scope`
        ");
}

#[test]
fn only_the_named_scope_loses_what_is_deleted() {
    let workspace = Workspace::plain();
    let chat = ["--scope", "agent", "--agent", "chat"];
    workspace.succeed(&[&["memory", "add", "ada", "likes tea"][..], &chat].concat());
    photograph!(workspace.dalsegno(&["memory", "delete", "ada", "--agent", "chat", "--scope", "workspace"]), @r"
        exit code: 2
        --- stdout
        --- stderr
        error: the scope `workspace` does not have the entity `ada`
          help: `dalsegno memory show ENTITY` says in which scope each entry is: name it with `--scope`
        ");
    workspace.write("tenants/acme.toml", "name = \"acme\"\n");
    workspace.succeed(&["memory", "add", "ada", "likes tea", "--tenant", "acme"]);
    workspace.succeed(&["memory", "delete", "ada", "--tenant", "acme", "--yes"]);
    assert!(workspace.json(&["memory", "search", "tea", "--tenant", "acme"]).as_array().unwrap().is_empty());
    let kept = workspace.json(&[&["memory", "search", "tea"][..], &chat].concat());
    assert_eq!(kept.as_array().unwrap().len(), 1, "{kept}");
}

#[test]
fn a_deleted_seed_does_not_come_back() {
    let workspace = Workspace::plain();
    let settings = fs::read_to_string(workspace.path("dalsegno.toml")).unwrap();
    let seeded = settings.replace("[memory]", "[memory]\nseeds = [\"known.jsonl\"]");
    workspace.write("dalsegno.toml", &seeded);
    let line = r#"{"entity": "INC-1", "type": "incident", "text": "a wrong rumour"}"#;
    workspace.write("known.jsonl", &format!("{line}\n"));
    workspace.succeed(&["memory", "delete", "INC-1", "--yes"]);
    // The file has changed, so that it is read again.
    workspace.write("known.jsonl", &format!("{line}\n{}\n", line.replace("INC-1", "INC-2")));
    let hits = workspace.json(&["memory", "search", "rumour"]);
    assert_eq!(hits.as_array().unwrap().len(), 1, "{hits}");
    assert_eq!(hits[0]["entity"], "INC-2", "{hits}");
}

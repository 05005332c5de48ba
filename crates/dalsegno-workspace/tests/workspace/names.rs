//! The names by which models see actions of toolkits: which are pinned, which stay, and which are refused.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;

use dalsegno_core::{ModelName, ToolName};
use dalsegno_workspace::{Catalogue, CatalogueTool, Code, Loaded, Lock, Workspace, builtin_tools};
use serde_json::json;
use tempfile::TempDir;

/// Names as text.
type Names = BTreeMap<ToolName, ModelName>;

const AGENT: &str = "name = 'a'\nprompt = '{{request.text}}'\n[model]\nuse = 'default'\n[tools]\nallow = ['crm.find', 'mail.*']\n";

const SETTINGS: &str = "[models.default]\nprovider = 'script'\nfile = 'script.toml'\n";

/// A toolkit with these actions.
fn toolkit(name: &str, actions: &[&str]) -> String {
    let actions: Vec<_> = actions
        .iter()
        .map(|action| {
            let respond = json!([{ "type": "respond", "message": "Done." }]);
            json!({ "name": action, "description": "Does something.", "actions": respond })
        })
        .collect();
    json!({ "name": name, "description": "Does things.", "actions": actions }).to_string()
}

/// A single tool.
fn single(name: &str) -> String {
    let actions = json!([{ "type": "respond", "message": "Done." }]);
    json!({ "name": name, "description": "Does something.", "actions": actions }).to_string()
}

struct Folder(TempDir);

impl Folder {
    /// A workspace with the toolkits `crm` (find, close) and `mail` (send).
    fn new() -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        folder.write("dalsegno.toml", SETTINGS);
        folder.write("script.toml", "[[replies]]\ntext = 'x'\n");
        folder.write("agents/a.toml", AGENT);
        folder.write("tools/crm.json", &toolkit("crm", &["find", "close"]));
        folder.write("tools/mail.json", &toolkit("mail", &["send"]));
        folder
    }

    fn write(&self, file: &str, text: &str) {
        let file = self.0.path().join(file);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }

    fn remove(&self, file: &str) {
        fs::remove_file(self.0.path().join(file)).unwrap();
    }

    fn load(&self) -> Loaded {
        Workspace::load(self.0.path())
    }

    fn workspace(&self) -> Workspace {
        let loaded = self.load();
        assert!(loaded.diagnostics.is_empty(), "{:?}", loaded.diagnostics);
        loaded.workspace.unwrap()
    }

    /// The names that the lock file would get, were it written now.
    fn names(&self, lock: &Lock, before: &Names) -> Names {
        self.workspace().pin_names(lock, &Catalogue::new(), before)
    }

    /// Pins the names as the command does, and says which they are.
    fn pin(&self) -> Vec<String> {
        let before = self.load().lock.names();
        let names = self.names(&Lock::default(), &before);
        self.write(Lock::FILE, &Lock { names: names.clone(), ..Lock::default() }.to_text());
        shown(&names)
    }

    /// What is wrong with the lock file that has these names.
    fn refused(&self, names: &str) -> String {
        self.write(Lock::FILE, &format!("version = 1\n\n[names]\n{names}\n"));
        let loaded = self.load();
        let mut text = String::new();
        for problem in &loaded.lock.diagnostics {
            assert_eq!(problem.file.to_str(), Some(Lock::FILE));
            let underlined = &loaded.source(&problem.file).unwrap().text()[problem.span.clone().unwrap()];
            let label = problem.label.as_deref().unwrap_or_default();
            let help = problem.help.as_deref().unwrap_or_default();
            writeln!(text, "{problem}\n  {underlined}: {label}\n  help: {help}").unwrap();
        }
        // A warning stands in nobody's way; an error does.
        let is_error = loaded.lock.diagnostics.iter().any(dalsegno_workspace::Diagnostic::is_error);
        assert_eq!(loaded.sound().is_err(), is_error, "{text}");
        text
    }
}

fn shown(names: &Names) -> Vec<String> {
    names.iter().map(|(tool, name)| format!("{tool} = {name}")).collect()
}

fn names(pairs: &[(&str, &str)]) -> Names {
    pairs.iter().map(|(tool, name)| (tool.parse().unwrap(), name.parse().unwrap())).collect()
}

#[test]
fn a_short_name_is_pinned_where_nothing_else_has_it() {
    let folder = Folder::new();
    assert_eq!(folder.pin(), ["crm.close = close", "crm.find = find", "mail.send = send"]);
    assert_eq!(folder.workspace().model_name(&"crm.find".parse().unwrap()), "find");
    assert_eq!(folder.load().lock.diagnostics, []);
    assert_eq!(folder.pin(), ["crm.close = close", "crm.find = find", "mail.send = send"]);
}

#[test]
fn of_two_actions_with_the_same_name_neither_gets_it() {
    let folder = Folder::new();
    folder.write("tools/wiki.json", &toolkit("wiki", &["find", "read"]));
    assert_eq!(folder.pin(), ["crm.close = close", "mail.send = send", "wiki.read = read"]);
}

#[test]
fn a_pinned_name_stays_when_another_tool_comes_with_the_same() {
    let folder = Folder::new();
    folder.pin();
    folder.write("tools/wiki.json", &toolkit("wiki", &["find", "read"]));
    assert_eq!(
        folder.pin(),
        ["crm.close = close", "crm.find = find", "mail.send = send", "wiki.read = read"]
    );
    // Its name is free when it is gone, and the one that was too late gets it.
    folder.write("agents/a.toml", &AGENT.replace("'crm.find', ", ""));
    folder.remove("tools/crm.json");
    assert_eq!(folder.pin(), ["mail.send = send", "wiki.find = find", "wiki.read = read"]);
}

#[test]
fn a_name_of_a_tool_that_is_gone_is_told_and_not_written_again() {
    let folder = Folder::new();
    folder.pin();
    folder.write("tools/crm.json", &toolkit("crm", &["find"]));
    let loaded = folder.load();
    let problem = &loaded.lock.diagnostics[0];
    assert_eq!((problem.code, loaded.lock.diagnostics.len()), (Code::NoEffect, 1));
    assert_eq!(problem.message, "no toolkit has an action `crm.close`, so its name has no effect");
    assert!(!loaded.workspace.unwrap().names.contains_key(&"crm.close".parse::<ToolName>().unwrap()));
    assert_eq!(folder.pin(), ["crm.find = find", "mail.send = send"]);
    assert_eq!(folder.load().lock.diagnostics, []);
}

#[test]
fn a_name_is_not_pinned_that_any_other_tool_has() {
    let folder = Folder::new();
    folder.write("tools/send.json", &single("send"));
    folder
        .write("tools/odd.json", &toolkit("odd", &["handoff", "memory__search", "agents__a", "risk__score"]));
    folder.write("dalsegno.toml", &format!("{SETTINGS}[servers.risk]\nwasm = 'any.wasm'\n"));
    folder.write("any.wasm", "");
    assert_eq!(
        shown(&folder.names(&Lock::default(), &Names::new())),
        ["crm.close = close", "crm.find = find"]
    );
    // Tools in process and tools that servers offer have names, too.
    let tool = CatalogueTool::new("x", json!({}));
    let registered = Catalogue::from([("close".parse().unwrap(), tool.clone())]);
    let names = folder.workspace().pin_names(&Lock::default(), &registered, &Names::new());
    assert_eq!(shown(&names), ["crm.find = find"]);
    folder.write("tools/odd.json", &toolkit("odd", &["gone__score"]));
    let mut offered = builtin_tools();
    offered.insert("gone.score".parse().unwrap(), tool);
    let lock = Lock::from_catalogue(&offered, ["gone"]);
    assert_eq!(shown(&folder.names(&lock, &Names::new())), ["crm.close = close", "crm.find = find"]);
}

#[test]
fn tools_of_every_tenant_count_even_those_that_are_switched_off() {
    let folder = Folder::new();
    let off = toolkit("wiki", &["find", "read"])
        .replace("\"description\":\"Does things.\"", "\"description\":\"x\",\"is_enabled\":false");
    folder.write("tenants/acme/tools/wiki.json", &off);
    folder.write(
        "tenants/acme.toml",
        "name = 'acme'\n[[features.refer.destinations]]\ndestination_id = 'sales'\ntarget_uri = 'sip:s@acme.example'\n",
    );
    assert_eq!(
        folder.pin(),
        [
            "crm.close = close",
            "mail.send = send",
            "transfer.request_transfer = request_transfer",
            "wiki.read = read"
        ]
    );
}

#[test]
fn a_name_that_a_person_chose_stays_like_any_other() {
    let folder = Folder::new();
    let chosen = names(&[("crm.find", "lookup"), ("mail.send", "mail__send")]);
    let pinned = folder.names(&Lock::default(), &chosen);
    assert_eq!(shown(&pinned), ["crm.close = close", "crm.find = lookup", "mail.send = mail__send"]);
    assert_eq!(folder.refused("\"crm.find\" = \"Look-up_2\"\n\"mail.send\" = \"mail__send\""), "");
}

#[test]
fn a_name_that_cannot_be_is_refused_with_its_place() {
    let folder = Folder::new();
    folder.write("tools/close_all.json", &single("close_all"));
    let told = [
        folder.refused("\"crm.find\" = \"look up\""),
        folder.refused(&format!("\"crm.find\" = \"{}\"", "x".repeat(65))),
        folder.refused("\"crm.find\" = \"\""),
        folder.refused("\"crm.find\" = 7"),
        folder.refused("crm.find = \"find\""),
        folder.refused("\"crm find\" = \"find\""),
        folder.refused("\"mail.send\" = \"go\"\n\"crm.find\" = \"go\""),
        folder.refused("\"crm.find\" = \"find\"\n\"crm.find\" = \"look\""),
        folder.refused("\"crm.find\" = \"close_all\""),
        folder.refused("\"crm.find\" = \"mail__send\""),
        folder.refused("\"crm.find\" = \"handoff__b\""),
        folder.refused("\"crm.fnd\" = \"find\""),
        folder.refused("close_all = \"all\""),
    ];
    insta::assert_snapshot!(told.join("\n"));
    // What is wrong is left out when the file is written anew.
    assert_eq!(
        shown(&folder.names(&Lock::default(), &folder.load().lock.names())),
        ["crm.close = close", "crm.find = find", "mail.send = send"]
    );
}

#[test]
fn a_lock_that_is_damaged_elsewhere_keeps_its_names() {
    let folder = Folder::new();
    let damaged = "version = 1\n[names]\n\"crm.find\" = \"lookup\"\n[servers.risk]\ndigest = \"00\"\n";
    folder.write(Lock::FILE, damaged);
    let loaded = folder.load();
    assert_eq!(
        (loaded.lock.lock.is_none(), shown(&loaded.lock.names())),
        (true, vec!["crm.find = lookup".to_owned()])
    );
    assert_eq!(shown(&loaded.sound().unwrap().names), ["crm.find = lookup"]);
    // Of a file that is no TOML nothing is known for certain.
    folder.write(Lock::FILE, &damaged.replace("[servers.risk]", "<<<<<<< ours"));
    assert!(folder.load().sound().is_err());
}

#[test]
fn the_configuration_of_a_run_keeps_the_names_of_its_tools_and_of_forbidden_ones() {
    let folder = Folder::new();
    let resolved = || {
        let workspace = folder.workspace();
        let mut catalogue = builtin_tools();
        catalogue.extend(workspace.declared_tools("nobody"));
        workspace.agents[&"a".parse().unwrap()].resolve(&catalogue).unwrap()
    };
    let before = resolved();
    assert_eq!(before.tools.names, Names::new());
    folder.pin();
    let after = resolved();
    assert_eq!(shown(&after.tools.names), ["crm.close = close", "crm.find = find", "mail.send = send"]);
    assert!(after.tools.find("find").is_some());
    assert!(after.tools.find("close").is_none() && after.tools.is_forbidden("close"));
    assert_ne!(after.digest(), before.digest());
    // A plan reads no names for models.
    folder.write("agents/a.toml", "name = 'a'\n[tools]\nallow = ['crm.*']\n[[steps]]\ntool = 'crm.find'\n");
    assert_eq!(resolved().tools.names, Names::new());
}

#[test]
fn a_pinned_name_that_a_tool_in_process_has_is_refused_when_the_run_begins() {
    let folder = Folder::new();
    folder.pin();
    folder.write("agents/a.toml", &AGENT.replace("'mail.*'", "'mail.*', 'find'"));
    let workspace = folder.workspace();
    let mut catalogue = workspace.declared_tools("nobody");
    catalogue.insert("find".parse().unwrap(), CatalogueTool::new("x", json!({})));
    let refused = workspace.agents[&"a".parse().unwrap()].resolve(&catalogue).unwrap_err();
    assert_eq!(refused[0].message, "a model sees both `crm.find` and `find` as `find`");
    assert_eq!(
        refused[0].help.as_deref(),
        Some("allow only one of them, or pin another name in `dalsegno.lock`")
    );
}

#[test]
fn what_changed_of_names_is_told_in_words() {
    let lock = |pairs| Lock { names: names(pairs), ..Lock::default() };
    let old = lock(&[("crm.find", "find"), ("crm.close", "close"), ("mail.send", "send")]);
    let new = lock(&[("crm.find", "lookup"), ("mail.send", "send"), ("wiki.read", "read")]);
    let changes: Vec<_> = Lock::diff(&old, &new).iter().map(ToString::to_string).collect();
    assert_eq!(
        changes,
        [
            "tool `crm.close`: models no longer see it as `close`",
            "tool `crm.find`: models saw it as `find`, now as `lookup`",
            "tool `wiki.read`: models now see it as `read`",
        ]
    );
}

#[test]
fn names_are_written_and_read_again() {
    let names = names(&[("crm.find", "find"), ("mail.send", "Send-it_2"), ("single", "x")]);
    let lock = Lock { names, ..Lock::default() };
    insta::assert_snapshot!(lock.to_text());
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join(Lock::FILE), lock.to_text()).unwrap();
    assert_eq!(Lock::read(folder.path()).lock, Some(lock));
}

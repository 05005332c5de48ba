//! Parts of a workspace that a program gives instead of files.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use dalsegno_core::AgentName;
use toml::{Table, Value};

use crate::workspace::{AGENTS_FOLDER, SETTINGS_FILE};

/// The parts of a workspace that a program gives: texts that are read instead of files, and models of its own.
///
/// They are checked as files are, and diagnostics name them by the path of the file in whose place they are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InCode {
    /// What is read instead of a file; nothing for one that is read as if it were not there.
    texts: BTreeMap<PathBuf, Option<String>>,
    models: BTreeSet<String>,
}

impl InCode {
    /// Says whether there is no such part.
    pub fn is_empty(&self) -> bool {
        self.texts.is_empty() && self.models.is_empty()
    }

    /// Has `text` read instead of a file, which is named by its path below the workspace's folder, such as
    /// `agents/desk.toml`. The file need not exist.
    pub fn set_text(&mut self, file: impl Into<PathBuf>, text: impl Into<String>) {
        self.texts.insert(file.into(), Some(text.into()));
    }

    /// Has the workspace read as if a file were not there.
    pub fn set_absent(&mut self, file: impl Into<PathBuf>) {
        self.texts.insert(file.into(), None);
    }

    /// Adds an agent, as `agents/NAME.toml`.
    pub fn add_agent(&mut self, agent: &Agent) {
        self.set_text(Path::new(AGENTS_FOLDER).join(format!("{}.toml", agent.file)), agent.text());
    }

    /// Has `text` read instead of `dalsegno.toml`.
    pub fn set_settings(&mut self, text: impl Into<String>) {
        self.set_text(SETTINGS_FILE, text);
    }

    /// Lets the workspace do without a `dalsegno.toml` if its folder has none: every setting has its default then.
    pub fn without_settings_file(&mut self, root: &Path) {
        if !self.has(Path::new(SETTINGS_FILE)) && !root.join(SETTINGS_FILE).exists() {
            self.set_settings("");
        }
    }

    /// Adds a model that the program brings, under the name by which agents use it. `dalsegno.toml` need not have it; if it
    /// does, its settings hold, such as the number of calls at once.
    pub fn add_model(&mut self, name: impl Into<String>) {
        self.models.insert(name.into());
    }

    /// Says whether a text is read instead of this file.
    pub fn has(&self, file: &Path) -> bool {
        self.texts.get(file).is_some_and(Option::is_some)
    }

    /// The texts by the path of the file in whose place they are; nothing in the place of one that is not there.
    pub(crate) const fn texts(&self) -> &BTreeMap<PathBuf, Option<String>> {
        &self.texts
    }

    /// The names of models.
    pub(crate) const fn models(&self) -> &BTreeSet<String> {
        &self.models
    }
}

/// An agent that is built in code instead of in a file of `agents/`.
///
/// It has the keys of an agent file and is checked as one, when the workspace is opened.
///
/// ```
/// use dalsegno_workspace::Agent;
///
/// let agent = Agent::new("desk")
///     .model("default")
///     .instructions("You help customers of a bookshop.")
///     .allow("orders.find")
///     .approve("orders.refund");
/// assert!(agent.text().contains("instructions = \"You help customers of a bookshop.\""));
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Agent {
    /// The name of the file, without its extension.
    file: String,
    source: Source,
}

#[derive(Debug, Clone, PartialEq)]
enum Source {
    Text(String),
    Table(Table),
}

impl Agent {
    /// Begins an agent of this name. Its version is that of `version` where it is set, and 0.1.0 otherwise.
    pub fn new(name: &str) -> Self {
        let table = [("name", name), ("version", "0.1.0")];
        let table = table.map(|(key, value)| (key.to_owned(), Value::String(value.to_owned())));
        Self { file: file_name(name), source: Source::Table(Table::from_iter(table)) }
    }

    /// Takes an agent from the text of an agent file. The name in the text tells it from others.
    pub fn from_toml(text: impl Into<String>) -> Self {
        let text = text.into();
        let table = text.parse::<Table>().ok();
        let name = table.as_ref().and_then(|table| table.get("name")).and_then(Value::as_str);
        // Errors, a missing name among them, are reported when the workspace is opened.
        Self { file: file_name(name.unwrap_or_default()), source: Source::Text(text) }
    }

    /// Sets `description`: what the agent does, for other agents that may call it.
    #[must_use]
    pub fn description(self, text: &str) -> Self {
        self.set("description", text)
    }

    /// Sets `model.use`: the name of a model in `dalsegno.toml`, or of one that the engine was given.
    #[must_use]
    pub fn model(self, name: &str) -> Self {
        self.set("model.use", name)
    }

    /// Sets `instructions`: what the model is told first.
    #[must_use]
    pub fn instructions(self, text: &str) -> Self {
        self.set("instructions", text)
    }

    /// Adds a name such as `orders.find`, or a pattern such as `orders.*`, to `tools.allow`: tools that the agent may call.
    #[must_use]
    pub fn allow(self, pattern: &str) -> Self {
        self.push("allow", pattern)
    }

    /// Adds a name or a pattern to `tools.approve`, and to `tools.allow`: tools that the agent may call when a person has
    /// approved the call.
    #[must_use]
    pub fn approve(self, pattern: &str) -> Self {
        self.push("allow", pattern).push("approve", pattern)
    }

    /// Sets any key of an agent file. Dots lead into tables: `limits.max_steps`.
    #[must_use]
    pub fn set(self, key: &str, value: impl Into<Value>) -> Self {
        self.edit(|mut table| {
            let mut parts: Vec<&str> = key.split('.').collect();
            let last = parts.pop().unwrap_or_default();
            for part in parts {
                table = inner(table, part);
            }
            table.insert(last.to_owned(), value.into());
        })
    }

    /// The agent as the text of an agent file.
    pub fn text(&self) -> String {
        match &self.source {
            Source::Text(text) => text.clone(),
            Source::Table(table) => table.to_string(),
        }
    }

    fn push(self, key: &str, pattern: &str) -> Self {
        self.edit(|table| {
            let list = inner(table, "tools").entry(key).or_insert_with(|| Value::Array(Vec::new()));
            if let Value::Array(list) = list
                && !list.iter().any(|found| found.as_str() == Some(pattern))
            {
                list.push(Value::String(pattern.to_owned()));
            }
        })
    }

    /// Changes the keys. A text that is not TOML stays as it is: opening the workspace reports what is wrong with it.
    fn edit(mut self, edit: impl FnOnce(&mut Table)) -> Self {
        if let Source::Text(text) = &self.source
            && let Ok(table) = text.parse()
        {
            self.source = Source::Table(table);
        }
        if let Source::Table(table) = &mut self.source {
            edit(table);
        }
        self
    }
}

/// A table in a table, made if there is none.
fn inner<'a>(table: &'a mut Table, key: &str) -> &'a mut Table {
    let entry = table.entry(key).or_insert_with(|| Value::Table(Table::new()));
    if !entry.is_table() {
        *entry = Value::Table(Table::new());
    }
    match entry {
        Value::Table(table) => table,
        _ => unreachable!("it was made a table"),
    }
}

/// A name as part of a path. A text that is not an agent's name is reported when the workspace is opened.
fn file_name(name: &str) -> String {
    name.parse::<AgentName>().map_or_else(|_| "agent".to_owned(), |name| name.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::ModelBinding;
    use crate::workspace::Workspace;

    fn load(in_code: &InCode) -> (Vec<String>, Option<Workspace>) {
        let dir = tempfile::tempdir().unwrap();
        let mut in_code = in_code.clone();
        in_code.without_settings_file(dir.path());
        let loaded = Workspace::load_with(dir.path(), &in_code);
        (loaded.diagnostics.iter().map(ToString::to_string).collect(), loaded.workspace)
    }

    fn with(agent: &Agent) -> InCode {
        let mut in_code = InCode::default();
        in_code.add_model("default");
        in_code.add_agent(agent);
        in_code
    }

    #[test]
    fn an_agent_in_code_is_the_agent_that_a_file_would_be() {
        let built = Agent::new("desk").model("default").instructions("Be brief.").set("limits.max_steps", 3);
        let text = "name = \"desk\"\nversion = \"0.1.0\"\ninstructions = \"Be brief.\"\n\n[model]\nuse = \"default\"\n\n\
                    [limits]\nmax_steps = 3\n";
        for agent in [built, Agent::from_toml(text)] {
            let (problems, workspace) = load(&with(&agent));
            assert_eq!(problems, Vec::<String>::new());
            let workspace = workspace.unwrap();
            let agent = &workspace.agents[&"desk".parse::<AgentName>().unwrap()];
            assert_eq!(agent.source.file(), Path::new("agents/desk.toml"));
            let table = |text: &str| text.parse::<Table>().unwrap();
            assert_eq!(table(agent.source.text()), table(text));
        }
    }

    #[test]
    fn a_text_can_be_changed_and_keeps_its_own_form_if_it_is_not() {
        let text = "# mine\nname = \"desk\"\n";
        assert_eq!(Agent::from_toml(text).text(), text);
        let changed = Agent::from_toml(text).model("fast").model("slow").text();
        assert_eq!(changed, "name = \"desk\"\n\n[model]\nuse = \"slow\"\n");
    }

    #[test]
    fn approval_asks_for_a_permission_as_well_and_nothing_is_listed_twice() {
        let text =
            Agent::new("desk").allow("orders.*").approve("orders.refund").approve("orders.refund").text();
        assert!(text.contains("allow = [\"orders.*\", \"orders.refund\"]"), "{text}");
        assert!(text.contains("approve = [\"orders.refund\"]"), "{text}");
    }

    #[test]
    fn what_is_wrong_is_reported_with_the_place_of_a_file() {
        for (agent, problem) in [
            (Agent::new("Not a name"), "agents/agent.toml"),
            (Agent::from_toml("name = "), "agents/agent.toml"),
            (Agent::new("desk").model("other").instructions("x"), "agents/desk.toml"),
            (Agent::new("desk").model("default").set("instruction", "x"), "agents/desk.toml"),
        ] {
            let (problems, workspace) = load(&with(&agent));
            assert!(problems.iter().any(|found| found.contains(problem)), "{problem}: {problems:?}");
            assert!(workspace.is_none(), "{problem}");
        }
    }

    #[test]
    fn without_a_settings_file_a_folder_is_a_workspace_only_where_code_says_so() {
        let dir = tempfile::tempdir().unwrap();
        assert!(Workspace::load_with(dir.path(), &with(&Agent::new("desk"))).workspace.is_none());
        std::fs::write(
            dir.path().join(SETTINGS_FILE),
            "[models.mine]\nprovider = \"script\"\nfile = \"x\"\n",
        )
        .unwrap();
        std::fs::write(dir.path().join("x"), "").unwrap();
        let mut in_code = with(&Agent::new("desk").model("mine").instructions("x"));
        in_code.without_settings_file(dir.path());
        let loaded = Workspace::load_with(dir.path(), &in_code);
        let settings = loaded.settings.unwrap();
        assert_eq!(settings.models.keys().collect::<Vec<_>>(), ["default", "mine"]);
        assert_eq!(settings.models["default"], ModelBinding::InCode);
    }

    #[test]
    fn a_file_is_read_as_it_is_given_or_as_if_it_were_not_there() {
        let dir = tempfile::tempdir().unwrap();
        let text = |name: &str| {
            format!("name = \"{name}\"\n[output]\nschema = \"form.json\"\n[model]\nuse = \"default\"\n")
        };
        std::fs::create_dir(dir.path().join("agents")).unwrap();
        for name in ["desk", "old"] {
            std::fs::write(dir.path().join(format!("agents/{name}.toml")), text(name)).unwrap();
        }
        std::fs::write(dir.path().join("form.json"), "{}").unwrap();
        let load = |in_code: &InCode| {
            let loaded = Workspace::load_with(dir.path(), in_code);
            let problems: Vec<String> = loaded.diagnostics.iter().map(ToString::to_string).collect();
            let names =
                |workspace: Workspace| workspace.agents.keys().map(ToString::to_string).collect::<Vec<_>>();
            loaded.workspace.map(names).ok_or(problems.join("\n"))
        };
        let mut in_code = InCode::default();
        in_code.add_model("default");
        in_code.set_settings("");
        assert_eq!(load(&in_code).unwrap(), ["desk", "old"]);
        in_code.set_absent("agents/old.toml");
        assert_eq!(load(&in_code).unwrap(), ["desk"]);
        assert!(!in_code.has(Path::new("agents/old.toml")));
        // Schemas are files as well.
        in_code.set_text("form.json", "{ \"type\": 7 }");
        assert!(load(&in_code).unwrap_err().contains("this is not a JSON Schema"));
        in_code.set_absent("form.json");
        assert!(load(&in_code).unwrap_err().contains("`form.json` does not exist"));
        in_code.set_absent("dalsegno.toml");
        assert!(load(&in_code).unwrap_err().contains("has no `dalsegno.toml`"));
    }

    #[test]
    fn the_settings_of_a_model_that_a_program_brings_hold() {
        let dir = tempfile::tempdir().unwrap();
        let mut in_code = InCode::default();
        in_code.add_model("default");
        in_code.set_settings("[models.default]\nprovider = \"openai\"\nmodel = \"m\"\nconcurrency = 1\n");
        let settings = Workspace::load_with(dir.path(), &in_code).settings.unwrap();
        let ModelBinding::Http(binding) = &settings.models["default"] else { panic!() };
        assert_eq!(binding.concurrency, Some(1));
    }
}

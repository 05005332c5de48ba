//! The agents that are tested.

use std::fmt;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use dalsegno_core::{EffectClass, JsonSchema};
use dalsegno_workspace::{Agent, Catalogue, CatalogueTool, Diagnostic, InCode, Workspace};

use crate::case::Case;

/// The agents of a workspace, to be tested. Cheap to clone.
///
/// What a test changes is checked when the first case of it runs, as `dalsegno check` would.
#[derive(Debug, Clone)]
pub struct Agents {
    root: Arc<Path>,
    in_code: InCode,
    tools: Catalogue,
    /// The files, read once for all cases, until a test changes something.
    read: Arc<OnceLock<Result<Arc<Workspace>, Problems>>>,
}

/// What is wrong with a workspace or a case, one problem after the other, each with what to do.
#[derive(Clone, PartialEq, Eq)]
pub struct Problems(String);

impl Agents {
    /// The agents of the workspace in this folder, which has a `dalsegno.toml`. A relative path begins where the test runs, which with
    /// Cargo is the folder of the package.
    ///
    /// # Errors
    /// What `dalsegno check` would report as an error.
    pub fn open(folder: impl AsRef<Path>) -> Result<Self, Problems> {
        let agents = Self::new(folder.as_ref(), InCode::default());
        agents.workspace().map(|_| agents)
    }

    /// Agents without a folder: this one, and those that [`with`](Self::with) adds.
    ///
    /// Each model that the agent names is there: a case says what it replies.
    pub fn of(agent: &Agent) -> Self {
        let mut in_code = InCode::default();
        in_code.set_settings("");
        // Such a folder does not exist, so that nothing on the disk has a say.
        Self::new(Path::new("/dalsegno-test/agents-in-code"), in_code).with(agent)
    }

    fn new(root: &Path, in_code: InCode) -> Self {
        Self { root: root.into(), in_code, tools: Catalogue::default(), read: Arc::default() }
    }

    fn change(mut self, change: impl FnOnce(&mut InCode)) -> Self {
        change(&mut self.in_code);
        self.read = Arc::default();
        self
    }

    /// Adds an agent, or takes it in the place of the one in the folder that has its name.
    #[must_use]
    pub fn with(self, agent: &Agent) -> Self {
        self.change(|in_code| {
            in_code.add_agent(agent);
            models(&agent.text()).into_iter().for_each(|model| in_code.add_model(model));
        })
    }

    /// Reads `text` instead of a file of the folder, such as `tools/refunds.json`. The file need not exist.
    #[must_use]
    pub fn file(self, path: &str, text: &str) -> Self {
        self.change(|in_code| in_code.set_text(path, text))
    }

    /// Changes one key of an agent in the folder; dots lead into tables. So a test can go through many configurations.
    ///
    /// ```
    /// # use dalsegno_test::{Agent, Agents, Reply, json};
    /// # let agents = Agents::of(&Agent::new("desk").model("default").instructions("x"));
    /// for steps in 1..=3 {
    ///     let agents = agents.clone().set("desk", "limits.max_steps", steps);
    ///     assert!(agents.case("desk", "Hello").reply(Reply::text("Hello.")).run().steps() <= 1);
    /// }
    /// ```
    ///
    /// # Panics
    /// If there is no such agent.
    #[must_use]
    #[track_caller]
    pub fn set(self, agent: &str, key: &str, value: impl Into<Setting>) -> Self {
        let Setting(value) = value.into();
        let workspace = self.workspace().unwrap_or_else(|problems| panic!("{problems}"));
        let known = agent.parse().ok().and_then(|name| workspace.agents.get(&name));
        let Some(known) = known else { panic!("there is no agent `{agent}`, whose `{key}` a test changes") };
        let (file, text) = (known.source.file().to_owned(), known.source.text().to_owned());
        let changed = value.set_in(Agent::from_toml(text), key);
        self.change(|in_code| in_code.set_text(file, changed.text()))
    }

    /// Adds a tool that the program itself brings, as `EngineBuilder::tool` does: its description and the JSON Schema of its arguments.
    /// Both are in what `Tool::describe` returns. It may not be repeated, unless [`tool_class`](Self::tool_class) says otherwise.
    ///
    /// # Panics
    /// If the name is not one of a tool.
    #[must_use]
    #[track_caller]
    pub fn tool(
        mut self,
        name: &str,
        description: impl Into<String>,
        arguments: impl Into<JsonSchema>,
    ) -> Self {
        let name = name.parse().unwrap_or_else(|error| panic!("a tool is called `{name}`: {error}"));
        self.tools.insert(name, CatalogueTool::new(description, arguments));
        self
    }

    /// Says what the structured result of a tool that [`tool`](Self::tool) added looks like, as a JSON Schema.
    ///
    /// # Panics
    /// If no tool of this name was added.
    #[must_use]
    #[track_caller]
    pub fn tool_returns(mut self, name: &str, schema: serde_json::Value) -> Self {
        let tool = name.parse().ok().and_then(|name| self.tools.get_mut(&name));
        let Some(tool) = tool else { panic!("no tool `{name}` was added before its result") };
        tool.output_schema = Some(schema);
        self
    }

    /// Says what may repeat of the calls of a tool that [`tool`](Self::tool) added.
    ///
    /// # Panics
    /// If no tool of this name was added.
    #[must_use]
    #[track_caller]
    pub fn tool_class(mut self, name: &str, class: EffectClass) -> Self {
        let tool = name.parse().ok().and_then(|name| self.tools.get_mut(&name));
        let Some(tool) = tool else { panic!("no tool `{name}` was added before its class") };
        tool.declared = Some(class);
        self
    }

    /// Begins a case: this agent is asked this text.
    pub fn case(&self, agent: &str, input: &str) -> Case {
        Case::new(self.clone(), agent, input)
    }

    /// The JSON Schema of the arguments of a tool, as a model reads it, for [`any_value`](crate::any_value).
    ///
    /// # Panics
    /// If the agent has no such tool.
    #[track_caller]
    pub fn arguments_of(&self, agent: &str, tool: &str) -> serde_json::Value {
        let made = self.case(agent, "").build().unwrap_or_else(|problems| panic!("{problems}"));
        let found = tool.parse().ok().and_then(|name| made.one.case().config.tools.tools.get(&name));
        let Some(found) = found else { panic!("the agent `{agent}` has no tool `{tool}`") };
        (*found.input_schema).clone()
    }

    pub(crate) fn workspace(&self) -> Result<Arc<Workspace>, Problems> {
        let read = || {
            let loaded = Workspace::load_with(&self.root, &self.in_code);
            loaded.sound().map(Arc::new).map_err(|found| Problems::of(&found))
        };
        self.read.get_or_init(read).clone()
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) const fn tools(&self) -> &Catalogue {
        &self.tools
    }
}

/// A value of a key in an agent file.
#[derive(Debug, Clone, PartialEq)]
pub struct Setting(Kind);

#[derive(Debug, Clone, PartialEq)]
enum Kind {
    Text(String),
    Whole(i64),
    Number(f64),
    Is(bool),
    List(Vec<String>),
}

impl Kind {
    fn set_in(self, agent: Agent, key: &str) -> Agent {
        match self {
            Self::Text(text) => agent.set(key, text),
            Self::Whole(number) => agent.set(key, number),
            Self::Number(number) => agent.set(key, number),
            Self::Is(is) => agent.set(key, is),
            Self::List(texts) => agent.set(key, texts),
        }
    }
}

macro_rules! setting {
    ($($from:ty => $kind:ident),*) => {
        $(impl From<$from> for Setting {
            fn from(value: $from) -> Self {
                Self(Kind::$kind(value.into()))
            }
        })*
    };
}

setting!(&str => Text, String => Text, i64 => Whole, i32 => Whole, u32 => Whole, f64 => Number, bool => Is, Vec<String> => List);

/// The models that the text of an agent names: each `use` and each `fallback` of a table `model`.
fn models(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    if let Ok(table) = text.parse::<toml::Table>() {
        collect(&toml::Value::Table(table), false, &mut names);
    }
    names
}

fn collect(value: &toml::Value, is_model: bool, names: &mut Vec<String>) {
    match value {
        toml::Value::Table(table) => {
            for (key, value) in table {
                match value {
                    toml::Value::String(name) if is_model && key == "use" => names.push(name.clone()),
                    toml::Value::Array(list) if is_model && key == "fallback" => {
                        names.extend(list.iter().filter_map(toml::Value::as_str).map(str::to_owned));
                    }
                    value => collect(value, key == "model", names),
                }
            }
        }
        toml::Value::Array(items) => items.iter().for_each(|item| collect(item, false, names)),
        _ => {}
    }
}

impl Problems {
    pub(crate) fn of(found: &[Diagnostic]) -> Self {
        let mut text = String::new();
        for (number, problem) in found.iter().filter(|one| one.is_error()).enumerate() {
            text.push_str(if number == 0 { "" } else { "\n" });
            let place = match problem.span.as_ref().filter(|span| !span.is_empty()) {
                Some(_) => format!("{problem}"),
                None => format!("{}[{}]: {}", problem.severity, problem.code, problem.message),
            };
            text.push_str(&place);
            for help in problem.label.iter().chain(&problem.help) {
                text.push_str(&format!("\n  {help}"));
            }
        }
        Self(text)
    }

    pub(crate) fn saying(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

// `unwrap` shows it.
impl fmt::Debug for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Problems {}

//! A workspace folder, read as a whole.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use dalsegno_core::{AgentName, ModelName, ToolName, ToolOwner};

use crate::agent::{self, AgentFile, BrokenAgent, ReadAgents};
use crate::catalogue::Catalogue;
use crate::code::Code;
use crate::diagnostic::{Diagnostic, Severity};
use crate::documents::{self, Documents};
use crate::footprint::Footprint;
use crate::in_code::InCode;
use crate::lock::{Lock, LockRead, LockedServer};
use crate::place::Place;
use crate::report::Report;
use crate::settings::{
    self, KeysPlace, LineSurface, ModelBinding, SecretRef, Settings, SettingsRead, Unpriced, VoiceLine,
};
use crate::source::SourceFile;
use crate::tenant::{self, ReadTenants, Tenant};
use crate::toolkit::{self, ToolkitFile};

/// A workspace without errors.
#[derive(Debug, Clone)]
pub struct Workspace {
    /// The folder that holds `dalsegno.toml`.
    pub root: PathBuf,
    /// What `dalsegno.toml` says.
    pub settings: Settings,
    /// Nobody knows what `dalsegno.toml` says, and the store is the one at the default place: see [`Loaded::assumed`].
    pub store_is_assumed: bool,
    /// The documents of declarative tools, `tools/*.json`, by name.
    pub toolkits: BTreeMap<String, ToolkitFile>,
    /// The tenants of `tenants/*.toml` by name; [`check_tenant`](Self::check_tenant) says for which names a run may start.
    pub tenants: BTreeMap<String, Tenant>,
    /// The agents of `agents/*.toml` by name.
    pub agents: BTreeMap<AgentName, AgentFile>,
    /// The names by which models see actions of toolkits, as `dalsegno.lock` pins them.
    pub names: BTreeMap<ToolName, ModelName>,
    /// What the tool servers offer, by server, as `dalsegno.lock` pins it: a run asks these servers only when it uses them.
    pub pinned: BTreeMap<String, LockedServer>,
    /// What is not in use, since its file has errors. Empty in a workspace without errors.
    pub broken: Broken,
    /// The files that the workspace was read from, as they were.
    pub footprint: Footprint,
    /// The parts that a program gave instead of files.
    pub in_code: InCode,
    /// The documents of a catalogue, which stand in for files.
    pub documents: Documents,
}

/// What of a workspace is not in use, since its file has errors. The rest of the workspace is.
#[derive(Debug, Clone, Default)]
pub struct Broken {
    /// Documents of declarative tools, `tools/*.json`, by the name of the document and by that of its file.
    pub tools: BTreeSet<String>,
    /// Tenants, by the name in the file and by that of the file.
    pub tenants: BTreeSet<String>,
    /// Agents, by the name in the file; by that of the file where the file does not say. With them those that call one of
    /// them or hand over to it.
    pub agents: BTreeMap<String, BrokenAgent>,
    /// Agent files of which not even the name of the agent is known.
    pub unnamed: BTreeSet<PathBuf>,
    /// All that is wrong with these files and with the tools of single tenants.
    pub diagnostics: Vec<Diagnostic>,
}

/// What came of reading a workspace.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// The workspace; `None` if there is an error.
    pub workspace: Option<Workspace>,
    /// The workspace without the agents, tools and tenants whose files have errors, where there are no other errors.
    rest: Option<Workspace>,
    footprint: Footprint,
    /// What `dalsegno.toml` says, even if there are errors, with defaults in place of what does not fit; `None` if the
    /// place of the store is not known for certain. Enough to read what was recorded, not to run anything.
    pub settings: Option<Settings>,
    /// The settings by default, where `dalsegno.toml` is not TOML: there is a store at the default place, and nowhere in the
    /// file is the word `store` but where it names this place, so that it names no other one. Enough to tell what was recorded there and to end runs.
    pub assumed: Option<Settings>,
    /// All problems: those of `dalsegno.toml` first, then those of tools, tenants and agents, each file in its own
    /// order.
    pub diagnostics: Vec<Diagnostic>,
    /// What `dalsegno.lock` says, with its own problems and with those of the names that it pins. A workspace can be
    /// loaded without it, so that it can be written anew; [`sound`](Self::sound) asks for more.
    pub lock: LockRead,
    /// The files that were read, for whoever shows the diagnostics.
    pub sources: Vec<SourceFile>,
}

impl Workspace {
    /// The files and folders that people write, below the workspace's folder. Besides these it reads the JSON Schemas that agents
    /// name.
    pub const PLACES: [&str; 5] = [SETTINGS_FILE, Lock::FILE, AGENTS_FOLDER, "tools", "tenants"];

    /// The most bytes of any of these files; of all but `dalsegno.lock` it reads less.
    pub const FILE_BYTES_MAX: u64 = crate::lock::FILE_BYTES_MAX;

    /// Says whether a name is that of a hidden file, or of one that an editor keeps beside a file of a person. It reads none of these.
    pub fn is_kept_aside(name: &OsStr) -> bool {
        is_kept_aside(name)
    }

    /// Reads the workspace in `root`: `dalsegno.toml`, `tools/*.json`, `tenants/*.toml` with their tools, `agents/*.toml`
    /// and `dalsegno.lock`.
    ///
    /// Nothing is written, and besides these only the JSON Schemas that agents name are read. Of the other files only
    /// the existence is checked.
    pub fn load(root: &Path) -> Loaded {
        Self::load_with(root, &InCode::default())
    }

    /// Reads the workspace as [`load`](Self::load) does, with the parts that a program gives instead of files.
    pub fn load_with(root: &Path, in_code: &InCode) -> Loaded {
        Self::load_under(root, in_code, |_| Ok(Documents::default()))
    }

    /// Reads the workspace as [`load_with`](Self::load_with) does, with the documents of a catalogue instead of the files in whose
    /// place they stand. `catalogue` is asked for them once `dalsegno.toml` was read. It says which file it cannot read, and why:
    /// then the workspace cannot be used, since the files below may allow more than the documents.
    pub fn load_under(
        root: &Path,
        in_code: &InCode,
        catalogue: impl FnOnce(&Settings) -> Result<Documents, (PathBuf, String)>,
    ) -> Loaded {
        let files = Place::new(root, in_code.texts(), Documents::NONE);
        // Taken before anything is read: what changes meanwhile has changed since.
        let footprint = Footprint::take(root);
        let mut loaded = Loaded {
            workspace: None,
            rest: None,
            footprint: footprint.clone(),
            settings: None,
            assumed: None,
            diagnostics: Vec::new(),
            lock: Lock::read_in(files),
            sources: Vec::new(),
        };
        loaded.sources.extend(loaded.lock.source.clone());
        let mut read = load_settings(files, &mut loaded);
        if let Some(read) = &mut read {
            // What `dalsegno.toml` says of such a model holds all the same, such as how many calls it may have at once.
            for name in in_code.models() {
                read.settings.models.entry(name.clone()).or_insert(ModelBinding::InCode);
            }
        }
        // Which models and servers there are is known only if `dalsegno.toml` could be read without an error.
        let known = read.as_ref().map(|read| &read.settings).filter(|_| !loaded.has_errors());
        let documents = known.map_or_else(|| Ok(Documents::default()), catalogue);
        let documents = documents.unwrap_or_else(|(file, problem)| {
            let file = file.strip_prefix(root).unwrap_or(&file);
            let found = Diagnostic::new(Code::UnreadableFile, Severity::Error, file, problem);
            loaded
                .diagnostics
                .push(found.with_help("restore it from a backup, or move it away to use the files alone"));
            Documents::default()
        });
        let place = files.under(&documents);
        let toolkits = toolkit::load(place, known, &mut loaded);
        let tenants = tenant::load(place, known, &toolkits, &mut loaded);
        if let (Some(read), Some(_)) = (&read, known) {
            check_keys(&read.keys, &tenants, &mut loaded);
        }
        let agents = agent::load(place, known, (&toolkits, &tenants), &mut loaded);
        if let Some(settings) = known {
            check_triggers(settings, &agents, &tenants, &mut loaded);
            check_numbers(settings, &agents, &tenants, &mut loaded);
            check_backends(settings, &agents, &mut loaded);
            check_line_prices(settings, &agents, &tenants, &mut loaded);
        }
        let (toolkits, tenants, mut broken) = (
            toolkits.sound,
            tenants.sound,
            Broken {
                tools: toolkits.broken,
                tenants: tenants.broken,
                agents: agents.broken,
                unnamed: agents.unnamed,
                diagnostics: Vec::new(),
            },
        );
        let agents = agents.sound;
        broken.diagnostics.extend(loaded.diagnostics.iter().filter(|found| is_part(found)).cloned());
        if let Some(SettingsRead { settings, store_is_known, .. }) = read {
            loaded.settings = store_is_known.then(|| settings.clone());
            loaded.assumed = loaded.assume(root, &settings);
            let has_errors = loaded.has_errors();
            if loaded.diagnostics.iter().all(|found| !found.is_error() || is_part(found)) {
                let (root, names) = (root.to_path_buf(), BTreeMap::new());
                let pinned = loaded.lock.lock.as_ref().map(|lock| lock.servers.clone()).unwrap_or_default();
                let mut workspace = Self {
                    root,
                    settings,
                    store_is_assumed: false,
                    toolkits,
                    tenants,
                    agents,
                    names,
                    pinned,
                    broken,
                    footprint,
                    in_code: in_code.clone(),
                    documents: documents.clone(),
                };
                let (yielded, lock) = workspace.take_names(&loaded.lock);
                let has_errors = has_errors || !yielded.is_empty();
                loaded.diagnostics.extend(yielded);
                loaded.lock.take(lock);
                *if has_errors { &mut loaded.rest } else { &mut loaded.workspace } = Some(workspace);
            }
        }
        loaded
    }

    /// The declarative tools of a tenant, by the name of their document: those of the workspace, in whose place stand the
    /// tenant's own of the same name. For a tenant without a file, those of the workspace.
    pub fn toolkits_for(&self, tenant: &str) -> BTreeMap<&str, &ToolkitFile> {
        let own = self.tenants.get(tenant);
        let is_broken = |name: &String| own.is_some_and(|own| own.broken_tools.contains(name));
        let shared = self.toolkits.iter().filter(|(name, _)| !is_broken(name));
        let own = own.into_iter().flat_map(|tenant| &tenant.tools);
        shared.chain(own).map(|(name, file)| (name.as_str(), file)).collect()
    }

    /// The declarative tools of a tenant that are switched on, as part of the catalogue that
    /// [`AgentFile::resolve`] takes.
    pub fn declared_tools(&self, tenant: &str) -> Catalogue {
        let settings = self.tenants.get(tenant).map(|tenant| &tenant.toolkits);
        let mut catalogue = Catalogue::new();
        for (name, file) in self.toolkits_for(tenant) {
            let owner = self.owner_of(tenant, name);
            toolkit::add(&mut catalogue, file, settings.and_then(|settings| settings.get(name)), &owner);
        }
        catalogue
    }

    /// Whose the document is that a tenant has under this name today. One of the catalogue that all tenants have is each tenant's
    /// own: it gets the secrets of the tenant for which it runs, and none of the workspace.
    pub fn owner_of(&self, tenant: &str, toolkit: &str) -> ToolOwner {
        match self.tenants.get(tenant) {
            Some(own) if own.tools.contains_key(toolkit) => ToolOwner::Tenant(tenant.to_owned()),
            // The author of a document has no part in the secrets of the workspace.
            _ if self.toolkits.get(toolkit).is_some_and(ToolkitFile::is_document) => {
                ToolOwner::Tenant(tenant.to_owned())
            }
            _ => ToolOwner::Workspace,
        }
    }

    /// Finds where a secret of a toolkit is, for a tenant and a document of this owner, which need not be the one that the
    /// tenant has today.
    ///
    /// First what the tenant has for the agent alone, `[tools.<toolkit>.agents.<agent>] secrets`, then `[tools.<toolkit>]
    /// secrets` of the tenant, then its `[secrets]` under the secret's name, then `[secrets]` of `dalsegno.toml` under
    /// `"<toolkit>.<secret>"`. The last never goes to a document that is a tenant's own: that one could send it anywhere. A
    /// document of another tenant gets none.
    pub fn toolkit_secret(
        &self,
        tenant: &str,
        owner: &ToolOwner,
        agent: Option<&AgentName>,
        toolkit: &str,
        secret: &str,
    ) -> Option<&SecretRef> {
        if matches!(owner, ToolOwner::Tenant(other) if other != tenant) {
            return None;
        }
        let own = self.tenants.get(tenant);
        let settings = own.and_then(|own| own.toolkits.get(toolkit));
        let of_agent = settings
            .zip(agent)
            .and_then(|(set, agent)| set.of_agents.get(agent.as_str())?.secrets.get(secret));
        let set = settings.and_then(|settings| settings.secrets.get(secret));
        let named = || own.and_then(|own| own.secrets.get(secret));
        let is_own = *owner != ToolOwner::Workspace;
        let shared = || self.settings.secrets.get(&format!("{toolkit}.{secret}")).filter(|_| !is_own);
        of_agent.or(set).or_else(named).or_else(shared)
    }

    /// Says whether a person consents to a toolkit for an agent of a tenant alone, and not for all agents of the tenant.
    pub fn has_own_access(&self, tenant: &str, agent: &AgentName, toolkit: &str) -> bool {
        let settings = self.tenants.get(tenant).and_then(|tenant| tenant.toolkits.get(toolkit));
        settings.and_then(|set| set.of_agents.get(agent.as_str())).is_some_and(|own| own.own_access)
    }

    /// The tools of a server as `dalsegno.lock` pins them, narrowed to what its section offers; none of a server that is
    /// not pinned.
    pub fn pinned_tools(&self, server: &str) -> Option<Catalogue> {
        Some(self.pinned.get(server)?.catalogue(server, self.settings.servers.get(server)?))
    }

    /// Finds the nearest folder that holds `dalsegno.toml`, from `start` upwards. The last folder that is looked at is `home`, or one
    /// on which another file system begins: what lies above is not this user's project.
    pub fn discover(start: &Path, home: Option<&Path>) -> Option<PathBuf> {
        let start = std::path::absolute(start).ok()?;
        for folder in start.ancestors() {
            if folder.join(SETTINGS_FILE).is_file() {
                return Some(folder.to_path_buf());
            }
            if home.is_some_and(|home| is_same(folder, home)) || is_mount(folder) {
                return None;
            }
        }
        None
    }
}

impl Loaded {
    /// Says whether there is an error among the diagnostics.
    pub fn has_errors(&self) -> bool {
        self.diagnostics.iter().any(Diagnostic::is_error)
    }

    /// The workspace, to be run, with the names by which models see its tools. Agents, tools and tenants whose files have errors
    /// are not part of it: see [`Workspace::broken`]. What else is wrong with `dalsegno.lock` concerns only those who check.
    ///
    /// # Errors
    /// All problems, if `dalsegno.toml` or a pinned name has an error.
    pub fn sound(self) -> Result<Workspace, Vec<Diagnostic>> {
        let Self { workspace, rest, mut diagnostics, lock, .. } = self;
        if !lock.names_are_sound {
            diagnostics.extend(lock.diagnostics);
        } else if let Some(workspace) = workspace.or(rest) {
            return Ok(workspace);
        }
        Err(diagnostics)
    }

    /// The files that were read, as they were.
    pub fn footprint(&self) -> &Footprint {
        &self.footprint
    }

    /// Finds the text of a diagnostic's file.
    pub fn source(&self, file: &Path) -> Option<&SourceFile> {
        self.sources.iter().find(|source| source.file() == file)
    }

    /// Says whether the store is at its default place although nobody knows what `dalsegno.toml` says.
    fn assume(&self, root: &Path, read: &Settings) -> Option<Settings> {
        let file = Path::new(SETTINGS_FILE);
        let is_toml = |found: &Diagnostic| found.code != Code::TomlSyntax || found.file != file;
        if self.diagnostics.iter().all(is_toml) {
            return None;
        }
        let text = self.source(file)?.text();
        let settings = Settings { store: settings::default_store(root), ..read.clone() };
        (self.settings.is_none() && !settings::may_name_store(text) && settings.store.is_file())
            .then_some(settings)
    }

    /// Adds what was found in `dalsegno.toml` in the order of the file.
    fn warn(&mut self, found: Vec<Diagnostic>) {
        let file = Path::new(SETTINGS_FILE);
        for found in found {
            let start = |one: &Diagnostic| one.span.as_ref().map(|span| span.start);
            let is_before = |other: &Diagnostic| other.file == file && start(other) <= start(&found);
            let index = self.diagnostics.iter().take_while(|other| is_before(other)).count();
            self.diagnostics.insert(index, found);
        }
    }

    pub(crate) fn take(&mut self, report: Report) -> SourceFile {
        let (source, diagnostics) = report.finish();
        self.sources.push(source.clone());
        self.diagnostics.extend(diagnostics);
        source
    }
}

/// Says whether a problem takes out an agent, a tool or a tenant, and not the workspace.
fn is_part(found: &Diagnostic) -> bool {
    let is_in = |folder: &str| found.file != Path::new(folder) && found.file.starts_with(folder);
    let is_document = documents::is_document(&found.file);
    found.is_error() && (is_document || is_in("tools") || is_in("tenants") || is_in(AGENTS_FOLDER))
}

/// Says whether two paths lead to the same folder.
fn is_same(one: &Path, other: &Path) -> bool {
    one == other || matches!((one.canonicalize(), other.canonicalize()), (Ok(one), Ok(other)) if one == other)
}

/// Says whether another file system begins at this folder.
#[cfg(unix)]
fn is_mount(folder: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let device = |path: &Path| path.metadata().map(|found| found.dev()).ok();
    folder.parent().is_some_and(|above| device(folder) != device(above))
}

#[cfg(not(unix))]
const fn is_mount(_: &Path) -> bool {
    false
}

fn load_settings(place: Place<'_>, loaded: &mut Loaded) -> Option<SettingsRead> {
    let file = PathBuf::from(SETTINGS_FILE);
    if !place.has(&file) {
        let problem = Diagnostic::new(
            Code::NotAWorkspace,
            Severity::Error,
            &file,
            "this folder has no `dalsegno.toml`",
        );
        loaded
            .diagnostics
            .push(problem.with_help("pass the workspace's folder, or create a `dalsegno.toml` here"));
        return None;
    }
    let text = place.read(&file, FILE_BYTES_MAX, &mut loaded.diagnostics)?;
    let report = Report::new(SourceFile::new(file, text.as_str()));
    let read = report.parse(&text).map(|root_table| settings::read(&report, &root_table, place.root));
    loaded.take(report);
    read
}

/// Compares the keys of models with the tenants, among what else `dalsegno.toml` is warned of.
fn check_keys(keys: &[KeysPlace], tenants: &ReadTenants, loaded: &mut Loaded) {
    let Some(source) = loaded.source(Path::new(SETTINGS_FILE)).cloned() else { return };
    let sound: BTreeSet<&str> = tenants.sound.keys().map(String::as_str).collect();
    let found: Vec<_> = keys.iter().flat_map(|place| place.check(&source, &sound, &tenants.broken)).collect();
    loaded.warn(found);
}

/// Compares the triggers with the agents and the tenants, among what else `dalsegno.toml` is warned of.
fn check_triggers(settings: &Settings, agents: &ReadAgents, tenants: &ReadTenants, loaded: &mut Loaded) {
    let Some(source) = loaded.source(Path::new(SETTINGS_FILE)).cloned() else { return };
    let mut names: BTreeSet<&str> = agents.sound.keys().map(AgentName::as_str).collect();
    names.extend(agents.broken.keys().map(String::as_str));
    // It may be any agent: the files have errors that say so.
    if !agents.unnamed.is_empty() {
        names.extend(settings.triggers.values().map(|trigger| trigger.agent.value.as_str()));
    }
    let tenants = tenants.sound.keys().chain(&tenants.broken).map(String::as_str).collect();
    let triggers = settings.triggers.iter();
    let found: Vec<_> =
        triggers.flat_map(|(name, trigger)| trigger.check(name, &source, (&names, &tenants))).collect();
    loaded.warn(found);
}

/// Compares the numbers of the lines with the agents and the tenants.
fn check_numbers(settings: &Settings, agents: &ReadAgents, tenants: &ReadTenants, loaded: &mut Loaded) {
    let Some(source) = loaded.source(Path::new(SETTINGS_FILE)).cloned() else { return };
    let telephones = || settings.lines.values().filter_map(|line| line.telephone.as_ref());
    let mut names: BTreeSet<&str> = agents.sound.keys().map(AgentName::as_str).collect();
    names.extend(agents.broken.keys().map(String::as_str));
    // It may be any agent: the files have errors that say so.
    if !agents.unnamed.is_empty() {
        let named = telephones().flat_map(|telephone| telephone.numbers.values());
        names.extend(named.map(|answerer| answerer.agent.value.as_str()));
    }
    let is_mute =
        |name: &str| agents.sound.iter().any(|(known, agent)| known.as_str() == name && !agent.takes_calls());
    let speaking = names.iter().copied().filter(|name| !is_mute(name)).collect();
    let refers = tenants
        .sound
        .iter()
        .filter_map(|(name, tenant)| Some((name.as_str(), tenant.features.refer.as_ref()?)));
    let refers = refers.collect();
    let tenants = tenants.sound.keys().chain(&tenants.broken).map(String::as_str).collect();
    let found: Vec<_> = telephones()
        .flat_map(|telephone| telephone.check(&source, (&names, &speaking, &tenants), &refers))
        .collect();
    loaded.warn(found);
}

/// Reports the numbers in whose calls no agent would do the work: their live model asks for no tools itself.
fn check_backends(settings: &Settings, agents: &ReadAgents, loaded: &mut Loaded) {
    let Some(source) = loaded.source(Path::new(SETTINGS_FILE)).cloned() else { return };
    let is_alone = |line: &&VoiceLine| line.surface == LineSurface::Live { backend: None };
    let telephones = settings.lines.values().filter(is_alone).filter_map(|line| line.telephone.as_ref());
    let found = telephones.flat_map(|telephone| &telephone.numbers).filter_map(|(number, answerer)| {
        let name = &answerer.agent.value;
        if agents.sound.get(name)?.delegate().is_some() {
            return None;
        }
        let problem = format!("no agent does the work of `{name}` in calls to {number}");
        let warning = Diagnostic::new(Code::MissingKey, Severity::Warning, source.file(), problem);
        let warning = warning.at(&source, answerer.agent.span.clone());
        let warning = warning.with_label(format!("calls to {number} are rejected"));
        Some(warning.with_help(
            "add `backend_model` to the line, or `delegate = \"NAME\"` to `[voice]` in the agent's file",
        ))
    });
    let found = found.collect();
    loaded.warn(found);
}

/// Reports the lines without a price over which a bound on the cost would not hold.
fn check_line_prices(settings: &Settings, agents: &ReadAgents, tenants: &ReadTenants, loaded: &mut Loaded) {
    let Some(source) = loaded.source(Path::new(SETTINGS_FILE)).cloned() else { return };
    let unpriced = || settings.lines.iter().filter_map(|(name, line)| Some((name, line, line.unpriced()?)));
    let warned = |problem: String, lack: Unpriced| {
        let warning = Diagnostic::new(Code::MissingPrice, Severity::Warning, source.file(), problem);
        warning.with_help(lack.help())
    };
    let bounded = tenants.sound.iter().find(|(_, tenant)| tenant.max_cost_nano_usd_per_day.is_some());
    let of_tenant = bounded.zip(unpriced().next()).map(|((tenant, _), (line, _, lack))| {
        let key = lack.key();
        warned(
            format!("the tenant `{tenant}` has a daily budget, and the line `{line}` has no `{key}`"),
            lack,
        )
    });
    let numbers = unpriced().flat_map(|(_, line, lack)| {
        let numbers = line.telephone.iter().flat_map(|telephone| telephone.numbers.values());
        numbers.map(move |answerer| (answerer, lack))
    });
    let of_agents = numbers.filter_map(|(answerer, lack)| {
        let name = &answerer.agent.value;
        agents.sound.get(name)?.limits.max_cost_nano_usd?;
        let problem = format!(
            "the agent `{name}` bounds its cost, and the line that it answers has no `{}`",
            lack.key()
        );
        let warning = warned(problem, lack).at(&source, answerer.agent.span.clone());
        let label = match lack {
            Unpriced::Time => "`max_cost_usd` does not count the live model here",
            Unpriced::Tokens => "`max_cost_usd` holds for no call here",
        };
        Some(warning.with_label(label))
    });
    let found = of_tenant.into_iter().chain(of_agents).collect();
    loaded.warn(found);
}

/// Says whether a name is that of a hidden file, or of one that an editor keeps beside a file of a person: `.#a.toml`, `.a.toml.swp`,
/// `#a.toml#`, `~a.toml`, `a.toml~`; or that of a run which waits for a review beside its snapshot.
pub(crate) fn is_kept_aside(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    name.starts_with(['.', '#', '~']) || name.ends_with(['~', '#']) || name.ends_with(".snap.new")
}

/// A path as messages show it, the same on every system.
pub(crate) fn slashes(file: &Path) -> String {
    file.iter().map(|part| part.to_string_lossy()).collect::<Vec<_>>().join("/")
}

pub(crate) const SETTINGS_FILE: &str = "dalsegno.toml";
pub(crate) const AGENTS_FOLDER: &str = "agents";

/// A hundred times the largest agent file that people write by hand.
pub(crate) const FILE_BYTES_MAX: u64 = 1 << 20;

//! The errors of commands, each with its exit code, its stable name and one thing to try.

#[cfg(feature = "oauth")]
mod consent;
mod engine;
mod from;
mod journal;
#[cfg(feature = "serve")]
mod serve;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use dalsegno_memory::{ExportError, ImportError, MemoryError, Scope};
use dalsegno_runtime::{
    DocumentFailure, EngineError, OpenError, Received, RunFailure, SecretUnavailable, ToolboxError,
    TrialError,
};
use dalsegno_store::PostError;
use dalsegno_voice::LineError;
use dalsegno_workspace::Diagnostic;

#[cfg(feature = "oauth")]
pub(crate) use self::consent::ConsentTrouble;
use self::engine::engine;
use self::journal::run_failure;
#[cfg(feature = "serve")]
pub(crate) use self::serve::ServeTrouble;
use crate::exit::Exit;
use crate::render::ending::quoted;
use crate::render::text::count;
use crate::trust::{self, Program};

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("there is no `dalsegno.toml` in `{}` or in any folder above it", here.display())]
    NoWorkspace { here: PathBuf },
    #[error("`{}` belongs to another user (uid {user}), so this workspace is not used", place.display())]
    ForeignWorkspace { root: PathBuf, place: PathBuf, user: u32 },
    #[error("this workspace starts programs, and you have not agreed to them: {}", trust::listed(programs))]
    Programs { root: PathBuf, programs: Vec<Program> },
    #[error("`{}` has no `dalsegno.toml`", folder.display())]
    NotAWorkspace { folder: PathBuf },
    #[error("cannot use `{}`, the list of the workspaces that you trust", path.display())]
    TrustList { path: PathBuf, source: io::Error },
    #[error("no folder for the list of trusted workspaces: neither `DALSEGNO_STATE` nor `HOME` is set")]
    NoStateFolder,
    #[error("the current folder cannot be read")]
    NoCurrentFolder { source: io::Error },
    #[error("no thread could be started")]
    Runtime { source: io::Error },
    #[error("the signals of this process cannot be caught")]
    Signals { source: io::Error },
    #[error("the traces of `[telemetry]` cannot be sent")]
    Telemetry { source: dalsegno_telemetry::ExportError },
    #[error(transparent)]
    Secret(#[from] SecretUnavailable),
    #[error("the secret store does not have `{name}`")]
    NoSecret { name: String },
    #[cfg(feature = "oauth")]
    #[error(transparent)]
    Consent(#[from] ConsentTrouble),
    #[error("`{}` has several actions", file.display())]
    WhichAction { file: PathBuf, known: Vec<String> },
    #[error("the recording is of `{found}`, not of `{tool}`")]
    OtherRecording { tool: String, found: String },
    #[error(transparent)]
    Trial(Box<TrialError>),
    #[error("missing answer")]
    NoAnswer,
    #[error("cannot notify a run that waits for a secret")]
    Post { source: PostError },
    #[error("cannot serve metrics at `{address}`")]
    Metrics { address: SocketAddr, source: io::Error },
    #[error("cannot read `{place}`")]
    Input { place: String, source: io::Error },
    #[error("{place} is not JSON")]
    Json { place: String, source: serde_json::Error },
    #[error("`{option}` is {found}: expected an object")]
    NotAnObject { option: &'static str, found: &'static str },
    #[error("the secret is shorter than {shortest} bytes and could not be scrubbed from the records")]
    ShortSecret { shortest: usize },
    #[error("`{given}` is not {what}: expected {expected}")]
    NotAnId { given: String, what: &'static str, expected: &'static str },
    #[error("this workspace has no runs yet")]
    NoRuns,
    #[error("there is no journal at `{}`", path.display())]
    NoJournal { path: PathBuf },
    #[error("no open run in the session `{session}`")]
    NothingOpen { session: String },
    #[error("no run of this workspace begins with `{given}`")]
    UnknownRun { given: String },
    #[error("`{given}` is the beginning of {} runs: {}", found.len(), found.join(", "))]
    AmbiguousRun { given: String, found: Vec<String> },
    #[error("run {run} does not wait for an operation {given}: it waits for {}", list(waiting))]
    UnknownOperation { run: String, given: String, waiting: Vec<String> },
    #[error("`{given}` is the beginning of several operations: {}", found.join(", "))]
    AmbiguousOperation { given: String, found: Vec<String> },
    #[error(
        "`{given}` is not an answer: expected `happened`, `not-happened`, `refused:WHY`, or `@FILE` with its result"
    )]
    NotAnAnswer { given: String },
    #[error("run {run} has no operation that begins with `{given}`")]
    NoSuchOperation { run: String, given: String },
    #[error("`{}` holds no runs", path.display())]
    NotAnArchive { path: PathBuf, source: dalsegno_store::ArchiveError },
    #[error("agent `{agent}` has no model, so `--endpoint` has nothing to replace")]
    NoModel { agent: String },
    #[error("`dalsegno.toml` has no model `{name}`: it has {}", list(known))]
    UnknownModel { name: String, known: Vec<String> },
    #[error("`{}` is no script of a call", path.display())]
    LiveScript { path: PathBuf, source: dalsegno_models::LiveScriptError },
    #[error(transparent)]
    VoiceLine(LineError),
    #[error("run {run} is no call")]
    NoCall { run: dalsegno_core::RunId },
    #[error("`{}` has an unknown file type", path.display())]
    MediaType { path: PathBuf },
    #[error("stopped before the run began")]
    Stopped,
    #[error("run {run} has not ended yet: another process performs it and was asked to cancel it")]
    NotLetGo { run: String },
    #[error("`{}` has errors", file.display())]
    Configuration { file: PathBuf, problems: Box<Problems> },
    #[error("cannot measure in `{}`", place.display())]
    CannotMeasure { place: PathBuf, source: io::Error },
    #[error("the disk of `{}` could not be measured", place.display())]
    NotMeasured { place: PathBuf, source: Box<dyn std::error::Error + Send + Sync> },
    #[error("stopped before the measurement finished")]
    StoppedMeasuring,
    #[error("`{}` could not be removed", path.display())]
    LeftBehind { path: PathBuf, source: io::Error },
    #[error(
        "missing fork point for run {run}: pass `--at STEP` (for a call, `--at TURN`) or `--set OP=FILE`"
    )]
    NoPlaceToFork { run: String },
    #[error("run {run} is no call: `--say`, `--line` and `--script` are for forks of calls")]
    ForkOfNoCall { run: String },
    #[error("the debugger needs a terminal for its input and its output")]
    NoTerminal,
    #[error("the terminal cannot be used as a screen")]
    Screen { source: io::Error },
    #[error("the outcome was not edited")]
    Editor { source: io::Error },
    #[error("the file and the document would both go to standard output")]
    TwoDocuments,
    #[error("`{}` is incomplete: its end is missing after {}", path.display(), count(*bytes, "byte"))]
    CutArchive { path: PathBuf, bytes: u64 },
    #[error("operation {operation} was not approved: missing `--shown`")]
    NotShown { operation: String, shown: String },
    #[error("{what} does not match `{option}`: nothing was answered")]
    ShownOther { what: &'static str, option: &'static str },
    #[error("{question} does not take this kind of answer")]
    OtherKind { question: &'static str, help: &'static str },
    #[error("line {number} of standard input {why}")]
    Line { number: u64, why: &'static str },
    #[error("`--{option}` needs an answer")]
    WithoutAnswer { option: &'static str },
    #[error("run {run} has no step {step}: it has {}", count(*steps, "step"))]
    UnknownStep { run: String, step: u64, steps: u64 },
    #[error("run {run} has no model call{}", scope(*step, operation.as_deref()))]
    NoPrompt { run: String, step: Option<u64>, operation: Option<String> },
    #[error("operation {operation} of run {run} is a model call, whose messages have no single origin")]
    NotTraced { run: String, operation: String },
    #[error("{label} has no argument `{given}`{}", known_arguments(known))]
    NoArgument { given: String, label: String, known: Vec<String> },
    #[error("`{}` is already a workspace: it has a `dalsegno.toml`", folder.display())]
    AlreadyAWorkspace { folder: PathBuf },
    #[error("{} already: {}", if files.len() == 1 { "a file exists" } else { "files exist" }, paths(files))]
    Taken { files: Vec<PathBuf> },
    #[error("{} another content than the catalogue: {}", if files.len() == 1 { "a file has" } else { "files have" }, paths(files))]
    OtherFiles { files: Vec<PathBuf> },
    #[error("the catalogue has no such document `{name}`")]
    NoDocument { name: String },
    #[error(transparent)]
    Documents(Box<DocumentFailure>),
    #[error("`{}` already exists", path.display())]
    FileTaken { path: PathBuf },
    #[error("`{}` holds no runs", path.display())]
    NotAReport { path: PathBuf, source: dalsegno_report::page::PageError },
    #[error("cannot write `{}`", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("cannot compare with `{given}`: {why}")]
    NoBase { given: String, why: String },
    #[error("nothing was started: {message}")]
    Eval { message: String, help: &'static str },
    #[error("the eval stopped: {message}")]
    EvalStopped { message: String },
    #[error("no case can be made of run {run}: {why}")]
    NotACase { run: String, why: String },
    #[error("`{}` is there already and no cassette of a run", path.display())]
    NoCassette { path: PathBuf },
    #[error("`{tool}` is {why}, and you have not agreed to it")]
    NotAgreed { tool: String, why: String },
    #[error(transparent)]
    Catalogue(dalsegno_catalogue::OpenError),
    #[error(transparent)]
    Backup(#[from] dalsegno_store::BackupError),
    #[error("there is no entity `{name}` in this memory")]
    UnknownEntity { name: String, known: Vec<String> },
    #[error("the scope `{scope}` does not have {what}")]
    NotInScope { what: String, scope: Scope },
    #[error("`{given}` is the beginning of several observations: {}", found.join(", "))]
    AmbiguousObservation { given: String, found: Vec<String> },
    #[error(transparent)]
    Toolbox(Box<ToolboxError>),
    #[error(transparent)]
    Memory(#[from] MemoryError),
    #[error("cannot export the memory")]
    Export(#[from] ExportError),
    #[error("nothing was imported from `{place}`")]
    Import { place: String, source: ImportError },
    #[cfg(feature = "serve")]
    #[error(transparent)]
    Serve(#[from] ServeTrouble),
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error(transparent)]
    Run(#[from] RunFailure),
}

/// The problems of a file that replaces one of the workspace's own.
#[derive(Debug)]
pub(crate) struct Problems {
    pub(crate) diagnostics: Vec<Diagnostic>,
    /// The text of the file, with its secrets masked.
    pub(crate) text: Option<String>,
}

/// The consequences of an error.
pub(crate) struct ErrorClass {
    /// How the command ends.
    pub(crate) exit: Exit,
    /// The stable name of the error.
    pub(crate) code: &'static str,
    /// One thing to try, where the message does not say it itself.
    pub(crate) help: Option<String>,
}

impl ErrorClass {
    fn new(exit: Exit, code: &'static str) -> Self {
        Self { exit, code, help: None }
    }

    fn with_help(self, help: impl Into<String>) -> Self {
        Self { help: Some(help.into()), ..self }
    }
}

impl Error {
    /// Whether content that the command needs was erased on purpose.
    pub(crate) fn is_erased(&self) -> bool {
        self.class().code == "erased"
    }

    /// The one place that decides how a command ends after an error.
    pub(crate) fn class(&self) -> ErrorClass {
        let bad_input = |code| ErrorClass::new(Exit::BadInput, code);
        let failed = |code| ErrorClass::new(Exit::Failed, code);
        match self {
            Self::NoWorkspace { .. } => bad_input("no_workspace")
                .with_help("make one with `dalsegno init`, or name one with `--workspace DIR`"),
            Self::ForeignWorkspace { root, .. } => bad_input("foreign_workspace").with_help(format!(
                "look at its files; if you trust them, run `dalsegno trust {}`",
                quoted(&root.display().to_string())
            )),
            Self::Programs { root, .. } => bad_input("programs").with_help(format!(
                "look at them; then run `dalsegno trust {}`, or give `--trust` to agree for this command",
                quoted(&root.display().to_string())
            )),
            Self::NotAWorkspace { .. } => bad_input("no_workspace")
                .with_help("name the folder of a workspace, or make one with `dalsegno init`"),
            Self::TrustList { .. } => {
                failed("trust").with_help("correct the file, or remove it: then you trust no workspace")
            }
            Self::NoStateFolder => failed("trust").with_help("set `DALSEGNO_STATE` to a folder of yours"),
            Self::NoCurrentFolder { .. } => {
                bad_input("no_workspace").with_help("name a workspace with `--workspace DIR`")
            }
            Self::Runtime { .. } | Self::Signals { .. } => {
                failed("machine").with_help("raise the limits of this process (see `ulimit -a`)")
            }
            Self::Telemetry { .. } => {
                bad_input("telemetry").with_help("correct `[telemetry]` in dalsegno.toml, or take it out")
            }
            Self::Secret(_) => bad_input("secret"),
            #[cfg(feature = "oauth")]
            Self::Consent(trouble) => trouble.class(),
            Self::WhichAction { known, .. } => {
                bad_input("unknown_tool").with_help(format!("name one with `--action`: {}", known.join(", ")))
            }
            Self::OtherRecording { .. } => {
                bad_input("recording").with_help("record this tool with `--record FILE`")
            }
            Self::Trial(error) => match **error {
                TrialError::NotRecorded { .. } => bad_input("recording").with_help(
                    "record it with `--record FILE`, which performs the tool, or perform it with `--live`",
                ),
                TrialError::Scrubbing { .. } => failed("engine"),
                _ => bad_input("unknown_tool"),
            },
            Self::NotShown { shown, .. } => bad_input("not_shown").with_help(format!(
                "read the arguments, then pass `--shown {shown}`; on a terminal, the command asks"
            )),
            Self::ShownOther { .. } => {
                bad_input("shown_other").with_help("read what waits now, then pass the digits beside it")
            }
            Self::OtherKind { help, .. } => bad_input("bad_answer").with_help(*help),
            Self::NoAnswer => bad_input("bad_answer").with_help(
                "pass `--approve`, `--deny`, `--answer TEXT` or `--outcome happened|not-happened|@FILE`",
            ),
            Self::NoSecret { .. } => {
                bad_input("secret").with_help("list its secrets with `dalsegno secret list`")
            }
            Self::Post { .. } => failed("storage")
                .with_help("the secret is in the store: resume the run with `dalsegno resume`"),
            #[cfg(feature = "serve")]
            Self::Serve(trouble) => trouble.class(),
            Self::Metrics { .. } => bad_input("metrics")
                .with_help("name an address of this machine with a free port, such as `127.0.0.1:9464`"),
            Self::LiveScript { source: dalsegno_models::LiveScriptError::Read { .. }, .. } => {
                bad_input("unreadable_input").with_help("name a readable file of UTF-8 text")
            }
            Self::LiveScript { .. } => bad_input("bad_argument")
                .with_help("write one `[[turns]]` for each thing that the caller or the live model does"),
            Self::VoiceLine(error) => line(error),
            Self::NoCall { .. } => bad_input("no_call")
                .with_help("list the calls that are open with `dalsegno call list`"),
            Self::NotAnObject { .. } => {
                bad_input("bad_argument").with_help("write an object, such as '{\"id\": \"42\"}', or `@FILE`")
            }
            Self::ShortSecret { .. } => {
                bad_input("secret").with_help("use a longer one: a short secret also matches ordinary words")
            }
            Self::Input { source, .. } if source.kind() == io::ErrorKind::FileTooLarge => {
                bad_input("unreadable_input").with_help("name a smaller file, or a part of this one")
            }
            Self::Input { .. } => {
                bad_input("unreadable_input").with_help("name a readable file of UTF-8 text, or `-`")
            }
            Self::Line { .. } => bad_input("unreadable_input")
                .with_help("write one message on each line, in UTF-8; earlier lines were sent"),
            Self::Json { .. } => {
                bad_input("not_json").with_help("write JSON, such as '{\"severity\": 2}', or `@FILE`")
            }
            Self::NotAnId { what: AN_OPERATION, .. } => {
                bad_input("unknown_operation").with_help("list a run's operations with `dalsegno show RUN`")
            }
            Self::NotAnId { what: AN_OBSERVATION, .. } => bad_input("unknown_observation")
                .with_help("`dalsegno memory show ENTITY` lists the ids of its observations"),
            Self::NotAnId { .. } | Self::UnknownRun { .. } | Self::NothingOpen { .. } => {
                bad_input("unknown_run").with_help(LIST_RUNS)
            }
            Self::NoRuns => bad_input("unknown_run").with_help("start one with `dalsegno run AGENT`"),
            Self::NoModel { .. } => {
                bad_input("no_model").with_help("name an agent of this workspace that has `[model]`")
            }
            Self::UnknownModel { name, known } => {
                let class = bad_input("unknown_model");
                match nearest(name, known) {
                    Some(near) => class.with_help(format!("did you mean `{near}`?")),
                    None => class
                        .with_help("write it as `[models.*]` in `dalsegno.toml`, or give an `--endpoint`"),
                }
            }
            Self::MediaType { .. } => bad_input("media_type")
                .with_help("attach a png, jpg, gif, webp, pdf, txt, log, md, csv or json file, or sound (wav, mp3, ogg, flac, aac, aiff) or a video (mp4, mpeg, mov, webm) for a model over `gemini`"),
            Self::NoSuchOperation { run, .. } => bad_input("unknown_operation")
                .with_help(format!("`dalsegno show {run}` lists its operations")),
            Self::NotAnArchive { .. } | Self::NotAReport { .. } => {
                bad_input("not_an_archive").with_help("give a file that `dalsegno export` has written")
            }
            Self::Stopped => {
                ErrorClass::new(Exit::Interrupted, "stopped").with_help("nothing was lost: try again")
            }
            Self::NotLetGo { .. } => failed("owned").with_help("try again in a moment"),
            Self::Configuration { .. } => bad_input("workspace"),
            Self::CannotMeasure { .. } => failed("unwritable").with_help(
                "name a workspace on the disk to measure that this user may write: `--workspace DIR`",
            ),
            Self::NotMeasured { .. } => {
                failed("bench").with_help("no journal was touched: correct the cause and try again")
            }
            Self::StoppedMeasuring => {
                ErrorClass::new(Exit::Interrupted, "stopped").with_help("nothing was left behind: try again")
            }
            Self::LeftBehind { .. } => failed("unwritable").with_help("remove it by hand: nothing needs it"),
            Self::NoPlaceToFork { run } => bad_input("bad_fork")
                .with_help(format!("`dalsegno show {run}` lists its steps and operations")),
            Self::ForkOfNoCall { .. } => bad_input("bad_fork").with_help("leave them out"),
            Self::NoTerminal => {
                bad_input("no_terminal").with_help("use `dalsegno show`, whose output can go anywhere")
            }
            Self::Screen { .. } => failed("screen").with_help("use another terminal, or `dalsegno show`"),
            Self::Editor { .. } => {
                bad_input("editor").with_help("set `VISUAL` or `EDITOR` to the command of an editor")
            }
            Self::TwoDocuments => bad_input("two_documents").with_help("name a file, or leave `--json` out"),
            Self::CutArchive { .. } => bad_input("not_an_archive")
                .with_help("it was truncated or changed in transit: copy it again, or export the run again"),
            Self::AmbiguousRun { .. } => bad_input("ambiguous_run").with_help("give more digits"),
            Self::UnknownOperation { run, .. } => {
                bad_input("unknown_operation").with_help(format!("look for it with `dalsegno show {run}`"))
            }
            Self::AmbiguousOperation { .. } => bad_input("ambiguous_operation").with_help("give more digits"),
            Self::NotAnAnswer { .. } => bad_input("bad_answer"),
            Self::WithoutAnswer { .. } => bad_input("bad_answer").with_help(
                "add `--approve`, `--deny`, `--answer ANSWER` or `--outcome happened|not-happened|@FILE`",
            ),
            Self::UnknownStep { .. } => {
                bad_input("unknown_step").with_help("leave `--step` out to see all steps")
            }
            Self::NoPrompt { .. } => bad_input("no_prompt")
                .with_help("`dalsegno show RUN` lists the operations: name a `model completion` with `--op`"),
            Self::NotTraced { .. } => bad_input("not_traced")
                .with_help("see what the model was sent with `dalsegno show RUN --prompt --op OP`"),
            Self::NoArgument { .. } => bad_input("no_argument")
                .with_help("name one of its arguments, such as `81c2.to`, or leave the argument out to see all"),
            Self::AlreadyAWorkspace { .. } => bad_input("taken")
                .with_help("name a new folder, `dalsegno init DIR`, or check this one, `dalsegno check`"),
            Self::Taken { .. } => bad_input("taken")
                .with_help("nothing was written: name a new folder, or move these files away"),
            Self::OtherFiles { .. } => bad_input("taken")
                .with_help("nothing was written: commit or move these files, then overwrite them with `--force`"),
            Self::NoDocument { .. } => bad_input("unknown_document")
                .with_help("leave the name out to see all; agents and tenants take `--all`"),
            Self::Documents(failure) => match **failure {
                DocumentFailure::Workspace { .. } => bad_input("documents"),
                _ => failed("documents").with_help(
                    "look at `catalogue.db` beside the journal: restore it, or move it away and lose its documents",
                ),
            },
            Self::FileTaken { .. } => {
                bad_input("taken").with_help("name another file, or overwrite this one with `--force`")
            }
            Self::Eval { help, .. } => bad_input("eval").with_help(*help),
            Self::EvalStopped { .. } => failed("eval")
                .with_help("run the same command again: it performs only what is missing"),
            Self::NoBase { .. } => bad_input("no_base")
                .with_help("name a revision of Git, such as `origin/main`, or a folder with another version of the workspace"),
            Self::Write { .. } => failed("unwritable").with_help("name a new path that this user may write"),
            Self::NoJournal { .. } => bad_input("no_journal")
                .with_help("start a run, or correct `path` of `[store]` in `dalsegno.toml`"),
            Self::Backup(dalsegno_store::BackupError::Exists { .. }) => bad_input("taken"),
            Self::Catalogue(error) => failed("documents").with_help(error.remedy().unwrap_or(
                "restore `catalogue.db` from a backup, or copy the journal alone, without `--all`",
            )),
            Self::Backup(dalsegno_store::BackupError::Target { .. }) => bad_input("unwritable"),
            Self::Backup(_) => failed("backup").with_help("examine the journal with `dalsegno doctor`"),
            Self::NotACase { run, .. } => bad_input("not_a_case")
                .with_help(format!("the run is in the journal: look at it with `dalsegno show {run}`")),
            Self::NoCassette { .. } => bad_input("not_a_cassette").with_help("name another file, or remove this one"),
            Self::NotAgreed { .. } => bad_input("not_agreed").with_help("agree with `--yes`"),
            Self::UnknownEntity { name, known } => {
                let class = bad_input("unknown_entity");
                match nearest(name, known) {
                    Some(near) => class.with_help(format!("did you mean `{near}`?")),
                    None => class.with_help(
                        "look for it with `dalsegno memory search`; each `--scope` is a separate memory",
                    ),
                }
            }
            Self::NotInScope { .. } => bad_input("not_in_scope").with_help(
                "`dalsegno memory show ENTITY` says in which scope each entry is: name it with `--scope`",
            ),
            Self::AmbiguousObservation { .. } => {
                bad_input("ambiguous_observation").with_help("give more digits")
            }
            Self::Toolbox(error) => toolbox(error),
            Self::Memory(error) => memory(error),
            Self::Export(error) => match error {
                ExportError::Memory(error) => memory(error),
                _ => failed("unwritable"),
            },
            Self::Import { source, .. } => match source {
                ImportError::Memory(error) => memory(error),
                ImportError::Conflict { .. } => bad_input("import_conflict"),
                _ => bad_input("bad_import").with_help("correct that line, then import the whole file again"),
            },
            Self::Open(error) => open(error),
            Self::Engine(error) => engine(error),
            Self::Run(error) => run_failure(error),
        }
    }
}

fn toolbox(error: &ToolboxError) -> ErrorClass {
    match error {
        ToolboxError::UnknownTool { tenants, .. } if !tenants.is_empty() => {
            let named: Vec<String> =
                tenants.iter().take(5).map(|name| format!("`--tenant {name}`")).collect();
            ErrorClass::new(Exit::BadInput, "unknown_tool")
                .with_help(format!("a tenant has it: add {}", named.join(" or ")))
        }
        ToolboxError::UnknownTool { name, known, .. } => {
            let class = ErrorClass::new(Exit::BadInput, "unknown_tool");
            match nearest(name.as_str(), known) {
                Some(near) => class.with_help(format!("did you mean `{near}`?")),
                None => class.with_help("list the tools with `dalsegno tools list`"),
            }
        }
        ToolboxError::Arguments { tool, .. } => ErrorClass::new(Exit::BadInput, "bad_arguments")
            .with_help(format!("nothing was called: see what it takes with `dalsegno tools inspect {tool}`")),
        ToolboxError::IsAgent { agent, .. } => ErrorClass::new(Exit::BadInput, "is_agent")
            .with_help(format!("start it with `dalsegno run {agent}`")),
        ToolboxError::NoAnswer { received, .. } => {
            let class = ErrorClass::new(Exit::Failed, "no_answer");
            match received {
                Received::No => class.with_help("it has not acted: correct the cause and call again"),
                Received::Possibly => class.with_help("it may have acted: check before you call again"),
            }
        }
        _ => ErrorClass::new(Exit::Failed, "tool"),
    }
}

fn memory(error: &MemoryError) -> ErrorClass {
    match error {
        MemoryError::Busy { .. }
        | MemoryError::Damaged { .. }
        | MemoryError::Storage { .. }
        | MemoryError::Stopped { .. } => ErrorClass::new(Exit::Failed, "memory"),
        // What is left are values out of bounds, whose messages say what was expected.
        _ => ErrorClass::new(Exit::BadInput, "bad_value"),
    }
}

fn open(error: &OpenError) -> ErrorClass {
    match error {
        OpenError::Workspace { .. } => ErrorClass::new(Exit::BadInput, "workspace"),
        OpenError::Folder { .. } => ErrorClass::new(Exit::Failed, "store")
            .with_help("give this user the right to write there, or set `store.path` in dalsegno.toml"),
        OpenError::Store(_) | OpenError::Owner(_) => ErrorClass::new(Exit::Failed, "store"),
        OpenError::Memory(_) => ErrorClass::new(Exit::Failed, "memory"),
        OpenError::Seeds { .. } => ErrorClass::new(Exit::BadInput, "memory"),
        #[cfg(feature = "wasm")]
        OpenError::Server { .. } => ErrorClass::new(Exit::BadInput, "server"),
        OpenError::UnknownServer { .. } | OpenError::Program { .. } | OpenError::Digest { .. } => {
            ErrorClass::new(Exit::BadInput, "server")
        }
        OpenError::Model { .. } => ErrorClass::new(Exit::BadInput, "model"),
        OpenError::Secret { .. } => ErrorClass::new(Exit::BadInput, "secret"),
        _ => ErrorClass::new(Exit::Failed, "open"),
    }
}

fn line(error: &LineError) -> ErrorClass {
    match error {
        LineError::Engine(error) => engine(error),
        LineError::Unknown { name, known_lines } => {
            let class = ErrorClass::new(Exit::BadInput, "unknown_line");
            match nearest(name, known_lines) {
                Some(near) => class.with_help(format!("did you mean `{near}`?")),
                None => class.with_help("write it as `[voice.lines.NAME]` in `dalsegno.toml`"),
            }
        }
        LineError::Full { .. } => ErrorClass::new(Exit::Failed, "line_full")
            .with_help("wait until a call has ended, or raise `max_calls` of the line"),
        _ => ErrorClass::new(Exit::BadInput, "line")
            .with_help("check `base_url` of the line in `dalsegno.toml`"),
    }
}

/// The known name that the writer of `name` probably meant.
fn nearest<'k>(name: &str, known: &'k [String]) -> Option<&'k str> {
    let tolerance = (name.chars().count() / 3).max(1);
    known
        .iter()
        .map(|known| (strsim::damerau_levenshtein(name, known), known.as_str()))
        .filter(|(distance, _)| *distance <= tolerance)
        .min()
        .map(|(_, known)| known)
}

/// Where a model call was looked for.
fn scope(step: Option<u64>, operation: Option<&str>) -> String {
    match (step, operation) {
        (_, Some(operation)) => format!(" with the id {operation}"),
        (Some(step), None) => format!(" in step {step}"),
        (None, None) => String::new(),
    }
}

/// The arguments that a request has.
fn known_arguments(known: &[String]) -> String {
    if known.is_empty() { String::new() } else { format!(": it has {}", known.join(", ")) }
}

fn paths(files: &[PathBuf]) -> String {
    let paths: Vec<_> = files.iter().map(|file| format!("`{}`", file.display())).collect();
    paths.join(", ")
}

fn list(waiting: &[String]) -> String {
    if waiting.is_empty() { "nothing".to_owned() } else { waiting.join(", ") }
}

/// What [`Error::NotAnId`] calls the id of an observation.
pub(crate) const AN_OBSERVATION: &str = "an observation id";

/// What [`Error::NotAnId`] calls the id of an operation.
pub(crate) const AN_OPERATION: &str = "an operation id";

const LIST_RUNS: &str = "list the runs with `dalsegno runs`";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_agent_is_found_despite_a_slip() {
        let known = ["triage".to_owned(), "notify".to_owned()];
        assert_eq!(nearest("traige", &known), Some("triage"));
        assert_eq!(nearest("weather", &known), None);
    }

    #[test]
    fn a_full_disk_tells_how_to_go_on() {
        let run = dalsegno_core::RunId::from_bytes([0xab; 16]);
        let class = Error::Run(RunFailure::Defect { run, message: "x".into() }).class();
        assert_eq!(class.exit, Exit::Failed);
        let class = Error::UnknownRun { given: "abcd".into() }.class();
        assert_eq!((class.exit, class.code), (Exit::BadInput, "unknown_run"));
    }
}

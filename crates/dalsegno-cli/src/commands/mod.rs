//! The verbs.

mod add;
mod answer;
#[cfg(feature = "oauth")]
mod auth;
pub(crate) mod bench;
mod call;
mod cancel;
mod carry;
mod chat;
mod check;
mod completions;
mod consent;
mod cost;
mod debug;
mod diff;
mod eval;
mod follow;
mod fork;
mod gate;
mod init;
mod journal;
#[cfg(feature = "serve")]
mod key;
mod man;
mod memory;
mod metrics;
mod pause;
mod programs;
mod pull;
mod replay;
mod report;
mod resume;
mod run;
mod runs;
mod schema;
mod secret;
mod select;
#[cfg(feature = "serve")]
mod serve;
mod servers;
mod show;
mod telemetry;
mod telephone;
mod test;
mod tools;
#[cfg(feature = "serve")]
mod trigger;
mod trust;
mod try_tool;
mod upkeep;
#[cfg(feature = "serve")]
mod webhook;
mod why;
mod worker;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use dalsegno_runtime::{Engine, EngineBuilder, OpenError, load_workspace};
use dalsegno_telemetry::Telemetry;
use dalsegno_workspace::{Code, Diagnostic, Settings, Workspace};

use crate::args::{Args, Format, Needs, Verb};
use crate::error::Error;
use crate::exit::Exit;
use crate::locate;
use crate::render::failure;
use crate::render::output::Output;
use crate::render::text::{Style, styled};

pub(crate) use self::completions::COMPLETE;

/// What every verb that works in a workspace needs.
pub(crate) struct Context<'a> {
    /// The workspace's folder.
    root: PathBuf,
    /// The folder as it was named, if it was.
    named: Option<&'a Path>,
    /// The programs that the workspace names are agreed to.
    trust: bool,
    /// What goes to standard output.
    pub(crate) format: Format,
    /// Tell each step as it happens.
    verbose: bool,
    pub(crate) output: &'a mut Output,
    /// What is told of the runs that are performed.
    telemetry: Option<Telemetry>,
}

impl Context<'_> {
    /// An engine that asks tool servers.
    async fn engine(&mut self) -> Result<Engine, Error> {
        let workspace = self.workspace()?;
        programs::admit(&workspace.settings, self)?;
        Ok(Engine::builder().build(workspace).await?)
    }

    /// An engine that starts no program: what it does needs none.
    async fn quiet(&mut self) -> Result<Engine, Error> {
        let workspace = self.workspace()?;
        Ok(Engine::builder().without_programs().build(workspace).await?)
    }

    /// The same without a word about files that have errors: the terminal shows something else.
    async fn silent(&self) -> Result<Engine, Error> {
        Ok(Engine::builder().without_programs().build(self.sound()?).await?)
    }

    fn sound(&self) -> Result<Workspace, Error> {
        let failed = |diagnostics| OpenError::Workspace { root: self.root.clone(), diagnostics };
        Ok(load_workspace(&self.root).sound().map_err(failed)?)
    }

    /// An engine that performs runs: what it writes down is told where dalsegno.toml says.
    async fn performer(&mut self) -> Result<Engine, Error> {
        let workspace = self.workspace()?;
        self.build(Engine::builder(), workspace).await
    }

    /// The workspace, to be run; tells which of its tools and tenants are not in use, since their files have errors.
    fn workspace(&mut self) -> Result<Workspace, Error> {
        let workspace = self.sound()?;
        self.tell_broken(&workspace);
        Ok(workspace)
    }

    /// The same without the documents of the catalogue: what is tested is what the files say, on every machine.
    fn files_alone(&mut self) -> Result<Workspace, Error> {
        let failed = |diagnostics| OpenError::Workspace { root: self.root.clone(), diagnostics };
        let workspace = Workspace::load(&self.root).sound().map_err(failed)?;
        self.tell_broken(&workspace);
        Ok(workspace)
    }

    fn tell_broken(&mut self, workspace: &Workspace) {
        let files: BTreeSet<&Path> =
            workspace.broken.diagnostics.iter().map(|found| found.file.as_path()).collect();
        for file in files {
            self.output.note(styled(Style::Yellow, "warning").and(format_args!(
                ": `{}` has errors, so what it describes is not in use: run `dalsegno check`",
                file.display()
            )));
        }
    }

    /// An engine that ends runs. It needs no trust: without it, what waits at a program is not told of the end.
    async fn ender(&mut self) -> Result<Engine, Error> {
        let workspace = match self.workspace() {
            Ok(workspace) => workspace,
            Err(Error::Open(OpenError::Workspace { .. })) => {
                self.output.note(styled(Style::Yellow, "warning").and(
                    ": the workspace has errors, so tool servers are not told of the end: run `dalsegno check`",
                ));
                return self.ender_alone().await;
            }
            Err(error) => return Err(error),
        };
        let builder = match programs::is_admitted(&workspace.settings, self) {
            true => Engine::builder(),
            false => Engine::builder().without_programs(),
        };
        self.observed(builder, workspace).await
    }

    /// An engine that ends runs and tells no server.
    async fn ender_alone(&mut self) -> Result<Engine, Error> {
        let opened = Engine::ender(&self.root).await;
        let engine = opened.inspect_err(|error| self.warn_unreadable(error))?;
        let workspace = engine.workspace();
        if workspace.store_is_assumed {
            self.warn_assumed(&workspace.settings.store);
        }
        Ok(engine)
    }

    /// Says that the journal is the one at the default place, since dalsegno.toml cannot be read.
    fn warn_assumed(&mut self, store: &Path) {
        self.output.note(styled(Style::Yellow, "warning").and(format_args!(
            ": `dalsegno.toml` cannot be read and names no other store, so this is the journal at the default place, `{}`: run \
             `dalsegno check`",
            store.display()
        )));
    }

    /// Says why no journal is read, where that is since dalsegno.toml cannot be read.
    fn warn_unreadable(&mut self, error: &OpenError) {
        if let OpenError::Workspace { diagnostics, .. } = error
            && diagnostics.iter().any(is_no_toml)
        {
            self.output.note(styled(Style::Yellow, "warning").and(
                ": `dalsegno.toml` cannot be read and may say where the journal is, so no journal is read",
            ));
        }
    }

    async fn build(&mut self, builder: EngineBuilder, workspace: Workspace) -> Result<Engine, Error> {
        programs::admit(&workspace.settings, self)?;
        self.observed(builder, workspace).await
    }

    async fn observed(&mut self, mut builder: EngineBuilder, workspace: Workspace) -> Result<Engine, Error> {
        if self.telemetry.is_some() || workspace.settings.telemetry.is_some() {
            builder = builder.observer(Arc::new(self.telemetry(&workspace.settings).await?));
        }
        Ok(builder.build(workspace).await?)
    }

    /// The telemetry of this process; started when it is first asked for.
    async fn telemetry(&mut self, settings: &Settings) -> Result<Telemetry, Error> {
        if let Some(telemetry) = &self.telemetry {
            return Ok(telemetry.clone());
        }
        Ok(self.telemetry.insert(telemetry::start(settings).await?).clone())
    }
}

/// Says whether this is that `dalsegno.toml` is not TOML.
fn is_no_toml(found: &Diagnostic) -> bool {
    found.code == Code::TomlSyntax && found.file == Path::new("dalsegno.toml")
}

/// Does what the arguments ask for; an error is told, and becomes an exit code.
pub(crate) fn dispatch(args: &Args, output: &mut Output) -> Exit {
    let format = args.verb.format();
    let named = args.workspace.as_deref();
    if args.verb.needs() == Needs::Nothing {
        let done = alone(args, output);
        return done.unwrap_or_else(|error| failure::show(&error, None, format, output));
    }
    if let Verb::Bench(bench) = &args.verb {
        // It measures the disk of a workspace, if there is one, but works in none.
        let measured = with_runtime(&args.verb, bench::bench(bench, named, format, output));
        return measured.unwrap_or_else(|error| failure::show(&error, None, format, output));
    }
    let root = match locate::workspace(named) {
        Ok(root) => root,
        Err(error) => return failure::show(&error, None, format, output),
    };
    if args.verb.needs() != Needs::Files {
        keep_private(&root, output);
    }
    let mut context =
        Context { root, named, trust: args.trust, format, verbose: args.verbose, output, telemetry: None };
    let result = match &args.verb {
        Verb::Check(check) if !check.connect => check::files(&mut context),
        Verb::Test(args) if args.watch => Ok(test::watch(args, &mut context)),
        Verb::Test(args) if args.from_run.is_none() => test::test(args, &mut context),
        verb => with_runtime(verb, perform(verb, &mut context)),
    };
    let Context { root, output, .. } = context;
    result.unwrap_or_else(|error| failure::show(&error, Some(&root), format, output))
}

/// Takes the rights of other users away from the folder that an earlier version, or a person, left open to them.
fn keep_private(root: &Path, output: &mut Output) {
    let folder = root.join(KEPT);
    let told = match dalsegno_files::close(&folder) {
        Ok(None) => return,
        Ok(Some(closed)) => format!(
            "other users could use `{KEPT}` (mode {:04o}): it is closed to them now; what it holds may be known to them",
            closed.mode
        ),
        Err(error) => {
            format!(
                "other users may use `{KEPT}`, and that cannot be changed ({error}): run `chmod go-rwx {KEPT}`"
            )
        }
    };
    output.note(styled(Style::Yellow, "warning").and(format_args!(": {told}")));
}

/// The folder in which a workspace keeps what is made on this machine.
const KEPT: &str = ".dalsegno";

/// What needs no workspace.
fn alone(args: &Args, output: &mut Output) -> Result<Exit, Error> {
    match &args.verb {
        Verb::Init(init) => init::init(init, args.workspace.as_deref(), args.verb.format(), output),
        Verb::Trust(trust) => trust::trust(trust, args.verb.format(), output),
        Verb::Schema(schema) => schema::schema(schema, output),
        Verb::Completions(completions) => completions::completions(completions, output),
        Verb::Man(man) => man::man(man, output),
        Verb::Check(_)
        | Verb::Test(_)
        | Verb::Gate(_)
        | Verb::Eval(_)
        | Verb::Run(_)
        | Verb::Chat(_)
        | Verb::Call(_)
        | Verb::Resume(_)
        | Verb::Runs(_)
        | Verb::Cost(_)
        | Verb::Show(_)
        | Verb::Why(_)
        | Verb::Debug(_)
        | Verb::Replay(_)
        | Verb::Fork(_)
        | Verb::Diff(_)
        | Verb::Pause(_)
        | Verb::Cancel(_)
        | Verb::Abandon(_)
        | Verb::Export(_)
        | Verb::Import(_)
        | Verb::Adopt(_)
        | Verb::Worker(_)
        | Verb::Gc(_)
        | Verb::Doctor(_)
        | Verb::Backup(_)
        | Verb::Erase(_)
        | Verb::Tools(_)
        | Verb::Servers(_)
        | Verb::Answer(_)
        | Verb::Secret(_)
        | Verb::Bench(_)
        | Verb::Memory(_) => unreachable!("these work in a workspace"),
        #[cfg(feature = "serve")]
        Verb::Serve(_) | Verb::Key(_) | Verb::Webhook(_) | Verb::Trigger(_) => {
            unreachable!("these work in a workspace")
        }
        #[cfg(feature = "oauth")]
        Verb::Auth(_) => unreachable!("it works in a workspace"),
    }
}

/// What waits for others: threads are started for it.
fn with_runtime(verb: &Verb, work: impl Future<Output = Result<Exit, Error>>) -> Result<Exit, Error> {
    // Runs wait far more than they compute: two threads keep a slow guest from holding up the terminal.
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(2).enable_time();
    #[cfg(feature = "serve")]
    if matches!(verb, Verb::Serve(_)) {
        let cores = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
        builder.worker_threads(cores.max(2));
    }
    if verb.needs() == Needs::Everything {
        // Listens for signals, through a socket pair. What only reads a journal opens no socket of any kind.
        builder.enable_io();
    }
    let runtime = builder.build().map_err(|source| Error::Runtime { source })?;
    #[cfg(unix)]
    if verb.needs() == Needs::Everything {
        let _entered = runtime.enter();
        // A file that may grow no further fails its write, as a full disk does, and does not end the process.
        let too_large = tokio::signal::unix::SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw());
        let _ = tokio::signal::unix::signal(too_large);
    }
    let result = runtime.block_on(work);
    // A thread that still compiles a module must not hold up the end.
    runtime.shutdown_background();
    result
}

async fn perform(verb: &Verb, context: &mut Context<'_>) -> Result<Exit, Error> {
    let result = perform_verb(verb, context).await;
    if let Some(telemetry) = context.telemetry.take() {
        telemetry::finish(&telemetry, context.output).await;
    }
    result
}

async fn perform_verb(verb: &Verb, context: &mut Context<'_>) -> Result<Exit, Error> {
    match verb {
        Verb::Check(_) => check::connect(context).await,
        Verb::Test(args) => match &args.from_run {
            Some(run) => test::from_run(run, context).await,
            None => test::test(args, context),
        },
        Verb::Gate(args) => gate::gate(args, context).await,
        Verb::Eval(args) => eval::eval(args, context).await,
        Verb::Run(args) => run::run(args, context).await,
        Verb::Chat(args) => chat::chat(args, context).await,
        Verb::Call(args) => call::call(args, context).await,
        Verb::Resume(args) => resume::resume(args, context).await,
        Verb::Answer(args) => answer::answer(args, context).await,
        Verb::Runs(args) => runs::runs(args, context).await,
        Verb::Cost(args) => cost::cost(args, context).await,
        Verb::Show(args) => show::show(args, context).await,
        Verb::Why(args) => why::why(args, context).await,
        Verb::Debug(args) => debug::debug(args, context).await,
        Verb::Replay(args) => replay::replay(args, context).await,
        Verb::Fork(args) => fork::fork(args, context).await,
        Verb::Diff(args) => diff::diff(args, context).await,
        Verb::Pause(args) => pause::pause(args, context).await,
        Verb::Cancel(args) => cancel::cancel(args, context).await,
        Verb::Abandon(args) => cancel::abandon(args, context).await,
        Verb::Export(args) => carry::export(args, context).await,
        Verb::Import(args) => carry::import(args, context).await,
        Verb::Adopt(args) => carry::adopt(args, context).await,
        Verb::Worker(args) => worker::worker(args, context).await,
        #[cfg(feature = "serve")]
        Verb::Serve(args) => serve::serve(args, context).await,
        #[cfg(feature = "serve")]
        Verb::Key(args) => key::key(args, context),
        #[cfg(feature = "serve")]
        Verb::Webhook(args) => webhook::webhook(args, context).await,
        #[cfg(feature = "serve")]
        Verb::Trigger(args) => trigger::trigger(args, context),
        Verb::Gc(args) => upkeep::gc(args, context).await,
        Verb::Doctor(_) => upkeep::doctor(context).await,
        Verb::Backup(args) => upkeep::backup(args, context).await,
        Verb::Erase(args) => upkeep::erase(args, context).await,
        Verb::Tools(args) => tools::tools(args, context).await,
        Verb::Servers(args) => servers::servers(args, context).await,
        Verb::Memory(args) => memory::memory(args, context).await,
        Verb::Secret(args) => secret::secret(args, context).await,
        #[cfg(feature = "oauth")]
        Verb::Auth(args) => auth::auth(args, context).await,
        Verb::Init(_)
        | Verb::Trust(_)
        | Verb::Schema(_)
        | Verb::Completions(_)
        | Verb::Man(_)
        | Verb::Bench(_) => {
            unreachable!("these need no workspace")
        }
    }
}

//! The arguments as they are typed.

#[cfg(feature = "oauth")]
mod auth;
mod bench;
mod call;
mod cost;
mod eval;
mod format;
mod gate;
mod lineage;
mod memory;
mod runs;
mod secret;
#[cfg(feature = "serve")]
mod serve;
mod servers;
mod setup;
mod telephone;
mod test;
mod tools;
#[cfg(feature = "serve")]
mod trigger;
mod trust;
mod upkeep;
#[cfg(feature = "serve")]
mod webhook;

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Parser, Subcommand, ValueEnum};

#[cfg(feature = "oauth")]
pub(crate) use self::auth::AuthArgs;
pub(crate) use self::bench::BenchArgs;
pub(crate) use self::call::{CallArgs, CallSayArgs, CallTextArgs, CallVerb};
pub(crate) use self::cost::{CostArgs, GroupArg};
pub(crate) use self::eval::EvalArgs;
pub(crate) use self::format::{DocumentArgs, Format, StreamArgs, TokenArgs};
pub(crate) use self::gate::GateArgs;
pub(crate) use self::lineage::{
    AbandonArgs, AdoptArgs, CancelArgs, ChatArgs, DiffArgs, EffectsArg, ExportArgs, ForkArgs, ImportArgs,
    PauseArgs, WhyArgs,
};
pub(crate) use self::memory::{
    MemoryAddArgs, MemoryArgs, MemoryDeleteArgs, MemoryEditArgs, MemoryExportArgs, MemoryImportArgs,
    MemoryRelateArgs, MemorySearchArgs, MemoryShowArgs, MemoryTraverseArgs, MemoryVerb, ScopeArgs,
};
pub(crate) use self::runs::{
    AnswerArgs, DebugArgs, Endpoint, ReplayArgs, ResumeArgs, RunArgs, RunsArgs, SettlementArgs, ShowArgs,
    StatusArg, WaitingArg,
};
pub(crate) use self::secret::{
    SecretArgs, SecretListArgs, SecretPutArgs, SecretRemoveArgs, SecretRotateArgs, SecretVerb,
};
#[cfg(feature = "serve")]
pub(crate) use self::serve::{KeyAddArgs, KeyArgs, KeyListArgs, KeyRevokeArgs, KeyVerb, ServeArgs};
pub(crate) use self::servers::{ServersArgs, ServersCheckArgs, ServersVerb};
pub(crate) use self::setup::{CheckArgs, CompletionsArgs, InitArgs, ManArgs, SchemaArgs, TemplateArg};
pub(crate) use self::telephone::{CallCheckArgs, CallHangupArgs, CallListArgs};
pub(crate) use self::test::TestArgs;
pub(crate) use self::tools::{
    ToolsAddArgs, ToolsArgs, ToolsCallArgs, ToolsInspectArgs, ToolsListArgs, ToolsPullArgs, ToolsTestArgs,
    ToolsVerb,
};
#[cfg(feature = "serve")]
pub(crate) use self::trigger::{TriggerArgs, TriggerTestArgs, TriggerVerb};
pub(crate) use self::trust::TrustArgs;
pub(crate) use self::upkeep::{BackupArgs, DoctorArgs, EraseArgs, GcArgs, WorkerArgs};
#[cfg(feature = "serve")]
pub(crate) use self::webhook::{WebhookAddArgs, WebhookArgs, WebhookVerb};

/// Run agents durably: every step is recorded, and a run can be stopped, resumed, replayed and explained.
#[derive(Debug, Parser)]
#[command(name = "dalsegno", version, max_term_width = 100, after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// Workspace folder [default: this folder or the nearest parent that has a `dalsegno.toml`]
    #[arg(long, global = true, help_heading = "Global options", value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    pub(crate) workspace: Option<PathBuf>,

    /// Print each step as it happens
    #[arg(short, long, global = true, help_heading = "Global options")]
    pub(crate) verbose: bool,

    /// Start the programs of `dalsegno.toml` without asking
    #[arg(long, global = true, help_heading = "Global options")]
    pub(crate) trust: bool,

    /// When to use colour
    #[arg(long, global = true, help_heading = "Global options", value_enum, default_value_t = ColourArg::Auto, value_name = "auto|always|never")]
    #[arg(hide_possible_values = true)]
    pub(crate) color: ColourArg,

    #[command(subcommand)]
    pub(crate) verb: Verb,
}

/// When to use colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColourArg {
    /// On a terminal, unless `NO_COLOR` or `CI` is set.
    Auto,
    Always,
    Never,
}

const AFTER_HELP: &str = "\
Examples:
  dalsegno init my-agents                 create a workspace
  dalsegno check                          check its files
  dalsegno run triage \"disk full on db-1\"
  dalsegno show last                      what happened, and why

Exit codes:
  0 done   1 failed   2 bad input   3 diverged   4 suspended: waits for a person   5 inconclusive   130 interrupted";

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Create a workspace that runs immediately, offline and without an API key
    #[command(after_help = setup::INIT_EXAMPLES)]
    Init(InitArgs),
    /// Check every file of the workspace, and every agent against the tools of its servers
    #[command(after_help = setup::CHECK_EXAMPLES)]
    Check(CheckArgs),
    /// Test the agents: run the cases of `tests/*.toml`, offline and without a key
    #[command(after_help = test::EXAMPLES)]
    Test(TestArgs),
    /// Fold recorded runs through the workspace as it is now: which would differ, and because of which lines
    #[command(after_help = gate::EXAMPLES)]
    Gate(GateArgs),
    /// Evaluate an agent with a data set: pass rates with intervals, judges, and whether it is better than another
    #[command(after_help = eval::EXAMPLES)]
    Eval(EvalArgs),
    /// Start a run of an agent and follow it until it finishes
    #[command(after_help = runs::RUN_EXAMPLES)]
    Run(RunArgs),
    /// Chat with an agent: each message is a run, and the session keeps the conversation
    #[command(after_help = lineage::CHAT_EXAMPLES)]
    Chat(ChatArgs),
    /// Call an agent with a live model that listens and speaks
    #[command(after_help = call::EXAMPLES)]
    Call(CallArgs),
    /// Answer a suspended run, or resume an interrupted or paused one
    #[command(after_help = runs::RESUME_EXAMPLES)]
    Resume(ResumeArgs),
    /// Answer pending questions across runs (dry run unless `--yes`)
    #[command(after_help = runs::ANSWER_EXAMPLES)]
    Answer(AnswerArgs),
    /// List runs, newest first
    #[command(after_help = runs::RUNS_EXAMPLES)]
    Runs(RunsArgs),
    /// Sum up tokens and cost by run, session, agent, tenant, model or day
    #[command(after_help = cost::EXAMPLES)]
    Cost(CostArgs),
    /// Show the steps of a run, with the reason, the requests and the outcomes of each
    #[command(after_help = runs::SHOW_EXAMPLES)]
    Show(ShowArgs),
    /// Trace the values of a request: what the user wrote, a tool's result, a template, or the model
    #[command(after_help = lineage::WHY_EXAMPLES)]
    Why(WhyArgs),
    /// Debug a run on a full screen: step both ways, search, compare, fork from any step
    #[command(after_help = runs::DEBUG_EXAMPLES)]
    Debug(DebugArgs),
    /// Recompute a recorded run from its journal and compare every request, without side effects
    #[command(after_help = runs::REPLAY_EXAMPLES)]
    Replay(ReplayArgs),
    /// Start a new run from any step of another, with a changed outcome, agent or model
    #[command(after_help = lineage::FORK_EXAMPLES)]
    Fork(ForkArgs),
    /// Compare two runs: where they diverge, and what differs from there on
    #[command(after_help = lineage::DIFF_EXAMPLES)]
    Diff(DiffArgs),
    /// Pause a run and its child runs until they are resumed
    #[command(after_help = lineage::PAUSE_EXAMPLES)]
    Pause(PauseArgs),
    /// Cancel a run and its child runs
    #[command(after_help = lineage::CANCEL_EXAMPLES)]
    Cancel(CancelArgs),
    /// End a run that cannot be cancelled because its records are damaged or depend on erased content
    #[command(after_help = lineage::ABANDON_EXAMPLES)]
    Abandon(AbandonArgs),
    /// Write a run to one file, with everything that its replay reads
    #[command(after_help = lineage::EXPORT_EXAMPLES)]
    Export(ExportArgs),
    /// Import runs from a file into this workspace
    #[command(after_help = lineage::IMPORT_EXAMPLES)]
    Import(ImportArgs),
    /// Adopt an imported run into this workspace
    #[command(after_help = lineage::ADOPT_EXAMPLES)]
    Adopt(AdoptArgs),
    /// Resume runs whose process died or whose timer is due
    #[command(after_help = upkeep::WORKER_EXAMPLES)]
    Worker(WorkerArgs),
    /// Serve the agents over HTTP, and perform runs as a worker does
    #[cfg(feature = "serve")]
    #[command(after_help = serve::SERVE_EXAMPLES)]
    Serve(ServeArgs),
    /// Make, list and revoke the access keys of the server
    #[cfg(feature = "serve")]
    #[command(after_help = serve::KEY_EXAMPLES)]
    Key(KeyArgs),
    /// Add, list, test and remove webhooks: who receives how runs stand
    #[cfg(feature = "serve")]
    #[command(after_help = webhook::EXAMPLES)]
    Webhook(WebhookArgs),
    /// Show what a delivery to a trigger would start
    #[cfg(feature = "serve")]
    #[command(after_help = trigger::EXAMPLES)]
    Trigger(TriggerArgs),
    /// Delete runs that ended long ago (dry run unless `--yes`)
    #[command(after_help = upkeep::GC_EXAMPLES)]
    Gc(GcArgs),
    /// Examine the whole journal: every record, chain, file and index
    #[command(after_help = upkeep::DOCTOR_EXAMPLES)]
    Doctor(DoctorArgs),
    /// Copy the journal to a new file while others write to it, and examine the copy
    #[command(after_help = upkeep::BACKUP_EXAMPLES)]
    Backup(BackupArgs),
    /// Erase a run's requests and results; the proof that it ran stays
    #[command(after_help = upkeep::ERASE_EXAMPLES)]
    Erase(EraseArgs),
    /// List, inspect and call the tools of the workspace
    #[command(after_help = tools::EXAMPLES)]
    Tools(ToolsArgs),
    /// List the tool servers with their health and permissions
    #[command(after_help = servers::EXAMPLES)]
    Servers(ServersArgs),
    /// Search, extend, export and import the memory of agents
    #[command(after_help = memory::EXAMPLES)]
    Memory(MemoryArgs),
    /// Keep secrets in an encrypted file, outside of journals and exports
    #[command(after_help = secret::EXAMPLES)]
    Secret(SecretArgs),
    /// Grant access to a toolkit or a tool server: you consent in a browser, once
    #[cfg(feature = "oauth")]
    #[command(after_help = auth::EXAMPLES)]
    Auth(AuthArgs),
    /// Measure this disk: a durable turn compared with a bare commit
    #[command(after_help = bench::EXAMPLES)]
    Bench(BenchArgs),
    /// Trust a workspace that belongs to another user or starts programs
    #[command(after_help = trust::EXAMPLES)]
    Trust(TrustArgs),
    /// Write the JSON Schema of a kind of file, for editors
    #[command(after_help = setup::SCHEMA_EXAMPLES)]
    Schema(SchemaArgs),
    /// Write a completion script for a shell; it also completes agents and runs
    #[command(after_help = setup::COMPLETIONS_EXAMPLES)]
    Completions(CompletionsArgs),
    /// Write the manual pages of all commands
    #[command(after_help = setup::MAN_EXAMPLES)]
    Man(ManArgs),
}

/// How much of the machine a verb needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Needs {
    /// No workspace.
    Nothing,
    /// The workspace's files.
    Files,
    /// The journal or the memory, and threads that read it.
    Journal,
    /// All of it: tools, models, signals.
    Everything,
}

impl Verb {
    /// How much of the machine the verb needs; nothing else is started.
    pub(crate) fn needs(&self) -> Needs {
        match self {
            Self::Init(_) | Self::Trust(_) | Self::Schema(_) | Self::Completions(_) | Self::Man(_) => {
                Needs::Nothing
            }
            Self::Check(check) if !check.connect => Needs::Files,
            Self::Test(test) if test.from_run.is_none() => Needs::Files,
            Self::Replay(replay) if replay.with_config.is_some() => Needs::Everything,
            Self::Import(import) if import.adopt => Needs::Everything,
            Self::Gate(gate) if gate.teacher_forced || gate.live.is_some() => Needs::Everything,
            #[cfg(feature = "serve")]
            Self::Key(_) | Self::Trigger(_) => Needs::Journal,
            #[cfg(feature = "serve")]
            Self::Webhook(WebhookArgs { verb: WebhookVerb::Test(_) }) => Needs::Everything,
            #[cfg(feature = "serve")]
            Self::Webhook(_) => Needs::Journal,
            #[cfg(feature = "serve")]
            Self::Serve(_) => Needs::Everything,
            #[cfg(feature = "oauth")]
            Self::Auth(_) => Needs::Everything,
            Self::Test(_)
            | Self::Gate(_)
            | Self::Runs(_)
            | Self::Cost(_)
            | Self::Show(_)
            | Self::Why(_)
            | Self::Replay(_)
            | Self::Memory(_)
            | Self::Secret(_)
            | Self::Answer(_)
            | Self::Diff(_)
            | Self::Export(_)
            | Self::Import(_)
            | Self::Gc(_)
            | Self::Doctor(_)
            | Self::Backup(_)
            | Self::Abandon(_)
            | Self::Erase(_) => Needs::Journal,
            Self::Check(_)
            | Self::Eval(_)
            | Self::Debug(_)
            | Self::Run(_)
            | Self::Chat(_)
            | Self::Call(_)
            | Self::Resume(_)
            | Self::Fork(_)
            | Self::Adopt(_)
            | Self::Pause(_)
            | Self::Cancel(_)
            | Self::Tools(_)
            | Self::Servers(_)
            | Self::Worker(_)
            | Self::Bench(_) => Needs::Everything,
        }
    }

    /// What the verb writes to standard output.
    pub(crate) fn format(&self) -> Format {
        match self {
            Self::Init(init) => init.document.resolve(),
            Self::Check(check) => check.document.resolve(),
            Self::Test(test) => test.document.resolve(),
            Self::Gate(gate) => gate.document.resolve(),
            Self::Eval(eval) => eval.document.resolve(),
            Self::Run(run) => run.stream.resolve(),
            Self::Call(call) => call.format(),
            Self::Resume(resume) => resume.stream.resolve(),
            Self::Answer(answer) => answer.document.resolve(),
            Self::Runs(runs) => runs.document.resolve(),
            Self::Cost(cost) => cost.document.resolve(),
            Self::Show(show) => show.document.resolve(),
            Self::Why(why) => why.document.resolve(),
            Self::Replay(replay) => replay.document.resolve(),
            Self::Fork(fork) => fork.stream.resolve(),
            Self::Diff(diff) => diff.document.resolve(),
            Self::Pause(pause) => pause.document.resolve(),
            Self::Cancel(cancel) => cancel.document.resolve(),
            Self::Abandon(abandon) => abandon.document.resolve(),
            Self::Export(export) => export.document.resolve(),
            Self::Import(import) => import.document.resolve(),
            Self::Adopt(adopt) => adopt.document.resolve(),
            Self::Worker(worker) => worker.stream.resolve(),
            #[cfg(feature = "serve")]
            Self::Serve(serve) => serve.stream.resolve(),
            #[cfg(feature = "serve")]
            Self::Key(key) => key.verb.format(),
            #[cfg(feature = "serve")]
            Self::Webhook(webhook) => webhook.verb.format(),
            #[cfg(feature = "serve")]
            Self::Trigger(trigger) => trigger.verb.format(),
            Self::Gc(gc) => gc.document.resolve(),
            Self::Doctor(doctor) => doctor.document.resolve(),
            Self::Backup(backup) => backup.document.resolve(),
            Self::Erase(erase) => erase.document.resolve(),
            Self::Tools(tools) => tools.verb.format(),
            Self::Servers(servers) => servers.format(),
            Self::Bench(bench) => bench.document.resolve(),
            Self::Memory(memory) => memory.verb.format(),
            Self::Secret(secret) => secret.verb.format(),
            #[cfg(feature = "oauth")]
            Self::Auth(auth) => auth.format(),
            Self::Trust(trust) => trust.document.resolve(),
            // What they write is a document of its own.
            Self::Schema(_) | Self::Completions(_) | Self::Man(_) | Self::Chat(_) | Self::Debug(_) => {
                Format::Text
            }
        }
    }
}

/// Takes one of these names, and offers them all in help and completion.
fn names<T>(names: impl IntoIterator<Item = &'static str>) -> impl TypedValueParser<Value = T>
where
    T: std::str::FromStr<Err: std::error::Error + Send + Sync + 'static> + Clone + Send + Sync + 'static,
{
    PossibleValuesParser::new(names).try_map(|name| name.parse())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_arguments_are_consistent() {
        Args::command().debug_assert();
    }

    fn verb(line: &str) -> Verb {
        Args::try_parse_from(line.split(' ')).unwrap().verb
    }

    #[test]
    fn json_is_short_for_format_json() {
        let format = |line: &str| verb(line).format();
        assert_eq!(format("dalsegno check"), Format::Text);
        assert_eq!(format("dalsegno check --json"), Format::Json);
        assert_eq!(format("dalsegno run a --format jsonl"), Format::Jsonl);
        assert_eq!(format("dalsegno show last --format json"), Format::Json);
        assert_eq!(format("dalsegno tools list --json"), Format::Json);
        assert_eq!(format("dalsegno memory search x --json"), Format::Json);
        assert!(Args::try_parse_from("dalsegno run a --json --format jsonl".split(' ')).is_err());
    }

    #[test]
    fn a_verb_starts_no_more_than_it_needs() {
        assert_eq!(verb("dalsegno completions bash").needs(), Needs::Nothing);
        assert_eq!(verb("dalsegno check").needs(), Needs::Files);
        assert_eq!(verb("dalsegno check --connect").needs(), Needs::Everything);
        assert_eq!(verb("dalsegno memory search x").needs(), Needs::Journal);
    }

    #[test]
    fn answers_that_contradict_each_other_are_refused() {
        for line in [
            "--approve --deny",
            "--deny --outcome happened",
            "--edit a.json",
            "--outcome happened --reason x",
        ] {
            let line = format!("dalsegno resume last {line}");
            assert!(Args::try_parse_from(line.split(' ')).is_err(), "{line}");
        }
    }

    #[test]
    fn a_relation_is_a_name_and_an_entity() {
        let line = |relation| ["dalsegno", "memory", "add", "INC-7", "text", "--relation", relation];
        assert!(Args::try_parse_from(line("caused_by=DEP-3")).is_ok());
        for wrong in ["caused_by", "=DEP-3", "caused_by="] {
            assert!(Args::try_parse_from(line(wrong)).is_err(), "{wrong}");
        }
    }
}

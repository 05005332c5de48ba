//! The classes of errors of the engine.

use dalsegno_runtime::EngineError;
use dalsegno_store::{AcquireError, CreateError};

use super::journal::{history, run_failure, unreadable};
use super::{ErrorClass, LIST_RUNS, nearest, open};
use crate::exit::Exit;
use crate::render::ending::quoted;
use crate::render::text::short;

pub(super) fn engine(error: &EngineError) -> ErrorClass {
    match error {
        EngineError::UnknownAgent { name, known } => {
            let class = ErrorClass::new(Exit::BadInput, "unknown_agent");
            match nearest(name.as_str(), known) {
                Some(near) => class.with_help(format!("did you mean `{near}`?")),
                None => class.with_help("write the agent in `agents/*.toml`, then run `dalsegno check`"),
            }
        }
        EngineError::ToolkitConfig { .. } => ErrorClass::new(Exit::BadInput, "agent"),
        EngineError::TenantKey { .. } => ErrorClass::new(Exit::BadInput, "model"),
        EngineError::Tenant(_) => ErrorClass::new(Exit::BadInput, "unknown_tenant"),
        EngineError::Agent { .. } => ErrorClass::new(Exit::BadInput, "agent"),
        EngineError::BrokenAgent { .. } => {
            ErrorClass::new(Exit::BadInput, "agent").with_help("correct the file, then run `dalsegno check`")
        }
        EngineError::Open(error) => open(error),
        EngineError::Create(CreateError::KeyConflict { .. }) => ErrorClass::new(Exit::BadInput, "key_conflict"),
        EngineError::Create(CreateError::RunConflict { .. }) => ErrorClass::new(Exit::BadInput, "run_conflict"),
        EngineError::Create(CreateError::SessionBusy { .. }) => ErrorClass::new(Exit::BadInput, "session_busy"),
        EngineError::History(error) => history(error),
        EngineError::Acquire(AcquireError::UnknownRun { .. }) => {
            ErrorClass::new(Exit::BadInput, "unknown_run").with_help(LIST_RUNS)
        }
        EngineError::Acquire(AcquireError::Owned { .. }) => ErrorClass::new(Exit::Failed, "owned"),
        EngineError::AlreadyRunning { run } => ErrorClass::new(Exit::Failed, "under_way").with_help(format!(
            "wait until it ends or suspends, then start it again with the same key: this returns the outcome \
             of run {} and performs nothing twice; or cancel it with `dalsegno cancel {}`",
            short(run),
            short(run)
        )),
        EngineError::Foreign { .. } | EngineError::Acquire(AcquireError::Foreign { .. }) => {
            ErrorClass::new(Exit::BadInput, "foreign")
                .with_help("adopt it: `dalsegno adopt RUN`, or fork it: `dalsegno fork RUN --at STEP`")
        }
        EngineError::NotAdopted { .. } => ErrorClass::new(Exit::BadInput, "not_adopted")
            .with_help("allow what the run needs in this workspace, then adopt it; nothing was changed"),
        EngineError::SigningKey(_) => ErrorClass::new(Exit::Failed, "signing_key")
            .with_help("check the file `archive.key` beside the journal: only its owner may have access"),
        EngineError::Acquire(AcquireError::Unreadable(error)) => unreadable(error),
        EngineError::Principal { .. } => ErrorClass::new(Exit::BadInput, "bad_name"),
        EngineError::Answer { .. } => ErrorClass::new(Exit::BadInput, "bad_answer"),
        EngineError::Edit { .. } => ErrorClass::new(Exit::BadInput, "bad_answer")
            .with_help("correct the file and approve again; nothing was recorded"),
        EngineError::Model { .. } => ErrorClass::new(Exit::BadInput, "no_model"),
        EngineError::NoVoice { .. } => ErrorClass::new(Exit::BadInput, "no_voice")
            .with_help("add `[voice]` to the agent's file, and look at it with `dalsegno check`"),
        EngineError::Budget { .. } => ErrorClass::new(Exit::Failed, "budget")
            .with_help("wait until it renews, or raise it in dalsegno.toml or the tenant's file"),
        EngineError::NoLine { .. } => ErrorClass::new(Exit::BadInput, "no_line")
            .with_help("start `dalsegno serve` with its line in dalsegno.toml, or end the call with `dalsegno call hangup`"),
        EngineError::NoCall { .. } => ErrorClass::new(Exit::BadInput, "no_call")
            .with_help("`dalsegno runs` lists the runs; a call is begun with `dalsegno call`"),
        EngineError::Note { .. } => ErrorClass::new(Exit::BadInput, "bad_argument"),
        EngineError::Ended { .. } => ErrorClass::new(Exit::BadInput, "ended"),
        EngineError::PausedCall { .. } => ErrorClass::new(Exit::BadInput, "call"),
        EngineError::NotPaused { .. } => ErrorClass::new(Exit::BadInput, "not_paused"),
        EngineError::Cancellable { .. } => ErrorClass::new(Exit::BadInput, "cancellable"),
        EngineError::Uncancellable { source, .. } => {
            let ErrorClass { exit, code, .. } = engine(source);
            ErrorClass::new(exit, code)
        }
        EngineError::Import(error) => match error {
            dalsegno_store::ImportError::RunConflict { .. }
            | dalsegno_store::ImportError::Reaches { .. } => ErrorClass::new(Exit::BadInput, "import_conflict"),
            dalsegno_store::ImportError::Run { .. }
            | dalsegno_store::ImportError::Twice { .. }
            | dalsegno_store::ImportError::MissingConfig { .. }
            | dalsegno_store::ImportError::Config { .. } => ErrorClass::new(Exit::BadInput, "not_an_archive"),
            _ => ErrorClass::new(Exit::Failed, "store"),
        },
        EngineError::Rebind { .. } => ErrorClass::new(Exit::Failed, "rebind"),
        EngineError::Run(error) => run_failure(error),
        EngineError::ServerSecret { name, .. } => ErrorClass::new(Exit::Failed, "secret").with_help(format!(
            "store it with `dalsegno secret put {}`; once `dalsegno check --connect` has pinned the tools, \
             runs wait for a secret",
            quoted(name)
        )),
        EngineError::Catalogue(_) => ErrorClass::new(Exit::Failed, "server").with_help(
            "start the server or correct its section in dalsegno.toml; `dalsegno servers` tries each server alone",
        ),
        _ => ErrorClass::new(Exit::Failed, "engine"),
    }
}

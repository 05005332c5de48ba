//! The arguments of the verbs that maintain a journal: workers, pruning, examination, copies, erasure.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args as ClapArgs;
use clap_complete::ArgValueCandidates;

use super::{DocumentArgs, StreamArgs};
use crate::complete;

#[derive(Debug, ClapArgs)]
pub(crate) struct WorkerArgs {
    /// Maximum number of concurrent runs
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) concurrency: u16,
    /// Exit when no run is ready, instead of waiting for more
    #[arg(long)]
    pub(crate) until_idle: bool,
    /// Serve metrics for Prometheus at this address, under `/metrics`, such as `127.0.0.1:9464`
    #[arg(long, value_name = "ADDR")]
    pub(crate) metrics: Option<SocketAddr>,
    #[command(flatten)]
    pub(crate) stream: StreamArgs,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct GcArgs {
    /// Delete runs that ended longer ago than this, such as `30d` or `12h`
    #[arg(long, value_name = "TIME", value_parser = dalsegno_workspace::age)]
    pub(crate) older_than: std::time::Duration,
    /// Delete the runs; without it, only report what would be deleted
    #[arg(long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) document: DocumentArgs,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    pub(crate) document: DocumentArgs,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct BackupArgs {
    /// New file for the copy; with `--all` a new folder
    #[arg(value_hint = clap::ValueHint::FilePath)]
    pub(crate) file: PathBuf,
    /// Also copy the memory, the documents of the catalogue, and the webhooks with their key
    #[arg(long)]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) document: DocumentArgs,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct EraseArgs {
    /// The run: its id, the first 4 or more digits of it, or `last`
    #[arg(add = ArgValueCandidates::new(complete::runs))]
    pub(crate) run: String,
    /// Erase only this operation and those below it: its id, or the first 4 or more digits
    #[arg(long, value_name = "ID")]
    pub(crate) op: Option<String>,
    /// Also erase the content from every other run that holds it: later runs of the session, forks, and child runs
    #[arg(long, conflicts_with = "op")]
    pub(crate) everywhere: bool,
    /// Erase the content for good; without it, only report what would be erased
    #[arg(long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) document: DocumentArgs,
}

pub(super) const WORKER_EXAMPLES: &str = "\
Examples:
  dalsegno worker                                         wakes timers, takes over from processes that died
  dalsegno worker --concurrency 200 --format jsonl
  dalsegno worker --until-idle                            for cron or a systemd timer";

pub(super) const GC_EXAMPLES: &str = "\
Examples:
  dalsegno gc --older-than 30d                            what would be deleted?
  dalsegno gc --older-than 30d --yes";

pub(super) const DOCTOR_EXAMPLES: &str = "\
Examples:
  dalsegno doctor
  dalsegno doctor --json | jq .findings";

pub(super) const BACKUP_EXAMPLES: &str = "\
Examples:
  dalsegno backup /backups/dalsegno-today.db                 while others write to it
  dalsegno backup --all /backups/today                       the documents and the webhooks as well";

pub(super) const ERASE_EXAMPLES: &str = "\
Examples:
  dalsegno erase 3fa94c --yes
  dalsegno erase 3fa94c --everywhere --yes                from later runs of its session, forks and child runs, too
  dalsegno erase 3fa94c --op 81c2 --yes                   only the content of one operation";

//! `dalsegno gate`: does a change alter what agents do?

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use dalsegno_core::Timestamp;
use dalsegno_gate::{
    Base, Comparison, Conclusion, Course, Forced, GateReport, Group, Live, Past, Reason, Version,
};
use dalsegno_history::Journal;
use dalsegno_runtime::OpenError;
use dalsegno_store::RunFilter;
use dalsegno_workspace::Workspace;
use serde::Serialize;

use super::{Context, select};
use crate::args::{Format, GateArgs};
use crate::error::Error;
use crate::exit::Exit;
use crate::render::gate;
use crate::render::text::count;

pub(super) mod git;
mod models;

use self::git::Repository;

pub(super) async fn gate(args: &GateArgs, context: &mut Context<'_>) -> Result<Exit, Error> {
    let loaded = Workspace::load(&context.root);
    let failed = |diagnostics| OpenError::Workspace { root: context.root.clone(), diagnostics };
    // What an agent does is not known while a file has errors.
    if loaded.has_errors() {
        return Err(failed(loaded.diagnostics).into());
    }
    let workspace = loaded.sound().map_err(failed)?;
    let journal = Journal::open(&workspace.settings.store).await.map_err(OpenError::from)?;
    select::tenant(&workspace, &journal, args.tenant.as_deref()).await?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = Timestamp::from_millis(u64::try_from(now.as_millis()).unwrap_or(u64::MAX));
    let filter = RunFilter {
        agent: args.agent.clone(),
        tenant: args.tenant.clone(),
        since: args.since.map(|since| since.before(now)),
        limit: u32::MAX,
        ..RunFilter::default()
    };
    let runs = sample(journal.runs(&filter).await?, args.sample);
    let unreadable = |source| Error::Input { place: context.root.display().to_string(), source };
    let version = Version::on_disk(&context.root, "now").map_err(unreadable)?;
    let base = base(args.base.as_deref(), &version, context)?;
    let mut spinner = gate::Counter::new(context);
    let report = {
        let output = &mut *context.output;
        Comparison::new(journal, workspace, version, base)
            .compare(&runs, |done| spinner.tell(done, output))
            .await
    };
    spinner.clear(context.output);
    let forced = match args.teacher_forced && report.changed > 0 {
        true => Some(models::ask(&report, &runs, args, context).await?),
        false => None,
    };
    let live = match args.live.filter(|_| report.changed > 0) {
        Some(pairs) => Some(models::fork(&report, &runs, pairs, args, context).await?),
        None => None,
    };
    match context.format {
        Format::Json | Format::Jsonl => {
            let (forced, live) = (forced.as_ref(), live.as_ref());
            context.output.document(&Document { report: &report, forced, live });
        }
        Format::Text => gate::show(&report, context.verbose, context.output),
    }
    gate::sum_up(&report, context.verbose, context.output);
    if let Some(forced) = &forced {
        gate::show_forced(forced, context.output);
    }
    if let Some(live) = &live {
        gate::show_live(live, context.output);
    }
    let is_unusable = report.not_compared.iter().any(|not| not.reason == Reason::Unusable);
    Ok(match (report.changed, report.compared) {
        (1.., _) => match (&forced, &live) {
            (Some(forced), _) => concluded(&report, forced),
            (None, Some(live)) => ended(live),
            (None, None) => Exit::Diverged,
        },
        // No run of it could even begin.
        (0, _) if is_unusable => Exit::BadInput,
        (0, 0) => Exit::Inconclusive,
        (0, _) => Exit::Done,
    })
}

/// All that the gate found.
#[derive(Serialize)]
struct Document<'r> {
    #[serde(flatten)]
    report: &'r GateReport,
    /// What models decided, where they were asked.
    #[serde(rename = "models", skip_serializing_if = "Option::is_none")]
    forced: Option<&'r Forced>,
    /// How runs ended, where they were forked.
    #[serde(skip_serializing_if = "Option::is_none")]
    live: Option<&'r Live>,
}

/// The exit code of runs that would differ, once models were asked: a run that would only send other words is as good as before if
/// these words make no difference.
fn concluded(report: &GateReport, forced: &Forced) -> Exit {
    let has_other_course = |group: &Group| group.runs.iter().any(|run| run.course == Course::OtherCourse);
    match forced.conclusion {
        _ if report.groups.iter().any(has_other_course) => Exit::Diverged,
        _ if forced.unsettled > 0 => Exit::Diverged,
        Conclusion::Differs => Exit::Diverged,
        Conclusion::Same => Exit::Done,
        Conclusion::Inconclusive => Exit::Inconclusive,
    }
}

/// The exit code of runs that would differ, once they were forked: another course is as good as before if they end as before.
fn ended(live: &Live) -> Exit {
    match live.conclusion {
        _ if live.unfollowed > 0 => Exit::Diverged,
        Conclusion::Differs => Exit::Diverged,
        Conclusion::Same => Exit::Done,
        Conclusion::Inconclusive => Exit::Inconclusive,
    }
}

/// The runs, or so many of them, evenly spread.
fn sample<R>(runs: Vec<R>, most: Option<u32>) -> Vec<R> {
    let (all, most) = (runs.len(), most.map_or(usize::MAX, |most| most as usize));
    if all <= most {
        return runs;
    }
    let chosen =
        runs.into_iter().enumerate().filter(|(index, _)| index * most / all != (index + 1) * most / all);
    chosen.map(|(_, run)| run).collect()
}

/// What runs are compared with.
fn base(given: Option<&str>, now: &Version, context: &mut Context<'_>) -> Result<Base, Error> {
    let repository = Repository::around(&context.root);
    let Some(given) = given else {
        return Ok(Base::Recorded(match repository {
            Some(repository) => Box::new(repository.past(now)),
            None => Box::new(()) as Box<dyn Past>,
        }));
    };
    version(given, now, repository).map(Base::Version)
}

/// The version of the workspace that is meant: a folder, or a revision of the repository.
pub(super) fn version(given: &str, now: &Version, repository: Option<Repository>) -> Result<Version, Error> {
    let failed = |why: String| Error::NoBase { given: given.to_owned(), why };
    let folder = Path::new(given);
    if folder.is_dir() {
        if !folder.join("dalsegno.toml").is_file() {
            return Err(failed("it is a folder without a `dalsegno.toml`".to_owned()));
        }
        return Version::on_disk(folder, format!("`{given}`")).map_err(|error| failed(error.to_string()));
    }
    let Some(repository) = repository else {
        return Err(failed("it is no folder, and the workspace is in no Git repository".to_owned()));
    };
    let commit = repository.commit(given).ok_or_else(|| failed("Git knows no such revision".to_owned()))?;
    repository.version(&commit, format!("`{given}`"), now).ok_or_else(|| {
        let count = count(Version::FILES_MAX as u64, "file");
        failed(format!("Git cannot show its files, as in a partial clone, or there are more than {count}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_has_as_many_runs_as_asked_for_and_is_spread_evenly() {
        for (all, most) in [(0, 1), (1, 1), (7, 3), (100, 7), (5, 9), (10, 10)] {
            let chosen = sample((0..all).collect(), Some(most));
            assert_eq!(chosen.len(), all.min(most as usize), "{most} of {all}");
            let gaps: Vec<usize> = chosen.windows(2).map(|pair| pair[1] - pair[0]).collect();
            let (least, largest) = (gaps.iter().min(), gaps.iter().max());
            assert!(largest.zip(least).is_none_or(|(largest, least)| largest - least <= 1), "{chosen:?}");
        }
        assert_eq!(sample(vec![1, 2, 3], None), [1, 2, 3]);
    }
}

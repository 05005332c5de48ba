//! What was measured, and what it should be.

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

use super::floor::median;

/// What was measured.
#[derive(Debug)]
pub(crate) struct Figures {
    /// The folder on whose disk.
    pub(crate) place: PathBuf,
    /// The turns of each run.
    pub(crate) turns: u64,
    pub(crate) runs: u64,
    /// The steps of all runs.
    pub(crate) steps: u64,
    /// The time in which runs went on.
    pub(crate) took: Duration,
    /// Medians of the time of a turn of one run.
    pub(crate) first_tenth: Duration,
    pub(crate) last_tenth: Duration,
    pub(crate) turn: Duration,
    pub(crate) floor: Floors,
    /// The processor time of the runs, where the machine says it.
    pub(crate) cpu: Option<Duration>,
    /// The commits of the journal, where it says them.
    pub(crate) commits: Option<u64>,
    /// The bytes of the journal.
    pub(crate) disk: u64,
    /// The bytes of one run's transcript as JSON.
    pub(crate) transcript: u64,
    /// The most bytes of memory at once, where the machine says it.
    pub(crate) peak_memory: Option<u64>,
    /// Steps a second of a replay.
    pub(crate) replayed: f64,
}

/// F: the time of one commit of 1 KiB.
#[derive(Debug)]
pub(crate) struct Floors {
    pub(crate) before: Duration,
    pub(crate) middle: Duration,
    pub(crate) after: Duration,
    /// The median of all of them.
    pub(crate) all: Duration,
}

impl Floors {
    pub(super) fn of(before: Vec<Duration>, middle: Vec<Duration>, after: Vec<Duration>) -> Self {
        let all = median([before.as_slice(), &middle, &after].concat());
        Self { before: median(before), middle: median(middle), after: median(after), all }
    }
}

/// What a figure should be.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Budget {
    /// The key of the figure.
    pub(crate) figure: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) at_most: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) at_least: Option<f64>,
    /// Whether it is kept; none where it is meant for another number of runs, or the figure is not known.
    pub(crate) kept: Option<bool>,
}

/// The runs from which on a budget for many runs is meant.
pub(crate) const MANY: u64 = 100;
/// The memory of a run but for its transcript.
const MEMORY: u64 = 40_000_000;

impl Figures {
    pub(crate) fn all_turns(&self) -> u64 {
        self.turns * self.runs
    }

    pub(crate) fn turns_per_second(&self) -> f64 {
        self.all_turns() as f64 / self.took.as_secs_f64()
    }

    /// A turn of one run, as a multiple of the two commits that it takes at the least.
    pub(crate) fn ratio(&self) -> f64 {
        self.turn.as_secs_f64() / (2.0 * self.floor.all.as_secs_f64())
    }

    pub(crate) fn growth(&self) -> f64 {
        self.last_tenth.as_secs_f64() / self.first_tenth.as_secs_f64()
    }

    pub(crate) fn cpu_per_step(&self) -> Option<Duration> {
        self.cpu.map(|cpu| cpu.div_f64(self.steps.max(1) as f64))
    }

    pub(crate) fn steps_per_fsync(&self) -> Option<f64> {
        self.commits.map(|commits| self.steps as f64 / commits.max(1) as f64)
    }

    pub(crate) fn disk_per_turn(&self) -> u64 {
        self.disk / self.all_turns().max(1)
    }

    /// What each figure should be.
    pub(crate) fn budgets(&self) -> [Budget; 6] {
        let (one, many) = (self.runs == 1, self.runs >= MANY);
        let micros = self.cpu_per_step().map(|cpu| cpu.as_secs_f64() * 1e6);
        let memory = self.peak_memory.map(|bytes| bytes as f64);
        let memory_max = (MEMORY + 2 * self.transcript) as f64;
        [
            at_most("ratio_to_2f", 1.5, Some(self.ratio()).filter(|_| one)),
            at_most("cpu_us_per_step", 60.0, micros.filter(|_| many)),
            at_least("steps_per_fsync", 30.0, self.steps_per_fsync().filter(|_| many)),
            at_most("disk_bytes_per_turn", 600.0, Some(self.disk_per_turn() as f64)),
            at_most("peak_memory_bytes", memory_max, memory.filter(|_| one)),
            at_least("replay_steps_per_second", 100_000.0, Some(self.replayed)),
        ]
    }
}

fn at_most(figure: &'static str, most: f64, measured: Option<f64>) -> Budget {
    let kept = measured.map(|measured| measured <= most);
    Budget { figure, at_most: Some(most), at_least: None, kept }
}

fn at_least(figure: &'static str, least: f64, measured: Option<f64>) -> Budget {
    let kept = measured.map(|measured| measured >= least);
    Budget { figure, at_most: None, at_least: Some(least), kept }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(runs: u64) -> Figures {
        let floor = Floors::of(
            vec![Duration::from_micros(180)],
            vec![Duration::from_micros(200)],
            vec![Duration::from_micros(900)],
        );
        Figures {
            place: PathBuf::from("here"),
            turns: 1_000,
            runs,
            steps: 2_000 * runs,
            took: Duration::from_millis(500),
            first_tenth: Duration::from_micros(400),
            last_tenth: Duration::from_micros(500),
            turn: Duration::from_micros(480),
            floor,
            cpu: Some(Duration::from_micros(100_000 * runs)),
            commits: Some(2_000),
            disk: 700_000 * runs,
            transcript: 100_000,
            peak_memory: Some(40_200_001),
            replayed: 99_999.0,
        }
    }

    #[test]
    fn figures_follow_from_what_was_measured() {
        let figures = figures(1);
        assert_eq!(figures.turns_per_second(), 2_000.0);
        assert_eq!((figures.ratio(), figures.growth()), (1.2, 1.25));
        assert_eq!(figures.cpu_per_step(), Some(Duration::from_micros(50)));
        assert_eq!((figures.steps_per_fsync(), figures.disk_per_turn()), (Some(1.0), 700));
        assert_eq!(figures.floor.all, Duration::from_micros(200));
    }

    #[test]
    fn a_budget_is_only_judged_where_it_is_meant() {
        let kept = |runs| figures(runs).budgets().map(|budget| budget.kept);
        assert_eq!(kept(1), [Some(true), None, None, Some(false), Some(false), Some(false)]);
        assert_eq!(kept(50), [None, None, None, Some(false), None, Some(false)]);
        assert_eq!(kept(100), [None, Some(true), Some(true), Some(false), None, Some(false)]);
    }

    #[test]
    fn what_a_machine_does_not_say_is_not_judged() {
        let figures = Figures { cpu: None, commits: None, peak_memory: None, ..figures(100) };
        assert_eq!(figures.budgets().map(|budget| budget.kept)[1..3], [None, None]);
    }
}

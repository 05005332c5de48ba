//! Simulated histories, of which every one must keep every promise.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

use std::sync::LazyLock;

use dalsegno_testkit::{Counts, Coverage, Faults, Report, Simulation, VirtualClock};

/// Histories that every change is checked with. `cargo xtask sim --seeds 10000` has more.
const SEEDS: u64 = 70;

/// Histories besides, in which something happens that is rare: a person agrees to a note of a fork that is from no trusted source.
const RARE: [u64; 1] = [96];

/// Histories that are made a second time: they must be the same.
const AGAIN: u64 = 6;

/// The histories of all seeds, for all tests.
static HISTORIES: LazyLock<Vec<Report>> = LazyLock::new(histories);

/// Makes them, on all processors.
fn histories() -> Vec<Report> {
    let workers = std::thread::available_parallelism().map_or(1, |count| count.get() as u64);
    let of = |first: u64| {
        let seeds = (1..=SEEDS).chain(RARE).skip(usize::try_from(first).unwrap());
        seeds
            .step_by(usize::try_from(workers).unwrap())
            .map(|seed| Simulation::new(seed).run().unwrap())
            .collect::<Vec<_>>()
    };
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..workers).map(|first| scope.spawn(move || of(first))).collect();
        all.into_iter().flat_map(|one| one.join().unwrap()).collect()
    })
}

#[test]
fn every_promise_holds_in_all_histories() {
    let mut counts = Counts::default();
    let mut coverage = Coverage::default();
    let mut broken = Vec::new();
    for report in HISTORIES.iter() {
        counts.add(&report.counts);
        coverage.add(&report.coverage);
        if !report.violations.is_empty() {
            broken.push((report.seed, report.violations[0].clone()));
        }
    }
    println!("{counts}\n{coverage}");
    broken.sort();
    if let Some((seed, _)) = broken.first() {
        println!("{}", Simulation::new(*seed).run().unwrap());
    }
    assert!(broken.is_empty(), "{broken:#?}");
    // A world in which nothing happens keeps every promise, too.
    // Some answers of endpoints are rare: `cargo xtask sim --seeds 500` asks for all of them.
    let missing: Vec<String> =
        coverage.missing().into_iter().filter(|one| !one.starts_with("answer: ")).collect();
    assert_eq!(missing, [""; 0], "these never happened");
    assert!(counts.runs > 5 * SEEDS && counts.deaths > 4 * SEEDS && counts.effects > 15 * SEEDS, "{counts}");
    assert!(counts.in_doubt > SEEDS && counts.recovered > SEEDS && counts.fenced > 0, "{counts}");
}

#[test]
fn a_seed_gives_the_same_history_byte_for_byte() {
    for one in HISTORIES.iter().filter(|one| one.seed <= AGAIN) {
        let other = Simulation::new(one.seed).run().unwrap();
        // The first line that differs says more than two histories.
        for (left, right) in one.history.lines().zip(other.history.lines()) {
            assert_eq!(left, right, "seed {}", one.seed);
        }
        assert_eq!(*one, other, "seed {}", one.seed);
        assert!(one.history.lines().count() > 20, "{}", one.history);
    }
}

#[test]
fn without_faults_no_process_dies_and_nothing_is_in_doubt() {
    for seed in 1..=8 {
        let report = Simulation::new(seed).with_faults(Faults::NONE).run().unwrap();
        assert!(report.violations.is_empty(), "{report}");
        // Two processes are stopped before the last two begin; others are told to stop.
        assert_eq!(report.counts.fenced, 0, "{report}");
    }
}

#[test]
fn a_report_of_a_broken_promise_has_the_history_and_says_how_to_have_it_again() {
    let report = Report {
        seed: 42,
        violations: vec!["r1.o2 took place 2 times".into()],
        history: "  1 ms  p1 begins\n".into(),
        counts: Counts::default(),
        coverage: Coverage::default(),
    };
    let words = report.to_string();
    assert!(words.contains("p1 begins") && words.contains("r1.o2 took place 2 times"), "{words}");
    assert!(words.ends_with("--example sim -- --from 42 --seeds 1"), "{words}");
}

#[tokio::test(start_paused = true)]
async fn a_virtual_clock_shows_virtual_time_and_can_be_set_back() {
    use dalsegno_runtime::Clock as _;
    let clock = VirtualClock::new();
    let began = clock.now().as_millis();
    tokio::time::sleep(std::time::Duration::from_secs(90)).await;
    assert_eq!(clock.now().as_millis(), began + 90_000);
    clock.set_wrong_by(-3_600_000);
    assert_eq!(clock.now().as_millis(), began + 90_000 - 3_600_000);
    assert_eq!(clock.elapsed().as_secs(), 90);
}

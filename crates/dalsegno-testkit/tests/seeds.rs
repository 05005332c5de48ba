//! Simulated histories, of which every one must keep every promise.

use dalsegno_testkit::{Counts, Faults, Report, Simulation, VirtualClock};

/// Histories that every change is checked with.
const SEEDS: u64 = 500;

#[test]
fn every_promise_holds_in_five_hundred_histories() {
    let mut counts = Counts::default();
    let mut broken = Vec::new();
    for seed in 1..=SEEDS {
        let report = Simulation::new(seed).run().unwrap();
        counts.add(&report.counts);
        if !report.violations.is_empty() {
            broken.push((seed, report.violations[0].clone()));
        }
    }
    println!("{counts}");
    if let Some((seed, _)) = broken.first() {
        println!("{}", Simulation::new(*seed).run().unwrap());
    }
    assert!(broken.is_empty(), "{broken:#?}");
    // A world in which nothing happens keeps every promise, too.
    assert!(counts.runs > 5 * SEEDS && counts.deaths > 5 * SEEDS && counts.effects > 20 * SEEDS, "{counts}");
    assert!(counts.in_doubt > SEEDS && counts.recovered > SEEDS && counts.fenced > 0, "{counts}");
}

#[test]
fn a_seed_gives_the_same_history_byte_for_byte() {
    for seed in 1..=30 {
        let (one, other) = (Simulation::new(seed).run().unwrap(), Simulation::new(seed).run().unwrap());
        // The first line that differs says more than two histories.
        for (left, right) in one.history.lines().zip(other.history.lines()) {
            assert_eq!(left, right, "seed {seed}");
        }
        assert_eq!(one, other, "seed {seed}");
        assert!(one.history.lines().count() > 100, "{}", one.history);
    }
}

#[test]
fn without_faults_no_process_dies_and_nothing_is_in_doubt() {
    for seed in 1..=30 {
        let report = Simulation::new(seed).with_faults(Faults::NONE).run().unwrap();
        assert!(report.violations.is_empty(), "{report}");
        // Some calls outlast the patience of whoever makes them; one process is stopped before the last begins.
        assert_eq!((report.counts.fenced, report.counts.deaths), (0, 2), "{report}");
    }
}

#[test]
fn a_report_of_a_broken_promise_has_the_history_and_says_how_to_have_it_again() {
    let report = Report {
        seed: 42,
        violations: vec!["r1.o2 took place 2 times".into()],
        history: "  1 ms  p1 begins\n".into(),
        counts: Counts::default(),
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

//! Planted changes against recorded runs: the gate finds each, names its cause and its lines, and says nothing of changes that
//! alter nothing.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]
#![allow(clippy::print_stdout, reason = "it is a proof, and tells what it proved")]

mod changes;
mod world;

use std::collections::BTreeSet;

use dalsegno_gate::{Cause, Changed, GateReport};

use crate::changes::{Dice, Planted, Texts, disguise, harmless, lines_of, planted};
use crate::world::World;

/// What came of a change.
struct Found {
    is_found: bool,
    is_named: bool,
    has_lines: bool,
}

/// Plants a change among others that alter nothing, and asks the gate.
async fn find(world: &World, number: usize, change: &Planted) -> Found {
    let mut texts = Texts::from([(change.file.into(), Some(change.text.clone()))]);
    disguise(world, &mut texts, &mut Dice(number as u64));
    let report = world.gate(&texts).await;
    let expected = lines_of(world, change);
    let lines: BTreeSet<_> = report
        .groups
        .iter()
        .flat_map(|group| &group.lines)
        // Spaces that a disguise put before a line.
        .map(|edit| match &edit.what {
            Changed::Line { old, new, .. } => (old.clone(), new.as_ref().map(|line| plain(line, &expected))),
            Changed::Added | Changed::Removed => panic!("no file was added or removed: {edit:?}"),
        })
        .collect();
    let causes: BTreeSet<Cause> = report.groups.iter().flat_map(|group| group.causes.clone()).collect();
    let found = Found {
        is_found: report.changed > 0,
        is_named: causes == BTreeSet::from([change.cause]),
        has_lines: lines == expected,
    };
    if !(found.is_found && found.is_named && found.has_lines) {
        println!(
            "{number}: {}: {expected:#?}\nfound {lines:#?}\ncauses {causes:?}, {} runs",
            change.file, report.changed
        );
    }
    found
}

/// A line as it was planted, without the spaces that a disguise put before it.
fn plain(line: &str, expected: &BTreeSet<(Option<String>, Option<String>)>) -> String {
    let planted = expected.iter().filter_map(|(_, new)| new.as_ref());
    let meant = planted.into_iter().find(|new| new.trim_start() == line.trim_start());
    meant.cloned().unwrap_or_else(|| line.to_owned())
}

/// Plants every so many of all changes, and as many that alter nothing; all of the first are found, and none of the others.
async fn prove(world: &World, every: usize, harmless_changes: usize) {
    let all = planted(world);
    assert!(all.len() >= 200, "{}", all.len());
    let (mut count, mut named, mut lines) = (0, 0, 0);
    for (number, change) in all.iter().enumerate().step_by(every) {
        let found = find(world, number, change).await;
        assert!(found.is_found, "{number}: {}", change.file);
        count += 1;
        named += usize::from(found.is_named);
        lines += usize::from(found.has_lines);
    }
    println!("{count} planted, {named} causes named, {lines} with exactly the planted lines");
    assert_eq!(named, count);
    assert!(lines * 100 >= count * 95, "{lines} of {count}");
    for number in 0..harmless_changes {
        let report: GateReport = world.gate(&harmless(world, number)).await;
        assert_eq!((report.changed, report.changed_before), (0, 0), "{number}: {report:#?}");
        assert_eq!(report.compared, report.runs);
    }
    println!("{harmless_changes} harmless, no alarm; {} runs", world.runs.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn planted_changes_are_found_with_their_causes_and_lines() {
    let world = World::record(10).await;
    prove(&world, 9, 10).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "minutes: `cargo test --release -p dalsegno-cli --test planted -- --ignored --nocapture`"]
async fn all_planted_changes_are_found_among_more_than_four_hundred_runs() {
    let world = World::record(52).await;
    assert!(world.runs.len() >= 400);
    prove(&world, 1, 50).await;
}

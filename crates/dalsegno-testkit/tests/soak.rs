//! A few seconds of what `cargo xtask soak` does for ten minutes.

use std::time::Duration;

use dalsegno_testkit::Soak;

#[test]
fn runs_on_a_real_disk_keep_every_promise_while_processes_come_and_go() {
    let mut samples = 0;
    let report = Soak::new(Duration::from_secs(5), 60).run(|_| samples += 1).unwrap();
    println!("{report}");
    assert!(report.broken.is_empty(), "{report}");
    // Each root run that was started has ended, and others below them.
    let ended: u64 = report.ended.values().sum();
    assert!(ended >= report.started && report.started >= 60, "{report}");
    // A world in which nothing goes wrong keeps every promise, too.
    assert!(report.killed > 0 && report.stopped > 0 && samples > 3, "{report}");
    assert!(report.answered.contains_key("approval") && report.answered.contains_key("in_doubt"), "{report}");
    let effects = report.effects;
    assert!(effects.keyed > 0 && effects.not_repeatable > 0 && effects.known > 0, "{report}");
}

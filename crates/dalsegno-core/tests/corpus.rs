//! The corpus of the fuzz target, replayed on stable.

#[expect(unreachable_pub, reason = "the fuzz target, which is another crate, calls it too")]
#[path = "../fuzz/checks.rs"]
mod checks;

use std::path::PathBuf;

#[test]
fn the_corpus_of_states_and_events_holds() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus/events");
    let mut count = 0;
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let data = std::fs::read(&path).unwrap();
        if let Err(panic) = std::panic::catch_unwind(|| checks::events(&data)) {
            panic!("{} does not hold: {panic:?}", path.display());
        }
        count += 1;
    }
    assert!(count >= 20, "only {count} files in {}", folder.display());
}

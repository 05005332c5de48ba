//! The corpora of the fuzz targets, replayed on stable.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

#[expect(unreachable_pub, reason = "the fuzz targets, which are another crate, call it too")]
#[path = "../fuzz/checks.rs"]
mod checks;

use std::path::PathBuf;

#[test]
fn the_corpus_of_origins_holds() {
    replay("origin", checks::origin);
}

#[test]
fn the_corpus_of_urls_holds() {
    replay("url", checks::url);
}

fn replay(target: &str, check: fn(&[u8])) {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(target);
    let mut count = 0;
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let data = std::fs::read(&path).unwrap();
        if let Err(panic) = std::panic::catch_unwind(|| check(&data)) {
            let shown = String::from_utf8_lossy(&data);
            panic!("{} does not hold: {shown:?}: {panic:?}", path.display());
        }
        count += 1;
    }
    assert!(count >= 20, "only {count} files in {}", folder.display());
}

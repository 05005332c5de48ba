//! The corpora of the fuzz targets, replayed on stable.

#[expect(unreachable_pub, reason = "the fuzz targets, which are another crate, call it too")]
#[path = "../../fuzz/checks.rs"]
mod checks;

use std::path::PathBuf;

fn replay(target: &str, check: fn(&[u8]), least: usize) {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(target);
    let mut count = 0;
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let data = std::fs::read(&path).unwrap();
        // What is cut is read as well, and what has one byte that is another.
        let mut cases = vec![data.clone(), data[..data.len() / 2].to_vec()];
        for place in [0, data.len() / 3, data.len().saturating_sub(1)] {
            let mut other = data.clone();
            if let Some(byte) = other.get_mut(place) {
                *byte ^= 0x20;
                cases.push(other);
            }
        }
        for case in cases {
            if let Err(panic) = std::panic::catch_unwind(|| check(&case)) {
                let shown = String::from_utf8_lossy(&case);
                panic!("{} does not hold: {shown:?}: {panic:?}", path.display());
            }
        }
        count += 1;
    }
    assert!(count >= least, "only {count} files in {}", folder.display());
}

#[test]
fn the_corpus_of_import_holds() {
    replay("import", checks::import, 6);
}

//! A planted fault that no source has any more says nothing.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::path::Path;

#[test]
fn every_planted_fault_has_its_place_in_the_sources() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut lost = Vec::new();
    let mut found = 0;
    for file in root.join("mutants").read_dir().unwrap() {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        let table: toml::Table = text.parse().unwrap();
        for mutant in table["mutant"].as_array().unwrap() {
            let text = |key: &str| mutant[key].as_str().unwrap();
            let source = std::fs::read_to_string(root.join("../..").join(text("file"))).unwrap();
            match source.matches(text("find")).count() {
                1 => found += 1,
                times => lost.push(format!("{} ({times} times in {})", text("name"), text("file"))),
            }
        }
    }
    assert!(lost.is_empty(), "mend their texts in `mutants/`, or take them out: {lost:#?}");
    assert!(found > 120, "{found}");
}

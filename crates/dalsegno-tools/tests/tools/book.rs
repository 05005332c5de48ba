//! The examples of the book are documents that load.

use std::path::Path;

use serde_json::{Value, json};

use crate::support::problems;

#[test]
fn every_example_of_the_book_loads() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src/tools.md");
    let text = std::fs::read_to_string(page).unwrap();
    let blocks: Vec<&str> =
        text.split("```json\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert!(blocks.len() > 12, "only {} examples", blocks.len());
    for block in blocks {
        let value: Value = serde_json::from_str(block).unwrap_or_else(|error| panic!("{error}: {block}"));
        let document = match value.get("type") {
            Some(_) => json!({
                "name": "example", "description": "An example", "secrets": ["smtp_password"], "actions": [value]
            }),
            None => value,
        };
        assert_eq!(problems(&document), "", "{block}");
    }
}

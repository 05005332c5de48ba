//! README.md is the documentation of `lib.rs`: `UPDATE=1 cargo test --test readme` writes it.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::fs;
use std::path::Path;

/// The documentation of the crate as Markdown that renders without rustdoc.
fn readme() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let source = fs::read_to_string(root.join("src/lib.rs")).unwrap();
    let lines = source.lines().map_while(|line| line.strip_prefix("//!"));
    let mut readme = "# dalsegno\n\n".to_owned();
    let mut in_code = false;
    for line in lines.map(|line| line.strip_prefix(' ').unwrap_or(line)) {
        if line.starts_with("```") {
            in_code = !in_code;
            readme.push_str(if in_code { "```rust" } else { "```" });
        } else if in_code && (line == "#" || line.starts_with("# ")) {
            continue;
        } else if line.starts_with('#') && !in_code {
            readme.push('#');
            readme.push_str(line);
        } else {
            // Links to items are links of rustdoc only.
            readme.push_str(
                &line
                    .replace("[`function`](fn@function)", "`function`")
                    .replace("[`", "`")
                    .replace("`]", "`"),
            );
        }
        readme.push('\n');
    }
    readme
}

#[test]
fn the_readme_is_the_documentation_of_the_crate() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
    if std::env::var_os("UPDATE").is_some() {
        fs::write(&file, readme()).unwrap();
    }
    assert_eq!(fs::read_to_string(&file).unwrap_or_default(), readme(), "run it again with UPDATE=1");
}

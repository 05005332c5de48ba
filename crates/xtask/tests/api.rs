//! The public API of the libraries is what `docs/api` lists, so that a review shows each change of it.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The library that programs add, and the crates whose types it re-exports.
const LIBRARIES: [&str; 8] = [
    "dalsegno",
    "dalsegno-core",
    "dalsegno-history",
    "dalsegno-models",
    "dalsegno-runtime",
    "dalsegno-store",
    "dalsegno-test",
    "dalsegno-workspace",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn listing(library: &str) -> PathBuf {
    root().join("docs/api").join(format!("{library}.txt"))
}

/// The public API of a library, an item a line, as rustdoc sees it.
fn api(library: &str) -> String {
    // A target folder of its own: another form of output would have the documentation of all crates made again.
    let target = root().join("target/api");
    let mut command = Command::new(env!("CARGO"));
    command.current_dir(root()).args([
        "rustdoc",
        "--locked",
        "--quiet",
        "--lib",
        "-p",
        library,
        "--target-dir",
    ]);
    command.arg(&target).args(["--", "-Zunstable-options", "--output-format=json", "--cap-lints=allow"]);
    // The JSON form is not stable yet. `public-api` reads that of the toolchain in rust-toolchain.toml.
    let status = command.env("RUSTC_BOOTSTRAP", "1").status().unwrap();
    assert!(status.success(), "rustdoc of `{library}` ended with {status}");
    let json = target.join("doc").join(format!("{}.json", library.replace('-', "_")));
    let api = public_api::Builder::from_rustdoc_json(json)
        .omit_blanket_impls(true)
        .omit_auto_trait_impls(true)
        .omit_auto_derived_impls(true)
        .build()
        .unwrap();
    api.to_string()
}

#[test]
#[ignore = "documents seven crates, which takes minutes: `cargo xtask api`"]
fn the_public_api_is_what_the_listings_say() {
    for library in LIBRARIES {
        let (file, found) = (listing(library), api(library));
        if std::env::var_os("UPDATE").is_some() {
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(&file, &found).unwrap();
            continue;
        }
        let listed = fs::read_to_string(&file).unwrap();
        let (found, listed): (BTreeSet<&str>, BTreeSet<&str>) =
            (found.lines().collect(), listed.lines().collect());
        let gone: Vec<_> = listed.difference(&found).collect();
        let new: Vec<_> = found.difference(&listed).collect();
        assert!(
            gone.is_empty() && new.is_empty(),
            "the public API of `{library}` has changed: review it, then run `cargo xtask api --update`\n\
             gone: {gone:#?}\nnew: {new:#?}"
        );
    }
}

/// What the crate `dalsegno` re-exports, by its source: this much is checked by every run of the tests.
#[test]
fn the_listing_of_the_library_has_the_names_of_its_source() {
    let source = fs::read_to_string(root().join("crates/dalsegno/src/lib.rs")).unwrap();
    let code: String = source.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let exported: BTreeSet<String> = code
        .split("pub use ")
        .skip(1)
        .filter_map(|export| export.split(';').next())
        .flat_map(|export| {
            let (path, names) = export.split_once('{').unwrap_or_else(|| export.rsplit_once("::").unwrap());
            assert!(!path.contains('*'), "a glob hides what is exported: {export}");
            names.trim_end_matches('}').split(',').map(|name| name.trim().to_owned()).collect::<Vec<_>>()
        })
        .filter(|name| !name.is_empty())
        .collect();
    assert!(exported.len() > 40, "{exported:?}");
    let listed = fs::read_to_string(listing("dalsegno")).unwrap();
    let listed: BTreeSet<String> = listed
        .lines()
        .filter_map(|line| line.strip_prefix("pub use "))
        .filter_map(|line| line.rsplit("::").next())
        .map(str::to_owned)
        // The names of functions and types of the crate itself are listed with their signatures.
        .chain(["Function".to_owned(), "function".to_owned()])
        .collect();
    assert_eq!(exported, listed, "run `cargo xtask api --update`");
}

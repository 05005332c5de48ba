//! What holds for any bytes: the bodies of the fuzz targets.
//!
//! The targets call it with what libFuzzer invents; `tests/workspace/corpus.rs` of `dalsegno-workspace` calls it on stable with every file of
//! the corpora. A panic is a finding.

use std::path::Path;

use dalsegno_workspace::{Loaded, Workspace};

/// A workspace that has nothing wrong, but for one file.
fn with(file: &str, data: &[u8]) {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path();
    let write = |name: &str, text: &[u8]| {
        let path = root.join(name);
        std::fs::create_dir_all(path.parent().expect("it is in the folder")).expect("a folder");
        std::fs::write(path, text).expect("a file");
    };
    write(
        "dalsegno.toml",
        b"[models.default]\nprovider = \"openai\"\nmodel = \"m\"\nbase_url = \"https://m.example/v1\"\n",
    );
    write("agents/other.toml", b"name = \"other\"\ndescription = \"Helps.\"\n[[steps]]\nrespond = \"yes\"\n");
    write(file, data);
    let (one, other) = (Workspace::load(root), Workspace::load(root));
    judge(root, &one);
    assert_eq!(
        format!("{:?}", one.diagnostics),
        format!("{:?}", other.diagnostics),
        "it is judged otherwise"
    );
}

/// A file is sound, or there is a problem with words; each problem's place lies in the text that it names.
fn judge(_root: &Path, loaded: &Loaded) {
    assert!(loaded.workspace.is_some() || loaded.has_errors(), "refused without a reason");
    for diagnostic in &loaded.diagnostics {
        assert!(!format!("{diagnostic}").is_empty());
    }
}

/// `dalsegno.toml`.
pub fn settings(data: &[u8]) {
    with("dalsegno.toml", data);
}

/// An agent's file.
pub fn agent(data: &[u8]) {
    with("agents/a.toml", data);
}

/// A tenant's file.
pub fn tenant(data: &[u8]) {
    with("tenants/acme.toml", data);
}

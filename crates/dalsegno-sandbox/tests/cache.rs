//! The cache of compiled modules.
#![expect(clippy::unwrap_used, reason = "a helper that fails fails its test")]

mod support;

use std::path::{Path, PathBuf};

use dalsegno_sandbox::{LoadError, Sandbox, SandboxOptions, ServerConfig};
use serde_json::json;

use support::{arguments, call, server};

fn open(folder: &Path) -> Result<Sandbox, LoadError> {
    Sandbox::new(SandboxOptions { cache_dir: Some(folder.join("cache")), ..SandboxOptions::default() })
}

fn guest(folder: &Path) -> ServerConfig {
    let path = folder.join("guest.wasm");
    std::fs::write(&path, wat::parse_str(server("")).unwrap()).unwrap();
    ServerConfig::new("guest", path)
}

/// The files of the cache: the digest of the machine code, and the machine code.
fn cached(folder: &Path) -> [PathBuf; 2] {
    let files = std::fs::read_dir(folder.join("cache"))
        .unwrap()
        .flat_map(|engine| std::fs::read_dir(engine.unwrap().path()).unwrap())
        .map(|file| file.unwrap().path());
    let mut files: Vec<PathBuf> = files.collect();
    files.sort();
    let kinds: Vec<_> = files.iter().map(|file| file.extension().unwrap()).collect();
    assert_eq!(kinds, ["blake3", "cwasm"], "one module, nothing temporary");
    files.try_into().unwrap()
}

/// Loads the guest in a new sandbox, calls it, and says whether it came from the cache.
async fn load_and_call(folder: &Path) -> bool {
    let server = open(folder).unwrap().load(guest(folder)).await.unwrap();
    let output = server.open("tenant").call("any", arguments(json!({})), call()).await.unwrap().output;
    assert_eq!(output.text, "fine");
    server.from_cache()
}

#[tokio::test]
async fn a_module_is_compiled_once() {
    let folder = tempfile::tempdir().unwrap();
    assert!(!load_and_call(folder.path()).await);
    assert!(load_and_call(folder.path()).await);
    cached(folder.path());
}

#[tokio::test]
async fn a_damaged_file_is_noticed_and_replaced() {
    let folder = tempfile::tempdir().unwrap();
    assert!(!load_and_call(folder.path()).await);
    for path in cached(folder.path()) {
        let whole = std::fs::read(&path).unwrap();
        let mut flipped = whole.clone();
        *flipped.last_mut().unwrap() ^= 1;
        for damaged in [&flipped, &whole[..whole.len() / 2].to_vec(), &Vec::new()] {
            // A new file, as whoever has the old one mapped must not see it change.
            std::fs::remove_file(&path).unwrap();
            std::fs::write(&path, damaged).unwrap();
            assert!(!load_and_call(folder.path()).await);
            assert_eq!(std::fs::read(&path).unwrap(), whole);
        }
        std::fs::remove_file(&path).unwrap();
        assert!(!load_and_call(folder.path()).await, "one of the two is nothing");
    }
    assert!(load_and_call(folder.path()).await);
}

#[cfg(unix)]
#[tokio::test]
async fn a_folder_that_everyone_may_write_to_is_refused() {
    use std::os::unix::fs::PermissionsExt;

    let folder = tempfile::tempdir().unwrap();
    open(folder.path()).unwrap();
    let cache = folder.path().join("cache");
    assert_eq!(std::fs::metadata(&cache).unwrap().permissions().mode() & 0o777, 0o700);
    std::fs::set_permissions(&cache, std::fs::Permissions::from_mode(0o777)).unwrap();
    let error = open(folder.path()).unwrap_err();
    assert!(matches!(error, LoadError::Cache { .. }), "{error}");
}

#[cfg(unix)]
#[tokio::test]
async fn a_file_that_everyone_may_write_to_is_not_used() {
    use std::os::unix::fs::PermissionsExt;

    let folder = tempfile::tempdir().unwrap();
    assert!(!load_and_call(folder.path()).await);
    for file in cached(folder.path()) {
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o666)).unwrap();
        assert!(!load_and_call(folder.path()).await);
        assert!(load_and_call(folder.path()).await);
    }
}

#[tokio::test]
async fn without_a_folder_every_load_compiles() {
    let folder = tempfile::tempdir().unwrap();
    let sandbox = Sandbox::new(SandboxOptions::default()).unwrap();
    for _ in 0..2 {
        let server = sandbox.load(guest(folder.path())).await.unwrap();
        assert!(!server.from_cache());
    }
}

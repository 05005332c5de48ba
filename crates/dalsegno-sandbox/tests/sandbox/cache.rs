//! The cache of compiled modules.

use std::path::{Path, PathBuf};

use dalsegno_sandbox::{CachePlace, LoadError, Sandbox, SandboxOptions, ServerConfig};
use serde_json::json;

use crate::support::{arguments, call, place, server};

fn open(folder: &Path) -> Result<Sandbox, LoadError> {
    Sandbox::new(SandboxOptions { cache: Some(place(folder)), ..SandboxOptions::default() })
}

fn guest(folder: &Path) -> ServerConfig {
    let path = folder.join("guest.wasm");
    std::fs::write(&path, wat::parse_str(server("")).unwrap()).unwrap();
    ServerConfig::new("guest", path)
}

/// The files of the cache: the machine code, and what authenticates it.
fn cached(folder: &Path) -> [PathBuf; 2] {
    let files = std::fs::read_dir(folder.join("cache"))
        .unwrap()
        .flat_map(|engine| std::fs::read_dir(engine.unwrap().path()).unwrap())
        .map(|file| file.unwrap().path());
    let mut files: Vec<PathBuf> = files.collect();
    files.sort();
    let kinds: Vec<_> = files.iter().map(|file| file.extension().unwrap()).collect();
    assert_eq!(kinds, ["cwasm", "tag"], "one module, nothing temporary");
    files.try_into().unwrap()
}

/// Loads the guest in a new sandbox, calls it, and says whether it came from the cache.
async fn load_and_call(folder: &Path) -> bool {
    let server = open(folder).unwrap().load(guest(folder)).await.unwrap();
    let output = server.open("tenant").call("any", arguments(json!({})), call()).await.unwrap();
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
            replace(&path, damaged);
            assert!(!load_and_call(folder.path()).await);
            assert_eq!(std::fs::read(&path).unwrap(), whole);
        }
        std::fs::remove_file(&path).unwrap();
        assert!(!load_and_call(folder.path()).await, "one of the two is nothing");
    }
    assert!(load_and_call(folder.path()).await);
}

/// Whoever can write the file can also write what a digest says of it; the key is elsewhere.
#[tokio::test]
async fn a_patched_module_with_a_digest_that_fits_is_compiled_anew() {
    let folder = tempfile::tempdir().unwrap();
    assert!(!load_and_call(folder.path()).await);
    let [code, tag] = cached(folder.path());
    let whole = std::fs::read(&code).unwrap();
    let place = whole.windows(4).position(|bytes| bytes == b"fine").expect("the guest's answer is data");
    let mut patched = whole.clone();
    patched[place..place + 4].copy_from_slice(b"evil");
    let unkeyed = blake3::hash(&patched).to_hex();
    let other = blake3::keyed_hash(&[7; 32], &patched).to_hex();
    for forged in [unkeyed.as_str(), other.as_str(), ""] {
        replace(&code, &patched);
        replace(&tag, forged.as_bytes());
        assert!(!load_and_call(folder.path()).await, "the answer is the module's own");
        assert!(load_and_call(folder.path()).await);
        assert_eq!(std::fs::read(&code).unwrap(), whole);
    }
    // Another user's key makes other tags.
    std::fs::remove_file(folder.path().join("state/modules.key")).unwrap();
    assert!(!load_and_call(folder.path()).await);
    assert!(load_and_call(folder.path()).await);
}

#[tokio::test]
async fn the_code_of_one_module_does_not_pass_for_that_of_another() {
    let folder = tempfile::tempdir().unwrap();
    assert!(!load_and_call(folder.path()).await);
    let [code, tag] = cached(folder.path());
    let path = folder.path().join("other.wasm");
    std::fs::write(&path, wat::parse_str(server("(unreachable)")).unwrap()).unwrap();
    let other = async || open(folder.path()).unwrap().load(ServerConfig::new("other", &path)).await;
    let digest = other().await.unwrap().digest().to_string();
    let name = digest.trim_start_matches("sha256:");
    for (file, ending) in [(code, "cwasm"), (tag, "tag")] {
        replace(&file.with_file_name(format!("{name}.{ending}")), &std::fs::read(&file).unwrap());
    }
    assert!(!other().await.unwrap().from_cache());
}

fn replace(path: &Path, bytes: &[u8]) {
    // A new file, as whoever has the old one mapped must not see it change.
    std::fs::remove_file(path).unwrap();
    std::fs::write(path, bytes).unwrap();
    #[cfg(unix)]
    std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
}

#[cfg(unix)]
#[tokio::test]
async fn a_place_that_others_may_change_is_not_used() {
    use std::os::unix::fs::PermissionsExt;

    let set = |path: &Path, mode| std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let user = folder.path().join("user");
    std::fs::create_dir(&user).unwrap();
    assert!(!load_and_call(&user).await && load_and_call(&user).await);
    let cache = user.join("cache");
    let engine = std::fs::read_dir(&cache).unwrap().next().unwrap().unwrap().path();
    let key = user.join("state/modules.key");
    for made in [&cache, &engine, &user.join("state")] {
        assert_eq!(std::fs::metadata(made).unwrap().permissions().mode() & 0o777, 0o700, "{made:?}");
    }
    assert_eq!(std::fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
    // The folder above is looked at, too: who may write there exchanges the cache.
    for (path, wide, right) in [
        (&cache, 0o750, 0o700),
        (&engine, 0o770, 0o700),
        (&user, 0o777, 0o755),
        (&user, 0o775, 0o755),
        (&user.join("state"), 0o755, 0o700),
        (&key, 0o644, 0o600),
    ] {
        set(path, wide);
        assert!(!load_and_call(&user).await, "{path:?} with {wide:o}");
        set(path, right);
        assert!(load_and_call(&user).await, "{path:?} with {right:o}");
    }
    for file in cached(&user) {
        set(&file, 0o660);
        assert!(!load_and_call(&user).await);
        assert!(load_and_call(&user).await);
    }
}

#[cfg(unix)]
#[tokio::test]
async fn what_another_user_made_is_not_used() {
    use std::os::unix::fs::{MetadataExt, chown};

    const OTHER: u32 = 65_534;
    let folder = tempfile::tempdir().unwrap();
    let user = folder.path().join("user");
    std::fs::create_dir(&user).unwrap();
    assert!(!load_and_call(&user).await && load_and_call(&user).await);
    let (cache, state) = (user.join("cache"), user.join("state"));
    let own = std::fs::metadata(&cache).unwrap().uid();
    if chown(&cache, Some(OTHER), None).is_err() {
        eprintln!("skipped: only root may give a file to another user");
        return;
    }
    chown(&cache, Some(own), None).unwrap();
    let engine = std::fs::read_dir(&cache).unwrap().next().unwrap().unwrap().path();
    for path in [&cache, &engine, &state, &state.join("modules.key"), &user] {
        chown(path, Some(OTHER), None).unwrap();
        assert!(!load_and_call(&user).await, "{path:?} of another user");
        chown(path, Some(own), None).unwrap();
        assert!(load_and_call(&user).await, "{path:?} of this user again");
    }
    for file in cached(&user) {
        chown(&file, Some(OTHER), None).unwrap();
        assert!(!load_and_call(&user).await, "{file:?} of another user");
        // It was compiled anew, by this user.
        assert!(load_and_call(&user).await, "{file:?}");
        assert_eq!(std::fs::metadata(&file).unwrap().uid(), own, "{file:?}");
    }
}

/// Root may write everywhere, so that a folder under a file stands for one that nobody can make.
#[tokio::test]
async fn without_a_place_to_write_every_load_compiles() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    for cache in [
        CachePlace { folder: file.join("cache"), key: folder.path().join("state/modules.key") },
        CachePlace { folder: folder.path().join("cache"), key: file.join("modules.key") },
    ] {
        let sandbox =
            Sandbox::new(SandboxOptions { cache: Some(cache), ..SandboxOptions::default() }).unwrap();
        for _ in 0..2 {
            assert!(!sandbox.load(guest(folder.path())).await.unwrap().from_cache());
        }
    }
}

#[tokio::test]
async fn a_module_that_is_too_large_or_too_complex_is_not_compiled() {
    let folder = tempfile::tempdir().unwrap();
    let sandbox = open(folder.path()).unwrap();
    let mut small = guest(folder.path());
    small.limits.module = 100;
    let error = sandbox.load(small).await.unwrap_err();
    assert!(matches!(error, LoadError::TooLarge { limit: 100, .. }), "{error}");
    let path = folder.path().join("long.wasm");
    let long = format!("(module (func (export \"_start\") {}))", "nop ".repeat((1 << 20) + 1));
    std::fs::write(&path, wat::parse_str(long).unwrap()).unwrap();
    let error = sandbox.load(ServerConfig::new("long", &path)).await.unwrap_err();
    assert!(matches!(error, LoadError::Bounds { .. }), "{error}");
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

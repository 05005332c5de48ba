//! What holds for any secret in any text: the bodies of the fuzz targets.
//!
//! The targets call these with what libFuzzer invents; `tests/runtime/secrets.rs` calls them on stable with every file of the corpus.

use std::collections::BTreeMap;

use dalsegno_runtime::{SHORTEST, Secret, Secrets};

/// The first line is a secret and the rest a text. Nothing of the secret is left in the text, raw or percent-encoded, and a
/// text without it stays as it is.
pub fn scrub(data: &[u8]) {
    let Ok(all) = str::from_utf8(data) else { return };
    let Some((secret, text)) = all.split_once('\n') else { return };
    if secret.len() < SHORTEST || secret.len() > 200 || text.len() > 10_000 {
        return;
    }
    let Ok(secrets) = Secrets::new(BTreeMap::from([("s".to_owned(), Secret::new(secret))])) else { return };
    // What stands in the place of a secret may be a part of one.
    let marks = secret.contains("[secret]") || "[secret]".contains(secret);
    let percent: String = secret.bytes().map(|byte| format!("%{byte:02X}")).collect();
    let hexadecimal: String = secret.bytes().map(|byte| format!("{byte:02x}")).collect();
    for echo in [secret, &percent, &hexadecimal] {
        let clean = secrets.scrubbed(&format!("{text}{echo}{text}"));
        assert!(clean.contains("[secret]"), "{secret:?} as {echo:?}: {clean:?}");
        if !marks && !text.contains("[secret]") {
            assert!(!clean.contains(secret), "{secret:?} as {echo:?}: {clean:?}");
        }
    }
    let clean = secrets.scrubbed(text);
    if marks {
        return;
    }
    if clean == text {
        assert!(!text.contains(secret), "{secret:?}: {text:?}");
    } else {
        assert!(clean.contains("[secret]"), "{secret:?}: {text:?}");
    }
}

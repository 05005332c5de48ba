//! Signing secrets, and signatures as Standard Webhooks has them.
//!
//! No secret is kept: each is derived from one key, which is in a file for its user only, and from the id and the generation of its
//! endpoint. So a copy of the list of endpoints signs nothing.

use std::fmt;
use std::path::Path;

use data_encoding::BASE64;
use ring::hmac;

use crate::error::OpenError;

/// What the file of the key is to its users, in an error.
pub(crate) const KEY_FILE: &str = "the key of the secrets of webhooks";

/// The bytes of the key, and of a secret: the standard wants 24 to 64.
const BYTES: usize = 32;

/// What the secrets of all endpoints are derived from.
#[derive(Clone)]
pub(crate) struct RootKey([u8; BYTES]);

impl RootKey {
    /// Reads the key from its file, or makes both.
    pub(crate) fn open(path: &Path) -> Result<Self, OpenError> {
        let key = dalsegno_database::key(KEY_FILE, path)?;
        Ok(Self(key))
    }

    /// What tells this key from another one, and says nothing about it.
    pub(crate) fn digest(&self) -> [u8; BYTES] {
        blake3::derive_key("dalsegno 2026-11 webhook root key digest", &self.0)
    }

    /// The secret of an endpoint in one of its generations.
    pub(crate) fn secret(&self, endpoint: &str, generation: u32) -> Secret {
        let key = blake3::derive_key("dalsegno 2026-11 webhook secrets", &self.0);
        let mut hasher = blake3::Hasher::new_keyed(&key);
        hasher.update(&generation.to_le_bytes());
        hasher.update(endpoint.as_bytes());
        Secret(*hasher.finalize().as_bytes())
    }
}

/// What the deliveries to an endpoint are signed with. It is shown once, and its `Debug` form does not have it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret([u8; BYTES]);

impl Secret {
    /// The secret as its receiver needs it: `whsec_` and base64.
    pub fn expose(&self) -> String {
        format!("whsec_{}", BASE64.encode(&self.0))
    }

    /// The signature of a message, `at` in seconds since the epoch.
    pub(crate) fn sign(&self, id: &str, at: u64, body: &[u8]) -> String {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &self.0);
        let mut context = hmac::Context::with_key(&key);
        context.update(format!("{id}.{at}.").as_bytes());
        context.update(body);
        format!("v1,{}", BASE64.encode(context.sign().as_ref()))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn secret(text: &str) -> Secret {
        let bytes = BASE64.decode(text.strip_prefix("whsec_").unwrap().as_bytes()).unwrap();
        Secret(bytes.try_into().unwrap())
    }

    /// Computed by Python's `hmac`, which knows nothing of this code.
    #[test]
    fn a_signature_is_the_one_that_the_standard_describes() {
        let secret = secret("whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=");
        let signature = secret.sign("msg_27UH4WbU6Z5A5EzD8u03UvzRbpk", 1_649_367_553, br#"{"type":"x"}"#);
        assert_eq!(signature, "v1,vfnFTy3fUHD3Zqbp0oS0NXZlFNGqcQconjh93lzWink=");
    }

    #[test]
    fn every_endpoint_and_generation_has_a_secret_of_its_own_and_each_process_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("webhooks.key");
        let (one, other) = (RootKey::open(&path).unwrap(), RootKey::open(&path).unwrap());
        assert_eq!(one.secret("a", 1), other.secret("a", 1));
        assert_ne!(one.secret("a", 1), one.secret("a", 2));
        assert_ne!(one.secret("a", 1), one.secret("b", 1));
        assert_eq!(format!("{:?}", one.secret("a", 1)), "Secret(…)");
        let stranger = RootKey::open(&folder.path().join("other.key")).unwrap();
        assert_ne!(stranger.secret("a", 1), one.secret("a", 1));
        assert_ne!(stranger.digest(), one.digest());
        std::fs::write(&path, b"too short").unwrap();
        assert!(RootKey::open(&path).is_err());
    }

    proptest! {
        #[test]
        fn no_other_message_has_the_same_signature(id in "[a-z0-9_]{1,20}", at: u32, body in ".*", other in ".*") {
            prop_assume!(body != other);
            let secret = Secret([7; BYTES]);
            let at = u64::from(at);
            let signed = secret.sign(&id, at, body.as_bytes());
            prop_assert_ne!(&signed, &secret.sign(&id, at, other.as_bytes()));
            prop_assert_ne!(&signed, &secret.sign(&id, at + 1, body.as_bytes()));
            prop_assert_ne!(&signed, &Secret([8; BYTES]).sign(&id, at, body.as_bytes()));
        }
    }
}

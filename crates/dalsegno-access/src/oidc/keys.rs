//! The keys of an issuer, as it publishes them: RFC 7517.

use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyOperations, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey};
use serde::Deserialize;
use serde_json::Value;

/// Most keys of a set: identity providers have two to ten.
const KEYS: usize = 100;

/// The keys of an issuer that can check a signature.
#[derive(Debug)]
pub(super) struct KeySet(Vec<IssuerKey>);

#[derive(Debug)]
struct IssuerKey {
    id: Option<String>,
    /// The algorithms that a key of its type has.
    fits: &'static [Algorithm],
    /// The only algorithm that it is for, if it says so.
    only: Option<Algorithm>,
    key: DecodingKey,
}

impl IssuerKey {
    fn is_for(&self, algorithm: Algorithm) -> bool {
        self.fits.contains(&algorithm) && self.only.is_none_or(|only| only == algorithm)
    }
}

impl KeySet {
    /// Reads a set. Keys for something else than signatures, and those of types that are not known, are left out.
    pub(super) fn read(bytes: &[u8]) -> Result<Self, &'static str> {
        #[derive(Deserialize)]
        struct Set {
            keys: Vec<Value>,
        }
        let set: Set =
            serde_json::from_slice(bytes).map_err(|_| "the key set is not a JSON object with `keys`")?;
        if set.keys.len() > KEYS {
            return Err("the key set has more than 100 keys");
        }
        Ok(Self(set.keys.into_iter().filter_map(read).collect()))
    }

    /// The keys that may have signed a token. One that names no key has to be from the only one that fits.
    pub(super) fn of(&self, id: Option<&str>, algorithm: Algorithm) -> Vec<&DecodingKey> {
        let fits = self.0.iter().filter(|key| key.is_for(algorithm));
        let found: Vec<_> = match id {
            Some(id) => fits.filter(|key| key.id.as_deref() == Some(id)).collect(),
            None => fits.collect(),
        };
        match (id, found.len()) {
            (None, 2..) => Vec::new(),
            _ => found.into_iter().map(|key| &key.key).collect(),
        }
    }
}

fn read(key: Value) -> Option<IssuerKey> {
    let key: Jwk = serde_json::from_value(key).ok()?;
    let common = &key.common;
    let is_for_signatures = common.public_key_use.as_ref().is_none_or(|to| *to == PublicKeyUse::Signature)
        && common.key_operations.as_ref().is_none_or(|to| to.contains(&KeyOperations::Verify));
    let only = match common.key_algorithm {
        // One that is not known is no algorithm of signatures.
        Some(only) => Some(super::signatures::algorithm(&only.to_string())?),
        None => None,
    };
    let fits: &[Algorithm] = match &key.algorithm {
        AlgorithmParameters::RSA(_) => &[
            Algorithm::RS256,
            Algorithm::RS384,
            Algorithm::RS512,
            Algorithm::PS256,
            Algorithm::PS384,
            Algorithm::PS512,
        ],
        AlgorithmParameters::EllipticCurve(curve) => match curve.curve {
            EllipticCurve::P256 => &[Algorithm::ES256],
            EllipticCurve::P384 => &[Algorithm::ES384],
            _ => return None,
        },
        AlgorithmParameters::OctetKeyPair(pair) if pair.curve == EllipticCurve::Ed25519 => {
            &[Algorithm::EdDSA]
        }
        // A secret that is published is none.
        _ => return None,
    };
    let decoded = DecodingKey::from_jwk(&key).ok()?;
    is_for_signatures.then_some(IssuerKey { id: key.common.key_id, fits, only, key: decoded })
}

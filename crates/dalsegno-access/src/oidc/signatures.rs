//! The signatures of tokens, by `ring`.
//!
//! The library that reads tokens takes its cryptography from the process. This is what it gets here: it checks the signatures
//! of public keys and does nothing else, so that no secret can be a key.

use jsonwebtoken::crypto::{CryptoProvider, JwtSigner, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{Error, ErrorKind, new_error};
use jsonwebtoken::signature::{Error as NotSigned, Verifier};
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey, DecodingKeyKind, EncodingKey};
use ring::signature::{
    self, RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm,
};

/// The algorithms of signatures, by their names in tokens and settings.
const ALGORITHMS: [(&str, Algorithm); 9] = [
    ("RS256", Algorithm::RS256),
    ("RS384", Algorithm::RS384),
    ("RS512", Algorithm::RS512),
    ("PS256", Algorithm::PS256),
    ("PS384", Algorithm::PS384),
    ("PS512", Algorithm::PS512),
    ("ES256", Algorithm::ES256),
    ("ES384", Algorithm::ES384),
    ("EdDSA", Algorithm::EdDSA),
];

/// The algorithm of this name, if it is one of public keys.
pub(super) fn algorithm(name: &str) -> Option<Algorithm> {
    ALGORITHMS.iter().find(|(known, _)| *known == name).map(|(_, algorithm)| *algorithm)
}

static PROVIDER: CryptoProvider = CryptoProvider {
    signer_factory: no_signer,
    verifier_factory: verifier,
    // They are for keys that are made or described here, which none is.
    key_utils: KeyUtils::new_unimplemented(),
};

/// Has the library use these signatures in this process.
pub(super) fn install() {
    // A program around this one may have chosen others before: those check the same signatures.
    let _ = PROVIDER.install_default();
}

fn no_signer(_: &Algorithm, _: &EncodingKey) -> Result<Box<dyn JwtSigner>, Error> {
    Err(new_error(ErrorKind::UnsupportedAlgorithm))
}

fn verifier(algorithm: &Algorithm, key: &DecodingKey) -> Result<Box<dyn JwtVerifier>, Error> {
    let is_public = ALGORITHMS.iter().any(|(_, known)| known == algorithm);
    if !is_public || key.family() == AlgorithmFamily::Hmac {
        return Err(new_error(ErrorKind::UnsupportedAlgorithm));
    }
    Ok(Box::new(Signature { algorithm: *algorithm, key: key.clone() }))
}

/// Checks the signatures of one key.
struct Signature {
    algorithm: Algorithm,
    key: DecodingKey,
}

impl JwtVerifier for Signature {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}

impl Verifier<Vec<u8>> for Signature {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> Result<(), NotSigned> {
        // Of at least 2,048 bits.
        let rsa: Option<&'static RsaParameters> = match self.algorithm {
            Algorithm::RS256 => Some(&signature::RSA_PKCS1_2048_8192_SHA256),
            Algorithm::RS384 => Some(&signature::RSA_PKCS1_2048_8192_SHA384),
            Algorithm::RS512 => Some(&signature::RSA_PKCS1_2048_8192_SHA512),
            Algorithm::PS256 => Some(&signature::RSA_PSS_2048_8192_SHA256),
            Algorithm::PS384 => Some(&signature::RSA_PSS_2048_8192_SHA384),
            Algorithm::PS512 => Some(&signature::RSA_PSS_2048_8192_SHA512),
            _ => None,
        };
        let curve: Option<&'static dyn VerificationAlgorithm> = match self.algorithm {
            Algorithm::ES256 => Some(&signature::ECDSA_P256_SHA256_FIXED),
            Algorithm::ES384 => Some(&signature::ECDSA_P384_SHA384_FIXED),
            Algorithm::EdDSA => Some(&signature::ED25519),
            _ => None,
        };
        let checked = match (self.key.kind(), rsa, curve) {
            (DecodingKeyKind::RsaModulusExponent { n, e }, Some(rsa), _) => {
                RsaPublicKeyComponents { n, e }.verify(rsa, message, signature)
            }
            (DecodingKeyKind::SecretOrDer(point), None, Some(curve)) => {
                UnparsedPublicKey::new(curve, point).verify(message, signature)
            }
            _ => return Err(NotSigned::new()),
        };
        checked.map_err(|_| NotSigned::new())
    }
}

//! Signatures of archives: they say who exported one, and that nobody changed it since.

use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};

use crate::archive::SIGNATURE;
use crate::origin::Signer;

/// What a signature begins with, so that none for another purpose passes for one of an archive.
const PURPOSE: &[u8] = b"dalsegno archive signature 1\n";

/// A key that signs archives. It has no `Debug`, and is in no journal.
pub struct SigningKey(Ed25519KeyPair);

impl SigningKey {
    /// The key of a seed. The same seed is the same key.
    pub fn from_seed(seed: &[u8; 32]) -> Self {
        let pair = Ed25519KeyPair::from_seed_unchecked(seed);
        Self(pair.expect("every 32 bytes are a seed"))
    }

    /// By what its signatures are verified.
    pub fn signer(&self) -> Signer {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(self.0.public_key().as_ref());
        Signer::from_bytes(bytes)
    }

    pub(crate) fn sign(&self, contents: &[u8]) -> [u8; SIGNATURE] {
        let mut signature = [0; SIGNATURE];
        signature.copy_from_slice(self.0.sign(&signed(contents)).as_ref());
        signature
    }
}

/// Says whether a signature is this signer's, of these contents.
pub(crate) fn verify(signer: &Signer, contents: &[u8], signature: &[u8; SIGNATURE]) -> bool {
    UnparsedPublicKey::new(&ED25519, signer.as_bytes()).verify(&signed(contents), signature).is_ok()
}

/// What is signed of contents.
fn signed(contents: &[u8]) -> Vec<u8> {
    let mut signed = PURPOSE.to_vec();
    signed.extend_from_slice(blake3::hash(contents).as_bytes());
    signed
}

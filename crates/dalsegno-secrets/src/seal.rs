//! Authenticated encryption, each time together with what the ciphertext is about.

use chacha20poly1305::aead::{AeadInOut, KeyInit};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use zeroize::Zeroizing;

/// The bytes of every key.
pub(crate) const KEY_BYTES: usize = 32;

/// The bytes by which a ciphertext is longer than its plaintext.
pub(crate) const TAG_BYTES: usize = 16;

/// The bytes of a nonce: so many that random ones do not meet, however much is written.
pub(crate) const NONCE_BYTES: usize = 24;

/// A key that is overwritten when it is dropped.
pub(crate) type KeyBytes = Zeroizing<[u8; KEY_BYTES]>;

/// A ciphertext and the nonce that was drawn for it.
#[derive(Clone, Debug)]
pub(crate) struct Sealed {
    pub(crate) nonce: [u8; NONCE_BYTES],
    pub(crate) bytes: Vec<u8>,
}

/// One key, ready for use.
pub(crate) struct Cipher(XChaCha20Poly1305);

impl Cipher {
    pub(crate) fn new(key: &KeyBytes) -> Self {
        Self(XChaCha20Poly1305::new((&**key).into()))
    }

    /// Encrypts under a fresh nonce, bound to `about`.
    pub(crate) fn seal(&self, about: &About, plain: &[u8]) -> Result<Sealed, getrandom::Error> {
        let nonce = random::<NONCE_BYTES>()?;
        // Room for the tag from the start: a vector that grows would leave a copy of the plaintext behind.
        let mut bytes = Vec::with_capacity(plain.len() + TAG_BYTES);
        bytes.extend_from_slice(plain);
        self.0
            .encrypt_in_place(&XNonce::from(nonce), &about.0, &mut bytes)
            .expect("values are far shorter than the cipher's limit of 256 GiB");
        Ok(Sealed { nonce, bytes })
    }

    /// Decrypts; none unless this key sealed exactly this, about exactly that.
    pub(crate) fn open(&self, about: &About, sealed: Sealed) -> Option<Zeroizing<Vec<u8>>> {
        let mut bytes = Zeroizing::new(sealed.bytes);
        self.0.decrypt_in_place(&XNonce::from(sealed.nonce), &about.0, &mut *bytes).ok()?;
        Some(bytes)
    }

    /// Says whether `sealed` holds nothing and was sealed with this key, about exactly that.
    pub(crate) fn attests(&self, about: &About, sealed: Sealed) -> bool {
        self.open(about, sealed).is_some_and(|plain| plain.is_empty())
    }
}

/// What a ciphertext is about: authenticated with it, and needed to open it.
///
/// Each kind begins with its own label and each text with its length, so that no two of them have the same bytes.
pub(crate) struct About(Vec<u8>);

impl About {
    pub(crate) fn new(label: &str, store: &[u8; 16]) -> Self {
        Self(store.to_vec()).text(label)
    }

    pub(crate) fn text(self, text: &str) -> Self {
        self.bytes(text.as_bytes())
    }

    pub(crate) fn bytes(self, bytes: &[u8]) -> Self {
        let mut about = self.number(bytes.len() as u64);
        about.0.extend_from_slice(bytes);
        about
    }

    pub(crate) fn number(mut self, number: u64) -> Self {
        self.0.extend_from_slice(&number.to_le_bytes());
        self
    }

    pub(crate) fn maybe(self, number: Option<u64>) -> Self {
        match number {
            Some(number) => self.number(1).number(number),
            None => self.number(0),
        }
    }

    /// The hash of it, where a list of any length stands for its members.
    pub(crate) fn digest(&self) -> [u8; 32] {
        *blake3::hash(&self.0).as_bytes()
    }
}

/// Draws random bytes from the operating system.
pub(crate) fn random<const N: usize>() -> Result<[u8; N], getrandom::Error> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)?;
    Ok(bytes)
}

/// Draws a key.
pub(crate) fn random_key() -> Result<KeyBytes, getrandom::Error> {
    let mut key = KeyBytes::default();
    getrandom::fill(&mut *key)?;
    Ok(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sealed_opens_with_the_same_key_about_the_same_thing_only() {
        let (key, other) = (Cipher::new(&random_key().unwrap()), Cipher::new(&random_key().unwrap()));
        let about = || About::new("a", &[7; 16]).text("x");
        let sealed = key.seal(&about(), b"value").unwrap();
        assert_eq!(key.open(&about(), sealed.clone()).unwrap().as_slice(), b"value");
        assert!(other.open(&about(), sealed.clone()).is_none());
        assert!(key.open(&About::new("a", &[7; 16]).text("y"), sealed.clone()).is_none());
        assert!(key.open(&About::new("b", &[7; 16]).text("x"), sealed.clone()).is_none());
        assert!(key.open(&About::new("a", &[8; 16]).text("x"), sealed.clone()).is_none());
        for at in 0..sealed.bytes.len() {
            let mut changed = sealed.clone();
            changed.bytes[at] ^= 1;
            assert!(key.open(&about(), changed).is_none());
        }
        let short = Sealed { nonce: sealed.nonce, bytes: sealed.bytes[..TAG_BYTES - 1].to_vec() };
        assert!(key.open(&about(), short).is_none());
    }

    #[test]
    fn the_same_value_is_never_sealed_to_the_same_bytes() {
        let key = Cipher::new(&random_key().unwrap());
        let [a, b] = [(); 2].map(|()| key.seal(&About::new("a", &[7; 16]), b"value").unwrap());
        assert_ne!(a.nonce, b.nonce);
        assert_ne!(a.bytes, b.bytes);
    }

    #[test]
    fn different_things_are_never_spelled_alike() {
        let about = || About::new("a", &[7; 16]);
        assert_ne!(about().text("ab").text("c").0, about().text("a").text("bc").0);
        assert_ne!(about().maybe(None).number(0).0, about().maybe(Some(0)).0);
    }
}

//! Who may receive webhooks: public addresses over TLS, and what the operator lists besides.

use std::collections::BTreeSet;
use std::sync::Arc;

use dalsegno_net::{AddressKind, Egress, Origin, Resolver, Scheme, SystemResolver, Url};

/// The longest URL.
const URL_MAX: usize = 2_048;

/// Who may receive webhooks.
#[derive(Clone)]
pub struct Destinations {
    listed: BTreeSet<Origin>,
    resolver: Arc<dyn Resolver>,
}

/// Why a URL receives no webhooks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadUrl {
    /// It is none of HTTP with a host, or it is too long or holds more than a receiver needs.
    #[error("the URL of a webhook {0}")]
    Form(&'static str),
    /// It is not encrypted.
    #[error(
        "the URL of a webhook is not `https`, and `{0}` is not among `webhooks` in `[serve]` of dalsegno.toml"
    )]
    NotEncrypted(String),
    /// It names an address that is not of the public network.
    #[error("`{origin}` is {kind}, and not among `webhooks` in `[serve]` of dalsegno.toml")]
    NotPublic {
        /// Scheme, host and port.
        origin: String,
        /// What it is.
        kind: AddressKind,
    },
}

impl Destinations {
    /// Public receivers over `https`, and the listed ones: those may speak `http` and be of this machine or a private network.
    pub fn new(listed: impl IntoIterator<Item = Origin>) -> Self {
        Self::with_resolver(listed, Arc::new(SystemResolver))
    }

    /// The same with names resolved by `resolver`. Its answers are checked like any other's.
    pub fn with_resolver(listed: impl IntoIterator<Item = Origin>, resolver: Arc<dyn Resolver>) -> Self {
        Self { listed: listed.into_iter().collect(), resolver }
    }

    /// Reads the URL of an endpoint. A name is not resolved: its addresses are checked when they are dialled.
    ///
    /// # Errors
    /// When nothing may be sent there.
    pub fn check(&self, text: &str) -> Result<Url, BadUrl> {
        if text.len() > URL_MAX {
            return Err(BadUrl::Form("has more than 2,048 bytes"));
        }
        let url = Url::parse(text).map_err(|_| BadUrl::Form("is no URL"))?;
        if url.fragment().is_some() {
            return Err(BadUrl::Form("has a fragment, which no receiver gets"));
        }
        let origin = Origin::of(&url).map_err(|invalid| BadUrl::Form(invalid.reason))?;
        self.admit(&origin)?;
        Ok(url)
    }

    fn admit(&self, origin: &Origin) -> Result<(), BadUrl> {
        if self.listed.contains(origin) {
            return Ok(());
        }
        if origin.scheme() != Scheme::Https {
            return Err(BadUrl::NotEncrypted(origin.to_string()));
        }
        // To a client of ours an address that is named, and `localhost`, are meant.
        let kind = match origin.address() {
            Some(address) => AddressKind::of(address),
            None => (origin.name() == Some("localhost")).then_some(AddressKind::Loopback),
        };
        match kind {
            Some(kind) => Err(BadUrl::NotPublic { origin: origin.to_string(), kind }),
            None => Ok(()),
        }
    }

    /// What a client for this origin may reach: the origin, at addresses that are public or listed.
    pub(crate) fn egress(&self, origin: &Origin) -> Egress {
        let grants = self.listed.iter().chain([origin]).cloned();
        Egress::with_resolver(grants, Arc::clone(&self.resolver))
    }
}

impl std::fmt::Debug for Destinations {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Destinations").field("listed", &self.listed).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_public_receivers_over_tls_and_listed_ones_get_webhooks() {
        let none = Destinations::new([]);
        for url in
            ["https://hooks.example.com/in?key=1", "https://hooks.example.com:8443/", "https://8.8.8.8/x"]
        {
            assert!(none.check(url).is_ok(), "{url}");
        }
        for (url, expected) in [
            ("http://hooks.example.com/in", "not `https`"),
            ("https://localhost/in", "this machine itself"),
            ("https://LOCALHOST:8443/in", "this machine itself"),
            ("https://127.0.0.1/in", "this machine itself"),
            ("https://0x7f.1/in", "this machine itself"),
            ("https://[::1]/in", "this machine itself"),
            ("https://[::ffff:10.0.0.1]/in", "dressed as"),
            ("https://10.1.2.3/in", "private network"),
            ("https://169.254.169.254/latest/meta-data", "local link"),
            ("https://user:secret@hooks.example.com/", "user's name or password"),
            ("https://hooks.example.com/#x", "fragment"),
            ("ftp://hooks.example.com/", "only `http` and `https`"),
            ("hooks.example.com", "no URL"),
            ("https://hooks.example.com./", "neither a name nor an address"),
        ] {
            let error = none.check(url).unwrap_err().to_string();
            assert!(error.contains(expected), "{url}: {error}");
            assert!(!error.contains("secret@"), "{error}");
        }
        assert!(none.check(&format!("https://a.example/{}", "x".repeat(2_048))).is_err());
    }

    #[test]
    fn a_listed_origin_is_that_one_and_no_other() {
        let listed = Destinations::new(["http://127.0.0.1:9000".parse().unwrap()]);
        assert!(listed.check("http://127.0.0.1:9000/in").is_ok());
        for url in ["http://127.0.0.1:9001/in", "https://127.0.0.1:9000/in", "http://localhost:9000/in"] {
            assert!(listed.check(url).is_err(), "{url}");
        }
    }
}

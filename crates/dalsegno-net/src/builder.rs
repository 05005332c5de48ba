//! How every HTTP client of the project is set up.

use std::sync::Arc;

use reqwest::{ClientBuilder, redirect, retry};
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt;

/// Why a client could not be set up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    /// The system's certificates or the TLS settings cannot be used.
    #[error("cannot set up TLS with the certificates of this system")]
    Tls(#[from] rustls::Error),
    /// The client refused its settings.
    #[error("cannot set up an HTTP client")]
    Client(#[from] reqwest::Error),
}

/// A client that takes no proxy from its surroundings, keeps no cookies, follows no redirects and repeats nothing.
///
/// `secure` says whether it will speak TLS: the certificates of the system are only loaded for one that will.
///
/// # Errors
///
/// When the certificates of the system cannot be used.
pub fn client_builder(secure: bool) -> Result<ClientBuilder, SetupError> {
    Ok(reqwest::Client::builder()
        .user_agent(concat!("dalsegno/", env!("CARGO_PKG_VERSION")))
        .tls_backend_preconfigured(tls_config(secure)?)
        .no_proxy()
        .redirect(redirect::Policy::none())
        .retry(retry::never())
        .referer(false))
}

/// TLS with the certificates of the system, for who dials by himself; none are loaded for an address that needs none.
///
/// # Errors
///
/// When the certificates of the system cannot be used.
pub fn tls_config(secure: bool) -> Result<ClientConfig, SetupError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let config = if secure {
        config.with_platform_verifier()?
    } else {
        config.with_root_certificates(RootCertStore::empty())
    };
    Ok(config.with_no_client_auth())
}

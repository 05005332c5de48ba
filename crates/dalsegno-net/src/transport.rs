//! Who carries a request in the network's place.

use async_trait::async_trait;
use reqwest::StatusCode;
use reqwest::header::HeaderMap;

use crate::error::NetError;
use crate::request::Request;

/// Carries the requests of a [`Client`](crate::Client) that does not use the network, such as that of a simulation.
///
/// It sees only what the rules allow: each request and each hop of a redirect is checked before it is carried, and the
/// bounds of the request hold for what it brings back.
#[async_trait]
pub trait Transport: Send + Sync {
    /// Carries one request and brings the answer.
    ///
    /// # Errors
    ///
    /// [`NetError::Unreachable`] when nothing was sent, [`NetError::Broken`] when it may have been.
    async fn carry(&self, request: &Request) -> Result<Carried, NetError>;
}

/// An answer that a [`Transport`] brought.
#[derive(Clone, Debug)]
pub struct Carried {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The body, as far as it came.
    pub body: Vec<u8>,
    /// The connection was lost before the end of the body.
    pub is_cut: bool,
}

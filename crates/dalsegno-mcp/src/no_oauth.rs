//! Access by OAuth 2.1, in a build without it: nothing has such an access.

use std::fmt;

use dalsegno_protocol::Failure;
use reqwest::Url;

/// The access to one server. This build has none: the feature `oauth` adds it.
#[derive(Clone, Debug)]
pub enum OAuth {}

/// Why there is no access to a server. This build asks for none.
#[derive(Clone, Debug)]
pub enum OAuthError {}

impl OAuth {
    pub(crate) fn is_for(&self, _: &Url) -> bool {
        match *self {}
    }

    pub(crate) async fn token(&self) -> Result<Option<String>, OAuthError> {
        match *self {}
    }

    pub(crate) async fn refused(&self, _: Option<String>, _: &str) -> Result<String, OAuthError> {
        match *self {}
    }

    pub(crate) async fn wants(&self, _: Option<&str>) -> OAuthError {
        match *self {}
    }
}

impl OAuthError {
    pub(crate) fn failure(&self) -> Failure {
        match *self {}
    }
}

impl fmt::Display for OAuthError {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {}
    }
}

//! Access to tool servers in a build without OAuth: none can be had.

use std::sync::Arc;

use dalsegno_mcp::OAuth;
use dalsegno_net::{Origin, Url};
use dalsegno_workspace::OAuthBinding;

use crate::vault::Vault;

/// Refuses a server that wants access by OAuth.
pub(crate) fn access(
    _: &str,
    _: &Url,
    _: &Origin,
    _: &OAuthBinding,
    _: &Arc<Vault>,
) -> Result<OAuth, String> {
    Err("this build of Dalsegno has no OAuth: build it with the feature `oauth`".to_owned())
}

/// The secret that a person must give before the server can be used.
pub(crate) async fn missing(oauth: &OAuth, _: &str) -> Option<String> {
    match *oauth {}
}

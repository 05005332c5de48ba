//! The pages of signing in.

use askama::Template;

use crate::shell::Shell;

/// Asks for an access key, or for the account of an identity provider.
#[derive(Debug, Clone, Template)]
#[template(path = "sign_in.html")]
pub struct SignInPage {
    /// What surrounds it.
    pub shell: Shell,
    /// Where to go afterwards.
    pub next: String,
    /// Why the last try was refused.
    pub problem: Option<String>,
    /// The address at which the identity provider signs a person in; none where it does not.
    pub provider: Option<String>,
}

/// Leads from the sign-in link to the pages.
///
/// A redirect would not do: where the link was followed from another site, browsers send a `SameSite=Strict` cookie only with a
/// request that the site itself begins, and this page begins one.
#[derive(Debug, Clone, Template)]
#[template(path = "signed_in.html")]
pub struct SignedInPage {
    /// What surrounds it.
    pub shell: Shell,
    /// Where to go.
    pub next: String,
}

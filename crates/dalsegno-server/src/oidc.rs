//! Tokens of the identity provider that `[serve.oidc]` names, and what they need besides: a tenant that exists.

use dalsegno_access::{Access, Issuer, OidcClient, Reach, Refused, Rules, Scope, SignInSecret, TenantRule};
use dalsegno_core::Timestamp;
use dalsegno_workspace::{NoTenant, OidcSettings, OidcSignIn, OidcTenant};

use crate::accept::ServeError;
use crate::shared::Shared;

/// The address to which the identity provider sends a browser back.
pub(crate) const RETURN: &str = "/sign-in/oidc/return";

/// The identity provider of a server.
pub(crate) struct Oidc {
    issuer: Issuer,
    /// How people sign in to the pages, if they do.
    sign_in: Option<OidcSignIn>,
}

impl Oidc {
    pub(crate) fn new(settings: &OidcSettings) -> Result<Self, ServeError> {
        let issuer = Issuer::new(rules(settings))?;
        Ok(Self { issuer, sign_in: settings.sign_in.clone() })
    }

    /// Says whether people can sign in to the pages by it.
    pub(crate) fn has_sign_in(&self) -> bool {
        self.sign_in.is_some()
    }
}

fn rules(settings: &OidcSettings) -> Rules {
    let reach = |name: &str| match name {
        "*" => Reach::All,
        name => Reach::Tenant(name.to_owned()),
    };
    let tenant = match &settings.tenant {
        OidcTenant::Fixed(name) => TenantRule::Fixed(reach(name)),
        OidcTenant::Claim { claim, tenants: None } => TenantRule::Named { claim: claim.clone() },
        OidcTenant::Claim { claim, tenants: Some(tenants) } => {
            let reaches = tenants.iter().map(|(value, name)| (value.clone(), reach(name)));
            TenantRule::Listed { claim: claim.clone(), reaches: reaches.collect() }
        }
    };
    // The words were checked when the settings were read.
    let scopes = settings.scopes.iter().map(|(value, words)| {
        let scopes = words.iter().filter_map(|word| word.parse::<Scope>().ok());
        (value.clone(), scopes.collect())
    });
    Rules {
        issuer: settings.issuer.clone(),
        audience: settings.audience.clone(),
        algorithms: settings.algorithms.clone(),
        tenant,
        scopes_claim: settings.scopes_claim.clone(),
        scopes: scopes.collect(),
        name_claim: settings.name_claim.clone(),
        addresses: settings.addresses.iter().filter_map(|origin| origin.parse().ok()).collect(),
    }
}

/// Checks a text that a client showed in place of a key, if it has the form of a token and tokens are accepted.
pub(crate) async fn check(shared: &Shared, shown: &str) -> Option<Result<Access, Refused>> {
    let oidc = shared.oidc.as_ref().filter(|_| Issuer::is_token(shown))?;
    let checked = oidc.issuer.check(shown).await.and_then(|access| known(shared, access));
    shared.telemetry.metrics().token(match &checked {
        Ok(_) => "accepted",
        Err(Refused::TokenExpired) => "expired",
        // It says nothing of the token.
        Err(Refused::Issuer | Refused::Unavailable(_)) => "unchecked",
        Err(_) => "refused",
    });
    Some(checked)
}

/// An access of a tenant that the workspace has, or of all.
fn known(shared: &Shared, access: Access) -> Result<Access, Refused> {
    let Some(tenant) = access.tenant() else { return Ok(access) };
    match shared.engine.workspace().check_tenant(tenant) {
        // What is wrong with its file keeps no one from its runs, as with a key.
        Ok(()) | Err(NoTenant::Broken { .. }) => Ok(access),
        Err(_) => {
            tracing::info!(target: "dalsegno::oidc", why = "the workspace has no such tenant", "a token was refused");
            Err(Refused::Token)
        }
    }
}

/// Where a browser is sent to, so that its user signs in by the identity provider. None where that is not offered.
pub(crate) async fn authorize(
    shared: &Shared,
    attempt: &SignInSecret,
    redirect: &str,
) -> Option<Result<String, Refused>> {
    let Oidc { issuer, sign_in } = shared.oidc.as_ref()?;
    let sign_in = sign_in.as_ref()?;
    let client = OidcClient { id: &sign_in.client_id, secret: None, redirect };
    Some(issuer.authorize(attempt, client, &sign_in.scopes).await)
}

/// What a browser came back with.
pub(crate) struct Returned<'r> {
    pub(crate) state: &'r str,
    pub(crate) issuer: Option<&'r str>,
    /// None where the identity provider did not sign its user in.
    pub(crate) code: Option<&'r str>,
}

/// Signs the user of a browser in that the identity provider sent back. None where that is not offered.
pub(crate) async fn redeem(
    shared: &Shared,
    attempt: &SignInSecret,
    returned: Returned<'_>,
    redirect: &str,
) -> Option<Result<Access, Refused>> {
    let Oidc { issuer, sign_in } = shared.oidc.as_ref()?;
    let sign_in = sign_in.as_ref()?;
    if let Err(refused) = issuer.returned(attempt, returned.state, returned.issuer) {
        return Some(Err(refused));
    }
    let Some(code) = returned.code else { return Some(Err(Refused::Token)) };
    let secret = match &sign_in.client_secret {
        None => None,
        Some(reference) => {
            let source = shared.engine.secret_source();
            match source.read(reference, Timestamp::from_millis(shared.now())).await {
                Ok(secret) => Some(secret),
                Err(error) => {
                    tracing::error!(target: "dalsegno::oidc", %error, "the secret of the client of the identity provider cannot be read");
                    return Some(Err(Refused::Issuer));
                }
            }
        }
    };
    let secret = secret.as_ref().map(|secret| secret.expose());
    let client = OidcClient { id: &sign_in.client_id, secret, redirect };
    Some(issuer.redeem(attempt, code, client).await.and_then(|access| known(shared, access)))
}

#[cfg(test)]
mod tests {
    use dalsegno_access::Scope;
    use dalsegno_workspace::ACCESS_SCOPES;

    #[test]
    fn the_settings_know_every_scope_and_no_other() {
        let known: Vec<&str> = Scope::ALL.iter().map(|scope| scope.as_str()).collect();
        assert_eq!(known, ACCESS_SCOPES);
    }
}

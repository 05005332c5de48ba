//! Access by OAuth 2: consent is given once by a person, and the tokens that it brings are kept, refreshed and used here.
//!
//! All that belongs to one access is one secret of the secret store, a [`Grant`], so that a refresh replaces it as a whole
//! or not at all. Its name says whose it is: `oauth.TENANT.TOOLKIT`, or `oauth.TENANT.TOOLKIT.AGENT` of an agent that has an access
//! of its own.

#[cfg_attr(not(feature = "oauth"), path = "no_access.rs")]
mod access;
#[cfg(feature = "oauth")]
mod client;
#[cfg(feature = "oauth")]
mod consent;
#[cfg(feature = "oauth")]
mod grant;

#[cfg(feature = "oauth")]
pub use self::consent::{Consent, ConsentError, Consented};

use std::fmt;

#[cfg(feature = "oauth")]
use dalsegno_core::AgentName;

/// How the names of such secrets begin.
const PREFIX: &str = "oauth.";

/// What gives a secret that a run waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SecretGiver {
    /// A value that a person puts into the secret store.
    Value {
        /// Its name there.
        name: String,
    },
    /// The consent of a person, for a toolkit.
    Toolkit {
        /// The toolkit.
        toolkit: String,
        /// For which tenant.
        tenant: String,
        /// For which agent of the tenant alone, if it is for one.
        agent: Option<String>,
    },
    /// The consent of a person, for a tool server.
    Server {
        /// The server.
        server: String,
    },
}

impl SecretGiver {
    /// Tells from a secret's name what gives it.
    pub fn of(name: &str) -> Self {
        let Some(consent) = name.strip_prefix(PREFIX) else { return Self::Value { name: name.to_owned() } };
        let mut parts = consent.splitn(3, '.').map(str::to_owned);
        match (parts.next(), parts.next(), parts.next()) {
            (Some(tenant), Some(toolkit), agent) => Self::Toolkit { toolkit, tenant, agent },
            _ => Self::Server { server: consent.to_owned() },
        }
    }
}

/// The command that a person types.
impl fmt::Display for SecretGiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Value { name } => write!(f, "dalsegno secret put {name}"),
            Self::Server { server } => write!(f, "dalsegno auth {server}"),
            Self::Toolkit { toolkit, tenant, agent } => {
                write!(f, "dalsegno auth {toolkit}")?;
                if tenant != crate::names::DEFAULT_TENANT {
                    write!(f, " --tenant {tenant}")?;
                }
                agent.iter().try_for_each(|agent| write!(f, " --agent {agent}"))
            }
        }
    }
}

/// The name under which the access to a toolkit is kept, of a tenant or of one of its agents alone. No part has a dot, so that
/// two never share one.
#[cfg(feature = "oauth")]
fn secret_name(tenant: &str, toolkit: &str, agent: Option<&AgentName>) -> String {
    let agent = agent.map(|agent| format!(".{agent}")).unwrap_or_default();
    format!("{PREFIX}{tenant}.{toolkit}{agent}")
}

#[cfg(all(test, feature = "oauth"))]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_secret_tells_what_gives_it() {
        let command = |name: &str| SecretGiver::of(name).to_string();
        assert_eq!(command("crm.token"), "dalsegno secret put crm.token");
        assert_eq!(
            command(&secret_name("default", "google_calendar", None)),
            "dalsegno auth google_calendar"
        );
        assert_eq!(command(&crate::effects::access::secret_name("tickets")), "dalsegno auth tickets");
        assert_eq!(command(&secret_name("acme", "crm", None)), "dalsegno auth crm --tenant acme");
        let agent = "sales".parse().unwrap();
        let own = secret_name("acme", "crm", Some(&agent));
        assert_eq!(command(&own), "dalsegno auth crm --tenant acme --agent sales");
    }
}

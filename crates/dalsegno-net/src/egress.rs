//! The rules, and the check of a receiver against them.

use std::collections::BTreeSet;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use crate::address::AddressKind;
use crate::error::{DenialReason, EgressDenied, EgressError};
use crate::origin::Origin;
use crate::resolver::{Resolver, SystemResolver};

/// Who may be reached. Cheap to clone.
///
/// Without grants it allows nothing, which is also its default.
#[derive(Clone)]
pub struct Egress {
    grants: Arc<BTreeSet<Origin>>,
    resolver: Arc<dyn Resolver>,
}

impl Egress {
    /// Allows these origins; names are resolved by the operating system.
    pub fn new(grants: impl IntoIterator<Item = Origin>) -> Self {
        Self::with_resolver(grants, Arc::new(SystemResolver))
    }

    /// Allows these origins; names are resolved by `resolver`. Its answers are checked like any other's.
    pub fn with_resolver(grants: impl IntoIterator<Item = Origin>, resolver: Arc<dyn Resolver>) -> Self {
        Self { grants: Arc::new(grants.into_iter().collect()), resolver }
    }

    /// Whether anything is allowed at all.
    pub fn is_empty(&self) -> bool {
        self.grants.is_empty()
    }

    /// Says whether an origin is among the grants. Resolves nothing: an address that it has may still be refused.
    ///
    /// # Errors
    ///
    /// When it is not.
    pub fn permits(&self, origin: &Origin) -> Result<(), EgressDenied> {
        if self.grants.contains(origin) {
            return Ok(());
        }
        let granted = self.grants.iter().map(Origin::to_string).collect();
        Err(denied(origin, DenialReason::NotGranted { granted }))
    }

    /// The addresses of an origin, each of them checked. Never empty.
    ///
    /// The answer is good for one connection: dial these addresses, not the name, and ask again for the next one.
    ///
    /// # Errors
    ///
    /// When the origin is not granted, its name has no address, or one of its addresses may not be reached.
    pub async fn check(&self, origin: &Origin) -> Result<Vec<SocketAddr>, EgressError> {
        self.permits(origin)?;
        let Some(name) = origin.name() else {
            return Ok(origin
                .address()
                .map(|address| SocketAddr::new(address, origin.port()))
                .into_iter()
                .collect());
        };
        // No name server is asked about this name: it could answer with another machine.
        if name == LOCALHOST {
            let here = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
            return Ok(here.map(|address| SocketAddr::new(address, origin.port())).into());
        }
        let unresolved = |message: String| EgressError::Unresolved { name: name.to_owned(), message };
        let found = tokio::time::timeout(RESOLVE_TIMEOUT, self.resolver.resolve(name)).await;
        let found =
            found.map_err(|_| unresolved(format!("no answer within {} s", RESOLVE_TIMEOUT.as_secs())))?;
        let found = found.map_err(|error| unresolved(error.to_string()))?;
        if found.is_empty() {
            return Err(unresolved("the answer is empty".to_owned()));
        }
        // One bad address refuses them all: a caller that tries one after the other would come to it.
        for address in &found {
            self.admit(origin, *address)?;
        }
        Ok(found
            .into_iter()
            .take(ADDRESSES_MAX)
            .map(|address| SocketAddr::new(address, origin.port()))
            .collect())
    }

    fn admit(&self, origin: &Origin, address: IpAddr) -> Result<(), EgressDenied> {
        let Some(kind) = AddressKind::of(address) else { return Ok(()) };
        let is_granted = |grant: &Origin| {
            grant.address() == Some(address)
                && grant.scheme() == origin.scheme()
                && grant.port() == origin.port()
        };
        if self.grants.iter().any(is_granted) {
            return Ok(());
        }
        tracing::warn!(%origin, %address, %kind, "a name leads to an address that may not be reached");
        Err(denied(origin, DenialReason::Address { address, kind }))
    }
}

impl Default for Egress {
    fn default() -> Self {
        Self::new([])
    }
}

impl fmt::Debug for Egress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Egress").field("grants", &self.grants).finish_non_exhaustive()
    }
}

fn denied(origin: &Origin, reason: DenialReason) -> EgressDenied {
    EgressDenied { origin: origin.to_string(), reason }
}

const LOCALHOST: &str = "localhost";

/// The system's own limit can be far longer.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(5);

/// More than these nobody tries.
const ADDRESSES_MAX: usize = 16;

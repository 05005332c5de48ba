//! Names to addresses.

use std::io;
use std::net::IpAddr;

use async_trait::async_trait;

/// Finds the addresses of a name.
#[async_trait]
pub trait Resolver: Send + Sync + 'static {
    /// All addresses that this name has now, the preferred ones first.
    ///
    /// # Errors
    ///
    /// When the name has none, or nobody could be asked.
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>>;
}

/// The resolver of the operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemResolver;

#[async_trait]
impl Resolver for SystemResolver {
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        // The port means nothing here, and is replaced by the one that was granted.
        let found = tokio::net::lookup_host((name, 0)).await?;
        Ok(found.map(|address| address.ip()).collect())
    }
}

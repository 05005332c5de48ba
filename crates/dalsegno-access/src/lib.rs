//! Who may do what through the server.
//!
//! A client shows a key. [`KeyStore::check`] compares it with what is kept and returns an [`Access`]. [`Issuer::check`] does the same
//! with a token that an identity provider has signed. There is no other way to get one.
//! Code that reads or changes something for a client takes an `Access`, so that nothing happens without a checked credential.
//!
//! ```
//! use dalsegno_access::{KeyStore, NewKey, Reach, Scope};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! let store = KeyStore::open(folder.path().join("access.db"))?;
//! let new = NewKey { reach: Reach::Tenant("acme".to_owned()), scopes: [Scope::RunsRead].into(), ..NewKey::default() };
//! let (entry, key) = store.add(&new, 0)?;
//! let access = store.check(key.expose(), 1)?;
//! assert!(access.may(Scope::RunsRead) && !access.may(Scope::AnswersWrite));
//! assert!(access.sees("acme") && !access.sees("other"));
//! store.revoke(&entry.id, 2)?;
//! assert!(store.check(key.expose(), 3).is_err());
//! # Ok(())
//! # }
//! ```

mod access;
mod error;
mod key;
mod oidc;
mod schema;
mod scope;
mod seal;
mod store;
mod ticket;

pub use access::{Access, Reach};
pub use dalsegno_database::OpenError;
pub use error::{KeyError, Refused};
pub use key::{Key, KeyEntry, KeyState, NewKey};
pub use oidc::{Issuer, NoIssuer, OidcClient, Rules, SignInSecret, TenantRule};
pub use scope::{Scope, UnknownScope};
pub use seal::Seals;
pub use store::KeyStore;
pub use ticket::{NoEntry, SESSION_LASTS, SESSION_NAME, TICKET_LASTS, Tickets};

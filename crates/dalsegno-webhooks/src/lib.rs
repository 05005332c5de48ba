//! Webhooks that go out: requests that tell a receiver how runs stand.
//!
//! A [`WebhookStore`] keeps the endpoints and what is still to be delivered to them. [`WebhookStore::take`] gets the changes that a
//! journal tells, [`WebhookStore::due`] says what is to be sent, a [`Sender`] makes one attempt, and [`WebhookStore::settle`] notes
//! what came of it. A delivery has the same id in every attempt and process, and is signed as
//! [Standard Webhooks](https://www.standardwebhooks.com) describes.
//!
//! ```
//! use dalsegno_webhooks::{Destinations, Event, NewEndpoint, Seen, WebhookStore};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! let store = WebhookStore::open(folder.path().join("webhooks.db"))?;
//! let url = Destinations::new([]).check("https://hooks.example.com/in")?;
//! let new = NewEndpoint {
//!     name: None,
//!     url,
//!     tenant: Some("acme".to_owned()),
//!     events: [Event::Completed].into(),
//!     agent: None,
//!     root: false,
//!     content: false,
//!     position: 7,
//! };
//! let (endpoint, secret) = store.add(&new, 0)?;
//! assert!(secret.expose().starts_with("whsec_"));
//! let event = Some(Event::Completed);
//! let ended = Seen { change: 8, run: &[1; 16], event, records: 5, agent: "notes", tenant: "acme", is_root: true };
//! store.take(7, &[ended], 1)?;
//! let due = store.due(&endpoint, 2, 10, |_| false)?;
//! assert_eq!(due.len(), 1);
//! # Ok(())
//! # }
//! ```
//!
//! **Invariant:** an end that an endpoint wants is delivered or in the file from the moment at which the place of the endpoint is
//! behind it, and nothing is sent to an address that was not checked for that very connection.

mod backoff;
mod destination;
mod endpoint;
mod error;
mod event;
mod queue;
mod schema;
mod secret;
mod send;
mod store;
mod turn;

pub use destination::{BadUrl, Destinations};
pub use endpoint::{Endpoint, NewEndpoint, Off, OffReason, Seen};
pub use error::{OpenError, WebhookError};
pub use event::{Event, UnknownEvent};
pub use queue::{AttemptResult, Attempted, Delivery, Load, News};
pub use secret::Secret;
pub use send::{Message, SendOutcome, Sender, Sent};
pub use store::{BOTH_SIGN, ENDPOINTS, WebhookStore};
pub use turn::Turn;

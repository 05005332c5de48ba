//! The outgoing network: one way of setting up TLS, and rules that say who may be reached.
//!
//! Two kinds of callers use it:
//!
//! - Those whose receiver an operator wrote down, such as the address of a model: [`client_builder`] gives a client that
//!   takes no proxy from its surroundings, keeps no cookies, follows no redirects and repeats nothing.
//! - Those that act for somebody who is not trusted, such as a tool server, a tool file or a model: [`Egress`] holds the
//!   [`Origin`]s that were granted, and [`Client`] sends requests to these and to nobody else.
//!
//! What happens to each request of a [`Client`], and to each hop of a redirect:
//!
//! 1. Scheme, name and port are looked up among the grants, before anything is resolved.
//! 2. The name is resolved, once for each connection, and *every* address that comes back is checked: one address that
//!    does not belong to the public network refuses them all, unless that very address was granted.
//! 3. The checked addresses are the ones that are dialled. There is no second look-up that could answer otherwise.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use dalsegno_net::{Client, Egress, Request};
//!
//! let egress = Egress::new(["https://crm.example.com".parse()?]);
//! let client = Client::new(egress);
//! let response = client.send(Request::get("https://crm.example.com/cases".parse()?)).await?;
//! println!("{}", response.status());
//! let body = response.bytes().await?;
//! # drop(body);
//! # Ok(())
//! # }
//! ```
//!
//! Who dials by himself, as a WebAssembly host does, asks [`Egress::check`] and dials what it returns.
//!
//! **Invariant:** no address is dialled that was not checked for that very connection.

mod builder;
mod words;

mod address;
mod origin;
mod resolver;

mod egress;
mod error;

mod client;
mod redirect;
mod request;
mod transport;

pub use address::AddressKind;
pub use builder::{SetupError, client_builder, tls_config};
pub use client::{Client, Response};
pub use egress::Egress;
pub use error::{DenialReason, EgressDenied, EgressError, NetError};
pub use origin::{InvalidOrigin, Origin, Scheme};
pub use request::Request;
pub use reqwest::header::HeaderMap;
pub use reqwest::{StatusCode, Url};
pub use resolver::{Resolver, SystemResolver};
pub use transport::{Carried, Transport};
pub use words::error_chain;

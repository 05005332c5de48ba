//! Effects: what a run may reach, and on which terms. Nothing here knows of runs: one attempt of one operation comes in, and what
//! it proves goes out.
//!
//! [`ports`] is what a run has of this process, [`dispatch`] says when an effect may start, [`policy`] what its outcome proves and
//! whether it is tried again; the others perform.

#[cfg_attr(not(feature = "oauth"), path = "no_access.rs")]
pub(crate) mod access;
pub(crate) mod bindings;
pub(crate) mod budget;
pub(crate) mod dispatch;
pub(crate) mod elicitation;
pub(crate) mod endpoint;
pub(crate) mod endpoints;
pub(crate) mod failure;
#[cfg_attr(not(feature = "mail"), path = "no_mail.rs")]
pub(crate) mod mail;
#[cfg(feature = "wasm")]
pub(crate) mod modules;
pub(crate) mod oauth;
pub(crate) mod policy;
pub(crate) mod ports;
pub(crate) mod tool;
pub(crate) mod tool_server;
#[cfg(feature = "oauth")]
pub(crate) mod turns;

//! Photographs of the real command: what it prints, where, and how it ends.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod approve;
mod auth;
mod auth_server;
mod bench;
mod broken;
mod call;
mod cases;
#[cfg(feature = "serve")]
mod catalogue;
mod chat;
mod check;
mod cost;
#[cfg(all(unix, feature = "serve"))]
mod crowd;
mod double;
mod doubt;
mod endpoint;
mod eval;
mod forced;
mod gate;
mod generated;
mod guest;
mod hands;
mod init;
mod library;
mod line;
mod lineage;
mod live;
mod lock;
mod look;
mod mail;
mod memory;
mod pictures;
mod private;
mod properties;
mod report;
mod rules;
mod run;
mod screen;
mod secret;
#[cfg(feature = "serve")]
mod serve;
mod servers;
mod show;
mod store;
#[cfg(feature = "serve")]
mod storm;
mod support;
mod suspend;
mod tasks;
mod telemetry;
mod told;
mod tools;
mod trial;
#[cfg(feature = "serve")]
mod trigger;
mod trust;
mod upkeep;
mod watch;
#[cfg(feature = "serve")]
mod webhooks;
mod why;

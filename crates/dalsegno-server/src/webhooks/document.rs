//! A webhook as a document: what the server sends, and `dalsegno webhook … --json` prints.

use dalsegno_core::Timestamp;
use dalsegno_webhooks::Endpoint;
use dalsegno_wire::{schema, time};
use serde::Serialize;
use utoipa::ToSchema;

/// A webhook: who receives what, and how it is going.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Webhook {
    /// Its id: 16 hexadecimal digits.
    pub id: String,
    /// A name for people.
    #[schema(required)]
    pub name: Option<String>,
    /// Where deliveries go.
    pub url: String,
    /// The tenant whose runs it is about; `*` for all tenants.
    pub tenant: String,
    /// The events that it wants.
    #[schema(value_type = Vec<String>)]
    pub events: Vec<&'static str>,
    /// Only runs of this agent.
    #[schema(required)]
    pub agent: Option<String>,
    /// Only runs that no other run started.
    pub root: bool,
    /// Whether what a run says is sent along.
    pub content: bool,
    /// How it is going: `on`, `failing`, or `off`. Nothing is delivered to one that is off.
    #[schema(value_type = String)]
    pub state: &'static str,
    /// Why it is off: `failing` for a day, or `gone`, since the receiver answered with 410.
    #[schema(required, value_type = Option<String>)]
    pub off_reason: Option<&'static str>,
    /// Since when it is off.
    #[schema(required, value_type = Option<schema::Time>)]
    pub off_since: Option<String>,
    /// Since when each attempt has failed.
    #[schema(required, value_type = Option<schema::Time>)]
    pub failing_since: Option<String>,
    /// When the latest attempt that failed was made.
    #[schema(required, value_type = Option<schema::Time>)]
    pub failed: Option<String>,
    /// Why that attempt failed.
    #[schema(required)]
    pub failure: Option<String>,
    /// When a delivery was last accepted.
    #[schema(required, value_type = Option<schema::Time>)]
    pub delivered: Option<String>,
    /// How many deliveries were accepted.
    pub deliveries: u64,
    /// How many deliveries wait.
    pub waiting: u64,
    /// How many deliveries were given up: they failed for a day, while others were accepted.
    pub given_up: u64,
    /// When it was made.
    #[schema(value_type = schema::Time)]
    pub created: String,
    /// When its secret was last exchanged.
    #[schema(required, value_type = Option<schema::Time>)]
    pub rotated: Option<String>,
}

impl Webhook {
    /// The document of an endpoint.
    pub fn of(endpoint: &Endpoint) -> Self {
        let at = |at: u64| time::exact(Timestamp::from_millis(at));
        Self {
            id: endpoint.id.clone(),
            name: endpoint.name.clone(),
            url: endpoint.url.clone(),
            tenant: endpoint.tenant().to_owned(),
            events: endpoint.events.iter().map(|event| event.as_str()).collect(),
            agent: endpoint.agent.clone(),
            root: endpoint.root,
            content: endpoint.content,
            state: match (endpoint.off, endpoint.failing_since) {
                (Some(_), _) => "off",
                (None, Some(_)) => "failing",
                (None, None) => "on",
            },
            off_reason: endpoint.off.map(|off| off.reason.as_str()),
            off_since: endpoint.off.map(|off| at(off.at)),
            failing_since: endpoint.failing_since.map(at),
            failed: endpoint.failed.as_ref().map(|(time, _)| at(*time)),
            failure: endpoint.failed.as_ref().map(|(_, failure)| failure.clone()),
            delivered: endpoint.delivered_at.map(at),
            deliveries: endpoint.delivered,
            waiting: endpoint.waiting,
            given_up: endpoint.given_up,
            created: at(endpoint.created_at),
            rotated: endpoint.rotated_at.map(at),
        }
    }
}

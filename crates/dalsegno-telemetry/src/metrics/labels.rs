//! Labels, and how many different ones there may be.

use std::collections::BTreeSet;
use std::sync::{PoisonError, RwLock};

use prometheus_client::encoding::EncodeLabelSet;

macro_rules! label_sets {
    ($($(#[$doc:meta])* $name:ident { $($field:ident: $type:ty),* $(,)? })*) => {
        $(
            $(#[$doc])*
            #[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
            pub(super) struct $name {
                $(pub(super) $field: $type,)*
            }
        )*
    };
}

label_sets! {
    AgentLabels { agent: String }
    EndLabels { agent: String, by: &'static str }
    RunLabels { agent: String, status: &'static str }
    ErrorLabels { agent: String, code: &'static str }
    OperationLabels { kind: &'static str, code: &'static str }
    AttemptLabels { kind: &'static str, code: &'static str }
    GateLabels { gate: &'static str }
    DenialLabels { tool: String, kind: &'static str }
    ToolLabels { agent: String, tool: String, code: &'static str }
    ToolTimeLabels { agent: String, tool: String }
    ModelLabels { agent: String, model: String }
    ModelCallLabels { agent: String, model: String, code: &'static str }
    WebhookLabels { outcome: &'static str }
    DeliveryLabels { trigger: String, result: &'static str }
    CredentialLabels { result: &'static str }
    ReasonLabels { reason: &'static str }
    TokenLabels { agent: String, model: String, direction: &'static str }
}

/// The values that a label has had, up to a bound.
#[derive(Debug)]
pub(super) struct Known {
    values: RwLock<BTreeSet<String>>,
    most: usize,
}

/// What stands for every value beyond the bound.
const OTHER: &str = "other";

/// Most bytes of a value; what is longer is `other` too.
const MAX_BYTES: usize = 128;

impl Known {
    pub(super) const fn new(most: usize) -> Self {
        Self { values: RwLock::new(BTreeSet::new()), most }
    }

    /// The value, or `other` where there are too many already.
    pub(super) fn label(&self, value: &str) -> String {
        if value.len() > MAX_BYTES {
            return OTHER.to_owned();
        }
        if self.values.read().unwrap_or_else(PoisonError::into_inner).contains(value) {
            return value.to_owned();
        }
        let mut values = self.values.write().unwrap_or_else(PoisonError::into_inner);
        if values.len() < self.most {
            values.insert(value.to_owned());
        }
        let known = values.contains(value);
        if known { value.to_owned() } else { OTHER.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_beyond_the_bound_share_one_label() {
        let known = Known::new(2);
        let labels: Vec<String> = ["a", "b", "c", "a", "d"].iter().map(|value| known.label(value)).collect();
        assert_eq!(labels, ["a", "b", "other", "a", "other"]);
        assert_eq!(known.label(&"x".repeat(129)), "other");
    }
}

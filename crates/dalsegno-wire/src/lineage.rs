//! Where a run came from.

use dalsegno_core::{AgentConfig, Mind, OperationId, RunId};
use dalsegno_history::{Inspection, Journal, Latest};
use dalsegno_store::Body;
use serde::Serialize;

#[cfg(feature = "openapi")]
use crate::schema;

/// Where a run came from. What is unknown or does not apply is left out.
#[derive(Debug, Default, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Lineage {
    /// The run that this one is a child of.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<schema::RunId>))]
    pub parent: Option<RunId>,
    /// The run that this one is a fork of.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<schema::RunId>))]
    pub forked_from: Option<RunId>,
    /// The foreign run that this one continues.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<schema::RunId>))]
    pub adopted_from: Option<RunId>,
    /// Who adopted it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adopted_by: Option<String>,
    /// The first step of its own; it shares those before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from_step: Option<u64>,
    /// The first turn of its own, where it is a fork of a call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from_turn: Option<u64>,
    /// The operations whose outcomes were replaced.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<schema::OperationId>))]
    pub replaced: Vec<OperationId>,
    /// The model, where the other run had another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// It has another configuration than the run that it is a fork of.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub other_configuration: bool,
}

impl Lineage {
    /// The parent of a run, the run that it is a fork of, and what differs from that one.
    pub async fn of(inspection: &Inspection, journal: &Journal) -> Self {
        let Inspection { summary, config, records, .. } = inspection;
        Self::from_record(summary.parent, config, records.get(1).map(|record| &record.body), journal).await
    }

    /// The same of a run of which only the latest state was read.
    pub async fn of_latest(latest: &Latest, journal: &Journal) -> Self {
        let Latest { summary, config, second, .. } = latest;
        Self::from_record(summary.parent, config, second.as_ref().map(|record| &record.body), journal).await
    }

    /// The same from the second record of a run, which says where it came from.
    pub async fn from_record(
        parent: Option<RunId>,
        config: &AgentConfig,
        second: Option<&Body>,
        journal: &Journal,
    ) -> Self {
        let mut lineage = Self { parent, ..Self::default() };
        match second {
            Some(Body::Forked { run, seq, within, step, overrides, .. }) => {
                lineage.forked_from = Some(*run);
                lineage.from_step = Some(*step);
                lineage.from_turn = journal.first_own_turn(*run, *seq, *within).await.ok().flatten();
                lineage.replaced.clone_from(overrides);
            }
            Some(Body::Adopted { run, step, by, .. }) => {
                lineage.adopted_from = Some(*run);
                lineage.from_step = Some(*step);
                lineage.adopted_by.clone_from(by);
            }
            _ => return lineage,
        }
        // The other run may be gone: then what differs is unknown.
        if let Some(origin) = lineage.forked_from
            && let Ok(other) = journal.configuration(origin).await
        {
            let model = |config: &AgentConfig| match &config.mind {
                Mind::Model(mind) => Some(mind.model.name.clone()),
                Mind::Plan(_) => None,
            };
            lineage.model = model(config).filter(|own| model(&other).is_none_or(|was| was != *own));
            lineage.other_configuration = *other != *config;
        }
        lineage
    }
}

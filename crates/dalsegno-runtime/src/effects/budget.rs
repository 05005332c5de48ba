//! What tenants, and the workspace as a whole, may spend on models in a day.
//!
//! Before each attempt of a completion, the most that it may cost is set aside in the journal, which all processes share; after
//! it, what was set aside is replaced by what the reply cost. The same rule as within a run decides about the rest: a request
//! that was certainly not worked on costs nothing, and all that was set aside counts where a reply was lost, was not counted
//! by its provider, or never came because the process died.

use std::sync::Arc;

use dalsegno_core::{FailureCode, ModelReply, ModelSettings, Price, ProviderTool, Received, Timestamp};
use dalsegno_store::{Allowance, ReserveError, Store};
use dalsegno_workspace::{ModelBinding, Workspace};
use jiff::Zoned;
use jiff::tz::TimeZone;

use crate::effects::failure::{AttemptError, certain, describe};
use crate::effects::ports::Ports;
use crate::error::EngineError;

/// What a reply may take where the settings name no bound. A run with a limit reckons with the same.
const OUTPUT_TOKENS: u32 = 4_096;

/// The account of all tenants together; no tenant can have this name.
const WORKSPACE: &str = "*";

/// A bound on what may be spent now.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Bound {
    allowance: Allowance,
    /// When the next day begins, in words.
    renews: String,
}

/// What is set aside for one attempt. If it is dropped, it stays set aside.
pub(crate) struct Held {
    store: Arc<dyn Store>,
    allowances: Vec<Allowance>,
    nano_usd: u64,
    price: Price,
}

/// What takes the place of what was set aside for an attempt, now that its end is known.
pub(crate) struct Settlement {
    held: Held,
    spent_nano_usd: u64,
}

impl Held {
    /// The attempt brought a reply, which cost something. None if that is all that was set aside.
    pub(crate) fn replied(self, reply: &ModelReply) -> Option<Settlement> {
        // A reply that no provider counted costs what was set aside: an estimate may be too low.
        if reply.estimated || (reply.input_tokens, reply.output_tokens) == (0, 0) {
            return None;
        }
        let spent_nano_usd = self.price.nano_usd(reply.input_tokens, reply.output_tokens, &reply.details);
        Some(Settlement { held: self, spent_nano_usd })
    }

    /// The attempt brought no reply. None if all that was set aside may have been spent.
    pub(crate) fn failed(self, received: Received) -> Option<Settlement> {
        (received == Received::No).then_some(Settlement { held: self, spent_nano_usd: 0 })
    }
}

impl Settlement {
    /// Writes down what was spent. To be done once for what was set aside once.
    pub(crate) async fn settle(self) {
        let Self { held, spent_nano_usd } = self;
        if let Err(error) = held.store.settle(&held.allowances, held.nano_usd, spent_nano_usd).await {
            tracing::warn!(
                error = describe(&error),
                "what a model call cost is not in the budget: it counts with the most that it could cost"
            );
        }
    }
}

/// Sets aside what an attempt may cost, if a budget bounds the tenant or the workspace. The bound on the reply becomes a part of
/// the settings, so that it holds.
pub(crate) async fn hold(
    ports: &Ports,
    tenant: &str,
    settings: &mut ModelSettings,
    input_tokens: u64,
) -> Result<Option<Held>, AttemptError> {
    let Some((bounds, held)) = claim(ports, tenant, settings, input_tokens, ports.now())? else {
        return Ok(None);
    };
    // A batch that is under way already is still read.
    if held.price.web_search.is_none() && settings.control.provider_tools.contains(&ProviderTool::WebSearch) {
        let message = format!(
            "a daily budget bounds the cost, and the model `{0}` may search the web at no price that is known: add \
             `web_search` to the `price` of `[models.{0}]` in dalsegno.toml, in US dollars for a thousand searches",
            settings.name
        );
        return Err(certain(FailureCode::LimitExceeded, message));
    }
    match held.store.reserve(&held.allowances, held.nano_usd).await {
        Ok(()) => Ok(Some(held)),
        Err(ReserveError::Exhausted { index, spent_nano_usd, .. }) => {
            let message = match bounds.get(index) {
                Some(bound) => exhausted(bound, held.nano_usd, spent_nano_usd),
                None => "a daily budget has no room for the call".to_owned(),
            };
            Err(certain(FailureCode::LimitExceeded, message))
        }
        Err(error) => {
            let transient = matches!(&error, ReserveError::Storage(error) if error.is_passing());
            let message = format!("the budget cannot be read: {}", describe(&error));
            Err(AttemptError { transient, ..certain(FailureCode::Unavailable, message) })
        }
    }
}

/// Looks whether a call over a line may be begun: no budget that bounds it is used up. What its responses cost is known only afterwards.
pub(crate) async fn check(ports: &Ports, tenant: &str) -> Result<(), EngineError> {
    for bound in bounds(&ports.workspace(), tenant, ports.now()) {
        let Allowance { account, day, most_nano_usd } = &bound.allowance;
        let spent = ports.store().spent(account, day).await?;
        if spent >= *most_nano_usd {
            return Err(EngineError::Budget { message: used_up(&bound, spent) });
        }
    }
    Ok(())
}

/// Counts what the responses of a call cost. They took place already, so that it may be more than there was room for.
pub(crate) async fn spend(ports: &Ports, tenant: &str, nano_usd: u64) {
    if nano_usd == 0 {
        return;
    }
    let bounds = bounds(&ports.workspace(), tenant, ports.now());
    let allowances: Vec<Allowance> = bounds.into_iter().map(|bound| bound.allowance).collect();
    if allowances.is_empty() {
        return;
    }
    if let Err(error) = ports.store().settle(&allowances, 0, nano_usd).await {
        tracing::warn!(error = describe(&error), "what a response of a call cost is not in the budget");
    }
}

/// What was set aside at a time, perhaps by another process.
pub(crate) fn held(
    ports: &Ports,
    tenant: &str,
    settings: &mut ModelSettings,
    input_tokens: u64,
    at: Timestamp,
) -> Result<Option<Held>, AttemptError> {
    Ok(claim(ports, tenant, settings, input_tokens, at)?.map(|(_, held)| held))
}

/// What an attempt may cost, and the budgets that bound it; none where no budget does.
fn claim(
    ports: &Ports,
    tenant: &str,
    settings: &mut ModelSettings,
    input_tokens: u64,
    at: Timestamp,
) -> Result<Option<(Vec<Bound>, Held)>, AttemptError> {
    let workspace = ports.workspace();
    let bounds = bounds(&workspace, tenant, at);
    if bounds.is_empty() {
        return Ok(None);
    }
    let price = settings.price.as_ref().or_else(|| workspace.settings.prices.get(&settings.name));
    let Some(price) = price.cloned() else {
        // A reply of a script or a recording costs nothing.
        if matches!(
            workspace.settings.models.get(&settings.name),
            Some(ModelBinding::Script { .. } | ModelBinding::Cassette { .. })
        ) {
            return Ok(None);
        }
        let message = format!(
            "a daily budget bounds the cost, and the model `{}` has no price: add `price` to `[models.{}]` in dalsegno.toml",
            settings.name, settings.name
        );
        return Err(certain(FailureCode::LimitExceeded, message));
    };
    let output_tokens = *settings.max_output_tokens.get_or_insert(OUTPUT_TOKENS);
    let nano_usd = price.most_nano_usd(input_tokens, u64::from(output_tokens));
    let allowances: Vec<Allowance> = bounds.iter().map(|bound| bound.allowance.clone()).collect();
    let store = Arc::clone(ports.store());
    Ok(Some((bounds, Held { store, allowances, nano_usd, price })))
}

/// Whose budget it is.
fn whose(account: &str) -> String {
    if account == WORKSPACE { "the workspace".to_owned() } else { format!("the tenant `{account}`") }
}

fn used_up(bound: &Bound, spent_nano_usd: u64) -> String {
    let Allowance { account, day, most_nano_usd } = &bound.allowance;
    format!(
        "the daily budget of {} ({}) is used up: {} are spent or set aside on {day}; it renews at {}",
        whose(account),
        dollars(*most_nano_usd),
        dollars(spent_nano_usd),
        bound.renews
    )
}

fn exhausted(bound: &Bound, nano_usd: u64, spent_nano_usd: u64) -> String {
    let Allowance { account, day, most_nano_usd } = &bound.allowance;
    let whose = whose(account);
    format!(
        "the daily budget of {whose} ({}) has no room for this model call, which may cost up to {}: {} are spent or set \
         aside on {day}; it renews at {}",
        dollars(*most_nano_usd),
        dollars(nano_usd),
        dollars(spent_nano_usd),
        bound.renews
    )
}

fn dollars(nano_usd: u64) -> String {
    format!("{}.{:06} US dollars", nano_usd / 1_000_000_000, nano_usd % 1_000_000_000 / 1_000)
}

/// What bounds the spending of a tenant at a time: its own budget and that of the workspace.
fn bounds(workspace: &Workspace, tenant: &str, now: Timestamp) -> Vec<Bound> {
    let budget = &workspace.settings.budget;
    let own = workspace.tenants.get(tenant);
    let most = [own.and_then(|own| own.max_cost_nano_usd_per_day), budget.tenant_max_cost_nano_usd];
    let of_tenant = most.into_iter().flatten().min();
    let zone = own.and_then(|own| own.time_zone.as_deref());
    let of_tenant = of_tenant.map(|most| bound(tenant, most, zone, now));
    let of_all =
        budget.max_cost_nano_usd.map(|most| bound(WORKSPACE, most, budget.time_zone.as_deref(), now));
    of_tenant.into_iter().chain(of_all).collect()
}

fn bound(account: &str, most_nano_usd: u64, zone: Option<&str>, now: Timestamp) -> Bound {
    let zone = zone.and_then(|zone| TimeZone::get(zone).ok()).unwrap_or(TimeZone::UTC);
    let millis = i64::try_from(now.as_millis()).unwrap_or(i64::MAX);
    let now = jiff::Timestamp::from_millisecond(millis).unwrap_or(jiff::Timestamp::MAX).to_zoned(zone);
    let tomorrow = now.tomorrow().and_then(|tomorrow| tomorrow.start_of_day());
    let renews = tomorrow.as_ref().map_or_else(|_| "midnight".to_owned(), Zoned::to_string);
    let allowance = Allowance { account: account.to_owned(), day: now.date().to_string(), most_nano_usd };
    Bound { allowance, renews }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        let at: jiff::Timestamp = text.parse().unwrap();
        Timestamp::from_millis(u64::try_from(at.as_millisecond()).unwrap())
    }

    fn day(zone: Option<&str>, now: &str) -> (String, String) {
        let bound = bound("acme", 1, zone, at(now));
        (bound.allowance.day, bound.renews)
    }

    #[test]
    fn a_day_begins_at_midnight_of_the_zone() {
        let (day_before, renews) = day(Some("Europe/Paris"), "2026-11-25T22:59:59.999Z");
        assert_eq!((&*day_before, &*renews), ("2026-11-25", "2026-11-26T00:00:00+01:00[Europe/Paris]"));
        assert_eq!(day(Some("Europe/Paris"), "2026-11-25T23:00:00Z").0, "2026-11-26");
        assert_eq!(day(Some("America/Los_Angeles"), "2026-11-26T07:59:59Z").0, "2026-11-25");
        assert_eq!(day(None, "2026-11-25T23:59:59.999Z").0, "2026-11-25");
        assert_eq!(day(None, "2026-11-26T00:00:00Z").0, "2026-11-26");
    }

    #[test]
    fn a_day_may_have_another_length_than_24_hours() {
        // The clocks go back in the night to the 25th: that day has 25 hours.
        assert_eq!(day(Some("Europe/Paris"), "2026-10-24T22:00:00Z").0, "2026-10-25");
        let (day, renews) = day(Some("Europe/Paris"), "2026-10-25T22:59:59Z");
        assert_eq!((&*day, &*renews), ("2026-10-25", "2026-10-26T00:00:00+01:00[Europe/Paris]"));
    }

    #[test]
    fn what_has_no_room_says_whose_budget_it_is_and_when_it_renews() {
        let bound = bound("acme", 5_000_000_000, Some("Europe/Paris"), at("2026-11-25T12:00:00Z"));
        assert_eq!(
            exhausted(&bound, 12_300_000, 4_990_000_000),
            "the daily budget of the tenant `acme` (5.000000 US dollars) has no room for this model call, which may cost up \
             to 0.012300 US dollars: 4.990000 US dollars are spent or set aside on 2026-11-25; it renews at \
             2026-11-26T00:00:00+01:00[Europe/Paris]"
        );
    }
}

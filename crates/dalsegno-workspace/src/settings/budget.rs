//! Reads `[budget]`.

use std::collections::BTreeMap;

use super::{DailyBudget, Unpriced, VoiceLine};
use crate::code::Code;
use crate::section::Section;

pub(super) fn read(file: &Section<'_>) -> DailyBudget {
    let Some(section) = file.section("budget") else { return DailyBudget::default() };
    DailyBudget {
        max_cost_nano_usd: section.dollars("max_cost_usd_per_day"),
        tenant_max_cost_nano_usd: section.dollars("tenant_max_cost_usd_per_day"),
        time_zone: crate::tenant::time_zone(&section),
    }
}

/// Reports the lines without a price: what is spent over them would not count.
pub(super) fn check_lines(file: &Section<'_>, lines: &BTreeMap<String, VoiceLine>) {
    let Some(span) = file.key_span("budget") else { return };
    for lack in Unpriced::ALL {
        let unpriced: Vec<&String> =
            lines.iter().filter(|(_, line)| line.unpriced() == Some(lack)).map(|(name, _)| name).collect();
        if !unpriced.is_empty() {
            let lines = crate::names::list(&unpriced);
            let problem = format!("the budget cannot hold: the line {lines} has no `{}`", lack.key());
            file.report.error(Code::MissingPrice, span.clone(), problem).help(lack.help());
        }
    }
}

/// Reports the models without a price: a budget would not hold for them.
pub(super) fn check_prices<'m>(file: &Section<'_>, unpriced: impl Iterator<Item = &'m String>) {
    let Some(span) = file.key_span("budget") else { return };
    let unpriced: Vec<&String> = unpriced.collect();
    if !unpriced.is_empty() {
        let models = crate::names::list(&unpriced);
        file.report
            .error(Code::MissingPrice, span, format!("the budget cannot hold: {models} has no `price`"))
            .help(
                "add `price = { input = …, output = … }` to each model, in US dollars for a million tokens",
            );
    }
}

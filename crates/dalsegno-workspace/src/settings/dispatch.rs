//! Reads `[dispatch]`.

use super::DispatchSettings;
use crate::section::Section;
use crate::shape::Form;

/// Most of anything at once: far above what one machine does, and far below what a counter holds.
pub(super) const COUNT: Form = Form::Integer(1, 100_000);

pub(super) fn read(file: &Section<'_>) -> DispatchSettings {
    let defaults = DispatchSettings::default();
    let Some(section) = file.section("dispatch") else { return defaults };
    DispatchSettings {
        concurrency: section.integer("concurrency").unwrap_or(defaults.concurrency),
        tenant_concurrency: section.integer("tenant_concurrency").unwrap_or(defaults.tenant_concurrency),
        queue: section.integer("queue").unwrap_or(defaults.queue),
        breaker_failures: section.integer("breaker_failures").unwrap_or(defaults.breaker_failures),
        breaker_cool_down: section.duration("breaker_cool_down").unwrap_or(defaults.breaker_cool_down),
    }
}

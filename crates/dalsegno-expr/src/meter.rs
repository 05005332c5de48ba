//! The bound on the work of one evaluation.

use crate::error::EvalErrorKind;

/// How many steps one evaluation may take.
///
/// Each operation is a step. What is built costs in proportion: a step for each KiB of text and for each 16
/// elements; searching text costs a sixteenth of building it. No expression of permitted length needs as many
/// steps for its operations, so what the limit really bounds is memory: about 10 MiB of text.
pub const MAX_STEPS: u32 = 10_000;

/// How many steps one rendering of a [`Template`](crate::Template) or a [`ValueTemplate`](crate::ValueTemplate) may
/// take, all its expressions and what they insert together.
///
/// Each expression still has no more than [`MAX_STEPS`]. A template has no limit of length, so without this one a long
/// one could repeat a large value as often as it has room for. It bounds a rendering to about 50 MiB of text.
pub const MAX_RENDER_STEPS: u32 = 50_000;

const UNITS_PER_STEP: u64 = 1024;
const UNITS_PER_ITEM: u64 = 64;
const SCANNED_BYTES_PER_UNIT: u64 = 16;

/// What is left of a budget that several evaluations share.
///
/// Each of them still has no more than [`MAX_STEPS`].
#[derive(Debug)]
pub struct Meter {
    units: u64,
    /// The limit that is named when nothing is left.
    limit: u32,
}

impl Meter {
    pub(crate) fn for_expression() -> Self {
        Self::new(MAX_STEPS)
    }

    pub(crate) fn for_rendering() -> Self {
        Self::new(MAX_RENDER_STEPS)
    }

    /// Begins a budget of `limit` steps.
    pub fn new(limit: u32) -> Self {
        Self { units: u64::from(limit) * UNITS_PER_STEP, limit }
    }

    /// Returns the whole steps that are left.
    pub fn steps_left(&self) -> u32 {
        u32::try_from(self.units / UNITS_PER_STEP).unwrap_or(u32::MAX)
    }

    /// Lends one expression of a rendering its own budget, and takes from this one what it spent.
    pub(crate) fn lend<T>(&mut self, spend: impl FnOnce(&mut Self) -> T) -> T {
        let whole = Self::for_expression();
        let mut part = if self.units < whole.units { Self { ..*self } } else { whole };
        let lent = part.units;
        let spent = spend(&mut part);
        self.units -= lent - part.units;
        spent
    }

    pub(crate) fn step(&mut self) -> Result<(), EvalErrorKind> {
        self.spend(UNITS_PER_STEP)
    }

    /// Pays for building text, before it is built.
    pub(crate) fn text(&mut self, bytes: usize) -> Result<(), EvalErrorKind> {
        self.spend(bytes as u64)
    }

    /// Pays for elements of an array or an object, before they are built.
    pub(crate) fn items(&mut self, count: usize) -> Result<(), EvalErrorKind> {
        self.spend((count as u64).saturating_mul(UNITS_PER_ITEM))
    }

    /// Pays for reading through text.
    pub(crate) fn scan(&mut self, bytes: usize) -> Result<(), EvalErrorKind> {
        self.spend(bytes as u64 / SCANNED_BYTES_PER_UNIT)
    }

    fn spend(&mut self, units: u64) -> Result<(), EvalErrorKind> {
        self.units =
            self.units.checked_sub(units).ok_or(EvalErrorKind::TooManySteps { limit: self.limit })?;
        Ok(())
    }
}

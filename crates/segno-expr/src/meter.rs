//! The bound on the work of one evaluation.

use crate::error::EvalError;

/// How many steps one evaluation may take.
///
/// Each operation is a step. What is built costs in proportion: a step for each KiB of text and for each 16
/// elements; searching text costs a sixteenth of building it. No expression of permitted length needs as many
/// steps for its operations, so what the limit really bounds is memory: about 10 MiB of text.
pub const MAX_STEPS: u32 = 10_000;

const UNITS_PER_STEP: u64 = 1024;
const UNITS_PER_ITEM: u64 = 64;
const SCANNED_BYTES_PER_UNIT: u64 = 16;

/// What is left of the budget of one evaluation.
#[derive(Debug)]
pub(crate) struct Meter {
    units: u64,
}

impl Meter {
    pub(crate) fn new() -> Self {
        Self { units: u64::from(MAX_STEPS) * UNITS_PER_STEP }
    }

    pub(crate) fn step(&mut self) -> Result<(), EvalError> {
        self.spend(UNITS_PER_STEP)
    }

    /// Pays for building text, before it is built.
    pub(crate) fn text(&mut self, bytes: usize) -> Result<(), EvalError> {
        self.spend(bytes as u64)
    }

    /// Pays for elements of an array or an object, before they are built.
    pub(crate) fn items(&mut self, count: usize) -> Result<(), EvalError> {
        self.spend((count as u64).saturating_mul(UNITS_PER_ITEM))
    }

    /// Pays for reading through text.
    pub(crate) fn scan(&mut self, bytes: usize) -> Result<(), EvalError> {
        self.spend(bytes as u64 / SCANNED_BYTES_PER_UNIT)
    }

    fn spend(&mut self, units: u64) -> Result<(), EvalError> {
        self.units = self.units.checked_sub(units).ok_or(EvalError::TooManySteps { limit: MAX_STEPS })?;
        Ok(())
    }
}

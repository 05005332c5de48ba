//! What accounts spend on a day: reserved before a call, settled after it, shared by all who use the journal.

use crate::error::StorageError;

/// One bound that a call must fit into: what an account may spend on a day.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allowance {
    /// Whose money it is, such as a tenant's name.
    pub account: String,
    /// The day, such as `2026-11-25`. Only its text counts: the caller knows the time zone.
    pub day: String,
    /// Most that the account may spend on that day, in billionths of a US dollar.
    pub most_nano_usd: u64,
}

/// A reservation that was refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReserveError {
    /// One of the allowances has no room for it. Nothing was reserved.
    #[error(
        "the account `{account}` has spent or reserved {spent_nano_usd} billionths of a US dollar on {day}"
    )]
    Exhausted {
        /// The place of the allowance among those that were named.
        index: usize,
        /// Its account.
        account: String,
        /// Its day.
        day: String,
        /// What the account has spent or reserved by now, in billionths of a US dollar.
        spent_nano_usd: u64,
    },
    /// The storage failed.
    #[error(transparent)]
    Storage(#[from] StorageError),
}

impl ReserveError {
    pub(crate) fn exhausted(index: usize, allowance: &Allowance, spent_nano_usd: u64) -> Self {
        let Allowance { account, day, .. } = allowance;
        Self::Exhausted { index, account: account.clone(), day: day.clone(), spent_nano_usd }
    }
}

/// The sum after a reservation; none where it would be beyond the allowance.
pub(crate) fn reserved(spent: u64, amount: u64, allowance: &Allowance) -> Option<u64> {
    spent.checked_add(amount).filter(|sum| *sum <= allowance.most_nano_usd)
}

/// The sum after a call that had `reserved` of it cost `spent`.
pub(crate) const fn settled(sum: u64, reserved: u64, spent: u64) -> u64 {
    sum.saturating_sub(reserved).saturating_add(spent)
}

//! What accounts spend on a day.

use rusqlite::{Connection, OptionalExtension as _, params};

use super::Fault;
use crate::spending::{Allowance, ReserveError, reserved, settled};

/// What an account has spent or reserved on a day.
pub(super) fn spent(connection: &Connection, account: &str, day: &str) -> Result<u64, rusqlite::Error> {
    let spent = connection
        .prepare_cached("SELECT nano_usd FROM spending WHERE account = ?1 AND day = ?2")?
        .query_row(params![account, day], |row| row.get::<_, i64>(0))
        .optional()?;
    Ok(spent.map_or(0, |spent| u64::try_from(spent).unwrap_or(0)))
}

/// Reserves an amount of each allowance, or of none.
pub(super) fn reserve(
    connection: &Connection,
    allowances: &[Allowance],
    nano_usd: u64,
) -> Result<(), Fault<ReserveError>> {
    for (index, allowance) in allowances.iter().enumerate() {
        let before = spent(connection, &allowance.account, &allowance.day)?;
        let Some(sum) = reserved(before, nano_usd, allowance) else {
            return Err(Fault::Refused(ReserveError::exhausted(index, allowance, before)));
        };
        put(connection, allowance, sum)?;
    }
    Ok(())
}

/// Replaces what was reserved by what was spent.
pub(super) fn settle(
    connection: &Connection,
    allowances: &[Allowance],
    reserved: u64,
    cost: u64,
) -> Result<(), rusqlite::Error> {
    for allowance in allowances {
        let before = spent(connection, &allowance.account, &allowance.day)?;
        put(connection, allowance, settled(before, reserved, cost))?;
    }
    Ok(())
}

fn put(connection: &Connection, allowance: &Allowance, sum: u64) -> Result<(), rusqlite::Error> {
    let Allowance { account, day, .. } = allowance;
    connection
        .prepare_cached(
            "INSERT INTO spending (account, day, nano_usd) VALUES (?1, ?2, ?3)
             ON CONFLICT (account, day) DO UPDATE SET nano_usd = excluded.nano_usd",
        )?
        .execute(params![account, day, i64::try_from(sum).unwrap_or(i64::MAX)])?;
    Ok(())
}

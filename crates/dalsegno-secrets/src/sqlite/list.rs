//! The lists that make it known when a row is missing, old or strange.
//!
//! Each value is sealed under a nonce that is never used again, so that the nonce names exactly one content. A tenant's
//! row attests its names, versions and their nonces; the head of the store attests the tenants and the nonces of their
//! rows. Whoever takes away, adds or brings back a row therefore needs the key, except for all of it at once.
//!
//! Lists are read from end to end, and what is in the store is decided by them: a damaged page can hide a row from a
//! look-up by its key.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::{Connection, OptionalExtension, params};

use super::rows::{blob, entry, number, sql_number};
use crate::seal::{About, Cipher, NONCE_BYTES, Sealed, TAG_BYTES};
use crate::{DamagedPart, SecretError, SecretName, Tenant, VersionEntry};

/// A tenant's secrets with their versions, of which the newest comes last.
pub(super) type List = BTreeMap<SecretName, Vec<VersionEntry>>;

/// A tenant as it was attested.
pub(super) struct Known {
    pub(super) last_version: u64,
    pub(super) list: List,
}

impl Known {
    /// Reads a tenant that is in the list of tenants, and makes sure that its secrets are those that were attested.
    pub(super) fn read(
        connection: &Connection,
        cipher: &Cipher,
        store: &[u8; 16],
        tenant: &Tenant,
    ) -> Result<Self, SecretError> {
        let sql = "SELECT last_version, nonce, seal FROM tenant WHERE tenant = ?1";
        let row = connection
            .prepare_cached(sql)?
            .query_row([tenant.as_str()], |row| {
                let (nonce, bytes) = (blob::<NONCE_BYTES>(row, 1)?, blob::<TAG_BYTES>(row, 2)?);
                let row = number(row, 0)?.zip(nonce.try_into().ok());
                Ok(row.map(|(last_version, nonce)| (last_version, Sealed { nonce, bytes })))
            })
            .optional()?;
        let (last_version, seal) = row.flatten().ok_or_else(|| damaged(tenant))?;
        let (about, list) = scan(connection, store, tenant, last_version)?;
        if cipher.attests(&about, seal) { Ok(Self { last_version, list }) } else { Err(damaged(tenant)) }
    }
}

/// Attests a tenant's secrets as they stand.
pub(super) fn attest(
    connection: &Connection,
    cipher: &Cipher,
    store: &[u8; 16],
    tenant: &Tenant,
    last_version: u64,
) -> Result<(), SecretError> {
    let (about, _) = scan(connection, store, tenant, last_version)?;
    let seal = cipher.seal(&about, b"")?;
    let sql = "INSERT OR REPLACE INTO tenant (tenant, last_version, nonce, seal) VALUES (?1, ?2, ?3, ?4)";
    connection.prepare_cached(sql)?.execute(params![
        tenant.as_str(),
        sql_number(last_version),
        &seal.nonce[..],
        seal.bytes
    ])?;
    Ok(())
}

/// Reads all tenants, and what the head of the store attests about them.
pub(super) fn tenants(
    connection: &Connection,
    store: &[u8; 16],
) -> Result<(About, BTreeSet<Tenant>), SecretError> {
    let mut list = About::new("the tenants", store);
    let mut tenants = BTreeSet::new();
    let mut statement = connection.prepare_cached("SELECT tenant, nonce FROM tenant ORDER BY tenant")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let text = row.get_ref(0)?.as_str().map_err(rusqlite::Error::from)?;
        list = list.text(text).bytes(row.get_ref(1)?.as_blob().map_err(rusqlite::Error::from)?);
        tenants.insert(text.parse().map_err(|_| SecretError::Damaged { part: DamagedPart::Tenants })?);
    }
    Ok((About::new("the list of tenants", store).bytes(&list.digest()), tenants))
}

/// What the head of a store without tenants attests.
pub(super) fn no_tenants(store: &[u8; 16]) -> About {
    About::new("the list of tenants", store).bytes(&About::new("the tenants", store).digest())
}

/// Reads a tenant's secrets, and what its row attests about them.
fn scan(
    connection: &Connection,
    store: &[u8; 16],
    tenant: &Tenant,
    last_version: u64,
) -> Result<(About, List), SecretError> {
    let mut all = About::new("the secrets of a tenant", store);
    let mut list = List::new();
    let sql = "SELECT version, put_at, expires_at, name, nonce FROM secret WHERE tenant = ?1 \
               ORDER BY name, version";
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query([tenant.as_str()])?;
    while let Some(row) = rows.next()? {
        let name = row.get_ref(3)?.as_str().map_err(rusqlite::Error::from)?;
        let name: SecretName = name.parse().map_err(|_| damaged(tenant))?;
        let entry = entry(row)?.ok_or_else(|| damaged(tenant))?;
        all = all.text(name.as_str()).bytes(row.get_ref(4)?.as_blob().map_err(rusqlite::Error::from)?);
        all = all.number(entry.version.as_number()).number(entry.put_at).maybe(entry.expires_at);
        list.entry(name).or_default().push(entry);
    }
    let about = About::new("the list of secrets of a tenant", store).text(tenant.as_str());
    Ok((about.number(last_version).bytes(&all.digest()), list))
}

pub(super) fn damaged(tenant: &Tenant) -> SecretError {
    SecretError::Damaged { part: DamagedPart::Tenant { tenant: tenant.clone() } }
}

//! The rows that hold values, and what a row may hold at all.

use rusqlite::{Connection, OptionalExtension, Row, params};
use zeroize::Zeroizing;

use crate::seal::{About, Cipher, NONCE_BYTES, Sealed, TAG_BYTES};
use crate::{
    DamagedPart, Secret, SecretError, SecretName, Stored, Tenant, VALUE_BYTES_MAX, Version, VersionEntry,
};

/// The longest sealed value that a store can have written.
const SEALED_BYTES_MAX: usize = VALUE_BYTES_MAX + TAG_BYTES;

/// Where a value stands.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) store: &'a [u8; 16],
    pub(super) tenant: &'a Tenant,
    pub(super) name: &'a SecretName,
}

impl Place<'_> {
    /// What is sealed together with a value: everything that its row says about it.
    fn about(self, entry: &VersionEntry) -> About {
        let about = About::new("secret", self.store).text(self.tenant.as_str()).text(self.name.as_str());
        about.number(entry.version.as_number()).number(entry.put_at).maybe(entry.expires_at)
    }

    fn damaged(self, version: Version) -> SecretError {
        let part = DamagedPart::Secret { tenant: self.tenant.clone(), name: self.name.clone(), version };
        SecretError::Damaged { part }
    }

    /// Reads the value of a version that is listed.
    pub(super) fn value(
        self,
        connection: &Connection,
        cipher: &Cipher,
        version: Version,
    ) -> Result<Stored, SecretError> {
        let (entry, plain) = self.open(connection, cipher, version)?;
        let value = Secret::from_bytes(plain).ok_or_else(|| self.damaged(version))?;
        let VersionEntry { version, put_at, expires_at } = entry;
        Ok(Stored { value, version, put_at, expires_at })
    }

    /// Deletes a version that is listed.
    pub(super) fn delete(self, connection: &Connection, version: Version) -> Result<(), SecretError> {
        let sql = "DELETE FROM secret WHERE tenant = ?1 AND name = ?2 AND version = ?3";
        let deleted = connection.prepare_cached(sql)?.execute(self.key(version))?;
        if deleted == 1 { Ok(()) } else { Err(self.damaged(version)) }
    }

    fn key(&self, version: Version) -> (&str, &str, i64) {
        (self.tenant.as_str(), self.name.as_str(), sql_number(version.as_number()))
    }

    /// Writes a value into a row of its own.
    pub(super) fn insert(
        self,
        connection: &Connection,
        cipher: &Cipher,
        entry: &VersionEntry,
        value: &Secret,
    ) -> Result<(), SecretError> {
        let sealed = cipher.seal(&self.about(entry), value.expose().as_bytes())?;
        let sql = "INSERT INTO secret (tenant, name, version, put_at, expires_at, nonce, sealed) \
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
        connection.prepare_cached(sql)?.execute(params![
            self.tenant.as_str(),
            self.name.as_str(),
            sql_number(entry.version.as_number()),
            sql_number(entry.put_at),
            entry.expires_at.map(sql_number),
            &sealed.nonce[..],
            sealed.bytes,
        ])?;
        Ok(())
    }

    /// Encrypts one version anew, from one data key to another.
    pub(super) fn reseal(
        self,
        connection: &Connection,
        (from, to): (&Cipher, &Cipher),
        version: Version,
    ) -> Result<(), SecretError> {
        let (entry, plain) = self.open(connection, from, version)?;
        let sealed = to.seal(&self.about(&entry), &plain)?;
        let sql =
            "UPDATE secret SET nonce = ?4, sealed = ?5 WHERE tenant = ?1 AND name = ?2 AND version = ?3";
        let (tenant, name, number) = self.key(version);
        let written = params![tenant, name, number, &sealed.nonce[..], sealed.bytes];
        let updated = connection.prepare_cached(sql)?.execute(written)?;
        if updated == 1 { Ok(()) } else { Err(self.damaged(version)) }
    }

    fn open(
        self,
        connection: &Connection,
        cipher: &Cipher,
        version: Version,
    ) -> Result<(VersionEntry, Zeroizing<Vec<u8>>), SecretError> {
        let sql = "SELECT version, put_at, expires_at, nonce, sealed FROM secret \
                   WHERE tenant = ?1 AND name = ?2 AND version = ?3";
        let row = connection
            .prepare_cached(sql)?
            .query_row(self.key(version), |row| {
                let (nonce, bytes) = (blob::<NONCE_BYTES>(row, 3)?, blob::<SEALED_BYTES_MAX>(row, 4)?);
                let entry = entry(row)?.zip(nonce.try_into().ok());
                Ok(entry.map(|(entry, nonce)| (entry, Sealed { nonce, bytes })))
            })
            .optional()?;
        let opened = row.flatten().and_then(|(entry, sealed)| {
            let plain = cipher.open(&self.about(&entry), sealed)?;
            Some((entry, plain))
        });
        opened.ok_or_else(|| self.damaged(version))
    }
}

/// Reads version and times from the first three columns; none when a number is negative.
pub(super) fn entry(row: &Row<'_>) -> Result<Option<VersionEntry>, rusqlite::Error> {
    let expires_at = row.get::<_, Option<i64>>(2)?.map(u64::try_from).transpose();
    let Some(((version, put_at), expires_at)) = number(row, 0)?.zip(number(row, 1)?).zip(expires_at.ok())
    else {
        return Ok(None);
    };
    Ok(Some(VersionEntry { version: Version::from_number(version), put_at, expires_at }))
}

/// Reads a number; none when it is negative.
pub(super) fn number(row: &Row<'_>, index: usize) -> Result<Option<u64>, rusqlite::Error> {
    Ok(u64::try_from(row.get::<_, i64>(index)?).ok())
}

/// Reads at most `MOST` bytes. More are not copied, since no store of ours has written them, and open to nothing.
pub(super) fn blob<const MOST: usize>(row: &Row<'_>, index: usize) -> Result<Vec<u8>, rusqlite::Error> {
    let bytes = row.get_ref(index)?.as_blob().map_err(rusqlite::Error::from)?;
    Ok(if bytes.len() > MOST { Vec::new() } else { bytes.to_vec() })
}

/// A number as SQLite holds it. Times are checked at the door, and versions count puts.
pub(super) fn sql_number(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

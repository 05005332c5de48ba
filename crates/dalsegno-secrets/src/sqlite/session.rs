//! One transaction with the keys at hand, in which nothing is believed that is not attested.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::Transaction;

use super::head::Head;
use super::list::{self, Known};
use super::rows::Place;
use crate::seal::{Cipher, KeyBytes, random_key};
use crate::{
    DamagedPart, MasterKey, Put, Rotated, Rotation, SECRETS_MAX, Secret, SecretEntry, SecretError,
    SecretName, Stored, Tenant, VERSIONS_KEPT, Version, VersionEntry,
};

/// What this connection has already checked, as long as no other one writes and it has not failed itself.
#[derive(Default)]
pub(super) struct Trust {
    /// SQLite's count of what other connections have written; none before the first check.
    data_version: Option<i64>,
    tenants: BTreeSet<Tenant>,
    known: BTreeMap<Tenant, Known>,
}

/// A transaction on an opened store whose list of tenants is as it was attested.
pub(super) struct Attested<'t> {
    transaction: &'t Transaction<'t>,
    trust: &'t mut Trust,
    head: Head,
    data_key: KeyBytes,
    cipher: Cipher,
}

impl<'t> Attested<'t> {
    pub(super) fn begin(
        transaction: &'t Transaction<'t>,
        master: &MasterKey,
        trust: &'t mut Trust,
    ) -> Result<Self, SecretError> {
        let head = Head::read(transaction)?;
        let data_key = head.data_key(master)?;
        let cipher = Cipher::new(&data_key);
        let data_version = transaction.pragma_query_value(None, "data_version", |row| row.get(0))?;
        if trust.data_version != Some(data_version) {
            *trust = Trust::default();
            let (about, tenants) = list::tenants(transaction, &head.store)?;
            if !cipher.attests(&about, head.seal.clone()) {
                return Err(DAMAGED_TENANTS);
            }
            *trust = Trust { data_version: Some(data_version), tenants, known: BTreeMap::new() };
        }
        Ok(Self { transaction, trust, head, data_key, cipher })
    }

    pub(super) fn get(&mut self, tenant: &Tenant, name: &SecretName) -> Result<Option<Stored>, SecretError> {
        let newest = self.known(tenant)?.and_then(|known| known.list.get(name)?.last());
        let Some(version) = newest.map(|newest| newest.version) else { return Ok(None) };
        self.place(tenant, name).value(self.transaction, &self.cipher, version).map(Some)
    }

    pub(super) fn version(
        &mut self,
        tenant: &Tenant,
        name: &SecretName,
        version: Version,
    ) -> Result<Option<Stored>, SecretError> {
        let versions = self.known(tenant)?.and_then(|known| known.list.get(name));
        if !versions.is_some_and(|versions| versions.iter().any(|entry| entry.version == version)) {
            return Ok(None);
        }
        self.place(tenant, name).value(self.transaction, &self.cipher, version).map(Some)
    }

    pub(super) fn list(&mut self, tenant: &Tenant) -> Result<Vec<SecretEntry>, SecretError> {
        let Some(known) = self.known(tenant)? else { return Ok(Vec::new()) };
        let entries = known.list.iter().map(|(name, versions)| SecretEntry {
            name: name.clone(),
            versions: versions.iter().rev().cloned().collect(),
        });
        Ok(entries.collect())
    }

    pub(super) fn put(
        &mut self,
        tenant: &Tenant,
        name: &SecretName,
        put: &Put,
    ) -> Result<Version, SecretError> {
        let known = self.known(tenant)?;
        let count = known.map_or(0, |known| known.list.len());
        let last_version = known.map_or(0, |known| known.last_version);
        let versions = known.and_then(|known| known.list.get(name)).map_or(&[][..], Vec::as_slice);
        put.expect.check(versions.last(), put.at)?;
        if versions.is_empty() && count >= SECRETS_MAX {
            return Err(SecretError::TooMany);
        }
        let kept = versions.len().min(VERSIONS_KEPT - 1);
        let dropped: Vec<_> = versions[..versions.len() - kept].iter().map(|entry| entry.version).collect();
        let version = Version::from_number(last_version + 1);
        let entry = VersionEntry { version, put_at: put.at, expires_at: put.expires_at };
        self.insert(tenant, name, &entry, &put.value)?;
        for version in dropped {
            self.place(tenant, name).delete(self.transaction, version)?;
        }
        self.attest(tenant, version.as_number())?;
        Ok(version)
    }

    pub(super) fn remove(&mut self, tenant: &Tenant, name: &SecretName) -> Result<bool, SecretError> {
        let Some(known) = self.known(tenant)? else { return Ok(false) };
        let Some(versions) = known.list.get(name) else { return Ok(false) };
        let (versions, last_version) = (versions.clone(), known.last_version);
        for entry in versions {
            self.place(tenant, name).delete(self.transaction, entry.version)?;
        }
        self.attest(tenant, last_version)?;
        Ok(true)
    }

    pub(super) fn remove_tenant(&mut self, tenant: &Tenant) -> Result<u64, SecretError> {
        let Some(known) = self.known(tenant)? else { return Ok(0) };
        let count = known.list.len() as u64;
        for sql in ["DELETE FROM secret WHERE tenant = ?1", "DELETE FROM tenant WHERE tenant = ?1"] {
            self.transaction.prepare_cached(sql)?.execute([tenant.as_str()])?;
        }
        self.trust.tenants.remove(tenant);
        self.trust.known.remove(tenant);
        self.attest_tenants()?;
        Ok(count)
    }

    pub(super) fn remove_expired(&mut self, now: u64) -> Result<u64, SecretError> {
        let mut removed = 0;
        for tenant in self.trust.tenants.clone() {
            let Some(known) = self.known(&tenant)? else { continue };
            let last_version = known.last_version;
            let mut gone = Vec::new();
            for (name, versions) in &known.list {
                // The newest version decides about all: an earlier value must not come back.
                let all = versions.last().is_some_and(|newest| newest.has_expired(now));
                let expired = versions.iter().filter(|entry| all || entry.has_expired(now));
                gone.extend(expired.map(|entry| (name.clone(), entry.version)));
            }
            for (name, version) in &gone {
                self.place(&tenant, name).delete(self.transaction, *version)?;
            }
            if !gone.is_empty() {
                self.attest(&tenant, last_version)?;
            }
            removed += gone.len() as u64;
        }
        Ok(removed)
    }

    /// Checks the lists of all tenants.
    pub(super) fn check(&mut self) -> Result<(), SecretError> {
        for tenant in self.trust.tenants.clone() {
            self.known(&tenant)?;
        }
        Ok(())
    }

    /// Opens every value, and returns how many there are.
    pub(super) fn verify(&mut self) -> Result<u64, SecretError> {
        let mut versions = 0;
        for tenant in self.trust.tenants.clone() {
            for (name, version) in self.versions(&tenant)? {
                self.place(&tenant, &name).value(self.transaction, &self.cipher, version)?;
                versions += 1;
            }
        }
        let all: i64 = self.transaction.query_row("SELECT count(*) FROM secret", [], |row| row.get(0))?;
        // Rows of no tenant are in no list. Nobody reaches them, but neither did this program write them.
        if u64::try_from(all) == Ok(versions) { Ok(versions) } else { Err(DAMAGED_TENANTS) }
    }

    /// Changes the keys. `step` is told before each write, so that tests can look at the file in between.
    pub(super) fn rotate(
        &mut self,
        new: &MasterKey,
        rotation: Rotation,
        mut step: impl FnMut(),
    ) -> Result<Rotated, SecretError> {
        let mut rotated = Rotated { from: self.head.key, to: new.id(), resealed: 0 };
        if rotation == Rotation::Everything {
            self.check()?;
            let data_key = random_key()?;
            let old = std::mem::replace(&mut self.cipher, Cipher::new(&data_key));
            self.data_key = data_key;
            for tenant in self.trust.tenants.clone() {
                for (name, version) in self.versions(&tenant)? {
                    step();
                    let ciphers = (&old, &self.cipher);
                    self.place(&tenant, &name).reseal(self.transaction, ciphers, version)?;
                    rotated.resealed += 1;
                }
                step();
                let last_version = self.known(&tenant)?.map_or(0, |known| known.last_version);
                list::attest(self.transaction, &self.cipher, &self.head.store, &tenant, last_version)?;
            }
        }
        step();
        self.head.rewrap(&self.data_key, new)?;
        self.attest_tenants()?;
        step();
        Ok(rotated)
    }

    /// Writes a value that is in no list yet.
    pub(super) fn insert(
        &self,
        tenant: &Tenant,
        name: &SecretName,
        entry: &VersionEntry,
        value: &Secret,
    ) -> Result<(), SecretError> {
        self.place(tenant, name).insert(self.transaction, &self.cipher, entry, value)
    }

    /// Attests what the tenant has now. It must have been known before it was changed.
    pub(super) fn attest(&mut self, tenant: &Tenant, last_version: u64) -> Result<(), SecretError> {
        list::attest(self.transaction, &self.cipher, &self.head.store, tenant, last_version)?;
        self.trust.tenants.insert(tenant.clone());
        self.trust.known.remove(tenant);
        self.attest_tenants()
    }

    fn attest_tenants(&mut self) -> Result<(), SecretError> {
        let (about, _) = list::tenants(self.transaction, &self.head.store)?;
        self.head.seal = self.cipher.seal(&about, b"")?;
        self.head.write(self.transaction)
    }

    /// The tenant as it was attested; none when there is no such tenant.
    fn known(&mut self, tenant: &Tenant) -> Result<Option<&Known>, SecretError> {
        if !self.trust.tenants.contains(tenant) {
            return Ok(None);
        }
        if !self.trust.known.contains_key(tenant) {
            let known = Known::read(self.transaction, &self.cipher, &self.head.store, tenant)?;
            self.trust.known.insert(tenant.clone(), known);
        }
        Ok(self.trust.known.get(tenant))
    }

    fn versions(&mut self, tenant: &Tenant) -> Result<Vec<(SecretName, Version)>, SecretError> {
        let lists = self.known(tenant)?.into_iter().flat_map(|known| &known.list);
        let each =
            lists.flat_map(|(name, versions)| versions.iter().map(|entry| (name.clone(), entry.version)));
        Ok(each.collect())
    }

    fn place<'a>(&'a self, tenant: &'a Tenant, name: &'a SecretName) -> Place<'a> {
        Place { store: &self.head.store, tenant, name }
    }
}

const DAMAGED_TENANTS: SecretError = SecretError::Damaged { part: DamagedPart::Tenants };

//! The store without a file.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;

use crate::{
    KeyId, MasterKey, Put, Rotated, Rotation, SECRETS_MAX, SecretEntry, SecretError, SecretName, SecretStore,
    Stored, Tenant, VERSIONS_KEPT, Version, VersionEntry,
};

/// A [`SecretStore`] in the memory of the process, gone with it; for tests and trials.
///
/// Its values are not encrypted, since a key beside them would protect nothing. It answers as [`SqliteSecrets`] does.
///
/// [`SqliteSecrets`]: crate::SqliteSecrets
#[derive(Debug)]
pub struct MemorySecrets {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    key: KeyId,
    tenants: BTreeMap<Tenant, TenantSecrets>,
}

#[derive(Debug, Default)]
struct TenantSecrets {
    last: u64,
    /// Each with at least one version; the newest comes last.
    secrets: BTreeMap<SecretName, Vec<Stored>>,
}

impl MemorySecrets {
    /// Makes an empty store that goes by this key.
    pub fn new(key: &MasterKey) -> Self {
        Self { state: Mutex::new(State { key: key.id(), tenants: BTreeMap::new() }) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn versions<T>(
        &self,
        tenant: &Tenant,
        name: &SecretName,
        read: impl FnOnce(&[Stored]) -> T,
    ) -> Option<T> {
        self.state().tenants.get(tenant)?.secrets.get(name).map(|versions| read(versions))
    }
}

#[async_trait]
impl SecretStore for MemorySecrets {
    async fn put(&self, tenant: &Tenant, name: &SecretName, put: Put) -> Result<Version, SecretError> {
        put.check()?;
        let mut state = self.state();
        let newest = state
            .tenants
            .get(tenant)
            .and_then(|tenant| tenant.secrets.get(name))
            .and_then(|versions| versions.last())
            .map(entry);
        put.expect.check(newest.as_ref(), put.at)?;
        let count = state.tenants.get(tenant).map_or(0, |tenant| tenant.secrets.len());
        if newest.is_none() && count >= SECRETS_MAX {
            return Err(SecretError::TooMany);
        }
        let secrets = state.tenants.entry(tenant.clone()).or_default();
        secrets.last += 1;
        let version = Version::from_number(secrets.last);
        let versions = secrets.secrets.entry(name.clone()).or_default();
        versions.push(Stored { value: put.value, version, put_at: put.at, expires_at: put.expires_at });
        versions.drain(..versions.len().saturating_sub(VERSIONS_KEPT));
        Ok(version)
    }

    async fn get(&self, tenant: &Tenant, name: &SecretName, now: u64) -> Result<Option<Stored>, SecretError> {
        let newest = self.versions(tenant, name, |versions| versions.last().cloned()).flatten();
        Ok(newest.filter(|stored| !entry(stored).has_expired(now)))
    }

    async fn get_version(
        &self,
        tenant: &Tenant,
        name: &SecretName,
        version: Version,
        now: u64,
    ) -> Result<Option<Stored>, SecretError> {
        let find = |versions: &[Stored]| versions.iter().find(|stored| stored.version == version).cloned();
        let found = self.versions(tenant, name, find).flatten();
        Ok(found.filter(|stored| !entry(stored).has_expired(now)))
    }

    async fn list(&self, tenant: &Tenant) -> Result<Vec<SecretEntry>, SecretError> {
        let state = self.state();
        let secrets = state.tenants.get(tenant).into_iter().flat_map(|tenant| &tenant.secrets);
        let entries = secrets.map(|(name, versions)| SecretEntry {
            name: name.clone(),
            versions: versions.iter().rev().map(entry).collect(),
        });
        Ok(entries.collect())
    }

    async fn remove(&self, tenant: &Tenant, name: &SecretName) -> Result<bool, SecretError> {
        let removed = self.state().tenants.get_mut(tenant).and_then(|tenant| tenant.secrets.remove(name));
        Ok(removed.is_some())
    }

    async fn remove_tenant(&self, tenant: &Tenant) -> Result<u64, SecretError> {
        Ok(self.state().tenants.remove(tenant).map_or(0, |tenant| tenant.secrets.len() as u64))
    }

    async fn remove_expired(&self, now: u64) -> Result<u64, SecretError> {
        let mut removed = 0;
        for tenant in self.state().tenants.values_mut() {
            tenant.secrets.retain(|_, versions| {
                let before = versions.len();
                if versions.last().is_some_and(|newest| entry(newest).has_expired(now)) {
                    versions.clear();
                }
                versions.retain(|stored| !entry(stored).has_expired(now));
                removed += before - versions.len();
                !versions.is_empty()
            });
        }
        Ok(removed as u64)
    }

    async fn rotate_key(&self, new: &MasterKey, rotation: Rotation) -> Result<Rotated, SecretError> {
        let mut state = self.state();
        let resealed = match rotation {
            Rotation::Wrapping => 0,
            Rotation::Everything => {
                let secrets = state.tenants.values().flat_map(|tenant| tenant.secrets.values());
                secrets.map(|versions| versions.len() as u64).sum()
            }
        };
        let from = std::mem::replace(&mut state.key, new.id());
        Ok(Rotated { from, to: new.id(), resealed })
    }
}

fn entry(stored: &Stored) -> VersionEntry {
    VersionEntry { version: stored.version, put_at: stored.put_at, expires_at: stored.expires_at }
}

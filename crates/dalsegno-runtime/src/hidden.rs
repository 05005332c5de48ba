//! What is scrubbed now: the secrets that are known from the start, and those that are read anew whenever they are
//! needed.

use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};

use dalsegno_secrets::{Secret, VERSIONS_KEPT};

use crate::secret::Secrets;

/// The secrets of a workspace, as of now.
pub(crate) struct Hidden {
    known: Secrets,
    /// The same with those that were read since.
    all: RwLock<Secrets>,
    /// Those that were read since, by where they are found, the latest last; a few earlier ones may still be echoed.
    read: RwLock<BTreeMap<String, Vec<Secret>>>,
}

impl Hidden {
    pub(crate) fn new(known: Secrets) -> Self {
        Self { all: RwLock::new(known.clone()), known, read: RwLock::default() }
    }

    /// What is scrubbed now.
    pub(crate) fn secrets(&self) -> Secrets {
        self.all.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The latest version that was read.
    pub(crate) fn latest(&self, name: &str) -> Option<Secret> {
        let read = self.read.read().unwrap_or_else(PoisonError::into_inner);
        read.get(name).and_then(|versions| versions.last()).cloned()
    }

    /// Scrubs a version from now on.
    pub(crate) fn hide(&self, name: &str, secret: Secret) {
        if self.latest(name).is_some_and(|latest| latest.expose() == secret.expose()) {
            return;
        }
        let mut read = self.read.write().unwrap_or_else(PoisonError::into_inner);
        let versions = read.entry(name.to_owned()).or_default();
        versions.retain(|version| version.expose() != secret.expose());
        versions.push(secret);
        let old = versions.len().saturating_sub(VERSIONS_KEPT);
        versions.drain(..old);
        let all = self.known.clone().hiding(read.values().flatten());
        *self.all.write().unwrap_or_else(PoisonError::into_inner) = all;
    }
}

//! What is scrubbed now: the secrets that are known from the start, and those that are read anew whenever they are
//! needed.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use dalsegno_secrets::{Secret, VERSIONS_KEPT};

use crate::secret::{Secrets, Spelled};

/// The secrets of a workspace, as of now.
pub(crate) struct Hidden {
    known: Secrets,
    /// The same with those that were read since.
    all: RwLock<Secrets>,
    read: RwLock<Read>,
}

/// What was read since.
#[derive(Default)]
struct Read {
    /// By where they are found, the latest last; a few earlier ones may still be echoed.
    secrets: BTreeMap<String, Vec<Version>>,
    /// How many runs hold the secrets that came with a request, by the names of these.
    held: BTreeMap<String, usize>,
}

/// A value, with its spellings unless it is too short to be scrubbed.
struct Version {
    secret: Secret,
    spelled: Option<Arc<Spelled>>,
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
    fn latest(&self, name: &str) -> Option<Secret> {
        let read = self.read.read().unwrap_or_else(PoisonError::into_inner);
        read.secrets.get(name).and_then(|versions| versions.last()).map(|version| version.secret.clone())
    }

    /// Scrubs a version from now on.
    pub(crate) fn hide(&self, name: &str, secret: Secret) {
        if self.latest(name).is_some_and(|latest| latest.expose() == secret.expose()) {
            return;
        }
        let mut read = self.read.write().unwrap_or_else(PoisonError::into_inner);
        let known = read.secrets.values().flatten().find(|known| known.secret.expose() == secret.expose());
        // The same value under another name is looked for once.
        let spelled = known.map_or_else(|| Secrets::spell(&secret), |known| known.spelled.clone());
        let is_new = known.is_none();
        let versions = read.secrets.entry(name.to_owned()).or_default();
        versions.retain(|version| version.secret.expose() != secret.expose());
        versions.push(Version { secret, spelled });
        let old = versions.len().saturating_sub(VERSIONS_KEPT);
        versions.drain(..old);
        if is_new || old > 0 {
            self.gather(&read);
        }
    }

    /// Keeps the secrets that came with a request for as long as the value lives that is returned. They are forgotten
    /// when nothing keeps them any more: a process may perform any number of runs.
    pub(crate) fn hold(self: &Arc<Self>, names: Vec<String>) -> Held {
        let mut read = self.read.write().unwrap_or_else(PoisonError::into_inner);
        for name in &names {
            *read.held.entry(name.clone()).or_default() += 1;
        }
        Held { hidden: Arc::clone(self), names }
    }

    fn gather(&self, read: &Read) {
        let mut spelled: Vec<&Arc<Spelled>> =
            read.secrets.values().flatten().filter_map(|version| version.spelled.as_ref()).collect();
        spelled.sort_unstable_by_key(|spelled| Arc::as_ptr(spelled));
        spelled.dedup_by_key(|spelled| Arc::as_ptr(spelled));
        let all = self.known.clone().with(spelled.into_iter().cloned());
        *self.all.write().unwrap_or_else(PoisonError::into_inner) = all;
    }
}

/// A run's hold on the secrets that came with its request.
pub(crate) struct Held {
    hidden: Arc<Hidden>,
    names: Vec<String>,
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.names.is_empty() {
            return;
        }
        let mut read = self.hidden.read.write().unwrap_or_else(PoisonError::into_inner);
        for name in &self.names {
            let Some(count) = read.held.get_mut(name) else { continue };
            *count -= 1;
            if *count == 0 {
                read.held.remove(name);
                read.secrets.retain(|place, _| !place.split(' ').any(|part| part == name));
            }
        }
        self.hidden.gather(&read);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hides(hidden: &Hidden, text: &str) -> bool {
        hidden.secrets().is_in(text)
    }

    #[test]
    fn the_secret_of_a_request_is_hidden_for_as_long_as_a_run_holds_it() {
        let hidden = Arc::new(Hidden::new(Secrets::default()));
        hidden.hide("store", Secret::new("for-all-runs"));
        let name = "request.00.auth_token".to_owned();
        hidden.hide(&name, Secret::new("of-this-run"));
        hidden.hide(&format!("known {name} 3"), Secret::new("of-this-run"));
        let (first, second) = (hidden.hold(vec![name.clone()]), hidden.hold(vec![name]));
        drop(first);
        assert!(hides(&hidden, "of-this-run"));
        drop(second);
        assert!(!hides(&hidden, "of-this-run") && hides(&hidden, "for-all-runs"));
        assert!(hidden.read.read().unwrap().held.is_empty());
    }

    #[test]
    fn a_value_that_two_names_have_is_hidden_until_both_have_another() {
        let hidden = Hidden::new(Secrets::default());
        hidden.hide("one", Secret::new("the-same"));
        hidden.hide("two", Secret::new("the-same"));
        for version in 0..VERSIONS_KEPT {
            hidden.hide("one", Secret::new(&format!("another-{version}")));
        }
        assert!(hides(&hidden, "the-same"));
        for version in 0..VERSIONS_KEPT {
            hidden.hide("two", Secret::new(&format!("another-{version}")));
        }
        assert!(!hides(&hidden, "the-same") && hides(&hidden, "another-0"));
    }
}

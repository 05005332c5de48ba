//! A version of the workspace with some of the lines changed that another one has changed.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use dalsegno_workspace::Workspace;

use crate::candidate::{Candidate, Subject};
use crate::edit::Diff;
use crate::gate::{Base, Past};
use crate::minimise::minimise;
use crate::version::Version;

/// An agent in a version: the lines that are changed.
type Variant = (Subject, Vec<usize>);

/// All versions between an old one and that of today.
#[derive(Debug)]
pub(crate) struct Variants {
    root: PathBuf,
    pub(crate) diff: Diff,
    known: Mutex<BTreeMap<Variant, Option<Candidate>>>,
    relevant: Mutex<BTreeMap<Subject, Arc<Vec<usize>>>>,
}

impl Variants {
    pub(crate) fn new(root: PathBuf, old: &Version, now: &Version) -> Self {
        let diff = Diff::between(old, now);
        Self { root, diff, known: Mutex::default(), relevant: Mutex::default() }
    }

    /// What a run would begin with if only these lines were changed; `None` where the agent is not there or cannot be used.
    pub(crate) fn candidate(&self, subject: &Subject, chosen: &[usize]) -> Option<Candidate> {
        let key = (subject.clone(), chosen.to_vec());
        let lock = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lock().get(&key) {
            return known.clone();
        }
        let workspace = Workspace::load_with(&self.root, &self.diff.with(chosen)).sound().ok();
        let candidate = workspace.and_then(|workspace| Candidate::of(&workspace, subject)?.ok());
        lock().insert(key, candidate.clone());
        candidate
    }

    /// The lines without which what a run begins with would not be what it is now.
    pub(crate) fn relevant(&self, subject: &Subject, now: &Candidate) -> Arc<Vec<usize>> {
        let lock = || self.relevant.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lock().get(subject) {
            return Arc::clone(known);
        }
        let all: Vec<usize> = (0..self.diff.edits.len()).collect();
        let found = minimise(&all, |chosen| self.candidate(subject, chosen).as_ref() == Some(now));
        let found = Arc::new(found);
        lock().insert(subject.clone(), Arc::clone(&found));
        found
    }
}

/// A version, and what lies between it and that of today.
#[derive(Debug)]
pub(crate) struct Since {
    pub(crate) name: String,
    pub(crate) variants: Variants,
}

/// The versions from which lines have changed.
pub(crate) struct Versions {
    root: PathBuf,
    now: Version,
    is_given: bool,
    past: Box<dyn Past>,
    read: Vec<Since>,
    is_over: bool,
}

impl Versions {
    pub(crate) fn new(root: PathBuf, now: Version, base: Base) -> Self {
        let (is_given, past, given): (_, Box<dyn Past>, _) = match base {
            Base::Recorded(past) => (false, past, None),
            Base::Version(version) => (true, Box::new(()), Some(version)),
        };
        let mut versions = Self { root, now, is_given, past, read: Vec::new(), is_over: is_given };
        versions.read.extend(given.map(|version| versions.since(&version)));
        versions
    }

    /// The version that runs are compared with, if one was given.
    pub(crate) fn given(&self) -> Option<&Since> {
        self.read.first().filter(|_| self.is_given)
    }

    /// The version with this index; the newest is the first.
    pub(crate) fn get(&mut self, index: usize) -> Option<&Since> {
        while self.read.len() <= index && !self.is_over {
            match self.past.version(self.read.len()) {
                Some(version) => self.read.push(self.since(&version)),
                None => self.is_over = true,
            }
        }
        self.read.get(index)
    }

    /// The index of the newest version in which a run of this agent begins with what is asked for.
    pub(crate) fn find(&mut self, subject: &Subject, is_meant: impl Fn(&Candidate) -> bool) -> Option<usize> {
        if self.is_given {
            return Some(0);
        }
        let mut index = 0;
        while let Some(since) = self.get(index) {
            if since.variants.candidate(subject, &[]).is_some_and(|candidate| is_meant(&candidate)) {
                return Some(index);
            }
            index += 1;
        }
        None
    }

    fn since(&self, version: &Version) -> Since {
        let variants = Variants::new(self.root.clone(), version, &self.now);
        Since { name: version.name.clone(), variants }
    }
}

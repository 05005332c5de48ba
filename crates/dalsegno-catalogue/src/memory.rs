//! Documents in memory, for tests and for programs that keep them elsewhere.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::document::{Author, Document, DocumentId, Version, VersionEntry};
use crate::error::{ChangeError, DocumentsError};
use crate::limits::Limits;
use crate::rules::{Before, Write, judge, kept};
use crate::store::{Change, Changed, DocumentSet, DocumentStore};

/// A [`DocumentStore`] in memory.
#[derive(Debug, Default)]
pub struct MemoryDocuments {
    limits: Limits,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    generation: u64,
    /// The changes of each document, the oldest first.
    documents: BTreeMap<DocumentId, Vec<Entry>>,
}

#[derive(Debug, Clone)]
struct Entry {
    number: u64,
    /// The generation that it made.
    generation: u64,
    /// The text with its version; none for a deletion.
    text: Option<(String, Version)>,
    at: u64,
    by: Author,
}

impl Entry {
    fn bytes(&self) -> u64 {
        self.text.as_ref().map_or(0, |(text, _)| text.len() as u64)
    }

    fn document(&self, id: &DocumentId) -> Option<Document> {
        let (text, version) = self.text.clone()?;
        let (id, by) = (id.clone(), self.by.clone());
        Some(Document { id, text, version, number: self.number, at: self.at, by })
    }
}

impl MemoryDocuments {
    /// One without documents, with the limits by default.
    pub fn new() -> Self {
        Self::default()
    }

    /// One without documents, with limits of its own.
    pub fn with_limits(limits: Limits) -> Self {
        Self { limits, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn current(&self, id: &DocumentId) -> Option<&Entry> {
        self.documents.get(id)?.last().filter(|entry| entry.text.is_some())
    }

    fn before(&self, id: &DocumentId) -> Before {
        let alike = |other: &DocumentId| other.kind() == id.kind() && other.tenant() == id.tenant();
        let in_use = self.documents.iter().filter(|(other, _)| alike(other));
        let in_use: Vec<u64> = in_use.filter_map(|(other, _)| Some(self.current(other)?.bytes())).collect();
        let current = self.current(id);
        Before {
            generation: self.generation,
            current: current.and_then(|entry| Some((entry.text.as_ref()?.1, entry.bytes()))),
            documents: in_use.len() as u64,
            bytes: in_use.iter().sum(),
        }
    }

    /// Drops versions and deleted documents beyond the limits.
    fn drop_old(&mut self, id: &DocumentId, limits: &Limits) {
        if let Some(entries) = self.documents.get_mut(id) {
            let kept = kept(entries.iter().rev().map(Entry::bytes), limits);
            let first = entries.len().saturating_sub(usize::try_from(kept).unwrap_or(usize::MAX));
            entries.drain(..first);
        }
        let alike = |other: &DocumentId| other.kind() == id.kind() && other.tenant() == id.tenant();
        let deleted = self.documents.iter().filter(|(other, _)| alike(other));
        let mut deleted: Vec<(u64, DocumentId)> = deleted
            .filter_map(|(other, entries)| {
                let last = entries.last().filter(|last| last.text.is_none())?;
                Some((last.generation, other.clone()))
            })
            .collect();
        deleted.sort();
        let most = usize::try_from(limits.deleted).unwrap_or(usize::MAX);
        let surplus = deleted.len().saturating_sub(most);
        for (_, other) in deleted.into_iter().take(surplus) {
            self.documents.remove(&other);
        }
    }
}

impl DocumentStore for MemoryDocuments {
    fn generation(&self) -> Result<u64, DocumentsError> {
        Ok(self.state().generation)
    }

    fn snapshot(&self) -> Result<DocumentSet, DocumentsError> {
        let state = self.state();
        let documents = state.documents.iter().filter_map(|(id, entries)| entries.last()?.document(id));
        Ok(DocumentSet { generation: state.generation, documents: documents.collect() })
    }

    fn get(&self, id: &DocumentId) -> Result<Option<Document>, DocumentsError> {
        Ok(self.state().current(id).and_then(|entry| entry.document(id)))
    }

    fn versions(&self, id: &DocumentId) -> Result<Vec<VersionEntry>, DocumentsError> {
        let state = self.state();
        let entries = state.documents.get(id).into_iter().flatten().rev();
        let entry = |entry: &Entry| VersionEntry {
            number: entry.number,
            version: entry.text.as_ref().map(|(_, version)| *version),
            bytes: entry.bytes(),
            at: entry.at,
            by: entry.by.clone(),
        };
        Ok(entries.map(entry).collect())
    }

    fn version(&self, id: &DocumentId, version: Version) -> Result<Option<String>, DocumentsError> {
        let state = self.state();
        let mut texts =
            state.documents.get(id).into_iter().flatten().rev().filter_map(|entry| entry.text.as_ref());
        Ok(texts.find(|(_, found)| *found == version).map(|(text, _)| text.clone()))
    }

    fn change(&self, change: &Change<'_>) -> Result<Changed, ChangeError> {
        let mut state = self.state();
        let text = match judge(change, &state.before(change.id), &self.limits)? {
            Write::Nothing => {
                let last = state.documents.get(change.id).and_then(|entries| entries.last());
                return Ok(Changed {
                    version: change.expected,
                    number: last.map_or(0, |entry| entry.number),
                    generation: state.generation,
                    is_new: false,
                });
            }
            Write::Text(text, version) => Some((text, version)),
            Write::Deletion => None,
        };
        state.generation += 1;
        let generation = state.generation;
        let version = text.as_ref().map(|(_, version)| *version);
        let entries = state.documents.entry(change.id.clone()).or_default();
        let number = entries.last().map_or(0, |entry| entry.number) + 1;
        entries.push(Entry { number, generation, text, at: change.at, by: change.by.clone() });
        state.drop_old(change.id, &self.limits);
        Ok(Changed { version, number, generation, is_new: true })
    }
}

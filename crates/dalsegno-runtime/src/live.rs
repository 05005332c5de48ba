//! A workspace whose files people change while it is in use.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use dalsegno_workspace::{Diagnostic, Footprint, Workspace};

use crate::documents::Shelf;

/// What a look at the files of a workspace comes to.
#[derive(Debug, Clone)]
pub enum Look {
    /// They are the files that are in use.
    Unchanged,
    /// They have changed, and are in use from now on, but for the agents, tools and tenants whose files have errors.
    Taken(Arc<Workspace>),
    /// They have changed and cannot be used, for these reasons; the workspace stays as it was.
    Refused(Vec<Diagnostic>),
}

/// The workspace that is in use.
pub(crate) struct Live {
    now: RwLock<Arc<Workspace>>,
    /// The files as they were when they were last read, whether or not they are in use. Held while they are looked at, so that
    /// two looks at the same time read them once.
    seen: Mutex<Seen>,
    /// The documents that stand in for files; none where the workspace was read without them.
    shelf: Option<Arc<Shelf>>,
}

/// What the workspace was read from.
struct Seen {
    files: Footprint,
    /// The generation of the documents, or why it could not be read.
    documents: Result<u64, String>,
}

impl Live {
    /// With the catalogue of its documents, if it was read with one.
    pub(crate) fn new(workspace: Workspace, shelf: Shelf) -> Self {
        tell(&workspace, None);
        let generation = workspace.documents.generation();
        let shelf = generation.map(|_| Arc::new(shelf));
        let seen = Seen { files: workspace.footprint.clone(), documents: Ok(generation.unwrap_or_default()) };
        Self { now: RwLock::new(Arc::new(workspace)), seen: Mutex::new(seen), shelf }
    }

    /// The documents that stand in for files.
    pub(crate) fn shelf(&self) -> Option<&Arc<Shelf>> {
        self.shelf.as_ref()
    }

    pub(crate) fn workspace(&self) -> Arc<Workspace> {
        Arc::clone(&self.now.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Reads the files again if they have changed. Blocks.
    pub(crate) fn look(&self) -> Look {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let documents = self.shelf.as_ref().map_or(Ok(0), |shelf| shelf.generation());
        if documents == seen.documents && !seen.files.has_changed() {
            return Look::Unchanged;
        }
        let before = self.workspace();
        let loaded = match &self.shelf {
            Some(shelf) => Workspace::load_under(&before.root, &before.in_code, |_| shelf.documents()),
            None => Workspace::load_with(&before.root, &before.in_code),
        };
        // A document that is written meanwhile has a later generation, so that the next look reads it.
        *seen = Seen { files: loaded.footprint().clone(), documents };
        match loaded.sound() {
            Ok(mut workspace) => {
                if workspace.settings != before.settings {
                    tracing::warn!(
                        workspace = %before.root.display(),
                        "dalsegno.toml has changed: start the process again to use it; agents, tools and tenants are in use as they are now"
                    );
                    workspace.settings = before.settings.clone();
                }
                tell(&workspace, Some(&before));
                let workspace = Arc::new(workspace);
                *self.now.write().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&workspace);
                Look::Taken(workspace)
            }
            Err(diagnostics) => {
                let problem = diagnostics.iter().find(|found| found.is_error());
                tracing::error!(
                    workspace = %before.root.display(),
                    problem = problem.map_or_else(String::new, in_words),
                    "the workspace has changed and cannot be used: it stays in use as it was before; run `dalsegno check`"
                );
                Look::Refused(diagnostics)
            }
        }
    }
}

/// Tells which tools there are for each tenant, where that is new, and what is not in use.
fn tell(workspace: &Workspace, before: Option<&Workspace>) {
    let tenants = workspace.tenants.keys().map(String::as_str).chain([Workspace::DEFAULT_TENANT]);
    for tenant in tenants.collect::<BTreeSet<_>>() {
        let names = |workspace: &Workspace| -> Vec<String> {
            workspace.declared_tools(tenant).keys().map(ToString::to_string).collect()
        };
        let tools = names(workspace);
        if before.is_some_and(|before| names(before) == tools) || (before.is_none() && tools.is_empty()) {
            continue;
        }
        tracing::info!(tenant, count = tools.len(), tools = tools.join(", "), "declarative tools were built");
    }
    if let Some(before) = before {
        for tenant in before.tenants.keys().filter(|tenant| !workspace.tenants.contains_key(*tenant)) {
            tracing::info!(tenant, "the tenant is gone");
        }
    }
    let known = |found: &Diagnostic| before.is_some_and(|before| before.broken.diagnostics.contains(found));
    for found in workspace.broken.diagnostics.iter().filter(|found| !known(found)) {
        tracing::error!(
            file = %found.file.display(),
            code = found.code.as_str(),
            problem = in_words(found),
            "the file has an error, so its agent, tool or tenant is not in use: run `dalsegno check`"
        );
    }
}

fn in_words(found: &Diagnostic) -> String {
    format!("{}: {}", found.file.display(), found.message)
}

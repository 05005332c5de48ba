//! Whether a workspace can be used with a document, in the place of what it has now.

use std::collections::BTreeSet;
use std::path::Path;

use dalsegno_workspace::{
    Catalogue, Diagnostic, DocumentPlace, Documents, InCode, SourceFile, Tenant, Workspace,
};

/// What is wrong with a document, and with all that it touches.
#[derive(Debug, Clone, Default)]
pub struct DocumentCheck {
    /// The errors that the workspace would have and does not have now, and every error of the document itself.
    pub errors: Vec<Diagnostic>,
    /// What of the document works, but probably not as intended.
    pub warnings: Vec<Diagnostic>,
    /// The agents that would not work any more.
    pub agents: BTreeSet<String>,
    /// Whether a tenant would reach other hosts or could spend another amount than now.
    pub changes_terms: bool,
}

/// A workspace, with all that is wrong with it.
pub(super) struct Judged {
    workspace: Option<Workspace>,
    found: Vec<Diagnostic>,
    sources: Vec<SourceFile>,
}

impl Judged {
    pub(super) fn read(root: &Path, in_code: &InCode, documents: &Documents, registered: &Catalogue) -> Self {
        let mut loaded = Workspace::load_under(root, in_code, |_| Ok(documents.clone()));
        let mut diagnostics = loaded.diagnostics.clone();
        let sources = std::mem::take(&mut loaded.sources);
        diagnostics.extend(loaded.lock.diagnostics.iter().cloned());
        let lock = loaded.lock.lock.clone().unwrap_or_default();
        let workspace = loaded.sound().ok();
        if let Some(workspace) = &workspace {
            let more = workspace.check(&lock, registered);
            diagnostics.extend(more);
        }
        Self { workspace, found: diagnostics, sources }
    }

    /// The errors for which the workspace cannot be used at all; none if it can be.
    pub(super) fn refused(&self) -> Option<Vec<Diagnostic>> {
        let errors = || self.found.iter().filter(|found| found.is_error()).cloned().collect();
        self.workspace.is_none().then(errors)
    }

    /// The text of a file as far as it was read; secrets in it are masked.
    pub(super) fn text(&self, file: &Path) -> Option<&str> {
        self.sources.iter().find(|source| source.file() == file).map(SourceFile::text)
    }

    pub(super) fn workspace(&self) -> Option<&Workspace> {
        self.workspace.as_ref()
    }

    /// Compares it with the workspace as it would be with a document at this place.
    pub(super) fn compare(&self, then: &Self, place: &DocumentPlace) -> DocumentCheck {
        let own = place.source();
        let alike = |one: &Diagnostic, other: &Diagnostic| {
            (&one.file, one.code, &one.message) == (&other.file, other.code, &other.message)
        };
        let mut known: Vec<&Diagnostic> =
            self.found.iter().filter(|found| found.is_error() && found.file != own).collect();
        let mut check = DocumentCheck::default();
        for found in &then.found {
            if !found.is_error() {
                check.warnings.extend((found.file == own).then(|| found.clone()));
            } else if let Some(index) = known.iter().position(|known| alike(known, found)) {
                known.swap_remove(index);
            } else if !check.errors.contains(found) {
                check.errors.push(found.clone());
            }
        }
        let (Some(before), Some(after)) = (&self.workspace, &then.workspace) else { return check };
        let is_wrong = |file: &Path| check.errors.iter().any(|found| found.file == file);
        let lost = before.agents.iter().filter(|(name, _)| {
            let agent = after.agents.get(*name);
            agent.is_none_or(|agent| is_wrong(agent.source.file()))
        });
        // An agent that is deleted, or uncovered, is no agent that breaks.
        let deleted = |name: &str| *place == DocumentPlace::Agent(name.to_owned());
        check.agents = lost.map(|(name, _)| name.to_string()).filter(|name| !deleted(name)).collect();
        if let DocumentPlace::Tenant(name) = place {
            let terms = |workspace: &Workspace| workspace.tenants.get(name).map(terms);
            check.changes_terms = terms(before) != terms(after);
        }
        check
    }
}

/// What of a tenant's document only an administrator of tenants may change: that there is one, whom it reaches, what it may spend.
fn terms(tenant: &Tenant) -> (BTreeSet<String>, Option<u64>) {
    (tenant.egress.clone(), tenant.max_cost_nano_usd_per_day)
}

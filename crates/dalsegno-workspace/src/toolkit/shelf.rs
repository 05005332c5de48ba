//! All documents of a workspace, whoever they belong to.

use std::collections::{BTreeMap, BTreeSet};

use dalsegno_core::ToolName;
use dalsegno_tools::Tool;

use super::load::Toolkits;
use super::{ToolkitFile, config};
use crate::diagnostic::Diagnostic;
use crate::report::Report;
use crate::tenant::{Tenant, ToolkitSettings, ToolkitUse};

/// The documents of the workspace and of its tenants.
pub(crate) struct Shelf<'a> {
    workspace: &'a Toolkits,
    tenants: &'a BTreeMap<String, Tenant>,
    /// Not every file could be read, so what is missing here may well exist.
    is_partial: bool,
}

impl<'a> Shelf<'a> {
    /// Puts together what was read; `found` are the problems of all files.
    pub(crate) fn new(
        workspace: &'a Toolkits,
        tenants: &'a BTreeMap<String, Tenant>,
        found: &[Diagnostic],
    ) -> Self {
        let is_tool =
            |found: &Diagnostic| found.file.extension().is_some_and(|extension| extension == "json");
        let is_partial = found.iter().any(|found| found.is_error() && is_tool(found));
        Self { workspace, tenants, is_partial }
    }

    /// Checks what an agent sets: it holds for the documents of every tenant.
    pub(crate) fn check(
        &self,
        report: &Report,
        uses: &[ToolkitUse],
        settings: &BTreeMap<String, ToolkitSettings>,
    ) {
        if !self.is_partial {
            let known: BTreeSet<_> = self.all().map(ToolkitFile::name).collect();
            let known: Vec<_> = known.into_iter().collect();
            config::check_uses(report, uses, settings, &|name| self.find(name), &known);
        }
    }

    /// Checks what the one tenant of this shelf sets: it holds for the documents that it sees.
    pub(crate) fn check_tenant(&self, report: &Report) {
        for tenant in self.tenants.values().filter(|_| !self.is_partial) {
            let known: BTreeSet<_> = self.all().map(ToolkitFile::name).collect();
            let known: Vec<_> = known.into_iter().collect();
            let find = |name: &str| {
                let found = tenant.tools.get(name).or_else(|| self.workspace.get(name));
                found.into_iter().collect()
            };
            config::check_uses(report, &tenant.uses, &tenant.toolkits, &find, &known);
        }
    }

    /// The tools that not every tenant has: those of documents that tenants have themselves, and those that some tenant
    /// switches off.
    pub(crate) fn of_tenants(&self) -> BTreeSet<ToolName> {
        let mut names = BTreeSet::new();
        for tenant in self.tenants.values() {
            for file in tenant.tools.values() {
                let replaced = self.workspace.get(file.name()).into_iter().chain([file]);
                names.extend(replaced.flat_map(|file| file.toolkit.tools()).map(Tool::name));
            }
            for (name, settings) in &tenant.toolkits {
                let tools = self.find(name).into_iter().flat_map(|file| file.toolkit.tools());
                names.extend(
                    tools.map(Tool::name).filter(|name| settings.disabled.contains(config::short(name))),
                );
            }
        }
        names.into_iter().filter_map(|name| name.parse().ok()).collect()
    }

    fn all(&self) -> impl Iterator<Item = &'a ToolkitFile> {
        let own = self.tenants.values().flat_map(|tenant| tenant.tools.values());
        self.workspace.values().chain(own)
    }

    fn find(&self, name: &str) -> Vec<&'a ToolkitFile> {
        self.all().filter(|file| file.name() == name).collect()
    }
}

//! All documents of a workspace, whoever they belong to.

use std::collections::{BTreeMap, BTreeSet};

use dalsegno_core::ToolName;
use dalsegno_tools::Tool;

use super::load::{ReadToolkits, Toolkits};
use super::{ToolkitFile, config};
use crate::report::Report;
use crate::tenant::{Tenant, ToolkitSettings, ToolkitUse};

/// The documents of the workspace and of its tenants.
pub(crate) struct Shelf<'a> {
    workspace: &'a Toolkits,
    tenants: &'a BTreeMap<String, Tenant>,
    /// The names of documents that exist and have errors: they are not missing.
    broken: BTreeSet<&'a str>,
    /// Documents of tenants that are not in use themselves.
    lost: &'a [ToolkitFile],
}

impl<'a> Shelf<'a> {
    /// Puts together what was read.
    pub(crate) fn new(
        workspace: &'a ReadToolkits,
        tenants: &'a BTreeMap<String, Tenant>,
        lost: &'a [ToolkitFile],
    ) -> Self {
        let of_tenants = tenants.values().flat_map(|tenant| &tenant.broken_tools);
        let lost_names = lost.iter().map(ToolkitFile::name);
        let broken =
            workspace.broken.iter().chain(of_tenants).map(String::as_str).chain(lost_names).collect();
        Self { workspace: &workspace.sound, tenants, broken, lost }
    }

    /// Checks what an agent sets: it holds for the documents of every tenant.
    pub(crate) fn check(
        &self,
        report: &Report,
        uses: &[ToolkitUse],
        settings: &BTreeMap<String, ToolkitSettings>,
    ) {
        let known: BTreeSet<_> = self.all().map(ToolkitFile::name).collect();
        let known: Vec<_> = known.into_iter().collect();
        let uses: Vec<_> = self.judgeable(uses).collect();
        config::check_uses(report, &uses, settings, &|name| self.find(name), &known);
    }

    /// Checks what the one tenant of this shelf sets: it holds for the documents that it sees.
    pub(crate) fn check_tenant(&self, report: &Report) {
        for tenant in self.tenants.values() {
            let known: BTreeSet<_> = self.all().map(ToolkitFile::name).collect();
            let known: Vec<_> = known.into_iter().collect();
            let find = |name: &str| {
                let found = tenant.tools.get(name).or_else(|| self.workspace.get(name));
                found.into_iter().collect()
            };
            let uses: Vec<_> = self.judgeable(&tenant.uses).collect();
            config::check_uses(report, &uses, &tenant.toolkits, &find, &known);
        }
    }

    /// The tools that not every tenant has: those of documents that tenants have themselves, and those that some tenant
    /// switches off.
    pub(crate) fn of_tenants(&self) -> BTreeSet<ToolName> {
        let lost = self.lost.iter().flat_map(|file| file.toolkit.tools());
        let mut names: BTreeSet<&str> = lost.map(Tool::name).collect();
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

    /// The tools that documents call, with `-` for every `_`: in a document the two are the same.
    pub(crate) fn called(&self) -> BTreeSet<ToolName> {
        let tools = self.all().flat_map(|file| file.toolkit.tools());
        let names = tools.flat_map(|tool| tool.mentions().tools).map(|name| name.replace('_', "-"));
        names.filter_map(|name| name.parse().ok()).collect()
    }

    /// What is set of documents of which it is known what they take.
    fn judgeable<'u>(&self, uses: &'u [ToolkitUse]) -> impl Iterator<Item = &'u ToolkitUse> {
        uses.iter().filter(|used| !self.broken.contains(used.toolkit.value.as_str()))
    }

    fn all(&self) -> impl Iterator<Item = &'a ToolkitFile> {
        let own = self.tenants.values().flat_map(|tenant| tenant.tools.values());
        self.workspace.values().chain(own)
    }

    fn find(&self, name: &str) -> Vec<&'a ToolkitFile> {
        self.all().filter(|file| file.name() == name).collect()
    }
}

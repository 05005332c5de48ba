//! Holds the agents against what is pinned, without starting anything.

use std::collections::BTreeSet;
use std::path::Path;

use crate::catalogue::{Catalogue, builtin_tools};
use crate::code::Code;
use crate::diagnostic::{Diagnostic, Severity};
use crate::lock::Lock;
use crate::toolkit::{self, Around};
use crate::workspace::{SETTINGS_FILE, Workspace};

impl Workspace {
    /// Checks every agent against the catalogues of a lock file and the declarative tools of each tenant. `registered` holds the tools in process.
    ///
    /// A server that an agent reaches and that is not pinned gets a note; about its tools nothing is said.
    pub fn check(&self, lock: &Lock, registered: &Catalogue) -> Vec<Diagnostic> {
        let mut catalogue = builtin_tools();
        catalogue.extend(registered.iter().map(|(name, tool)| (name.clone(), tool.clone())));
        catalogue.extend(lock.catalogue(&self.settings));
        let common = catalogue.clone();
        catalogue.extend(self.declared_tools(NOBODY));
        let unpinned: BTreeSet<_> = self
            .settings
            .servers
            .keys()
            .filter(|server| !lock.servers.contains_key(*server))
            .cloned()
            .collect();

        let mut reached = BTreeSet::new();
        let mut found = Vec::new();
        for agent in self.agents.values() {
            reached.extend(agent.servers(&self.settings));
            found.extend(agent.resolve_known(&catalogue, &unpinned).err().into_iter().flatten());
        }
        let agents = self.agents.keys().cloned().collect();
        let around = Around { catalogue: &catalogue, unknown: &unpinned, agents: &agents };
        found.extend(self.toolkits.values().flat_map(|file| toolkit::check_mentions(file, &around)));
        for (name, tenant) in self.tenants.iter().filter(|(_, tenant)| !tenant.is_plain()) {
            let mut catalogue = common.clone();
            catalogue.extend(self.declared_tools(name));
            let around = Around { catalogue: &catalogue, unknown: &unpinned, agents: &agents };
            let mut more: Vec<_> =
                tenant.tools.values().flat_map(|file| toolkit::check_mentions(file, &around)).collect();
            for agent in self.agents.values() {
                more.extend(agent.resolve_known(&catalogue, &unpinned).err().into_iter().flatten());
            }
            // What is wrong for everybody has been told.
            found.extend(more.into_iter().filter(|more| !found.contains(more)).collect::<Vec<_>>());
        }
        let notes = unpinned.intersection(&reached).map(|server| {
            let message =
                format!("the tools of `{server}` are not pinned, so nothing was checked about them");
            Diagnostic::new(Code::NotPinned, Severity::Note, Path::new(SETTINGS_FILE), message)
                .with_help("run `dalsegno check --connect`, which asks the server and writes `dalsegno.lock`")
        });
        notes.chain(found).collect()
    }
}

/// No tenant has this name.
const NOBODY: &str = "";

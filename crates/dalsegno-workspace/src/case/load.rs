//! Finds the files of cases, and what each case runs.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::Path;
use std::sync::Arc;

use dalsegno_core::{AgentConfig, AgentName};

use super::read::read;
use super::{Asked, Case, CaseFile, Cases, Draft, Gives, check};
use crate::agent::AgentFile;
use crate::diagnostic::Diagnostic;
use crate::place::Place;
use crate::report::Report;
use crate::source::SourceFile;
use crate::workspace::Workspace;

/// The folder of cases, below the workspace's.
pub(crate) const FOLDER: &str = "tests";

/// The largest file of cases. A thousand cases take about half of it.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// The configurations of agents for tenants; none where there is a problem, which has been reported.
type Configs = BTreeMap<(AgentName, String), Option<Arc<AgentConfig>>>;

impl Draft {
    /// The agents whose runs are part of the case.
    pub(super) fn children(&self) -> impl Iterator<Item = AgentName> {
        let results = self.results.iter().chain(&self.shared);
        results.filter_map(|result| match (&result.of, &result.gives) {
            (Asked::Agent(name), Gives::Run(_)) => name.parse().ok(),
            _ => None,
        })
    }
}

impl Workspace {
    /// Reads the cases of the workspace, `tests/*.toml`. Nothing else is read, and nothing is run.
    pub fn cases(&self) -> Cases {
        let mut cases = Cases::default();
        let mut configs = Configs::new();
        let place = Place::on_disk(&self.root);
        for file in place.files(Path::new(FOLDER), "toml", &mut cases.diagnostics) {
            let Some(text) = place.read(&file, FILE_BYTES_MAX, &mut cases.diagnostics) else { continue };
            let report = Report::new(SourceFile::new(file, text.as_str()));
            let drafts =
                report.parse(&text).map(|table| read(&report, &table, &self.root)).unwrap_or_default();
            check::names(&report, &drafts);
            let read: Vec<Case> = drafts
                .into_iter()
                .filter_map(|draft| self.case(&report, draft, &mut configs, &mut cases.diagnostics))
                .collect();
            check::shared(&report, &read);
            let (source, diagnostics) = report.finish();
            cases.sources.push(source.clone());
            if !diagnostics.iter().any(Diagnostic::is_error) && !read.is_empty() {
                cases.files.push(CaseFile { source, cases: read });
            }
            cases.diagnostics.extend(diagnostics);
        }
        cases
    }

    fn case(
        &self,
        report: &Report,
        draft: Draft,
        configs: &mut Configs,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Option<Case> {
        let agent = check::agent(report, self, &draft)?;
        let mut config_of = |agent: &AgentFile, tenant: &str| match configs
            .entry((agent.name.clone(), tenant.to_owned()))
        {
            Entry::Occupied(known) => known.get().clone(),
            Entry::Vacant(new) => {
                let config = self.pinned_config(agent, tenant).map(Arc::new);
                let config = config.inspect_err(|problems| {
                    let more: Vec<_> =
                        problems.iter().filter(|problem| !diagnostics.contains(problem)).cloned().collect();
                    diagnostics.extend(more);
                });
                new.insert(config.ok()).clone()
            }
        };
        let config = config_of(agent, &draft.tenant)?;
        let children = draft.children().filter_map(|name| self.agents.get(&name));
        let children: Vec<&AgentFile> = children.collect();
        let agents =
            children.into_iter().map(|child| Some((child.name.clone(), config_of(child, &draft.tenant)?)));
        let agents: BTreeMap<_, _> = agents.collect::<Option<_>>()?;
        check::voice(report, &draft, &config);
        check::tools(report, &draft, &config, &agents);
        check::toolkits(report, &draft, &config);
        check::price(report, &draft.expect, agent);
        let tenant_settings = self.settings_of(&draft.tenant);
        Some(Case { draft, config, tenant_settings, agents })
    }
}

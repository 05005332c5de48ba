//! Cases that a program builds instead of writing them into a file.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use super::expect::READABLE;
use super::{Case, Draft, Expectations, check};
use crate::agent::CallRule;
use crate::catalogue::Catalogue;
use crate::code::Code;
use crate::diagnostic::Diagnostic;
use crate::report::Report;
use crate::section::Located;
use crate::source::SourceFile;
use crate::workspace::Workspace;

/// What messages name in the place of a file.
const FILE: &str = "the case";

/// The problems of something that has no text: only what is wrong and what to try is of use.
fn checked<T>(check: impl FnOnce(&Report) -> Option<T>) -> Result<T, Vec<Diagnostic>> {
    let report = Report::new(SourceFile::new(PathBuf::from(FILE), ""));
    let made = check(&report);
    let (_, mut found) = report.finish();
    found.retain(Diagnostic::is_error);
    match made {
        Some(made) if found.is_empty() => Ok(made),
        _ => Err(found),
    }
}

impl Workspace {
    /// Completes a case that a program built, with the agent as a run of today has it. It is checked as a case of a file is.
    /// `registered` are tools that the program brings itself.
    ///
    /// # Errors
    /// What is wrong with the agent or with the names in the case. The places in these diagnostics mean nothing.
    pub fn case_in_code(&self, draft: Draft, registered: &Catalogue) -> Result<Case, Vec<Diagnostic>> {
        let mut problems = Vec::new();
        let made = checked(|report| {
            let agent = check::agent(report, self, &draft)?;
            let mut config_of = |agent| match self.config_with(agent, &draft.tenant, registered) {
                Ok(config) => Some(Arc::new(config)),
                Err(found) => {
                    problems.extend(found);
                    None
                }
            };
            let config = config_of(agent)?;
            let children = draft.children().filter_map(|name| self.agents.get(&name));
            let agents = children.map(|child| Some((child.name.clone(), config_of(child)?)));
            let agents: BTreeMap<_, _> = agents.collect::<Option<_>>()?;
            check::voice(report, &draft, &config);
            check::tools(report, &draft, &config, &agents);
            check::toolkits(report, &draft, &config);
            check::price(report, &draft.expect, agent);
            let tenant_settings = self.settings_of(&draft.tenant);
            Some(Case { draft, config, tenant_settings, agents })
        });
        made.map_err(|found| problems.into_iter().filter(Diagnostic::is_error).chain(found).collect())
    }

    /// Checks what a program says must hold of a run of a case.
    ///
    /// # Errors
    /// Names of tools or arguments that the agent does not have, names that a condition cannot read, and a bound on the cost of
    /// models without a price.
    pub fn check_expectations(&self, case: &Case, expect: &Expectations) -> Result<(), Vec<Diagnostic>> {
        checked(|report| {
            check::expected(report, expect, &case.config);
            for condition in &expect.always {
                let references = condition.value.paths().into_iter();
                for name in references.map(|one| one.root).filter(|one| !READABLE.contains(&one.as_str())) {
                    report
                        .error(Code::UnknownName, condition.span.clone(), format!("unknown name `{name}`"))
                        .help(crate::names::suggestion(&name, READABLE));
                }
            }
            if let Some(agent) = self.agents.get(&case.draft.agent.value) {
                check::price(report, expect, agent);
            }
            Some(())
        })
    }
}

impl CallRule {
    /// A rule that a program builds: calls of `tool`, a name or a pattern, that must not take place under the condition `when`, which
    /// reads `args` and `approved`.
    ///
    /// # Errors
    /// What is wrong with the pattern or the condition.
    pub fn in_code(tool: Located<String>, when: &str) -> Result<Self, String> {
        let span = tool.span;
        let value = tool.value.parse().map_err(|error: dalsegno_core::NameError| error.to_string())?;
        let condition =
            dalsegno_expr::Expression::parse(when).map_err(|error| format!("`{when}`: {error}"))?;
        Self::new(Located { value, span }, condition)
    }
}

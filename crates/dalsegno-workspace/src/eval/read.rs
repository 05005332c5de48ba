//! Reads an eval file.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use dalsegno_core::{AgentConfig, AgentName, Mind};
use dalsegno_expr::{Expression, Template, ValueTemplate};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::checks::{Checks, unknown_root};
use super::keys::{FILE, FILE_TEXTS, JUDGE, WAYS};
use super::{Against, Eval, EvalRead, Judge};
use crate::agent::{self, json};
use crate::case::outcome::one_of;
use crate::case::{check, slug};
use crate::code::Code;
use crate::diagnostic::Diagnostic;
use crate::names::{nearest, some};
use crate::place::Place;
use crate::report::Report;
use crate::section::{Located, Section, wrong_type};
use crate::settings::{Paths, Reach};
use crate::source::SourceFile;
use crate::workspace::Workspace;

/// The largest eval file.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The smallest difference that counts where the file does not say it.
const SMALLEST: f64 = 0.1;

/// What a judge reads.
const JUDGED: &[&str] = &["item", "answer", "output", "ends", "calls", "asks"];

/// What the verdict of a judge reads.
const VERDICT: &[&str] = &["output"];

/// Where evals are looked for. They may be anywhere.
const FOLDER: &str = "tests/evals";

impl Workspace {
    /// Reads the evals of `tests/evals/*.toml`.
    pub fn evals(&self) -> Vec<EvalRead> {
        let mut diagnostics = Vec::new();
        let files = Place::on_disk(&self.root).files(Path::new(FOLDER), "toml", &mut diagnostics);
        let unreadable =
            (!diagnostics.is_empty()).then_some(EvalRead { eval: None, diagnostics, source: None });
        files.iter().map(|file| self.eval(&self.root.join(file))).chain(unreadable).collect()
    }

    /// Reads an eval file, which is named by its path: absolute, or below the workspace's folder. Nothing else is read, and nothing is run.
    pub fn eval(&self, file: &Path) -> EvalRead {
        let mut diagnostics = Vec::new();
        let shown = file.strip_prefix(&self.root).unwrap_or(file);
        let Some(text) = Place::on_disk(&self.root).read(shown, FILE_BYTES_MAX, &mut diagnostics) else {
            return EvalRead { eval: None, diagnostics, source: None };
        };
        let report = Report::new(SourceFile::new(shown.to_path_buf(), text.as_str()));
        let eval = report.parse(&text).and_then(|table| {
            Reader { report: &report, workspace: self, diagnostics: &mut diagnostics }.file(&table, shown)
        });
        let (source, found) = report.finish();
        diagnostics.extend(found);
        let eval = eval.filter(|_| !diagnostics.iter().any(Diagnostic::is_error));
        EvalRead { eval, diagnostics, source: Some(source) }
    }
}

struct Reader<'r> {
    report: &'r Report,
    workspace: &'r Workspace,
    /// What is wrong with other files.
    diagnostics: &'r mut Vec<Diagnostic>,
}

impl Reader<'_> {
    fn file(&mut self, table: &DeTable<'_>, file: &Path) -> Option<Eval> {
        let report = self.report;
        report.set_absent(FILE_TEXTS.iter().copied().filter(|key| !table.contains_key(*key)));
        let section = Section::open(report, table, 0..0, FILE.what, &FILE);
        let place = Place::on_disk(&self.workspace.root);
        let paths = Paths { report, place, reach: Reach::Workspace };
        let tenant = section.string("tenant");
        let is_tenant = tenant.as_ref().is_none_or(|tenant| self.knows_tenant(tenant));
        let tenant = tenant.map_or_else(|| Workspace::DEFAULT_TENANT.to_owned(), |tenant| tenant.value);
        let named = section.parsed::<AgentName>("agent");
        let config = named.as_ref().filter(|_| is_tenant).and_then(|name| self.agent(name, &tenant));
        let data = paths.file(&section, "data", "create the data set, or correct the path");
        let checks = section.get("checks").and_then(|value| match value.get_ref() {
            DeValue::Table(table) => Some(Checks::read(report, table, value.span(), config.as_deref())),
            _ => wrong_type(report, "checks", value, "a table"),
        });
        let checks = checks.unwrap_or_default();
        if let Some(agent) = named.as_ref().and_then(|name| self.workspace.agents.get(&name.value)) {
            check::price(report, checks.fixed(), agent);
        }
        let items = section.items("judges", "a list of tables").iter();
        let judges: Vec<Judge> = items.filter_map(|item| self.judge(item, &tenant)).collect();
        let mut names = BTreeSet::new();
        for judge in judges.iter().filter(|judge| !names.insert(judge.name.as_str())) {
            let span = section.key_span("judges").unwrap_or_default();
            report
                .error(Code::InvalidValue, span, format!("two judges are called `{}`", judge.name))
                .help("give each judge a name of its own");
        }
        let against = section.section("against").map(|against| self.against(&against, &named, &tenant));
        let (trials, at_least) = (section.integer("trials"), section.number("at_least"));
        let (smallest, allow_effects) = (section.number("smallest"), section.list("allow_effects"));
        section.require_all();
        let against = match against {
            Some(against) => Some(against?),
            None => None,
        };
        let mut eval = Eval {
            name: slug(&file.with_extension("").to_string_lossy()),
            agent: config?,
            data: data?,
            tenant,
            trials: trials.unwrap_or(1),
            at_least,
            smallest: smallest.unwrap_or(SMALLEST),
            allow_effects: allow_effects.into_iter().map(|pattern| pattern.value).collect(),
            against,
            checks,
            judges,
            unpriced: None,
        };
        let unpriced = |name: &AgentName| Some(self.workspace.agents.get(name)?.unpriced()?.model.clone());
        let found = eval.agents().find_map(unpriced);
        eval.unpriced = found;
        Some(eval)
    }

    fn knows_tenant(&self, tenant: &Located<String>) -> bool {
        let Err(error) = self.workspace.check_tenant(&tenant.value) else { return true };
        self.report.error(Code::UnknownTenant, tenant.span.clone(), error.to_string());
        false
    }

    /// The configuration of an agent; reports one that there is not.
    fn agent(&mut self, name: &Located<AgentName>, tenant: &str) -> Option<Arc<AgentConfig>> {
        let workspace = self.workspace;
        if let Some(file) = workspace.agents.get(&name.value) {
            let config = workspace.pinned_config(file, tenant).map(Arc::new);
            let problems = config.as_ref().err().into_iter().flatten();
            let new: Vec<Diagnostic> =
                problems.filter(|problem| !self.diagnostics.contains(problem)).cloned().collect();
            self.diagnostics.extend(new);
            return config.ok();
        }
        let broken = workspace.broken.agents.contains_key(name.value.as_str());
        let message = match broken {
            true => format!("the agent `{}` cannot be used, since its file has errors", name.value),
            false => format!("the workspace has no agent `{}`", name.value),
        };
        let added = self.report.error(Code::UnknownAgent, name.span.clone(), message);
        let known = || workspace.agents.keys().map(AgentName::as_str);
        match nearest(name.value.as_str(), known()) {
            _ if broken => added.help("correct the errors of the agent first"),
            Some(near) => added.help(format!("did you mean `{near}`?")),
            None => added.help(format!("it has {}", some(known()))),
        };
        None
    }

    fn against(
        &mut self,
        section: &Section<'_>,
        own: &Option<Located<AgentName>>,
        tenant: &str,
    ) -> Option<Against> {
        match one_of(section, WAYS)? {
            "agent" => {
                let name = section.parsed("agent")?;
                if own.as_ref().is_some_and(|own| own.value == name.value) {
                    self.report
                        .error(Code::InvalidValue, name.span, "the agent would be compared with itself")
                        .help("name another agent, or use `model` or `base`");
                    return None;
                }
                self.agent(&name, tenant).map(Against::Agent)
            }
            "model" => {
                let model = section.string("model")?;
                let known = &self.workspace.settings.models;
                if known.contains_key(&model.value) {
                    let file = own.as_ref().and_then(|own| self.workspace.agents.get(&own.value));
                    if file.is_some_and(|file| matches!(file.mind, Mind::Plan(_))) {
                        self.report
                            .error(Code::InvalidValue, model.span, "the agent has no model that could change")
                            .help("compare it with another agent, or with `base`");
                        return None;
                    }
                    return Some(Against::Model(model.value));
                }
                let names = || known.keys().map(String::as_str);
                self.report
                    .error(
                        Code::UnknownName,
                        model.span,
                        format!("`dalsegno.toml` has no model `{}`", model.value),
                    )
                    .help(match nearest(&model.value, names()) {
                        Some(near) => format!("did you mean `{near}`?"),
                        None => format!("it has {}", some(names())),
                    });
                None
            }
            _ => section.string("base").map(|base| Against::Base(base.value)),
        }
    }

    fn judge(&mut self, item: &Spanned<DeValue<'_>>, tenant: &str) -> Option<Judge> {
        let report = self.report;
        let section = Section::of(report, "judges", item, JUDGE.what, &JUDGE)?;
        let name = section.string("name");
        let named = section.parsed::<AgentName>("agent");
        let agent = named.as_ref().and_then(|name| self.agent(name, tenant));
        if let (Some(named), Some(config)) = (&named, &agent)
            && matches!(&config.mind, Mind::Model(mind) if mind.output.is_none())
        {
            report
                .error(
                    Code::MissingKey,
                    named.span.clone(),
                    format!("the judge `{}` gives no structured answer", named.value),
                )
                .label("a verdict is read from the output of an agent")
                .help("add `[output]` with a `schema` to the agent, such as one with a boolean `pass`");
        }
        let text = section.string("text").map(|text| template(report, "text", &text, JUDGED));
        let data = section.get("data").map(|value| {
            let json = json(report, "data", value, &mut |key, text| {
                template(report, key, &text, JUDGED);
            })?;
            ValueTemplate::parse(&json).ok()
        });
        let pass = match section.string("pass") {
            Some(pass) => expression(report, &pass)?,
            None => Expression::parse("output.pass").ok()?,
        };
        let label = section.string("label").map(|label| label.value);
        Some(Judge {
            name: name?.value,
            agent: agent?,
            text: text.map_or(Some(None), |text| text.map(Some))?,
            data: data.map_or(Some(None), |data| data.map(Some))?,
            pass,
            label,
        })
    }
}

/// Parses a template that reads these names.
pub(super) fn template(
    report: &Report,
    key: &str,
    text: &Located<String>,
    known: &[&str],
) -> Option<Template> {
    match Template::parse(&text.value) {
        Ok(template) => {
            let unknown: Vec<_> =
                template.paths().into_iter().filter(|one| !known.contains(&one.root.as_str())).collect();
            unknown.iter().for_each(|reference| unknown_root(report, text, reference, known));
            unknown.is_empty().then_some(template)
        }
        Err(error) => {
            agent::invalid(report, &format!("the template of `{key}`"), text, &error);
            None
        }
    }
}

fn expression(report: &Report, text: &Located<String>) -> Option<Expression> {
    let parsed = agent::expression(report, "pass", text)?;
    let unknown: Vec<_> =
        parsed.paths().into_iter().filter(|one| !VERDICT.contains(&one.root.as_str())).collect();
    unknown.iter().for_each(|reference| unknown_root(report, text, reference, VERDICT));
    unknown.is_empty().then_some(parsed)
}

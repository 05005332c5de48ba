//! Turns an agent file and the tools that exist into the configuration of a run.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use dalsegno_core::{
    AgentConfig, EffectClass, Mind, PartTerms, SEMANTICS, Tool, ToolDocument, ToolDocuments, ToolKind,
    ToolName, ToolPattern, Toolbox,
};

use super::{AgentFile, callees};
use crate::catalogue::{Catalogue, CatalogueTool, HANG_UP, SEND_DIGITS, engine_tools};
use crate::code::Code;
use crate::diagnostic::Diagnostic;
use crate::names::{list, nearest};
use crate::report::Report;
use crate::section::Located;
use crate::toolkit;

impl AgentFile {
    /// Builds the configuration of a run.
    ///
    /// `catalogue` holds the tools of every server that [`servers`](Self::servers) names, the built-in ones and those
    /// registered in process. What the agent does not allow becomes known but forbidden. Agents that it calls as tools
    /// need not be there: [`Workspace::load`](crate::Workspace::load) has found them.
    ///
    /// # Errors
    /// All problems at once: a name in `allow`, `approve`, `settings` or a step that nobody offers, and names that a
    /// model could not tell apart.
    pub fn resolve(&self, catalogue: &Catalogue) -> Result<AgentConfig, Vec<Diagnostic>> {
        self.resolve_known(catalogue, &BTreeSet::new())
    }

    /// Builds the configuration as far as it is known: nothing is said about the tools of `unknown` servers.
    ///
    /// # Errors
    /// As [`resolve`](Self::resolve).
    pub fn resolve_known(
        &self,
        catalogue: &Catalogue,
        unknown: &BTreeSet<String>,
    ) -> Result<AgentConfig, Vec<Diagnostic>> {
        let report = Report::new(self.source.clone());
        let catalogue = self.with_engine_tools(catalogue);
        let catalogue: &Catalogue = &catalogue;
        self.check_names(&report, catalogue, unknown);
        let mut tools = Toolbox::default();
        for (name, offered) in catalogue {
            if self.tools.allows(name) && !self.disables(offered, name) {
                let tool = self.tool(name, offered);
                self.check_cache(&report, name, &tool);
                self.check_effect(&report, name, offered);
                tools.tools.insert(name.clone(), tool);
            } else {
                tools.forbidden.insert(name.clone());
            }
        }
        let absent = self.of_tenants.iter().filter(|name| !catalogue.contains_key(*name));
        tools.forbidden.extend(absent.cloned());
        for (name, agent) in &self.agent_tools {
            let tool = self.tool(name, &agent.offered());
            self.check_cache(&report, name, &tool);
            tools.tools.insert(name.clone(), agent.adapt(tool, self.tools.settings.get(name)));
        }
        if let Mind::Model(_) = self.mind {
            let is_known = |tool: &ToolName| tools.tools.contains_key(tool) || tools.forbidden.contains(tool);
            let names = self.names.iter().filter(|(tool, _)| is_known(tool));
            tools.names = names.map(|(tool, name)| (tool.clone(), name.clone())).collect();
        }
        self.check_rules(&report, &tools);
        self.check_model_names(&report, &tools);
        let toolkits = self.documents(catalogue);
        self.check_verify(&report, &tools, &toolkits, &|name| {
            name.split_once('.').is_some_and(|(server, _)| unknown.contains(server))
        });

        let (_, diagnostics) = report.finish();
        if !diagnostics.is_empty() {
            return Err(diagnostics);
        }
        Ok(AgentConfig {
            toolkits,
            name: self.name.clone(),
            version: self.version.clone(),
            semantics: SEMANTICS,
            mind: self.mind.clone(),
            tools,
            agents: self.agents.clone(),
            memory_scope: self.memory_scope,
            limits: self.limits,
            voice: self.voice.settings.clone(),
        })
    }

    /// The catalogue with the engine's tools that the agent names. A server's tool of the same name stays what it is.
    fn with_engine_tools<'c>(&self, catalogue: &'c Catalogue) -> Cow<'c, Catalogue> {
        let is_named =
            |name: &ToolName| self.tools.allow.iter().any(|pattern| pattern.value.as_str() == name.as_str());
        let named: Catalogue = engine_tools().into_iter().filter(|(name, _)| is_named(name)).collect();
        if named.is_empty() {
            return Cow::Borrowed(catalogue);
        }
        let mut whole = named;
        whole.extend(catalogue.iter().map(|(name, tool)| (name.clone(), tool.clone())));
        Cow::Owned(whole)
    }

    /// The documents of the declarative tools that the agent allows, each with its configuration.
    fn documents(&self, catalogue: &Catalogue) -> ToolDocuments {
        let allowed = catalogue.iter().filter(|(name, _)| self.tools.allows(name));
        let declared = allowed.filter_map(|(_, tool)| tool.document.as_ref());
        let documents = declared.map(|declared| {
            let name = declared.toolkit.name();
            let config = declared.config_with(self.tools.toolkits.get(name));
            let document = ToolDocument::new(declared.toolkit.clone(), config);
            (name.to_owned(), document.owned_by(declared.owner.clone()))
        });
        documents.collect()
    }

    fn tool(&self, name: &ToolName, offered: &CatalogueTool) -> Tool {
        let settings =
            self.tools.settings.get(name).map(|settings| settings.value.clone()).unwrap_or_default();
        let default = Tool::new(offered.description.clone(), offered.input_schema.clone());
        Tool {
            output_schema: offered.output_schema.clone(),
            kind: offered.kind.clone(),
            class: settings.effect.filter(|_| offered.document.is_none()).unwrap_or_else(|| offered.class()),
            timeout_ms: settings.timeout_ms.unwrap_or(default.timeout_ms),
            retries: settings.retries.unwrap_or(default.retries),
            approve: self.tools.always_asks(name),
            approve_when: self.tools.approve_when(name).cloned().collect(),
            approve_from: self.tools.approve_from(name).cloned().collect(),
            deny_when: self.tools.deny_when(name).cloned().collect(),
            on_failure: settings.on_failure,
            on_indeterminate: settings
                .on_indeterminate
                .or(offered.on_indeterminate)
                .unwrap_or(default.on_indeterminate),
            cache_ms: settings.cache_ms.map(|cache| cache.value),
            parts: match offered.document {
                Some(_) => PartTerms {
                    timeout_ms: settings.timeout_ms,
                    retries: settings.retries,
                    on_indeterminate: settings.on_indeterminate,
                },
                None => PartTerms::default(),
            },
            verify: settings
                .verify
                .map(|verify| verify.value)
                .or_else(|| super::verify::of_document(offered)),
            ..default
        }
    }

    /// Says whether the agent switches off an action of a declarative tool that it allows otherwise.
    fn disables(&self, offered: &CatalogueTool, name: &ToolName) -> bool {
        let Some(document) = &offered.document else { return false };
        let settings = self.tools.toolkits.get(document.toolkit.name());
        settings.is_some_and(|settings| settings.disabled.contains(toolkit::short(name.as_str())))
    }

    /// What may repeat of a declarative tool, its own actions say, each for itself.
    fn check_effect(&self, report: &Report, name: &ToolName, offered: &CatalogueTool) {
        let settings = self.tools.settings.get(name).filter(|_| offered.document.is_some());
        if let Some(settings) = settings.filter(|settings| settings.value.effect.is_some()) {
            report
                .error(
                    Code::InvalidValue,
                    settings.span.clone(),
                    format!("`effect` does not apply to `{name}`, a declarative tool"),
                )
                .label("each of its actions has its own effect")
                .help("remove it, and set `\"effect\"` on the action in the tool's file");
        }
    }

    /// A result can stand for another call only where the call changes nothing.
    fn check_cache(&self, report: &Report, name: &ToolName, tool: &Tool) {
        let cache = self.tools.settings.get(name).and_then(|settings| settings.value.cache_ms.clone());
        let Some(cache) = cache else { return };
        let (problem, help) = match (&tool.kind, tool.class) {
            (ToolKind::External, EffectClass::Read) => return,
            (_, EffectClass::Composite) => (
                format!("`{name}` runs its actions on every call"),
                "remove it: only results of tool servers are cached",
            ),
            (ToolKind::External, _) => (
                format!("`{name}` may have side effects, so every call runs"),
                "remove it, or set `effect = \"read\"` if the tool only reads",
            ),
            _ => (
                format!("the engine itself runs `{name}`"),
                "remove it: only results of tool servers are cached",
            ),
        };
        report
            .error(Code::InvalidValue, cache.span, "`cache` does not apply to this tool")
            .label(problem)
            .help(help);
    }

    fn check_names(&self, report: &Report, catalogue: &Catalogue, unknown_servers: &BTreeSet<String>) {
        let is_unknown =
            |name: &str| name.split_once('.').is_some_and(|(server, _)| unknown_servers.contains(server));
        // Agents are looked up when the workspace is loaded.
        let is_elsewhere =
            |pattern: &ToolPattern| callees::names_agents(pattern) || is_unknown(pattern.as_str());
        let other_tenants = |pattern: &ToolPattern| self.of_tenants.iter().any(|tool| pattern.matches(tool));
        for pattern in self.tools.allow.iter().filter(|pattern| !is_elsewhere(&pattern.value)) {
            if !other_tenants(&pattern.value) && !catalogue.keys().any(|tool| pattern.value.matches(tool)) {
                unknown(report, pattern.span.clone(), pattern.value.as_str(), catalogue);
            }
        }
        let of_calls =
            |pattern: &&Located<ToolPattern>| [HANG_UP, SEND_DIGITS].contains(&pattern.value.as_str());
        for pattern in self.tools.allow.iter().filter(of_calls).filter(|_| self.voice.settings.is_none()) {
            let tool = &pattern.value;
            report
                .error(
                    Code::InvalidValue,
                    pattern.span.clone(),
                    format!("`{tool}` is for calls, and the agent takes none: it has no `[voice]`"),
                )
                .help("add `[voice]`, or remove it here");
        }
        // A misspelt name here would leave a tool without its gate, so it is as bad as a misspelt permission.
        let denials = self.tools.deny_rules.iter().map(|rule| &rule.tool);
        let gates = self.tools.gates().chain(denials).chain(self.tools.sources());
        for pattern in gates.filter(|pattern| !is_unknown(pattern.value.as_str())) {
            let matches = |tool: &&ToolName| pattern.value.matches(tool);
            let tools = catalogue.keys().chain(&self.of_tenants);
            if tools.clone().filter(matches).any(|tool| self.tools.allows(tool))
                || self.agent_tools.keys().any(|tool| pattern.value.matches(tool))
            {
                continue;
            }
            let is_known =
                callees::names_agents(&pattern.value) || tools.into_iter().any(|tool| matches(&tool));
            if is_known {
                self.not_allowed(report, pattern.span.clone(), pattern.value.as_str());
            } else {
                unknown(report, pattern.span.clone(), pattern.value.as_str(), catalogue);
            }
        }
        self.check_denied(report, catalogue, &is_unknown);
        for (name, settings) in &self.tools.settings {
            if is_unknown(name.as_str()) || self.agent_tools.contains_key(name) {
                continue;
            }
            let is_known = catalogue.contains_key(name) || self.of_tenants.contains(name);
            if !is_known && !callees::is_agent_tool(name) {
                unknown(report, settings.span.clone(), name.as_str(), catalogue);
            } else if !self.tools.allows(name) {
                self.not_allowed(report, settings.span.clone(), name.as_str());
            }
        }
        for tool in self.voice.tools.iter().filter(|tool| !is_unknown(tool.value.as_str())) {
            let name = &tool.value;
            let is_known = catalogue.contains_key(name) || self.of_tenants.contains(name);
            if !is_known && !self.agent_tools.contains_key(name) {
                unknown(report, tool.span.clone(), name.as_str(), catalogue);
            } else if !self.tools.allows(name) {
                self.not_allowed(report, tool.span.clone(), name.as_str());
            }
        }
        for tool in self.called.iter().filter(|tool| !is_unknown(tool.value.as_str())) {
            let is_known = catalogue.contains_key(&tool.value) || self.of_tenants.contains(&tool.value);
            if !is_known && !self.agent_tools.contains_key(&tool.value) {
                unknown(report, tool.span.clone(), tool.value.as_str(), catalogue);
            }
        }
    }

    fn not_allowed(&self, report: &Report, span: Range<usize>, name: &str) {
        let allowed = self.tools.allow.iter().map(|pattern| pattern.value.as_str());
        report
            .error(Code::ToolNotAllowed, span, format!("`{name}` is set up, but the agent does not allow it"))
            .help(format!(
                "add it to `allow`, which now has {}, or remove it here",
                or_nothing(&list(allowed))
            ));
    }

    /// Models take fewer letters in a name than servers do, so two tools may look the same to them.
    fn check_model_names(&self, report: &Report, tools: &Toolbox) {
        let mut seen: BTreeMap<String, &ToolName> = BTreeMap::new();
        for name in tools.tools.keys() {
            let shown = tools.model_name(name);
            if let Some(other) = seen.insert(shown.clone(), name) {
                let is_pinned = [other, name].into_iter().any(|tool| tools.names.contains_key(tool));
                let pattern = self.tools.allow.iter().find(|pattern| pattern.value.matches(name));
                report
                    .error(
                        Code::ToolNameClash,
                        pattern.map_or(0..0, |pattern| pattern.span.clone()),
                        format!("a model sees both `{other}` and `{name}` as `{shown}`"),
                    )
                    .help(match is_pinned {
                        true => "allow only one of them, or pin another name in `dalsegno.lock`",
                        false => "allow only one of them",
                    });
            }
        }
    }
}

pub(super) fn unknown(report: &Report, span: Range<usize>, name: &str, catalogue: &Catalogue) {
    let (prefix, is_prefix) = name.strip_suffix('*').map_or((name, false), |before| (before, true));
    let problem = if is_prefix {
        format!("no tool has a name that begins with `{prefix}`")
    } else {
        format!("the tool `{name}` does not exist")
    };
    let server = name.split('.').next().unwrap_or(name);
    let siblings: Vec<_> = catalogue
        .keys()
        .map(ToolName::as_str)
        .filter(|tool| tool.strip_prefix(server).is_some_and(|rest| rest.starts_with('.')))
        .collect();
    let help = match nearest(name, catalogue.keys().map(ToolName::as_str)) {
        Some(near) if !is_prefix => format!("did you mean `{near}`?"),
        Some(_) | None if !siblings.is_empty() => format!("`{server}` offers {}", list(siblings)),
        Some(_) | None => {
            format!(
                "`{server}` offers no tool: add `[servers.{server}]` to `dalsegno.toml`, or, if it \
                 exists, correct its `tools`"
            )
        }
    };
    report.error(Code::UnknownTool, span, problem).help(help);
}

fn or_nothing(list: &str) -> &str {
    if list.is_empty() { "nothing" } else { list }
}

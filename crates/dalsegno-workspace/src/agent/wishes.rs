//! How a model is asked: what the agent itself says stands above what `dalsegno.toml` says of the model.

use dalsegno_core::{AgentConfig, Mind, ModelControl, ModelSettings};

use super::{AgentTools, Unpriced};
use crate::control;
use crate::section::Section;
use crate::settings::Settings;
use crate::workspace::Workspace;

/// What an agent's `[model]`, or a step, itself says of what `dalsegno.toml` may say of a model as well.
#[derive(Debug, Clone, Default)]
pub(crate) struct Wishes {
    control: ModelControl,
    timeout_ms: Option<u64>,
}

impl Wishes {
    pub(super) fn read(section: &Section<'_>) -> Self {
        Self { control: control::read(section), timeout_ms: section.millis("timeout") }
    }

    /// What the agent of a recorded configuration said itself: all that is not what `dalsegno.toml` says of its model.
    fn of(model: &ModelSettings, settings: &Settings) -> Self {
        let control = match settings.controls.get(&model.name) {
            Some(defaults) => beyond(&model.control, defaults),
            None => (*model.control).clone(),
        };
        let is_default = model.timeout_ms == default_timeout(&model.control);
        Self { control, timeout_ms: (!is_default).then_some(model.timeout_ms) }
    }

    /// How the model of a name is asked, before it is known what the agent allows.
    pub(super) fn control(&self, name: &str, settings: Option<&Settings>) -> ModelControl {
        match settings.and_then(|settings| settings.controls.get(name)) {
            Some(defaults) => self.control.clone().or(defaults),
            None => self.control.clone(),
        }
    }

    /// Fills in what depends on the model: its price, how it is asked, and how long that may take.
    pub(super) fn ask(
        &self,
        model: ModelSettings,
        settings: Option<&Settings>,
        tools: &AgentTools,
    ) -> ModelSettings {
        let mut control = self.control(&model.name, settings);
        control.provider_tools.retain(|tool| tools.allows_of_provider(*tool));
        ModelSettings {
            timeout_ms: self.timeout_ms.unwrap_or_else(|| default_timeout(&control)),
            price: settings.and_then(|settings| settings.prices.get(&model.name).cloned()),
            control: control.into(),
            ..model
        }
    }
}

impl Workspace {
    /// Lets another model of `dalsegno.toml` decide. It is asked as its own settings say, at its own price; what the agent's
    /// `[model]` itself says stays.
    ///
    /// # Errors
    /// When the agent has no model, or the cost of a run is limited and that of the model is not known: in words.
    pub fn change_model(&self, config: &mut AgentConfig, name: &str) -> Result<(), String> {
        let Mind::Model(mind) = &mut config.mind else {
            return Err(
                "its agent is a plan: a model can be changed in an agent that has `[model]`".to_owned()
            );
        };
        let file = self.agents.get(&config.name);
        let same = file.and_then(|file| match &file.mind {
            Mind::Model(own) if own.model == mind.model => file.wishes.clone(),
            _ => None,
        });
        // The file may be another one than that of the run.
        let wishes = same.unwrap_or_else(|| Wishes::of(&mind.model, &self.settings));
        let (none, asked) =
            (AgentTools::default(), ModelSettings { name: name.to_owned(), ..mind.model.clone() });
        let tools = file.map_or(&none, |file| &file.tools);
        let model = wishes.ask(asked, Some(&self.settings), tools);
        if let (Some(_), Some(unpriced)) = (config.limits.max_cost_nano_usd, Unpriced::of(&model)) {
            return Err(format!(
                "`max_cost_usd` of its agent bounds the cost, and the model `{name}` {}: {}",
                unpriced.lack(),
                unpriced.help()
            ));
        }
        mind.model = model;
        Ok(())
    }
}

/// What is set in another way than by default.
fn beyond(control: &ModelControl, defaults: &ModelControl) -> ModelControl {
    let (mut own, mut defaults) = (control.clone(), defaults.clone());
    // A list may have been narrowed to what the agent allows.
    if own.provider_tools.iter().all(|tool| defaults.provider_tools.contains(tool)) {
        own.provider_tools.clear();
        defaults.provider_tools.clear();
    }
    let fields = |control: &ModelControl| match serde_json::to_value(control) {
        Ok(serde_json::Value::Object(fields)) => fields,
        _ => serde_json::Map::new(),
    };
    let defaults = fields(&defaults);
    let fields = fields(&own).into_iter().filter(|(key, value)| defaults.get(key) != Some(value));
    serde_json::from_value(serde_json::Value::Object(fields.collect())).unwrap_or(own)
}

/// How long a request may take where nothing is said about it, in milliseconds.
fn default_timeout(control: &ModelControl) -> u64 {
    match control.batch {
        Some(true) => BATCH_TIMEOUT_MS,
        _ => ModelSettings::named("").timeout_ms,
    }
}

/// How long a batch may take: providers end those that they have not begun within a day.
const BATCH_TIMEOUT_MS: u64 = 25 * 60 * 60 * 1_000;

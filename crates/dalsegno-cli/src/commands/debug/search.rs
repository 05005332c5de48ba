//! The rows in which a text occurs.

use dalsegno_history::{Scene, StepOutline};

/// A text that is searched for, in requests, outcomes, labels and reasons, in capital letters or small ones.
pub(super) struct Search {
    needle: String,
    /// The next place of the outline.
    pub(super) next: usize,
}

impl Search {
    pub(super) fn new(text: &str) -> Self {
        Self { needle: text.to_lowercase(), next: 0 }
    }

    /// Which of the rows of a step have it: that of the step itself is 0, its operations follow.
    pub(super) fn rows(&self, step: Option<&StepOutline>, scene: Option<&Scene>) -> Vec<usize> {
        let mut rows = Vec::new();
        if let Some(scene) = scene {
            let response = scene.response.as_ref().and_then(|response| serde_json::to_string(response).ok());
            if scene.view.decisions.iter().chain(&response).any(|text| self.is_in(text)) {
                rows.push(0);
            }
        }
        for (index, one) in step.into_iter().flat_map(|step| &step.operations).enumerate() {
            let mut views = scene.into_iter().flat_map(|scene| &scene.view.operations);
            let view = views.find(|view| view.operation == one.operation);
            let has = |value: Result<String, serde_json::Error>| value.is_ok_and(|json| self.is_in(&json));
            let found = self.is_in(&one.label)
                || one.operation.to_string().starts_with(&self.needle)
                || view.is_some_and(|view| {
                    self.is_in(&view.label)
                        || has(serde_json::to_string(&view.request))
                        || has(serde_json::to_string(&view.outcome))
                });
            if found {
                rows.push(index + 1);
            }
        }
        rows
    }

    fn is_in(&self, text: &str) -> bool {
        text.to_lowercase().contains(&self.needle)
    }
}

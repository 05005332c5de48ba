//! Where a run came from, in words.

use dalsegno_wire::Lineage;

use super::output::Output;
use super::text;

/// Tells where a run came from, if it did not begin by itself.
pub(crate) fn tell(lineage: &Lineage, output: &mut Output) {
    let Lineage { parent, forked_from, adopted_from, adopted_by, from_step, replaced, model, .. } = lineage;
    if let Some(parent) = parent {
        output.stdout.line(format_args!("child of run {}", text::short(parent)));
    }
    let mut line = match (forked_from, adopted_from) {
        (Some(run), _) => format!("fork of run {}", text::short(run)),
        (None, Some(run)) => format!("adopted: continues the foreign run {}", text::short(run)),
        (None, None) => return,
    };
    match (lineage.from_turn, from_step) {
        (Some(turn), _) => line.push_str(&format!(" from turn {turn}")),
        (None, Some(step)) => line.push_str(&format!(" from step {step}")),
        (None, None) => {}
    }
    if let Some(by) = adopted_by {
        line.push_str(&format!(", by {by}"));
    }
    if !replaced.is_empty() {
        let ids: Vec<String> = replaced.iter().map(text::short).collect();
        line.push_str(&format!(", with another outcome of {}", ids.join(", ")));
    }
    match model {
        Some(model) => line.push_str(&format!(", with model `{model}`")),
        None if lineage.other_configuration => line.push_str(", with the current agent file"),
        None => {}
    }
    output.stdout.line(line);
}

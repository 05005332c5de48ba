//! Where the values of a request came from, for people.

use dalsegno_history::{Author, Found, Provenance, Source, TemplateRead, Traced, TracedPart};

use super::output::Output;
use super::text::{Style, brief, count, gist, short, styled};

/// Tells where each value came from.
pub(crate) fn show(run: &str, provenance: &Provenance, output: &mut Output) {
    let Provenance { operation, step, label, author, values, further } = provenance;
    output.stdout.line(
        styled(Style::Bold, format_args!("{label}"))
            .and(format_args!(" · step {step} · operation {}", short(operation))),
    );
    output.stdout.line(match author {
        Author::Model { completion, step, messages } => format!(
            "asked for by the model in step {step}, which had read {}: `dalsegno show {run} --prompt --op {}`",
            count(*messages, "message"),
            short(completion)
        ),
        Author::Plan { place } => format!("asked for by the plan: {place}"),
        Author::Document { tool, call } => {
            format!("asked for by the document of `{tool}`, in the call {}", short(call))
        }
        Author::Agent => "asked for by the agent's settings".to_owned(),
    });
    for value in values {
        output.stdout.line("");
        traced(value, author, output);
    }
    if values.is_empty() {
        output.stdout.line("it has no values");
    }
    if *further > 0 {
        output.stdout.line("");
        output.stdout.line(format!("{} were not looked for", count(*further as u64, "further value")));
    }
}

fn traced(traced: &Traced, author: &Author, output: &mut Output) {
    let Traced { path, value, edited, templates, found, parts } = traced;
    let room = output.stdout.terminal.room;
    let name = brief(path, room / 2);
    let value = brief(&gist(value), room.saturating_sub(name.chars().count() + 3));
    output.stdout.line(styled(Style::Cyan, name).and(format!(" = {value}")));
    if let Some(edited) = edited {
        let by = edited.by.as_ref().map(|by| format!(", {}", brief(by, 40))).unwrap_or_default();
        entry(&format!("put here by the person who approved the call{by}"), output);
    }
    for TemplateRead { template, range, reads, operation } in templates {
        let of = operation.map(|operation| format!(", operation {}", short(operation))).unwrap_or_default();
        let place = format!("bytes {} to {}", range.start, range.end);
        entry(&format!("from the template `{}`, {place}: `{reads}`{of}", brief(template, room)), output);
    }
    for found in found {
        place(found, "", output);
    }
    for TracedPart { text, found } in parts {
        for found in found {
            place(found, &format!("{}: ", brief(text, room / 2)), output);
        }
    }
    let is_read = !found.is_empty() || !templates.is_empty() || edited.is_some();
    if is_read {
        return;
    }
    let is_in_part = parts.iter().any(|part| !part.found.is_empty());
    entry(
        match (author, is_in_part) {
            (Author::Model { .. }, false) => "in nothing that the run had read: the model wrote it",
            (Author::Model { .. }, true) => {
                "the rest is in nothing that the run had read: the model wrote it"
            }
            (Author::Plan { .. }, false) => "written in the plan",
            (Author::Document { .. }, false) => "written in the tool's document, or computed by it",
            (Author::Agent, false) => "written in the agent's settings",
            (_, true) => return,
        },
        output,
    );
}

fn place(found: &Found, before: &str, output: &mut Output) {
    let Found { source, path, range, excerpt } = found;
    let path = if path.is_empty() { String::new() } else { format!(", `{path}`") };
    let range = range.as_ref().filter(|range| range.start > 0);
    let byte = range.map(|range| format!(", byte {}", range.start)).unwrap_or_default();
    let excerpt = if excerpt.is_empty() { String::new() } else { format!(": {excerpt}") };
    entry(&format!("{before}in {}{path}{byte}{excerpt}", named(source)), output);
}

fn named(source: &Source) -> String {
    match source {
        Source::User => "what the user wrote".to_owned(),
        Source::Input => "the input of the run".to_owned(),
        Source::Caller => "what the caller says of the user".to_owned(),
        Source::Parent { agent, run, operation } => match (run, operation) {
            (Some(run), Some(operation)) => {
                format!("the request of agent `{agent}` (`dalsegno why {} {}`)", short(run), short(operation))
            }
            _ => format!("the request of agent `{agent}`"),
        },
        Source::Handoff { agent } => format!("the message of agent `{agent}`, which handed over"),
        Source::Tenant => "the settings of the tenant".to_owned(),
        Source::Instructions => "the agent's instructions".to_owned(),
        Source::Earlier { of } => format!("what was said before this run, by {of}"),
        Source::Call { operation } => format!("the arguments of the call {}", short(operation)),
        Source::Outcome { operation, step, label } => {
            format!("the result of {label} (step {step}, {})", short(operation))
        }
        Source::Reply { operation, step } => {
            format!("an earlier reply of the model alone (step {step}, {})", short(operation))
        }
    }
}

fn entry(text: &str, output: &mut Output) {
    let room = output.stdout.terminal.room.saturating_sub(2);
    let mut lines = super::text::wrapped(text, room).into_iter();
    if let Some(first) = lines.next() {
        output.stdout.line(format!("  {first}"));
    }
    for line in lines {
        output.stdout.line(format!("    {line}"));
    }
}

//! `segno replay`: computes a recorded run again and compares.

use super::{Context, select};
use crate::args::{Format, ReplayArgs};
use crate::error::Error;
use crate::exit::Exit;
use crate::render::document::Replayed;
use crate::render::text::{Style, count, styled};

pub(super) async fn replay(args: &ReplayArgs, context: &mut Context<'_>) -> Result<Exit, Error> {
    let engine = context.journal().await?;
    let run = select::run(&engine, &args.run).await?;
    let report = engine.replay(run).await?;
    let output = &mut *context.output;
    if context.format == Format::Json {
        output.document(&Replayed::of(&report));
    }
    let colour = output.stderr.terminal.colour;
    match &report.divergence {
        None => {
            let word = styled(colour, Style::Green, "identical").to_string();
            let (steps, records) = (count(report.steps, "step"), count(report.records, "record"));
            output.note(format_args!("{word}: {steps}, {records}, nothing performed"));
            Ok(Exit::Done)
        }
        Some(divergence) => {
            let word = styled(colour, Style::Red, "diverged").to_string();
            output.note(format_args!("{word} at step {}", divergence.step));
            output.note(format_args!("  expected: {}", divergence.expected));
            output.note(format_args!("  got:      {}", divergence.got));
            let help = "another release recorded it, or the journal was changed: use that release, or restore a backup";
            crate::render::failure::help_line(help, output);
            Ok(Exit::Diverged)
        }
    }
}

//! Simulates one history for each seed, prints the first that breaks a promise, and counts what happened. What never happened in
//! 500 histories or more is a failure, too: a promise that is never put to the test is kept by nobody.
//!
//! `cargo run -p dalsegno-testkit --example sim -- --seeds 500 [--from 1] [--quiet] [--brief] [--history] [--keep-going]
//! [--shrink]`

use std::io::Write;
use std::process::ExitCode;
use std::time::Instant;

use dalsegno_testkit::{Counts, Coverage, Simulation};

/// What is asked for.
struct Arguments {
    from: u64,
    seeds: u64,
    /// Prints nothing but the end.
    quiet: bool,
    /// Prints every history, broken or not.
    history: bool,
    /// Prints a broken promise in a line, without its history.
    brief: bool,
    /// Goes on after a seed that breaks a promise.
    keep_going: bool,
    /// Leaves out of a broken history what it does not need.
    shrink: bool,
}

fn arguments() -> Result<Arguments, String> {
    let mut found = Arguments {
        from: 1,
        seeds: 100,
        quiet: false,
        history: false,
        brief: false,
        keep_going: false,
        shrink: false,
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut number = || {
            let number = words.next().and_then(|word| word.parse().ok());
            number.ok_or_else(|| format!("`{word}` takes a number"))
        };
        match word.as_str() {
            "--seeds" => found.seeds = number()?,
            "--from" => found.from = number()?,
            "--quiet" => found.quiet = true,
            "--history" => found.history = true,
            "--brief" => found.brief = true,
            "--keep-going" => found.keep_going = true,
            "--shrink" => found.shrink = true,
            _ => {
                return Err(format!(
                    "`{word}` is not known: --seeds N, --from N, --quiet, --brief, --history, --keep-going, --shrink"
                ));
            }
        }
    }
    Ok(found)
}

/// Histories in which everything must happen that can.
const ENOUGH: u64 = 500;

/// Prints the least of a broken history.
fn shrunk(out: &mut impl Write, world: Simulation) -> Result<(), Box<dyn std::error::Error>> {
    let least = world.shrink()?;
    writeln!(out, "{}", least.clone().run()?)?;
    writeln!(out, "left of it: {}", least.outline())?;
    Ok(())
}

fn main() -> ExitCode {
    let mut out = std::io::stdout().lock();
    let arguments = match arguments() {
        Ok(arguments) => arguments,
        Err(message) => {
            let _ = writeln!(out, "{message}");
            return ExitCode::from(2);
        }
    };
    let began = Instant::now();
    let mut coverage = Coverage::default();
    let mut counts = Counts::default();
    let mut broken = Vec::new();
    let last = arguments.from.saturating_add(arguments.seeds);
    for seed in arguments.from..last {
        let world = Simulation::new(seed);
        let report = match world.clone().run() {
            Ok(report) => report,
            Err(error) => {
                let _ = writeln!(out, "{error}");
                return ExitCode::from(2);
            }
        };
        counts.add(&report.counts);
        coverage.add(&report.coverage);
        if arguments.history && report.violations.is_empty() {
            let _ = writeln!(out, "{}", report.history);
        }
        if !report.violations.is_empty() {
            broken.push(seed);
            if arguments.brief || arguments.keep_going {
                let _ = writeln!(out, "seed {seed}: {}", report.violations[0]);
            } else if arguments.shrink {
                let _ = shrunk(&mut out, world);
            } else {
                let _ = writeln!(out, "{report}");
            }
            if !arguments.keep_going {
                break;
            }
        }
        let done = seed + 1 - arguments.from;
        if !arguments.quiet && done.is_multiple_of(500) {
            let _ = writeln!(out, "{done} seeds, {:.1} s", began.elapsed().as_secs_f64());
        }
    }
    let seconds = began.elapsed().as_secs_f64();
    let _ = writeln!(out, "{counts}; {seconds:.1} s");
    let _ = writeln!(out, "{coverage}");
    let missing = coverage.missing();
    if broken.is_empty() && arguments.seeds >= ENOUGH && !missing.is_empty() {
        let _ = writeln!(out, "never happened in {} histories: {}", arguments.seeds, missing.join(", "));
        ExitCode::FAILURE
    } else if broken.is_empty() {
        let _ = writeln!(out, "{} seeds from {}: every promise held", arguments.seeds, arguments.from);
        ExitCode::SUCCESS
    } else {
        let _ = writeln!(out, "{} broken: {broken:?}", broken.len());
        ExitCode::FAILURE
    }
}

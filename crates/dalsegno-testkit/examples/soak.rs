//! Many runs at once on a real disk for some minutes, with things that go wrong; prints what came of it.
//!
//! `cargo run -p dalsegno-testkit --example soak -- [--minutes 10 | --seconds N] [--runs 200] [--seed 1] [--quiet]`

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use dalsegno_testkit::{Soak, SoakSample};

/// What is asked for.
struct Arguments {
    length: Duration,
    runs: usize,
    seed: u64,
    /// Prints nothing but the end.
    quiet: bool,
}

fn arguments() -> Result<Arguments, String> {
    let mut found = Arguments { length: Duration::from_secs(600), runs: 200, seed: 1, quiet: false };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut number = |most: u64| {
            let number = words.next().and_then(|word| word.parse().ok());
            number
                .filter(|number| (1..=most).contains(number))
                .ok_or_else(|| format!("`{word}` takes a number from 1 to {most}"))
        };
        match word.as_str() {
            "--minutes" => found.length = Duration::from_secs(60 * number(10_000)?),
            "--seconds" => found.length = Duration::from_secs(number(600_000)?),
            "--runs" => found.runs = usize::try_from(number(10_000)?).unwrap_or(usize::MAX),
            "--seed" => found.seed = number(u64::MAX)?,
            "--quiet" => found.quiet = true,
            _ => {
                return Err(format!(
                    "`{word}` is not known: --minutes N, --seconds N, --runs N, --seed N, --quiet"
                ));
            }
        }
    }
    Ok(found)
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
    let mut next = Duration::ZERO;
    let tell = |sample: &SoakSample| {
        if arguments.quiet || sample.after < next {
            return;
        }
        next = sample.after + Duration::from_secs(30);
        let memory = sample.memory.map_or("?".to_owned(), |memory| format!("{:.1} MB", memory as f64 / 1e6));
        let SoakSample { started, ended, broken, .. } = sample;
        let seconds = sample.after.as_secs();
        let _ = writeln!(
            std::io::stderr(),
            "{seconds} s: {started} started, {ended} ended, {memory}, {broken} broken"
        );
    };
    let report = match Soak::new(arguments.length, arguments.runs).with_seed(arguments.seed).run(tell) {
        Ok(report) => report,
        Err(error) => {
            let _ = writeln!(out, "{error}");
            return ExitCode::from(2);
        }
    };
    let _ = writeln!(out, "{report}");
    let flat = report.memory.is_none_or(|memory| memory.is_flat());
    if report.broken.is_empty() && flat { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

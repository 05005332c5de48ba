//! The tests that take longest.
//!
//! Cargo starts each test program through this one. It asks the harness for the seconds of each test, prints what the
//! program prints, and notes the seconds in a file.

use std::env;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context as _, ensure};

use crate::process::passed_on;

/// The command by which Cargo starts a test program. It is not in the help text.
pub(crate) const VERB: &str = "time-tests";

/// How many tests are listed.
const LISTED: usize = 10;

/// Tests that take less are not noted, in seconds.
const LEAST: f64 = 0.1;

/// Begins a new list, and returns the arguments by which Cargo starts test programs through this one.
///
/// # Errors
/// This program does not know where it lies, or the old list cannot be removed.
pub(crate) fn begin() -> anyhow::Result<[String; 2]> {
    let notes = notes()?;
    if notes.exists() {
        fs::remove_file(&notes).with_context(|| format!("cannot remove `{}`", notes.display()))?;
    }
    let program = env::current_exe()?;
    let program = program.to_str().context("the path of this program is not UTF-8")?;
    // A literal string of TOML has no escapes.
    ensure!(!program.contains('\''), "the path of this program has an apostrophe: `{program}`");
    Ok(["--config".to_owned(), format!("target.'cfg(all())'.runner = ['{program}', '{VERB}']")])
}

/// Runs a test program, prints what it prints, and notes the seconds of its tests.
///
/// # Errors
/// It cannot be started, or the seconds cannot be noted.
pub(crate) fn run(mut arguments: Vec<OsString>) -> anyhow::Result<ExitCode> {
    ensure!(!arguments.is_empty(), "`{VERB}` needs the test program and its arguments");
    let program = PathBuf::from(arguments.remove(0));
    let mut command = Command::new(&program);
    command.args(arguments);
    // The examples of the documentation have a harness of their own.
    let is_test = program.parent().is_some_and(|folder| folder.ends_with("deps"));
    if !is_test {
        return Ok(passed_on(
            command.status().with_context(|| format!("cannot start `{}`", program.display()))?,
        ));
    }
    // The harness has no stable way to tell the time of a test. The variable permits the flag to this program alone:
    // nothing is compiled here.
    command.args(["-Zunstable-options", "--report-time"]).env("RUSTC_BOOTSTRAP", "1");
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start `{}`", program.display()))?;
    let (mut noted, mut out) = (String::new(), std::io::stdout().lock());
    for line in BufReader::new(child.stdout.take().context("no standard output")?).split(b'\n') {
        let line = line?;
        out.write_all(&line)?;
        out.write_all(b"\n")?;
        if let Some((test, seconds)) =
            timed(&String::from_utf8_lossy(&line)).filter(|(_, spent)| *spent >= LEAST)
        {
            writeln!(noted, "{seconds}\t{}::{test}", name(&program))?;
        }
    }
    let mut notes = OpenOptions::new().create(true).append(true).open(notes()?)?;
    notes.write_all(noted.as_bytes())?;
    Ok(passed_on(child.wait()?))
}

/// Returns the tests that took longest, a line each, longest first.
///
/// # Errors
/// The list cannot be read.
pub(crate) fn report() -> anyhow::Result<String> {
    let notes = notes()?;
    let noted = fs::read_to_string(&notes).with_context(|| format!("cannot read `{}`", notes.display()))?;
    Ok(longest(&noted))
}

/// The lines of the tests that took longest.
fn longest(noted: &str) -> String {
    let mut tests: Vec<(f64, &str)> = noted
        .lines()
        .filter_map(|line| {
            let (seconds, test) = line.split_once('\t')?;
            Some((seconds.parse().ok()?, test))
        })
        .collect();
    tests.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    tests.iter().take(LISTED).fold(String::new(), |mut text, (seconds, test)| {
        let _ = writeln!(text, "{seconds:>8.1} s  {test}");
        text
    })
}

/// The name of a test and its seconds, in a line of the harness: `test a::b ... ok <1.234s>`.
fn timed(line: &str) -> Option<(&str, f64)> {
    let (test, rest) = line.strip_prefix("test ")?.split_once(" ... ")?;
    let seconds = rest.rsplit_once('<')?.1.strip_suffix("s>")?;
    Some((test, seconds.parse().ok()?))
}

/// The name of a test program, without the digits that Cargo appends.
fn name(program: &Path) -> String {
    let stem = program.file_stem().unwrap_or_default().to_string_lossy();
    stem.rsplit_once('-').map_or(stem.as_ref(), |(name, _)| name).to_owned()
}

/// Where the seconds are noted: beside this program.
fn notes() -> anyhow::Result<PathBuf> {
    Ok(env::current_exe()
        .context("this program does not know where it lies")?
        .with_file_name("test-times.txt"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seconds_of_a_test_are_read() {
        assert_eq!(timed("test laws::order ... ok <1.250s>"), Some(("laws::order", 1.25)));
        assert_eq!(timed("test a - should panic ... FAILED <0.001s>"), Some(("a - should panic", 0.001)));
        assert_eq!(timed("test result: ok. 45 passed; finished in 1.20s"), None);
        assert_eq!(timed("test a ... ignored, needs a network"), None);
        assert_eq!(timed("a test ... ok <1.250s>"), None);
    }

    #[test]
    fn the_longest_come_first_and_are_ten() {
        let noted: String = (1..=12).map(|number| format!("{number}.5\ttest{number}\n")).collect();
        let list = longest(&noted);
        assert_eq!(list.lines().count(), 10);
        assert!(list.starts_with("    12.5 s  test12\n    11.5 s  test11\n"), "{list}");
    }

    #[test]
    fn a_program_is_named_without_its_digits() {
        assert_eq!(name(Path::new("/t/debug/deps/dalsegno_core-cb3f4c7e6b504a11")), "dalsegno_core");
    }
}

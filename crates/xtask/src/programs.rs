//! The test programs: Cargo builds them one after another, and they run two at a time.
//!
//! Cargo itself would start each one when the one before has ended, and most of them keep a single core busy. So it starts this
//! program in their place, which notes each of them. When all are noted, they run beside each other, as many as there are
//! cores. What one prints is shown when it failed; the seconds of its tests are asked for.

use std::collections::VecDeque;
use std::env;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::Instant;

use anyhow::{Context as _, bail, ensure};

use crate::process::passed_on;

/// The command by which Cargo starts a test program. It is not in the help text.
pub(crate) const VERB: &str = "note-program";

/// The variables that Cargo sets for a test program, by their beginning.
const PASSED_ON: [&str; 5] = ["CARGO_MANIFEST_", "CARGO_PKG_", "DALSEGNO_", "LD_LIBRARY_PATH", "DYLD_"];

/// The programs that take as long as many others: they are started first, so that no core waits for one of them in the end.
const FIRST: [&str; 5] = ["seeds", "cli", "crash", "laws", "workspace"];

/// The variable that says how many tests the harness runs at once.
const THREADS: &str = "RUST_TEST_THREADS";

/// Tests that one program runs at once, for each core: most of them wait for another process, a socket or a clock.
const TESTS_A_CORE: usize = 4;

/// How many tests are listed.
const LISTED: usize = 10;

/// The arguments that make Cargo note test programs instead of starting them. What was noted before is forgotten.
///
/// # Errors
/// This program does not know where it lies, or the old notes cannot be removed.
pub(crate) fn noted() -> anyhow::Result<[String; 2]> {
    let folder = folder()?;
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("cannot remove `{}`", folder.display()))?;
    }
    fs::create_dir(&folder).with_context(|| format!("cannot make `{}`", folder.display()))?;
    let program = env::current_exe()?;
    let program = program.to_str().context("the path of this program is not UTF-8")?;
    // A literal string of TOML has no escapes.
    ensure!(!program.contains('\''), "the path of this program has an apostrophe: `{program}`");
    Ok(["--config".to_owned(), format!("target.'cfg(all())'.runner = ['{program}', '{VERB}']")])
}

/// Notes a test program. Examples of the documentation are run at once: they are gone when Cargo has ended.
///
/// # Errors
/// It cannot be noted or started.
pub(crate) fn note(mut arguments: Vec<OsString>) -> anyhow::Result<ExitCode> {
    ensure!(!arguments.is_empty(), "`{VERB}` needs the test program and its arguments");
    let path = PathBuf::from(arguments.remove(0));
    if path.parent().is_none_or(|parent| !parent.ends_with("deps")) {
        let status = Command::new(&path).args(arguments).status();
        return Ok(passed_on(status.with_context(|| format!("cannot start `{}`", path.display()))?));
    }
    ensure!(arguments.is_empty(), "arguments for test programs are not passed on");
    let program = Program {
        path: path.to_str().context("the path of a test program is not UTF-8")?.to_owned(),
        folder: env::current_dir()?.to_str().context("the path of a crate is not UTF-8")?.to_owned(),
        variables: env::vars()
            .filter(|(name, _)| PASSED_ON.iter().any(|beginning| name.starts_with(beginning)))
            .collect(),
    };
    let notes = folder()?;
    let number = fs::read_dir(&notes)?.count();
    fs::write(notes.join(format!("{number:04}")), program.written())?;
    Ok(ExitCode::SUCCESS)
}

/// Runs all programs that were noted, with one more variable if there is one, and lists the tests that took longest.
///
/// # Errors
/// One of them failed, or could not be started.
pub(crate) fn run(variable: Option<(&str, &str)>) -> anyhow::Result<String> {
    let notes = folder()?;
    let mut files: Vec<PathBuf> =
        fs::read_dir(&notes)?.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>()?;
    files.sort();
    ensure!(!files.is_empty(), "Cargo noted no test program in `{}`", notes.display());
    let mut programs = Vec::new();
    for file in files {
        let mut program = Program::read(&fs::read_to_string(&file)?).context("a note that is not ours")?;
        program.variables.extend(variable.map(|(name, value)| (name.to_owned(), value.to_owned())));
        programs.push(program);
    }
    programs.sort_by_key(|program| {
        FIRST.iter().position(|first| *first == program.name()).unwrap_or(FIRST.len())
    });
    let at_once = thread::available_parallelism().map_or(1, usize::from);
    if env::var_os(THREADS).is_none() {
        let threads = (THREADS.to_owned(), (TESTS_A_CORE * at_once).to_string());
        programs.iter_mut().for_each(|program| program.variables.push(threads.clone()));
    }
    let waiting = Mutex::new(VecDeque::from(programs));
    let next = || waiting.lock().map(|mut waiting| waiting.pop_front()).unwrap_or_default();
    let done = Mutex::new((String::new(), Vec::new()));
    thread::scope(|scope| {
        for worker in 0..at_once {
            let (next, done, output) = (&next, &done, notes.join(format!("output-{worker}")));
            scope.spawn(move || {
                while let Some(program) = next() {
                    let outcome = program.run(&output);
                    let Ok(mut done) = done.lock() else { return };
                    match outcome {
                        Ok(printed) => done.0 += &printed,
                        Err(error) => {
                            eprintln!("error: {error:#}");
                            done.1.push(program.again());
                        }
                    }
                }
            });
        }
    });
    let (times, failed) = done.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    if failed.is_empty() { Ok(longest(&times)) } else { bail!("these failed:\n{}", failed.join("\n")) }
}

/// A test program as Cargo would start it.
#[derive(Debug, PartialEq, Eq)]
struct Program {
    path: String,
    folder: String,
    variables: Vec<(String, String)>,
}

impl Program {
    /// As a note: its parts with a NUL between them.
    fn written(&self) -> String {
        self.variables.iter().fold(format!("{}\0{}", self.path, self.folder), |mut text, (name, value)| {
            let _ = write!(text, "\0{name}={value}");
            text
        })
    }

    fn read(note: &str) -> Option<Self> {
        let mut parts = note.split('\0').map(str::to_owned);
        let (path, folder) = (parts.next()?, parts.next()?);
        let variables = parts
            .map(|part| part.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned())))
            .collect::<Option<_>>()?;
        Some(Self { path, folder, variables })
    }

    /// Runs it, and returns what it printed. A line says how it went.
    fn run(&self, output: &Path) -> anyhow::Result<String> {
        let start = Instant::now();
        let written = File::create(output)?;
        let status = Command::new(&self.path)
            // The harness has no stable way to tell the time of a test. The variable permits the flag to this program alone:
            // nothing is compiled here.
            .args(["-Zunstable-options", "--report-time"])
            .env("RUSTC_BOOTSTRAP", "1")
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .current_dir(&self.folder)
            .stdin(Stdio::null())
            .stdout(written.try_clone()?)
            .stderr(written)
            .status()
            .with_context(|| format!("cannot start `{}`", self.path))?;
        let printed = String::from_utf8_lossy(&fs::read(output)?).into_owned();
        let seconds = start.elapsed().as_secs_f64();
        if !status.success() {
            eprintln!("{printed}");
            bail!("`{}` of {} ended with {status} after {seconds:.1} s", self.name(), self.package());
        }
        let result = printed.lines().rev().find_map(|line| line.strip_prefix("test result: ok. "));
        let counted = result.and_then(|line| line.split_once(" measured")).map_or("", |(counted, _)| counted);
        let passed = counted.split("; ").next().unwrap_or_default();
        eprintln!("{seconds:>8.1} s  {} {}: {passed}", self.package(), self.name());
        Ok(printed)
    }

    /// Its name, without the digits that Cargo appends.
    fn name(&self) -> &str {
        let stem = Path::new(&self.path).file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        stem.rsplit_once('-').map_or(stem, |(name, _)| name)
    }

    fn package(&self) -> &str {
        let name = self.variables.iter().find(|(name, _)| name == "CARGO_PKG_NAME");
        name.map_or("a package", |(_, value)| value)
    }

    /// The command that runs it again.
    fn again(&self) -> String {
        let (package, name) = (self.package(), self.name());
        if name == package.replace('-', "_") {
            format!("cargo test -p {package} --lib")
        } else {
            format!("cargo test -p {package} --test {name}")
        }
    }
}

/// The lines of the tests that took longest, longest first, in what test programs printed.
fn longest(printed: &str) -> String {
    let mut tests: Vec<(f64, &str)> =
        printed.lines().filter_map(timed).map(|(test, seconds)| (seconds, test)).collect();
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

/// Where programs are noted: beside this one.
fn folder() -> anyhow::Result<PathBuf> {
    Ok(env::current_exe()
        .context("this program does not know where it lies")?
        .with_file_name("test-programs"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(path: &str) -> Program {
        let variables = [("CARGO_PKG_NAME", "dalsegno-core"), ("CARGO_PKG_DESCRIPTION", "a = b\nc")];
        Program {
            path: path.to_owned(),
            folder: "/work".to_owned(),
            variables: variables.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        }
    }

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
        let printed: String =
            (1..=12).map(|number| format!("running\ntest test{number} ... ok <{number}.5s>\n")).collect();
        let list = longest(&printed);
        assert_eq!(list.lines().count(), 10);
        assert!(list.starts_with("    12.5 s  test12\n    11.5 s  test11\n"), "{list}");
    }

    #[test]
    fn a_program_is_named_without_its_digits() {
        let unit = program("/t/debug/deps/dalsegno_core-cb3f4c7e6b504a11");
        assert_eq!(unit.again(), "cargo test -p dalsegno-core --lib");
        let laws = program("/t/debug/deps/laws-cb3f4c7e6b504a11");
        assert_eq!(laws.again(), "cargo test -p dalsegno-core --test laws");
    }

    #[test]
    fn a_note_is_read_as_it_was_written() {
        let laws = program("/t/debug/deps/laws-cb3f4c7e6b504a11");
        assert_eq!(Program::read(&laws.written()), Some(laws));
        assert_eq!(Program::read("/t/laws"), None);
        assert_eq!(Program::read("/t/laws\0/work\0CARGO"), None);
    }

    #[test]
    #[cfg(unix)]
    fn a_program_that_fails_is_told_from_one_that_passes() {
        let output = env::temp_dir().join(format!("xtask-program-{}", std::process::id()));
        let error = program("/bin/false").run(&output).unwrap_err().to_string();
        assert!(error.starts_with("`false` of dalsegno-core ended with exit status: 1"), "{error}");
        assert_eq!(program("/bin/true").run(&output).unwrap(), "");
        let error = program("/no/such-program").run(&output).unwrap_err().to_string();
        assert_eq!(error, "cannot start `/no/such-program`");
        fs::remove_file(output).unwrap();
    }
}

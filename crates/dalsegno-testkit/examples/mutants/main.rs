//! Plants faults in a copy of the sources, one at a time, and writes down which of them are found, and by what.
//!
//! `cargo run -p dalsegno-testkit --example mutants -- [--seeds 60] [--only NAME] [--again] [--minutes N] [--work FOLDER]
//! [--target FOLDER]`
//!
//! The sources of this workspace are never changed: the copy is in FOLDER, which is made when it does not exist, and takes the
//! sources as they are otherwise. What is built goes into a folder of its own, `target/mutants`: in that of the workspace, Cargo would take
//! crates with a fault for the sources of today. The results are a table, `docs/planted-faults.md`, which is written
//! after each fault: what it has already is not done again, unless the fault has changed or `--again` is given.

mod copy;
mod table;

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::io::Write;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use serde::Deserialize;

use table::{Finding, Row, Table};

/// How long a check may take without any fault.
const PATIENCE: Duration = Duration::from_secs(3_600);

/// How many times as long a check may take with a fault, on a machine that does other things, too: one that makes it hang is
/// found.
const SLOWER: u32 = 4;

#[derive(Deserialize)]
struct File {
    mutant: Vec<Mutant>,
}

/// A planted fault.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Mutant {
    name: String,
    /// What no longer holds, in a line.
    breaks: String,
    /// The file, from the root of the workspace.
    file: PathBuf,
    /// Text that the file has exactly once.
    find: String,
    replace: String,
    /// What is to find it, as arguments of `cargo test`; the simulation where it is not said.
    #[serde(default)]
    check: Option<String>,
}

struct Arguments {
    seeds: String,
    only: Vec<String>,
    again: bool,
    until: Option<Instant>,
    work: PathBuf,
    target: PathBuf,
}

fn arguments(root: &Path) -> Result<Arguments, Box<dyn Error>> {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let value = match word.as_str() {
            "--again" => String::new(),
            "--seeds" | "--only" | "--minutes" | "--work" | "--target" => {
                words.next().ok_or_else(|| format!("`{word}` takes a value"))?
            }
            _ => {
                let known = "--seeds N, --only NAME, --again, --minutes N, --work FOLDER, --target FOLDER";
                return Err(format!("`{word}` is not known: {known}").into());
            }
        };
        found.entry(word).or_default().push(value);
    }
    let mut one = |name: &str| found.remove(name).and_then(|mut values| values.pop());
    let work = one("--work").map_or_else(|| std::env::temp_dir().join("dalsegno-mutants"), PathBuf::from);
    let target = one("--target").map_or_else(|| root.join("target/mutants"), PathBuf::from);
    let seeds = one("--seeds").unwrap_or_else(|| "60".to_owned());
    let again = one("--again").is_some();
    let minutes = one("--minutes").map(|minutes| minutes.parse::<u64>()).transpose()?;
    let until = minutes.map(|minutes| Instant::now() + Duration::from_secs(60 * minutes));
    Ok(Arguments { seeds, only: found.remove("--only").unwrap_or_default(), again, until, work, target })
}

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "{error}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<bool, Box<dyn Error>> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = here.ancestors().nth(2).ok_or("the crate is not in `crates/`")?;
    let arguments = arguments(root)?;
    fs::create_dir_all(&arguments.work)?;
    if fs::canonicalize(root)? == fs::canonicalize(&arguments.work)? {
        return Err("the faults are planted in a copy only: name another folder with `--work`".into());
    }
    copy::refresh(root, &arguments.work)?;
    let mutants = mutants(&here.join("mutants"))?;
    let file = root.join("docs/planted-faults.md");
    let mut table = Table::read(&file)?;
    table.keep(mutants.iter().map(|mutant| mutant.name.as_str()));
    let mut out = std::io::stdout().lock();
    // A check that fails without any fault says nothing about one.
    let mut sound: BTreeMap<String, Option<Duration>> = BTreeMap::new();
    let (count, mut number) = (mutants.len(), 0);
    for mutant in &mutants {
        number += 1;
        let print = copy::print(mutant);
        let wanted = match arguments.only.as_slice() {
            [] => arguments.again || !table.has(&mutant.name, &print),
            only => only.contains(&mutant.name),
        };
        let late = arguments.until.is_some_and(|until| Instant::now() > until);
        if !wanted || late {
            if !table.has(&mutant.name, &print) {
                table.set(&mutant.name, Row::new(&mutant.breaks, &print, Finding::NotRun));
            }
            continue;
        }
        let check = mutant.check.clone().unwrap_or_default();
        let patience = match sound.get(&check) {
            Some(patience) => *patience,
            None => {
                let (finding, took) = judge(&arguments, &check, PATIENCE)?;
                let (what, seconds) = (described(&check, &arguments), took.as_secs());
                writeln!(out, "without a fault: `{what}` {finding}, {seconds} s")?;
                let patience = Duration::from_secs(60) + SLOWER * took;
                let patience = matches!(finding, Finding::Survived).then_some(patience);
                sound.insert(check.clone(), patience);
                patience
            }
        };
        let began = Instant::now();
        let finding = match patience {
            Some(patience) => plant(&arguments, mutant, &check, patience)?,
            None => Finding::NotRun,
        };
        let seconds = began.elapsed().as_secs();
        writeln!(out, "{number:>4} of {count}  {:<28} {seconds:>4} s  {finding}", mutant.name)?;
        out.flush()?;
        table.set(&mutant.name, Row::new(&mutant.breaks, &print, finding));
        table.write(&file)?;
    }
    table.write(&file)?;
    writeln!(out, "{}", table.summary())?;
    Ok(table.survivors() == 0)
}

fn mutants(folder: &Path) -> Result<Vec<Mutant>, Box<dyn Error>> {
    let mut files: Vec<PathBuf> =
        fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>()?;
    files.retain(|file| file.extension().is_some_and(|extension| extension == "toml"));
    files.sort();
    let mut all = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file)?;
        all.extend(
            toml::from_str::<File>(&text).map_err(|error| format!("{}: {error}", file.display()))?.mutant,
        );
    }
    // Those of one crate after one another: what is built for one is nearly what the next one needs.
    all.sort_by(|one, other| (&one.check, crate_of(one)).cmp(&(&other.check, crate_of(other))));
    Ok(all)
}

fn crate_of(mutant: &Mutant) -> Option<&Path> {
    mutant.file.ancestors().nth(mutant.file.components().count().saturating_sub(2))
}

/// Plants a fault, judges it, and takes it out again.
fn plant(
    arguments: &Arguments,
    mutant: &Mutant,
    check: &str,
    patience: Duration,
) -> Result<Finding, Box<dyn Error>> {
    let path = arguments.work.join(&mutant.file);
    let before = fs::read_to_string(&path)?;
    if before.matches(&mutant.find).count() != 1 {
        return Ok(Finding::Useless("the file does not have the text exactly once".into()));
    }
    fs::write(&path, before.replacen(&mutant.find, &mutant.replace, 1))?;
    let finding = judge(arguments, check, patience);
    fs::write(&path, before)?;
    finding.map(|(finding, _)| finding)
}

/// What a check is called in the table.
fn described(check: &str, arguments: &Arguments) -> String {
    if check.is_empty() { format!("sim, {} seeds", arguments.seeds) } else { format!("test {check}") }
}

/// What a check says of the sources as they are, and how long it took once it was built.
fn judge(
    arguments: &Arguments,
    check: &str,
    patience: Duration,
) -> Result<(Finding, Duration), Box<dyn Error>> {
    let cargo = |words: &[&str]| {
        let mut command = Command::new("cargo");
        command.args(words).current_dir(&arguments.work).env("CARGO_TARGET_DIR", &arguments.target);
        command
    };
    let words: Vec<&str> = check.split_whitespace().collect();
    let build = if check.is_empty() {
        vec!["build", "--quiet", "--offline", "--workspace", "--example", "sim"]
    } else {
        [&["test", "--quiet", "--offline", "--no-run"][..], &words[..]].concat()
    };
    let built = cargo(&build).stdout(Stdio::null()).stderr(Stdio::piped()).output()?;
    if !built.status.success() {
        let words = String::from_utf8_lossy(&built.stderr);
        let first = words.lines().find(|line| line.starts_with("error")).unwrap_or_default().to_owned();
        return Ok((Finding::Useless(format!("it does not compile: {first}")), Duration::ZERO));
    }
    let output = arguments.work.join("check.out");
    let mut command = if check.is_empty() {
        let mut command = Command::new(arguments.target.join("debug/examples/sim"));
        command.args(["--quiet", "--brief", "--seeds", &arguments.seeds]);
        command
    } else {
        cargo(&[&["test", "--quiet", "--offline", "--no-fail-fast"][..], &words[..]].concat())
    };
    // A group of its own, so that the test ends with the cargo that runs it.
    command.process_group(0).stdout(fs::File::create(&output)?).stderr(Stdio::null());
    let mut child = command.spawn()?;
    let began = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if began.elapsed() > patience {
            let group = format!("-{}", child.id());
            Command::new("kill").args(["-KILL", "--", &group]).status()?;
            child.wait()?;
            let seconds = patience.as_secs();
            return Ok((Finding::Caught(format!("it hangs, for {seconds} s")), patience));
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let (took, words) = (began.elapsed(), fs::read_to_string(&output).unwrap_or_default());
    if status.success() {
        return Ok((Finding::Survived, took));
    }
    let first = if check.is_empty() {
        words.lines().next().unwrap_or_default().to_owned()
    } else {
        failed_test(&words).map_or_else(|| format!("test {check}"), |test| format!("test `{test}`"))
    };
    Ok((Finding::Caught(first), took))
}

/// The first test that failed, of what `cargo test` writes.
fn failed_test(words: &str) -> Option<String> {
    let name = |line: &str| {
        let rest = line.strip_prefix("---- ")?.strip_suffix(" stdout ----")?;
        Some(rest.to_owned())
    };
    words.lines().find_map(name)
}

//! Plants faults in a copy of the sources, one at a time, and says which of them the simulation finds.
//!
//! `cargo run -p dalsegno-testkit --example mutants -- [--seeds 300] [--only NAME] [--work FOLDER] [--target FOLDER]`
//!
//! The sources of this workspace are never changed: the copy is in FOLDER, which is made when it does not exist, and is
//! used as it is when it does.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use serde::Deserialize;

/// How long the seeds of one mutant may take: one that hangs is found, too.
const PATIENCE: Duration = Duration::from_secs(300);

/// What is built and run in the copy is not optimised, where it is what changes.
const PROFILE: &str = "\n[profile.dev.package.dalsegno-testkit]\nopt-level = 0\ndebug = false\n\
    [profile.dev.package.dalsegno-runtime]\nopt-level = 0\ndebug = false\n\
    [profile.dev.package.dalsegno-store]\nopt-level = 0\ndebug = false\n";

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
}

/// What became of a mutant.
enum Verdict {
    Caught {
        by: String,
    },
    Survived,
    /// It says nothing: the text is gone, or the result does not compile.
    Useless {
        why: String,
    },
}

struct Arguments {
    seeds: String,
    only: Vec<String>,
    work: PathBuf,
    target: PathBuf,
}

fn arguments() -> Result<Arguments, Box<dyn Error>> {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        if !["--seeds", "--only", "--work", "--target"].contains(&word.as_str()) {
            return Err(format!(
                "`{word}` is not known: --seeds N, --only NAME, --work FOLDER, --target FOLDER"
            )
            .into());
        }
        let value = words.next().ok_or_else(|| format!("`{word}` takes a value"))?;
        found.entry(word).or_default().push(value);
    }
    let mut one = |name: &str| found.remove(name).and_then(|mut values| values.pop());
    let work = one("--work").map_or_else(|| std::env::temp_dir().join("dalsegno-mutants"), PathBuf::from);
    let target = one("--target").map_or_else(|| work.join("target"), PathBuf::from);
    let seeds = one("--seeds").unwrap_or_else(|| "300".to_owned());
    Ok(Arguments { seeds, only: found.remove("--only").unwrap_or_default(), work, target })
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
    let arguments = arguments()?;
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = here.ancestors().nth(2).ok_or("the crate is not in `crates/`")?;
    if !arguments.work.join("Cargo.toml").exists() {
        copy(root, &arguments.work)?;
    }
    if fs::canonicalize(root)? == fs::canonicalize(&arguments.work)? {
        return Err("the faults are planted in a copy only: name another folder with `--work`".into());
    }
    let mut out = std::io::stdout().lock();
    if let Verdict::Caught { by } = judge(&arguments)? {
        return Err(format!("without any planted fault: {by}").into());
    }
    let (mut caught, mut survivors, mut useless) = (0, Vec::new(), Vec::new());
    for mutant in mutants(&here.join("mutants"))? {
        if !arguments.only.is_empty() && !arguments.only.contains(&mutant.name) {
            continue;
        }
        let began = Instant::now();
        let verdict = plant(&arguments, &mutant)?;
        let seconds = began.elapsed().as_secs();
        let words = match verdict {
            Verdict::Caught { by } => {
                caught += 1;
                format!("caught    {by}")
            }
            Verdict::Survived => {
                survivors.push(mutant.name.clone());
                format!("SURVIVED  {}", mutant.breaks)
            }
            Verdict::Useless { why } => {
                useless.push(mutant.name.clone());
                format!("useless   {why}")
            }
        };
        writeln!(out, "{:<28} {seconds:>4} s  {words}", mutant.name)?;
        out.flush()?;
    }
    let all = caught + survivors.len();
    writeln!(out, "{caught} of {all} caught; survivors: {survivors:?}; useless: {useless:?}")?;
    Ok(survivors.is_empty() && useless.is_empty())
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
    Ok(all)
}

/// Plants a fault, judges it, and takes it out again.
fn plant(arguments: &Arguments, mutant: &Mutant) -> Result<Verdict, Box<dyn Error>> {
    let path = arguments.work.join(&mutant.file);
    let before = fs::read_to_string(&path)?;
    if before.matches(&mutant.find).count() != 1 {
        return Ok(Verdict::Useless { why: "the file does not have the text exactly once".into() });
    }
    fs::write(&path, before.replacen(&mutant.find, &mutant.replace, 1))?;
    let verdict = judge(arguments);
    fs::write(&path, before)?;
    verdict
}

fn judge(arguments: &Arguments) -> Result<Verdict, Box<dyn Error>> {
    let built = Command::new("cargo")
        .args(["build", "--quiet", "--offline", "--example", "sim"])
        .current_dir(&arguments.work)
        .env("CARGO_TARGET_DIR", &arguments.target)
        .stderr(Stdio::piped())
        .output()?;
    if !built.status.success() {
        let words = String::from_utf8_lossy(&built.stderr);
        let first = words.lines().find(|line| line.starts_with("error")).unwrap_or_default().to_owned();
        return Ok(Verdict::Useless { why: format!("it does not compile: {first}") });
    }
    let output = arguments.work.join("sim.out");
    let mut child = Command::new(arguments.target.join("debug/examples/sim"))
        .args(["--quiet", "--brief", "--seeds", &arguments.seeds])
        .stdout(fs::File::create(&output)?)
        .stderr(Stdio::null())
        .spawn()?;
    let began = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if began.elapsed() > PATIENCE {
            child.kill()?;
            child.wait()?;
            return Ok(Verdict::Caught { by: format!("it hangs, for {} s", PATIENCE.as_secs()) });
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let words = fs::read_to_string(&output)?;
    let first: String = words.lines().next().unwrap_or_default().chars().take(150).collect();
    Ok(match status.code() {
        Some(0) => Verdict::Survived,
        Some(1) => Verdict::Caught { by: first },
        _ => Verdict::Caught { by: format!("the simulation stops ({status}): {first}") },
    })
}

/// Copies the workspace, without what was built.
fn copy(root: &Path, work: &Path) -> Result<(), Box<dyn Error>> {
    fs::create_dir_all(work)?;
    for name in ["Cargo.toml", "Cargo.lock", "crates"] {
        copy_all(&root.join(name), &work.join(name))?;
    }
    let manifest = work.join("Cargo.toml");
    let text = fs::read_to_string(&manifest)?;
    fs::write(&manifest, text + PROFILE)?;
    Ok(())
}

fn copy_all(from: &Path, to: &Path) -> Result<(), Box<dyn Error>> {
    if !from.is_dir() {
        fs::copy(from, to)?;
        return Ok(());
    }
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let name = entry.file_name();
        if name != "target" {
            copy_all(&entry.path(), &to.join(name))?;
        }
    }
    Ok(())
}

//! `cargo xtask dist`: makes the packages that users install.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line tool speaks on its standard streams"
)]

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, fs};

use anyhow::{Context as _, bail};
use xtask_dist::gather::Sources;
use xtask_dist::{check, packages};

/// The help text.
const USAGE: &str = "\
Makes the packages that users install, of a binary with the profile `dist`.

Usage: cargo xtask dist [OPTIONS]

Options:
  --check          Install each package in a clean place, run an agent there, and report sizes and start times
  --offline        Use no network
  --out <FOLDER>   Write the packages there instead of `target/packages`
  --binary <FILE>  Pack this binary instead of building one: for work on the packages themselves
  --help           Print this text
";

/// What was asked for.
#[derive(Debug, Default, PartialEq, Eq)]
struct Arguments {
    check: bool,
    offline: bool,
    out: Option<PathBuf>,
    binary: Option<PathBuf>,
    help: bool,
}

fn main() -> ExitCode {
    match parse(env::args_os().skip(1)).and_then(|arguments| run(&arguments)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Reads the arguments.
fn parse(mut words: impl Iterator<Item = OsString>) -> anyhow::Result<Arguments> {
    let mut arguments = Arguments::default();
    while let Some(word) = words.next() {
        let mut value =
            || words.next().map(PathBuf::from).with_context(|| format!("`{}` needs a value", word.display()));
        match word.to_str() {
            Some("--check") => arguments.check = true,
            Some("--offline") => arguments.offline = true,
            Some("--out") => arguments.out = Some(value()?),
            Some("--binary") => arguments.binary = Some(value()?),
            Some("--help" | "-h") => arguments.help = true,
            _ => bail!("`dist` has no option `{}`: `cargo xtask dist --help` lists them", word.display()),
        }
    }
    Ok(arguments)
}

/// Makes the packages, and checks them if that was asked for.
fn run(arguments: &Arguments) -> anyhow::Result<()> {
    if arguments.help {
        print!("{USAGE}");
        return Ok(());
    }
    let sources = Sources::read(arguments.offline)?;
    let folder = arguments.out.clone().unwrap_or_else(|| sources.folder());
    // Before the build, which takes minutes.
    prepare(&folder)?;
    let binary = match &arguments.binary {
        Some(binary) => binary.clone(),
        None => sources.build()?,
    };
    let libraries = sources.libraries()?;
    let product = sources.product(&binary, &libraries)?;
    for package in packages(&product, &libraries)? {
        let path = folder.join(&package.name);
        fs::write(&path, &package.bytes).with_context(|| unwritable(&path))?;
        println!("{}", path.display());
    }
    if arguments.check {
        println!("{}", check::run(&product, &folder, arguments.binary.is_none())?);
    }
    Ok(())
}

/// Makes the folder of the packages, and tries to write there.
fn prepare(folder: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(folder).with_context(|| unwritable(folder))?;
    tempfile::tempfile_in(folder).with_context(|| unwritable(folder))?;
    Ok(())
}

/// Says what to do about a folder that cannot be written to.
fn unwritable(path: &Path) -> String {
    format!(
        "cannot write `{}`: choose another folder with `--out FOLDER`, or with CARGO_TARGET_DIR for the build as well",
        path.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &[&str]) -> Result<Arguments, String> {
        parse(words.iter().map(OsString::from)).map_err(|error| error.to_string())
    }

    #[test]
    fn options_may_have_any_order() {
        let expected = Arguments { check: true, out: Some("there".into()), ..Arguments::default() };
        assert_eq!(read(&["--out", "there", "--check"]), Ok(expected));
    }

    #[test]
    fn an_unknown_option_and_a_missing_value_are_named() {
        assert!(read(&["--fast"]).unwrap_err().contains("`--fast`"));
        assert!(read(&["--out"]).unwrap_err().contains("`--out` needs a value"));
    }

    #[test]
    fn the_help_has_every_option() {
        for option in ["--check", "--offline", "--out", "--binary", "--help"] {
            assert!(USAGE.contains(option), "{option}");
        }
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_named_before_the_build() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = prepare(&file.path().join("below")).unwrap_err().to_string();
        assert!(error.contains("--out FOLDER"), "{error}");
    }
}

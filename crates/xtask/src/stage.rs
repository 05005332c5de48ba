//! The check that a commit has to pass, stage by stage.

use std::env;
use std::time::Instant;

use anyhow::Context as _;

use crate::build::{self, GUEST_FOLDER, GUESTS};
use crate::doors;
use crate::process::{cargo, perform, perform_unwarned};
use crate::programs;
use crate::toolchain::{GUEST_TARGET, ensure_component, ensure_target};

/// One part of the check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The sources are formatted.
    Fmt,
    /// The tool servers compile to WebAssembly.
    Guests,
    /// Clippy has nothing to say.
    Clippy,
    /// Each offered set of features compiles, and the smallest one runs agents.
    Features,
    /// All tests and all examples in the documentation pass.
    Test,
    /// The documentation has no broken links.
    Doc,
    /// The core is pure.
    Doors,
}

impl Stage {
    /// Every stage, the quickest to fail first; the tests need the guests.
    pub(crate) const ALL: [Self; 7] =
        [Self::Fmt, Self::Guests, Self::Clippy, Self::Features, Self::Test, Self::Doc, Self::Doors];

    /// Returns the name on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Fmt => "fmt",
            Self::Guests => "guests",
            Self::Clippy => "clippy",
            Self::Features => "features",
            Self::Test => "test",
            Self::Doc => "doc",
            Self::Doors => "doors",
        }
    }

    /// Runs the stage.
    fn run(self) -> anyhow::Result<()> {
        match self {
            Self::Fmt => fmt(),
            Self::Guests => build::guests(),
            Self::Clippy => clippy(),
            Self::Features => features(),
            Self::Test => test(),
            Self::Doc => doc(),
            Self::Doors => doors::check(),
        }
    }
}

/// Runs the stages in their order, with a headline and the seconds of each, up to the first that fails.
///
/// # Errors
/// A stage failed.
pub(crate) fn run_all(stages: &[Stage]) -> anyhow::Result<()> {
    let mut report = String::from("passed:");
    for stage in stages {
        let name = stage.name();
        eprintln!("\n=== {name}");
        let start = Instant::now();
        let outcome = stage.run();
        let seconds = start.elapsed().as_secs_f64();
        eprintln!("=== {name}: {} after {seconds:.1} s", if outcome.is_ok() { "passed" } else { "failed" });
        outcome.with_context(|| format!("stage `{name}` (again: `cargo xtask test --only {name}`)"))?;
        report += &format!(" {name} {seconds:.1} s,");
    }
    eprintln!("\n{}", report.trim_end_matches(','));
    Ok(())
}

fn fmt() -> anyhow::Result<()> {
    ensure_component("fmt", "rustfmt")?;
    perform(cargo().args(["fmt", "--all", "--check"]))?;
    perform(cargo().args(["fmt", "--all", "--check"]).args(GUESTS))
}

fn clippy() -> anyhow::Result<()> {
    ensure_component("clippy", "clippy")?;
    ensure_target(GUEST_TARGET)?;
    let deny_warnings = ["--", "-D", "warnings"];
    perform(cargo().args(["clippy", "--locked", "--workspace", "--all-targets"]).args(deny_warnings))?;
    perform(
        // The profile of the build, so that macros and build scripts are compiled once.
        cargo()
            .args([
                "clippy",
                "--locked",
                "--workspace",
                "--all-targets",
                "--release",
                "--target",
                GUEST_TARGET,
            ])
            .args(GUESTS)
            .args(GUEST_FOLDER)
            .args(deny_warnings),
    )
}

/// The crates that are chosen for a set of features. Cargo unites the features of third-party libraries over all chosen crates:
/// over these they are the same as over the whole workspace, with each feature of the engine, so that they are compiled already.
const CHOSEN: [&str; 10] = [
    "dalsegno",
    "dalsegno-cli",
    "dalsegno-models",
    "dalsegno-runtime",
    "dalsegno-sandbox",
    "dalsegno-server",
    "dalsegno-store",
    "dalsegno-telemetry",
    "dalsegno-testkit",
    "xtask-dist",
];

/// What is compiled of the engine and of the command with one of their features alone: each feature that code of theirs depends on.
const ALONE: [(&str, &[&str]); 4] = [
    ("the engine with `mail` alone", &["--features=dalsegno-runtime/mail"]),
    ("the engine with `wasm` alone", &["--features=dalsegno-runtime/wasm"]),
    ("the engine and the command with `oauth` alone", &["--bin=dalsegno", "--features=dalsegno-cli/oauth"]),
    ("the command with `serve` alone", &["--bin=dalsegno", "--features=dalsegno-cli/serve"]),
];

fn features() -> anyhow::Result<()> {
    let small = |verb: &str| {
        let mut command = cargo();
        command.args([verb, "--locked", "--no-default-features", "--test=small"]);
        for name in CHOSEN {
            command.args(["-p", name]);
        }
        command
    };
    // Clippy has seen the code with all features, and sees what stands in for a feature below: the compiler is enough here, in half
    // the time.
    for (what, arguments) in ALONE {
        eprintln!("{what}");
        perform_unwarned(small("check").args(arguments))?;
    }
    eprintln!("the engine and the command with none, and an agent that runs so");
    perform(small("clippy").arg("--bin=dalsegno").args(["--", "-D", "warnings"]))?;
    perform(&mut small("test"))?;
    eprintln!("the library with none, by itself: what it needs of third-party libraries, it asks for");
    perform_unwarned(cargo().args(["check", "--locked", "-p", "dalsegno", "--no-default-features"]))
}

/// The seed of the tests of properties, so that a commit passes or fails alike on every machine. `cargo test` draws another
/// one each time.
const PROPERTY_SEED: (&str, &str) = ("PROPTEST_RNG_SEED", "1");

fn test() -> anyhow::Result<()> {
    // The tests of the sandbox start the guests; when they are up to date this takes no time.
    build::guests()?;
    // What a guest computes is tested on the host: it needs no WebAssembly for that.
    perform(cargo().args(["test", "--locked", "--workspace"]).args(GUESTS).args(GUEST_FOLDER))?;
    let mut tests = cargo();
    tests.args(["test", "--locked", "--workspace"]).args(programs::noted()?);
    // Cargo notes them and runs the examples of the documentation.
    perform(&mut tests)?;
    let seed = env::var_os(PROPERTY_SEED.0).is_none().then_some(PROPERTY_SEED);
    eprint!("\nthe slowest tests:\n{}", programs::run(seed)?);
    Ok(())
}

fn doc() -> anyhow::Result<()> {
    perform(cargo().args(["doc", "--locked", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings"))
}

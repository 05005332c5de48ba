//! A workspace in a temporary folder, and the command run in it with a cleared environment.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

/// The command under test.
pub(crate) const DALSEGNO: &str = env!("CARGO_BIN_EXE_dalsegno");

/// What differs from run to run.
pub(crate) const FILTERS: &[(&str, &str)] = &[
    (r"\b[0-9a-f]{64}\b", "[KEY]"),
    (r"[0-9a-f]{32}", "[ID]"),
    (r"\b[0-9a-f]{16}\b", "[SHOWN]"),
    (r"\b[0-9a-f]{12}\b", "[SHORT]"),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "[TIME]"),
    (r"\d+\.\d\d? s\b", "[TOOK]"),
    (r"\d+ ms\b", "[MS]"),
];

/// A photograph of one run of the command: exit code, data, words.
macro_rules! photograph {
    ($output:expr, @$snapshot:literal) => {
        insta::with_settings!({ filters => $crate::support::FILTERS.to_vec() }, {
            insta::assert_snapshot!($output, @$snapshot);
        });
    };
}
pub(crate) use photograph;

/// A workspace in a temporary folder.
pub(crate) struct Workspace {
    folder: TempDir,
    /// The programs that it names are agreed to.
    trusted: bool,
}

impl Workspace {
    /// An empty folder.
    pub(crate) fn empty() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), trusted: false }
    }

    /// The same, with the programs agreed to that it starts.
    pub(crate) fn trusted(self) -> Self {
        Self { trusted: true, ..self }
    }

    /// Agents that need nothing but the engine.
    pub(crate) fn plain() -> Self {
        Self::copy("plain")
    }

    /// An agent with a real tool server whose effect waits for a person.
    pub(crate) fn guarded() -> Self {
        let workspace = Self::copy("guarded");
        fs::copy(guest("risk"), workspace.path("risk.wasm")).unwrap();
        workspace
    }

    fn copy(fixture: &str) -> Self {
        let workspace = Self::empty();
        copy_folder(
            &Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(fixture),
            &workspace.path(""),
        );
        workspace
    }

    /// A path inside.
    pub(crate) fn path(&self, relative: &str) -> PathBuf {
        self.folder.path().join(relative)
    }

    /// Writes a file.
    pub(crate) fn write(&self, relative: &str, text: &str) {
        let path = self.path(relative);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// The command in this folder, not yet started.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(DALSEGNO);
        command.args(self.trusted.then_some("--trust"));
        command.args(args).current_dir(self.folder.path()).env_clear().stdin(Stdio::null());
        // To compile a guest takes seconds, so that all tests share what the first one compiled.
        command.envs(kept());
        command
    }

    /// Runs the command; returns what a person would see.
    pub(crate) fn dalsegno(&self, args: &[&str]) -> String {
        self.shown(&self.command(args).output().unwrap())
    }

    /// Runs the command with something on standard input.
    pub(crate) fn dalsegno_with_input(&self, args: &[&str], input: &str) -> String {
        let mut command = self.command(args);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        self.shown(&child.wait_with_output().unwrap())
    }

    /// Runs the command, which must succeed; returns its data.
    pub(crate) fn succeed(&self, args: &[&str]) -> String {
        let output = self.command(args).output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", self.shown(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs the command with `--json`; returns its document.
    pub(crate) fn json(&self, args: &[&str]) -> serde_json::Value {
        let output = self.command(args).arg("--json").output().unwrap();
        serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", self.shown(&output)))
    }

    /// The digits of the first approval that the last run waits for: who names them has seen it.
    pub(crate) fn seen(&self) -> String {
        self.json(&["show", "last"])["waiting_for"][0]["shown"].as_str().unwrap().to_owned()
    }

    /// A photograph: the exit code and both streams, with the folder's own path taken out.
    pub(crate) fn shown(&self, output: &Output) -> String {
        let text = |bytes: &[u8]| {
            let text = String::from_utf8_lossy(bytes).into_owned();
            text.replace(&*self.folder.path().to_string_lossy(), "[WORKSPACE]")
        };
        let code = output.status.code().map_or_else(|| "none".to_owned(), |code| code.to_string());
        format!("exit code: {code}\n--- stdout\n{}--- stderr\n{}", text(&output.stdout), text(&output.stderr))
    }
}

/// Where the command keeps compiled modules, and the key for these: never in anybody's home.
pub(crate) fn kept() -> [(&'static str, PathBuf); 2] {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR"));
    [("DALSEGNO_CACHE", target.join("compiled")), ("DALSEGNO_STATE", target.join("state"))]
}

/// A compiled tool server.
pub(crate) fn guest(name: &str) -> PathBuf {
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tool-servers/target/wasm32-wasip2/release");
    let folder = std::env::var_os("DALSEGNO_GUESTS").map_or(built, PathBuf::from);
    let guest = folder.join(format!("{name}.wasm"));
    assert!(guest.is_file(), "`{}` is missing: build the guests first: cargo xtask guests", guest.display());
    guest
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in from.read_dir().unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_folder(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

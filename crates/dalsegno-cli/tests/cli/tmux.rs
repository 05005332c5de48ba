//! A real terminal of 80 columns and 24 lines, drawn by tmux: what a person sees, and what their keys do.
#![allow(dead_code, reason = "no test needs all of it")]

use std::io::Write;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

const DALSEGNO: &str = env!("CARGO_BIN_EXE_dalsegno");

/// The longest that a screen may take to show something: far more than it takes, and an end for a test that fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// The time between two looks at a screen.
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);

/// Tells terminals apart.
static NEXT: AtomicUsize = AtomicUsize::new(0);

/// A terminal of 80 columns and 24 lines, with a shell in it that runs the command.
pub(crate) struct Terminal {
    /// The socket of a tmux server of its own.
    socket: PathBuf,
    /// What comes before was seen already.
    seen: usize,
}

impl Terminal {
    pub(crate) fn open(folder: &TempDir, args: &str) -> Self {
        Self::open_with(folder, args, "")
    }

    /// The same with more variables.
    pub(crate) fn open_with(folder: &TempDir, args: &str, env: &str) -> Self {
        Self::open_sized(folder, args, env, 80, 24)
    }

    /// The same with more variables and another size.
    pub(crate) fn open_sized(folder: &TempDir, args: &str, env: &str, columns: u16, lines: u16) -> Self {
        // A server that is about to end still has its socket.
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        let terminal = Self { socket: folder.path().join(format!("tmux-{next}")), seen: 0 };
        let command = format!(
            "env -i TERM=xterm NO_COLOR=1 {env} '{DALSEGNO}' {args}; echo \"ended with $?\"; exec cat"
        );
        let folder = folder.path().to_str().unwrap();
        terminal.tmux(&[
            "new-session",
            "-d",
            "-x",
            &columns.to_string(),
            "-y",
            &lines.to_string(),
            "-c",
            folder,
            &command,
        ]);
        terminal
    }

    pub(crate) fn tmux(&self, args: &[&str]) -> String {
        let output = Command::new("tmux")
            .args(["-u", "-f", "/dev/null", "-S"])
            .arg(&self.socket)
            .args(args)
            .env_remove("TMUX")
            .output()
            .expect("this test needs `tmux`");
        assert!(output.status.success(), "{args:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    pub(crate) fn types(&self, keys: &str) {
        self.tmux(&["send-keys", "-l", keys]);
        self.tmux(&["send-keys", "Enter"]);
    }

    /// Presses keys by their names, such as `Left`.
    pub(crate) fn presses(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys"], keys].concat());
    }

    /// Pastes a text, as a person does with the mouse.
    pub(crate) fn pastes(&self, text: &str) {
        self.tmux(&["set-buffer", text]);
        self.tmux(&["paste-buffer", "-p"]);
    }

    pub(crate) fn types_ctrl_c(&self) {
        self.tmux(&["send-keys", "C-c"]);
    }

    /// Waits until this is among the lines that the terminal shows now.
    pub(crate) fn now(&self, words: &str) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let screen = self.tmux(&["capture-pane", "-p"]);
            if screen.contains(words) {
                return;
            }
            assert!(Instant::now() < deadline, "the screen does not show `{words}`:\n{screen}");
            thread::sleep(BETWEEN_LOOKS);
        }
    }

    /// Waits until the terminal says this of itself, such as `#{pane_title}`.
    pub(crate) fn says(&self, format: &str, words: &str) {
        let deadline = Instant::now() + PATIENCE;
        while self.tmux(&["display-message", "-p", format]).trim() != words {
            assert!(Instant::now() < deadline, "`{format}` is not `{words}`");
            thread::sleep(BETWEEN_LOOKS);
        }
    }

    /// The lines that the terminal shows or has shown.
    pub(crate) fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p", "-J", "-S", "-"])
    }

    /// Waits until this is on the screen, below what was seen before.
    pub(crate) fn shows(&mut self, words: &str) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let screen = self.screen();
            if let Some(place) = screen.get(self.seen..).and_then(|below| below.find(words)) {
                self.seen += place + words.len();
                return;
            }
            assert!(Instant::now() < deadline, "the screen does not show `{words}`:\n{screen}");
            thread::sleep(BETWEEN_LOOKS);
        }
    }
}

/// Says whether this machine has the terminal that the tests draw; where it has not, they are skipped, and say so.
pub(crate) fn has_terminal() -> bool {
    let found = Command::new("tmux").arg("-V").output().is_ok_and(|output| output.status.success());
    if !found {
        let mut stderr = std::io::stderr().lock();
        let _ = writeln!(
            stderr,
            "SKIPPED: this machine has no `tmux`: install it to drive `dalsegno` in a terminal"
        );
    }
    found
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = Command::new("tmux").arg("-S").arg(&self.socket).arg("kill-server").output();
    }
}

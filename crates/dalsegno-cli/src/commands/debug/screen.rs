//! The terminal as a screen, and as it was before.

use std::io::{self, Stdout, stdout};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use dalsegno_debugger::{HEIGHT_MIN, Key, Model, WIDTH_MIN, draw};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};

/// A terminal that shows a screen. It is as it was before when this is dropped, and when the process panics.
pub(super) struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
}

impl Screen {
    /// Takes the terminal.
    pub(super) fn enter() -> io::Result<Self> {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let before = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                // What the panic says is to be read.
                let _ = give_back();
                before(panic);
            }));
        });
        take()?;
        let terminal = Terminal::new(CrosstermBackend::new(stdout())).inspect_err(|_| {
            let _ = give_back();
        })?;
        Ok(Self { terminal })
    }

    /// Says whether the screen fits.
    pub(super) fn is_large_enough(&self) -> bool {
        self.terminal.size().is_ok_and(|size| size.width >= WIDTH_MIN && size.height >= HEIGHT_MIN)
    }

    /// Draws the screen, in the size that the terminal has now.
    pub(super) fn draw(&mut self, model: &mut Model) -> io::Result<()> {
        self.terminal.draw(|frame| draw(model, frame)).map(drop)
    }

    /// Waits for the next key, but not longer than this. Another size of the terminal ends the wait: it is to be drawn anew.
    pub(super) fn next(&self, wait: Duration) -> io::Result<Option<Key>> {
        if !event::poll(wait)? {
            return Ok(None);
        }
        Ok(match event::read()? {
            Event::Key(pressed) if pressed.kind != KeyEventKind::Release => {
                key(pressed.code, pressed.modifiers)
            }
            _ => None,
        })
    }

    /// Gives the terminal back while something else uses it.
    pub(super) fn aside<T>(&mut self, work: impl FnOnce() -> T) -> io::Result<T> {
        give_back()?;
        let done = work();
        take()?;
        self.terminal.clear()?;
        Ok(done)
    }

    /// Stops the process as Ctrl-Z does, with the terminal as it was, until it is continued.
    #[cfg(unix)]
    pub(super) fn suspend(&mut self) -> io::Result<()> {
        use rustix::process::{Signal, kill_current_process_group};
        self.aside(|| kill_current_process_group(Signal::TSTP))?.map_err(io::Error::from)
    }

    /// Elsewhere no process is stopped.
    #[cfg(not(unix))]
    pub(super) fn suspend(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // A terminal that is gone needs nothing back.
        let _ = give_back();
    }
}

/// Whether the terminal is taken. Given back twice, it would move its cursor into what was written since.
static IS_TAKEN: AtomicBool = AtomicBool::new(false);

fn take() -> io::Result<()> {
    enable_raw_mode()?;
    IS_TAKEN.store(true, Ordering::Relaxed);
    execute!(stdout(), EnterAlternateScreen, Hide).inspect_err(|_| {
        IS_TAKEN.store(false, Ordering::Relaxed);
        let _ = disable_raw_mode();
    })
}

fn give_back() -> io::Result<()> {
    if !IS_TAKEN.swap(false, Ordering::Relaxed) {
        return Ok(());
    }
    let shown = execute!(stdout(), Show, LeaveAlternateScreen);
    disable_raw_mode().and(shown)
}

fn key(code: KeyCode, modifiers: KeyModifiers) -> Option<Key> {
    Some(match code {
        KeyCode::Char('c') if modifiers.contains(KeyModifiers::CONTROL) => Key::Interrupt,
        KeyCode::Char('z') if modifiers.contains(KeyModifiers::CONTROL) => Key::Suspend,
        KeyCode::Char(_) if modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT) => return None,
        KeyCode::Char(one) => Key::Char(one),
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::Left => Key::Left,
        KeyCode::Right => Key::Right,
        KeyCode::PageUp => Key::PageUp,
        KeyCode::PageDown => Key::PageDown,
        KeyCode::Home => Key::Home,
        KeyCode::End => Key::End,
        KeyCode::Tab => Key::Tab,
        KeyCode::BackTab => Key::BackTab,
        KeyCode::Enter => Key::Enter,
        KeyCode::Esc => Key::Esc,
        KeyCode::Backspace => Key::Backspace,
        _ => return None,
    })
}

#[cfg(all(test, unix))]
mod tests {
    use std::path::Path;
    use std::process::{Command, Stdio};

    use super::*;

    /// Has the test below panic in a process of its own.
    const PANICS: &str = "DALSEGNO_SCREEN_PANICS";

    #[test]
    fn panics_while_it_has_the_screen() {
        if std::env::var_os(PANICS).is_none() {
            return;
        }
        let _screen = Screen::enter().unwrap();
        panic!("a defect of the debugger");
    }

    /// `script` has a terminal of its own for a program. Not every system has it, and only that of util-linux takes the command as
    /// the option `-c`.
    fn terminal(script: &Path) -> Option<Command> {
        let version = Command::new(script).arg("--version").stdin(Stdio::null()).output().ok()?;
        let is_known =
            version.status.success() && version.stdout.windows(10).any(|word| word == b"util-linux");
        is_known.then(|| Command::new(script))
    }

    #[test]
    fn another_script_than_that_of_util_linux_is_not_used() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let written = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
            path
        };
        let bsd = written("bsd", "echo 'script: illegal option -- -' >&2; exit 1");
        let other = written("other", "echo 'script 1.0'");
        let known = written("known", "echo 'script from util-linux 2.41'");
        assert!(terminal(&bsd).is_none() && terminal(&other).is_none() && terminal(&known).is_some());
        assert!(terminal(&folder.path().join("none")).is_none());
    }

    #[test]
    fn a_panic_gives_the_terminal_back_once_and_before_it_says_anything() {
        let Some(mut command) = terminal(Path::new("script")) else { return };
        let program = std::env::current_exe().unwrap();
        let test = module_path!().split_once("::").unwrap().1;
        let line = format!(
            "'{}' --exact {test}::panics_while_it_has_the_screen --nocapture --test-threads=1; stty -a",
            program.display()
        );
        command.args(["-q", "-c", &line, "/dev/null"]).env(PANICS, "1").env("TERM", "xterm");
        let output = command.stdin(Stdio::null()).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let place = |what: &str| text.find(what).unwrap_or_else(|| panic!("no {what:?} in {text:?}"));
        let (entered, left, said) =
            (place("\u{1b}[?1049h"), place("\u{1b}[?1049l"), place("a defect of the debugger"));
        assert!(entered < left && left < said, "{text:?}");
        assert_eq!(text.matches("\u{1b}[?1049l").count(), 1, "{text:?}");
        let after = &text[said..];
        // The cursor is there, lines are edited, and keys are shown.
        assert!(text[entered..said].contains("\u{1b}[?25h"), "{text:?}");
        for mode in ["icanon", "echo", "isig"] {
            assert!(after.split_whitespace().any(|word| word == mode), "{mode}: {after:?}");
        }
    }
}

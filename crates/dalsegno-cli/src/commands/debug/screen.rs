//! The terminal as a screen, and as it was before.

use std::io::{self, Stdout, stdout};
use std::sync::Once;
use std::time::Duration;

use dalsegno_debugger::{HEIGHT_MIN, Key, Model, WIDTH_MIN, draw};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::event::{self, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::crossterm::{event::Event as Input, execute};

/// What happens at a terminal.
pub(super) enum Event {
    /// A key was pressed.
    Key(Key),
    /// It has another size.
    Resize,
}

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

    /// Its columns and lines.
    pub(super) fn size(&self) -> (u16, u16) {
        self.terminal.size().map_or((0, 0), |size| (size.width, size.height))
    }

    /// Says whether the screen fits.
    pub(super) fn is_large_enough(&self) -> bool {
        let (width, height) = self.size();
        width >= WIDTH_MIN && height >= HEIGHT_MIN
    }

    /// Draws the screen.
    pub(super) fn draw(&mut self, model: &Model) -> io::Result<()> {
        self.terminal.draw(|frame| draw(model, frame)).map(drop)
    }

    /// Waits for the next event, but not longer than this.
    pub(super) fn next(&self, wait: Duration) -> io::Result<Option<Event>> {
        if !event::poll(wait)? {
            return Ok(None);
        }
        Ok(match event::read()? {
            Input::Key(pressed) if pressed.kind != KeyEventKind::Release => {
                key(pressed.code, pressed.modifiers).map(Event::Key)
            }
            Input::Resize(..) => Some(Event::Resize),
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

fn take() -> io::Result<()> {
    enable_raw_mode()?;
    execute!(stdout(), EnterAlternateScreen, Hide).inspect_err(|_| {
        let _ = disable_raw_mode();
    })
}

fn give_back() -> io::Result<()> {
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

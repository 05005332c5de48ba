//! What the screen shows, and what keys do to it.

use crate::text::{Text, Tone};

/// A key, as the screen knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// A character.
    Char(char),
    /// The arrow up.
    Up,
    /// The arrow down.
    Down,
    /// The arrow to the left.
    Left,
    /// The arrow to the right.
    Right,
    /// A page up.
    PageUp,
    /// A page down.
    PageDown,
    /// To the beginning.
    Home,
    /// To the end.
    End,
    /// The tabulator.
    Tab,
    /// The tabulator with shift.
    BackTab,
    /// Return.
    Enter,
    /// Escape.
    Esc,
    /// Deletes the character before the cursor.
    Backspace,
    /// Ctrl-C.
    Interrupt,
    /// Ctrl-Z.
    Suspend,
}

/// What a key needs that the screen does not have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wish {
    /// Find the rows in which this text occurs, and tell them with [`Model::found`].
    Search(String),
    /// Stop the search that is under way.
    StopSearch,
    /// Fork the run with an edited outcome of the operation in this row.
    Fork(usize),
    /// Compare the run with this one.
    Compare(String),
    /// Find the operation because of which the one in this row was asked for.
    Cause(usize),
    /// Look whether more was recorded.
    Refresh,
    /// Show the run that was shown before this one.
    Back,
    /// Give the terminal back until the command is continued.
    Suspend,
    /// End.
    Quit,
}

/// A view of a step or of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Tab {
    /// Why it was asked for, and what came of it.
    Step,
    /// The state, and what changed.
    State,
    /// What the model was sent.
    Prompt,
    /// What an operation was asked with.
    Arguments,
    /// What came of it.
    Result,
    /// What was found in the memory.
    Memory,
    /// Its attempts, and all else that was recorded.
    Attempts,
    /// How another run differs.
    Compare,
}

impl Tab {
    /// All of them, in order.
    pub const ALL: [Self; 8] = [
        Self::Step,
        Self::State,
        Self::Prompt,
        Self::Arguments,
        Self::Result,
        Self::Memory,
        Self::Attempts,
        Self::Compare,
    ];

    /// Its name on the screen.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Step => "Step",
            Self::State => "State",
            Self::Prompt => "Prompt",
            Self::Arguments => "Args",
            Self::Result => "Result",
            Self::Memory => "Memory",
            Self::Attempts => "Tries",
            Self::Compare => "Diff",
        }
    }

    fn moved(self, by: isize) -> Self {
        let count = Self::ALL.len().cast_signed();
        let place = Self::ALL.iter().position(|tab| *tab == self).unwrap_or(0).cast_signed();
        Self::ALL[(place + by).rem_euclid(count).cast_unsigned()]
    }
}

/// How an operation stands, before its label.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// The row is a step.
    Step,
    /// It may be under way.
    Open,
    /// It has not started.
    Deferred,
    /// It waits for a person.
    Waiting,
    /// It has an outcome.
    Done,
    /// It failed.
    Failed,
    /// Its outcome came too late.
    Late,
    /// The row is the end of the run.
    End,
}

/// A row of the outline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The place of the step in the outline of the run.
    pub place: usize,
    /// The place of the operation within the step; none for the step itself.
    pub operation: Option<usize>,
    /// How it stands.
    pub mark: Mark,
    /// The operation is a part of a declarative tool.
    pub is_part: bool,
    /// What it is.
    pub label: String,
    /// Time, tokens and attempts.
    pub facts: String,
}

/// The content of a tab.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Page {
    /// Its lines.
    pub lines: Vec<Text>,
}

/// What the letters that are typed are for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Each is a command.
    Commands,
    /// They are the text that is searched for.
    Search(String),
    /// They are the run to compare with.
    Compare(String),
    /// Any key closes the help.
    Help,
}

/// A search, and where it found something.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Search {
    /// The row at which it began.
    from: usize,
    hits: Vec<usize>,
    is_done: bool,
    /// The cursor was moved to a hit.
    has_jumped: bool,
}

/// The screen.
#[derive(Debug, Clone)]
pub struct Model {
    pub(crate) title: Text,
    pub(crate) rows: Vec<Row>,
    pub(crate) selected: usize,
    pub(crate) top: usize,
    pub(crate) tab: Tab,
    pub(crate) wrapped: Vec<Text>,
    pub(crate) scroll: usize,
    /// The arrows move the page, not the outline.
    pub(crate) in_page: bool,
    pub(crate) mode: Mode,
    pub(crate) message: Option<Text>,
    /// Whether colours may be used.
    pub(crate) colour: bool,
    page: Page,
    /// The row and the tab of the page that is shown.
    shown: Option<(usize, Tab)>,
    search: Option<Search>,
    width: u16,
    height: u16,
}

impl Model {
    /// A screen without anything on it, whose size is that of the frame on which it is drawn.
    pub fn new(colour: bool) -> Self {
        Self {
            title: Text::default(),
            rows: Vec::new(),
            selected: 0,
            top: 0,
            tab: Tab::Step,
            wrapped: Vec::new(),
            scroll: 0,
            in_page: false,
            mode: Mode::Commands,
            message: None,
            colour,
            page: Page::default(),
            shown: None,
            search: None,
            width: 80,
            height: 24,
        }
    }

    /// Takes the size of the screen, if it is another one.
    pub(crate) fn fit(&mut self, width: u16, height: u16) {
        if (self.width, self.height) != (width, height) {
            (self.width, self.height) = (width, height);
            self.wrap();
            self.settle();
        }
    }

    /// Takes the line at the top.
    pub fn set_title(&mut self, title: Text) {
        self.title = title;
    }

    /// Shows a message at the bottom until the next key.
    pub fn say(&mut self, tone: Tone, message: &str) {
        self.message = Some(Text::new(tone, message));
    }

    /// The rows of the outline.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Takes the rows of the outline. The row that was selected stays it, by its place; the page is asked for anew.
    pub fn set_rows(&mut self, rows: Vec<Row>) {
        let at = self.rows.get(self.selected).map(|row| (row.place, row.operation));
        self.rows = rows;
        if let Some(at) = at {
            self.selected =
                self.rows.iter().position(|row| (row.place, row.operation) == at).unwrap_or(self.selected);
        }
        self.shown = None;
        self.settle();
    }

    /// Shows another run: nothing that was selected, found or compared counts any more.
    pub fn begin(&mut self, rows: Vec<Row>) {
        self.rows = rows;
        (self.selected, self.top, self.in_page, self.search) = (0, 0, false, None);
        (self.mode, self.tab, self.shown) = (Mode::Commands, Tab::Step, None);
        self.page = Page::default();
        self.wrap();
    }

    /// The row that is selected.
    pub fn selected(&self) -> usize {
        self.selected
    }

    /// Selects a row.
    pub fn select(&mut self, row: usize) {
        self.selected = row;
        self.settle();
    }

    /// Shows a tab.
    pub fn open(&mut self, tab: Tab) {
        self.tab = tab;
    }

    /// The row and the tab whose page is not there yet.
    pub fn wanted(&self) -> Option<(usize, Tab)> {
        let wanted = (self.selected, self.tab);
        (!self.rows.is_empty() && self.shown != Some(wanted)).then_some(wanted)
    }

    /// Takes the page that was wanted.
    pub fn show(&mut self, row: usize, tab: Tab, page: Page) {
        self.shown = Some((row, tab));
        self.page = page;
        self.scroll = 0;
        self.wrap();
    }

    /// Asks for the page anew: what it shows has changed.
    pub fn forget_page(&mut self) {
        self.shown = None;
    }

    /// Takes rows in which a text was found, behind those that were told before; `is_done` when there are no more.
    pub fn found(&mut self, rows: impl IntoIterator<Item = usize>, is_done: bool) {
        let Some(search) = &mut self.search else { return };
        search.hits.extend(rows);
        search.is_done = is_done;
        let next = search.hits.iter().copied().find(|row| *row >= search.from);
        let target = next.or(search.hits.first().copied().filter(|_| is_done));
        if let (Some(target), false) = (target, search.has_jumped) {
            search.has_jumped = true;
            self.selected = target;
        }
        if is_done {
            let count = search.hits.len();
            let (tone, words) = match count {
                0 => (Tone::Warn, "nothing found".to_owned()),
                1 => (Tone::Dim, "1 match".to_owned()),
                _ => (Tone::Dim, format!("{count} matches: n next, N previous")),
            };
            self.say(tone, &words);
        }
        self.settle();
    }

    /// Does what a key means; what needs more than the screen is a wish.
    pub fn press(&mut self, key: Key) -> Option<Wish> {
        match key {
            Key::Interrupt => return Some(Wish::Quit),
            Key::Suspend => return Some(Wish::Suspend),
            _ => {}
        }
        let wish = match &mut self.mode {
            Mode::Help => {
                self.mode = Mode::Commands;
                None
            }
            Mode::Search(typed) | Mode::Compare(typed) => match key {
                Key::Char(one) => {
                    typed.push(one);
                    None
                }
                Key::Backspace => {
                    typed.pop();
                    None
                }
                Key::Esc => {
                    self.mode = Mode::Commands;
                    None
                }
                Key::Enter => self.typed(),
                _ => None,
            },
            Mode::Commands => {
                self.message = None;
                self.command(key)
            }
        };
        self.settle();
        wish
    }

    fn typed(&mut self) -> Option<Wish> {
        match std::mem::replace(&mut self.mode, Mode::Commands) {
            Mode::Search(text) if !text.is_empty() => {
                self.search = Some(Search { from: self.selected, ..Search::default() });
                Some(Wish::Search(text))
            }
            Mode::Compare(run) if !run.trim().is_empty() => Some(Wish::Compare(run.trim().to_owned())),
            _ => None,
        }
    }

    fn command(&mut self, key: Key) -> Option<Wish> {
        let page = self.body_height().max(1);
        match key {
            Key::Up | Key::Char('k') => self.step(-1),
            Key::Down | Key::Char('j') => self.step(1),
            Key::PageUp => self.step(-page.cast_signed()),
            Key::PageDown | Key::Char(' ') => self.step(page.cast_signed()),
            Key::Home | Key::Char('g') => self.step(isize::MIN),
            Key::End | Key::Char('G') => self.step(isize::MAX),
            Key::Left | Key::Char('h') => self.in_page = false,
            Key::Right | Key::Char('l') | Key::Enter => self.in_page = true,
            Key::Tab => self.tab = self.tab.moved(1),
            Key::BackTab => self.tab = self.tab.moved(-1),
            Key::Char(']') => self.go_to_step(1),
            Key::Char('[') => self.go_to_step(-1),
            Key::Char(digit @ '1'..='8') => self.tab = Tab::ALL[digit as usize - '1' as usize],
            Key::Char('n') => self.go_to_hit(true),
            Key::Char('N') => self.go_to_hit(false),
            Key::Char('?') => self.mode = Mode::Help,
            Key::Char('/') => self.mode = Mode::Search(String::new()),
            Key::Char('c') => self.mode = Mode::Compare(String::new()),
            Key::Char('f') => return self.of_operation(Wish::Fork),
            Key::Char('w') => return self.of_operation(Wish::Cause),
            Key::Char('r') => return Some(Wish::Refresh),
            Key::Char('b') => return Some(Wish::Back),
            Key::Char('q') => return Some(Wish::Quit),
            Key::Esc if self.search.as_ref().is_some_and(|search| !search.is_done) => {
                self.search = None;
                return Some(Wish::StopSearch);
            }
            Key::Esc => self.in_page = false,
            Key::Char(_) | Key::Backspace | Key::Interrupt | Key::Suspend => {}
        }
        None
    }

    fn of_operation(&mut self, wish: fn(usize) -> Wish) -> Option<Wish> {
        if self.rows.get(self.selected).is_some_and(|row| row.operation.is_some()) {
            return Some(wish(self.selected));
        }
        self.say(Tone::Warn, "select an operation first: the rows below a step");
        None
    }

    fn step(&mut self, by: isize) {
        if self.in_page {
            self.scroll = self.scroll.saturating_add_signed(by);
        } else {
            self.selected = self.selected.saturating_add_signed(by);
        }
    }

    /// Selects the next step, or the one before.
    fn go_to_step(&mut self, by: isize) {
        let is_step = |row: &Row| row.operation.is_none();
        let found = if by > 0 {
            self.rows.iter().skip(self.selected + 1).position(is_step).map(|place| self.selected + 1 + place)
        } else {
            self.rows[..self.selected.min(self.rows.len())].iter().rposition(is_step)
        };
        self.selected = found.unwrap_or(self.selected);
    }

    fn go_to_hit(&mut self, forward: bool) {
        let Some(search) = &self.search else {
            return self.say(Tone::Warn, "search first: press / and type a text");
        };
        let hits = &search.hits;
        let next = if forward {
            hits.iter().find(|row| **row > self.selected).or(hits.first())
        } else {
            hits.iter().rev().find(|row| **row < self.selected).or(hits.last())
        };
        match next {
            Some(row) => self.selected = *row,
            None => self.say(Tone::Warn, "nothing found"),
        }
    }

    /// Keeps what is selected and shown within what there is.
    fn settle(&mut self) {
        let height = self.body_height();
        self.selected = self.selected.min(self.rows.len().saturating_sub(1));
        self.top = self.top.min(self.selected).max((self.selected + 1).saturating_sub(height));
        self.top = self.top.min(self.rows.len().saturating_sub(1));
        self.scroll = self.scroll.min(self.wrapped.len().saturating_sub(height));
    }

    fn wrap(&mut self) {
        let width = usize::from(self.page_width());
        self.wrapped = self.page.lines.iter().flat_map(|line| line.wrapped(width)).collect();
    }

    /// The lines between the two at the top and the one at the bottom.
    pub(crate) fn body_height(&self) -> usize {
        usize::from(self.height.saturating_sub(3))
    }

    /// The columns of the outline.
    pub(crate) fn outline_width(&self) -> u16 {
        (self.width * 2 / 5).clamp(24, 48)
    }

    /// The columns of the page.
    pub(crate) fn page_width(&self) -> u16 {
        self.width.saturating_sub(self.outline_width() + 1).max(2)
    }
}

//! What the screen shows: drawn on a terminal in memory, at several sizes, with hostile texts, and after keys.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use dalsegno_debugger::{Key, Mark, Model, Page, Row, Tab, Text, Tone, Wish, draw};
use dalsegno_screen::is_plain;
use proptest::prelude::*;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::style::Color;

const ESCAPES: &str = "\u{1b}]0;OWNED\u{7}\u{1b}[2J\u{9b}31m \u{202e}gpj.exe \u{200b}zero\u{2066}x\u{2069} \rback\ttab\u{e0041}";

fn step(place: usize) -> Row {
    let label = format!("step {}", place + 1);
    let facts = format!("+{place}.00 s");
    Row { place, operation: None, mark: Mark::Step, is_part: false, label, facts }
}

fn operation(place: usize, index: usize, mark: Mark, label: &str, facts: &str) -> Row {
    let (label, facts) = (label.to_owned(), facts.to_owned());
    Row { place, operation: Some(index), mark, is_part: index > 1, label, facts }
}

fn rows() -> Vec<Row> {
    vec![
        step(0),
        operation(0, 0, Mark::Done, "model completion", "7 tok 0.42 s"),
        step(1),
        operation(1, 0, Mark::Done, "tool `risk.score`", "0.10 s"),
        operation(1, 1, Mark::Failed, "tool `risk.record`", "x3 2.31 s"),
        operation(1, 2, Mark::Waiting, "POST https://example.com", ""),
        step(2),
        operation(2, 0, Mark::Open, "agent `a-name-that-is-far-too-long-for-a-row`", ""),
        operation(2, 1, Mark::Deferred, "tool `日本語のとても長い名前の道具`", "0.01 s"),
        operation(2, 2, Mark::Late, ESCAPES, ESCAPES),
        Row {
            place: 3,
            operation: None,
            mark: Mark::End,
            is_part: false,
            label: "failed".into(),
            facts: String::new(),
        },
    ]
}

fn page() -> Page {
    let mut lines = vec![
        Text::new(Tone::Bold, "tool `risk.score`").and(Tone::Dim, "  81c2"),
        Text::new(Tone::Plain, "    - ").and(
            Tone::Bad,
            "a line that is much longer than the pane is wide, so that it continues on the next line",
        ),
        Text::new(Tone::Good, "    + 日本語のテキストは幅が二倍で、それでも行の終わりを越えてはいけません。"),
        Text::new(Tone::Warn, "👩‍👧 e\u{301}"),
    ];
    lines.extend(Text::lines([(Tone::Plain, ESCAPES), (Tone::Dim, "\nsecond line\r\nthird")]));
    lines.extend((0..40).map(|line| Text::new(Tone::Plain, &format!("line {line}"))));
    Page { lines }
}

fn model(width: u16, height: u16, colour: bool) -> Model {
    let mut model = Model::new(colour);
    drawn(&mut model, width, height);
    model.set_title(Text::new(Tone::Plain, "run 3fa94c · triage · failed · 7 tokens"));
    model.set_rows(rows());
    model.select(3);
    let (row, tab) = model.wanted().unwrap();
    model.show(row, tab, page());
    model
}

fn drawn(model: &mut Model, width: u16, height: u16) -> Terminal<TestBackend> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(model, frame)).unwrap();
    terminal
}

fn shown(model: &mut Model, width: u16, height: u16) -> String {
    drawn(model, width, height).backend().to_string()
}

#[test]
fn a_usual_terminal() {
    insta::assert_snapshot!(shown(&mut model(80, 24, true), 80, 24));
}

#[test]
fn a_large_terminal() {
    insta::assert_snapshot!(shown(&mut model(120, 40, true), 120, 40));
}

#[test]
fn a_terminal_that_is_too_small_gets_one_sentence() {
    insta::assert_snapshot!(shown(&mut model(20, 5, true), 20, 5));
    // One that has no place at all is no reason to fail.
    drawn(&mut model(0, 0, true), 0, 0);
    // At its least size it is drawn.
    assert!(shown(&mut model(60, 10, true), 60, 10).contains("risk.score"));
    for (width, height) in [(59, 10), (60, 9), (1, 1), (2, 1)] {
        let screen = shown(&mut model(width, height, true), width, height);
        assert!(!screen.contains("risk.score"), "{screen}");
    }
}

#[test]
fn the_size_is_that_of_the_frame() {
    // A terminal may be made larger before anything listens for that.
    let mut late = model(20, 24, true);
    for width in [100, 80] {
        assert_eq!(shown(&mut late, width, 24), shown(&mut model(width, 24, true), width, 24));
    }
}

#[test]
fn the_help_and_what_is_typed() {
    let mut model = model(80, 24, true);
    model.press(Key::Char('?'));
    insta::assert_snapshot!(shown(&mut model, 80, 24));
    model.press(Key::Esc);
    for key in "/needle 日本".chars() {
        model.press(Key::Char(key));
    }
    let screen = shown(&mut model, 80, 24);
    assert!(screen.contains("/needle 日本"), "{screen}");
}

#[test]
fn nothing_depends_on_colour() {
    let (mut with, mut without) = (model(80, 24, true), model(80, 24, false));
    assert_eq!(shown(&mut with, 80, 24), shown(&mut without, 80, 24));
    let colours = |model: &mut Model| {
        let terminal = drawn(model, 80, 24);
        let cells = terminal.backend().buffer().content().to_vec();
        cells.iter().filter(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset).count()
    };
    assert_eq!(colours(&mut without), 0);
    assert!(colours(&mut with) > 0);
}

/// What would steer a terminal, or could not be seen.
fn hidden(terminal: &Terminal<TestBackend>) -> Vec<String> {
    let cells = terminal.backend().buffer().content();
    let symbols = cells.iter().map(|cell| cell.symbol());
    symbols
        .filter(|symbol| !symbol.chars().all(|one| is_plain(one) && !"\n\t".contains(one)))
        .map(str::to_owned)
        .collect()
}

#[test]
fn no_escape_of_another_party_reaches_the_terminal() {
    let mut model = model(80, 24, true);
    model.set_title(Text::new(Tone::Plain, ESCAPES));
    model.select(9);
    model.say(Tone::Bad, ESCAPES);
    let (row, tab) = model.wanted().unwrap();
    model.show(row, tab, page());
    let terminal = drawn(&mut model, 80, 24);
    assert_eq!(hidden(&terminal), Vec::<String>::new());
    let screen = terminal.backend().to_string();
    assert!(screen.contains("\\u{1b}]0;OWNED\\u{7}"), "what is hidden is shown escaped:\n{screen}");
    // What a person pastes into the search is no better.
    model.press(Key::Char('/'));
    ESCAPES.chars().for_each(|one| drop(model.press(Key::Char(one))));
    assert_eq!(hidden(&drawn(&mut model, 80, 24)), Vec::<String>::new());
}

#[test]
fn a_long_message_is_shown_to_its_end() {
    let mut model = model(80, 24, true);
    model.say(Tone::Bad, &format!("{}the end of it", "a long error ".repeat(20)));
    let screen = shown(&mut model, 80, 24);
    assert!(screen.contains("the end of it"), "{screen}");
    model.press(Key::Down);
    assert!(!shown(&mut model, 80, 24).contains("the end of it"), "the next key takes it away");
}

#[test]
fn arrows_move_the_outline_or_the_page() {
    let mut model = model(80, 24, true);
    model.press(Key::Down);
    assert_eq!(model.selected(), 4);
    assert_eq!(model.wanted(), Some((4, Tab::Step)), "another row has another page");
    model.press(Key::Char(']'));
    assert_eq!(model.selected(), 6);
    model.press(Key::Char('['));
    model.press(Key::Char('['));
    assert_eq!(model.selected(), 0);
    model.press(Key::Char('['));
    assert_eq!(model.selected(), 0, "there is no step before the first");
    model.press(Key::Char('G'));
    assert_eq!(model.selected(), 10);
    model.press(Key::Char('g'));
    model.show(0, Tab::Step, page());
    model.press(Key::Enter);
    model.press(Key::Down);
    model.press(Key::PageDown);
    assert_eq!(model.selected(), 0, "the page moves, not the outline");
    assert!(!shown(&mut model, 80, 24).contains("81c2"));
    model.press(Key::Home);
    assert!(shown(&mut model, 80, 24).contains("81c2"));
    assert_eq!(model.wanted(), None);
    model.press(Key::BackTab);
    assert_eq!(model.wanted(), Some((0, Tab::Compare)));
    model.press(Key::Char('5'));
    assert_eq!(model.wanted(), Some((0, Tab::Result)));
}

#[test]
fn a_search_jumps_to_the_next_match_and_wraps() {
    let mut model = model(80, 24, true);
    assert_eq!(model.press(Key::Char('/')), None);
    "risks".chars().for_each(|one| drop(model.press(Key::Char(one))));
    model.press(Key::Backspace);
    assert_eq!(model.press(Key::Enter), Some(Wish::Search("risk".to_owned())));
    model.found([1], false);
    assert_eq!(model.selected(), 3, "it is above the cursor, and more may follow below");
    model.found([4, 7], false);
    assert_eq!(model.selected(), 4);
    model.found([], true);
    for (key, row) in [('n', 7), ('n', 1), ('N', 7), ('N', 4)] {
        model.press(Key::Char(key));
        assert_eq!(model.selected(), row, "after {key}");
    }
    // Only above the cursor: it wraps once all is known.
    model.select(8);
    model.press(Key::Char('/'));
    model.press(Key::Char('x'));
    model.press(Key::Enter);
    model.found([2], false);
    assert_eq!(model.selected(), 8);
    assert_eq!(model.press(Key::Esc), Some(Wish::StopSearch));
    model.found([5], true);
    assert_eq!(model.selected(), 8, "a search that was stopped moves nothing");
}

#[test]
fn keys_that_need_more_than_the_screen_are_wishes() {
    let mut model = model(80, 24, true);
    let wishes = [
        ('f', Some(Wish::Fork(3))),
        ('w', Some(Wish::Cause(3))),
        ('r', Some(Wish::Refresh)),
        ('b', Some(Wish::Back)),
        ('q', Some(Wish::Quit)),
        ('x', None),
    ];
    for (key, wish) in wishes {
        assert_eq!(model.press(Key::Char(key)), wish);
    }
    model.select(0);
    assert_eq!(model.press(Key::Char('f')), None, "a step has no outcome of its own");
    assert!(shown(&mut model, 80, 24).contains("select an operation first"));
    model.press(Key::Char('c'));
    assert_eq!(model.press(Key::Char('q')), None, "it is typed");
    assert_eq!(model.press(Key::Interrupt), Some(Wish::Quit));
    assert_eq!(model.press(Key::Enter), Some(Wish::Compare("q".to_owned())));
}

fn any_key() -> impl Strategy<Value = Key> {
    let named = [
        Key::Up,
        Key::Down,
        Key::Left,
        Key::Right,
        Key::PageUp,
        Key::PageDown,
        Key::Home,
        Key::End,
        Key::Tab,
        Key::BackTab,
        Key::Enter,
        Key::Esc,
        Key::Backspace,
        Key::Interrupt,
        Key::Suspend,
    ];
    prop_oneof![
        proptest::sample::select(named.to_vec()),
        proptest::sample::select("jkghlGnN?/cfwrbq[] 158x".chars().collect::<Vec<_>>()).prop_map(Key::Char),
    ]
}

proptest! {
    #[test]
    fn any_keys_at_any_size_leave_a_row_selected_and_nothing_hidden(
        keys in prop::collection::vec((any_key(), 0u16..140, 0u16..50), 0..60),
        kept in 0usize..12,
    ) {
        let mut model = model(80, 24, true);
        model.set_rows(rows().into_iter().take(kept).collect());
        for (key, width, height) in keys {
            model.press(key);
            if let Some((row, tab)) = model.wanted() {
                model.show(row, tab, page());
            }
            prop_assert!(model.selected() < kept.max(1));
            prop_assert_eq!(hidden(&drawn(&mut model, width, height)), Vec::<String>::new());
        }
    }
}

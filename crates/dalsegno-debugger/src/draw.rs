//! Draws the screen.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph};
use unicode_width::UnicodeWidthStr;

use crate::model::{Mark, Mode, Model, Row, Tab};
use crate::text::{Text, Tone, cut};

/// The fewest columns on which the screen is drawn.
pub const WIDTH_MIN: u16 = 60;

/// The fewest lines on which the screen is drawn.
pub const HEIGHT_MIN: u16 = 10;

const KEYS: &str = "j/k rows  [ ] steps  Tab view  / search  f fork  c compare  ? help  q quit";

const HELP: [(&str, &str); 17] = [
    ("j k, arrows", "next or previous row; in the page, scroll"),
    ("[ ]", "previous or next step"),
    ("g G", "first or last row"),
    ("Space, PgUp, PgDn", "a page further or back"),
    ("Enter l, h Esc", "enter the page, or leave it"),
    ("Tab, Shift-Tab, 1-8", "next, previous or this view"),
    ("/ n N", "search, next match, previous match"),
    ("w", "go to the operation that caused this one"),
    ("f", "fork from here with an edited outcome"),
    ("c", "compare with another run"),
    ("b", "back to the run that was shown before"),
    ("r", "read what was recorded since"),
    ("Ctrl-Z", "suspend"),
    ("q, Ctrl-C", "quit"),
    ("", ""),
    ("✓ done  ✗ failed", "… open  · not started"),
    ("? waits for you", "~ ended without it"),
];

/// Draws the model, which takes the size of the frame. A terminal that is too small gets one sentence.
pub fn draw(model: &mut Model, frame: &mut Frame<'_>) {
    let area = frame.area();
    model.fit(area.width, area.height);
    let model = &*model;
    if area.width < WIDTH_MIN || area.height < HEIGHT_MIN {
        return too_small(area, frame);
    }
    let line = |y: u16| Rect { y: area.y + y, height: 1, ..area };
    let title = fit(&model.title, area.width);
    frame.render_widget(Paragraph::new(title).style(Style::new().add_modifier(Modifier::REVERSED)), line(0));
    let outline = Rect { y: area.y + 1, width: model.outline_width(), height: area.height - 2, ..area };
    let page = Rect {
        x: area.x + model.outline_width() + 1,
        width: model.page_width(),
        y: area.y + 1,
        height: area.height - 2,
    };
    draw_outline(model, outline, frame);
    for y in page.top()..page.bottom() {
        frame.render_widget("│", Rect { x: page.x - 1, y, width: 1, height: 1 });
    }
    draw_page(model, page, frame);
    draw_footer(model, area, frame);
    if model.mode == Mode::Help {
        draw_help(area, frame);
    }
}

fn too_small(area: Rect, frame: &mut Frame<'_>) {
    let words = format!(
        "This terminal has {} columns and {} lines; the debugger needs {WIDTH_MIN} and {HEIGHT_MIN}. Enlarge it, or press q.",
        area.width, area.height
    );
    let lines = Text::new(Tone::Plain, &words).wrapped(usize::from(area.width).max(2));
    let lines: Vec<Line<'_>> = lines.iter().map(|line| Line::raw(line.plain())).collect();
    frame.render_widget(Paragraph::new(lines), area);
}

fn draw_outline(model: &Model, area: Rect, frame: &mut Frame<'_>) {
    let steps = model.rows.iter().filter(|row| row.mark == Mark::Step).count();
    let head = format!("{steps} {}", if steps == 1 { "step" } else { "steps" });
    frame.render_widget(Line::styled(head, look(Tone::Dim, model.colour)), Rect { height: 1, ..area });
    let rows = model.rows.iter().enumerate().skip(model.top).take(model.body_height());
    for ((index, row), y) in rows.zip(area.y + 1..area.bottom()) {
        let line = outline_row(row, usize::from(area.width), model.colour);
        let style = match (index == model.selected, model.in_page) {
            (true, false) => Style::new().add_modifier(Modifier::REVERSED),
            (true, true) => Style::new().add_modifier(Modifier::UNDERLINED),
            (false, _) => Style::new(),
        };
        frame.render_widget(Paragraph::new(line).style(style), Rect { y, height: 1, ..area });
    }
}

fn outline_row(row: &Row, width: usize, colour: bool) -> Line<'static> {
    let (sign, tone) = match row.mark {
        Mark::Step | Mark::End => ("", Tone::Bold),
        Mark::Open => ("… ", Tone::Warn),
        Mark::Deferred => ("· ", Tone::Dim),
        Mark::Waiting => ("? ", Tone::Warn),
        Mark::Done => ("✓ ", Tone::Good),
        Mark::Failed => ("✗ ", Tone::Bad),
        Mark::Late => ("~ ", Tone::Warn),
    };
    let indent = match (row.operation, row.is_part) {
        (None, _) => "",
        (Some(_), false) => " ",
        (Some(_), true) => "   ",
    };
    let facts = Text::new(Tone::Dim, &row.facts).plain();
    let facts = cut(&facts, width / 2);
    let room = width.saturating_sub(indent.width() + sign.width() + facts.width() + 1);
    let label = cut(&Text::new(Tone::Plain, &row.label).plain(), room);
    let gap = " ".repeat(room.saturating_sub(label.width()) + 1);
    let label_tone = if row.operation.is_none() { Tone::Bold } else { Tone::Plain };
    Line::from(vec![
        Span::raw(indent),
        Span::styled(sign, look(tone, colour)),
        Span::styled(label, look(label_tone, colour)),
        Span::raw(gap),
        Span::styled(facts, look(Tone::Dim, colour)),
    ])
}

fn draw_page(model: &Model, area: Rect, frame: &mut Frame<'_>) {
    let mut tabs = Vec::new();
    for tab in Tab::ALL {
        if !tabs.is_empty() {
            tabs.push(Span::raw(" "));
        }
        let style = if tab == model.tab {
            Style::new().add_modifier(Modifier::REVERSED)
        } else {
            look(Tone::Dim, model.colour)
        };
        tabs.push(Span::styled(tab.name(), style));
    }
    frame.render_widget(Line::from(tabs), Rect { height: 1, ..area });
    let lines = model.wrapped.iter().skip(model.scroll).take(model.body_height());
    let lines: Vec<Line<'_>> = lines.map(|line| shown(line, model.colour)).collect();
    let body = Rect { y: area.y + 1, height: area.height - 1, ..area };
    frame.render_widget(Paragraph::new(lines), body);
}

fn draw_footer(model: &Model, screen: Rect, frame: &mut Frame<'_>) {
    let area = Rect { y: screen.bottom() - 1, height: 1, ..screen };
    let typed = |word: &str, typed: &str| {
        let text = Text::new(Tone::Plain, typed).plain();
        // What is typed last is seen.
        let room = usize::from(area.width).saturating_sub(word.width() + 2);
        let skip = text.chars().count().saturating_sub(room);
        let end: String = text.chars().skip(skip).collect();
        Line::from(format!("{word}{end}█"))
    };
    let line = match (&model.mode, &model.message) {
        (Mode::Search(text), _) => typed("/", text),
        (Mode::Compare(run), _) => typed("compare with run: ", run),
        (_, Some(message)) => return draw_message(message, model.colour, screen, frame),
        (_, None) => {
            let lines = model.wrapped.len();
            let height = model.body_height();
            let more = if lines > height {
                format!("  {}/{lines}", (model.scroll + height).min(lines))
            } else {
                String::new()
            };
            let keys = cut(KEYS, usize::from(area.width).saturating_sub(more.width()));
            Line::styled(format!("{keys}{more}"), look(Tone::Dim, model.colour))
        }
    };
    frame.render_widget(line, area);
}

/// A message is read to its end: a long one covers what stands above it.
fn draw_message(message: &Text, colour: bool, screen: Rect, frame: &mut Frame<'_>) {
    let lines = message.wrapped(usize::from(screen.width));
    let lines: Vec<Line<'_>> = lines.iter().map(|line| shown(line, colour)).collect();
    let height = u16::try_from(lines.len()).unwrap_or(u16::MAX).min(screen.height / 2);
    let area = Rect { y: screen.bottom() - height, height, ..screen };
    frame.render_widget(Clear, area);
    frame.render_widget(Paragraph::new(lines), area);
}

fn draw_help(area: Rect, frame: &mut Frame<'_>) {
    let width = 66.min(area.width);
    let height = (u16::try_from(HELP.len()).unwrap_or(u16::MAX) + 2).min(area.height);
    let place =
        Rect { x: area.x + (area.width - width) / 2, y: area.y + (area.height - height) / 2, width, height };
    let lines = HELP.iter().map(|(key, what)| Line::raw(format!(" {key:<20} {what}")));
    let lines: Vec<Line<'_>> = lines.collect();
    frame.render_widget(Clear, place);
    frame.render_widget(Paragraph::new(lines).block(Block::bordered().title(" Keys ")), place);
}

fn fit(text: &Text, width: u16) -> Line<'static> {
    Line::raw(cut(&text.plain(), usize::from(width)))
}

fn shown(text: &Text, colour: bool) -> Line<'static> {
    Line::from_iter(text.parts().map(|(tone, text)| Span::styled(text.to_owned(), look(tone, colour))))
}

fn look(tone: Tone, colour: bool) -> Style {
    let plain = Style::new();
    match (tone, colour) {
        (Tone::Plain, _) => plain,
        (Tone::Bold, _) => plain.add_modifier(Modifier::BOLD),
        (Tone::Dim, _) => plain.add_modifier(Modifier::DIM),
        (Tone::Warn, false) => plain.add_modifier(Modifier::BOLD),
        (Tone::Good | Tone::Bad | Tone::Name, false) => plain,
        (Tone::Good, true) => plain.fg(Color::Green),
        (Tone::Bad, true) => plain.fg(Color::Red),
        (Tone::Warn, true) => plain.fg(Color::Yellow),
        (Tone::Name, true) => plain.fg(Color::Cyan),
    }
}

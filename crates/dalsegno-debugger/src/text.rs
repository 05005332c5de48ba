//! Text that may be shown: screened, with tones instead of colours, broken into lines that fit.

use dalsegno_screen::screened;
use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

/// What a part of a text is, from which its look follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// Nothing in particular.
    Plain,
    /// A title.
    Bold,
    /// Less important.
    Dim,
    /// What went well, or stands on the right of a comparison.
    Good,
    /// What went wrong, or stands on the left of a comparison.
    Bad,
    /// What a person should look at.
    Warn,
    /// A name.
    Name,
}

/// One line of text, parts of which have a tone. It has no line break, and every character of it can be seen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Text(Vec<(Tone, String)>);

impl Text {
    /// A line of one tone. A text of several lines needs [`Self::lines`].
    pub fn new(tone: Tone, text: &str) -> Self {
        Self::default().and(tone, text)
    }

    /// The same line with more behind it.
    #[must_use]
    pub fn and(mut self, tone: Tone, text: &str) -> Self {
        if !text.is_empty() {
            let text = screened(text).replace('\n', " ").replace('\t', "    ");
            self.0.push((tone, text));
        }
        self
    }

    /// The lines of parts that may have line breaks.
    pub fn lines<'t>(parts: impl IntoIterator<Item = (Tone, &'t str)>) -> Vec<Self> {
        let mut lines = vec![Self::default()];
        for (tone, text) in parts {
            for (index, piece) in text.replace("\r\n", "\n").split('\n').enumerate() {
                let line = if index == 0 { lines.pop().unwrap_or_default() } else { Self::default() };
                lines.push(line.and(tone, piece));
            }
        }
        lines
    }

    /// The parts, in order.
    pub fn parts(&self) -> impl Iterator<Item = (Tone, &str)> {
        self.0.iter().map(|(tone, text)| (*tone, text.as_str()))
    }

    /// The columns that it takes.
    pub fn width(&self) -> usize {
        self.0.iter().map(|(_, text)| text.width()).sum()
    }

    /// The text without its tones.
    pub fn plain(&self) -> String {
        self.0.iter().map(|(_, text)| text.as_str()).collect()
    }

    /// Breaks it into lines of at most `width` columns, at spaces where there are some. Nothing is left out but the space at
    /// which a line is broken.
    pub fn wrapped(&self, width: usize) -> Vec<Self> {
        if self.width() <= width {
            return vec![self.clone()];
        }
        let parts = self.0.iter().flat_map(|(tone, text)| text.graphemes(true).map(move |one| (*tone, one)));
        let parts: Vec<(Tone, &str)> = parts.collect();
        let indent = parts.iter().take_while(|(_, one)| *one == " ").count().min(width / 3);
        let (mut lines, mut start) = (Vec::new(), 0);
        while start < parts.len() {
            // What continues a line stands below its beginning.
            let hang = if start == 0 { 0 } else { indent };
            let mut used = hang;
            let fits = |(_, one): &&(Tone, &str)| {
                used += one.width();
                used <= width
            };
            // A character that is wider than a line gets one all the same.
            let most = (start + parts[start..].iter().take_while(fits).count()).max(start + 1);
            // A space near the beginning would leave most of the line empty.
            let space = parts[start..most].iter().rposition(|(_, one)| *one == " ");
            let space = space.filter(|space| *space > (most - start) / 3);
            let (end, next) = match space {
                _ if most == parts.len() => (most, most),
                _ if parts[most].1 == " " => (most, most + 1),
                Some(space) => (start + space, start + space + 1),
                None => (most, most),
            };
            let mut line = Self::default();
            if hang > 0 {
                line.0.push((Tone::Plain, " ".repeat(hang)));
            }
            for (tone, one) in &parts[start..end] {
                match line.0.last_mut() {
                    Some((last, text)) if last == tone => text.push_str(one),
                    Some(_) | None => line.0.push((*tone, (*one).to_owned())),
                }
            }
            lines.push(line);
            start = next;
        }
        lines
    }
}

/// The beginning of a text that takes at most `width` columns, with `…` where something is left out.
pub(crate) fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut short = String::new();
    let mut used = 1;
    for one in text.graphemes(true) {
        used += one.width();
        if used > width {
            break;
        }
        short.push_str(one);
    }
    if width > 0 {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use dalsegno_screen::is_plain;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn lines_fit_and_lose_nothing_but_spaces(text in "(\\PC|\\s|[\u{1b}\u{202e}\u{200b}日👩\u{301}]){0,200}", width in 2usize..60) {
            for line in Text::lines([(Tone::Plain, text.as_str())]) {
                let all = line.plain();
                prop_assert!(all.chars().all(|one| is_plain(one) && one != '\n' && one != '\t'));
                let wrapped = line.wrapped(width);
                let bare = |text: &str| text.chars().filter(|one| *one != ' ').collect::<String>();
                prop_assert_eq!(bare(&wrapped.iter().map(Text::plain).collect::<String>()), bare(&all));
                for line in &wrapped {
                    prop_assert!(line.width() <= width, "{:?} in {}", line, width);
                }
                prop_assert!(cut(&all, width).width() <= width);
            }
        }
    }

    #[test]
    fn a_line_is_broken_at_spaces_and_keeps_its_tones() {
        let line = Text::new(Tone::Bold, "  one").and(Tone::Dim, " two three");
        let wrapped: Vec<String> = line.wrapped(9).iter().map(Text::plain).collect();
        assert_eq!(wrapped, ["  one two", "  three"]);
        assert_eq!(line.wrapped(9)[0].parts().count(), 2);
        assert_eq!(Text::new(Tone::Plain, "日本語").wrapped(4).len(), 2);
    }
}

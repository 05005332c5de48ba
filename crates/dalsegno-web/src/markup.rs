//! JSON with colours: the one place that writes markup itself.

use std::{fmt, io};

use dalsegno_screen::inert;
use serde_json::Value;

/// Most bytes of one value on a page. A longer one is cut, and says so.
const BYTES: usize = 64 * 1024;

/// JSON as markup. Everything in it that comes from a value is escaped.
#[derive(Debug, Clone, Default)]
pub struct Markup(String);

impl Markup {
    /// A value in lines, with every hidden character escaped.
    pub fn json(value: &Value) -> Self {
        Self::within(value, BYTES)
    }

    /// The same, cut after about so many bytes: no more of a large value is looked at.
    pub fn within(value: &Value, bytes: usize) -> Self {
        let mut begun = Begun { text: Vec::new(), most: bytes };
        let is_whole = serde_json::to_writer_pretty(&mut begun, value).is_ok();
        // It may be cut within a character.
        let json = String::from_utf8_lossy(&begun.text);
        let json = inert(json.trim_end_matches(char::REPLACEMENT_CHARACTER));
        let mut markup = String::with_capacity(json.len() * 2);
        colour(&json, &mut markup);
        if !is_whole {
            markup.push_str("\n<span class=\"cut\">… the rest is left out: <code>dalsegno show RUN --full</code> has all of it</span>");
        }
        Self(markup)
    }
}

/// The beginning of what is written.
struct Begun {
    text: Vec<u8>,
    most: usize,
}

impl io::Write for Begun {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = self.most.saturating_sub(self.text.len()).min(bytes.len());
        self.text.extend_from_slice(&bytes[..room]);
        // Nothing was taken: then the writer ends.
        Ok(room)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl fmt::Display for Markup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl askama::filters::HtmlSafe for Markup {}

impl askama::FastWritable for Markup {
    fn write_into(&self, dest: &mut dyn fmt::Write, _: &dyn askama::Values) -> askama::Result<()> {
        Ok(dest.write_str(&self.0)?)
    }
}

/// Puts each text, name and other value of JSON into an element of its own.
fn colour(json: &str, markup: &mut String) {
    let mut rest = json;
    while let Some(first) = rest.chars().next() {
        let (class, length) = match first {
            '"' => {
                let length = text(rest);
                let is_name = rest[length..].trim_start().starts_with(':');
                (Some(if is_name { "k" } else { "s" }), length)
            }
            '-' | '0'..='9' | 't' | 'f' | 'n' => {
                let inside = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
                (Some("a"), rest.find(|c| !inside(c)).unwrap_or(rest.len()))
            }
            _ => {
                let begins = |c: char| c.is_ascii_digit() || "\"-tfn".contains(c);
                (None, rest.find(begins).unwrap_or(rest.len()))
            }
        };
        let (token, after) = rest.split_at(length.max(first.len_utf8()));
        match class {
            Some(class) => {
                markup.push_str("<span class=\"");
                markup.push_str(class);
                markup.push_str("\">");
                escape(token, markup);
                markup.push_str("</span>");
            }
            None => escape(token, markup),
        }
        rest = after;
    }
}

/// The length of the text that begins here, with its quotes; all of it where it does not end.
fn text(json: &str) -> usize {
    let mut is_escaped = false;
    for (index, byte) in json.bytes().enumerate().skip(1) {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => return index + 1,
            _ => {}
        }
    }
    json.len()
}

fn escape(text: &str, markup: &mut String) {
    for c in text.chars() {
        match c {
            '<' => markup.push_str("&lt;"),
            '>' => markup.push_str("&gt;"),
            '&' => markup.push_str("&amp;"),
            '"' => markup.push_str("&quot;"),
            '\'' => markup.push_str("&#x27;"),
            c => markup.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_texts_and_other_values_have_their_colours() {
        let markup = Markup::json(&json!({ "a": ["x\"y", -1.5e3, true, null] })).to_string();
        assert_eq!(
            markup,
            "{\n  <span class=\"k\">&quot;a&quot;</span>: [\n    <span class=\"s\">&quot;x\\&quot;y&quot;</span>,\n    \
             <span class=\"a\">-1500.0</span>,\n    <span class=\"a\">true</span>,\n    <span class=\"a\">null</span>\n  ]\n}"
        );
    }

    #[test]
    fn no_value_becomes_markup() {
        for hostile in ["<img src=x onerror=alert(1)>", "</pre><script>1</script>", "'\"><b>", "\u{202e}<i>"]
        {
            for value in [json!(hostile), json!({ hostile: hostile }), json!([[hostile]])] {
                let markup = Markup::json(&value).to_string();
                let without = markup
                    .replace("<span class=\"k\">", "")
                    .replace("<span class=\"s\">", "")
                    .replace("<span class=\"a\">", "")
                    .replace("</span>", "");
                assert!(!without.contains(['<', '>', '\'', '"', '\u{202e}']), "{markup}");
            }
        }
    }

    #[test]
    fn a_long_value_is_cut_and_says_so() {
        let markup = Markup::json(&json!("é".repeat(BYTES))).to_string();
        assert!(markup.contains("the rest is left out"), "{}", markup.len());
        assert!(
            markup.len() < BYTES + 1_000 && !markup.contains(char::REPLACEMENT_CHARACTER),
            "{}",
            markup.len()
        );
        assert!(!Markup::within(&json!("12345678"), 10).to_string().contains("left out"));
    }
}

//! JSON with colours: the one place that writes markup itself.

use std::fmt;

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
        let json = serde_json::to_string_pretty(value).unwrap_or_default();
        let json = inert(&json);
        let end = json.floor_char_boundary(BYTES.min(json.len()));
        let mut markup = String::with_capacity(end * 2);
        colour(&json[..end], &mut markup);
        if end < json.len() {
            let rest = crate::text::count((json.len() - end) as u64, "byte");
            markup.push_str("\n<span class=\"cut\">… ");
            markup.push_str(&rest);
            markup.push_str(" more: <code>dalsegno show RUN --op ID --full</code></span>");
        }
        Self(markup)
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
        assert!(markup.contains("bytes more"), "{}", &markup[markup.len() - 200..]);
    }
}

//! Where a part of a TOML or JSON string stands in its file.

use std::ops::Range;
use std::str::Chars;

/// Finds a part of a decoded string in the source that it was decoded from, quotes included.
///
/// `None` when the two do not belong together; the caller then points at the whole string.
pub(crate) fn locate(raw: &str, decoded: &str, part: &Range<usize>) -> Option<Range<usize>> {
    let (quotes, is_basic) = match raw {
        _ if raw.starts_with(r#"""""#) => (3, true),
        _ if raw.starts_with("'''") => (3, false),
        _ if raw.starts_with('"') => (1, true),
        _ if raw.starts_with('\'') => (1, false),
        _ => return None,
    };
    let body = raw.get(quotes..raw.len().checked_sub(quotes)?)?;
    let mut rest = body.chars();
    if quotes == 3 {
        // A line break directly after the quotes does not belong to the string.
        rest = body.strip_prefix("\r\n").or_else(|| body.strip_prefix('\n')).unwrap_or(body).chars();
    }

    let mut start = None;
    let mut offset = 0;
    loop {
        if is_basic && quotes == 3 {
            skip_line_continuations(&mut rest);
        }
        let here = raw.len() - quotes - rest.as_str().len();
        if offset >= part.start {
            start.get_or_insert(here);
        }
        if offset >= part.end {
            return Some(start?..here);
        }
        let expected = decoded.get(offset..)?.chars().next()?;
        let found = if is_basic { next_basic(&mut rest)? } else { rest.next()? };
        if found != expected {
            // A multi-line string may have its line breaks normalised.
            let is_line_break = found == '\r' && expected == '\n' && rest.next() == Some('\n');
            if !is_line_break {
                return None;
            }
        }
        offset += expected.len_utf8();
    }
}

/// Reads one character of a basic string.
fn next_basic(rest: &mut Chars<'_>) -> Option<char> {
    match rest.next()? {
        '\\' => match rest.next()? {
            'b' => Some('\u{8}'),
            'e' => Some('\u{1b}'),
            'f' => Some('\u{c}'),
            'n' => Some('\n'),
            'r' => Some('\r'),
            't' => Some('\t'),
            'x' => hexadecimal(rest, 2),
            'u' => utf16(rest),
            'U' => hexadecimal(rest, 8),
            letter @ ('\\' | '"' | '/') => Some(letter),
            _ => None,
        },
        letter => Some(letter),
    }
}

/// Reads four digits; in JSON two such escapes can stand for one character.
fn utf16(rest: &mut Chars<'_>) -> Option<char> {
    let digits = |rest: &mut Chars<'_>| {
        let unit = u16::from_str_radix(rest.as_str().get(..4)?, 16).ok()?;
        *rest = rest.as_str()[4..].chars();
        Some(unit)
    };
    let first = digits(rest)?;
    if let Ok(letter) = char::try_from(u32::from(first)) {
        return Some(letter);
    }
    *rest = rest.as_str().strip_prefix("\\u")?.chars();
    char::decode_utf16([first, digits(rest)?]).next()?.ok()
}

fn hexadecimal(rest: &mut Chars<'_>, digits: usize) -> Option<char> {
    let text = rest.as_str().get(..digits)?;
    *rest = rest.as_str()[digits..].chars();
    char::from_u32(u32::from_str_radix(text, 16).ok()?)
}

/// Skips backslashes at line ends, with all white space up to the next character of the string.
fn skip_line_continuations(rest: &mut Chars<'_>) {
    while let Some(after) = rest.as_str().strip_prefix('\\') {
        let line_end = after.trim_start_matches([' ', '\t']);
        if !line_end.starts_with(['\n', '\r']) {
            return;
        }
        *rest = line_end.trim_start_matches([' ', '\t', '\n', '\r']).chars();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Decodes `raw` with the real parser and returns the source text of the first occurrence of `wanted`.
    #[track_caller]
    fn found(raw: &str, wanted: &str) -> String {
        let document = format!("a = {raw}");
        let table: toml::Table = document.parse().unwrap();
        let decoded = table["a"].as_str().unwrap();
        let start = decoded.find(wanted).unwrap();
        let span = locate(raw, decoded, &(start..start + wanted.len())).unwrap();
        raw[span].to_owned()
    }

    #[test]
    fn a_part_is_found_in_every_kind_of_string() {
        assert_eq!(found("'x {{steps.a}}'", "steps.a"), "steps.a");
        assert_eq!(found(r#""x {{steps.a}}""#, "steps.a"), "steps.a");
        assert_eq!(found("'''\nx\n{{steps.a}}'''", "steps.a"), "steps.a");
        assert_eq!(found("\"\"\"\nx\n{{steps.a}}\"\"\"", "steps.a"), "steps.a");
        assert_eq!(found("'''\r\nx\r\n{{steps.a}}'''", "steps.a"), "steps.a");
    }

    #[test]
    fn escapes_are_counted_as_they_are_written() {
        assert_eq!(found(r#""\t\"é\u00e9 {{steps.a}}""#, "steps.a"), "steps.a");
        assert_eq!(found(r#""\x41\U0001F600 {{steps.a}}""#, "steps.a"), "steps.a");
        assert_eq!(found(r#""steps[\"a\"]""#, "[\"a\"]"), r#"[\"a\"]"#);
        assert_eq!(found("\"\"\"one \\\n   \\\n  two steps.a\"\"\"", "two steps.a"), "two steps.a");
    }

    #[test]
    fn a_part_is_found_behind_the_escapes_of_json() {
        let (raw, decoded) = (r#""\/ \ud83d\ude00 \u00e9 {{a}}""#, "/ 😀 é {{a}}");
        let start = decoded.find("{{a}}").unwrap();
        let span = locate(raw, decoded, &(start..start + 5)).unwrap();
        assert_eq!(&raw[span], "{{a}}");
    }

    #[test]
    fn strings_that_do_not_belong_together_are_not_located() {
        assert_eq!(locate("'abc'", "xyz", &(1..2)), None);
        assert_eq!(locate("abc", "abc", &(1..2)), None);
        assert_eq!(locate("'", "", &(0..0)), None);
        assert_eq!(locate("'a'", "a", &(0..9)), None);
    }
}

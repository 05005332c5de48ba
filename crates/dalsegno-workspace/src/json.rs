//! Reads JSON files and keeps the place of every value.

use std::collections::BTreeSet;
use std::ops::Range;

use jsonc_parser::ast::Value as Node;
use jsonc_parser::common::Ranged;
use jsonc_parser::errors::ParseErrorKind;
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};
use serde_json::Value;

use crate::code::Code;
use crate::report::Report;

/// What some editors write before a text, and no editor shows.
const MARK: char = '\u{feff}';

/// A JSON file: its value, and where each part of it stands.
pub(crate) struct JsonFile<'t> {
    text: &'t str,
    tree: Node<'t>,
    value: Value,
}

impl<'t> JsonFile<'t> {
    /// Reads strict JSON; reports the first place where it is none, and every key that is given twice.
    ///
    /// One parser keeps the places, the other decides what is JSON and what its numbers and strings mean, since that is
    /// the one that reads the same document when it comes over the network.
    pub(crate) fn parse(report: &Report, text: &'t str) -> Option<Self> {
        if text.starts_with(MARK) {
            let problem = "the file begins with a byte order mark, which JSON does not allow";
            report
                .error(Code::JsonSyntax, 0..MARK.len_utf8(), problem)
                .help("save it as UTF-8 without a byte order mark");
            return None;
        }
        let tree = match parse_to_ast(text, &CollectOptions::default(), &STRICT) {
            Ok(parsed) => parsed.value,
            Err(error) => {
                let range = error.range();
                match error.kind() {
                    ParseErrorKind::NestingDepthExceeded => too_deep(report, range.start),
                    kind => not_json(report, range.start..range.end, &lower_first(&kind.to_string())),
                }
                return None;
            }
        };
        let Some(tree) = tree else {
            not_json(report, 0..0, "the file is empty");
            return None;
        };
        let before = report.count();
        check(report, &tree, 0);
        if report.count() > before {
            return None;
        }
        match serde_json::from_str(text) {
            Ok(value) => Some(Self { text, tree, value }),
            Err(error) => {
                let at = offset(text, error.line(), error.column());
                let words = error.to_string();
                not_json(report, at..at, words.split(" at line ").next().unwrap_or_default());
                None
            }
        }
    }

    /// The document without its places.
    pub(crate) fn value(&self) -> &Value {
        &self.value
    }

    /// Finds where the value of a JSON pointer stands, or the nearest one around it that is there.
    ///
    /// A list or an object of several lines is shown by its key, else by its first bracket.
    pub(crate) fn span(&self, pointer: &str) -> Range<usize> {
        let (key, node) = self.find(pointer);
        let range = node.range();
        let is_container = matches!(node, Node::Object(_) | Node::Array(_));
        if is_container && self.text[range.start..range.end].contains('\n') {
            return key.unwrap_or(range.start..range.start + 1);
        }
        range.start..range.end
    }

    /// Finds where the key stands whose value a JSON pointer names; the value itself where it has none.
    pub(crate) fn key_span(&self, pointer: &str) -> Range<usize> {
        let (key, _) = self.find(pointer);
        key.unwrap_or_else(|| self.span(pointer))
    }

    /// Follows a pointer as far as it leads; the place of the last key, and the value.
    fn find(&self, pointer: &str) -> (Option<Range<usize>>, &Node<'t>) {
        let (mut key, mut node) = (None, &self.tree);
        for part in pointer.split('/').skip(1) {
            let part = part.replace("~1", "/").replace("~0", "~");
            match node {
                Node::Object(object) => {
                    let Some(found) = object.properties.iter().find(|found| found.name.as_str() == part)
                    else {
                        break;
                    };
                    let range = found.name.range();
                    (key, node) = (Some(range.start..range.end), &found.value);
                }
                Node::Array(array) => {
                    let Some(item) = part.parse().ok().and_then(|index: usize| array.elements.get(index))
                    else {
                        break;
                    };
                    (key, node) = (None, item);
                }
                _ => break,
            }
        }
        (key, node)
    }
}

/// Reports keys that are given twice, of which one would silently not count, and what is nested too deeply.
fn check(report: &Report, node: &Node<'_>, depth: usize) {
    let range = node.range();
    if depth > DEPTH_MAX {
        too_deep(report, range.start);
        return;
    }
    match node {
        Node::Object(object) => {
            let mut seen = BTreeSet::new();
            for property in &object.properties {
                let name = property.name.as_str();
                if !seen.insert(name) {
                    let range = property.name.range();
                    report
                        .error(Code::JsonSyntax, range.start..range.end, format!("`{name}` is given twice"))
                        .help("keep one of them");
                }
                check(report, &property.value, depth + 1);
            }
        }
        Node::Array(array) => array.elements.iter().for_each(|item| check(report, item, depth + 1)),
        _ => {}
    }
}

fn not_json(report: &Report, span: Range<usize>, words: &str) {
    report.error(Code::JsonSyntax, span, format!("this is not JSON: {words}"));
}

fn too_deep(report: &Report, at: usize) {
    let problem = format!("lists and objects are nested deeper than {DEPTH_MAX} levels");
    report.error(Code::JsonSyntax, at..at + 1, problem).help("use fewer levels");
}

/// Where a line and a column in bytes, both from 1, lead.
fn offset(text: &str, line: usize, column: usize) -> usize {
    let before: usize = text.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
    (before + column.saturating_sub(1)).min(text.len())
}

fn lower_first(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_lowercase().chain(letters).collect()).unwrap_or_default()
}

/// JSON and nothing more: a document that is sent over the network is read by others, too.
const STRICT: ParseOptions = ParseOptions {
    allow_comments: false,
    allow_loose_object_property_names: false,
    allow_trailing_commas: false,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

/// Conditions nest to 8, each with a list and an object; the rest is for schemas and bodies.
const DEPTH_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::source::SourceFile;

    fn report(text: &str) -> Report {
        Report::new(SourceFile::new(PathBuf::from("a.json"), text))
    }

    #[track_caller]
    fn problem(text: &str) -> String {
        let report = report(text);
        assert!(JsonFile::parse(&report, text).is_none(), "{text}");
        report.finish().1.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn every_value_and_every_key_has_its_place() {
        let text = "{ \"a\": [1, { \"b/c\": \"é\" }],\n \"d\": {\n \"e\": true } }";
        let report = report(text);
        let file = JsonFile::parse(&report, text).unwrap();
        assert_eq!(&text[file.span("/a/1/b~1c")], "\"é\"");
        assert_eq!(&text[file.key_span("/a/1/b~1c")], "\"b/c\"");
        assert_eq!(&text[file.span("/a/0")], "1");
        assert_eq!(&text[file.span("/d")], "\"d\"");
        assert_eq!(&text[file.span("/d/e")], "true");
        assert_eq!(&text[file.span("/a/7/x")], "[1, { \"b/c\": \"é\" }]");
        assert_eq!(&text[file.span("")], "{");
        assert_eq!(file.value().pointer("/a/1/b~1c").unwrap(), "é");
    }

    #[test]
    fn what_is_not_json_is_reported_where_it_stands() {
        for (text, place, words) in [
            ("{ \"a\": 1, }", "1:9", "trailing commas are not allowed"),
            ("{\n 'a': 1 }", "2:2", "single-quoted strings are not allowed"),
            ("// a\n{}", "1:1", "comments are not allowed"),
            (" ", "1:1", "the file is empty"),
            ("{} {}", "1:4", "text cannot contain more than one JSON value"),
            ("{ \"a\": 01 }", "1:9", "expected comma"),
            ("{ \"a\": 1e999 }", "1:12", "number out of range"),
        ] {
            assert_eq!(
                problem(text),
                format!("a.json:{place}: error[json-syntax]: this is not JSON: {words}")
            );
        }
        assert!(problem("{ \"a\": \"\u{1}\" }").contains("control character"));
        assert!(problem("{ \"a\": \"\\ud800\" }").contains("unpaired high surrogate"));
    }

    #[test]
    fn a_key_that_is_given_twice_is_reported_each_time() {
        assert_eq!(
            problem("{ \"a\": 1,\n \"a\": { \"b\": 1, \"\\u0062\": 2 } }"),
            "a.json:2:2: error[json-syntax]: `a` is given twice\n\
             a.json:2:17: error[json-syntax]: `b` is given twice"
        );
    }

    #[test]
    fn nesting_is_bounded_whatever_the_depth() {
        for depth in [DEPTH_MAX + 2, 200, 1_000, 100_000] {
            let text = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
            assert!(problem(&text).contains("deep"), "{}", problem(&text));
        }
        let text = format!("{}{}", "[".repeat(DEPTH_MAX), "]".repeat(DEPTH_MAX));
        assert!(JsonFile::parse(&report(&text), &text).is_some());
    }
}

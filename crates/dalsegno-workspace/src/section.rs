//! Reads the values of one table. Whatever does not fit is reported, and the reading goes on.

use std::fmt::Display;
use std::ops::Range;
use std::str::FromStr;
use std::time::Duration;

use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use crate::code::Code;
use crate::names::{list, suggestion};
use crate::report::Report;
use crate::shape::{Form, Key, Shape};
use crate::units;

/// A value and the bytes of the file that it was read from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Located<T> {
    /// The value.
    pub value: T,
    /// Where it stands, in bytes.
    pub span: Range<usize>,
}

impl<T> Located<T> {
    pub(crate) fn map<U>(self, map: impl FnOnce(T) -> U) -> Located<U> {
        Located { value: map(self.value), span: self.span }
    }
}

/// One table of a file.
pub(crate) struct Section<'t> {
    pub(crate) report: &'t Report,
    table: &'t DeTable<'t>,
    /// What a missing key points at: the header, or the whole inline table.
    pub(crate) span: Range<usize>,
    /// What messages call it, such as ``a step`` or `` `[tools]` ``.
    what: String,
    /// The keys that it may have.
    shape: &'static Shape,
}

/// Parameters that some providers take, and for which no file has a key of its own.
const OF_PROVIDERS: &[&str] = &["frequency_penalty", "presence_penalty", "thinking", "top_k"];

impl<'t> Section<'t> {
    /// Opens a table and reports the keys that it should not have.
    pub(crate) fn open(
        report: &'t Report,
        table: &'t DeTable<'t>,
        span: Range<usize>,
        what: impl Into<String>,
        shape: &'static Shape,
    ) -> Self {
        let section = Self { report, table, span, what: what.into(), shape };
        for key in table.keys() {
            if shape.key(key.get_ref()).is_none() && !report.is_concealed(&key.span()) {
                section.unknown_key(key);
            }
        }
        section
    }

    fn unknown_key(&self, key: &Spanned<DeString<'t>>) {
        let name = key.get_ref();
        let known: Vec<_> = self.shape.keys.iter().map(|key| key.name).collect();
        let header = self.report.source().slice(self.span.clone());
        if header.starts_with('[') && self.report.has_landed(name) {
            self.key_below_table(key, header);
            return;
        }
        let help = match OF_PROVIDERS.contains(&&**name) && self.what.contains("[model") {
            true => format!("write it in dalsegno.toml, in `[models.NAME]`: `extra = {{ {name} = … }}`"),
            false => suggestion(name, &known),
        };
        self.report
            .error(Code::UnknownKey, key.span(), format!("unknown key `{name}` in {}", self.what))
            .help(help);
    }

    fn key_below_table(&self, key: &Spanned<DeString<'t>>, header: &str) {
        let (name, table) = (key.get_ref(), header.trim_matches(['[', ']']).trim());
        self.report
            .error(
                Code::KeyBelowTable,
                key.span(),
                format!("`{name}` is below `{header}`, so TOML reads it as `{table}.{name}`"),
            )
            .label("this belongs to the whole file")
            .help("move it above the first table header");
    }

    /// What messages call it.
    pub(crate) fn what(&self) -> &str {
        &self.what
    }

    /// Finds a value as it stands.
    pub(crate) fn get(&self, key: &str) -> Option<&'t Spanned<DeValue<'t>>> {
        debug_assert!(self.shape.key(key).is_some(), "`{key}` is not in the table of {}", self.what);
        self.table.get(key)
    }

    /// Says whether a key is there.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    pub(crate) fn form(&self, key: &str) -> Option<Form> {
        self.shape.key(key).map(|key| key.form)
    }

    /// Finds where a key itself stands.
    pub(crate) fn key_span(&self, key: &str) -> Option<Range<usize>> {
        self.table.get_key_value(key).map(|(key, _)| key.span())
    }

    /// Reports the keys that must be there and are not, unless they have landed in a table below.
    pub(crate) fn require_all(&self) {
        for key in self.shape.keys {
            if let Key { name, required: Some(help), .. } = key {
                self.require(name, help);
            }
        }
    }

    /// Reports a key that must be there here, unless it is.
    pub(crate) fn require(&self, key: &str, help: &str) {
        if !self.has(key) && !self.report.is_elsewhere(key) {
            self.report
                .error(Code::MissingKey, self.span.clone(), format!("{} has no `{key}`", self.what))
                .help(help);
        }
    }

    pub(crate) fn string(&self, key: &str) -> Option<Located<String>> {
        string(self.report, key, self.get(key)?)
    }

    /// Reads a string that a parser of its own checks, such as a name.
    pub(crate) fn parsed<T: FromStr<Err: Display>>(&self, key: &str) -> Option<Located<T>> {
        parsed(self.report, self.string(key)?)
    }

    pub(crate) fn boolean(&self, key: &str) -> Option<bool> {
        let value = self.get(key)?;
        value.get_ref().as_bool().or_else(|| wrong_type(self.report, key, value, "`true` or `false`"))
    }

    pub(crate) fn integer<N: TryFrom<u64>>(&self, key: &str) -> Option<N> {
        let value = self.get(key)?;
        let Some(Form::Integer(least, most)) = self.form(key) else { return misread(key) };
        let Some(integer) = value.get_ref().as_integer() else {
            return wrong_type(self.report, key, value, "a whole number");
        };
        let number = u64::from_str_radix(integer.as_str(), integer.radix()).ok();
        let number = number
            .filter(|number| (least..=most).contains(number))
            .and_then(|number| N::try_from(number).ok());
        if number.is_none() {
            let expected = match least == most {
                true => format!("expected {least}"),
                false => format!("expected {least} to {most}"),
            };
            self.report
                .error(Code::InvalidValue, value.span(), format!("`{key}` is out of range"))
                .label(expected);
        }
        number
    }

    pub(crate) fn number(&self, key: &str) -> Option<f64> {
        let value = self.get(key)?;
        let Some(Form::Number(least, most)) = self.form(key) else { return misread(key) };
        let number = match value.get_ref() {
            DeValue::Float(float) => float.as_str().parse().ok(),
            DeValue::Integer(integer) => {
                u32::from_str_radix(integer.as_str(), integer.radix()).ok().map(f64::from)
            }
            _ => return wrong_type(self.report, key, value, "a number"),
        };
        let number = number.filter(|number| (least..=most).contains(number));
        if number.is_none() {
            let expected = format!("expected {least} to {most}");
            self.report
                .error(Code::InvalidValue, value.span(), format!("`{key}` is out of range"))
                .label(expected);
        }
        number
    }

    /// Reads dollars as whole numbers of their smallest part; never by way of a binary fraction.
    pub(crate) fn dollars(&self, key: &str) -> Option<u64> {
        let value = self.get(key)?;
        let Some(Form::Dollars { most, decimals }) = self.form(key) else { return misread(key) };
        let text = match value.get_ref() {
            DeValue::Float(float) => float.as_str(),
            DeValue::Integer(integer) if integer.radix() == 10 => integer.as_str(),
            _ => return wrong_type(self.report, key, value, "a number of US dollars such as `0.25`"),
        };
        let amount = units::decimal(text, decimals)
            .filter(|amount| *amount <= u64::from(most).saturating_mul(10_u64.pow(decimals)));
        if amount.is_none() {
            self.report
                .error(Code::InvalidValue, value.span(), format!("`{key}` cannot be `{text}`"))
                .label(format!("expected 0 to {most} US dollars with at most {decimals} decimals"));
        }
        amount
    }

    pub(crate) fn duration(&self, key: &str) -> Option<Duration> {
        self.unit(key, Code::InvalidDuration, "a duration such as `\"2s\"`", units::duration)
    }

    pub(crate) fn millis(&self, key: &str) -> Option<u64> {
        self.duration(key).and_then(|duration| u64::try_from(duration.as_millis()).ok())
    }

    pub(crate) fn size(&self, key: &str) -> Option<u64> {
        self.unit(key, Code::InvalidSize, "a size such as `\"64MiB\"`", units::size)
    }

    fn unit<T>(
        &self,
        key: &str,
        code: Code,
        expected: &str,
        read: fn(&str) -> Result<T, String>,
    ) -> Option<T> {
        let value = self.get(key)?;
        let Some(text) = value.get_ref().as_str() else {
            return wrong_type(self.report, key, value, expected);
        };
        read(text)
            .map_err(|expected| {
                self.report.error(code, value.span(), format!("`{key}` cannot be `{text}`")).label(expected);
            })
            .ok()
    }

    /// Reads one of a few words.
    pub(crate) fn choice<T: Clone>(&self, key: &str, choices: &[(&str, T)]) -> Option<T> {
        let text = self.string(key)?;
        debug_assert!(
            self.form(key)
                .and_then(Form::words)
                .is_some_and(|words| { words.iter().eq(choices.iter().map(|(word, _)| word)) }),
            "the words of `{key}` are not those of its table"
        );
        let found = choices.iter().find(|(word, _)| *word == text.value);
        if found.is_none() {
            let words: Vec<_> = choices.iter().map(|(word, _)| *word).collect();
            self.report
                .error(Code::InvalidValue, text.span, format!("`{key}` cannot be `{}`", text.value))
                .label(format!("expected one of {}", list(words)));
        }
        found.map(|(_, value)| value.clone())
    }

    /// Reads a list of strings that a parser of its own checks. Items that do not fit are left out.
    pub(crate) fn list<T: FromStr<Err: Display>>(&self, key: &str) -> Vec<Located<T>> {
        self.items(key, "a list of strings")
            .iter()
            .filter_map(|item| parsed(self.report, string(self.report, key, item)?))
            .collect()
    }

    /// The items of a list; none when it is absent or something else.
    pub(crate) fn items(&self, key: &str, expected: &str) -> &'t [Spanned<DeValue<'t>>] {
        let Some(value) = self.get(key) else { return &[] };
        match value.get_ref() {
            DeValue::Array(items) => items,
            _ => {
                wrong_type::<()>(self.report, key, value, expected);
                &[]
            }
        }
    }

    /// Opens a table within this one.
    pub(crate) fn section(&self, key: &str) -> Option<Self> {
        let shape = self.form(key).and_then(Form::shape)?;
        self.section_as(key, shape.what)
    }

    /// Opens a table within this one, which messages call `what`.
    pub(crate) fn section_as(&self, key: &str, what: &str) -> Option<Self> {
        let Some(shape) = self.form(key).and_then(Form::shape) else { return misread(key) };
        Self::of(self.report, key, self.get(key)?, what, shape)
    }

    /// Opens a table within this one that may have any keys, but for some that belong to the whole file.
    pub(crate) fn open_section(&self, key: &str, misplaced: &[&str]) -> Option<Self> {
        let Some(shape) = self.form(key).and_then(Form::shape) else { return misread(key) };
        let value = self.get(key)?;
        let DeValue::Table(table) = value.get_ref() else {
            return wrong_type(self.report, key, value, "a table");
        };
        let section =
            Self { report: self.report, table, span: value.span(), what: shape.what.to_owned(), shape };
        let header = self.report.source().slice(section.span.clone());
        for key in table.keys().filter(|key| misplaced.contains(&key.get_ref().as_ref())) {
            if header.starts_with('[') && self.report.has_landed(key.get_ref()) {
                section.key_below_table(key, header);
            }
        }
        Some(section)
    }

    /// Opens a value as a table, and reports what is missing in it.
    pub(crate) fn of(
        report: &'t Report,
        key: &str,
        value: &'t Spanned<DeValue<'t>>,
        what: &str,
        shape: &'static Shape,
    ) -> Option<Self> {
        match value.get_ref() {
            DeValue::Table(table) => {
                let section = Self::open(report, table, value.span(), what, shape);
                section.require_all();
                Some(section)
            }
            _ => wrong_type(report, key, value, "a table"),
        }
    }

    /// The tables within this one, by name: `[models.default]`, `[models.local]`.
    pub(crate) fn tables(&self, key: &str) -> Vec<(Located<String>, &'t Spanned<DeValue<'t>>)> {
        let Some(value) = self.get(key) else { return Vec::new() };
        let DeValue::Table(table) = value.get_ref() else {
            wrong_type::<()>(self.report, key, value, "a table");
            return Vec::new();
        };
        entries(table)
    }

    /// Whatever stands in this table.
    pub(crate) fn entries(&self) -> Vec<(Located<String>, &'t Spanned<DeValue<'t>>)> {
        entries(self.table)
    }
}

fn entries<'t>(table: &'t DeTable<'t>) -> Vec<(Located<String>, &'t Spanned<DeValue<'t>>)> {
    let entries = table.iter();
    entries
        .map(|(key, value)| (Located { value: key.get_ref().to_string(), span: key.span() }, value))
        .collect()
}

/// What a reader gets that asks for a key in another form than the table of keys has.
fn misread<T>(key: &str) -> Option<T> {
    debug_assert!(false, "`{key}` is read in another form than its table has");
    None
}

/// Reads a string.
pub(crate) fn string<'t>(
    report: &Report,
    key: &str,
    value: &'t Spanned<DeValue<'t>>,
) -> Option<Located<String>> {
    match value.get_ref() {
        DeValue::String(text) => Some(Located { value: text.to_string(), span: value.span() }),
        _ => wrong_type(report, key, value, "a string"),
    }
}

/// Reports a value of another type than expected.
pub(crate) fn wrong_type<T>(
    report: &Report,
    key: &str,
    value: &Spanned<DeValue<'_>>,
    expected: &str,
) -> Option<T> {
    let found = match value.get_ref() {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a number",
        DeValue::Boolean(_) => "a boolean",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    };
    report
        .error(Code::WrongType, value.span(), format!("`{key}` is {found}"))
        .label(format!("expected {expected}"));
    None
}

fn parsed<T: FromStr<Err: Display>>(report: &Report, text: Located<String>) -> Option<Located<T>> {
    match text.value.parse() {
        Ok(value) => Some(Located { value, span: text.span }),
        Err(error) => {
            report.error(Code::InvalidValue, text.span, error.to_string());
            None
        }
    }
}

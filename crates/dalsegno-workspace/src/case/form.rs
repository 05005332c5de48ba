//! Holds a value against the form that its table of keys gives it, where no reader takes it key by key.

use toml::Spanned;
use toml::de::DeValue;

use crate::code::Code;
use crate::names::list;
use crate::report::Report;
use crate::section::{Section, string, wrong_type};
use crate::shape::{Form, Shape};

/// Reports what does not fit in a value whose forms are texts, words, numbers, lists and tables.
pub(super) fn check(report: &Report, key: &str, value: &Spanned<DeValue<'_>>, form: Form) {
    let has_type = |fits: bool, expected: &str| {
        if !fits {
            wrong_type::<()>(report, key, value, expected);
        }
    };
    let found = value.get_ref();
    match form {
        Form::Boolean => has_type(found.as_bool().is_some(), "`true` or `false`"),
        Form::Text | Form::Template | Form::Expression | Form::Name(_) => {
            has_type(found.as_str().is_some(), "a string");
        }
        Form::Word(words) => {
            if let Some(text) = string(report, key, value)
                && !words.contains(&text.value.as_str())
            {
                report
                    .error(Code::InvalidValue, text.span, format!("`{key}` cannot be `{}`", text.value))
                    .label(format!("expected one of {}", list(words)));
            }
        }
        Form::Integer(least, most) => match found.as_integer() {
            None => has_type(false, "a whole number"),
            Some(integer) => {
                let number = u64::from_str_radix(integer.as_str(), integer.radix()).ok();
                if number.is_none_or(|number| !(least..=most).contains(&number)) {
                    report
                        .error(Code::InvalidValue, value.span(), format!("`{key}` is out of range"))
                        .label(format!("expected {least} to {most}"));
                }
            }
        },
        Form::Table(shape) => table(report, key, value, shape),
        Form::List(item) => match found {
            DeValue::Array(items) => items.iter().for_each(|one| check(report, key, one, *item)),
            _ => has_type(false, "a list"),
        },
        Form::Number(..)
        | Form::Dollars { .. }
        | Form::Duration
        | Form::Size
        | Form::Any
        | Form::Open
        | Form::OpenTable(_)
        | Form::Tagged(_)
        | Form::Map(_)
        | Form::Either(_) => {}
    }
}

fn table(report: &Report, key: &str, value: &Spanned<DeValue<'_>>, shape: &'static Shape) {
    let Some(section) = Section::of(report, key, value, shape.what, shape) else { return };
    for key in shape.keys {
        if let Some(value) = section.get(key.name) {
            check(report, key.name, value, key.form);
        }
    }
}

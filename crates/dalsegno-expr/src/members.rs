//! The allow-list: which methods and functions exist. Nothing else can be called.

use alloc::string::String;

/// A method of a string, an array or a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    At,
    Concat,
    EndsWith,
    Includes,
    IndexOf,
    Join,
    PadStart,
    Replace,
    Slice,
    Split,
    StartsWith,
    ToFixed,
    ToLowerCase,
    ToUpperCase,
    Trim,
}

/// A function called by its own name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Function {
    ArrayIsArray,
    Boolean,
    DateParse,
    DateToIso,
    EncodeUriComponent,
    MathAbs,
    MathCeil,
    MathFloor,
    MathMax,
    MathMin,
    MathRound,
    Number,
    ObjectKeys,
    String,
}

impl Method {
    pub(crate) const ALL: &[(&'static str, Self)] = &[
        ("at", Self::At),
        ("concat", Self::Concat),
        ("endsWith", Self::EndsWith),
        ("includes", Self::Includes),
        ("indexOf", Self::IndexOf),
        ("join", Self::Join),
        ("padStart", Self::PadStart),
        ("replace", Self::Replace),
        ("slice", Self::Slice),
        ("split", Self::Split),
        ("startsWith", Self::StartsWith),
        ("toFixed", Self::ToFixed),
        ("toLowerCase", Self::ToLowerCase),
        ("toUpperCase", Self::ToUpperCase),
        ("trim", Self::Trim),
    ];

    pub(crate) fn from_name(name: &str) -> Option<Self> {
        find(Self::ALL, name)
    }

    pub(crate) fn name(self) -> &'static str {
        name_of(Self::ALL, &self)
    }
}

impl Function {
    pub(crate) const ALL: &[(&'static str, Self)] = &[
        ("Array.isArray", Self::ArrayIsArray),
        ("Boolean", Self::Boolean),
        ("Date.parse", Self::DateParse),
        ("Date.toISO", Self::DateToIso),
        ("encodeURIComponent", Self::EncodeUriComponent),
        ("Math.abs", Self::MathAbs),
        ("Math.ceil", Self::MathCeil),
        ("Math.floor", Self::MathFloor),
        ("Math.max", Self::MathMax),
        ("Math.min", Self::MathMin),
        ("Math.round", Self::MathRound),
        ("Number", Self::Number),
        ("Object.keys", Self::ObjectKeys),
        ("String", Self::String),
    ];

    pub(crate) fn from_name(name: &str) -> Option<Self> {
        find(Self::ALL, name)
    }

    pub(crate) fn name(self) -> &'static str {
        name_of(Self::ALL, &self)
    }
}

/// Tells whether a name holds functions, as `Math` does.
pub(crate) fn is_namespace(name: &str) -> bool {
    matches!(name, "Array" | "Date" | "Math" | "Object")
}

/// Lists the names of an allow-list that start with `prefix`, for error messages.
pub(crate) fn listing<T>(all: &[(&'static str, T)], prefix: &str) -> String {
    let mut names = String::new();
    for (name, _) in all.iter().filter(|(name, _)| name.starts_with(prefix)) {
        if !names.is_empty() {
            names.push_str(", ");
        }
        names.push('`');
        names.push_str(name);
        names.push('`');
    }
    names
}

fn find<T: Copy>(all: &[(&'static str, T)], name: &str) -> Option<T> {
    all.iter().find(|(known, _)| *known == name).map(|(_, member)| *member)
}

fn name_of<T: PartialEq>(all: &[(&'static str, T)], member: &T) -> &'static str {
    all.iter().find(|(_, known)| known == member).map_or("", |(name, _)| name)
}

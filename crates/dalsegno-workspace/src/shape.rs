//! The keys of a file, as one table: whoever reads the file and the JSON Schema of the file are made from it.

/// The keys of a table.
pub(crate) struct Shape {
    /// What messages call it, such as ``a step`` or `` `[tools]` ``.
    pub(crate) what: &'static str,
    /// The keys that it may have.
    pub(crate) keys: &'static [Key],
    /// Of these exactly one must be there; nothing is said if empty.
    pub(crate) one_of: &'static [&'static str],
    /// What must be there because of something else that is.
    pub(crate) needs: &'static [Need],
}

/// Keys that must be there because another is.
pub(crate) struct Need {
    /// The other key.
    pub(crate) because_of: &'static str,
    /// Its word; whatever it holds if absent.
    pub(crate) word: Option<&'static str>,
    /// What must be there then.
    pub(crate) keys: &'static [&'static str],
}

impl Shape {
    /// A table whose keys do not exclude each other.
    pub(crate) const fn new(what: &'static str, keys: &'static [Key]) -> Self {
        Self { what, keys, one_of: &[], needs: &[] }
    }

    /// Finds a key.
    pub(crate) fn key(&self, name: &str) -> Option<&'static Key> {
        self.keys.iter().find(|key| key.name == name)
    }
}

/// One key of a table.
#[derive(Clone, Copy)]
pub(crate) struct Key {
    /// The key itself.
    pub(crate) name: &'static str,
    /// What it may hold.
    pub(crate) form: Form,
    /// What it is for, in a sentence: editors show it.
    pub(crate) about: &'static str,
    /// What to do if it is missing; `None` if it may be.
    pub(crate) required: Option<&'static str>,
}

impl Key {
    /// A key that may be missing.
    pub(crate) const fn new(name: &'static str, form: Form, about: &'static str) -> Self {
        Self { name, form, about, required: None }
    }

    /// The same key, which must be there.
    pub(crate) const fn required(self, help: &'static str) -> Self {
        Self { required: Some(help), ..self }
    }
}

/// What a key may hold.
#[derive(Clone, Copy)]
pub(crate) enum Form {
    /// `true` or `false`.
    Boolean,
    /// Any text.
    Text,
    /// A text with `{{expression}}` inside.
    Template,
    /// An expression, without braces.
    Expression,
    /// A text that a parser of its own checks; about the same as a regular expression.
    Name(&'static str),
    /// One of a few words.
    Word(&'static [&'static str]),
    /// A whole number within bounds.
    Integer(u64, u64),
    /// A number within bounds.
    Number(f64, f64),
    /// US dollars: at most this many, with at most this many decimals.
    Dollars {
        /// Most dollars.
        most: u32,
        /// Most digits after the point, and the power of ten by which the value is read.
        decimals: u32,
    },
    /// A duration such as `2s`.
    Duration,
    /// A size such as `64MiB`.
    Size,
    /// Anything that JSON has.
    Any,
    /// A table with any keys.
    Open,
    /// A table with these keys.
    Table(&'static Shape),
    /// A table with these keys and any others.
    OpenTable(&'static Shape),
    /// A table whose keys depend on one of them, a word.
    Tagged(&'static Tagged),
    /// A table with one value for each name.
    Map(&'static Self),
    /// A list.
    List(&'static Self),
    /// One of several forms.
    Either(&'static [Self]),
}

/// A table whose keys depend on one of them.
pub(crate) struct Tagged {
    /// The key that decides.
    pub(crate) tag: &'static str,
    /// Its words, and the keys that go with them; `tag` is among these.
    pub(crate) shapes: &'static [(&'static [&'static str], &'static Shape)],
}

impl Tagged {
    /// Finds the keys that go with a word.
    pub(crate) fn shape(&self, word: &str) -> Option<&'static Shape> {
        self.shapes.iter().find(|(words, _)| words.contains(&word)).map(|(_, shape)| *shape)
    }

    /// All words of the key that decides.
    pub(crate) fn words(&self) -> impl Iterator<Item = &'static str> {
        self.shapes.iter().flat_map(|(words, _)| words.iter().copied())
    }
}

impl Form {
    /// The keys of the table that may stand here.
    pub(crate) fn shape(self) -> Option<&'static Shape> {
        match self {
            Self::Table(shape) | Self::OpenTable(shape) => Some(shape),
            Self::Either(forms) => forms.iter().find_map(|form| form.shape()),
            _ => None,
        }
    }

    /// The words that may stand here.
    pub(crate) fn words(self) -> Option<&'static [&'static str]> {
        match self {
            Self::Word(words) => Some(words),
            Self::Either(forms) => forms.iter().find_map(|form| form.words()),
            _ => None,
        }
    }
}

/// The name of an agent or a capability.
pub(crate) const AGENT_NAME: Form = Form::Name("^[a-z][a-z0-9]*(-[a-z0-9]+)*$");
/// The name of a capability, where `_` is read as `-`.
pub(crate) const CAPABILITY: Form = Form::Name("^[a-z][a-z0-9]*([-_][a-z0-9]+)*$");
/// The name of a tool.
pub(crate) const TOOL_NAME: Form = Form::Name("^[A-Za-z][A-Za-z0-9_.-]{0,127}$");
/// A name by which models see a tool.
pub(crate) const MODEL_NAME: Form = Form::Name("^[A-Za-z0-9_-]{1,64}$");
/// The name of a tool, of all tools below a prefix, or of all tools.
pub(crate) const TOOL_PATTERN: Form = Form::Name(r"^(\*|[A-Za-z][A-Za-z0-9_.-]*(\.\*)?)$");
/// The name of a toolkit's action, where `-` is read as `_`.
pub(crate) const ACTION_NAME: Form = Form::Name("^[a-z][a-z0-9_-]{0,63}$");
/// The name of a step or of a variable.
pub(crate) const STEP_NAME: Form = Form::Name("^[a-z][a-z0-9_]{0,63}$");

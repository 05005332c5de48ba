//! The stable names of what can be wrong with a workspace.

use std::fmt;

use serde::{Serialize, Serializer};

macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $variant:ident = $text:literal,)*) => {
        /// A kind of problem. Its text is a promise: editors, scripts and the manual refer to it.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Code {
            $($(#[doc = $doc])+ $variant,)*
        }

        impl Code {
            /// Every code.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The code as text, such as `unknown-key`.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)*
                }
            }

            /// What the code means, in one sentence.
            pub const fn summary(self) -> &'static str {
                match self {
                    $(Self::$variant => concat!($($doc),+).trim_ascii(),)*
                }
            }
        }
    };
}

codes! {
    /// The folder has no `dalsegno.toml`.
    NotAWorkspace = "not-a-workspace",
    /// A file cannot be read, is too large or is not UTF-8.
    UnreadableFile = "unreadable-file",
    /// The file is not TOML.
    TomlSyntax = "toml-syntax",
    /// The file is not JSON, or a key in it is given twice.
    JsonSyntax = "json-syntax",
    /// A key that means nothing where it stands.
    UnknownKey = "unknown-key",
    /// A key of the whole file that stands below a table header and so landed inside the table.
    KeyBelowTable = "key-below-table",
    /// A value of another type than expected.
    WrongType = "wrong-type",
    /// A key that must be there and is not.
    MissingKey = "missing-key",
    /// A value of the right type that is out of range, misspelt or breaks a rule.
    InvalidValue = "invalid-value",
    /// A text that is not a duration.
    InvalidDuration = "invalid-duration",
    /// A text that is not a size.
    InvalidSize = "invalid-size",
    /// A template or an expression that cannot be parsed.
    InvalidExpression = "invalid-expression",
    /// A template or an expression that reads a name which does not exist.
    UnknownName = "unknown-name",
    /// A template or an expression that reads a step which does not exist.
    UnknownStep = "unknown-step",
    /// A template or an expression that reads a step which has not run by then.
    LaterStep = "later-step",
    /// An agent with both a model and steps, or with neither.
    ModelOrSteps = "model-or-steps",
    /// A step that does nothing, does two things, or has a key that belongs to another kind of step.
    StepAction = "step-action",
    /// A step that cannot stand inside `parallel`.
    NestedStep = "nested-step",
    /// Two steps with one id.
    DuplicateStep = "duplicate-step",
    /// A declarative tool that cannot be carried out as it is written.
    InvalidTool = "invalid-tool",
    /// A part of a declarative tool that works, and probably not as its author thinks.
    DoubtfulTool = "doubtful-tool",
    /// Two documents of declarative tools with one name, or one with the name of a tool server.
    DuplicateTool = "duplicate-tool",
    /// Two agents with one name.
    DuplicateAgent = "duplicate-agent",
    /// A folder of a tenant that has no file.
    UnknownTenant = "unknown-tenant",
    /// Two tenants with one name.
    DuplicateTenant = "duplicate-tenant",
    /// An agent or a tenant whose name is not that of its file.
    FileName = "file-name",
    /// A workspace without agents.
    NoAgents = "no-agents",
    /// A setting that nothing reads.
    NoEffect = "no-effect",
    /// A model that `dalsegno.toml` does not have.
    UnknownModel = "unknown-model",
    /// A model provider that does not exist.
    UnknownProvider = "unknown-provider",
    /// A file that the workspace names and that is not there.
    MissingFile = "missing-file",
    /// A folder that the workspace names and that is not there.
    MissingFolder = "missing-folder",
    /// A secret that is written in a file of the workspace.
    SecretInClear = "secret-in-clear",
    /// A secret that the file which names it may not read.
    SecretNotGranted = "secret-not-granted",
    /// A tool that a step calls and the agent does not allow.
    ToolNotAllowed = "tool-not-allowed",
    /// A tool that nobody offers.
    UnknownTool = "unknown-tool",
    /// Two allowed tools that a model could not tell apart.
    ToolNameClash = "tool-name-clash",
    /// An agent that the workspace does not have.
    UnknownAgent = "unknown-agent",
    /// A capability that no agent has.
    UnknownCapability = "unknown-capability",
    /// A capability that several agents have.
    AmbiguousCapability = "ambiguous-capability",
    /// An agent that others may call as a tool and that does not say what it does.
    MissingDescription = "missing-description",
    /// An approval or a setting for a handoff, which ends the run.
    GatedHandoff = "gated-handoff",
    /// A template or an expression that reads a variable which no step sets.
    UnknownVariable = "unknown-variable",
    /// A step that comes after the run has certainly ended.
    UnreachableStep = "unreachable-step",
    /// A plan that calls itself whatever happens.
    EndlessCall = "endless-call",
    /// The form of an answer that is not a JSON Schema.
    InvalidSchema = "invalid-schema",
    /// A bound on the cost of a run that may use a model without a price.
    MissingPrice = "missing-price",
    /// An address of a tenant that none of its tools may reach.
    BlockedAddress = "blocked-address",
    /// An address that sends a key and what is asked over the network unprotected.
    InsecureUrl = "insecure-url",
    /// A secret that a tool server itself holds.
    SecretInServer = "secret-in-server",
    /// A lock file whose digest does not belong to what it holds.
    DamagedLock = "damaged-lock",
    /// A tool server whose catalogue is not in the lock file.
    NotPinned = "not-pinned",
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

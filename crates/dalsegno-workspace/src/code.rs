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
    /// A key has no meaning at its place.
    UnknownKey = "unknown-key",
    /// A key of the whole file is below a table header, so it belongs to that table.
    KeyBelowTable = "key-below-table",
    /// A value has another type than expected.
    WrongType = "wrong-type",
    /// A required key is missing.
    MissingKey = "missing-key",
    /// A value of the right type is out of range, misspelt or breaks a rule.
    InvalidValue = "invalid-value",
    /// The value is not a duration.
    InvalidDuration = "invalid-duration",
    /// The value is not a size.
    InvalidSize = "invalid-size",
    /// A template or an expression cannot be parsed.
    InvalidExpression = "invalid-expression",
    /// A template or an expression reads a name that does not exist.
    UnknownName = "unknown-name",
    /// A template or an expression reads a step that does not exist.
    UnknownStep = "unknown-step",
    /// A template or an expression reads a step that has not run by then.
    LaterStep = "later-step",
    /// An agent has both a model and steps, or neither.
    ModelOrSteps = "model-or-steps",
    /// A step does nothing, does two things, or has a key that belongs to another kind of step.
    StepAction = "step-action",
    /// A step is not allowed inside `parallel`.
    NestedStep = "nested-step",
    /// Two steps have the same id.
    DuplicateStep = "duplicate-step",
    /// A declarative tool cannot be executed as written.
    InvalidTool = "invalid-tool",
    /// A part of a declarative tool works, but probably not as its author intended.
    DoubtfulTool = "doubtful-tool",
    /// Two documents of declarative tools have the same name, or one has the name of a tool server.
    DuplicateTool = "duplicate-tool",
    /// Two agents have the same name.
    DuplicateAgent = "duplicate-agent",
    /// A tenant's folder, or its key for a model, has no tenant file.
    UnknownTenant = "unknown-tenant",
    /// A model has no key for a tenant.
    NoTenantKey = "no-tenant-key",
    /// Two tenants have the same name.
    DuplicateTenant = "duplicate-tenant",
    /// The name of an agent, a tenant or a tool differs from the name of its file.
    FileName = "file-name",
    /// The workspace has no agents.
    NoAgents = "no-agents",
    /// Nothing reads the setting.
    NoEffect = "no-effect",
    /// The wire of a model has no such setting.
    UnsupportedSetting = "unsupported-setting",
    /// The instructions of an agent differ from message to message.
    ChangingInstructions = "changing-instructions",
    /// The model is not in `dalsegno.toml`.
    UnknownModel = "unknown-model",
    /// The model provider does not exist.
    UnknownProvider = "unknown-provider",
    /// A file that the workspace names does not exist.
    MissingFile = "missing-file",
    /// A folder that the workspace names does not exist.
    MissingFolder = "missing-folder",
    /// A file of the workspace contains a secret in clear text.
    SecretInClear = "secret-in-clear",
    /// A file names a secret that it may not read.
    SecretNotGranted = "secret-not-granted",
    /// A step calls a tool that the agent does not allow.
    ToolNotAllowed = "tool-not-allowed",
    /// The tool does not exist.
    UnknownTool = "unknown-tool",
    /// Two allowed tools look the same to a model.
    ToolNameClash = "tool-name-clash",
    /// The workspace does not have the agent.
    UnknownAgent = "unknown-agent",
    /// No agent has the capability.
    UnknownCapability = "unknown-capability",
    /// Several agents have the capability.
    AmbiguousCapability = "ambiguous-capability",
    /// An agent that others may call as a tool has no description.
    MissingDescription = "missing-description",
    /// A handoff, which ends the run, has an approval or a setting.
    GatedHandoff = "gated-handoff",
    /// A template or an expression reads a variable that no step sets.
    UnknownVariable = "unknown-variable",
    /// A step can never run, because the run ends before it.
    UnreachableStep = "unreachable-step",
    /// A plan always calls itself.
    EndlessCall = "endless-call",
    /// The schema of an answer is not a JSON Schema.
    InvalidSchema = "invalid-schema",
    /// A run has a bound on its cost and may use a model without a price.
    MissingPrice = "missing-price",
    /// None of a tenant's tools may reach an address of the tenant.
    BlockedAddress = "blocked-address",
    /// An address sends a key and the request over the network unencrypted.
    InsecureUrl = "insecure-url",
    /// A tool server itself holds a secret.
    SecretInServer = "secret-in-server",
    /// A digest in the lock file does not match its content.
    DamagedLock = "damaged-lock",
    /// The catalogue of a tool server is not in the lock file.
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

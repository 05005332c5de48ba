//! Limits on everything that another party sends, each with its reason.

/// Most actions of one document, nested ones included. It bounds a call, since there are no loops.
pub const MAX_ACTIONS: usize = 256;
/// How deep `conditional` nests.
pub const MAX_NESTING: usize = 8;
/// Most tools of one toolkit; a model that is shown more cannot choose well.
pub(crate) const MAX_TOOLS: usize = 64;
/// Longest string of a document, in bytes. What is longer is content, and belongs to a service.
pub(crate) const MAX_STRING: usize = 16 * 1024;
/// How deep the values of a document may be nested.
pub(crate) const MAX_DOCUMENT_DEPTH: usize = 64;
/// Most values of one document, so that checking it ends soon.
pub(crate) const MAX_DOCUMENT_VALUES: usize = 20_000;
/// Most problems, and most warnings, that one document is told.
pub(crate) const MAX_PROBLEMS: usize = 100;
/// Most parameters of one tool, and most properties of one object parameter.
pub(crate) const MAX_PARAMETERS: usize = 64;
/// How deep `items` and `properties` of a parameter nest.
pub(crate) const MAX_PARAMETER_DEPTH: usize = 8;
/// Longest regular expression, in bytes.
pub(crate) const MAX_PATTERN: usize = 1_000;
/// Most memory of one compiled regular expression, in bytes: `(a{1000}){1000}` asks for more.
pub(crate) const MAX_PATTERN_BYTES: usize = 256 * 1024;
/// Most segments of a path.
pub(crate) const MAX_PATH_SEGMENTS: usize = 16;
/// Longest name of a tool for every provider of models.
pub(crate) const MAX_NAME: usize = 64;
/// Largest arguments of a call, in bytes of JSON.
pub(crate) const MAX_ARGUMENTS_BYTES: usize = 256 * 1024;
/// How deep arguments and the values of a call may be nested.
pub(crate) const MAX_VALUE_DEPTH: usize = 64;
/// Most violations that one call is told.
pub(crate) const MAX_VIOLATIONS: usize = 100;
/// Largest single value that a call writes, sends or gives back, in bytes of JSON.
pub const MAX_VALUE_BYTES: usize = 1024 * 1024;
/// Most that a call holds at a time, in bytes of JSON: results, `temp` and buffered writes.
pub const MAX_CALL_BYTES: usize = 4 * 1024 * 1024;
/// Most text that one call says, in bytes.
pub(crate) const MAX_SAID_BYTES: usize = 64 * 1024;
/// Most writes of one call.
pub(crate) const MAX_WRITES: usize = 1_000;
/// Most writes that a run tells the owner of its session.
pub(crate) const MAX_LENT_WRITES: usize = 10_000;
/// Most items that a `transform` works on.
pub(crate) const MAX_TRANSFORM_ITEMS: usize = 10_000;
/// Most evaluation steps of one `transform`, all items together.
pub(crate) const MAX_TRANSFORM_STEPS: u32 = 500_000;
/// Most evaluation steps of all transforms of one call.
pub(crate) const MAX_CALL_STEPS: u32 = 2_000_000;
/// Most secrets in one request.
pub(crate) const MAX_SECRETS_IN_REQUEST: usize = 32;
/// Largest session context, in bytes of JSON.
pub const MAX_SESSION_BYTES: usize = 1024 * 1024;
/// Longest timeout of one attempt, in milliseconds.
pub(crate) const MAX_TIMEOUT_MS: u64 = 300_000;
/// Longest time over all attempts, in milliseconds.
pub(crate) const MAX_ELAPSED_MS: u64 = 3_600_000;
/// Most retries after the first try.
pub(crate) const MAX_RETRIES: u32 = 10;
/// Longest first delay between attempts, in milliseconds.
pub(crate) const MAX_RETRY_DELAY_MS: u64 = 60_000;
/// Largest response that a document may ask for, in bytes.
pub(crate) const MAX_RESPONSE_BYTES: usize = 1024 * 1024;
/// Most rules of one `validate`, and most headers or fields of the query of one request.
pub(crate) const MAX_ENTRIES: usize = 64;
/// Longest URL, in bytes; many servers refuse more.
pub(crate) const MAX_URL_BYTES: usize = 8 * 1024;

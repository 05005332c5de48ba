//! The schemas of values that come from the rooms below, which know nothing of HTTP.
//!
//! What they list is taken from those rooms, so that a new status or kind is in the schema at once.

use std::borrow::Cow;

use dalsegno_core::RunErrorCode as Code;
use utoipa::openapi::schema::{
    AdditionalProperties, ArrayBuilder, ObjectBuilder, OneOfBuilder, SchemaType, Type,
};
use utoipa::openapi::{Ref, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

fn text(description: &str) -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::String).description(Some(description))
}

fn words(description: &str, words: impl IntoIterator<Item = &'static str>) -> RefOr<Schema> {
    text(description).enum_values(Some(words)).into()
}

fn number(description: &str) -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(0_i64)).description(Some(description))
}

/// A type that stands for a schema with a name.
macro_rules! named {
    ($($(#[$doc:meta])* $name:ident => $schema:expr;)*) => {
        $(
            $(#[$doc])*
            #[derive(Debug)]
            pub struct $name;

            impl PartialSchema for $name {
                fn schema() -> RefOr<Schema> {
                    $schema
                }
            }

            impl ToSchema for $name {
                fn name() -> Cow<'static, str> {
                    Cow::Borrowed(stringify!($name))
                }
            }
        )*
    };
}

/// Sixteen bytes as text.
const ID: &str = "^[0-9a-fA-F]{32}$";

named! {
    /// The id of a run.
    RunId => text("The id of a run: 32 hexadecimal digits.")
        .pattern(Some(ID))
        .examples(["f3e005a6d3814201b08213a5ad79769c"])
        .into();
    /// The id of an operation.
    OperationId => text("The id of an operation: 32 hexadecimal digits. All attempts at the operation share it.")
        .pattern(Some(ID))
        .examples(["7e11cd48ed29337d467b9ac4094d91f3"])
        .into();
    /// A point in time.
    Time => text("A point in time in UTC, to the millisecond.")
        .examples(["2026-11-26T14:28:35.930Z"])
        .into();
    /// Where a run stands.
    RunStatus => words(
        "Where a run stands. `suspended` waits for people, a time or another run; all but it and `running` are ends.",
        dalsegno_store::RunStatus::ALL.iter().map(|status| status.as_str()),
    );
    /// What a run waits for.
    WaitingKind => words("A kind of thing that a run waits for.", dalsegno_store::Waiting::ALL.iter().map(|kind| kind.as_str()));
    /// What a record says.
    RecordKind => words("What a record says.", dalsegno_store::RecordKind::ALL.iter().map(|kind| kind.as_str()));
    /// Why a run failed.
    RunErrorCode => words("Why a run did not complete. Each code has a page in the book.", Code::ALL.iter().map(|code| code.as_str()));
    /// What a run used.
    Usage => usage();
    /// One place that differs.
    Change => ObjectBuilder::new()
        .description(Some("One place that differs."))
        .property("path", text("Where: a JSON Pointer, or words such as `instructions`."))
        .required("path")
        .property("left", optional("What stands on the left, or stood before."))
        .required("left")
        .property("right", optional("What stands on the right, or stands now."))
        .required("right")
        .into();
    /// Two runs side by side.
    RunDiff => run_diff();
    /// Where a run of an archive came from.
    Foreign => ObjectBuilder::new()
        .description(Some("Says that the run came in an archive: nothing of it is performed."))
        .property("signer", text("The public key of who signed the archive; left out where it was not signed.").pattern(Some("^[0-9a-f]{64}$")))
        .into();
}

fn usage() -> RefOr<Schema> {
    let details = [
        ("cached_input_tokens", "Tokens sent that the provider had in its cache."),
        ("cache_write_tokens", "Tokens sent that the provider wrote to its cache."),
        ("cache_write_1h_tokens", "Those of them that it wrote for an hour."),
        ("reasoning_tokens", "Tokens received that are reasoning."),
        ("web_searches", "Searches of the web that the provider made while it replied."),
    ];
    let details = details.into_iter().fold(ObjectBuilder::new(), |details, (name, description)| {
        details.property(name, number(description))
    });
    let details = details.description(Some(
        "What some of the tokens were, and what the provider did besides; what is zero is left out.",
    ));
    ObjectBuilder::new()
        .description(Some("What a run used."))
        .property("model_calls", number("Model replies."))
        .required("model_calls")
        .property("tool_calls", number("Tool calls, memory tools of a model included."))
        .required("tool_calls")
        .property("input_tokens", number("Tokens sent, as the providers count."))
        .required("input_tokens")
        .property("output_tokens", number("Tokens received, as the providers count."))
        .required("output_tokens")
        .property(
            "cost_nano_usd",
            number("What the model calls cost, in billionths of a US dollar, as far as prices are known; left out where it is zero."),
        )
        .property("details", details)
        .property(
            "estimated_tokens",
            number("The tokens that are estimated, since no provider counted them; left out where it is zero."),
        )
        .property(
            "estimated_cost_nano_usd",
            number("The part of the cost that comes from estimated tokens; left out where it is zero."),
        )
        .into()
}

fn optional(description: &str) -> ObjectBuilder {
    text(description).schema_type(SchemaType::from_iter([Type::String, Type::Null]))
}

fn run_diff() -> RefOr<Schema> {
    let object = |description: &str| ObjectBuilder::new().description(Some(description));
    let nothing_or = |description: &str| {
        object(description).schema_type(SchemaType::from_iter([Type::Object, Type::Null]))
    };
    let changes = ArrayBuilder::new()
        .description(Some("How the states differ when the next step after the first difference was asked for, or at the end."))
        .items(Ref::from_schema_name(Change::name()));
    object("Two runs side by side.")
        .property("left", object("The first run: `run_id`, its agent, where it stands, what it used."))
        .required("left")
        .property("right", object("The second run."))
        .required("right")
        .property(
            "identical",
            ObjectBuilder::new().schema_type(Type::Boolean).description(Some(
                "Whether both asked for the same, had the same outcomes and came to the same end; ids and times do not count.",
            )),
        )
        .required("identical")
        .property("first", nothing_or("The first difference."))
        .required("first")
        .property("state", changes)
        .required("state")
        .property("prompt", nothing_or("How the prompts differ of the first model call that is not the same."))
        .required("prompt")
        .property("arguments", nothing_or("How the arguments differ of the first call of the same tool that is not the same."))
        .required("arguments")
        .into()
}

/// A form of an answer: an object with one key.
fn form(name: &str, description: &str, inner: ObjectBuilder) -> RefOr<Schema> {
    closed().description(Some(description)).property(name, inner).required(name).into()
}

fn closed() -> ObjectBuilder {
    ObjectBuilder::new().additional_properties(Some(AdditionalProperties::<Schema>::FreeForm(false)))
}

fn reason() -> ObjectBuilder {
    ObjectBuilder::new()
        .schema_type(SchemaType::from_iter([Type::String, Type::Null]))
        .description(Some("Why; recorded."))
}

fn any(description: &str) -> ObjectBuilder {
    ObjectBuilder::new().schema_type(SchemaType::AnyValue).description(Some(description))
}

named! {
    /// A call may be made.
    Approve => form("approve", "The call may be made.", closed()
        .description(Some("With what."))
        .property("arguments", any("Arguments in place of those that were asked for."))
        .property("reason", reason()));
    /// A call may not be made.
    Deny => form("deny", "The call may not be made, or the question is not answered.", closed()
        .description(Some("Why."))
        .property("reason", reason()));
    /// The answer to a question.
    GiveValue => form("value", "The answer to a question.", any("Any JSON value that fits the schema of the question."));
    /// An operation in doubt took place.
    Happened => form("happened", "An operation in doubt took place.", closed()
        .description(Some("What came of it."))
        .property("result", any("What it returned, if that is known.")));
    /// An operation in doubt was refused.
    Refused => form("refused", "An operation in doubt arrived and was refused.", closed()
        .description(Some("How."))
        .property("error", text("What the receiver said."))
        .required("error"));
    /// An operation in doubt did not take place.
    NotHappened => form("not_happened", "An operation in doubt did not take place; it starts again.", closed()
        .description(Some("Nothing else.")));
}

/// The forms of an answer, by the names of their schemas.
pub(crate) fn forms() -> Vec<(String, RefOr<Schema>)> {
    fn named<T: ToSchema>() -> (String, RefOr<Schema>) {
        (T::name().into_owned(), T::schema())
    }
    vec![
        named::<Approve>(),
        named::<Deny>(),
        named::<GiveValue>(),
        named::<Happened>(),
        named::<Refused>(),
        named::<NotHappened>(),
    ]
}

/// An answer in one of its forms.
pub(crate) fn given() -> RefOr<Schema> {
    let one = OneOfBuilder::new().description(Some("An answer: an object with one of these keys."));
    forms().into_iter().fold(one, |one, (name, _)| one.item(Ref::from_schema_name(name))).into()
}

/// Operations with a JSON value each.
pub fn by_operation(description: &str) -> RefOr<Schema> {
    ObjectBuilder::new()
        .description(Some(description))
        .property_names(Some(ObjectBuilder::new().schema_type(Type::String).pattern(Some(ID))))
        .additional_properties(Some(AdditionalProperties::<Schema>::FreeForm(true)))
        .into()
}

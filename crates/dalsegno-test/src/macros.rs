//! The assertions.

/// Asserts what must hold of a [`Run`](crate::Run), with the words of `tests/*.toml`. A run must complete, unless `ends`, `error` or
/// `hands_over_to` says otherwise. What does not hold is shown with the run.
///
/// ```
/// # use dalsegno_test::{Agent, Agents, Ends, Reply, assert_trajectory, json};
/// # let agents = Agents::of(&Agent::new("desk").model("default").instructions("x").approve("refunds.create"))
/// #     .tool("refunds.create", "Pays.", json!({ "type": "object", "properties": { "amount": { "type": "number" } } }));
/// let run = agents.case("desk", "Pay 900 back").reply(Reply::call("refunds.create", json!({ "amount": 900 }))).run();
/// assert_trajectory!(run, ends = Ends::Suspended, calls = [], asks = ["refunds.create"], max_steps = 2);
/// ```
///
/// The keys are those of [`Expect`](crate::Expect): `ends`, `error`, `calls`, `never_calls`, `never`, `always`, `asks`, `hands_over_to`,
/// `answer`, `answer_contains`, `output`, `max_steps`, `max_tokens` and `max_cost_usd`.
#[macro_export]
macro_rules! assert_trajectory {
    ($run:expr $(, $($rest:tt)*)?) => {
        if let Err(problems) = $crate::Run::check(&$run, &$crate::expect!($($($rest)*)?)) {
            panic!("{problems}");
        }
    };
}

/// Asserts what must hold of every run of a [`Case`](crate::Case): for all replies of models, results of tools and answers of people that
/// it does not give itself. A run that breaks it is made as simple as it gets, and shown with a case that keeps it.
///
/// ```
/// # use dalsegno_test::{Agent, Agents, assert_property, json};
/// # let agents = Agents::of(&Agent::new("desk").model("default").instructions("x").approve("refunds.create"))
/// #     .tool("refunds.create", "Pays.", json!({ "type": "object", "properties": { "amount": { "type": "number" } } }));
/// assert_property!(
///     agents.case("desk", "Pay money back"),
///     never = [("refunds.create", "args.amount > 100 && !approved")],
///     always = ["counts['refunds.create'] <= 20"],
/// );
/// ```
///
/// The keys are `never`, `always`, `never_calls`, `ends`, `max_steps`, `max_tokens` and `max_cost_usd`.
#[macro_export]
macro_rules! assert_property {
    ($case:expr, $($rest:tt)+) => {
        if let Err(broken) = $crate::Case::check(&$case, &$crate::expect!($($rest)+)) {
            panic!("{broken}");
        }
    };
}

/// Builds an [`Expect`](crate::Expect) of keys and values, as [`assert_trajectory!`](crate::assert_trajectory) has them.
#[macro_export]
macro_rules! expect {
    ($($rest:tt)*) => { $crate::__expect!(@ ($crate::Expect::new()) $($rest)*) };
}

// The keys one by one: a list of `calls` is one value, and each item of another list is a call of its method.
#[doc(hidden)]
#[macro_export]
macro_rules! __expect {
    (@ ($made:expr)) => { $made };
    (@ ($made:expr) calls = [$($call:expr),* $(,)?] $(, $($rest:tt)*)?) => {
        $crate::__expect!(@ ($crate::Expect::calls($made, [$($crate::Call::from($call)),*] as [$crate::Call; _])) $($($rest)*)?)
    };
    (@ ($made:expr) asks = [$($asked:expr),* $(,)?] $(, $($rest:tt)*)?) => {
        $crate::__expect!(@ ($crate::Expect::asks($made, [$($asked),*] as [&str; _])) $($($rest)*)?)
    };
    (@ ($made:expr) $key:ident = [$($value:expr),* $(,)?] $(, $($rest:tt)*)?) => {
        $crate::__expect!(@ ($made$(.$key($value))*) $($($rest)*)?)
    };
    (@ ($made:expr) $key:ident = $value:expr $(, $($rest:tt)*)?) => {
        $crate::__expect!(@ ($crate::Expect::$key($made, $value)) $($($rest)*)?)
    };
}

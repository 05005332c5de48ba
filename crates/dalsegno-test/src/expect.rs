//! What must hold of a run, or of every run.

use dalsegno_core::RunErrorCode;
use dalsegno_workspace::{CallRule, Ends, Expectations, ExpectedCall, Located};
use serde_json::Value;

/// What must hold of a run, with the words of `tests/*.toml`. [`assert_trajectory!`](crate::assert_trajectory) and
/// [`assert_property!`](crate::assert_property) build it; each of its methods is a key there.
#[derive(Debug, Clone, Default)]
pub struct Expect {
    pub(crate) expectations: Expectations,
    pub(crate) ends: Vec<Ends>,
    /// The keys that hold of single runs only.
    of_one: Vec<&'static str>,
    /// How many parts there are: it tells them apart.
    parts: usize,
}

/// A call that must take place: a tool's name, or a name and arguments that it must have, among others.
#[derive(Debug, Clone, PartialEq)]
pub struct Call(ExpectedCall);

impl From<&str> for Call {
    fn from(tool: &str) -> Self {
        Self(ExpectedCall { tool: tool.to_owned(), with: Value::Null })
    }
}

impl From<(&str, Value)> for Call {
    fn from((tool, with): (&str, Value)) -> Self {
        Self(ExpectedCall { tool: tool.to_owned(), with })
    }
}

impl Expect {
    /// Expects that the run completes, and nothing else.
    pub fn new() -> Self {
        Self::default()
    }

    fn place<T>(&mut self, value: T) -> Located<T> {
        self.parts += 1;
        Located { value, span: self.parts..self.parts }
    }

    fn of_one(&mut self, key: &'static str) {
        self.of_one.push(key);
    }

    /// One more end that the run may have. Without any, a run must complete, and the runs of a property may end in any way.
    #[must_use]
    pub fn ends(mut self, end: Ends) -> Self {
        self.ends.push(end);
        self
    }

    /// The error that ends the run.
    #[must_use]
    pub fn error(mut self, code: RunErrorCode) -> Self {
        self.of_one("error");
        self.expectations.error = Some(self.place(code));
        self
    }

    /// The tools that are called, all of them, in order. What was denied, or refused for its arguments, is not called.
    #[must_use]
    pub fn calls(mut self, calls: impl IntoIterator<Item = Call>) -> Self {
        self.of_one("calls");
        let calls = calls.into_iter().map(|call| call.0).collect();
        self.expectations.calls = Some(self.place(calls));
        self
    }

    /// A tool, or a pattern such as `risk.*`, that the run must not even ask for.
    ///
    /// # Panics
    /// If it is neither.
    #[must_use]
    #[track_caller]
    pub fn never_calls(mut self, pattern: &str) -> Self {
        let parsed = pattern.parse().unwrap_or_else(|error| panic!("`never_calls` has `{pattern}`: {error}"));
        let parsed = self.place(parsed);
        self.expectations.never_calls.push(parsed);
        self
    }

    /// A call that must not take place: `tool`, a name or a pattern, and a condition on `args` and on `approved`, which is true if a
    /// person has agreed.
    ///
    /// # Panics
    /// If the pattern or the condition is none.
    #[must_use]
    #[track_caller]
    pub fn never(mut self, (tool, when): (&str, &str)) -> Self {
        let tool = self.place(tool.to_owned());
        let rule = CallRule::in_code(tool, when).unwrap_or_else(|problem| panic!("`never`: {problem}"));
        self.expectations.never.push(rule);
        self
    }

    /// A condition on the whole run: on `calls`, `counts`, `asks`, `ends`, `error`, `answer`, `output`, `steps` and `tokens`.
    ///
    /// # Panics
    /// If it is no expression.
    #[must_use]
    #[track_caller]
    pub fn always(mut self, condition: &str) -> Self {
        let parsed = condition.parse().unwrap_or_else(|error| panic!("`always` has `{condition}`: {error}"));
        let parsed = self.place(parsed);
        self.expectations.always.push(parsed);
        self
    }

    /// What people are asked about, all of it, in order: the tool of an approval, or the question.
    #[must_use]
    pub fn asks<'a>(mut self, asks: impl IntoIterator<Item = &'a str>) -> Self {
        self.of_one("asks");
        let asks = asks.into_iter().map(str::to_owned).collect();
        self.expectations.asks = Some(self.place(asks));
        self
    }

    /// The next agent.
    ///
    /// # Panics
    /// If it is not the name of an agent.
    #[must_use]
    #[track_caller]
    pub fn hands_over_to(mut self, agent: &str) -> Self {
        self.of_one("hands_over_to");
        let agent = agent.parse().unwrap_or_else(|error| panic!("`hands_over_to` has `{agent}`: {error}"));
        self.expectations.hands_over_to = Some(self.place(agent));
        self
    }

    /// The whole answer.
    #[must_use]
    pub fn answer(mut self, answer: &str) -> Self {
        self.of_one("answer");
        self.expectations.answer = Some(self.place(answer.to_owned()));
        self
    }

    /// A text in the answer.
    #[must_use]
    pub fn answer_contains(mut self, text: &str) -> Self {
        self.of_one("answer_contains");
        let text = self.place(text.to_owned());
        self.expectations.answer_contains.push(text);
        self
    }

    /// The structured answer.
    #[must_use]
    pub fn output(mut self, output: Value) -> Self {
        self.of_one("output");
        self.expectations.output = Some(self.place(output));
        self
    }

    /// The most steps that the run may take.
    #[must_use]
    pub fn max_steps(mut self, steps: u64) -> Self {
        self.expectations.max_steps = Some(self.place(steps));
        self
    }

    /// The most tokens that the run may use.
    #[must_use]
    pub fn max_tokens(mut self, tokens: u64) -> Self {
        self.expectations.max_tokens = Some(self.place(tokens));
        self
    }

    /// The most that the run may cost, in US dollars. It needs a `price` for the agent's models.
    ///
    /// # Panics
    /// If it is negative or not a number.
    #[must_use]
    #[track_caller]
    pub fn max_cost_usd(mut self, dollars: f64) -> Self {
        assert!(dollars >= 0.0, "`max_cost_usd` is {dollars}: expected an amount of 0 or more");
        // More than any run costs fits.
        let nano = (dollars * 1e9).round() as u64;
        self.expectations.max_cost_nano_usd = Some(self.place(nano));
        self
    }

    /// What can be said of all runs.
    pub(crate) fn of_all(&self) -> Result<(Expectations, Vec<Ends>), String> {
        let Self { expectations, ends, of_one, .. } = self;
        if let Some(key) = of_one.first() {
            return Err(format!(
                "`{key}` holds of a single run, and a property is about all of them: use `never`, `always`, `never_calls`, `ends` or a limit"
            ));
        }
        if expectations.never.is_empty()
            && expectations.always.is_empty()
            && expectations.never_calls.is_empty()
        {
            return Err("a property says what must hold: add `never`, `always` or `never_calls`".to_owned());
        }
        Ok((expectations.clone(), ends.clone()))
    }
}

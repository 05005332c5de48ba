//! A case: what an agent is asked, and what comes back.

use std::path::PathBuf;
use std::sync::Arc;

use dalsegno_cases::{OneCase, Search};
use dalsegno_workspace::{Draft, Expectations, Located, Message, Property, Replies, Workspace};
use proptest::strategy::Strategy;
use serde_json::Value;

use crate::agents::{Agents, Problems};
use crate::expect::Expect;
use crate::given::Given;
use crate::person::Person;
use crate::reply::Reply;
use crate::run::{Broken, Run, told};

/// What an agent is asked, and what comes back. Made by [`Agents::case`].
#[derive(Debug, Clone)]
#[must_use = "a case does nothing until it runs"]
pub struct Case {
    agents: Agents,
    agent: String,
    before: Vec<(String, String)>,
    input: String,
    data: Value,
    user: Value,
    tenant: String,
    replies: Vec<Reply>,
    script: Option<PathBuf>,
    cassette: Option<PathBuf>,
    given: Vec<Given>,
    people: Vec<Person>,
    search: Search,
}

/// A case that was checked, with what it was checked against.
#[derive(Debug)]
pub(crate) struct Built {
    workspace: Arc<Workspace>,
    pub(crate) one: OneCase,
}

impl Built {
    /// Says whether the agent has all that is named in what must hold.
    pub(crate) fn knows(&self, expect: &Expectations) -> Result<(), Problems> {
        self.workspace.check_expectations(self.one.case(), expect).map_err(|found| Problems::of(&found))
    }
}

impl Case {
    pub(crate) fn new(agents: Agents, agent: &str, input: &str) -> Self {
        Self {
            agents,
            agent: agent.to_owned(),
            before: Vec::new(),
            input: input.to_owned(),
            data: Value::Null,
            user: Value::Null,
            tenant: Workspace::DEFAULT_TENANT.to_owned(),
            replies: Vec::new(),
            script: None,
            cassette: None,
            given: Vec::new(),
            people: Vec::new(),
            search: Search::default(),
        }
    }

    /// Adds an earlier turn of the conversation: what the user said and what the agent answered.
    pub fn after(mut self, user: &str, assistant: &str) -> Self {
        self.before.push((user.to_owned(), assistant.to_owned()));
        self
    }

    /// The structured input: `request.data` in templates.
    pub fn data(self, data: Value) -> Self {
        Self { data, ..self }
    }

    /// What is known of the user: `user` in templates.
    pub fn user(self, user: Value) -> Self {
        Self { user, ..self }
    }

    /// The tenant on whose behalf the agent works.
    pub fn tenant(self, tenant: &str) -> Self {
        Self { tenant: tenant.to_owned(), ..self }
    }

    /// Adds what a model replies next.
    pub fn reply(mut self, reply: Reply) -> Self {
        self.replies.push(reply);
        self
    }

    /// Takes the replies of models from a script, instead of those that [`reply`](Self::reply) adds. The path begins at the workspace's
    /// folder.
    pub fn script(self, file: &str) -> Self {
        let script = Some(self.agents.root().join(file));
        Self { script, ..self }
    }

    /// Takes what the case does not give from a cassette: the outcomes of a recorded run. The path begins at the workspace's folder.
    pub fn cassette(self, file: &str) -> Self {
        let cassette = Some(self.agents.root().join(file));
        Self { cassette, ..self }
    }

    /// Adds what comes of a request.
    pub fn given(mut self, given: Given) -> Self {
        self.given.push(given);
        self
    }

    /// Adds what a person answers.
    pub fn person(mut self, person: Person) -> Self {
        self.people.push(person);
        self
    }

    /// How many runs [`check`](Self::check) makes up: 100 by default.
    pub fn runs(mut self, runs: u32) -> Self {
        self.search.runs = Some(runs);
        self
    }

    /// Another seed makes up other runs; the same one always the same. It is 0 by default.
    pub fn seed(mut self, seed: u64) -> Self {
        self.search.seed = seed;
        self
    }

    /// Runs the case.
    ///
    /// # Panics
    /// If there is no such agent or tool, if the run asks for something that the case does not give, or if the case gives something
    /// that the run never asks for. The message says which, and what to write.
    #[must_use]
    #[track_caller]
    pub fn run(&self) -> Run {
        self.try_run().unwrap_or_else(|problems| panic!("{problems}"))
    }

    /// The same, with what is wrong as a value.
    ///
    /// # Errors
    /// What [`run`](Self::run) panics for.
    pub fn try_run(&self) -> Result<Run, Problems> {
        let built = Arc::new(self.build()?);
        let folded = built.one.fold();
        let run = Run::new(&built, folded.trajectory);
        match folded.failures.first() {
            None => Ok(run),
            Some(_) => Err(Problems::saying(told(&folded.failures, &run))),
        }
    }

    /// Makes up runs of the case, and looks for one that breaks what is expected of all of them. What the case gives, it gives as often
    /// as it is asked for; replies of models are always made up. [`assert_property!`](crate::assert_property) does so and panics.
    ///
    /// # Errors
    /// The run that breaks it, made as simple as it gets, with a case for a file that shows it.
    ///
    /// # Panics
    /// If there is no such agent or tool, or `expect` has something that holds of single runs only, such as an answer.
    #[track_caller]
    pub fn check(&self, expect: &Expect) -> Result<(), Broken> {
        let (expect, ends) = expect.of_all().unwrap_or_else(|problem| panic!("{problem}"));
        let property = Property { runs: Property::RUNS, ends };
        let built = self.of(expect.clone(), Some(property.clone()));
        let known = built.and_then(|built| built.knows(&expect).map(|()| built));
        let Built { one, .. } = known.unwrap_or_else(|problems| panic!("{problems}"));
        let folded = one.search(&property, self.search);
        match folded.failures.is_empty() {
            true => Ok(()),
            false => Err(Broken::new(&folded.failures)),
        }
    }

    /// A strategy of runs of the case, for [`proptest`]: replies of models, results of tools and answers of people are made up where the
    /// case does not give them. What breaks a test is made as simple as it gets, and shown step by step.
    ///
    /// ```
    /// # use dalsegno_test::{Agent, Agents, json, proptest::prelude::*};
    /// # let agents = Agents::of(&Agent::new("desk").model("default").instructions("x").approve("refunds.create"))
    /// #     .tool("refunds.create", "Pays.", json!({ "type": "object", "properties": { "amount": { "type": "number" } } }));
    /// proptest!(|(run in agents.case("desk", "Pay money back").any_run())| {
    ///     prop_assert!(run.calls().iter().all(|call| call.approved));
    /// });
    /// ```
    ///
    /// # Panics
    /// If there is no such agent or tool.
    #[track_caller]
    pub fn any_run(&self) -> impl Strategy<Value = Run> + Clone + use<> {
        let built =
            self.of(Expectations::default(), Some(Property { runs: Property::RUNS, ends: Vec::new() }));
        let built = Arc::new(built.unwrap_or_else(|problems| panic!("{problems}")));
        dalsegno_cases::numbers().prop_map(move |numbers| {
            let folded = built.one.made_up(&numbers);
            let run = Run::new(&built, folded.trajectory);
            // It could not be made up to its end, so that nothing may be concluded from it.
            assert!(folded.failures.is_empty(), "{}", told(&folded.failures, &run));
            run
        })
    }

    pub(crate) fn build(&self) -> Result<Built, Problems> {
        self.of(Expectations::default(), None)
    }

    fn of(&self, expect: Expectations, property: Option<Property>) -> Result<Built, Problems> {
        let workspace = self.agents.workspace()?;
        let draft = self.draft(expect, property)?;
        let case =
            workspace.case_in_code(draft, self.agents.tools()).map_err(|found| Problems::of(&found))?;
        let one = OneCase::new(case).map_err(Problems::saying)?;
        Ok(Built { workspace, one })
    }

    fn draft(&self, expect: Expectations, property: Option<Property>) -> Result<Draft, Problems> {
        // A place of its own for each part tells them apart.
        let agent =
            self.agent.parse().map_err(|error| Problems::saying(format!("`{}`: {error}", self.agent)))?;
        let before = self.before.iter().flat_map(|(user, assistant)| {
            [Message::User(user.clone()), Message::Assistant(assistant.clone())]
        });
        let replies = match &self.script {
            Some(file) => Replies::Script(file.clone()),
            None => {
                let written = self.replies.iter().enumerate();
                let place =
                    |(number, reply): (usize, &Reply)| Located { value: reply.value(), span: number..number };
                Replies::Written(written.map(place).collect())
            }
        };
        let is_property = property.is_some();
        let given = self.given.iter().enumerate();
        let results = given.map(|(number, given)| {
            let mut result = given.result(number)?;
            result.repeat |= is_property;
            Ok(result)
        });
        let results = results.collect::<Result<_, String>>().map_err(Problems::saying)?;
        let people = self.people.iter().enumerate();
        Ok(Draft {
            name: Located { value: "a case in code".to_owned(), span: 0..0 },
            agent: Located { value: agent, span: 0..0 },
            tenant: self.tenant.clone(),
            user: self.user.clone(),
            messages: before.chain([Message::User(self.input.clone())]).collect(),
            data: self.data.clone(),
            turns: Vec::new(),
            replies,
            cassette: self.cassette.clone().map(|value| Located { value, span: 0..0 }),
            results,
            shared: Vec::new(),
            answers: people.map(|(number, person)| person.answer(number)).collect(),
            expect,
            property,
        })
    }
}

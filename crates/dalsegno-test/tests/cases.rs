//! Cases in Rust: what fails a test, and what it is told.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::time::Duration;

use dalsegno_test::proptest::prelude::*;
use dalsegno_test::proptest::test_runner::{TestError, TestRunner};
use dalsegno_test::{
    Agent, Agents, Case, EffectClass, Ends, Expect, FailureCode, Given, Person, Reply, RunErrorCode,
    assert_property, assert_trajectory, expect, json,
};

fn desk() -> Agent {
    Agent::new("desk")
        .model("default")
        .instructions("You help the customers of a shop.")
        .approve("refunds.create")
        .allow("agents.helper")
}

/// Looks something up, without a model.
fn helper() -> Agent {
    Agent::from_toml(
        "name = \"helper\"\ndescription = \"Looks up orders.\"\n[tools]\nallow = [\"orders.find\", \"refunds.create\"]\n\
         [[steps]]\nid = \"found\"\ntool = \"orders.find\"\nwith = { order = \"{{request.text}}\" }\n\
         [[steps]]\nrespond = \"order {{request.text}}: {{steps.found}}\"\n",
    )
}

fn agents() -> Agents {
    let text = |name: &str| json!({ "type": "object", "properties": { name: { "type": "string" } }, "required": [name] });
    let amount =
        json!({ "type": "object", "properties": { "amount": { "type": "number" } }, "required": ["amount"] });
    Agents::of(&desk()).with(&helper()).tool("refunds.create", "Pays money back.", amount).tool(
        "orders.find",
        "Finds an order.",
        text("order"),
    )
}

fn case(input: &str) -> Case {
    agents().case("desk", input)
}

fn refund(amount: u32) -> Reply {
    Reply::call("refunds.create", json!({ "amount": amount }))
}

fn fails(case: &Case) -> String {
    case.try_run().unwrap_err().to_string()
}

#[test]
fn what_is_not_given_is_named_with_what_to_write() {
    let said = fails(&case("Pay 20 back").reply(refund(20)).person(Person::approves("refunds.create")));
    assert!(said.contains("step 2 asks the tool `refunds.create` with {\"amount\":20}"), "{said}");
    assert!(said.contains("tool = \"refunds.create\""), "{said}");
    assert!(said.contains("in this run:\nstep 1\n"), "{said}");
    let other = Given::tool("refunds.create").with(json!({ "amount": 30 })).text("paid");
    let said = fails(&case("x").reply(refund(20)).person(Person::approves("refunds.create")).given(other));
    assert!(said.contains("`amount` is 20, expected 30"), "{said}");
}

#[test]
fn what_is_given_and_not_asked_for_fails() {
    let said =
        fails(&case("Hello").reply(Reply::text("Hello.")).given(Given::tool("refunds.create").text("paid")));
    assert!(said.contains("the run never asked for a result of `refunds.create`"), "{said}");
    let said = fails(&case("Hello").reply(Reply::text("Hello.")).reply(Reply::text("Again.")));
    assert!(said.contains("a reply of the model"), "{said}");
    let said = fails(&case("Hello").reply(Reply::text("Hello.")).person(Person::approves("refunds.create")));
    assert!(said.contains("an answer to `refunds.create`"), "{said}");
}

#[test]
fn a_name_that_there_is_not_is_no_test_that_passes() {
    let said = agents().case("desc", "x").try_run().unwrap_err().to_string();
    assert!(said.contains("the workspace has no agent `desc`") && said.contains("`desk`"), "{said}");
    let said = fails(&case("x").reply(Reply::text("y")).given(Given::tool("refund.create").text("paid")));
    assert!(
        said.contains("the tool `refund.create` does not exist") && said.contains("`refunds.create`"),
        "{said}"
    );
    let said = fails(&case("x").tenant("acme"));
    assert!(said.contains("acme"), "{said}");
    let said = fails(&case("x").given(Given::memory("find")));
    assert!(said.contains("a memory has no operation `find`"), "{said}");
    let run = case("x").reply(Reply::text("y")).run();
    for (expect, problem) in [
        (expect!(never_calls = ["refund.create"]), "the tool `refund.create` does not exist"),
        (expect!(calls = ["refund.create"]), "the tool `refund.create` does not exist"),
        (expect!(never = [("refunds.create", "args.amont > 100")]), "has no argument `amont`"),
        (expect!(always = ["step < 3"]), "unknown name `step`"),
        (expect!(max_cost_usd = 0.5), "the model `default` has no `price`"),
    ] {
        let said = run.check(&expect).unwrap_err().to_string();
        assert!(said.contains(problem), "{problem}: {said}");
    }
    assert!(run.check(&expect!(never_calls = ["refunds.create", "agents.*"])).is_ok());
}

#[test]
fn what_must_hold_is_held_against_the_run() {
    let run = case("Pay 900 back")
        .reply(refund(900))
        .reply(Reply::text("I may not: {{last}}").tokens(50, 20))
        .person(Person::denies("refunds.create", "too much"))
        .run();
    assert_trajectory!(
        run,
        calls = [],
        asks = ["refunds.create"],
        answer_contains = ["I may not", "too much"],
        always = ["counts['refunds.create'] == 0", "asks.length == 1"],
        max_steps = 4,
        max_tokens = 70,
    );
    for (expect, problem) in [
        (expect!(calls = ["refunds.create"]), "calls:\n  expected `refunds.create`\n     found none"),
        (expect!(asks = []), "asks:\n  expected none"),
        (expect!(ends = Ends::Failed), "ends:\n  expected failed\n     found completed"),
        (expect!(error = RunErrorCode::Denied), "error:\n  expected denied"),
        (expect!(answer = "Paid."), "answer:\n  expected \"Paid.\""),
        (expect!(answer_contains = "Paid."), "answer_contains:"),
        (expect!(never_calls = ["refunds.*"]), "never_calls:\n  `refunds.create` was asked for"),
        (expect!(max_tokens = 69), "max_tokens:\n  expected at most 69\n     found 70"),
        (expect!(hands_over_to = "helper"), "the run does not hand over"),
        (expect!(output = json!({})), "there is no structured answer"),
    ] {
        let said = run.check(&expect).unwrap_err().to_string();
        assert!(said.contains(problem), "{problem}: {said}");
        assert!(said.contains("in this run:") && said.contains("I may not: "), "{said}");
    }
    // Any of several ends will do, and none else.
    assert!(run.check(&expect!(ends = [Ends::Suspended, Ends::Completed])).is_ok());
    assert!(run.check(&expect!(ends = [Ends::Suspended, Ends::Failed])).is_err());
}

#[test]
fn doubts_and_failures_are_outcomes_like_others() {
    let lost = Given::tool("refunds.create").fails(FailureCode::Indeterminate, "the process died");
    let run = case("Pay 20 back")
        .reply(refund(20))
        .reply(Reply::text("Done: {{last}}"))
        .given(lost)
        .person(Person::approves("refunds.create"))
        .person(Person::did("refunds.create", json!("paid by hand")))
        .run();
    assert_trajectory!(run, asks = ["refunds.create", "refunds.create"], answer_contains = "paid by hand");
    let waits =
        Agent::from_toml("name = \"slow\"\nsteps = [{ wait = \"36h\" }, { respond = \"Good morning.\" }]");
    let run = Agents::of(&waits).case("slow", "").run();
    assert_trajectory!(run, answer = "Good morning.");
    assert_eq!(run.waited(), Duration::from_hours(36));
}

#[test]
fn what_only_reads_is_never_in_doubt() {
    let finds = Agent::new("desk").model("default").instructions("x").allow("orders.find");
    let check = |class| {
        let agents = agents().with(&finds).tool_class("orders.find", class);
        agents.case("desk", "Where is order 7?").check(&expect!(always = ["asks.length == 0"]))
    };
    assert!(check(EffectClass::Read).is_ok());
    let broken = check(EffectClass::Unsafe).unwrap_err().to_string();
    assert!(broken.contains("fails = \"indeterminate\""), "{broken}");
}

#[test]
fn the_run_of_another_agent_is_part_of_the_case() {
    let ask = || Reply::call("agents.helper", json!({ "text": "7" }));
    let run = case("Where is order 7?")
        .reply(ask())
        .reply(Reply::text("It says: {{last}}"))
        .given(Given::agent("helper").replying([]))
        .given(Given::tool("orders.find").with(json!({ "order": "7" })).text("shipped"))
        .run();
    // What the helper calls is its own business, but for what must never be called.
    assert_trajectory!(run, calls = ["agents.helper"], answer = "It says: order 7: shipped");
    assert!(run.to_string().contains("  run  step 1"), "{run}");
    // What it asks for is missing as elsewhere, and says in whose run.
    let said = fails(&case("x").reply(ask()).given(Given::agent("helper").replying([])));
    assert!(said.contains("the tool `orders.find` in the run of `helper`"), "{said}");
}

#[test]
fn a_child_run_whose_model_asks_a_person_suspends_the_whole() {
    let clerk = Agent::new("helper")
        .description("Pays.")
        .model("default")
        .instructions("x")
        .approve("refunds.create");
    let agents = agents().with(&clerk);
    let case = || {
        agents.case("desk", "Pay 20 back").reply(Reply::call("agents.helper", json!({ "text": "pay 20" })))
    };
    let helper = |replies: Vec<Reply>| Given::agent("helper").replying(replies);
    let run = case().given(helper(vec![refund(20)])).run();
    assert_trajectory!(run, ends = Ends::Suspended, asks = ["refunds.create"], calls = ["agents.helper"]);
    let run = case()
        .given(helper(vec![refund(20), Reply::text("Paid.")]))
        .given(Given::tool("refunds.create").text("ok"))
        .person(Person::approves("refunds.create"))
        .reply(Reply::text("{{last}}"))
        .run();
    assert_trajectory!(run, answer_contains = "Paid.", never = [("refunds.create", "!approved")]);
    let said =
        run.check(&expect!(never = [("refunds.create", "args.amount == 20")])).unwrap_err().to_string();
    assert!(
        said.contains("`refunds.create` was called with {\"amount\":20}, and a person had agreed"),
        "{said}"
    );
    // Its replies are its own.
    let said = case().given(helper(vec![])).try_run().unwrap_err().to_string();
    assert!(said.contains("the model in the run of `helper`"), "{said}");
    let spare = helper(vec![Reply::text("Paid."), Reply::text("Paid again.")]);
    let said = case().given(spare).reply(Reply::text("y")).try_run().unwrap_err().to_string();
    assert!(said.contains("the run never asked for a reply of the model of `helper`"), "{said}");
}

#[test]
fn a_run_that_breaks_a_property_is_shown_as_simple_as_it_gets() {
    assert_property!(case("Pay back"), never = [("refunds.create", "!approved")]);
    let careless = agents().set("desk", "tools.approve", Vec::<String>::new());
    let broken = careless
        .case("desk", "Pay back")
        .check(&expect!(never = [("refunds.create", "args.amount > 100 && !approved")]))
        .unwrap_err()
        .to_string();
    assert!(broken.contains("`refunds.create` was called with {\"amount\":101}"), "{broken}");
    assert!(broken.contains("made as simple as it gets") && broken.contains("[[cases]]"), "{broken}");
    let many = || careless.case("desk", "Pay back").runs(0).check(&expect!(never_calls = ["refunds.create"]));
    assert!(many().is_ok(), "no run, no counterexample");
}

#[test]
#[should_panic(expected = "`answer` holds of a single run")]
fn a_property_is_about_all_runs() {
    assert_property!(case("x"), answer = "y", never_calls = ["refunds.create"]);
}

#[test]
fn a_limit_on_the_cost_is_an_amount() {
    for dollars in [-0.01, f64::NAN, f64::NEG_INFINITY] {
        let panic = std::panic::catch_unwind(|| Expect::new().max_cost_usd(dollars)).unwrap_err();
        let said = panic.downcast_ref::<String>().unwrap();
        assert_eq!(*said, format!("`max_cost_usd` is {dollars}: expected an amount of 0 or more"));
    }
    let _ = Expect::new().max_cost_usd(0.0).max_cost_usd(f64::INFINITY);
}

#[test]
fn proptest_shrinks_a_run_and_shows_it() {
    let strategy =
        agents().set("desk", "tools.approve", Vec::<String>::new()).case("desk", "Pay back").any_run();
    let config = ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() };
    let found = TestRunner::new(config).run(&strategy, |run| {
        prop_assert!(run.calls().iter().all(|call| call.tool != "refunds.create"));
        Ok(())
    });
    let Err(TestError::Fail(_, run)) = found else { panic!("{found:?}") };
    assert_eq!(run.calls().len(), 1, "{run}");
    assert!(format!("{run:?}").starts_with("the run\nstep 1\n"), "{run:?}");
}

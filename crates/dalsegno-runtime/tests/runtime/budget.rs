//! What tenants may spend on models in a day, with any number of processes.

use dalsegno_core::{AgentRequest, Outcome, RunErrorCode, Status};
use dalsegno_runtime::{Engine, RunEnd, RunReport, Settlement, StartOptions};
use dalsegno_store::Body;

use crate::support::{World, waits};

/// A model whose replies cost a cent each, and may cost two: 1,000 tokens at 10 dollars a million, at most 2,000.
fn world(settings: &str, tenants: &[(&str, &str)]) -> World {
    let world =
        World::new("prompt = \"{{request.text}}\"\n[model]\nuse = \"default\"\nmax_output_tokens = 2000\n");
    std::fs::write(
        world.path().join("script.toml"),
        "repeat = true\n[[replies]]\ntext = \"Yes.\"\nusage = { input = 0, output = 1000 }\n",
    )
    .unwrap();
    let model = "[models.default]\nprovider = \"script\"\nfile = \"script.toml\"\nprice = { input = 0, output = 10 }\n";
    let world = world.settings(&format!("{model}{settings}")).tenants(&["acme", "other"]);
    for (tenant, rest) in tenants {
        let text = format!("name = \"{tenant}\"\n{rest}");
        std::fs::write(world.path().join(format!("tenants/{tenant}.toml")), text).unwrap();
    }
    world
}

async fn run(engine: &Engine, tenant: &str) -> RunReport {
    let request = AgentRequest { tenant: tenant.into(), ..AgentRequest::text("Is it?") };
    let handle = engine.start(&"a".parse().unwrap(), request, StartOptions::default()).await.unwrap();
    handle.finish().await.unwrap()
}

/// Whether the run completed; one that did not met the budget, which says so.
fn completed(report: &RunReport) -> bool {
    let RunEnd::Ended(response) = &report.end else { panic!("{report:?}") };
    if response.status == Status::Completed {
        return true;
    }
    let error = response.error.as_ref().unwrap();
    assert_eq!(error.code, RunErrorCode::LimitExceeded, "{error:?}");
    assert!(
        error.message.contains("daily budget of") && error.message.contains("; it renews at 20"),
        "{error:?}"
    );
    assert!(error.help.contains("when the budget renews"), "{error:?}");
    false
}

#[tokio::test]
async fn a_run_that_meets_its_tenants_budget_ends_and_says_when_it_renews() {
    // Room for two replies: the second one sets aside two cents of the three that are left.
    let world =
        world("", &[("acme", "time_zone = \"Europe/Paris\"\n[budget]\nmax_cost_usd_per_day = 0.035\n")]);
    let engine = world.engine().await;
    assert!(completed(&run(&engine, "acme").await));
    assert!(completed(&run(&engine, "acme").await));
    let third = run(&engine, "acme").await;
    assert!(!completed(&third));
    let RunEnd::Ended(response) = &third.end else { panic!("{third:?}") };
    let message = &response.error.as_ref().unwrap().message;
    assert!(message.contains("of the tenant `acme` (0.035000 US dollars)"), "{message}");
    assert!(
        message.contains("0.020000 US dollars are spent or set aside") && message.contains("[Europe/Paris]"),
        "{message}"
    );
    assert!(engine.journal().replay(third.run).await.unwrap().identical);
    // Another tenant has its own, and another process the same.
    assert!(completed(&run(&engine, "other").await));
    assert!(!completed(&run(&world.engine().await, "acme").await));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_hundred_runs_at_once_never_spend_more_than_the_budget() {
    // 0.26 dollars: up to 25 replies of a cent, since the last one must have room for two.
    let world = world(
        "[dispatch]\ntenant_concurrency = 256\n",
        &[("acme", "[budget]\nmax_cost_usd_per_day = 0.26\n")],
    );
    let engines = [world.engine().await, world.engine().await];
    let runs = (0..200).map(|number| {
        let engine = engines[number % 2].clone();
        tokio::spawn(async move { completed(&run(&engine, "acme").await) })
    });
    let others = (0..20).map(|number| {
        let engine = engines[number % 2].clone();
        tokio::spawn(async move { completed(&run(&engine, "other").await) })
    });
    let (runs, others): (Vec<_>, Vec<_>) = (runs.collect(), others.collect());
    let mut replies = 0;
    for run in runs {
        replies += u64::from(run.await.unwrap());
    }
    // Those that are refused while others have two cents set aside may be more than at the end; none too many ever pass.
    assert!((13..=25).contains(&replies), "{replies}");
    for other in others {
        assert!(other.await.unwrap(), "another tenant is not affected");
    }
    let filter = dalsegno_store::RunFilter { tenant: Some("acme".into()), ..Default::default() };
    let spending = engines[0].journal().spending(&filter, None).await.unwrap();
    let spent =
        spending.runs.iter().flat_map(|(_, spent)| spent).map(|spent| spent.usage.cost_nano_usd).sum::<u64>();
    assert_eq!(spent, replies * 10_000_000);
    assert!(spent <= 260_000_000);
}

#[tokio::test]
async fn the_workspaces_budget_counts_all_tenants_together() {
    let world = world("[budget]\nmax_cost_usd_per_day = 0.03\ntenant_max_cost_usd_per_day = 0.025\n", &[]);
    let engine = world.engine().await;
    assert!(completed(&run(&engine, "acme").await));
    assert!(!completed(&run(&engine, "acme").await), "a second call may cost two cents, of one and a half");
    assert!(completed(&run(&engine, "other").await), "its own budget, and two cents of the workspace's");
    let third = run(&engine, "default").await;
    assert!(!completed(&third));
    let RunEnd::Ended(response) = &third.end else { panic!("{third:?}") };
    assert!(response.error.as_ref().unwrap().message.contains("daily budget of the workspace"), "{third:?}");
}

#[tokio::test]
async fn a_tenants_file_cannot_raise_what_the_workspace_grants() {
    let world = world(
        "[budget]\ntenant_max_cost_usd_per_day = 0.02\n",
        &[("acme", "[budget]\nmax_cost_usd_per_day = 100\n")],
    );
    let engine = world.engine().await;
    assert!(completed(&run(&engine, "acme").await));
    assert!(!completed(&run(&engine, "acme").await));
}

#[tokio::test]
async fn a_call_whose_reply_was_lost_counts_with_all_that_was_set_aside() {
    for (kind, spent) in [("protocol", 20_000_000), ("refused", 0)] {
        let world = world("", &[("acme", "[budget]\nmax_cost_usd_per_day = 1\n")]);
        let script = format!("[[replies]]\nerror = {{ kind = \"{kind}\", message = \"gone\" }}\n");
        std::fs::write(world.path().join("script.toml"), script).unwrap();
        let agent = std::fs::read_to_string(world.path().join("agents/a.toml")).unwrap();
        std::fs::write(world.path().join("agents/a.toml"), agent + "retries = 0\n").unwrap();
        let engine = world.engine().await;
        let RunEnd::Ended(response) = run(&engine, "acme").await.end else { panic!("{kind}") };
        assert_eq!(response.error.unwrap().code, RunErrorCode::ModelFailed, "{kind}");
        let today = jiff::Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC).date().to_string();
        assert_eq!(engine.journal().store().spent("acme", &today).await.unwrap(), spent, "{kind}");
    }
}

#[tokio::test]
async fn a_completion_that_the_workspace_of_today_refuses_costs_nothing() {
    let agent = "[[steps]]\nid = \"n\"\nask = \"How many?\"\n\
                 [[steps]]\nmodel = { use = \"default\", prompt = \"x\", max_output_tokens = 2000 }\n";
    // Another agent stays, so that the workspace has one.
    let world = world("", &[]).agent("a", agent).agent("b", agent);
    let asked = world.run("go").await;
    assert_eq!(waits(&asked).len(), 1);
    std::fs::remove_file(world.path().join("agents/a.toml")).unwrap();
    let report = world.resume(asked.run, Some(Settlement::Give { value: "3".into() })).await;
    let RunEnd::Ended(response) = &report.end else { panic!("{report:?}") };
    assert_eq!(response.status, Status::Failed, "{response:?}");
    assert!(response.error.as_ref().unwrap().message.contains("no agent `a` any more"), "{response:?}");
    assert_eq!(report.usage.cost_nano_usd, 0, "the model was not asked");
    let records = world.engine().await.journal().inspect(asked.run, None).await.unwrap().records;
    let refused = records.iter().any(|record| {
        matches!(&record.body, Body::Resolved { outcome: Outcome::Failed(failure), .. } if failure.unsent)
    });
    assert!(refused, "{records:#?}");
    assert!(world.engine().await.journal().replay(asked.run).await.unwrap().identical);
}

#[tokio::test]
async fn another_model_counts_at_its_own_price() {
    let free =
        "[models.free]\nprovider = \"script\"\nfile = \"script.toml\"\nprice = { input = 0, output = 0 }\n";
    // Room for one reply: each sets two cents aside, and costs one.
    let world = world(&format!("{free}[budget]\nmax_cost_usd_per_day = 0.025\n"), &[])
        .agent("b", "prompt = \"{{request.text}}\"\n[model]\nuse = \"free\"\nmax_output_tokens = 2000\n");
    let engine = world.engine().await;
    let run = async |agent: &str, model: &str| {
        let options = StartOptions { model: Some(model.to_owned()), ..StartOptions::default() };
        let request = AgentRequest::text("Is it?");
        engine.start(&agent.parse().unwrap(), request, options).await.unwrap().finish().await.unwrap()
    };
    // The agent's own model costs nothing, and the other one does.
    let report = run("b", "default").await;
    assert!(completed(&report));
    assert_eq!(report.usage.cost_nano_usd, 10_000_000);
    assert!(!completed(&run("b", "default").await));
    // The other way round.
    let report = run("a", "free").await;
    assert!(completed(&report));
    assert_eq!(report.usage.cost_nano_usd, 0);
}

//! Another model decides than the one that the agent's file names, and what bounds the cost holds all the same.

use std::fs;

use dalsegno_core::{AgentConfig, Mind, ModelSettings, ProviderTool};
use dalsegno_workspace::{Loaded, Workspace, builtin_tools};

const MODELS: &str = "\
    [models.cheap]\nprovider = 'openai'\nmodel = 'c'\napi_key = { env = 'K' }\nprice = { input = 1, output = 2 }\n\
    seed = 1\n\
    [models.dear]\nprovider = 'openai-responses'\nmodel = 'd'\napi_key = { env = 'K' }\n\
    price = { input = 10, output = 20 }\nprovider_tools = ['web_search']\n";

const UNKNOWN: &str = "[models.unknown]\nprovider = 'openai'\nmodel = 'u'\napi_key = { env = 'K' }\n";

/// A workspace with these models and an agent `a` of this text.
fn written((settings, more): (&str, &str), agent: &str, tenant: Option<&str>) -> Loaded {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("agents")).unwrap();
    fs::write(folder.path().join("dalsegno.toml"), format!("{settings}{MODELS}{more}")).unwrap();
    fs::write(folder.path().join("agents/a.toml"), format!("name = 'a'\n{agent}")).unwrap();
    if let Some(tenant) = tenant {
        fs::create_dir(folder.path().join("tenants")).unwrap();
        fs::write(folder.path().join("tenants/acme.toml"), format!("name = 'acme'\n{tenant}")).unwrap();
    }
    Workspace::load(folder.path())
}

/// What the agent is asked with once another model of this name decides.
fn changed(agent: &str, name: &str) -> Result<ModelSettings, String> {
    let workspace = written(("", UNKNOWN), agent, None).workspace.unwrap();
    let mut config: AgentConfig =
        workspace.agents.values().next().unwrap().resolve(&builtin_tools()).unwrap();
    workspace.change_model(&mut config, name)?;
    let Mind::Model(mind) = config.mind else { panic!("a plan has no model") };
    Ok(mind.model)
}

#[test]
fn another_model_has_its_own_price_and_settings_and_what_the_agent_says_stays() {
    let agent = "tools.allow = ['provider.web_search']\nmodel = { use = 'cheap', temperature = 0.5, timeout = '7s' }\n";
    let model = changed(agent, "dear").unwrap();
    assert_eq!(model.name, "dear");
    assert_eq!(model.price.as_ref().unwrap().rates.output, 20_000_000);
    assert_eq!((model.temperature, model.timeout_ms), (Some(0.5), 7_000));
    // The seed is one of the other model's settings.
    assert_eq!(model.control.seed, None);
    assert_eq!(model.control.provider_tools, [ProviderTool::WebSearch]);
    // An agent that may not search does not get to by another model.
    let model = changed("model = { use = 'cheap', seed = 5 }\n", "dear").unwrap();
    assert_eq!(model.control.provider_tools, []);
    assert_eq!(model.control.seed, Some(5), "the agent's own");
    let model = changed("model = { use = 'dear' }\n", "cheap").unwrap();
    assert_eq!(model.control.seed, Some(1));
    assert_eq!(model.price.unwrap().rates.output, 2_000_000);
}

#[test]
fn a_bound_on_the_cost_refuses_a_model_whose_cost_is_not_known() {
    let bound = "model = { use = 'cheap' }\nlimits.max_cost_usd = 1\n";
    let error = changed(bound, "unknown").unwrap_err();
    assert!(error.contains("the model `unknown` has no `price`"), "{error}");
    assert!(error.contains("[models.unknown]"), "{error}");
    changed("model = { use = 'cheap' }\n", "unknown").unwrap();
    // The price of tokens is not enough for one that searches.
    let searches = format!("tools.allow = ['provider.web_search']\n{bound}");
    let error = changed(&searches, "dear").unwrap_err();
    assert!(error.contains("`web_search`"), "{error}");
    changed(bound, "dear").unwrap();
}

#[test]
fn a_plan_has_no_model_that_could_be_another_one() {
    let error = changed("[[steps]]\nrespond = 'hi'\n", "dear").unwrap_err();
    assert!(error.contains("its agent is a plan"), "{error}");
}

#[test]
fn a_daily_budget_needs_the_price_of_searches() {
    let searches = "tools.allow = ['provider.web_search']\nmodel = { use = 'dear' }\n";
    let missing = |loaded: &Loaded| {
        let found = loaded.diagnostics.iter().filter(|one| one.message.starts_with("the daily budget"));
        found.map(|one| (one.code.to_string(), one.file.display().to_string())).collect::<Vec<_>>()
    };
    let expected = vec![("missing-price".to_owned(), "agents/a.toml".to_owned())];
    for budget in ["max_cost_usd_per_day", "tenant_max_cost_usd_per_day"] {
        let budget = format!("budget.{budget} = 1\n");
        assert_eq!(missing(&written((&budget, ""), searches, None)), expected, "{budget}");
        assert_eq!(missing(&written((&budget, ""), "model = { use = 'dear' }\n", None)), []);
    }
    let tenant = Some("budget.max_cost_usd_per_day = 1\n");
    assert_eq!(missing(&written(("", ""), searches, tenant)), expected);
    assert_eq!(missing(&written(("", ""), searches, None)), []);
}

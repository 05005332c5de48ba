//! `dalsegno cost`, and what a run cost in all that is told of it.

use serde_json::{Value, json};

use crate::support::{Workspace, photograph};

const SETTINGS: &str = "\
[models.dear]
provider = \"script\"
file = \"dear.toml\"
price = { input = 2, cached_input = 0.2, output = 10 }

[models.free]
provider = \"script\"
file = \"free.toml\"
";

/// Two agents on models of their own, one of which calls the other, and a tenant whose day begins at 14:00 UTC or earlier.
fn shop() -> Workspace {
    let workspace = Workspace::empty();
    workspace.write("dalsegno.toml", SETTINGS);
    workspace.write(
        "dear.toml",
        "repeat = true\n[[replies]]\ntext = \"Yes.\"\n\
         usage = { input = 100_000, cached_input = 90_000, output = 2_000, reasoning = 1_500 }\n",
    );
    workspace.write(
        "free.toml",
        "[[replies]]\ncalls = [{ name = \"agents.wise\", arguments = { text = \"Is it?\" } }]\nusage = { input = 40, output = 5 }\n\
         [[replies]]\ntext = \"It is.\"\nusage = { input = 60, output = 5 }\n",
    );
    workspace
        .write("agents/wise.toml", "name = \"wise\"\ndescription = \"Knows.\"\n[model]\nuse = \"dear\"\n");
    workspace.write(
        "agents/quick.toml",
        "name = \"quick\"\ndescription = \"Asks.\"\n[model]\nuse = \"free\"\n[tools]\nallow = [\"agents.wise\"]\n",
    );
    workspace.write("tenants/acme.toml", "name = \"acme\"\ntime_zone = \"Pacific/Kiritimati\"\n");
    workspace
}

/// The cost of each line, by the word that it is about.
fn costs(document: &Value, word: &str) -> Vec<(String, u64)> {
    let lines = document["lines"].as_array().unwrap();
    let cost = |line: &Value| line["usage"]["cost_nano_usd"].as_u64().unwrap_or(0);
    lines.iter().map(|line| (line["of"][word].as_str().unwrap().to_owned(), cost(line))).collect()
}

#[test]
fn what_runs_spent_is_summed_up_once() {
    let workspace = shop();
    workspace.succeed(&["run", "wise", "Is it?"]);
    workspace.succeed(&["run", "wise", "Is it?", "--tenant", "acme"]);
    workspace.succeed(&["run", "quick", "Well?", "--session", "s"]);
    // 10,000 at 2 dollars a million, 90,000 at 0.2, 2,000 at 10.
    let each = 20_000_000 + 18_000_000 + 20_000_000;
    photograph!(workspace.dalsegno(&["cost"]), @r"
    exit code: 0
    --- stdout
    MODEL  RUNS  CALLS  INPUT   CACHED  OUTPUT  COST
    dear   3     3      300000  90%     6000    $0.1740
    free   1     2      100     0%      10      $0
    total  4     5      300100  90%     6010    $0.1740
    --- stderr
    warning: 2 calls of `free` counted as $0, since the model had no price: add `price` to `[models.free]`
    ");
    photograph!(workspace.dalsegno(&["cost", "--by", "agent,tenant"]), @r"
    exit code: 0
    --- stdout
    AGENT  TENANT   RUNS  CALLS  INPUT   CACHED  OUTPUT  COST
    wise   default  2     2      200000  90%     4000    $0.1160
    wise   acme     1     1      100000  90%     2000    $0.0580
    quick  default  1     2      100     0%      10      $0
    total           4     5      300100  90%     6010    $0.1740
    --- stderr
    warning: 2 calls of `free` counted as $0, since the model had no price: add `price` to `[models.free]`
    ");
    let by =
        |word: &str, args: &[&str]| costs(&workspace.json(&[&["cost", "--by", word], args].concat()), word);
    let named = |costs: &[(&str, u64)]| -> Vec<(String, u64)> {
        costs.iter().map(|(name, cost)| ((*name).to_owned(), *cost)).collect()
    };
    assert_eq!(by("tenant", &[]), named(&[("default", 2 * each), ("acme", each)]));
    assert_eq!(by("model", &["--tenant", "acme"]), named(&[("dear", each)]));
    assert_eq!(by("agent", &["--agent", "quick"]), named(&[("quick", 0)]));
    assert_eq!(
        by("session", &["--session", "s"]),
        named(&[("s", each)]),
        "the child run belongs to the session"
    );
    assert_eq!(by("run", &[]).len(), 4, "the child run has a line of its own");
    assert_eq!(by("run", &["--since", "1h"]).len(), 4);
    assert_eq!(by("run", &["--since", "2999-01-01"]).len() + by("run", &["--until", "2020-01-01"]).len(), 0);
    let total = workspace.json(&["cost"])["total"].clone();
    assert_eq!((&total["usage"]["cost_nano_usd"], &total["runs"]), (&json!(3 * each), &json!(4)));
    assert_eq!(total["usage"]["details"]["reasoning_tokens"], 4_500);
    let days = |tenant: &str| by("day", &["--tenant", tenant]);
    assert!(days("acme")[0].0 >= days("default")[0].0, "Kiritimati is ahead of all other zones");
}

#[test]
fn what_a_run_cost_stands_in_all_that_is_told_of_it() {
    let workspace = shop();
    let told = workspace.dalsegno(&["run", "wise", "Is it?"]);
    assert!(told.contains(" · 102000 tokens (90000 cached) · $0.0580 · "), "{told}");
    let shown = workspace.succeed(&["show", "last"]);
    assert!(shown.contains(" · 102000 tokens (90000 cached) · $0.0580\n"), "{shown}");
    let listed = workspace.succeed(&["runs"]);
    assert!(listed.contains("  COST     REQUEST") && listed.contains("  $0.0580  Is it?"), "{listed}");
    assert_eq!(workspace.json(&["runs"])[0]["usage"]["cost_nano_usd"], 58_000_000);
}

#[test]
fn nothing_that_was_spent_is_nothing_to_sum_up() {
    let workspace = Workspace::plain();
    workspace.succeed(&["run", "note", "disk full"]);
    photograph!(workspace.dalsegno(&["cost"]), @r"
    exit code: 0
    --- stdout
    --- stderr
    nothing was spent on models: no run that matches asked one
    ");
    let unknown = workspace.dalsegno(&["cost", "--tenant", "nobody"]);
    assert!(unknown.starts_with("exit code: 2\n") || unknown.starts_with("exit code: 1\n"), "{unknown}");
}

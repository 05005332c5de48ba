//! A generated workspace: agents of every kind of step, with tools of every class.

mod phone;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use dalsegno_core::{EffectClass, OnIndeterminate};
use serde_json::json;

use crate::random::Random;
pub(crate) use phone::{HANG_UP, PHONE, SEND_DIGITS, TRANSFER};

/// The tools, with what may repeat of them. `t.look` has results that stand for further calls.
pub(crate) const TOOLS: [(&str, EffectClass); 5] = [
    ("t.read", EffectClass::Read),
    ("t.set", EffectClass::Idempotent),
    ("t.keyed", EffectClass::Keyed),
    ("t.unsafe", EffectClass::Unsafe),
    ("t.look", EffectClass::Read),
];

/// On whose behalf runs are started.
pub(crate) const TENANTS: [&str; 2] = ["acme", "other"];

/// The tools about whose calls an agent may have a rule, and the number of which those are multiples that a person must
/// agree to.
pub(crate) const RULED: [&str; 2] = ["t.unsafe", "shop.buy"];
const RULE: i64 = 3;

/// Says whether an agent's rule is about a call with this number.
pub(crate) const fn is_ruled(n: i64) -> bool {
    n % RULE == 0
}

/// The tools of whose calls an agent may deny some.
const DENIED: [&str; 2] = ["t.keyed", "shop.keyed"];

/// Says whether an agent that denies some calls denies one with this number.
pub(crate) const fn is_denied(n: i64) -> bool {
    n % 7 == 5
}

/// The tool whose results are kept.
pub(crate) const KEPT: &str = "t.look";

/// The declarative tools, with what may repeat of the calls that they make. `shop.both` makes two.
pub(crate) const SHOP: [(&str, EffectClass); 6] = [
    ("shop.look", EffectClass::Read),
    ("shop.put", EffectClass::Idempotent),
    ("shop.keyed", EffectClass::Keyed),
    ("shop.buy", EffectClass::Unsafe),
    ("shop.locked", EffectClass::Keyed),
    ("shop.both", EffectClass::Keyed),
];

/// Says whether a tool is a document, whose calls are its parts.
pub(crate) fn is_document(tool: &str) -> bool {
    tool == TRANSFER || tool.starts_with("shop.")
}

/// The document that is asked whether a call in doubt took place, and the path of its endpoint.
pub(crate) const FOUND: &str = "shop.found";
pub(crate) const FOUND_PATH: &str = "/found/";

/// Where the endpoints of the declarative tools are.
const ORIGIN: &str = "http://shop.test:8000";

/// How often a document's call is repeated where it does not say.
const RETRIES: u32 = 3;

/// The secret that `shop.locked` shows, and its name in the secret store.
pub(crate) const SECRET: &str = "open-sesame-4711";
pub(crate) const SECRET_NAME: &str = "shop.token";

/// The longest answer of an endpoint that is read, in bytes.
pub(crate) const ANSWER_MAX: usize = 2_000;

/// What is added to the number of a second call of the same tool.
pub(crate) const SECOND: i64 = 50_000;

/// On which terms an agent calls a tool.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ToolTerms {
    pub(crate) class: EffectClass,
    pub(crate) retries: u32,
    pub(crate) policy: OnIndeterminate,
    /// A person must agree before each call.
    pub(crate) approve: bool,
    /// A person must agree before each call whose number [`is_ruled`].
    pub(crate) rule: bool,
    /// Each call whose number [`is_denied`] is refused.
    pub(crate) deny: bool,
    /// How long a result stands for further calls, in milliseconds.
    pub(crate) kept_ms: u64,
    /// The sources of notes, if a person must agree before each call whose note is from none of them.
    pub(crate) trusts: Option<&'static [&'static str]>,
}

/// The tools about whose notes an agent may have a rule, and the sources that it may trust.
const TRACED: [&str; 2] = ["t.unsafe", "t.keyed"];
const SOURCES: [&[&str]; 5] = [&["user"], &["t.read"], &["user", "t.keyed"], &["t.*"], &["user", "shop.*"]];

/// What may be spent on the model in a day.
#[derive(Debug, Clone)]
pub(crate) struct Money {
    /// In billionths of a US dollar.
    pub(crate) most_nano_usd: u64,
    /// By how many hours its day begins earlier than that of UTC.
    pub(crate) utc_offset_hours: i8,
    zone: &'static str,
}

/// Zones whose time is always so many hours from UTC. A world begins at midnight UTC.
const ZONES: [(&str, i8); 4] =
    [("UTC", 0), ("Atlantic/Cape_Verde", -1), ("America/Bogota", -5), ("Asia/Tokyo", 9)];

/// What a token of a reply costs, in billionths of a US dollar, and the most of them.
pub(crate) const TOKEN_NANO_USD: u64 = 1_000_000;
pub(crate) const TOKENS_MAX: u32 = 10;

/// What an engine may do at once.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) process: usize,
    pub(crate) tenant: usize,
    pub(crate) model: usize,
}

/// What of the rest of a world a seed decides.
#[derive(Debug, Clone)]
pub(crate) struct Mix {
    /// Agents that are asked from outside.
    pub(crate) roots: Vec<String>,
    /// Somebody resumes runs, besides the workers.
    pub(crate) resumes: bool,
    /// How often workers look for runs.
    pub(crate) polls: Vec<Duration>,
    /// Runs that a worker performs at once.
    pub(crate) concurrency: usize,
    /// Steps between two snapshots.
    pub(crate) snapshot_every: u64,
    /// The journal is in a SQLite file.
    pub(crate) sqlite: bool,
    /// There are calls.
    pub(crate) calls: bool,
}

impl Mix {
    pub(crate) fn generate(seed: u64) -> Self {
        let mut random = Random::new(seed, "mix");
        let seconds = |seconds: &[u64]| seconds.iter().map(|second| Duration::from_secs(*second)).collect();
        let roots = ["top", "flat", "talk"].into_iter().filter(|_| random.chance(750));
        let mut roots: Vec<String> = roots.map(str::to_owned).collect();
        if roots.is_empty() {
            roots.push("top".into());
        }
        Self {
            roots,
            resumes: random.chance(250),
            polls: seconds(random.pick(&[&[2][..], &[10], &[45], &[2, 45]])),
            concurrency: random.pick(&[1, 2, 64, 64]),
            snapshot_every: random.pick(&[1, 2, 3, 1_000]),
            sqlite: random.chance(100),
            // No draw of the others, so that each seed still means the same world.
            calls: Random::new(seed, "calls").chance(500),
        }
    }
}

/// The files of a workspace, and what the reference model must know of them.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) settings: String,
    pub(crate) agents: BTreeMap<String, String>,
    pub(crate) terms: BTreeMap<(String, String), ToolTerms>,
    /// How long an agent's questions wait for an answer, in milliseconds; those of others wait for ever.
    pub(crate) patience: BTreeMap<String, u64>,
    pub(crate) bounds: Bounds,
    /// What tenants may spend, and all of them together as `*`.
    pub(crate) budgets: BTreeMap<String, Money>,
    seed: u64,
    /// The declarative tools.
    toolkit: String,
    /// On which terms their calls are made.
    shop: BTreeMap<String, ToolTerms>,
}

impl Plan {
    pub(crate) fn generate(seed: u64) -> Self {
        let mut random = Random::new(seed, "workspace");
        let bounds = Bounds {
            process: random.pick(&[2, 3, 5, 16]),
            tenant: random.pick(&[1, 2, 4, 8]),
            model: random.pick(&[1, 2, 8]),
        };
        let mut settings = String::new();
        let _ = write!(
            settings,
            "[models.default]\nprovider = \"openai\"\nmodel = \"simulated\"\nbase_url = \"http://127.0.0.1:9\"\n\
             allow_http = true\nconcurrency = {}\nprice = {{ input = 0, output = 1000 }}\n[dispatch]\nconcurrency = {}\ntenant_concurrency = {}\nqueue = {}\n\
             breaker_failures = {}\nbreaker_cool_down = \"{}s\"\n",
            bounds.model,
            bounds.process,
            bounds.tenant,
            random.pick(&[1, 3, 50]),
            random.pick(&[2, 4, 8]),
            random.pick(&[1, 4]),
        );
        let budgets = budgets(seed);
        if let Some(money) = budgets.get("*") {
            let (most, zone) = (dollars(money.most_nano_usd), money.zone);
            let _ = write!(settings, "[budget]\nmax_cost_usd_per_day = {most}\ntime_zone = \"{zone}\"\n");
        }
        let mut plan = Self {
            settings,
            agents: BTreeMap::new(),
            terms: BTreeMap::new(),
            patience: BTreeMap::new(),
            bounds,
            budgets,
            seed,
            toolkit: String::new(),
            shop: BTreeMap::new(),
        };
        plan.add_shop(&mut random);
        // Each may call those before it only, so that no agent calls itself.
        plan.add_plan(&mut random, "leaf", &[], None);
        plan.add_plan(&mut random, "mid", &["leaf"], None);
        plan.add_plan(&mut random, "next", &["leaf"], None);
        plan.add_plan(&mut random, "flat", &[], None);
        plan.add_plan(&mut random, "top", &["leaf", "mid"], Some("next"));
        plan.add_model(&mut random, "talk");
        plan.add_phone(&mut Random::new(seed, PHONE));
        plan
    }

    /// Writes the files.
    pub(crate) fn write(&self, root: &Path) -> std::io::Result<()> {
        std::fs::create_dir_all(root.join("agents"))?;
        write(root.join("dalsegno.toml"), &self.settings)?;
        for (name, text) in &self.agents {
            write(root.join(format!("agents/{name}.toml")), text)?;
        }
        std::fs::create_dir_all(root.join("tools"))?;
        write(root.join("tools/shop.json"), &self.toolkit)?;
        write(root.join("tools/exchange.json"), &phone::exchange().to_string())?;
        std::fs::create_dir_all(root.join("tenants"))?;
        for tenant in TENANTS {
            let mut text = format!("name = \"{tenant}\"\negress = [\"{ORIGIN}\"]\n");
            if let Some(money) = self.budgets.get(tenant) {
                let (most, zone) = (dollars(money.most_nano_usd), money.zone);
                let _ = write!(text, "time_zone = \"{zone}\"\n[budget]\nmax_cost_usd_per_day = {most}\n");
            }
            let _ = write!(text, "[tools.shop]\nsecrets = {{ token = {{ store = \"{SECRET_NAME}\" }} }}\n");
            write(root.join(format!("tenants/{tenant}.toml")), &text)?;
        }
        Ok(())
    }

    /// Adds declarative tools that call endpoints.
    fn add_shop(&mut self, random: &mut Random) {
        let mut tools = Vec::new();
        for (name, class) in SHOP {
            let drawn = u32::try_from(random.below(4)).unwrap_or_default();
            // A document may not ask for repeats of what it says is unsafe, so that the default counts: refused connections.
            let retries = if class == EffectClass::Unsafe { RETRIES } else { drawn };
            let timeout = random.pick(&[2, 5, 12]);
            let action = name.trim_start_matches("shop.");
            let mut call = json!({
                "type": "api_call",
                "url": format!("{ORIGIN}/{action}/{{{{params.n}}}}"),
                "timeout": timeout,
                "retry_delay": random.pick(&[0.05, 1.0]),
                "max_response_bytes": ANSWER_MAX,
            });
            match class {
                EffectClass::Read => call["method"] = "GET".into(),
                EffectClass::Idempotent => call["method"] = "PUT".into(),
                EffectClass::Keyed => call["effect"] = "keyed".into(),
                EffectClass::Unsafe | EffectClass::Composite => call["effect"] = "unsafe".into(),
            }
            if class != EffectClass::Unsafe {
                call["retry_count"] = retries.into();
            }
            if class != EffectClass::Read {
                call["body"] = json!({ "n": "{{params.n}}" });
            }
            if name == "shop.locked" {
                call["headers"] = json!({ "Authorization": "Bearer {{secrets.token}}" });
            }
            let mut calls = vec![call.clone()];
            if name == "shop.both" {
                call["body"] = json!({ "n": format!("{{{{params.n + {SECOND}}}}}") });
                calls.push(call);
            }
            let mut tool = json!({
                "name": action,
                "description": "Calls an endpoint.",
                "parameters": [{ "name": "n", "type": "integer", "required": true }],
                "actions": calls,
                "output": { "n": "params.n", "receipt": "result.last.receipt" },
            });
            if matches!(class, EffectClass::Keyed | EffectClass::Unsafe) && random.chance(300) {
                let (delay, tries) = (random.pick(&[0.001, 1.0, 6.0]), random.pick(&[1, 3]));
                tool["verify"] = json!({
                    "tool": "found", "with": { "key": "{{operation.key}}" }, "verdict": "result.found",
                    "result": "result.reply", "delay": delay, "tries": tries,
                });
            }
            tools.push(tool);
            let terms = ToolTerms {
                class,
                retries,
                policy: OnIndeterminate::Ask,
                approve: false,
                rule: false,
                deny: false,
                kept_ms: 0,
                trusts: None,
            };
            self.shop.insert(name.to_owned(), terms);
        }
        tools.push(json!({
            "name": "found",
            "description": "Says whether a call took place.",
            "parameters": [{ "name": "key", "type": "string", "required": true }],
            "actions": [{
                "type": "api_call", "method": "GET", "timeout": 5, "retry_count": 1, "retry_delay": 0.5,
                "url": format!("{ORIGIN}{FOUND_PATH}{{{{params.key}}}}"),
                "max_response_bytes": ANSWER_MAX,
            }],
            "output": "result.last",
        }));
        let toolkit = json!({
            "name": "shop", "description": "Endpoints.", "secrets": ["token"], "actions": tools,
        });
        self.toolkit = toolkit.to_string();
    }

    fn head(&mut self, random: &mut Random, name: &str, rest: &str) -> String {
        let approve = random.chance(200);
        let mut text = format!(
            "name = \"{name}\"\nversion = \"1.0.0\"\ndescription = \"Generated.\"\n{rest}[tools]\nallow = [\"t.*\", \"shop.*\"]\n"
        );
        // Whether there is a rule is no draw of its own, so that each seed still means the same world.
        let gates = text.len();
        let mut rules = Random::new(self.seed, &format!("rules of {name}"));
        let (asks, denies) = (rules.chance(300), rules.chance(300));
        let origins = self.origins(name);
        let mut ruled = false;
        for (tool, class) in TOOLS {
            let retries = u32::try_from(random.below(4)).unwrap_or_default();
            let (policy, word) = random.pick(&[
                (OnIndeterminate::Ask, "ask"),
                (OnIndeterminate::Ask, "ask"),
                (OnIndeterminate::Report, "report"),
                (OnIndeterminate::Retry, "retry"),
            ]);
            let timeout = random.pick(&[2, 5, 12]);
            let _ = write!(
                text,
                "[tools.settings.\"{tool}\"]\nretries = {retries}\ntimeout = \"{timeout}s\"\non_indeterminate = \"{word}\"\n"
            );
            let is_doubtful = matches!(class, EffectClass::Keyed | EffectClass::Unsafe);
            if is_doubtful && policy != OnIndeterminate::Report && random.chance(300) {
                text.push_str(&verify(random));
            }
            let mut kept_ms = 0;
            if tool == KEPT {
                let seconds = random.pick(&[1, 20]);
                kept_ms = seconds * 1_000;
                let _ = writeln!(text, "cache = \"{seconds}s\"");
            }
            ruled |= tool == RULED[0] && timeout == 12;
            let rule = tool == RULED[0] && timeout == 12;
            let (approve, deny) = (approve && tool == "t.set", denies && tool == DENIED[0]);
            let trusts = origins.filter(|(traced, _)| *traced == tool).map(|(_, sources)| sources);
            let terms = ToolTerms { class, retries, policy, approve, rule, deny, kept_ms, trusts };
            self.terms.insert((name.to_owned(), tool.to_owned()), terms);
        }
        let always = approve.then_some("\"t.set\"".to_owned());
        let rules = [ruled, asks].into_iter().zip(RULED).filter(|(is_there, _)| *is_there);
        let rules =
            rules.map(|(_, tool)| format!("{{ tool = \"{tool}\", when = \"args.n % {RULE} == 0\" }}"));
        let traced = origins.map(|(tool, sources)| {
            format!("{{ tool = \"{tool}\", unless_from = {{ args.note = {sources:?} }} }}")
        });
        let entries: Vec<String> = always.into_iter().chain(rules).chain(traced).collect();
        if !entries.is_empty() {
            text.insert_str(gates, &format!("approve = [{}]\n", entries.join(", ")));
        }
        if denies {
            let rules = DENIED.map(|tool| format!("{{ tool = \"{tool}\", when = \"args.n % 7 == 5\" }}"));
            text.insert_str(gates, &format!("deny = [{}]\n", rules.join(", ")));
        }
        for (tool, terms) in &self.shop {
            let (rule, deny) = (asks && tool == RULED[1], denies && tool == DENIED[1]);
            self.terms.insert((name.to_owned(), tool.clone()), ToolTerms { rule, deny, ..*terms });
            if matches!(terms.class, EffectClass::Keyed | EffectClass::Unsafe) && random.chance(300) {
                let _ = write!(text, "[tools.settings.\"{tool}\"]\n{}", verify(random));
            }
        }
        let _ = writeln!(text, "[limits]\ntimeout = \"{}\"", random.pick(&["15s", "3m", "20m", "20m"]));
        if random.chance(100) {
            let _ = writeln!(text, "max_tokens = {}", random.pick(&[2_000, 20_000]));
        }
        if random.chance(100) {
            let _ = writeln!(text, "max_tool_calls = {}", random.pick(&[3, 8]));
        }
        if random.chance(300) {
            let seconds = random.pick(&[10, 300]);
            let _ = writeln!(text, "answer_timeout = \"{seconds}s\"");
            self.patience.insert(name.to_owned(), seconds * 1_000);
        }
        text
    }

    /// The tool about whose notes an agent has a rule, with the sources that it trusts. It is no draw of the others.
    fn origins(&self, agent: &str) -> Option<(&'static str, &'static [&'static str])> {
        let mut random = Random::new(self.seed, &format!("origins of {agent}"));
        random.chance(400).then(|| (random.pick(&TRACED), random.pick(&SOURCES)))
    }

    fn add_model(&mut self, random: &mut Random, name: &str) {
        let text = self.head(random, name, "instructions = \"Call tools, then answer.\"\n");
        // It is no draw of the others.
        let later = Random::new(self.seed, &format!("batches of {name}")).chance(300);
        let asked = if later { "batch = true\ntimeout = \"30m\"" } else { "timeout = \"8s\"" };
        let model =
            format!("[model]\nuse = \"default\"\n{asked}\nretries = 3\nmax_output_tokens = {TOKENS_MAX}\n");
        self.agents.insert(name.to_owned(), format!("{text}{model}"));
    }

    fn add_plan(&mut self, random: &mut Random, name: &str, callees: &[&str], successor: Option<&str>) {
        let mut text = self.head(random, name, "");
        let traces = self.origins(name).map(|_| Random::new(self.seed, &format!("notes of {name}")));
        let mut steps = Steps { random, agent: name, callees, next: 0, known: Vec::new(), traces };
        for _ in 0..2 + steps.random.below(4) {
            steps.step(&mut text);
        }
        match successor {
            Some(successor) if steps.random.chance(500) => {
                let _ = writeln!(text, "[[steps]]\nhandoff = \"{successor}\"\nmessage = \"go on\"");
            }
            _ => {
                let known: Vec<String> =
                    steps.known.iter().map(|id| format!("{{{{steps.{id}.receipt}}}}")).collect();
                let _ = writeln!(text, "[[steps]]\nrespond = \"done: {}\"", known.join(", "));
            }
        }
        self.agents.insert(name.to_owned(), text);
    }
}

/// Writes a file as of a minute ago: one that was written just now would be read again at each look for changes.
fn write(path: PathBuf, text: &str) -> std::io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(text.as_bytes())?;
    file.set_modified(SystemTime::now() - Duration::from_secs(60))
}

/// What may be spent in the world of a seed: in many there is no budget.
fn budgets(seed: u64) -> BTreeMap<String, Money> {
    let mut random = Random::new(seed, "budgets");
    let mut budgets = BTreeMap::new();
    if random.chance(500) {
        return budgets;
    }
    let reply = u64::from(TOKENS_MAX) * TOKEN_NANO_USD;
    for account in TENANTS.into_iter().chain(["*"]) {
        let (zone, utc_offset_hours) = random.pick(&ZONES);
        // Room for one reply, for a few, or for many.
        let most_nano_usd = random.pick(&[reply + reply / 2, 4 * reply, 12 * reply, 40 * reply]);
        if random.chance(if account == "*" { 300 } else { 600 }) {
            budgets.insert(account.to_owned(), Money { most_nano_usd, utc_offset_hours, zone });
        }
    }
    budgets
}

/// An amount as files have it.
fn dollars(nano_usd: u64) -> String {
    format!("{}.{:09}", nano_usd / 1_000_000_000, nano_usd % 1_000_000_000)
}

/// A tool's setting that its receiver is asked about a call in doubt.
fn verify(random: &mut Random) -> String {
    let (delay, tries) = (random.pick(&["1ms", "1s", "6s"]), random.pick(&[1, 3]));
    format!(
        "verify = {{ tool = \"{FOUND}\", with = {{ key = \"{{{{operation.key}}}}\" }}, verdict = \"result.found\", \
         result = \"result.reply\", delay = \"{delay}\", tries = {tries} }}\n"
    )
}

/// The steps of one plan.
struct Steps<'a> {
    random: &'a mut Random,
    agent: &'a str,
    callees: &'a [&'a str],
    /// The number of the last call: each has one of its own within its run.
    next: u32,
    /// Tool steps so far, which later ones may refer to.
    known: Vec<String>,
    /// Decides about further notes, if the agent has a rule about where they come from.
    traces: Option<Random>,
}

impl Steps<'_> {
    fn step(&mut self, text: &mut String) {
        text.push_str("[[steps]]\n");
        match self.random.below(10) {
            0..3 => {
                let count = 2 + self.random.below(4);
                let known = self.known.clone();
                // One child run at most: when several are stopped at once, tokio draws their order.
                let mut children = 1;
                let branches: Vec<String> = (0..count)
                    .map(|_| {
                        let keys = self.operation(&known, &mut children);
                        format!("  {{ {} }},\n", keys.join(", "))
                    })
                    .collect();
                let _ = writeln!(text, "parallel = [\n{}]", branches.concat());
            }
            3..5 => {
                let items = 2 + self.random.below(4);
                let most = 1 + self.random.below(3);
                self.next += 1;
                let (number, tool) = (self.next, self.tool());
                let list: Vec<String> = (1..=items).map(|item| item.to_string()).collect();
                let _ = writeln!(
                    text,
                    "id = \"s{number}\"\nfor_each = \"[{}]\"\nconcurrency = {most}\ntool = \"{tool}\"\non_failure = \"report\"\n\
                     with = {{ n = \"{{{{{} + item}}}}\", group = \"g{number}\", most = {most} }}",
                    list.join(", "),
                    number * 100,
                );
            }
            _ => {
                let known = self.known.clone();
                let keys = self.operation(&known, &mut 1);
                let _ = writeln!(text, "{}", keys.join("\n"));
            }
        }
    }

    fn tool(&mut self) -> &'static str {
        self.random.pick(&["t.read", "t.set", "t.keyed", "t.keyed", "t.unsafe", "t.unsafe", "t.unsafe"])
    }

    /// The keys of one operation.
    fn operation(&mut self, known: &[String], children: &mut usize) -> Vec<String> {
        self.next += 1;
        let number = self.next;
        let report = "on_failure = \"report\"".to_owned();
        match self.random.below(26) {
            20..23 => {
                let (tool, _) = self.random.pick(&SHOP);
                let mut keys = vec![
                    format!("id = \"s{number}\""),
                    format!("tool = \"{tool}\""),
                    format!("with = {{ n = {number} }}"),
                ];
                if self.random.chance(900) {
                    keys.push(report);
                }
                keys
            }
            23 => match self.random.below(3) {
                0 => vec!["memory_search = { query = \"note\", limit = 3 }".into(), report],
                1 => vec![format!("memory_traverse = {{ from = \"thing {number}\", depth = 1 }}"), report],
                _ => vec![
                    format!(
                        "memory_create = {{ entity = \"thing {number}\", content = \"note {number} of {} for {{{{request.text}}}}\" }}",
                        self.agent
                    ),
                    report,
                ],
            },
            0..2 | 24..26 if *children > 0 && !self.callees.is_empty() => {
                *children -= 1;
                let callee = self.random.pick(self.callees);
                vec![format!("agent = \"{callee}\""), "input = \"help\"".into(), report]
            }
            2 => vec![format!("ask = \"question {number}\""), report],
            3..5 => {
                let time = self.random.pick(&["1s", "5s", "25s", "2m", "3h"]);
                vec![format!("wait = \"{time}\"")]
            }
            5 => vec![
                format!(
                    "model = {{ prompt = \"a word for {number}\", timeout = \"8s\", max_output_tokens = {TOKENS_MAX} }}"
                ),
                report,
            ],
            6..8 => {
                let question = 1 + self.random.below(2);
                vec![format!("tool = \"{KEPT}\""), format!("with = {{ q = {question} }}"), report]
            }
            _ => {
                let tool = self.tool();
                let gated = self.random.chance(200);
                let mut with = format!("n = {number}, gated = {gated}");
                if !known.is_empty() && self.random.chance(300) {
                    let other = self.random.pick(known);
                    if self.random.chance(200) {
                        // Without the other's result the arguments do not fit.
                        with =
                            format!("n = \"{{{{steps.{other}.n ? {number} : 'none'}}}}\", gated = {gated}");
                    } else {
                        let _ = write!(with, ", note = \"{{{{steps.{other}.receipt}}}}\"");
                    }
                }
                if let Some(random) = &mut self.traces
                    && !with.contains("steps.")
                    && random.chance(600)
                {
                    let note = random.pick(&["{{request.text}}", "a word of the plan"]);
                    let _ = write!(with, ", note = \"{note}\"");
                }
                self.known.push(format!("s{number}"));
                let mut keys = vec![
                    format!("id = \"s{number}\""),
                    format!("tool = \"{tool}\""),
                    format!("with = {{ {with} }}"),
                ];
                if gated {
                    keys.push("approve = true".into());
                }
                if self.random.chance(930) {
                    keys.push(report);
                }
                keys
            }
        }
    }
}

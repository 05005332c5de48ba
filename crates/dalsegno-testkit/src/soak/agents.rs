//! The workspace of a soak: agents whose runs take seconds, with tools of every class.

use std::path::Path;

use dalsegno_core::EffectClass;

/// The tools, with what may repeat of them.
pub(super) const TOOLS: [(&str, EffectClass); 4] = [
    ("t.read", EffectClass::Read),
    ("t.set", EffectClass::Idempotent),
    ("t.keyed", EffectClass::Keyed),
    ("t.unsafe", EffectClass::Unsafe),
];

/// The agents that are asked from outside.
pub(super) const ROOTS: [&str; 3] = ["order", "order", "talk"];

/// A model that is not asked over the network: it stands for one in process.
const SETTINGS: &str = r#"
[models.default]
provider = "openai"
model = "soaked"
base_url = "http://127.0.0.1:9"
allow_http = true

[dispatch]
breaker_failures = 8
breaker_cool_down = "1s"
"#;

/// How calls are made: impatient, and not for ever.
const TOOL_SETTINGS: &str = r#"
[tools]
allow = ["t.*"]

[tools.settings."t.read"]
retries = 3
timeout = "1s"

[tools.settings."t.set"]
retries = 3
timeout = "1s"

[tools.settings."t.keyed"]
retries = 3
timeout = "1s"

[tools.settings."t.unsafe"]
retries = 3
timeout = "1s"

[limits]
timeout = "10m"
"#;

/// Several things at once, one of them a child run; some wait for an approval, and a few for half a minute.
const ORDER: &str = r#"
[[steps]]
id = "look"
tool = "t.read"
with = { n = 1 }
on_failure = "report"

[[steps]]
parallel = [
  { id = "set", tool = "t.set", with = { n = 2 }, on_failure = "report" },
  { id = "order", tool = "t.keyed", with = { n = 3 }, on_failure = "report" },
  { id = "pay", tool = "t.unsafe", with = { n = 4 }, on_failure = "report" },
  { id = "refund", tool = "t.unsafe", with = { n = 5 }, approve = "request.data.gated", on_failure = "report" },
  { id = "sub", agent = "pack", input = "help", with = { gated = "{{request.data.gated}}" }, on_failure = "report" },
]

[[steps]]
when = "request.data.sleeps"
wait = "35s"

[[steps]]
tool = "t.unsafe"
with = { n = 6 }
on_failure = "report"

[[steps]]
respond = "done"
"#;

const PACK: &str = r#"
[[steps]]
parallel = [
  { tool = "t.keyed", with = { n = 11 }, on_failure = "report" },
  { tool = "t.unsafe", with = { n = 12 }, approve = "request.data.gated", on_failure = "report" },
]

[[steps]]
tool = "t.keyed"
with = { n = 13 }
on_failure = "report"

[[steps]]
respond = "packed"
"#;

/// Writes the files.
pub(super) fn write(root: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(root.join("agents"))?;
    std::fs::create_dir_all(root.join("tenants"))?;
    for name in ["acme", "other"] {
        std::fs::write(root.join(format!("tenants/{name}.toml")), format!("name = \"{name}\"\n"))?;
    }
    std::fs::write(root.join("dalsegno.toml"), SETTINGS)?;
    let model = "[model]\nuse = \"default\"\ntimeout = \"2s\"\nretries = 5\n";
    for (name, before, after) in [
        ("order", "", ORDER),
        ("pack", "", PACK),
        ("talk", "instructions = \"Call tools, then answer.\"\n", model),
    ] {
        let head = format!("name = \"{name}\"\nversion = \"1.0.0\"\ndescription = \"Soaked.\"\n{before}");
        std::fs::write(root.join(format!("agents/{name}.toml")), format!("{head}{TOOL_SETTINGS}{after}"))?;
    }
    Ok(())
}

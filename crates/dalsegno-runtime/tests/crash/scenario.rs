//! The agents whose runs are killed, and what a run of them must come to.

use crate::receiver::Mishap;
use crate::world::Said;

/// A run of the agent `a`, in which each effect has a number of its own.
pub(crate) struct Scenario {
    /// The agents, by name.
    pub(crate) agents: &'static [(&'static str, &'static str)],
    /// The declarative tools, by name.
    pub(crate) documents: &'static [(&'static str, &'static str)],
    /// What a run answers when nothing is lost and nothing doubled.
    pub(crate) answer: &'static str,
    /// The numbers of all effects.
    pub(crate) effects: &'static [u64],
    /// The effects that wait for an approval.
    pub(crate) gated: &'static [u64],
    /// The effects whose result no later step reads: a person says only that they were done.
    pub(crate) unread: &'static [u64],
    /// What becomes of the first call for an effect.
    pub(crate) mishaps: &'static [(u64, Mishap)],
    /// What a person is asked when nothing is killed.
    pub(crate) said: Said,
    /// The runs that there are in the end, child runs included.
    pub(crate) runs: usize,
    /// How many hours pass between two processes.
    pub(crate) hours: u64,
    /// How many runs of one session follow each other: the first is told `go`, the next ones `again`.
    pub(crate) messages: usize,
}

/// Reads, sets, keyed and unsafe effects, one after another and at once, with and without a gate, and the memory.
/// Later ones use what came before them.
pub(crate) const PLAIN: Scenario = Scenario {
    agents: &[(
        "a",
        r#"
name = "a"
version = "1.0.0"
description = "One effect of each class, and more."

[tools]
allow = ["local.*"]

[[steps]]
id = "look"
tool = "local.read"
with = { n = 1 }

[[steps]]
id = "pay"
tool = "local.unsafe"
with = { n = "{{steps.look.n + 1}}" }

[[steps]]
parallel = [
  { id = "set", tool = "local.idempotent", with = { n = "{{steps.pay.n + 1}}" } },
  { id = "order", tool = "local.keyed", with = { n = "{{steps.pay.n + 2}}" } },
  { id = "ship", tool = "local.unsafe", with = { n = 5 } },
  { memory_create = { entity = "crash one", content = "a first observation, {{steps.pay.receipt}}" } },
]

[[steps]]
memory_create = { entity = "crash two", content = "a second observation, {{steps.order.receipt}}" }

[[steps]]
parallel = [
  { id = "again", tool = "local.read", with = { n = 6 } },
  { id = "refund", tool = "local.unsafe", with = { n = 7 }, approve = true },
  { id = "bill", tool = "local.keyed", with = { n = "{{steps.order.n * 2}}" }, approve = true },
]

[[steps]]
id = "found"
memory_search = { query = "observation", limit = 100 }

[[steps]]
respond = """
{{steps.look.receipt}}, {{steps.pay.receipt}}, {{steps.set.receipt}}, {{steps.order.receipt}}, {{steps.again.receipt}}, \
{{steps.refund.receipt}}, {{steps.bill.receipt}}; {{steps.found.length}} observations"""
"#,
    )],
    documents: &[],
    answer: "receipt 1, receipt 2, receipt 3, receipt 4, receipt 6, receipt 7, receipt 8; 2 observations",
    effects: &[1, 2, 3, 4, 5, 6, 7, 8],
    gated: &[7, 8],
    unread: &[5],
    mishaps: &[],
    said: Said { approved: 2, done: 0, not_done: 0 },
    runs: 1,
    hours: 0,
    messages: 1,
};

/// Everything in one run: tools of each class at once with a child run that has its own, approvals above and below,
/// and a receiver that refuses some first calls, does not hear others, and does others without a word.
pub(crate) const EVERYTHING: Scenario = Scenario {
    agents: &[
        (
            "a",
            r#"
name = "a"
version = "1.0.0"
description = "Everything in one run."

[tools]
allow = ["local.*"]
settings = { "local.read" = { retries = 10 }, "local.idempotent" = { retries = 10 }, "local.keyed" = { retries = 10 }, "local.unsafe" = { retries = 10 } }

[[steps]]
id = "look"
tool = "local.read"
with = { n = 1 }

[[steps]]
parallel = [
  { id = "set", tool = "local.idempotent", with = { n = "{{steps.look.n + 1}}" } },
  { id = "order", tool = "local.keyed", with = { n = 3 } },
  { id = "ship", tool = "local.unsafe", with = { n = 4 } },
  { id = "pay", tool = "local.unsafe", with = { n = 5 } },
  { id = "refund", tool = "local.unsafe", with = { n = 6 }, approve = true },
  { id = "sub", agent = "b", input = "{{steps.look.receipt}}" },
  { memory_create = { entity = "crash", content = "an observation, {{steps.look.receipt}}" } },
]

[[steps]]
id = "bill"
tool = "local.keyed"
with = { n = "{{steps.refund.n + 1}}" }

[[steps]]
id = "found"
memory_search = { query = "observation", limit = 100 }

[[steps]]
respond = """
{{steps.look.receipt}}, {{steps.set.receipt}}, {{steps.order.receipt}}, {{steps.ship.receipt}}, {{steps.pay.receipt}}, \
{{steps.refund.receipt}}, {{steps.bill.receipt}}; {{steps.sub}}; {{steps.found.length}} observation"""
"#,
        ),
        (
            "b",
            r#"
name = "b"
version = "1.0.0"
description = "The child run."

[tools]
allow = ["local.*"]
settings = { "local.read" = { retries = 10 }, "local.idempotent" = { retries = 10 }, "local.keyed" = { retries = 10 }, "local.unsafe" = { retries = 10 } }

[[steps]]
parallel = [
  { id = "stock", tool = "local.read", with = { n = 11 } },
  { id = "reserve", tool = "local.keyed", with = { n = 12 } },
  { id = "pack", tool = "local.unsafe", with = { n = 13 } },
  { id = "label", tool = "local.unsafe", with = { n = 14 }, approve = true },
]

[[steps]]
id = "confirm"
tool = "local.idempotent"
with = { n = "{{steps.label.n + 1}}" }

[[steps]]
respond = """
asked with {{request.text}}: {{steps.stock.receipt}}, {{steps.reserve.receipt}}, {{steps.pack.receipt}}, \
{{steps.label.receipt}}, {{steps.confirm.receipt}}"""
"#,
        ),
    ],
    documents: &[],
    answer: "receipt 1, receipt 2, receipt 3, receipt 4, receipt 5, receipt 6, receipt 7; asked with receipt 1: \
             receipt 11, receipt 12, receipt 13, receipt 14, receipt 15; 1 observation",
    effects: &[1, 2, 3, 4, 5, 6, 7, 11, 12, 13, 14, 15],
    gated: &[6, 14],
    unread: &[],
    mishaps: &[
        (2, Mishap::Lost),
        (3, Mishap::Unanswered),
        (4, Mishap::Refused),
        (5, Mishap::Unanswered),
        (11, Mishap::Lost),
        (12, Mishap::Refused),
        (13, Mishap::Refused),
    ],
    said: Said { approved: 2, done: 1, not_done: 0 },
    runs: 2,
    hours: 0,
    messages: 1,
};

/// A declarative tool whose actions have an effect of each class, one after another, with writes between them: twice at
/// once, and a call of an unsafe tool after both.
pub(crate) const DECLARED: Scenario = Scenario {
    agents: &[(
        "a",
        r#"
name = "a"
version = "1.0.0"
description = "Calls a tool that is a document."

[tools]
allow = ["local.*", "chain"]

[[steps]]
parallel = [
  { id = "one", tool = "chain", with = { first = 1 } },
  { id = "two", tool = "chain", with = { first = 11 } },
]

[[steps]]
id = "ship"
tool = "local.unsafe"
with = { n = 21 }

[[steps]]
respond = "{{steps.one}}; {{steps.two}}; {{steps.ship.receipt}}; {{workflow.seen}}"
"#,
    )],
    documents: &[(
        "chain",
        r#"{
  "name": "chain",
  "description": "One effect after another.",
  "parameters": [{ "name": "first", "type": "integer", "required": true }],
  "actions": [
    { "type": "tool", "id": "look", "name": "local.read", "arguments": { "n": "{{params.first}}" } },
    { "type": "context.set", "path": "seen[+]", "value": "result.look.n" },
    { "type": "tool", "id": "pay", "name": "local.unsafe", "arguments": { "n": "{{result.look.n + 1}}" } },
    { "type": "tool", "id": "order", "name": "local.keyed", "arguments": { "n": "{{result.pay.n + 1}}" } },
    { "type": "context.set", "path": "seen[+]", "value": "result.order.n" },
    { "type": "tool", "id": "set", "name": "local.idempotent", "arguments": { "n": "{{result.order.n + 1}}" } },
    { "type": "tool", "id": "send", "name": "local.unsafe", "arguments": { "n": "{{result.set.n + 1}}" } }
  ],
  "output": "result.pay.receipt + ', ' + result.send.receipt"
}"#,
    )],
    answer: "receipt 2, receipt 5; receipt 12, receipt 15; receipt 21; [1,3,11,13]",
    effects: &[1, 2, 3, 4, 5, 11, 12, 13, 14, 15, 21],
    gated: &[],
    unread: &[],
    mishaps: &[],
    said: Said { approved: 0, done: 0, not_done: 0 },
    runs: 1,
    hours: 0,
    messages: 1,
};

/// A declarative tool that sends mails before and after a call that a person must agree to, twice at once, beside a read.
pub(crate) const LETTERS: Scenario = Scenario {
    agents: &[(
        "a",
        r#"
name = "a"
version = "1.0.0"
description = "Has letters sent."

[tools]
allow = ["local.*", "letter"]
approve = ["local.keyed"]

[[steps]]
parallel = [
  { id = "one", tool = "letter", with = { first = 1 } },
  { id = "two", tool = "letter", with = { first = 11 } },
  { id = "look", tool = "local.read", with = { n = 21 } },
]

[[steps]]
id = "ship"
tool = "local.unsafe"
with = { n = 22 }

[[steps]]
respond = "{{steps.one}}; {{steps.two}}; {{steps.look.receipt}}; {{steps.ship.receipt}}; {{workflow.sent}}"
"#,
    )],
    documents: &[(
        "letter",
        r#"{
  "name": "letter",
  "description": "Sends a mail, orders, and sends another one.",
  "parameters": [{ "name": "first", "type": "integer", "required": true }],
  "actions": [
    { "type": "tool", "id": "look", "name": "local.read", "arguments": { "n": "{{params.first}}" } },
    { "type": "email.send", "host": "127.0.0.1", "port": "{{tenant.settings.port}}", "security": "none",
      "from": "robot@example.com", "to": "ada@example.com", "subject": "effect {{params.first + 1}}", "body": "Hello" },
    { "type": "context.set", "path": "sent[+]", "value": "params.first + 1" },
    { "type": "tool", "id": "order", "name": "local.keyed", "arguments": { "n": "{{params.first + 2}}" } },
    { "type": "email.send", "host": "127.0.0.1", "port": "{{tenant.settings.port}}", "security": "none",
      "from": "robot@example.com", "to": "ada@example.com", "subject": "effect {{params.first + 3}}",
      "body": "{{result.order.receipt}}" },
    { "type": "context.set", "path": "sent[+]", "value": "params.first + 3" }
  ],
  "output": "result.look.receipt + ', ' + result.order.receipt"
}"#,
    )],
    answer: "receipt 1, receipt 3; receipt 11, receipt 13; receipt 21; receipt 22; [2,4,12,14]",
    effects: &[1, 2, 3, 4, 11, 12, 13, 14, 21, 22],
    gated: &[3, 13],
    unread: &[2, 4, 12, 14],
    mishaps: &[],
    said: Said { approved: 2, done: 0, not_done: 0 },
    runs: 1,
    hours: 0,
    messages: 1,
};

/// Agents that write into the session which they work in together: one before two others, and those two at once. Each
/// reads what was there before its step, and in the end everything is there once, in the order of the requests.
pub(crate) const SHARED: Scenario = Scenario {
    agents: &[
        (
            "a",
            r#"
name = "a"
version = "1.0.0"
description = "Writes, and has two others write."

[tools]
allow = ["buy", "local.*"]

[[steps]]
id = "first"
tool = "buy"
with = { n = 1 }

[[steps]]
parallel = [
  { id = "one", agent = "b", input = "2" },
  { id = "two", agent = "b", input = "3" },
]

[[steps]]
respond = "{{steps.one}}; {{steps.two}}; {{workflow.bought}}"
"#,
        ),
        (
            "b",
            r#"
name = "b"
version = "1.0.0"
description = "Writes into the session of its caller."

[tools]
allow = ["buy", "local.*"]

[[steps]]
tool = "buy"
with = { n = "{{Number(request.text)}}" }

[[steps]]
respond = "{{workflow.bought}}"
"#,
        ),
    ],
    documents: &[(
        "buy",
        r#"{
  "name": "buy",
  "description": "Buys something, and keeps that it was bought.",
  "parameters": [{ "name": "n", "type": "integer", "required": true }],
  "actions": [
    { "type": "tool", "id": "pay", "name": "local.unsafe", "arguments": { "n": "{{params.n}}" } },
    { "type": "context.set", "path": "bought[+]", "value": "result.pay.n" }
  ]
}"#,
    )],
    answer: "[1,2]; [1,3]; [1,2,3]",
    effects: &[1, 2, 3],
    gated: &[],
    unread: &[],
    mishaps: &[],
    said: Said { approved: 0, done: 0, not_done: 0 },
    runs: 3,
    hours: 0,
    messages: 1,
};

/// A run with two child runs, one of which waits for an approval and the other for a time, beside an effect of its own.
/// Whatever dies: each of them wakes the run above it.
pub(crate) const FAMILY: Scenario = Scenario {
    agents: &[
        (
            "a",
            r#"
name = "a"
version = "1.0.0"
description = "Waits for two others."

[tools]
allow = ["local.*"]

[[steps]]
parallel = [
  { id = "asks", agent = "b", input = "go" },
  { id = "sleeps", agent = "c", input = "go" },
  { id = "pay", tool = "local.unsafe", with = { n = 1 } },
]

[[steps]]
id = "order"
tool = "local.keyed"
with = { n = 2 }

[[steps]]
respond = "{{steps.asks}}; {{steps.sleeps}}; {{steps.pay.receipt}}; {{steps.order.receipt}}"
"#,
        ),
        (
            "b",
            r#"
name = "b"
version = "1.0.0"
description = "Asks first."

[tools]
allow = ["local.*"]

[[steps]]
id = "label"
tool = "local.unsafe"
with = { n = 11 }
approve = true

[[steps]]
respond = "{{steps.label.receipt}}"
"#,
        ),
        (
            "c",
            r#"
name = "c"
version = "1.0.0"
description = "Waits first."

[tools]
allow = ["local.*"]

[[steps]]
wait = "30m"

[[steps]]
id = "ship"
tool = "local.unsafe"
with = { n = 21 }

[[steps]]
respond = "{{steps.ship.receipt}}"
"#,
        ),
    ],
    documents: &[],
    answer: "receipt 11; receipt 21; receipt 1; receipt 2",
    effects: &[1, 2, 11, 21],
    gated: &[11],
    unread: &[],
    mishaps: &[],
    said: Said { approved: 1, done: 0, not_done: 0 },
    runs: 3,
    hours: 1,
    messages: 1,
};

/// The same family, whose run has a second of active time: while its own effect gets no answer it ends, and all below it.
/// One of the agents is called by a tool.
pub(crate) const DEADLINE: Scenario = Scenario {
    agents: &[
        (
            "a",
            r#"
name = "a"
version = "1.0.0"
description = "Waits for two others, and not for long."

[tools]
allow = ["local.*", "delegate", "agents.b"]

[limits]
timeout = "1s"

[[steps]]
parallel = [
  { id = "asks", tool = "delegate" },
  { id = "sleeps", agent = "c", input = "go" },
  { id = "pay", tool = "local.unsafe", with = { n = 1 } },
]

[[steps]]
respond = "{{steps.asks}}; {{steps.sleeps}}; {{steps.pay.receipt}}"
"#,
        ),
        FAMILY.agents[1],
        FAMILY.agents[2],
    ],
    documents: &[(
        "delegate",
        r#"{
  "name": "delegate",
  "description": "Has another agent work.",
  "actions": [{ "type": "tool", "id": "b", "name": "agents.b", "arguments": { "text": "go" } }],
  "output": "result.b"
}"#,
    )],
    answer: "receipt 11; receipt 21; receipt 1",
    effects: &[1, 11, 21],
    gated: &[11],
    unread: &[],
    mishaps: &[],
    said: Said { approved: 1, done: 0, not_done: 0 },
    runs: 3,
    hours: 1,
    messages: 1,
};

/// Two runs of one session, the second of which reads what the first has kept there.
pub(crate) const CHAT: Scenario = Scenario {
    agents: &[(
        "a",
        r#"
name = "a"
version = "1.0.0"
description = "Buys one thing a message."

[tools]
allow = ["buy", "local.*"]

[[steps]]
tool = "buy"
with = { n = "{{request.text === 'go' ? 1 : 2}}" }

[[steps]]
respond = "{{workflow.bought}}"
"#,
    )],
    documents: SHARED.documents,
    answer: "[1,2]",
    effects: &[1, 2],
    gated: &[],
    unread: &[],
    mishaps: &[],
    said: Said { approved: 0, done: 0, not_done: 0 },
    runs: 2,
    hours: 0,
    messages: 2,
};

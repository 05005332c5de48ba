//! The agent that takes calls, and the tools by which a live model does something with its call.

use std::fmt::Write as _;

use dalsegno_core::{EffectClass, OnIndeterminate};
use serde_json::{Value, json};

use super::{Plan, ToolTerms};
use crate::random::Random;

/// The agent that takes calls.
pub(crate) const PHONE: &str = "phone";

/// The tool by which a call's live model sends keys to the caller's line.
pub(crate) const SEND_DIGITS: &str = "call.send_digits";

/// The tool by which it ends the call.
pub(crate) const HANG_UP: &str = "call.hang_up";

/// The tool by which it transfers the call: a document.
pub(crate) const TRANSFER: &str = "exchange.transfer";

/// How often a transfer is asked for again of which nothing was received.
const TRANSFER_RETRIES: u32 = 2;

/// The document that transfers calls.
pub(super) fn exchange() -> Value {
    json!({
        "name": "exchange",
        "description": "Transfers of calls.",
        "actions": [{
            "name": "transfer",
            "description": "Transfers the call.",
            "parameters": [{ "name": "n", "type": "integer", "required": true }],
            "actions": [{ "type": "call.transfer", "id": "moved", "target": "+33140000001", "on_error": "continue" }],
            "output": { "n": "params.n", "receipt": "result.moved?.error?.code ?? 'asked for'" },
        }],
    })
}

impl Plan {
    pub(super) fn add_phone(&mut self, random: &mut Random) {
        self.add_model(random, PHONE);
        let mut voice = String::from("[voice]\n");
        if random.chance(500) {
            voice.push_str("greeting = \"Greet.\"\n");
        }
        if random.chance(300) {
            voice.push_str("filler = false\n");
        }
        let _ = writeln!(voice, "defer_after = \"{}\"", random.pick(&["1s", "10s"]));
        let _ = writeln!(voice, "after_hangup = \"{}\"", random.pick(&["deny", "keep"]));
        let _ = writeln!(voice, "max_duration = \"{}\"", random.pick(&["20s", "30m", "30m", "30m"]));
        if random.chance(300) {
            voice.push_str("[voice.tools.\"t.read\"]\non_interrupt = \"keep\"\n");
        }
        // Not a draw of the agent's own, so that each seed still means the same world.
        let mut keys = Random::new(self.seed, "keys");
        let retries = u32::try_from(keys.below(3)).unwrap_or_default();
        let (policy, word) = keys.pick(&[
            (OnIndeterminate::Report, None),
            (OnIndeterminate::Report, None),
            (OnIndeterminate::Ask, Some("ask")),
            (OnIndeterminate::Retry, Some("retry")),
        ]);
        let _ = write!(voice, "[tools.settings.\"{SEND_DIGITS}\"]\nretries = {retries}\ntimeout = \"5s\"\n");
        if let Some(word) = word {
            let _ = writeln!(voice, "on_indeterminate = \"{word}\"");
        }
        let terms = ToolTerms {
            class: EffectClass::Unsafe,
            retries,
            policy,
            approve: false,
            rule: false,
            deny: false,
            kept_ms: 0,
            trusts: None,
        };
        self.terms.insert((PHONE.to_owned(), SEND_DIGITS.to_owned()), terms);
        let terms = ToolTerms { retries: TRANSFER_RETRIES, policy: OnIndeterminate::Report, ..terms };
        self.terms.insert((PHONE.to_owned(), TRANSFER.to_owned()), terms);
        if let Some(text) = self.agents.get_mut(PHONE) {
            let allow = format!("allow = [\"{SEND_DIGITS}\", \"{HANG_UP}\", \"{TRANSFER}\", ");
            *text = text.replacen("allow = [", &allow, 1);
            text.push_str(&voice);
        }
    }
}

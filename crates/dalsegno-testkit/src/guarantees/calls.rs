//! What may reach the outside, and what may take place there.

use std::time::Duration;

use dalsegno_core::{EffectClass, OperationId, Outcome, RunId};
use serde_json::{Value, json};

use super::{Guarantees, KEYS_KEPT, Line, may_retry, number_of, reply};
use crate::pictures;
use crate::process::Process;
use crate::workspace::{FOUND, KEPT, TRANSFER, is_denied, is_ruled};

/// A call under way, seen from the process that makes it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Call {
    pub(crate) process: u32,
    pub(crate) run: RunId,
    pub(crate) operation: OperationId,
    pub(crate) attempt: u32,
    /// The tool; a model has none.
    pub(crate) tool: Option<String>,
    pub(crate) arguments: Value,
    pub(crate) tenant: String,
}

impl Guarantees {
    /// The run that an operation belongs to.
    pub(crate) fn run_of(&self, operation: OperationId) -> Option<RunId> {
        self.runs.iter().find(|(_, line)| line.ops.contains_key(&operation)).map(|(run, _)| *run)
    }

    /// A call leaves its process.
    pub(crate) fn call(&mut self, process: &Process, mut call: Call) -> Call {
        self.totals.calls += 1;
        let (p, attempt) = (process.number, call.attempt);
        let is_unread = self.runs.get(&call.run).is_some_and(|line| {
            [line.cancel_wanted, line.orphaned].iter().any(|came| self.unread(process, line, *came, self.now))
        });
        if let (Some(line), None) = (self.runs.get(&call.run), &call.tool) {
            let tenant = line.tenant.clone();
            self.pays(p, &tenant);
        }
        let terms = self.runs.get(&call.run).and_then(|line| self.terms(&line.agent, call.tool.as_deref()));
        let trusts = terms.and_then(|terms| terms.trusts);
        let is_strange = trusts.zip(call.arguments["note"].as_str());
        let is_strange = is_strange.map(|(trusts, note)| !self.is_from(call.run, note, trusts));
        let asks_all = self.asks_all(call.run);
        let class =
            self.runs.get(&call.run).and_then(|line| line.ops.get(&call.operation)).map(|op| op.class);
        let is_premature = class
            .is_some_and(|class| self.is_premature(call.run, call.tool.as_deref(), class, &call.arguments));
        let Some(line) = self.runs.get_mut(&call.run) else {
            self.broken(format!("p{p} makes a call of the unknown run {}", call.run));
            return call;
        };
        call.tenant.clone_from(&line.tenant);
        // A person agrees to the call of a declarative tool, and so to what its document asks for.
        let above = line.ops.get(&call.operation).and_then(|op| op.above);
        let agreed = above.and_then(|above| line.ops.get(&above)).is_some_and(|above| above.approved);
        let mut wrong = Vec::new();
        let mine = line.owner.as_ref().is_some_and(|owner| owner.number == p);
        let what = match line.ops.get_mut(&call.operation) {
            None => {
                wrong.push("it was never requested");
                call.operation.to_string()
            }
            Some(op) => {
                if !op.intents.contains_key(&attempt) {
                    wrong.push("nothing in the journal says that it starts");
                }
                if is_premature {
                    wrong.push("no response that was completed asks for it");
                }
                if !op.called.insert(attempt) {
                    wrong.push("this attempt was made before");
                }
                // One who lost the run may still do what was written down before.
                if mine && op.settled {
                    wrong.push("it has its outcome");
                }
                if mine && op.gate.is_some() {
                    wrong.push("it waits for an answer");
                }
                if op.denied {
                    wrong.push("somebody said no");
                }
                let n = call.arguments["n"].as_i64();
                let ruled = terms.is_some_and(|terms| terms.rule) && n.is_some_and(is_ruled);
                let approve = ruled || terms.is_some_and(|terms| terms.approve);
                let approve = approve || call.arguments["gated"] == true;
                if approve && !op.approved && !agreed {
                    wrong.push("nobody agreed to it");
                } else if ruled {
                    self.coverage.count("rule", "asks and a person agrees");
                }
                match is_strange {
                    Some(true) if !op.approved => {
                        wrong.push("its note is from no trusted source, and nobody agreed");
                    }
                    Some(true) => {
                        self.coverage.count("origin", "strange");
                        if line.forked_from.is_some() {
                            self.coverage.count("origin", "strange in a fork");
                        }
                        if line.epoch > 1 {
                            self.coverage.count("origin", "strange after a takeover");
                        }
                    }
                    Some(false) if op.approved && !approve && !asks_all => {
                        wrong.push("somebody was asked about it, and its note is from a trusted source");
                    }
                    Some(false) => self.coverage.count("origin", "trusted"),
                    None => {}
                }
                if terms.is_some_and(|terms| terms.deny) && n.is_some_and(is_denied) {
                    wrong.push("a rule denies it");
                }
                op.arguments = Some(call.arguments.clone());
                op.alias.clone()
            }
        };
        if mine && (line.signalled || line.ended) {
            wrong.push("the run was to end");
        }
        let late = line.orphaned.is_some_and(|since| line.owned_since > since);
        if mine && late {
            wrong.push("the run that it works for had ended before this process took it");
        }
        if mine && is_unread {
            wrong.push("somebody wanted the run to end long ago");
        }
        let target = call.tool.as_deref().unwrap_or("the model");
        self.notes.push(format!("p{p} {what} calls {target}, attempt {attempt}"));
        for what_is_wrong in wrong {
            self.violations.push(format!("{what}, attempt {attempt}, is made: {what_is_wrong}"));
        }
        self.under_way.push(call.clone());
        self.check_bounds(&call);
        call
    }

    /// A model wants a call, which a rule may deny.
    pub(crate) fn wanted(&mut self, run: RunId, tool: &str, arguments: &str) {
        let agent = self.runs.get(&run).map(|line| line.agent.clone()).unwrap_or_default();
        let denies = self.terms(&agent, Some(tool)).is_some_and(|terms| terms.deny);
        let arguments: Value = serde_json::from_str(arguments).unwrap_or_default();
        if denies && arguments["n"].as_i64().is_some_and(is_denied) {
            self.coverage.count("rule", "denies a model");
        }
    }

    /// A request of a declarative tool leaves its process: the call that it is, and the class that it is of.
    pub(crate) fn request(
        &mut self,
        process: &Process,
        key: Option<&str>,
        path: &str,
        body: &Value,
    ) -> (Call, EffectClass) {
        let found = key.and_then(|key| self.requests.get(key)).copied();
        let op = found.and_then(|(run, operation)| self.runs.get(&run)?.ops.get(&operation));
        let (Some((run, operation)), Some(op)) = (found, op) else {
            if let Some(key) = key {
                self.broken(format!("{path} is called under a key that no operation has: {key}"));
            }
            // What only reads sends no key.
            let n = path.rsplit('/').next().and_then(|n| n.parse::<i64>().ok());
            self.reads += 1;
            let call = Call {
                process: process.number,
                run: RunId::from_bytes([0; 16]),
                operation: OperationId::from_bytes(u128::from(self.reads).to_be_bytes()),
                attempt: self.reads,
                tool: Some("shop.look".to_owned()),
                arguments: serde_json::json!({ "n": n }),
                tenant: String::new(),
            };
            self.totals.calls += 1;
            self.under_way.push(call.clone());
            return (call, EffectClass::Read);
        };
        // A request has no number. Each process makes the attempt that it announced last, also one that lost the run since.
        let own = op.intents.iter().rfind(|(_, by)| **by == process.number);
        let attempt = own.or_else(|| op.intents.last_key_value()).map_or(0, |(attempt, _)| *attempt);
        let class = op.class;
        let call = Call {
            process: process.number,
            run,
            operation,
            attempt,
            tool: op.tool.clone(),
            arguments: body.clone(),
            tenant: String::new(),
        };
        (self.call(process, call), class)
    }

    /// A receiver is asked about a call, by the key that the call had.
    pub(crate) fn lookup(&mut self, process: &Process, key: &str) -> Call {
        self.reads += 1;
        let tenant = self.call_of(key).and_then(|(run, _)| Some(self.runs.get(&run)?.tenant.clone()));
        if tenant.is_none() {
            self.broken(format!("a receiver is asked about a key that no operation has: {key}"));
        }
        let call = Call {
            process: process.number,
            run: RunId::from_bytes([0; 16]),
            operation: OperationId::from_bytes(u128::from(self.reads).to_be_bytes()),
            attempt: self.reads,
            tool: Some(FOUND.to_owned()),
            arguments: Value::Null,
            tenant: tenant.unwrap_or_default(),
        };
        self.under_way.push(call.clone());
        self.check_bounds(&call);
        call
    }

    /// What a receiver knows of a call: nothing while a message is on its way.
    pub(crate) fn found(&self, key: &str) -> Value {
        let known = self.call_of(key).and_then(|(run, id)| Some((run, id, self.took_place(run, id)?)));
        match known {
            None => json!({ "found": "unknown" }),
            Some((_, _, false)) => json!({ "found": "not_happened" }),
            Some((run, id, true)) => json!({ "found": "happened", "reply": self.reply_of(run, id) }),
        }
    }

    /// The operation whose calls have a key: the one that they send, or the operation's id.
    fn call_of(&self, key: &str) -> Option<(RunId, OperationId)> {
        if let Some(found) = self.requests.get(key) {
            return Some(*found);
        }
        let id = key.parse().ok()?;
        Some((self.run_of(id)?, id))
    }

    fn check_bounds(&mut self, call: &Call) {
        // A call has one transfer at most, which waits for nothing else.
        let counts = |call: &Call| call.tool.as_deref() != Some(TRANSFER);
        if !counts(call) {
            return;
        }
        let count = |same: &dyn Fn(&Call) -> bool| {
            let here = |other: &&Call| other.process == call.process && counts(other);
            self.under_way.iter().filter(here).filter(|other| same(other)).count()
        };
        let group =
            |other: &Call| other.run == call.run && other.arguments["group"] == call.arguments["group"];
        let most = call.arguments["most"].as_u64().and_then(|most| usize::try_from(most).ok());
        let found = [
            (count(&|_| true), Some(self.bounds.process), "the process"),
            (count(&|other| other.tenant == call.tenant), Some(self.bounds.tenant), "the tenant"),
            (count(&|other| other.tool.is_none()), Some(self.bounds.model), "the model"),
            (count(&group), most, "the step"),
        ];
        for (now, most, whose) in found {
            if whose == "the model" && call.tool.is_some() {
                continue;
            }
            if let Some(most) = most.filter(|most| now > *most) {
                self.broken(format!("{now} calls at once, and {whose} may have {most}"));
            }
        }
    }

    /// A call is over for the process that made it.
    pub(crate) fn hung_up(&mut self, call: &Call) {
        if let Some(place) = self.under_way.iter().position(|other| other == call) {
            self.under_way.remove(place);
        }
    }

    /// A message is on its way to a receiver.
    pub(crate) fn sent(&mut self, run: RunId, operation: OperationId) {
        if let Some(op) = self.op(run, operation) {
            op.on_its_way += 1;
        }
    }

    /// A message has reached its receiver, which acts as the class of its tool says.
    pub(crate) fn received(&mut self, call: &Call, class: EffectClass) {
        let now = self.now;
        let again = match class {
            EffectClass::Keyed => {
                self.keys.get(&call.operation).is_some_and(|since| now.saturating_sub(*since) <= KEYS_KEPT)
            }
            _ => false,
        };
        self.keys.entry(call.operation).or_insert(now);
        let agent = self.runs.get(&call.run).map(|line| line.agent.clone()).unwrap_or_default();
        let terms = self.terms(&agent, call.tool.as_deref());
        let Some(op) = self.op(call.run, call.operation) else { return };
        op.on_its_way = op.on_its_way.saturating_sub(1);
        let alias = op.alias.clone();
        if again {
            return self.notes.push(format!("  {alias} is known, nothing takes place"));
        }
        op.effects += 1;
        let (effects, attempts) = (op.effects, op.attempts);
        let (plainly, denied) = (op.failed_plainly, op.denied);
        self.totals.effects += 1;
        self.notes.push(format!("  {alias} takes place"));
        if !matches!(class, EffectClass::Keyed | EffectClass::Unsafe) {
            return;
        }
        let same =
            self.effects.entry((call.run, number_of(&call.arguments).unwrap_or_default())).or_default();
        *same += 1;
        let most = match terms {
            Some(terms) if may_retry(terms.policy) => attempts.min(terms.retries + 1),
            _ => 1,
        };
        if effects > most || *same > most {
            let times = effects.max(*same);
            self.broken(format!("{alias} took place {times} times"));
        }
        if plainly || denied {
            self.broken(format!("{alias} takes place, and the journal says that it does not"));
        }
    }

    /// A tool whose results are kept has answered.
    pub(crate) fn answered(&mut self, call: &Call) {
        if call.tool.as_deref() == Some(KEPT) {
            let kept = (call.process, call.tenant.clone(), call.arguments["q"].clone(), self.now);
            self.kept.push(kept);
        }
    }

    /// An outcome comes from a call of the same operation, or from one that may stand for it.
    pub(super) fn came_from(&self, line: &Line, id: OperationId, outcome: &Outcome) -> Result<(), String> {
        let Some(op) = line.ops.get(&id) else { return Ok(()) };
        match outcome {
            Outcome::ModelReplied(_) if op.called.is_empty() => Err("no model was asked".into()),
            Outcome::ApiAnswered(answer) => {
                let effect = matches!(op.class, EffectClass::Keyed | EffectClass::Unsafe);
                if effect && op.called.is_empty() {
                    return Err("nobody was asked".into());
                }
                if effect && (200..300).contains(&answer.status) && op.effects == 0 {
                    return Err("it did not take place".into());
                }
                Ok(())
            }
            Outcome::TransferRequested if op.effects == 0 => Err("it did not take place".into()),
            Outcome::ToolReturned(_) if op.is_declared => Ok(()),
            Outcome::ToolReturned(returned) => {
                let Some(tool) = op.tool.as_deref() else { return Ok(()) };
                // What stands for a call has the arguments of that in its answer.
                let arguments = op.arguments.as_ref().or(returned.structured.as_ref());
                pictures::fits(tool, arguments.unwrap_or(&Value::Null), returned)?;
                if op.called.is_empty() {
                    return self.stands(line, tool, returned.structured.as_ref());
                }
                let expected = op.arguments.as_ref().map(|arguments| reply(line.run, tool, arguments));
                let answer = returned.structured.clone().map(|answer| pictures::said(answer).0);
                if !returned.is_error && answer != expected {
                    return Err("it has the answer of another call".into());
                }
                let effect = matches!(op.class, EffectClass::Keyed | EffectClass::Unsafe);
                if effect && !returned.is_error && op.effects == 0 {
                    return Err("it did not take place".into());
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// A result without a call: the same process had it for the same tenant, not too long ago.
    fn stands(&self, line: &Line, tool: &str, result: Option<&Value>) -> Result<(), String> {
        let terms = self.terms(&line.agent, Some(tool));
        let age = Duration::from_millis(terms.map_or(0, |terms| terms.kept_ms));
        let process = line.owner.as_ref().map_or(0, |owner| owner.number);
        let question = result.map(|result| result["q"].clone()).unwrap_or_default();
        // Between the answer and the commit there is the store.
        let age = age + Duration::from_secs(2);
        let decided = line.writing.map_or(self.now, |(_, _, since)| since);
        let known = self.kept.iter().any(|(by, tenant, asked, at)| {
            *by == process
                && *tenant == line.tenant
                && *asked == question
                && decided.saturating_sub(*at) <= age
        });
        if tool == KEPT && known { Ok(()) } else { Err("nobody gave this answer".into()) }
    }

    fn op(&mut self, run: RunId, operation: OperationId) -> Option<&mut super::Op> {
        self.runs.get_mut(&run)?.ops.get_mut(&operation)
    }
}

//! The live model's calls of tools: refused, joined, held or started.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::Room;
use crate::canonical::{Canonical, Digest};
use crate::config::{Tool, VoiceTool};
use crate::event::{Failure, FailureCode, Outcome};
use crate::failure::INTERRUPTED;
use crate::id::{OperationId, ToolName};
use crate::join::{Pending, Settled};
use crate::live::{Answered, LiveCall, ResponseEnd, Stage, Work};
use crate::operation::{AgentCall, EffectClass, Gate, GateState, Operation, Request, Terms};
use crate::phase::admit::{Admitted, Allowed, Refusal, admit};
use crate::phase::budget;
use crate::phase::calls::AGENT_TERMS;
use crate::reply::CallRequest;
use crate::state::Decision;

/// Most calls that may be open at a time.
const OPEN_MAX: usize = 16;

/// Most things that may be under way, or done and not heard.
const WORKS_MAX: usize = 32;

/// How many ids of calls are remembered.
const KNOWN_MAX: usize = 256;

/// Most calls in doubt for good that a call may have.
const DOUBTFUL_MAX: usize = 64;

impl Room<'_> {
    /// The model asks for a tool.
    pub(super) fn asked(&mut self, response: String, call: CallRequest) {
        let mut known = Canonical::new("call id");
        let known = known.text(&call.call_id).finish();
        if self.live.closing.is_some() || self.live.known.contains(&known) {
            return;
        }
        let has_ended = self.live.talk.ended.as_ref().is_some_and(|(ended, _)| *ended == response);
        if self.live.talk.active.is_none() && !has_ended {
            // Its beginning was missed.
            self.response_began(response.clone(), None);
        }
        if self.live.known.len() >= KNOWN_MAX {
            self.live.known.remove(0);
        }
        self.live.known.push(known);
        let config = self.config;
        let allowed = match admit(config, &call, Some(&self.state)) {
            Ok(Allowed { admitted: Admitted::Handoff { .. }, .. }) => {
                let message = "a call cannot be handed over to another agent";
                return self.refuse(&call, Refusal::new("not_permitted", message));
            }
            Ok(Allowed { admitted: Admitted::HangUp, .. }) => return self.hang_up(&response, call),
            Ok(allowed) => allowed,
            Err(refusal) => return self.refuse(&call, refusal),
        };
        let digest = digest(allowed.name, &allowed.admitted);
        if self.live.doubtful.contains(&digest) {
            return self.output(&call.call_id, &call.name, &call.arguments, super::results::doubt());
        }
        let same = |work: &&Work| work.join && work.digest == digest;
        if let Some(work) = self.live.works.iter().find(same) {
            let (number, stage) = (work.number, work.stage.clone());
            self.live.joined = self.live.joined.saturating_add(1);
            return self.join(response, call, number, &stage);
        }
        if self.live.calls.len() >= OPEN_MAX
            || self.live.works.len() >= WORKS_MAX
            || self.live.doubtful.len() >= DOUBTFUL_MAX
        {
            let message = "too many calls are open: wait for their results";
            return self.refuse(&call, Refusal::new("overloaded", message));
        }
        let left = budget::left(config, &self.state);
        let is_held = |work: &&Work| matches!(work.stage, Stage::Held { .. });
        let held = self.live.works.iter().filter(is_held).count() as u64;
        if left.max_tool_calls <= held {
            let message = "`limits.max_tool_calls` is reached";
            return self.refuse(&call, Refusal::new("limit_exceeded", message));
        }
        let (name, tool, rule) = (allowed.name.clone(), allowed.tool, allowed.rule);
        let (request, terms) = match allowed.admitted {
            Admitted::Request(request) => {
                let terms = tool.terms_of(&request);
                (request, terms)
            }
            Admitted::Agent { agent, text, data } => {
                let Some(callee) = config.agents.get(&agent) else { return };
                let budget = callee.budget;
                let mut request = Request::AgentCall(AgentCall { agent, text, data, budget }.into());
                budget::share(core::iter::once(&mut request), left);
                (request, AGENT_TERMS)
            }
            Admitted::Handoff { .. } | Admitted::HangUp => return,
        };
        let gate = if tool.approve || rule.is_some() {
            self.state.decide(Decision::AskApproval { name: name.to_string(), rule });
            GateState::Waiting(Gate::Approval)
        } else {
            GateState::Open
        };
        self.state.decide(Decision::CallTools { names: Vec::from([name.to_string()]) });
        let number = self.live.asked;
        self.live.asked = number.saturating_add(1);
        let VoiceTool { join, keep_when_interrupted } =
            self.voice.tools.get(&name).copied().unwrap_or_default();
        let reads = terms.class == EffectClass::Read || tool.only_reads(&config.toolkits);
        let at_once = self.starts_at_once(tool, &terms);
        let stage = Stage::Held { request, terms, gate };
        self.live.works.push(Work { number, digest, join, reads, keep: keep_when_interrupted, stage });
        let ended = self.live.talk.ended.clone().filter(|(ended, _)| *ended == response);
        self.open(response, call, number);
        match ended {
            Some((_, ResponseEnd::Completed)) => self.start(number),
            Some((response, ResponseEnd::Interrupted | ResponseEnd::Failed)) => self.broken_off(&response),
            None if at_once => self.start(number),
            None => {}
        }
    }

    /// What changes nothing, or changes the same however often it is done, starts before its response has ended.
    fn starts_at_once(&self, tool: &Tool, terms: &Terms) -> bool {
        matches!(terms.class, EffectClass::Read | EffectClass::Idempotent)
            || tool.only_reads(&self.config.toolkits)
    }

    fn open(&mut self, response: String, call: CallRequest, work: u32) {
        let CallRequest { call_id, name, arguments, validation: _ } = call;
        let (since, answered) = (self.at, Answered::No);
        self.live.calls.push(LiveCall { call_id, name, arguments, response, work, since, answered });
    }

    /// A call is answered by what was begun for another one.
    fn join(&mut self, response: String, call: CallRequest, number: u32, stage: &Stage) {
        match stage {
            Stage::Done { content, is_error, .. } => {
                let said = Settled { is_error: *is_error, ..Settled::text(content.clone()) };
                self.output(&call.call_id, &call.name, &call.arguments, said);
                // It is unheard anew.
                let began = self.live.talk.responses;
                if let Some(Work { stage: Stage::Done { after, .. }, .. }) =
                    self.live.works.iter_mut().find(|work| work.number == number)
                {
                    *after = began;
                }
            }
            Stage::Held { .. } | Stage::Started(_) if self.live.calls.len() >= OPEN_MAX => {
                let message = "too many calls are open: wait for their results";
                self.refuse(&call, Refusal::new("overloaded", message));
            }
            Stage::Held { .. } => self.open(response, call, number),
            Stage::Started(operation) => {
                self.open(response, call, number);
                self.look_at_gate(*operation);
            }
        }
    }

    pub(super) fn refuse(&mut self, call: &CallRequest, refusal: Refusal) {
        self.state.decide(Decision::Refuse { name: call.name.clone(), reason: refusal.message.clone() });
        self.output(&call.call_id, &call.name, &call.arguments, refusal.into_settled());
    }

    /// Makes a work that is held an operation.
    fn start(&mut self, number: u32) {
        let Some(work) = self.live.works.iter_mut().find(|work| work.number == number) else { return };
        let Stage::Held { request, terms, gate } = &work.stage else { return };
        let (request, terms, gate) = (request.clone(), *terms, gate.clone());
        let ordinal = Vec::from([number]);
        let operation = Operation::mint(self.state.namespace, self.state.step, ordinal, request, terms);
        let gate = self.state.gate(gate, &terms);
        self.state.usage.tool_calls = self.state.usage.tool_calls.saturating_add(1);
        let id = operation.id;
        work.stage = Stage::Started(id);
        self.join.operations.push(Pending {
            operation: Operation { gate, ..operation },
            outcome: None,
            parent: None,
        });
        for call in self.live.calls.iter_mut().filter(|call| call.work == number) {
            call.since = self.at;
        }
        self.look_at_gate(id);
    }

    /// A response has completed: what it asked for starts.
    pub(super) fn completed(&mut self, response: &str) {
        let asked: Vec<u32> = self.calls_of(response);
        asked.into_iter().for_each(|number| self.start(number));
    }

    fn calls_of(&self, response: &str) -> Vec<u32> {
        let calls = self.live.calls.iter().filter(|call| call.response == response);
        calls.map(|call| call.work).collect()
    }

    /// A response was broken off: what it asked for and has not started never starts, and what only reads is not waited for.
    pub(super) fn broken_off(&mut self, response: &str) {
        if self.live.hangs_up.as_ref().is_some_and(|hangs_up| hangs_up.response == response) {
            self.stay(INTERRUPTED);
        }
        for number in self.calls_of(response) {
            let Some(work) = self.live.works.iter().find(|work| work.number == number) else { continue };
            let stops = match &work.stage {
                Stage::Held { .. } => true,
                Stage::Started(operation) => work.reads && !work.keep && self.is_under_way(*operation),
                Stage::Done { .. } => false,
            };
            if !stops {
                continue;
            }
            let operation = match work.stage {
                Stage::Started(operation) => Some(operation),
                Stage::Held { .. } | Stage::Done { .. } => None,
            };
            let of_it = |call: &LiveCall| call.work == number && call.response == response;
            while let Some(place) = self.live.calls.iter().position(of_it) {
                let call = self.live.calls.remove(place);
                if call.answered == Answered::No {
                    let said = Refusal::new("cancelled", INTERRUPTED).into_settled();
                    self.output(&call.call_id, &call.name, &call.arguments, said);
                }
            }
            if self.live.calls.iter().any(|call| call.work == number) {
                // Another response asked for the same.
                continue;
            }
            self.live.works.retain(|work| work.number != number);
            if let Some(operation) = operation.filter(|operation| self.is_open(*operation)) {
                self.withdraw(operation, FailureCode::Cancelled, INTERRUPTED);
            }
        }
    }

    /// Ends an operation that is not waited for any more.
    pub(super) fn withdraw(&mut self, operation: OperationId, code: FailureCode, message: &str) {
        self.conclude(operation, Outcome::Failed(Failure::withdrawal(code, message)));
    }

    /// The provider has taken a call out of the conversation.
    pub(super) fn withdrawn(&mut self, call_id: &str) {
        let Some(place) = self.live.calls.iter().position(|call| call.call_id == call_id) else { return };
        let call = self.live.calls.remove(place);
        if !self.live.calls.iter().any(|other| other.work == call.work) {
            let never = |work: &Work| work.number == call.work && matches!(work.stage, Stage::Held { .. });
            self.live.works.retain(|work| !never(work));
        }
    }

    /// Notes that it will never be known whether a call took place.
    pub(super) fn note_doubt(&mut self, digest: Digest) {
        if !self.live.doubtful.contains(&digest) && self.live.doubtful.len() < DOUBTFUL_MAX {
            self.live.doubtful.push(digest);
        }
    }
}

/// The digest of a call: the same for the same tool and the same arguments in any order of keys.
fn digest(name: &ToolName, admitted: &Admitted) -> Digest {
    let mut canonical = Canonical::new("live call");
    canonical.text(name.as_str());
    match admitted {
        Admitted::Request(request) => canonical.tag(0).bytes(request.digest().as_bytes()),
        Admitted::Agent { agent, text, data } => canonical.tag(1).text(agent.as_str()).text(text).json(data),
        Admitted::Handoff { agent, .. } => canonical.tag(2).text(agent.as_str()),
        Admitted::HangUp => canonical.tag(3),
    };
    canonical.finish()
}

//! A case that plays a cassette, as text.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use dalsegno_core::AgentConfig;
use dalsegno_workspace::{Case, CaseAsk, Draft, Expectations, Located, Message, Replies, TurnKind};
use serde_json::Value;

use crate::cassette::Cassette;
use crate::fold::Folding;
use crate::judge;
use crate::miss::{string, toml};
use crate::prepared::Prepared;
use crate::trajectory::{End, Trajectory};

impl Cassette {
    /// The file of a case that plays this cassette, which lies at `path`, below the workspace's folder. What it says must hold is what
    /// the recorded run did.
    ///
    /// # Errors
    /// When the run had not come to an end, and waits for no person.
    pub fn case(&self, config: &Arc<AgentConfig>, name: &str, path: &str) -> Result<String, String> {
        let request = self.request();
        let turns = match request.surface {
            Some(_) => self.turns().map_err(|why| format!("{why}, which no turn of a case says"))?.to_vec(),
            None => Vec::new(),
        };
        let is_call = !turns.is_empty();
        if request.surface.is_some() && !is_call {
            return Err("it is a call without a word of the caller or of the live model".to_owned());
        }
        let located = |value: &str| Located { value: value.to_owned(), span: 0..0 };
        let draft = Draft {
            name: located(name),
            agent: Located { value: config.name.clone(), span: 0..0 },
            tenant: request.tenant.clone(),
            user: request.user.clone(),
            messages: if is_call { Vec::new() } else { vec![Message::User(request.text.clone())] },
            turns,
            data: request.data.clone(),
            replies: Replies::Written(Vec::new()),
            cassette: Some(Located { value: PathBuf::from(path), span: 0..0 }),
            results: Vec::new(),
            shared: Vec::new(),
            answers: Vec::new(),
            expect: Expectations::default(),
            property: None,
        };
        let tenant_settings = request.tenant_settings.clone();
        let case = Case { draft, config: Arc::clone(config), tenant_settings, agents: BTreeMap::new() };
        let prepared = Prepared::new(config, &Arc::default());
        let mut folding = Folding::new(&case, &prepared, Some(self));
        folding.fold().map_err(|trouble| judge::troubled(trouble).message)?;
        Ok(text(&case.draft, path, &folding.trajectory))
    }
}

fn text(draft: &Draft, path: &str, trajectory: &Trajectory) -> String {
    let Draft { name, agent, tenant, user, data, messages, .. } = draft;
    let mut text = format!(
        "# Made of a recorded run by `dalsegno test --from-run`.\n[[cases]]\nname = {}\nagent = \"{}\"\n",
        string(&name.value),
        agent.value
    );
    let mut line = |key: &str, value: String| {
        let _ = writeln!(text, "{key} = {value}");
    };
    if let Some(Message::User(said)) = messages.last() {
        line("input", string(said));
    }
    if tenant != dalsegno_workspace::Workspace::DEFAULT_TENANT {
        line("tenant", string(tenant));
    }
    for (key, value) in [("user", user), ("data", data)] {
        if !value.is_null() {
            line(key, toml(value));
        }
    }
    line("cassette", string(path));
    let list = |names: &mut dyn Iterator<Item = &str>| toml(&names.map(Value::from).collect());
    if let Some(end) = &trajectory.end {
        line("ends", string(end.kind()));
        if let Some(error) = end.response().and_then(|response| response.error.as_ref()) {
            line("error", string(error.code.as_str()));
        }
        if let End::HandedOff(handoff) = end {
            line("hands_over_to", string(handoff.target.as_str()));
        }
    }
    line("calls", list(&mut trajectory.calls.iter().map(|call| call.tool.as_str())));
    if !draft.turns.is_empty() {
        line("outputs", list(&mut trajectory.talk.outputs().map(|(tool, _)| tool)));
        if let Some(by) = trajectory.talk.ended_by {
            line("ended_by", string(crate::talk::by(by)));
        }
    }
    line("asks", list(&mut trajectory.asks.iter().map(String::as_str)));
    if let Some(answer) = trajectory.answer() {
        line("answer", string(answer));
    }
    draft.turns.iter().for_each(|turn| write_turn(&turn.kind, &mut text));
    text
}

/// A turn of a call.
fn write_turn(turn: &TurnKind, text: &mut String) {
    let _ = writeln!(text, "\n[[cases.turns]]");
    let mut line = |key: &str, value: String| {
        let _ = writeln!(text, "{key} = {value}");
    };
    let time = |millis: u64| format!("\"{}ms\"", millis.max(1));
    match turn {
        TurnKind::Caller { text, after } => {
            line("caller", string(text));
            if let Some(after) = after {
                line("after", time(*after));
            }
        }
        TurnKind::Model { text, calls, lasts, interrupt } => {
            line("model", string(text));
            let calls = calls.iter().map(|call| {
                let CaseAsk { tool, arguments, call_id } = call;
                serde_json::json!({ "tool": tool, "arguments": arguments, "call_id": call_id })
            });
            let calls: Vec<Value> = calls.collect();
            if !calls.is_empty() {
                line("calls", toml(&Value::from(calls)));
            }
            match interrupt {
                Some(interrupt) => line("interrupt", time(*interrupt)),
                None if *lasts > 0 => line("for", time(*lasts)),
                None => {}
            }
        }
        TurnKind::Digits { digits, after } => {
            line("digits", string(digits));
            if *after > 0 {
                line("after", time(*after));
            }
        }
        TurnKind::Drop { lasts, after } | TurnKind::Kill { lasts, after } => {
            line(if matches!(turn, TurnKind::Drop { .. }) { "drop" } else { "kill" }, time(*lasts));
            if *after > 0 {
                line("after", time(*after));
            }
        }
        TurnKind::HangUp { after } => line("hang_up", time(*after)),
    }
}

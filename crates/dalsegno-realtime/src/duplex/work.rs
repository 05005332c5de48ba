//! The work that the live model leaves to others: the responses of another model, or calls of an agent.

use alloc::borrow::ToOwned as _;
use alloc::string::{String, ToString as _};

use dalsegno_core::{CallRequest, LiveNews, LiveTokens, OperationId, ResponseEnd};
use serde_json::json;

use super::taken::Event;
use super::{Backend, DuplexSession, joined, remember};
use crate::dialogue::Item;
use crate::failure::Meaning;
use crate::port::ModelSession as _;
use crate::session::Output;
use crate::taken::Status;

/// How many streams of responses are told apart.
const STREAMS_MAX: usize = 16;

impl DuplexSession {
    /// The live model leaves work to an agent: it is a call of that agent with what was said until now.
    pub(super) fn delegated(&mut self, delegation: &str, output: &mut Output) {
        self.tell_agent(output);
        let Backend::Agent { tool } = &self.backend else { return };
        if self.calls.iter().any(|known| known == delegation) {
            self.counts.stray += 1;
            return;
        }
        let (name, arguments) = (tool.clone(), json!({ "text": self.settings.dialogue.text() }).to_string());
        let call_id = delegation.to_owned();
        remember(&mut self.calls, call_id.clone());
        let of_it = Item::Call { call_id: call_id.clone(), name: name.clone(), arguments: String::new() };
        self.settings.dialogue.push(of_it);
        let response = alloc::format!("left-{delegation}");
        output.news.push(LiveNews::ResponseBegan { response: response.clone(), command: None });
        let call = CallRequest { call_id, name, arguments, validation: None };
        output.news.push(LiveNews::Asked { response: response.clone(), call });
        self.finish(response, ResponseEnd::Completed, output);
    }

    /// The other model does something.
    pub(super) fn response(
        &mut self,
        about: Option<&str>,
        delegation: Option<String>,
        event: Event,
        output: &mut Output,
    ) {
        match event {
            Event::Began { response } => {
                let is_known = self.streams.iter().any(|(_, known)| *known == response);
                if is_known || self.ended.contains(&response) {
                    self.counts.stray += 1;
                    return;
                }
                self.tell_caller(output);
                self.began(about, delegation, response, output);
            }
            Event::Called(call) => {
                let is_known = self.calls.contains(&call.call_id);
                // Of a response whose beginning was missed the name is not known: its call is one of its own.
                let response = match self.stream(delegation.as_deref()) {
                    Some(response) => response,
                    None if is_known => String::new(),
                    None => {
                        let response = alloc::format!("of-{}", call.call_id);
                        self.began(None, delegation, response.clone(), output);
                        response
                    }
                };
                if is_known {
                    self.counts.stray += 1;
                    return;
                }
                remember(&mut self.calls, call.call_id.clone());
                let (call_id, name, arguments) = (call.call_id, call.name, call.arguments);
                let call = CallRequest { call_id, name, arguments, validation: None };
                output.news.push(LiveNews::Asked { response, call });
            }
            Event::Ended { response, status, tokens } => {
                self.response_ended(delegation.as_deref(), response, status, tokens, output);
            }
            Event::Error(error) => {
                self.counts.errors += 1;
                if Meaning::of(&error) == Meaning::Fatal {
                    *output = joined(output, self.refused_for_good(&error));
                } else {
                    // It may be the last that comes of the response.
                    self.break_off_stream(delegation.as_deref(), output);
                }
            }
            Event::Nothing => {}
        }
    }

    pub(super) fn began(
        &mut self,
        about: Option<&str>,
        delegation: Option<String>,
        response: String,
        output: &mut Output,
    ) {
        let named = about.and_then(|about| about.parse::<OperationId>().ok());
        // Servers that do not name what a response was asked by begin it next.
        self.names |= named.is_some();
        let is_its = |asked: &OperationId| named.map_or(!self.names, |named| named == *asked);
        let command = self.asked.filter(is_its);
        self.asked = self.asked.filter(|asked| Some(*asked) != command);
        if let Some(id) = command {
            self.acknowledge(id, output);
        }
        if delegation.is_some() {
            // The end of the one before was missed.
            self.break_off_stream(delegation.as_deref(), output);
        }
        if self.streams.len() >= STREAMS_MAX {
            let (_, lost) = self.streams.remove(0);
            self.finish(lost, ResponseEnd::Failed, output);
        }
        self.retry_at = None;
        self.streams.push((delegation, response.clone()));
        output.news.push(LiveNews::ResponseBegan { response, command });
    }

    /// The response of a delegation ends without having completed.
    pub(super) fn break_off_stream(&mut self, delegation: Option<&str>, output: &mut Output) {
        if let Some(place) = self.streams.iter().position(|(of, _)| of.as_deref() == delegation) {
            let (_, response) = self.streams.remove(place);
            self.finish(response, ResponseEnd::Failed, output);
        }
    }

    /// The latest response of a delegation.
    pub(super) fn stream(&self, delegation: Option<&str>) -> Option<String> {
        let of_it = self.streams.iter().rev().find(|(of, _)| of.as_deref() == delegation);
        of_it
            .or_else(|| self.streams.last().filter(|_| delegation.is_none()))
            .map(|(_, response)| response.clone())
    }

    pub(super) fn response_ended(
        &mut self,
        delegation: Option<&str>,
        response: String,
        status: Status,
        tokens: Option<LiveTokens>,
        output: &mut Output,
    ) {
        if self.ended.contains(&response) {
            self.counts.stray += 1;
            return;
        }
        let place = self.streams.iter().position(|(_, known)| *known == response);
        // It may be one whose beginning was missed, and that has a name of ours.
        let place = place.or_else(|| {
            self.streams
                .iter()
                .position(|(of, known)| of.as_deref() == delegation && known.starts_with("of-"))
        });
        let known = match place {
            Some(place) => self.streams.remove(place).1,
            None => response.clone(),
        };
        if let Some(tokens) = tokens.filter(|tokens| *tokens != LiveTokens::default()) {
            let cost_nano_usd = self.settings.price.map(|price| price.nano_usd(&tokens));
            let tokens = LiveTokens { cost_nano_usd, ..tokens };
            output.news.push(LiveNews::Counted { response: known.clone(), tokens });
        }
        if known != response {
            remember(&mut self.ended, response);
        }
        if place.is_none() {
            self.counts.stray += 1;
            remember(&mut self.ended, known);
            return;
        }
        let end = match status {
            Status::Completed => ResponseEnd::Completed,
            Status::Cancelled => ResponseEnd::Interrupted,
            Status::Failed => ResponseEnd::Failed,
        };
        self.finish(known, end, output);
    }

    pub(super) fn finish(&mut self, response: String, end: ResponseEnd, output: &mut Output) {
        // What was said until now says nothing of what it has come to.
        self.tell_agent(output);
        output.news.push(LiveNews::ResponseEnded { response: response.clone(), end });
        remember(&mut self.ended, response);
    }

    /// Does what had to wait until no response is under way.
    pub(super) fn settle(&mut self, output: &mut Output) {
        if !self.streams.is_empty() || self.retry_at.is_some() || !self.is_open() {
            return;
        }
        for id in core::mem::take(&mut self.told) {
            let response = alloc::format!("told-{id}");
            output.news.push(LiveNews::ResponseBegan { response: response.clone(), command: Some(id) });
            self.finish(response, ResponseEnd::Completed, output);
        }
        if let Some(command) = self.held.take_if(|_| self.asked.is_none()) {
            self.transmit(&command, output);
        }
    }
}

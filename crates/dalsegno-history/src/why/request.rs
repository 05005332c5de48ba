//! A request as values.

use std::collections::BTreeSet;
use std::fmt::Display;

use dalsegno_core::{ModelCompletion, Purpose, Request};
use serde_json::{Map, Value, json};

/// Most parts of one text that are told apart.
const PARTS_MAX: usize = 20;

/// Fewest characters of such a part: a shorter one stands in many texts by chance.
const SHORTEST_PART: usize = 4;

/// The values of a request. Secrets stand in none of them.
pub(super) fn arguments(request: &Request) -> Value {
    match request {
        Request::ToolCall(call) => call.parameters.clone(),
        Request::AgentCall(call) => json!({ "text": call.text, "data": call.data }),
        Request::MemorySearch(search) => json!({ "query": search.query }),
        Request::MemoryCreate(create) => json!({
            "entity": create.entity,
            "entity_type": create.entity_type,
            "content": create.content,
            "relations": create.relations,
        }),
        Request::MemoryTraverse(walk) => json!({ "from": walk.from, "relation": walk.relation }),
        Request::Input(input) => json!({ "question": input.question }),
        Request::ModelCompletion(completion) => prompt(completion),
        Request::ApiCall(call) => json!({
            "url": call.url.to_string(),
            "query": texts(&call.query),
            "headers": texts(&call.headers),
            "body": call.body.as_ref().map(|body| &body.value),
        }),
        Request::Email(mail) => json!({
            "from": mail.from,
            "to": mail.to,
            "cc": mail.cc,
            "bcc": mail.bcc,
            "reply_to": mail.reply_to,
            "subject": mail.subject,
            "body": mail.body,
            "html": mail.html,
        }),
        Request::Transfer(transfer) => json!({ "target": transfer.target }),
        Request::Timer(_) => Value::Null,
    }
}

fn texts(pairs: &[(String, impl Display)]) -> Map<String, Value> {
    pairs.iter().map(|(name, text)| (name.clone(), json!(text.to_string()))).collect()
}

fn prompt(completion: &ModelCompletion) -> Value {
    match &completion.purpose {
        Purpose::Step(prompt) => json!({ "instructions": prompt.instructions, "prompt": prompt.text }),
        Purpose::Reply | Purpose::Summary { .. } => Value::Null,
    }
}

/// The parts of a text that are seldom there by chance: addresses, links, and what has a digit.
pub(super) fn parts(text: &str) -> impl Iterator<Item = &str> {
    let is_edge = |character: char| !character.is_alphanumeric();
    let mut seen = BTreeSet::new();
    let words =
        text.split(|character: char| character.is_whitespace() || matches!(character, '?' | '&' | '='));
    words
        .map(move |word| word.trim_matches(is_edge))
        .filter(|word| word.chars().nth(SHORTEST_PART - 1).is_some())
        .filter(|word| word.contains(['@', '/']) || word.contains(|one: char| one.is_ascii_digit()))
        .filter(move |word| seen.insert(*word) && *word != text)
        .take(PARTS_MAX)
}

//! Pictures that tools return: which belong to a call, and whether a model sees them, byte for byte.

use std::collections::BTreeMap;

use dalsegno_core::{Attachment, Entry, ToolReturn};
use dalsegno_models::CompletionRequest;
use dalsegno_store::digest_bytes;
use serde_json::Value;

use crate::random::Random;
use crate::workspace::KEPT;

/// Where a tool's answer says how many pictures come with it. A person who answers in its place brings none, and does not say so.
const COUNT: &str = "pictures";

/// The type of each.
pub(crate) const TYPE: &str = "image/png";

/// The pictures of a call: they follow from it alone, so that those of another call show. Equal calls of different runs have
/// equal pictures, so that runs share files.
pub(crate) fn pictures(tool: &str, arguments: &Value) -> Vec<Vec<u8>> {
    let of_call = if tool == KEPT { &arguments["q"] } else { &arguments["n"] };
    let call = format!("picture {tool} {of_call}");
    let mut random = Random::new(0, &call);
    let count = random.pick(&[0, 0, 0, 1, 1, 2]);
    let of = |number: usize| {
        // Some are long enough to be kept in another form.
        let length = random.pick(&[1, 40, 3_000]);
        let filling = random.bytes().into_iter().cycle().take(length);
        b"\x89PNG\r\n\x1a\n"
            .iter()
            .copied()
            .chain(format!("{call} {number}").bytes())
            .chain(filling)
            .collect()
    };
    (0..count).map(of).collect()
}

/// Says in an answer how many pictures a model gets with it.
pub(crate) fn say(answer: &mut Value, count: usize) {
    if count > 0 {
        answer[COUNT] = count.into();
    }
}

/// An answer without that, and the number.
pub(crate) fn said(mut answer: Value) -> (Value, usize) {
    let count = answer.as_object_mut().and_then(|fields| fields.remove(COUNT));
    let count = count.and_then(|count| usize::try_from(count.as_u64()?).ok());
    (answer, count.unwrap_or_default())
}

/// Says whether a result has exactly the pictures that it speaks of.
pub(crate) fn fits(tool: &str, arguments: &Value, returned: &ToolReturn) -> Result<(), String> {
    let count = returned.structured.clone().map_or(0, |answer| said(answer).1);
    compare(tool, arguments, count, &returned.files, &mut |_| Ok(()))
}

/// Says whether a model sees all pictures of all results that it reads, each once.
pub(crate) fn seen(request: &CompletionRequest) -> Result<usize, String> {
    let mut calls: BTreeMap<&str, Value> = BTreeMap::new();
    let mut count = 0;
    for entry in request.transcript.iter() {
        match entry {
            Entry::Assistant(reply) => {
                let arguments = |text: &str| serde_json::from_str(text).unwrap_or_default();
                calls =
                    reply.calls().map(|call| (call.call_id.as_str(), arguments(&call.arguments))).collect();
            }
            Entry::ToolResult { call_id, name, content, files, .. } => {
                // Words may follow the answer.
                let mut values = serde_json::Deserializer::from_str(content).into_iter::<Value>();
                let answer = values.next().and_then(Result::ok).unwrap_or_default();
                let number = said(answer).1;
                count += number;
                let arguments = calls.get(call_id.as_str()).cloned().unwrap_or_default();
                let mut look =
                    |(file, bytes): (&Attachment, &[u8])| match request.attachments.get(&file.digest) {
                        Some(found) if **found == *bytes => Ok(()),
                        Some(_) => Err(format!("{} has other bytes", file.name)),
                        None => Err(format!("{} has no bytes", file.name)),
                    };
                compare(name, &arguments, number, files, &mut look)
                    .map_err(|wrong| format!("the result of {name} ({call_id}): {wrong}"))?;
            }
            Entry::Instructions(_) | Entry::User(_) | Entry::Attachment(_) | Entry::Compaction(_) => {}
        }
    }
    Ok(count)
}

/// Looks at a file and at the bytes that it should have.
type Look<'l> = &'l mut dyn FnMut((&Attachment, &[u8])) -> Result<(), String>;

fn compare(
    tool: &str,
    arguments: &Value,
    count: usize,
    files: &[Attachment],
    look: Look<'_>,
) -> Result<(), String> {
    if files.len() != count {
        return Err(format!("{} pictures, and there are {count}", files.len()));
    }
    let pictures = pictures(tool, arguments);
    for (file, picture) in files.iter().zip(&pictures) {
        let is_it = file.digest == digest_bytes(picture)
            && file.bytes == picture.len() as u64
            && file.media_type == TYPE;
        if !is_it {
            return Err(format!("{} is another picture", file.name));
        }
        look((file, picture))?;
    }
    if pictures.len() < count { Err("a picture that was not taken".into()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use dalsegno_core::{
        CallRequest, ModelReply, ModelSettings, OperationId, ReplyPart, StopReason, ToolChoice,
    };
    use serde_json::json;

    use super::*;

    /// A call with two pictures.
    fn call() -> (&'static str, Value, Vec<Vec<u8>>) {
        let all = (0..).map(|n| json!({ "n": n }));
        let mut calls = all.map(|arguments| ("t.read", arguments.clone(), pictures("t.read", &arguments)));
        calls.find(|(_, _, pictures)| pictures.len() == 2).unwrap()
    }

    fn file(bytes: &[u8]) -> Attachment {
        let (name, media_type) = ("a.png".into(), TYPE.into());
        Attachment { name, media_type, digest: digest_bytes(bytes), bytes: bytes.len() as u64 }
    }

    fn request(files: Vec<Attachment>, kept: &[&[u8]]) -> CompletionRequest {
        let (tool, arguments, _) = call();
        let part = ReplyPart::Call(CallRequest {
            call_id: "c1".into(),
            name: tool.into(),
            arguments: arguments.to_string(),
            validation: None,
        });
        let mut answer = json!({ "n": arguments["n"] });
        say(&mut answer, 2);
        let (call_id, name, content) = ("c1".into(), tool.into(), format!("{answer}\n\n[Warning: again]"));
        let entries = [
            Entry::Assistant(ModelReply::new(vec![part], StopReason::ToolCalls)),
            Entry::ToolResult { call_id, name, content, is_error: false, files },
        ];
        let zero = "0".repeat(64);
        CompletionRequest {
            settings: ModelSettings::named("m"),
            transcript: serde_json::from_value(json!([zero, 0, zero, entries])).unwrap(),
            attachments: Arc::new(kept.iter().map(|one| (digest_bytes(one), Arc::from(*one))).collect()),
            tools: Arc::default(),
            tool_choice: ToolChoice::Auto,
            output_schema: None,
            operation: OperationId::from_bytes([1; 16]),
            attempt: 1,
        }
    }

    #[test]
    fn a_picture_that_is_missing_or_comes_twice_or_from_elsewhere_is_noticed() {
        let (tool, arguments, taken) = call();
        let (one, two) = (file(&taken[0]), file(&taken[1]));
        let kept: &[&[u8]] = &[&taken[0], &taken[1]];
        assert_eq!(seen(&request(vec![one.clone(), two.clone()], kept)), Ok(2));
        let other = file(b"another");
        for files in [
            vec![],
            vec![one.clone()],
            vec![one.clone(), one.clone()],
            vec![two.clone(), one.clone()],
            vec![one.clone(), other],
            vec![one.clone(), two.clone(), two.clone()],
        ] {
            assert!(seen(&request(files, kept)).is_err());
        }
        assert!(seen(&request(vec![one.clone(), two.clone()], &kept[1..])).is_err());
        let mut structured = json!({ "n": arguments["n"] });
        let returned = |structured: &Value, files: &[Attachment]| ToolReturn {
            structured: Some(structured.clone()),
            files: files.to_vec(),
            ..ToolReturn::default()
        };
        assert!(fits(tool, &arguments, &returned(&structured, &[])).is_ok());
        assert!(fits(tool, &arguments, &returned(&structured, std::slice::from_ref(&one))).is_err());
        say(&mut structured, 2);
        assert!(fits(tool, &arguments, &returned(&structured, &[one.clone(), two])).is_ok());
        assert!(fits(tool, &arguments, &returned(&structured, &[one])).is_err());
        assert_eq!(said(structured), (json!({ "n": arguments["n"] }), 2));
    }
}

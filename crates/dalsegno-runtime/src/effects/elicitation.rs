//! Questions that a tool's server asks in the middle of a call: checked, and put so that a person can answer them.

use dalsegno_core::{Gate, MAX_DEPTH, depth};
use dalsegno_protocol::InputRequired;

/// Most questions at once: a person answers them.
const MAX_QUESTIONS: usize = 16;

/// Longest text of all the questions, as JSON, in bytes.
const MAX_QUESTION_BYTES: usize = 64 * 1024;

/// Longest state that a server has carried for it, in bytes.
const MAX_STATE_BYTES: usize = 64 * 1024;

/// The gate of a call whose server asks for input.
///
/// # Errors
/// Words on what is wrong with the questions: they are another party's.
pub(crate) fn gate(input: InputRequired) -> Result<Gate, String> {
    let InputRequired { requests, request_state } = input;
    if requests.is_empty() {
        return Err("it asks for input again and again without a question".to_owned());
    }
    if requests.len() > MAX_QUESTIONS {
        return Err(format!("it asks {} questions at once, and may ask {MAX_QUESTIONS}", requests.len()));
    }
    for (name, request) in &requests {
        let method = request["method"].as_str().unwrap_or_default();
        let params = &request["params"];
        let is_form = params["mode"].as_str().is_none_or(|mode| mode == "form");
        if method != "elicitation/create" || !is_form || !params["requestedSchema"].is_object() {
            return Err(format!(
                "it asks for input `{}` by `{}`, which is not offered to it: forms are",
                name.escape_debug(),
                method.escape_debug()
            ));
        }
        if depth(request) > MAX_DEPTH {
            return Err(format!("a question is nested more than {MAX_DEPTH} deep"));
        }
    }
    let bytes: usize = requests.iter().map(|(name, request)| name.len() + request.to_string().len()).sum();
    if bytes > MAX_QUESTION_BYTES {
        return Err(format!("its questions are {bytes} B of JSON, and may be {MAX_QUESTION_BYTES} B"));
    }
    if let Some(bytes) = request_state.as_ref().map(String::len).filter(|bytes| *bytes > MAX_STATE_BYTES) {
        return Err(format!("its state is {bytes} B, and may be {MAX_STATE_BYTES} B"));
    }
    Ok(Gate::Elicitation { requests, request_state })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn question(method: &str, params: &Value) -> InputRequired {
        let requests = [("account".to_owned(), json!({ "method": method, "params": params }))];
        InputRequired { requests: requests.into(), request_state: None }
    }

    #[test]
    fn only_forms_of_a_bounded_size_are_put_to_a_person() {
        let form = json!({ "message": "which?", "requestedSchema": { "type": "object" } });
        assert!(gate(question("elicitation/create", &form)).is_ok());
        assert!(
            gate(question("sampling/createMessage", &form)).unwrap_err().contains("sampling/createMessage")
        );
        let url = json!({ "mode": "url", "message": "go", "url": "https://x.test", "requestedSchema": {} });
        assert!(gate(question("elicitation/create", &url)).unwrap_err().contains("forms are"));
        let long = json!({ "message": "x".repeat(MAX_QUESTION_BYTES), "requestedSchema": {} });
        assert!(gate(question("elicitation/create", &long)).unwrap_err().contains("65536 B"));
        let mut deep = json!({});
        for _ in 0..MAX_DEPTH {
            deep = json!({ "properties": { "x": deep } });
        }
        let deep = json!({ "message": "x", "requestedSchema": deep });
        assert!(gate(question("elicitation/create", &deep)).unwrap_err().contains("deep"));
        let request_state = Some("x".repeat(MAX_STATE_BYTES + 1));
        let state = InputRequired { request_state, ..question("elicitation/create", &form) };
        assert!(gate(state).unwrap_err().contains("its state"));
        assert!(gate(InputRequired::default()).unwrap_err().contains("without a question"));
    }
}

//! Requests: where they lead, what they carry.

use dalsegno_tools::{EffectClass, EffectRequest, ErrorCode, Method};
use serde_json::{Value, json};

use crate::support::{World, answer, api_call, code, problems, tool_of, toolkit};

/// Renders the URL of a GET with these parameters, or gives the code of the error.
fn url_of(world: &World, url: &str, parameters: &Value) -> Result<String, ErrorCode> {
    let mut document = tool_of(json!([{"type": "api_call", "method": "GET", "url": url}]));
    let names = parameters.as_object().unwrap().keys();
    document["parameters"] = names.map(|name| json!({"name": name, "type": "string"})).collect();
    let toolkit = toolkit(&document);
    let mut call = dalsegno_tools::Call::begin(&toolkit.tools()[0], parameters, &world.context());
    match call.advance(&toolkit.tools()[0], &world.context()) {
        dalsegno_tools::Next::Effect(effect) => Ok(api_call(&effect).url.to_string()),
        dalsegno_tools::Next::Done(finished) => Err(code(&finished)),
    }
}

#[test]
fn values_are_encoded_for_their_place() {
    let config = json!({"base": "https://c.example/v2", "id": "a/b#c?", "host": "h.example"});
    let world = World { config, ..World::default() };
    let url = |url: &str| url_of(&world, url, &json!({"x": "a/b?c#d e&é"})).unwrap();
    assert_eq!(url("https://a.example/{{params.x}}"), "https://a.example/a%2Fb%3Fc%23d%20e%26%C3%A9");
    assert_eq!(url("https://a.example/?q={{params.x}}"), "https://a.example/?q=a%2Fb%3Fc%23d%20e%26%C3%A9");
    assert_eq!(url("{{config.base}}/{{config.id}}"), "https://c.example/v2/a/b%23c%3F");
    assert_eq!(url("https://{{config.host}}:8080/{{params.x.length}}"), "https://h.example:8080/11");
    assert_eq!(url("{{tenant.settings.endpoints.subscribe}}"), "https://api.tenant.example/v1/subscribe");
    assert_eq!(url("{{tenant.settings.endpoints.meal.log}}"), "https://dotted.example/log");
}

#[test]
fn an_endpoint_object_brings_its_method() {
    let mut world = World::default();
    let document = tool_of(json!([{"type": "api_call", "url": "{{tenant.settings.endpoints.subscribe}}"}]));
    let (_, effects) = world.play(&document, &json!({}), [answer(200, json!(null))]);
    assert_eq!(api_call(&effects[0]).method, Method::Put);
    assert_eq!(api_call(&effects[0]).class, EffectClass::Idempotent);
}

#[test]
fn no_value_chooses_the_host() {
    let mut world = World::default();
    world.tenant["settings"]["open"] = json!("https://open.example");
    world.tenant["settings"]["odd"] = json!("file:///etc/passwd");
    world.tenant["settings"]["user"] = json!("https://open.example@evil.example/");
    let url = |url: &str, x: &str| url_of(&world, url, &json!({"x": x}));
    let denied = Err(ErrorCode::EgressDenied);
    assert_eq!(url("{{tenant.settings.open}}{{params.x}}", ".evil.example"), denied);
    assert_eq!(url("{{tenant.settings.open}}{{params.x}}", ""), denied);
    assert_eq!(url("{{tenant.settings.odd}}", ""), denied);
    assert_eq!(url("{{tenant.settings.user}}", ""), denied);
    assert_eq!(url("{{tenant.settings.missing}}", ""), denied);
    assert_eq!(url("{{tenant.settings.endpoints}}", ""), Err(ErrorCode::ActionFailed));
    assert_eq!(url("https://a.example/{{params.x}}/y", ".."), denied);
    assert_eq!(url("https://a.example/{{params.x}}/y", "../.."), Ok("https://a.example/..%2F../y".into()));
    assert_eq!(url("https://a.example/{{params.x}}", &"x".repeat(9_000)), Err(ErrorCode::LimitExceeded));
}

#[test]
fn urls_that_cannot_be_right_are_refused_when_the_document_is_loaded() {
    let urls = [
        "https://{{params.host}}/",
        "{{params.url}}",
        "https://a.example{{params.path}}",
        "https://a.example:{{params.port}}/",
        "https://{{secrets.host}}/",
        "ftp://a.example/",
        "/meals",
        "https://user:pass@a.example/",
        "https:///meals",
        "https://a.example/a b",
        "https://a.example/../up",
        "https://a.example\\@b.example/",
        "https://a.example/{{",
        "",
    ];
    let actions: Vec<_> = urls.iter().map(|url| json!({"type": "api_call", "url": url})).collect();
    let mut document = tool_of(json!(actions));
    document["secrets"] = json!(["host"]);
    document["parameters"] =
        ["host", "url", "path", "port"].map(|name| json!({"name": name, "type": "string"})).into();
    insta::assert_snapshot!(problems(&document));
}

#[test]
fn secrets_are_references_in_every_part_of_a_request() {
    let mut document = tool_of(json!([{
        "type": "api_call", "url": "https://a.example/{{secrets.tenant_key}}",
        "headers": {"X-Key": "{{secrets.tenant_key}}", "X-User": "u {{user.auth_token}} v"},
        "query": {"k": "{{secrets.tenant_key}}"},
        "body": {"nested": [{"key": "{{secrets.tenant_key}}", "other": "{{user.id}}"}]}
    }]));
    document["secrets"] = json!({"tenant_key": {"description": "the key"}});
    let (_, effects) = World::default().play(&document, &json!({}), [answer(200, json!(null))]);
    let call = api_call(&effects[0]);
    let resolve = |path: &dalsegno_tools::Path| Some(format!("<{path}>"));
    assert_eq!(call.url.to_string(), "https://a.example/[secret]");
    assert_eq!(call.url.resolve(resolve).unwrap(), "https://a.example/%3Csecrets.tenant_key%3E");
    assert_eq!(call.headers[0].1.resolve(resolve).unwrap(), "<secrets.tenant_key>");
    assert_eq!(call.headers[1].1.resolve(resolve).unwrap(), "u <user.auth_token> v");
    assert_eq!(call.query[0].1.resolve(resolve).unwrap(), "<secrets.tenant_key>");
    let body = call.body.as_ref().unwrap();
    assert_eq!(body.value, json!({"nested": [{"key": "[secret]", "other": "u1"}]}));
    assert_eq!(
        body.resolve(resolve).unwrap(),
        json!({"nested": [{"key": "<secrets.tenant_key>", "other": "u1"}]})
    );
    assert!(body.resolve(|_| None).is_err());
}

#[test]
fn text_that_looks_like_a_reference_stays_text() {
    let mut document = tool_of(json!([{
        "type": "api_call", "url": "https://a.example/", "body": {"text": "{{params.text}}"}
    }]));
    document["parameters"] = json!([{"name": "text", "type": "string"}]);
    let arguments = json!({"text": "{{secrets.key}} [secret] {{user.auth_token}}"});
    let (_, effects) = World::default().play(&document, &arguments, [answer(200, json!(null))]);
    let body = api_call(&effects[0]).body.as_ref().unwrap();
    assert!(body.secrets.is_empty());
    assert_eq!(body.value, arguments);
}

#[test]
fn headers_refuse_what_would_split_them() {
    let mut document = tool_of(json!([{
        "type": "api_call", "url": "https://a.example/",
        "headers": {"X-Name": "{{params.name}}", "X-None": "{{user.nothing}}", "X-Number": 3}
    }]));
    document["parameters"] = json!([{"name": "name", "type": "string"}]);
    let mut world = World::default();
    for split in ["a\r\nX-Evil: 1", "a\nb", "a\0b", "a\u{85}b"] {
        let (finished, effects) = world.play(&document, &json!({"name": split}), []);
        assert_eq!(code(&finished), ErrorCode::EgressDenied, "{split:?}");
        assert!(effects.is_empty());
    }
    let (_, effects) = world.play(&document, &json!({"name": "é\t1"}), [answer(200, json!(null))]);
    let names: Vec<_> = api_call(&effects[0]).headers.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["x-name", "x-number"], "what is absent is left out");
}

#[test]
fn a_query_repeats_lists_and_leaves_out_what_is_absent() {
    let document = tool_of(json!([{
        "type": "api_call", "method": "GET", "url": "https://a.example/?fixed=1",
        "query": {"tag": "{{[1, 'two']}}", "none": "{{user.nothing}}", "flag": true, "text": "x{{user.id}}",
                  "two": ["a", "{{user.name}}"]}
    }]));
    let (_, effects) = World::default().play(&document, &json!({}), [answer(200, json!(null))]);
    let query: Vec<String> =
        api_call(&effects[0]).query.iter().map(|(name, text)| format!("{name}={text}")).collect();
    assert_eq!(query, ["flag=true", "tag=1", "tag=two", "text=xu1", "two=a", "two=Ada"]);
}

#[test]
fn classes_bodies_and_keys_follow_the_method_unless_the_document_says_otherwise() {
    for (method, class, body) in [
        ("GET", EffectClass::Read, None),
        ("POST", EffectClass::Unsafe, Some(json!({}))),
        ("PUT", EffectClass::Idempotent, Some(json!({}))),
        ("PATCH", EffectClass::Unsafe, Some(json!({}))),
        ("DELETE", EffectClass::Idempotent, None),
    ] {
        let document = tool_of(json!([{"type": "api_call", "method": method, "url": "https://a.example/"}]));
        let (_, effects) = World::default().play(&document, &json!({}), [answer(200, json!(null))]);
        let call = api_call(&effects[0]);
        assert_eq!(call.class, class, "{method}");
        assert_eq!(call.body.as_ref().map(|body| body.value.clone()), body, "{method}");
        assert!(!call.repeats_tolerated);
    }
    let document = tool_of(json!([{
        "type": "api_call", "url": "https://a.example/", "effect": "keyed", "retry_count": 0,
        "idempotency_key": "'meal-' + user.id", "max_elapsed": 5, "max_response_bytes": 100,
        "response_schema": {"type": "object"}
    }]));
    let (finished, effects) =
        World::default().play(&document, &json!({}), [answer(200, json!("x".repeat(2_000)))]);
    let call = api_call(&effects[0]);
    assert_eq!((call.class, call.retries, call.max_elapsed_ms), (EffectClass::Keyed, 0, 5_000));
    assert_eq!(call.idempotency_key, "meal-u1");
    assert_eq!(call.response_schema, Some(json!({"type": "object"})));
    assert_eq!(finished.outcome.error.as_ref().unwrap().details["reason"], "response_too_large");
}

#[test]
fn a_response_that_breaks_its_schema_fails() {
    let outcome = dalsegno_tools::EffectOutcome::Response(dalsegno_tools::ApiResponse {
        status: 200,
        violations: vec![dalsegno_tools::Violation {
            pointer: "/id".into(),
            message: "expected an integer".into(),
        }],
        ..Default::default()
    });
    let finished = World::default().act(
        json!([{"type": "api_call", "url": "https://a.example/", "response_schema": {"type": "object"}}]),
        [outcome],
    );
    let error = finished.outcome.error.as_ref().unwrap();
    assert_eq!(
        (error.code, error.details["reason"].as_str()),
        (ErrorCode::ActionFailed, Some("response_schema"))
    );
    assert!(!finished.outcome.model_text().contains("expected an integer"));
}

#[test]
fn a_toolkit_proves_who_calls() {
    for (auth, header, query) in [
        (json!("none"), None, None),
        (
            json!({"type": "bearer", "secret": "my_token"}),
            Some("authorization: Bearer secrets.my_token"),
            None,
        ),
        (json!({"type": "bearer"}), Some("authorization: Bearer secrets.token"), None),
        (json!({"type": "api_key"}), Some("x-api-key: secrets.api_key"), None),
        (json!({"type": "api_key", "query": "key"}), None, Some("key: secrets.api_key")),
    ] {
        let mut document =
            tool_of(json!([{"type": "api_call", "method": "GET", "url": "https://a.example/"}]));
        document["auth"] = auth.clone();
        let (_, effects) = World::default().play(&document, &json!({}), [answer(200, json!(null))]);
        let call = api_call(&effects[0]);
        let shown = |list: &[(String, dalsegno_tools::Text)]| {
            list.first().map(|(name, text)| {
                format!("{name}: {}", text.resolve(|path| Some(path.to_string())).unwrap())
            })
        };
        assert_eq!(shown(&call.headers).as_deref(), header, "{auth}");
        assert_eq!(shown(&call.query).as_deref(), query, "{auth}");
    }
    let mut document = tool_of(json!([{
        "type": "api_call", "method": "GET", "url": "https://a.example/", "headers": {"Authorization": "mine"}
    }]));
    document["auth"] = json!({"type": "bearer"});
    let (_, effects) = World::default().play(&document, &json!({}), [answer(200, json!(null))]);
    assert_eq!(api_call(&effects[0]).headers.len(), 1, "the document's own header wins");
    assert_eq!(api_call(&effects[0]).headers[0].1.to_string(), "mine");
}

/// A document with one call, and what more it says.
fn posting(more: &Value) -> Value {
    let mut call = json!({"type": "api_call", "url": "https://api.example.com/x"});
    call.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    tool_of(json!([call]))
}

#[test]
fn a_document_says_what_statuses_of_its_receiver_mean() {
    let document = posting(&json!({"statuses": {"409": "performed", "503": "not_performed"}}));
    let mut world = World::default();
    let (finished, effects) = world.play(&document, &json!({}), [answer(409, json!({"id": 4}))]);
    assert!(finished.outcome.ok, "{finished:?}");
    assert_eq!(finished.outcome.output, json!({"id": 4}));
    assert_eq!(finished.outcome.actions[0].details["status_means"], "performed");
    let call = api_call(&effects[0]);
    assert!(call.is_performed(409) && call.is_performed(204) && !call.is_performed(503));
    let (finished, _) = world.play(&document, &json!({}), [answer(503, json!({}))]);
    assert_eq!(code(&finished), ErrorCode::HttpError);
    assert_eq!(finished.outcome.actions[0].details["status_means"], "not_performed");
}

#[test]
fn a_meaning_that_cannot_be_is_refused() {
    for (statuses, expected) in [
        (json!([409]), "this is an array"),
        (json!({"4xx": "performed"}), "`4xx` is no status of an answer"),
        (json!({"99": "performed"}), "`99` is no status of an answer"),
        (json!({"600": "performed"}), "`600` is no status of an answer"),
        (json!({"+40": "performed"}), "`+40` is no status of an answer"),
        (json!({"409": true}), "this is a boolean"),
        (json!({"409": "done"}), "`done`"),
        (json!({"200": "not_performed"}), "`200` cannot mean `not_performed`"),
        (json!({"302": "performed"}), "a redirect (`302`) is followed"),
    ] {
        let found = problems(&posting(&json!({ "statuses": statuses })));
        assert!(found.contains(expected), "{statuses}: {found}");
        assert!(found.contains("/actions/0/statuses"), "{found}");
    }
    let found = crate::support::warnings(&posting(&json!({"statuses": {"201": "performed"}})));
    assert!(found.contains("`201` means `performed` anyway"), "{found}");
}

#[test]
fn a_retry_count_is_a_word_that_unsafe_contradicts() {
    let told = |more: Value| {
        let compiled = dalsegno_tools::compile(&posting(&more));
        assert!(compiled.toolkit.is_some(), "a run of an earlier release may have begun with it");
        (compiled.mistakes.len(), compiled.notes.len())
    };
    assert_eq!(told(json!({"effect": "unsafe", "retry_count": 2})), (1, 0));
    assert_eq!(told(json!({"effect": "unsafe", "retry_count": 0})), (0, 0));
    assert_eq!(told(json!({"effect": "unsafe"})), (0, 0));
    assert_eq!(told(json!({"retry_count": 2})), (0, 1));
    assert_eq!(told(json!({"method": "PATCH", "retry_count": 2})), (0, 1));
    assert_eq!(told(json!({"retry_count": 0})), (0, 0));
    assert_eq!(told(json!({"effect": "keyed", "retry_count": 2})), (0, 0));
    assert_eq!(told(json!({"method": "PUT", "retry_count": 2})), (0, 0));
    let toolkit = toolkit(&posting(&json!({"retry_count": 2, "id": "order"})));
    assert_eq!(toolkit.tools()[0].mentions().repeats, [("POST", Some("order"), 2)]);
}

#[test]
fn a_failure_that_ends_the_list_is_not_passed_over() {
    use dalsegno_tools::{EffectFailure, EffectOutcome};
    let document = posting(&json!({"on_error": "continue"}));
    for (ends, ok) in [(true, false), (false, true)] {
        let failure = EffectFailure { ends, ..EffectFailure::new(ErrorCode::Indeterminate, "lost") };
        let (finished, _) = World::default().play(&document, &json!({}), [EffectOutcome::Failed(failure)]);
        assert_eq!(finished.outcome.ok, ok, "{finished:?}");
        if !ok {
            assert_eq!(code(&finished), ErrorCode::Indeterminate);
        }
    }
}

/// The recipients of a mail whose `to` is the parameter `to`; the error where none is to be sent.
fn recipients(world: &World, kind: &str, to: &Value, is_sent: bool) -> Result<Vec<String>, String> {
    let toolkit = toolkit(&json!({
        "name": "mail", "description": "Sends mail.",
        "parameters": [{"name": "to", "type": kind, "required": true}],
        "actions": [{
            "type": "email.send", "host": "mail.example", "from": "bot@example.com", "to": "{{params.to}}",
            "subject": "Hi", "body": "Hello"
        }],
    }));
    let sent = dalsegno_tools::EffectOutcome::Sent { message_id: None };
    let (finished, effects) = world.run(&toolkit.tools()[0], &json!({"to": to}), is_sent.then_some(sent));
    match effects.first().map(|effect| &effect.request) {
        Some(EffectRequest::Email(mail)) => Ok(mail.to.clone()),
        other => Err(format!("{other:?} {:?}", finished.outcome.error)),
    }
}

#[test]
fn a_text_is_one_recipient_and_a_list_is_several() {
    let world = World::default();
    for one in ["a@b.co", "\"Doe, Jane\" <jane@b.co>", "\"A \\\", B\" <a@b.co>", " a@b.co "] {
        assert_eq!(recipients(&world, "string", &json!(one), true).unwrap(), [one.trim()]);
    }
    let list = json!(["a@b.co", "c@d.co"]);
    assert_eq!(recipients(&world, "array", &list, true).unwrap(), ["a@b.co", "c@d.co"]);
    for (kind, several) in [
        ("string", json!("a@b.co, c@d.co")),
        ("string", json!("a@b.co;c@d.co")),
        ("string", json!("\"x\" <a@b.co>, c@d.co")),
        ("array", json!(["a@b.co", "c@d.co,e@f.co"])),
    ] {
        let refused = recipients(&world, kind, &several, false).unwrap_err();
        assert!(refused.starts_with("None") && refused.contains("several addresses"), "{several}: {refused}");
    }
    // A run that began under the first rules goes on as it began.
    let world = World { first_rules: true, ..World::default() };
    assert_eq!(recipients(&world, "string", &json!("a@b.co, c@d.co"), true).unwrap(), ["a@b.co", "c@d.co"]);
}

#[test]
fn a_number_becomes_an_address_and_what_says_more_than_where_is_refused() {
    let target = |text: &str| dalsegno_tools::Transfer::to(text).map(|transfer| transfer.target);
    for (written, address) in [
        ("+33 1 40 00-00.00", "tel:+33140000000"),
        (" 4711 ", "tel:4711"),
        ("tel:+33140000000", "tel:+33140000000"),
        ("sip:sales@acme.example", "sip:sales@acme.example"),
        ("SIPS:a@b.example;transport=tls", "SIPS:a@b.example;transport=tls"),
    ] {
        assert_eq!(target(written).as_deref(), Some(address), "{written}");
    }
    let long = format!("sip:{}@a.example", "x".repeat(250));
    for wrong in [
        "",
        "+",
        "-",
        "sales",
        "mailto:a@b.co",
        "sip:",
        "tel: 1",
        "+33 (0)1 40",
        "sip:a@b?Replaces=x",
        "sip:a@b\r\nX: y",
        "sip:a b@c",
        "sip:\u{e9}@b",
        "<sip:a@b>",
        "sip:a@b#c",
        "1;2",
        "tel:sales",
        "tel:+",
        "tel:;x=1",
        &long,
    ] {
        assert_eq!(target(wrong), None, "{wrong:?}");
    }
}

#[test]
fn an_argument_may_choose_where_a_call_goes_and_not_say_it() {
    let document = |target: &str| {
        json!({
            "name": "t", "description": "Transfers.", "parameters": [{"name": "to", "type": "string"}],
            "actions": [{"type": "call.transfer", "target": target}],
        })
    };
    for sound in [
        "+33140000000",
        "{{config.targets[params.to]}}",
        "sip:{{tenant.settings.desk}}@acme.example",
        "{{config.a.b}}",
    ] {
        assert_eq!(dalsegno_tools::compile(&document(sound)).problems, [], "{sound}");
    }
    for wrong in [
        "{{params.to}}",
        "tel:{{params.to}}",
        "{{config.targets[params.to] ?? params.to}}",
        "{{config.x + params.to}}",
        "{{config.x.concat(params.to)}}",
        "{{user.phone}}",
        "{{target}}",
        "{{config.yes ? params.to : config.no}}",
    ] {
        let problems = dalsegno_tools::compile(&document(wrong)).problems;
        let is_told = problems.iter().any(|one| one.pointer == "/actions/0/target");
        assert!(is_told, "{wrong}: {problems:?}");
    }
    let problems = dalsegno_tools::compile(&document("{{params.to}}")).problems;
    assert_eq!(problems[0].message, "a value could say where the call goes");
}

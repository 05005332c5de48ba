//! Every JSON example of the project's sources, with what it must do.

use dalsegno_tools::{EffectClass, ErrorCode, Method};
use serde_json::{Value, json};

use crate::support::{World, answer, api_call, code, failure, printed, tool_of, toolkit, warnings};

/// The first form of the tool: `data` with a template.
fn save_meal() -> Value {
    json!({
        "name": "save_meal",
        "description": "Log a meal the user consumed",
        "parameters": [
            {"name": "meal_type", "type": "string", "enum": ["breakfast", "lunch", "dinner"]},
            {"name": "dishes", "type": "array", "required": true}
        ],
        "actions": [
            {"type": "validate", "rules": [{"field": "params.dishes", "rule": "required"}]},
            {"type": "context.set", "data": {"logged_meals[+]": "{{params}}"}},
            {"type": "api_call", "url": "https://api.example.com/meals",
             "body": {"user_id": "{{user.id}}", "meal": "{{params}}"}}
        ],
        "on_success": [{"type": "respond", "message": "I've logged your {{params.meal_type}}!"}],
        "on_failure": [{"type": "respond", "message": "Sorry, I couldn't log that meal."}]
    })
}

#[test]
fn save_meal_logs_a_meal() {
    let mut world = World::default();
    let arguments = json!({"meal_type": "lunch", "dishes": ["soup"]});
    let (finished, effects) = world.play(&save_meal(), &arguments, [answer(201, json!({"id": 7}))]);
    assert!(finished.outcome.ok);
    assert_eq!(finished.outcome.said, ["I've logged your lunch!"]);
    assert_eq!(finished.outcome.output, json!({"id": 7}));
    assert_eq!(world.session.workflow(), &json!({"logged_meals": [arguments]}));
    let call = api_call(&effects[0]);
    assert_eq!(call.method, Method::Post);
    assert_eq!(call.url.to_string(), "https://api.example.com/meals");
    assert_eq!(call.body.as_ref().unwrap().value, json!({"user_id": "u1", "meal": arguments}));
    assert_eq!(
        (call.timeout_ms, call.retries, call.retry_delay_ms, call.max_elapsed_ms),
        (30_000, 3, 500, 60_000)
    );
    assert_eq!(call.class, EffectClass::Unsafe);
    assert_eq!(call.idempotency_key, "0af30000");
}

#[test]
fn save_meal_that_fails_says_so_and_writes_nothing() {
    let mut world = World::default();
    let (finished, _) = world.play(&save_meal(), &json!({"dishes": ["soup"]}), [answer(503, json!("busy"))]);
    assert_eq!(code(&finished), ErrorCode::HttpError);
    assert_eq!(finished.outcome.said, ["Sorry, I couldn't log that meal."]);
    assert!(world.session.is_empty());
    assert_eq!(
        finished.outcome.model_text(),
        r#"{"error":{"code":"http_error","message":"the service behind the tool answered with an error","status":503},"ok":false,"said":["Sorry, I couldn't log that meal."]}"#
    );
}

#[test]
fn arguments_that_break_the_schema_never_reach_an_action() {
    let world = World::default();
    let toolkit = toolkit(&save_meal());
    let (finished, effects) = world.run(&toolkit.tools()[0], &json!({"meal_type": "brunch", "dish": 1}), []);
    assert!(effects.is_empty() && finished.outcome.actions.is_empty());
    assert_eq!(code(&finished), ErrorCode::InvalidArguments);
    insta::assert_snapshot!(finished.outcome.error.unwrap().message);
}

/// The second form: a bare `params`, and the endpoint of the tenant.
#[test]
fn save_meal_with_the_tenants_endpoint_works_with_a_warning() {
    let document = json!({
        "name": "save_meal",
        "description": "Log a meal the user consumed",
        "parameters": [
            {"name": "meal_type", "type": "string", "enum": ["breakfast", "lunch", "dinner"]},
            {"name": "dishes", "type": "array", "required": true}
        ],
        "actions": [
            {"type": "context.set", "path": "logged_meals[+]", "value": "params"},
            {"type": "api_call", "url": "{{tenant.settings.endpoints.meal_log}}", "method": "POST",
             "body": {"meal": "params"}}
        ],
        "on_success": [{"type": "respond", "message": "Got it! I've logged your {{params.meal_type}}."}],
        "on_failure": [{"type": "respond", "message": "Sorry, I couldn't save that meal."}]
    });
    assert_eq!(
        warnings(&document),
        "/actions/1/body/meal: `params` is taken as the value of that path: write `{{params}}`"
    );
    let mut world = World::default();
    let arguments = json!({"meal_type": "dinner", "dishes": ["rice", "peas"]});
    let (finished, effects) = world.play(&document, &arguments, [answer(200, json!("saved"))]);
    assert_eq!(finished.outcome.said, ["Got it! I've logged your dinner."]);
    assert_eq!(api_call(&effects[0]).url.to_string(), "https://meals.example/log");
    assert_eq!(api_call(&effects[0]).body.as_ref().unwrap().value, json!({"meal": arguments}));
    assert_eq!(world.session.workflow()["logged_meals"], json!([arguments]));
}

#[test]
fn a_full_api_call_is_asked_for_as_it_is_written() {
    let document = json!({
        "name": "log", "description": "Logs",
        "parameters": [
            {"name": "meal_type", "type": "string"}, {"name": "dishes", "type": "array"},
            {"name": "calories", "type": "number"}
        ],
        "actions": [{
            "type": "api_call", "url": "https://api.example.com/v1/meals", "method": "POST",
            "body": {"userId": "{{user.id}}", "mealType": "{{params.meal_type}}", "dishes": "{{params.dishes}}",
                     "calories": "{{params.calories}}"},
            "headers": {"Content-Type": "application/json", "Authorization": "Bearer {{user.auth_token}}"},
            "timeout": 15, "retry_count": 3, "retry_delay": 0.5, "on_error": "fail",
            "response_path": "workflow.api_response"
        }]
    });
    let mut world = World::default();
    let arguments = json!({"meal_type": "lunch", "dishes": ["soup"], "calories": 320.5});
    let (finished, effects) = world.play(&document, &arguments, [answer(200, json!({"ok": 1}))]);
    assert!(finished.outcome.ok);
    let call = api_call(&effects[0]);
    assert_eq!(
        call.body.as_ref().unwrap().value,
        json!({"userId": "u1", "mealType": "lunch", "dishes": ["soup"], "calories": 320.5})
    );
    let (names, values): (Vec<_>, Vec<_>) =
        call.headers.iter().map(|(name, text)| (name.as_str(), text)).unzip();
    assert_eq!(names, ["authorization", "content-type"]);
    assert_eq!(values[0].to_string(), "Bearer [secret]");
    assert_eq!(values[0].resolve(|path| Some(format!("<{path}>"))).unwrap(), "Bearer <user.auth_token>");
    assert_eq!((call.timeout_ms, call.retries, call.retry_delay_ms), (15_000, 3, 500));
    assert!(call.repeats_tolerated, "the document's own word");
    assert_eq!(world.session.workflow(), &json!({"api_response": {"ok": 1}}));
}

#[test]
fn the_single_actions_do_what_they_say() {
    let mut world = World::default();
    let document = json!({
        "name": "actions", "description": "Tries them",
        "parameters": [{"name": "selected_theme", "type": "string"}],
        "actions": [
            {"type": "context.set", "path": "user.preferences.theme", "value": "params.selected_theme"},
            {"type": "context.get", "path": "user.name", "id": "who"},
            {"type": "context.delete", "path": "temp.draft"},
            {"type": "flag.set", "flag": "skip_confirmation"},
            {"type": "flag.clear", "flag": "needs_verification"},
            {"type": "log", "level": "info", "log_message": "Processing meal data"},
            {"type": "respond", "message": "I've saved your meal successfully!"},
            {"type": "handoff", "target_agent": "specialist_agent", "message": "Transferring you now..."}
        ]
    });
    let (finished, _) = world.play(&document, &json!({"selected_theme": "dark"}), []);
    assert_eq!(finished.outcome.said, ["I've saved your meal successfully!", "Transferring you now..."]);
    assert_eq!(finished.outcome.handoff.as_ref().unwrap().target_agent, "specialist_agent");
    assert_eq!(finished.outcome.output, json!("Ada"));
    assert_eq!(world.session.flags(), &json!({"skip_confirmation": true}));
    assert_eq!(world.session.user(&world.user)["preferences"], json!({"theme": "dark"}));
}

#[test]
fn a_condition_reads_the_context_by_its_short_names() {
    let action = json!([{
        "type": "conditional", "condition": "context.user_type === 'premium'",
        "then_actions": [{"type": "respond", "message": "Welcome back, premium member!"}],
        "else_actions": [{"type": "respond", "message": "Welcome! Consider upgrading to premium."}]
    }]);
    let mut world = World::default();
    assert_eq!(world.act(action.clone(), []).outcome.said, ["Welcome! Consider upgrading to premium."]);
    world.user["user_type"] = json!("premium");
    assert_eq!(world.act(action, []).outcome.said, ["Welcome back, premium member!"]);
}

#[test]
fn validation_says_what_the_document_says() {
    let document = json!({
        "name": "subscribe", "description": "Subscribes",
        "parameters": [{"name": "email", "type": "string"}],
        "actions": [{"type": "validate", "rules": [
            {"field": "params.email", "rule": "email", "error_message": "Please provide a valid email address"}
        ]}]
    });
    let mut world = World::default();
    let (finished, _) = world.play(&document, &json!({"email": "ada"}), []);
    assert_eq!(code(&finished), ErrorCode::ValidationFailed);
    assert_eq!(finished.outcome.error.unwrap().message, "Please provide a valid email address");
    assert!(world.play(&document, &json!({"email": "ada@example.com"}), []).0.outcome.ok);
}

#[test]
fn a_transform_maps_each_item() {
    let document = json!({
        "name": "format", "description": "Formats",
        "parameters": [{"name": "items", "type": "array"}],
        "actions": [{
            "type": "transform", "input_path": "params.items", "transform_type": "map",
            "transform_config": {"expression": "item.toUpperCase()"}, "output_path": "workflow.formatted_items"
        }]
    });
    let mut world = World::default();
    let (finished, _) = world.play(&document, &json!({"items": ["a", "b"]}), []);
    assert_eq!(finished.outcome.output, json!(["A", "B"]));
    assert_eq!(world.session.workflow(), &json!({"formatted_items": ["A", "B"]}));
}

#[test]
fn an_endpoint_of_the_tenant_can_be_extended() {
    let mut world = World::default();
    let document = json!({
        "name": "log", "description": "Logs", "parameters": [{"name": "meal", "type": "string"}],
        "actions": [{"type": "api_call", "url": "{{tenant.settings.endpoints.meal_api}}/meals", "method": "POST",
                     "body": {"meal": "{{params}}"}}]
    });
    let (_, effects) = world.play(&document, &json!({"meal": "soup"}), [answer(200, json!(null))]);
    assert_eq!(api_call(&effects[0]).url.to_string(), "https://meals.example/api/meals");
    assert_eq!(api_call(&effects[0]).body.as_ref().unwrap().value, json!({"meal": {"meal": "soup"}}));
}

#[test]
fn callbacks_run_after_the_actions() {
    let mut world = World::default();
    let mut document = tool_of(json!([{"type": "api_call", "url": "https://a.example/"}]));
    document["on_success"] = json!([
        {"type": "context.set", "path": "last_action", "value": "'meal_saved'"},
        {"type": "respond", "message": "Done!"}
    ]);
    document["on_failure"] = json!([
        {"type": "log", "level": "error", "log_message": "Tool failed"},
        {"type": "respond", "message": "Something went wrong. Please try again."}
    ]);
    let (finished, _) = world.play(&document, &json!({}), [failure(ErrorCode::Timeout)]);
    assert_eq!(finished.outcome.said, ["Something went wrong. Please try again."]);
    assert_eq!(finished.outcome.actions[1].details["message"], "Tool failed");
    assert!(world.session.is_empty());
    let (finished, _) = world.play(&document, &json!({}), [answer(200, json!(null))]);
    assert_eq!(finished.outcome.said, ["Done!"]);
    assert_eq!(world.session.workflow(), &json!({"last_action": "meal_saved"}));
}

#[test]
fn actions_are_chained() {
    let document = json!({
        "name": "save_email", "description": "Saves an address",
        "parameters": [{"name": "email", "type": "string"}, {"name": "subscribe", "type": "boolean"}],
        "actions": [
            {"type": "validate", "rules": [{"field": "params.email", "rule": "email"}]},
            {"type": "context.set", "path": "user.email", "value": "params.email"},
            {"type": "conditional", "condition": "params.subscribe === true", "then_actions": [
                {"type": "api_call", "url": "{{tenant.settings.endpoints.subscribe}}", "method": "POST",
                 "body": {"email": "{{params.email}}"}},
                {"type": "flag.set", "flag": "subscribed"}
            ]},
            {"type": "respond", "message": "Your email has been saved!"}
        ]
    });
    let mut world = World::default();
    let arguments = json!({"email": "ada@example.com", "subscribe": true});
    let (finished, effects) = world.play(&document, &arguments, [answer(204, json!(""))]);
    assert_eq!(api_call(&effects[0]).url.to_string(), "https://api.tenant.example/v1/subscribe");
    assert_eq!(api_call(&effects[0]).method, Method::Post, "an explicit method wins");
    assert_eq!(finished.outcome.said, ["Your email has been saved!"]);
    assert_eq!(world.session.flags(), &json!({"subscribed": true}));
    assert_eq!(world.session.user(&world.user)["email"], "ada@example.com");
    let (finished, effects) =
        world.play(&document, &json!({"email": "ada@example.com", "subscribe": false}), []);
    assert!(finished.outcome.ok && effects.is_empty());
}

/// The calendar, as data.
fn google_calendar() -> Value {
    json!({
        "name": "google_calendar",
        "description": "Manage Google Calendar events, check availability, and schedule meetings.",
        "auth": {
            "type": "oauth2", "provider": "google",
            "scopes": ["https://www.googleapis.com/auth/calendar.events",
                       "https://www.googleapis.com/auth/calendar.readonly"],
            "auth_url": "https://accounts.google.com/o/oauth2/v2/auth",
            "token_url": "https://oauth2.googleapis.com/token"
        },
        "config_schema": {
            "type": "object",
            "properties": {
                "calendar_id": {"type": "string", "title": "Calendar ID", "default": "primary",
                                "description": "The ID of the calendar to use."},
                "default_event_duration": {"type": "integer", "title": "Default Event Duration (minutes)", "default": 30}
            },
            "required": ["calendar_id"]
        },
        "actions": [
            {
                "name": "list_events",
                "description": "List calendar events within a time range",
                "parameters": [
                    {"name": "time_min", "type": "datetime", "required": true,
                     "description": "Start of time range in ISO format (e.g., 2025-12-30T09:00:00Z)"},
                    {"name": "time_max", "type": "datetime"},
                    {"name": "max_results", "type": "integer", "default": 10, "min_value": 1, "max_value": 100,
                     "description": "Maximum number of events to return"}
                ],
                "returns": "List of calendar events",
                "actions": [{
                    "type": "api_call", "method": "GET",
                    "url": "https://www.googleapis.com/calendar/v3/calendars/{{config.calendar_id}}/events",
                    "query": {"timeMin": "{{params.time_min}}", "timeMax": "{{params.time_max}}",
                              "maxResults": "{{params.max_results}}", "singleEvents": "true", "orderBy": "startTime"}
                }],
                "output": {"events": "result.last.items ?? []"}
            },
            {
                "name": "create_event",
                "description": "Create a new calendar event",
                "parameters": [
                    {"name": "title", "type": "string", "description": "Event title", "required": true},
                    {"name": "start_time", "type": "datetime", "required": true},
                    {"name": "duration_minutes", "type": "integer", "default_from": "config.default_event_duration",
                     "default": 30, "min_value": 5, "max_value": 480},
                    {"name": "attendees", "type": "array", "items": {"type": "string"}}
                ],
                "returns": "Created event details",
                "actions": [{
                    "type": "api_call", "effect": "keyed",
                    "url": "https://www.googleapis.com/calendar/v3/calendars/{{config.calendar_id}}/events",
                    "body": {
                        "id": "{{operation.key}}", "summary": "{{params.title}}",
                        "start": {"dateTime": "{{params.start_time}}"},
                        "end": {"dateTime": "{{Date.toISO(Date.parse(params.start_time) + params.duration_minutes * 60000)}}"},
                        "attendees": "{{params.attendees ?? []}}"
                    }
                }]
            }
        ]
    })
}

#[test]
fn each_action_of_a_toolkit_is_a_function_of_its_own() {
    let toolkit = toolkit(&google_calendar());
    let names: Vec<String> = toolkit.tools().iter().map(dalsegno_tools::Tool::model_name).collect();
    assert_eq!(names, ["google_calendar__list_events", "google_calendar__create_event"]);
    assert_eq!(
        toolkit.config_with(json!({"default_event_duration": 45}).as_object().unwrap()),
        *json!({"calendar_id": "primary", "default_event_duration": 45}).as_object().unwrap()
    );
    let secrets: Vec<_> = toolkit.secrets().keys().map(String::as_str).collect();
    assert_eq!(secrets, ["access_token", "client_id", "client_secret", "refresh_token"]);
    let tool = toolkit.tool("google_calendar.list_events").unwrap();
    assert_eq!(
        tool.description(),
        "List calendar events within a time range. Returns: List of calendar events"
    );
    insta::assert_snapshot!(printed(tool.schema()));
}

#[test]
fn the_calendar_lists_and_creates_events() {
    let toolkit = toolkit(&google_calendar());
    let mut world = World::default();
    let config = json!({"calendar_id": "team#1@group.calendar.google.com", "default_event_duration": 45});
    world.config = Value::Object(toolkit.config_with(config.as_object().unwrap()));

    let tool = toolkit.tool("google_calendar.list_events").unwrap();
    let arguments = json!({"time_min": "2025-12-30T09:00:00Z", "max_results": "5"});
    let (finished, effects) = world.run(tool, &arguments, [answer(200, json!({"items": [{"id": "e1"}]}))]);
    assert_eq!(finished.outcome.output, json!({"events": [{"id": "e1"}]}));
    assert!(
        finished.outcome.model_text().contains("`/max_results` was a string and was taken as an integer")
    );
    let call = api_call(&effects[0]);
    assert_eq!(
        call.url.to_string(),
        "https://www.googleapis.com/calendar/v3/calendars/team%231%40group.calendar.google.com/events"
    );
    let query: Vec<String> = call.query.iter().map(|(name, text)| format!("{name}={text}")).collect();
    assert_eq!(
        query,
        ["maxResults=5", "orderBy=startTime", "singleEvents=true", "timeMin=2025-12-30T09:00:00Z"]
    );
    assert_eq!(call.headers[0].0, "authorization");
    assert_eq!(
        call.headers[0].1.resolve(|path| Some(path.to_string())).unwrap(),
        "Bearer secrets.access_token"
    );
    assert_eq!((call.class, &call.body), (EffectClass::Read, &None));

    let tool = toolkit.tool("google_calendar.create_event").unwrap();
    let arguments = json!({"title": "Lunch", "start_time": "2025-12-30T14:00:00+01:00"});
    let (finished, effects) = world.run(tool, &arguments, [answer(200, json!({"id": "e2"}))]);
    assert!(finished.outcome.ok);
    let call = api_call(&effects[0]);
    assert_eq!(
        call.body.as_ref().unwrap().value,
        json!({"id": "0af30000", "summary": "Lunch", "start": {"dateTime": "2025-12-30T14:00:00+01:00"},
               "end": {"dateTime": "2025-12-30T13:45:00.000Z"}, "attendees": []})
    );
    assert_eq!(call.idempotency_key, effects[0].key);
    assert_eq!(call.class, EffectClass::Keyed);
}

#[test]
fn a_mail_is_sent_by_the_email_toolkit() {
    let document = json!({
        "name": "email",
        "description": "Send emails via SMTP",
        "config_schema": {
            "smtp_server": {"type": "string"}, "smtp_port": {"type": "integer", "default": 587},
            "from_email": {"type": "string"}
        },
        "secrets": ["smtp_password"],
        "actions": [{
            "name": "send_email", "description": "Send an email to a recipient",
            "parameters": [
                {"name": "to", "type": "string", "description": "Recipient email address", "required": true},
                {"name": "subject", "type": "string", "description": "Email subject", "required": true},
                {"name": "body", "type": "string", "description": "Email body content", "required": true}
            ],
            "actions": [{
                "type": "email.send", "host": "{{config.smtp_server}}", "port": "{{config.smtp_port}}",
                "username": "{{config.from_email}}", "password": "{{secrets.smtp_password}}",
                "from": "{{config.from_email}}", "to": "{{params.to}}", "subject": "{{params.subject}}",
                "body": "{{params.body}}"
            }]
        }]
    });
    let toolkit = toolkit(&document);
    let mut world = World::default();
    let config = json!({"smtp_server": "mail.example", "from_email": "bot@example.com"});
    world.config = Value::Object(toolkit.config_with(config.as_object().unwrap()));
    let arguments = json!({"to": "a@b.co", "subject": "Hi", "body": "Line\nbreak"});
    let sent = dalsegno_tools::EffectOutcome::Sent { message_id: Some("<1@mail>".into()) };
    let (finished, effects) = world.run(&toolkit.tools()[0], &arguments, [sent]);
    assert_eq!(finished.outcome.output, json!({"sent": true, "message_id": "<1@mail>"}));
    insta::assert_json_snapshot!(effects[0].request);
    let arguments = json!({"to": "a@b.co", "subject": "Hi\r\nBcc: all@b.co", "body": ""});
    let (finished, effects) = world.run(&toolkit.tools()[0], &arguments, []);
    assert_eq!(code(&finished), ErrorCode::EgressDenied);
    assert!(effects.is_empty());
}

#[test]
fn a_webhook_of_older_documents_loads_as_an_api_call() {
    let document = tool_of(json!([
        {"type": "webhook", "endpoint": "https://hooks.example/in", "payload": {"who": "{{user.id}}"}}
    ]));
    let wrong = tool_of(json!([{"type": "webhook", "endpoint": "ftp://a/", "payload": {"a": "{{"}}]));
    let pointers: Vec<_> =
        dalsegno_tools::compile(&wrong).problems.into_iter().map(|problem| problem.pointer).collect();
    assert_eq!(pointers, ["/actions/0/endpoint", "/actions/0/payload/a"]);
    assert_eq!(
        warnings(&document),
        "/actions/0/type: `webhook` is an older name: write `api_call` with `url` for `endpoint` and `body` for `payload`"
    );
    let (_, effects) = World::default().play(&document, &json!({}), [answer(200, json!(null))]);
    assert_eq!(api_call(&effects[0]).body.as_ref().unwrap().value, json!({"who": "u1"}));
}

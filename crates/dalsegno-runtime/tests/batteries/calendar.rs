//! The calendar: its lists, its events, and who is free.

use serde_json::{Value, json};

use crate::consent::{engine, give, run};
use crate::google::Google;
use crate::support::answer;

/// Runs one action of the calendar, and says what it gave.
async fn act(google: &Google, action: &str, with: &str) -> Value {
    let steps = format!(
        "[[steps]]\nid = \"did\"\ntool = \"google_calendar.{action}\"\nwith = {with}\n\
         [[steps]]\nrespond = \"{{{{steps.did}}}}\"\n"
    );
    let world = google.world(&steps);
    let engine = engine(google, &world).await;
    give(&engine, "default").await.unwrap();
    let report = run(&engine).await;
    serde_json::from_str(answer(&report)).unwrap()
}

fn event(id: &str, start: &str, end: &str, mut more: Value) -> Value {
    let mut event = json!({"id": id, "summary": format!("secret title {id}"), "status": "confirmed",
        "start": {"dateTime": start}, "end": {"dateTime": end}});
    event.as_object_mut().unwrap().append(more.as_object_mut().unwrap());
    event
}

#[tokio::test]
async fn events_are_listed_in_their_order() {
    let google = Google::start();
    google.event(event("later", "2026-02-01T12:00:00Z", "2026-02-01T13:00:00Z", json!({"location": "B2"})));
    google.event(event("first", "2026-02-01T09:00:00+02:00", "2026-02-01T10:00:00+02:00", json!({})));
    google.event(event("before", "2026-01-01T09:00:00Z", "2026-01-01T10:00:00Z", json!({})));
    let found = act(&google, "list_events", "{ time_min = \"2026-01-31T00:00:00Z\", max_results = 2 }").await;
    let ids: Vec<&str> = found.as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["first", "later"]);
    assert_eq!(found[1]["location"], "B2");
    let asked = &google.server.got("GET /calendars")[0].query;
    assert_eq!((asked["singleEvents"].as_str(), asked["orderBy"].as_str()), ("true", "startTime"));
    assert!(!asked.contains_key("timeMax") && !asked.contains_key("q"), "{asked:?}");
}

#[tokio::test]
async fn an_event_is_created_with_its_default_length() {
    let google = Google::start();
    let with =
        "{ title = \"Dentist\", start_time = \"2026-02-01T14:00:00+01:00\", attendees = [\"a@x.example\"] }";
    let made = act(&google, "create_event", with).await;
    assert_eq!(made["title"], "Dentist");
    assert_eq!(made["end"], "2026-02-01T13:30:00.000Z");
    let events = google.events();
    assert_eq!(events.len(), 1);
    assert_eq!(events[0]["attendees"], json!([{"email": "a@x.example"}]));
}

#[tokio::test]
async fn an_event_that_is_known_is_not_made_twice() {
    let google = Google::start();
    let with = "{ title = \"Dentist\", start_time = \"2026-02-01T14:00:00Z\" }";
    let steps = format!(
        "[[steps]]\nid = \"did\"\ntool = \"google_calendar.create_event\"\nwith = {with}\n\
         [[steps]]\nrespond = \"{{{{steps.did.id}}}}\"\n"
    );
    let world = google.world(&steps);
    let engine = engine(&google, &world).await;
    give(&engine, "default").await.unwrap();
    // The calendar makes the event, and its answer is lost on the way.
    google.lose_an_answer();
    let report = run(&engine).await;
    let events = google.events();
    assert_eq!(events.len(), 1);
    assert_eq!(answer(&report), events[0]["id"].as_str().unwrap());
    assert_eq!(google.server.got("POST /calendars").len(), 2, "the second one met 409");
}

#[tokio::test]
async fn an_event_is_read_changed_and_deleted() {
    let google = Google::start();
    google.event(event("e1234", "2026-02-01T12:00:00Z", "2026-02-01T13:00:00Z", json!({"location": "B2"})));
    let read = act(&google, "get_event", "{ event_id = \"e1234\" }").await;
    assert_eq!(read["title"], "secret title e1234");
    let changed = act(&google, "update_event", "{ event_id = \"e1234\", title = \"Moved\" }").await;
    assert_eq!((&changed["title"], &changed["location"]), (&json!("Moved"), &json!("B2")));
    assert_eq!(google.events()[0]["start"], json!({"dateTime": "2026-02-01T12:00:00Z"}));
    let gone = act(&google, "delete_event", "{ event_id = \"e1234\" }").await;
    assert_eq!(gone, json!({"deleted": "e1234"}));
    assert!(google.events().is_empty());
}

const SPAN: &str = "{ date = \"2026-02-01T14:00:00Z\", duration_minutes = 60 }";

#[tokio::test]
async fn what_does_not_block_time_leaves_the_span_free() {
    let google = Google::start();
    let inside = ("2026-02-01T14:15:00Z", "2026-02-01T14:45:00Z");
    google.event(event("transparent", inside.0, inside.1, json!({"transparency": "transparent"})));
    google.event(event("cancelled", inside.0, inside.1, json!({"status": "cancelled"})));
    let others: Vec<Value> = (0..9).map(|n| json!({"email": format!("p{n}@x.example")})).collect();
    let declined = json!({"email": "me@x.example", "self": true, "responseStatus": "declined"});
    google.event(event("declined", inside.0, inside.1, json!({"attendees": [declined.clone()]})));
    // Where there are many, the one whose calendar it is may be the last.
    let many: Vec<Value> = others.into_iter().chain([declined]).collect();
    google.event(event("crowd", inside.0, inside.1, json!({"attendees": many})));
    let said = act(&google, "check_availability", SPAN).await;
    assert_eq!(said, json!({"available": true, "busy": []}));
}

#[tokio::test]
async fn an_event_that_touches_the_span_leaves_it_free() {
    let google = Google::start();
    google.event(event("before", "2026-02-01T13:00:00Z", "2026-02-01T14:00:00Z", json!({})));
    google.event(event("after", "2026-02-01T15:00:00Z", "2026-02-01T16:00:00Z", json!({})));
    assert_eq!(act(&google, "check_availability", SPAN).await["available"], true);
}

#[tokio::test]
async fn busy_times_come_without_titles() {
    let google = Google::start();
    let accepted = json!([{"email": "me@x.example", "self": true, "responseStatus": "accepted"},
        {"email": "p@x.example", "responseStatus": "declined"}]);
    google.event(event(
        "edge1",
        "2026-02-01T14:59:00Z",
        "2026-02-01T16:00:00Z",
        json!({"attendees": accepted}),
    ));
    google.event(json!({"id": "allday", "summary": "secret title", "start": {"date": "2026-02-01"},
        "end": {"date": "2026-02-02"}}));
    let said = act(&google, "check_availability", SPAN).await;
    assert_eq!(
        said,
        json!({"available": false, "busy": [
            {"start": "2026-02-01", "end": "2026-02-02"},
            {"start": "2026-02-01T14:59:00Z", "end": "2026-02-01T16:00:00Z"}
        ]})
    );
    assert!(!said.to_string().contains("secret title"));
}

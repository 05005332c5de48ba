//! A double of Google's calendar, with its authorization server: what its documentation says of ids, errors, tokens and
//! lists.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use dalsegno_runtime::Clock;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::server::{Asked, HANG_UP, Said, Server};
use crate::support::World;

/// A clock that the test and the double share.
#[derive(Clone)]
pub(crate) struct Hand(Arc<Mutex<u64>>);

impl Hand {
    pub(crate) fn forward(&self, seconds: u64) {
        *self.0.lock().unwrap() += seconds * 1_000;
    }

    fn millis(&self) -> u64 {
        *self.0.lock().unwrap()
    }
}

impl Clock for Hand {
    fn now(&self) -> dalsegno_core::Timestamp {
        dalsegno_core::Timestamp::from_millis(self.millis())
    }
}

/// What the service knows.
#[derive(Default)]
struct Known {
    tokens: u32,
    /// Access tokens with their end.
    access: BTreeMap<String, u64>,
    /// The refresh token that is good.
    refresh: Option<String>,
    /// Those that were used: to use one again takes all of them away.
    used: BTreeSet<String>,
    challenge: Option<String>,
    events: BTreeMap<String, Value>,
    /// What the next calls of the token endpoint are answered with.
    trouble: Vec<Said>,
    /// Whether the answer to the next event that is made gets lost.
    loses: bool,
}

/// The service.
pub(crate) struct Google {
    pub(crate) server: Server,
    pub(crate) clock: Hand,
    known: Arc<Mutex<Known>>,
}

/// How long an access token lives, in seconds.
pub(crate) const LIFETIME: u64 = 3_599;

const CLIENT: &str = "Basic YS1jbGllbnQ6Y2FuYXJ5LTQ3MTEtY2xpZW50";

impl Google {
    pub(crate) fn start() -> Self {
        let clock = Hand(Arc::new(Mutex::new(1_800_000_000_000)));
        let known: Arc<Mutex<Known>> = Arc::default();
        let (shared, hand) = (Arc::clone(&known), clock.clone());
        let server = Server::start(move |asked| {
            let known = &mut *shared.lock().unwrap();
            match asked.path.as_str() {
                "/consent" => {
                    known.challenge = asked.query.get("code_challenge").cloned();
                    (200, Value::Null)
                }
                "/token" => token(asked, known, hand.millis()),
                _ => calendar(asked, known, hand.millis()),
            }
        });
        Self { server, clock, known }
    }

    /// A workspace whose agent `a` has this plan, and may use the calendar.
    pub(crate) fn world(&self, steps: &str) -> World {
        let agent = format!("[tools]\nallow = [\"google_calendar.*\"]\n{steps}");
        let world = World::new(&agent);
        let battery =
            dalsegno_workspace::batteries().iter().find(|one| one.name == "google_calendar").unwrap();
        let mut document: Value = serde_json::from_str(battery.text).unwrap();
        let origin = &self.server.origin;
        document["auth"]["auth_url"] = json!(format!("{origin}/consent"));
        document["auth"]["token_url"] = json!(format!("{origin}/token"));
        for folder in ["tools", "tenants"] {
            std::fs::create_dir(world.path().join(folder)).unwrap();
        }
        std::fs::write(world.path().join("tools/google_calendar.json"), document.to_string()).unwrap();
        std::fs::write(world.path().join("client.id"), "a-client").unwrap();
        std::fs::write(world.path().join("client.secret"), "canary-4711-client").unwrap();
        self.tenant(&world, "default");
        world
    }

    pub(crate) fn tenant(&self, world: &World, name: &str) {
        let text = format!(
            "name = \"{name}\"\negress = [\"{0}\"]\n[tools.google_calendar.config]\napi_url = \"{0}\"\n\
             [tools.google_calendar.secrets]\nclient_id = {{ file = \"client.id\" }}\n\
             client_secret = {{ file = \"client.secret\" }}\n",
            self.server.origin
        );
        std::fs::write(world.path().join(format!("tenants/{name}.toml")), text).unwrap();
        let settings = world.path().join("dalsegno.toml");
        let before = std::fs::read_to_string(&settings).unwrap();
        let granted =
            format!("{before}\n[tenants.{name}]\nfile_prefixes = [\"client.id\", \"client.secret\"]\n");
        std::fs::write(settings, granted).unwrap();
    }

    /// Puts an event into the calendar.
    pub(crate) fn event(&self, event: Value) {
        let id = event["id"].as_str().unwrap().to_owned();
        self.known.lock().unwrap().events.insert(id, event);
    }

    pub(crate) fn events(&self) -> Vec<Value> {
        self.known.lock().unwrap().events.values().cloned().collect()
    }

    /// Lets the next calls of the token endpoint end like this.
    pub(crate) fn trouble(&self, said: impl IntoIterator<Item = Said>) {
        self.known.lock().unwrap().trouble.extend(said);
    }

    /// Makes the next event, and says nothing of it.
    pub(crate) fn lose_an_answer(&self) {
        self.known.lock().unwrap().loses = true;
    }

    /// Takes all access away, as a person does in the settings of the account.
    pub(crate) fn revoke(&self) {
        revoke(&mut self.known.lock().unwrap());
    }

    /// Ends all access tokens before their time.
    pub(crate) fn end_access(&self) {
        self.known.lock().unwrap().access.clear();
    }
}

fn revoke(known: &mut Known) {
    known.access.clear();
    known.refresh = None;
}

fn token(asked: &Asked, known: &mut Known, now: u64) -> Said {
    let form = asked.form();
    let field = |name: &str| form.get(name).map_or("", String::as_str);
    let refused = |error: &str| (400, json!({"error": error, "error_description": "Bad Request"}));
    if asked.method != "POST" || asked.header("authorization") != CLIENT {
        return (401, json!({"error": "invalid_client"}));
    }
    if !known.trouble.is_empty() {
        return known.trouble.remove(0);
    }
    match field("grant_type") {
        "authorization_code" => {
            let digest = challenge(field("code_verifier"));
            if field("code") != "a-code" || known.challenge.take() != Some(digest) {
                return refused("invalid_grant");
            }
        }
        "refresh_token" => {
            let given = field("refresh_token").to_owned();
            if known.used.contains(&given) {
                // A token that was used comes again: somebody else has it, too.
                revoke(known);
                return refused("invalid_grant");
            }
            if known.refresh.as_ref() != Some(&given) {
                return refused("invalid_grant");
            }
            known.used.insert(given);
        }
        _ => return refused("unsupported_grant_type"),
    }
    known.tokens += 1;
    let (access, refresh) =
        (format!("canary-4711-access-{}", known.tokens), format!("canary-4711-refresh-{}", known.tokens));
    known.access.insert(access.clone(), now + LIFETIME * 1_000);
    known.refresh = Some(refresh.clone());
    let scope = "https://www.googleapis.com/auth/calendar.events";
    (
        200,
        json!({"access_token": access, "expires_in": LIFETIME, "refresh_token": refresh, "scope": scope,
        "token_type": "Bearer"}),
    )
}

/// The challenge of a verifier: base64url of its SHA-256.
fn challenge(verifier: &str) -> String {
    let verifier = oauth2::PkceCodeVerifier::new(verifier.to_owned());
    oauth2::PkceCodeChallenge::from_code_verifier_sha256(&verifier).as_str().to_owned()
}

fn error(code: u16, reason: &str, message: &str) -> Said {
    let one = json!({"domain": "global", "reason": reason, "message": message});
    (code, json!({"error": {"errors": [one], "code": code, "message": message}}))
}

fn calendar(asked: &Asked, known: &mut Known, now: u64) -> Said {
    let token = asked.header("authorization").strip_prefix("Bearer ").unwrap_or_default();
    if known.access.get(token).is_none_or(|end| now >= *end) {
        return error(401, "authError", "Invalid Credentials");
    }
    let Some(rest) = asked.path.strip_prefix("/calendars/primary/events") else {
        return error(404, "notFound", "Not Found");
    };
    let id = rest.trim_start_matches('/').to_owned();
    match (asked.method.as_str(), id.is_empty()) {
        ("GET", true) => list(asked, known),
        ("POST", true) => insert(asked.json(), known),
        ("GET", false) => match known.events.get(&id) {
            Some(event) => (200, event.clone()),
            None => error(404, "notFound", "Not Found"),
        },
        ("PATCH", false) => match (known.events.get_mut(&id), asked.json()) {
            (Some(Value::Object(event)), Value::Object(changes)) => {
                event.extend(changes);
                (200, Value::Object(event.clone()))
            }
            _ => error(404, "notFound", "Not Found"),
        },
        ("DELETE", false) => match known.events.remove(&id) {
            Some(_) => (204, Value::Null),
            None => error(410, "deleted", "Resource has been deleted"),
        },
        _ => error(405, "httpMethodNotAllowed", "Method Not Allowed"),
    }
}

fn insert(event: Value, known: &mut Known) -> Said {
    let id = event["id"].as_str().unwrap_or_default().to_owned();
    let is_id = (5..=1024).contains(&id.len())
        && id.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'v').contains(&byte));
    if !is_id {
        return error(400, "invalid", "Invalid resource id value.");
    }
    if known.events.contains_key(&id) {
        return error(409, "duplicate", "The requested identifier already exists.");
    }
    let mut event = event;
    event["status"] = json!("confirmed");
    event["htmlLink"] = json!(format!("https://calendar.example/{id}"));
    known.events.insert(id, event.clone());
    match std::mem::take(&mut known.loses) {
        true => (HANG_UP, Value::Null),
        false => (200, event),
    }
}

fn list(asked: &Asked, known: &Known) -> Said {
    let bound = |name: &str| asked.query.get(name).map(|time| time.parse::<Timestamp>().unwrap());
    let (from, to) = (bound("timeMin"), bound("timeMax"));
    let at = |event: &Value, place: &str| {
        let time = event[place]["dateTime"].as_str().map(|time| time.parse::<Timestamp>().unwrap());
        let date = || format!("{}T00:00:00Z", event[place]["date"].as_str().unwrap()).parse().unwrap();
        time.unwrap_or_else(date)
    };
    // The lower bound is for the end, the upper one for the beginning, and neither is included.
    let mut found: Vec<&Value> = known
        .events
        .values()
        .filter(|event| from.is_none_or(|from| at(event, "end") > from))
        .filter(|event| to.is_none_or(|to| at(event, "start") < to))
        .filter(|event| {
            let words = asked.query.get("q").map(|words| words.to_lowercase());
            words.is_none_or(|words| event.to_string().to_lowercase().contains(&words))
        })
        .collect();
    found.sort_by_key(|event| at(event, "start"));
    let most: usize = asked.query.get("maxResults").map_or(250, |most| most.parse().unwrap());
    let people: Option<usize> = asked.query.get("maxAttendees").map(|most| most.parse().unwrap());
    let shown = found.into_iter().take(most).map(|event| {
        let mut event = event.clone();
        // Of an event with more people than that, only the one whose calendar it is is shown.
        if let (Some(most), Some(all)) = (people, event["attendees"].as_array_mut())
            && all.len() > most
        {
            all.retain(|one| one["self"] == true);
        }
        event
    });
    (200, json!({"kind": "calendar#events", "items": shown.collect::<Vec<_>>()}))
}

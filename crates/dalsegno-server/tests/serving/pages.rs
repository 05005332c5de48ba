//! The pages: who is let in, what a page shows to whom, and what a form can do.

use dalsegno_access::Scope;
use dalsegno_store::RunStatus;
use serde_json::json;

use crate::client::{Answer, Client};
use crate::world::{BUSY, WITHOUT_ANSWERS, World, settings};

/// A browser without a screen: it keeps the cookie, and says where its forms come from.
pub(crate) struct Browser {
    client: Client,
    host: String,
    pub(crate) cookie: String,
}

impl Browser {
    pub(crate) fn new(world: &World) -> Self {
        Self { client: world.without_key(), host: world.address.to_string(), cookie: String::new() }
    }

    /// One that is signed in with a key of a tenant.
    pub(crate) async fn with_key(world: &World, tenant: &str, scopes: &[Scope]) -> (Self, Client) {
        let key = world.client(tenant, scopes);
        let mut browser = Self::new(world);
        let secret = key.key.clone().unwrap();
        let answer = browser.submit("/sign-in", &[("key", &secret), ("next", "/inbox")]).await;
        assert_eq!(
            (answer.status, answer.header("location").as_deref()),
            (303, Some("/inbox")),
            "{answer:?}"
        );
        browser.take_cookie(&answer);
        (browser, key)
    }

    /// One that is signed in with the link that the server prints.
    pub(crate) async fn with_link(world: &World) -> Self {
        let mut browser = Self::new(world);
        let answer = browser.get(path(&world.sign_in)).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        browser.take_cookie(&answer);
        browser
    }

    fn take_cookie(&mut self, answer: &Answer) {
        let set = answer.header("set-cookie").unwrap();
        let port = self.host.rsplit_once(':').unwrap().1;
        assert!(set.starts_with(&format!("__Host-dalsegno-{port}=")), "{set}");
        for part in ["Path=/", "Secure", "HttpOnly", "SameSite=Strict"] {
            assert!(set.split("; ").any(|one| one == part), "{set}");
        }
        self.cookie = set.split(';').next().unwrap().to_owned();
    }

    pub(crate) async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Answer {
        let mut all = vec![("host", self.host.as_str()), ("accept", "text/html")];
        if !self.cookie.is_empty() {
            all.push(("cookie", &self.cookie));
        }
        all.extend(headers);
        self.client.send(method, path, &all, body.as_bytes()).await
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[], "").await
    }

    /// Sends a form from a page of this server.
    pub(crate) async fn submit(&self, path: &str, fields: &[(&str, &str)]) -> Answer {
        self.submit_from(Some(&format!("http://{}", self.host)), path, fields).await
    }

    async fn submit_from(&self, origin: Option<&str>, path: &str, fields: &[(&str, &str)]) -> Answer {
        let body = form(fields);
        let mut headers = vec![("content-type", "application/x-www-form-urlencoded")];
        headers.extend(origin.map(|origin| ("origin", origin)));
        self.send("POST", path, &headers, &body).await
    }
}

fn form(fields: &[(&str, &str)]) -> String {
    let encode = |text: &str| text.bytes().map(|byte| format!("%{byte:02x}")).collect::<String>();
    fields.iter().map(|(name, value)| format!("{name}={}", encode(value))).collect::<Vec<_>>().join("&")
}

pub(crate) fn path(address: &str) -> &str {
    let (_, rest) = address.split_once("://").unwrap();
    &rest[rest.find('/').unwrap()..]
}

pub(crate) fn is_sign_in(answer: &Answer) -> bool {
    answer.status == 401 && answer.text.contains("name=\"key\"")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_another_site_sends_with_the_cookie_is_refused() {
    let world = World::new().await;
    let browser = Browser::with_link(&world).await;
    let run = world.all("*").start("pay", "10").await;
    let id = run["run_id"].as_str().unwrap();
    let waits = &run["waiting_for"][0];
    let (operation, shown) = (waits["operation"].as_str().unwrap(), waits["shown"].as_str().unwrap());
    let fields = [("operation", operation), ("shown", shown), ("do", "approve")];
    let (other_port, other_scheme) = ("http://127.0.0.1:1".to_owned(), format!("https://{}x", browser.host));
    for origin in [None, Some("null"), Some("https://evil.example"), Some(&*other_port), Some(&*other_scheme)]
    {
        for path in ["answers", "fork", "cancel"] {
            let answer = browser.submit_from(origin, &format!("/runs/{id}/{path}"), &fields).await;
            assert_eq!(answer.status, 403, "{origin:?} {path} {answer:?}");
        }
        assert_eq!(browser.submit_from(origin, "/sign-out", &[]).await.status, 403);
        let key = [("key", "dalsegno_x")];
        assert_eq!(Browser::new(&world).submit_from(origin, "/sign-in", &key).await.status, 403);
        // The API takes the cookie by the same rule.
        let mut headers = vec![("content-type", "application/json")];
        headers.extend(origin.map(|origin| ("origin", origin)));
        let answer = browser.send("POST", &format!("/v1/runs/{id}/cancel"), &headers, "{}").await;
        answer.is_problem(403, "forbidden");
    }
    let summary = world.engine.journal().summary(id.parse().unwrap()).await.unwrap();
    assert_eq!((summary.status, world.runs().await), (RunStatus::Suspended, 1), "nothing has happened");
    // What only reads needs no origin: an `EventSource` sends none.
    assert_eq!(browser.get(&format!("/v1/runs/{id}")).await.status, 200);
    let own = format!("http://{}", browser.host);
    let headers = [("content-type", "application/json"), ("origin", own.as_str())];
    assert_eq!(browser.send("POST", &format!("/v1/runs/{id}/cancel"), &headers, "{}").await.status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_page_says_what_a_browser_may_do_with_it() {
    let world = World::new().await;
    let browser = Browser::with_link(&world).await;
    for path in ["/runs", "/inbox", "/diff", "/sign-in", "/runs/0", "/nothing-here", "/runs?status=x"] {
        let answer = browser.get(path).await;
        let policy = answer.header("content-security-policy").unwrap_or_default();
        for part in
            ["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "trusted-types 'none'"]
        {
            assert!(policy.contains(part), "{path}: {policy}");
        }
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(answer.header("referrer-policy").as_deref(), Some("same-origin"), "{path}");
        assert_eq!(answer.header("x-content-type-options").as_deref(), Some("nosniff"), "{path}");
        assert_eq!(answer.header("cache-control").as_deref(), Some("no-store"), "{path}");
        assert!(answer.header("content-type").unwrap().starts_with("text/html"), "{path}");
        // Nothing in a page is a script or a style of its own, and nothing comes from elsewhere.
        let text = &answer.text;
        assert!(!text.contains("style=\"") && !text.contains("<style"), "{path}: {text}");
        assert!(
            !text.split_whitespace().any(|word| word.starts_with("on") && word.contains('=')),
            "{path}: {text}"
        );
        let scripts: Vec<_> = text.match_indices("<script").collect();
        assert_eq!(scripts.len(), text.matches("<script type=\"module\" src=\"/assets/").count());
    }
    let asset = browser.get(&format!("/assets/{}/style.css", version(&browser.get("/runs").await))).await;
    assert_eq!(asset.header("cache-control").as_deref(), Some("public, max-age=31536000, immutable"));
    assert_eq!(
        browser.get("/assets/other/main.js").await.header("cache-control").as_deref(),
        Some("no-store")
    );
    assert_eq!(browser.get("/assets/other/..%2fmain.js").await.status, 404);
    assert_eq!(Browser::new(&world).get("/").await.header("location").as_deref(), Some("/runs"));
    // A program that is no browser gets what it always got.
    world.all("*").get("/nothing-here").await.is_problem(404, "not_found");
}

fn version(answer: &Answer) -> &str {
    let (_, rest) = answer.text.split_once("/assets/").unwrap();
    rest.split_once('/').unwrap().0
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_of_another_tenant_is_the_page_of_one_that_does_not_exist() {
    let world = World::new().await;
    let (acme, key) = Browser::with_key(&world, "acme", Scope::ALL).await;
    let theirs = world.all("rival").start("pay", "RIVAL-ONLY").await;
    world.all("rival").start("pay", "RIVAL-ONLY").await;
    let (id, unknown) = (theirs["run_id"].as_str().unwrap(), "5a".repeat(16));
    let waits = &theirs["waiting_for"][0];
    let (operation, shown) = (waits["operation"].as_str().unwrap(), waits["shown"].as_str().unwrap());
    let own = key.start("echo", "ours").await;
    let own = own["run_id"].as_str().unwrap();
    let mut seen = Vec::new();
    for run in [id, unknown.as_str()] {
        let mut answers = Vec::new();
        for path in ["", "/steps/1", "/steps/end", "/replay", "/fork", &format!("/fork?op={operation}")] {
            answers.push(acme.get(&format!("/runs/{run}{path}")).await);
        }
        answers.push(acme.get(&format!("/diff?left={own}&right={run}")).await);
        answers.push(acme.get(&format!("/diff?left={run}")).await);
        answers.push(acme.submit(&format!("/runs/{run}/fork"), &[("at", "1")]).await);
        answers.push(acme.submit(&format!("/runs/{run}/cancel"), &[]).await);
        let fields = [("operation", operation), ("shown", shown), ("do", "approve")];
        answers.push(acme.submit(&format!("/runs/{run}/answers"), &fields).await);
        let seen_of: Vec<_> = answers.iter().map(|one| (one.status, one.text.replace(run, "RUN"))).collect();
        seen.push(seen_of);
    }
    assert_eq!(seen[0], seen[1]);
    for (place, (status, _)) in seen[0].iter().enumerate() {
        assert_eq!(*status, if place == 6 || place == 7 { 200 } else { 404 }, "{place}");
    }
    for path in ["/runs", "/runs?tenant=rival", "/inbox", "/diff", &format!("/diff?left={}", &id[..8])] {
        let text = acme.get(path).await.text;
        assert!(!text.contains("RIVAL-ONLY") && !text.contains(id), "{path}: {text}");
    }
    let summary = world.engine.journal().summary(id.parse().unwrap()).await.unwrap();
    assert_eq!(summary.status, RunStatus::Suspended);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_scope_there_is_no_form_and_its_request_is_refused() {
    let world = World::new().await;
    let (reader, key) = Browser::with_key(&world, "acme", WITHOUT_ANSWERS).await;
    let run = key.start("pay", "10").await;
    let id = run["run_id"].as_str().unwrap();
    let waits = &run["waiting_for"][0];
    let (operation, shown) = (waits["operation"].as_str().unwrap(), waits["shown"].as_str().unwrap());
    for path in [format!("/runs/{id}"), "/inbox".to_owned()] {
        let text = reader.get(&path).await.text;
        assert!(text.contains("May bills.pay be called?") && text.contains("answers:write"), "{text}");
        assert!(!text.contains("value=\"approve\"") && !text.contains("name=\"shown\""), "{text}");
    }
    let fields = [("operation", operation), ("shown", shown), ("do", "approve")];
    assert_eq!(reader.submit(&format!("/runs/{id}/answers"), &fields).await.status, 403);
    // An outcome may be a person's answer.
    assert_eq!(reader.get(&format!("/runs/{id}/fork?op={operation}")).await.status, 403);
    let outcome = json!({ "outcome": { "tool_returned": { "text": "paid" } } }).to_string();
    let fields = [("op", operation), ("outcome", outcome.as_str())];
    assert_eq!(reader.submit(&format!("/runs/{id}/fork"), &fields).await.status, 403);
    // Who may only list sees no content.
    let (lister, _) = Browser::with_key(&world, "acme", &[Scope::RunsList]).await;
    let text = lister.get("/runs").await.text;
    assert!(text.contains(id) && !text.contains("<span class=\"asked\">10</span>"), "{text}");
    for path in
        [format!("/runs/{id}"), "/inbox".to_owned(), format!("/runs/{id}/steps/1"), "/diff".to_owned()]
    {
        assert_eq!(lister.get(&path).await.status, 403, "{path}");
    }
    let summary = world.engine.journal().summary(id.parse().unwrap()).await.unwrap();
    assert_eq!((summary.status, world.runs().await), (RunStatus::Suspended, 1));
}

/// The value of a hidden field of a page.
fn hidden(page: &str, name: &str) -> String {
    let (_, rest) =
        page.split_once(&format!("name=\"{name}\" value=\"")).unwrap_or_else(|| panic!("{name}: {page}"));
    rest.split_once('"').unwrap().0.to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_asks_a_person_while_it_is_performed_says_so_on_every_page() {
    let world = World::with_files(settings(), &[("agents/busy.toml", BUSY)]).await;
    let (browser, acme) = Browser::with_key(&world, "acme", Scope::ALL).await;
    let run = acme.post("/v1/runs", &json!({ "agent": "busy", "text": "20 EUR" })).await.json();
    while acme.get("/v1/inbox").await.json()["items"].as_array().unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    let runs = browser.get("/runs").await.text;
    assert!(runs.contains("needs approval"), "{runs}");
    for path in [format!("/runs/{}", run["run_id"].as_str().unwrap()), "/inbox".to_owned()] {
        let page = browser.get(&path).await.text;
        assert!(page.contains("bills.pay") && page.contains("Approve"), "{path}: {page}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_is_approved_with_edited_arguments_through_the_form() {
    let world = World::new().await;
    let (browser, key) = Browser::with_key(&world, "acme", Scope::ALL).await;
    let run = key.start("pay", "<img src=x onerror=alert(1)>").await;
    let id = run["run_id"].as_str().unwrap();
    let page = browser.get("/inbox").await.text;
    assert!(page.contains("&lt;img src=x onerror=alert(1)&gt;") && !page.contains("<img"), "{page}");
    let (operation, shown) = (hidden(&page, "operation"), hidden(&page, "shown"));
    let answers = format!("/runs/{id}/answers");
    let answer = async |arguments: &str, shown: &str| {
        let fields = [
            ("operation", operation.as_str()),
            ("shown", shown),
            ("arguments", arguments),
            ("reason", "a small one"),
            ("do", "approve"),
            ("back", "//evil.example"),
        ];
        browser.submit(&answers, &fields).await
    };
    let broken = answer("{ \"amount\": ", &shown).await;
    assert_eq!(broken.status, 422, "{broken:?}");
    assert!(
        broken.text.contains("The arguments are not JSON") && broken.text.contains("a small one"),
        "{broken:?}"
    );
    assert_eq!(answer("{}", "0000000000000000").await.status, 409);
    let done = answer("{ \"amount\": \"5\" }", &shown).await;
    assert_eq!((done.status, done.header("location").as_deref()), (303, Some("/runs")), "{done:?}");
    let shown_run = key.get(&format!("/v1/runs/{id}?wait=30")).await.json();
    assert_eq!(shown_run["status"], "completed", "{shown_run}");
    let events = key.get(&format!("/v1/runs/{id}/events")).await.text;
    assert!(events.contains("a small one") && events.contains("\"amount\":\"5\""), "{events}");
    assert!(events.contains(&format!("key {}", key.id)), "who approved: {events}");
    let step = browser.get(&format!("/runs/{id}/steps/1")).await.text;
    assert!(step.contains("put here by the person who approved the call"), "{step}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_is_answered_and_a_wrong_answer_comes_back_to_be_corrected() {
    let world = World::new().await;
    let (browser, key) = Browser::with_key(&world, "acme", Scope::ALL).await;
    let run = key.start("ask", "x").await;
    let id = run["run_id"].as_str().unwrap();
    let page = browser.get(&format!("/runs/{id}")).await.text;
    let (operation, shown) = (hidden(&page, "operation"), hidden(&page, "shown"));
    let answers = format!("/runs/{id}/answers");
    for (value, status) in [("many", 422), ("1.5", 422), ("7", 303)] {
        let fields = [
            ("operation", &*operation),
            ("shown", &shown),
            ("value", value),
            ("do", "value"),
            ("back", "/inbox"),
        ];
        let answer = browser.submit(&answers, &fields).await;
        assert_eq!(answer.status, status, "{value}: {answer:?}");
        if status == 303 {
            assert_eq!(answer.header("location").as_deref(), Some("/inbox?done=recorded"));
        } else {
            assert!(answer.text.contains(&format!("value=\"{value}\"")), "{answer:?}");
        }
    }
    let ended = key.get(&format!("/v1/runs/{id}?wait=30")).await.json();
    assert_eq!(ended["answer"], "7 then");
    // The form once more, as from an old page.
    let fields = [("operation", &*operation), ("shown", &shown), ("value", "8"), ("do", "value")];
    assert_eq!(browser.submit(&answers, &fields).await.status, 409);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_is_forked_with_an_edited_outcome_and_compared_with_its_fork() {
    let world = World::new().await;
    let (browser, key) = Browser::with_key(&world, "acme", Scope::ALL).await;
    let run = key.start("ask", "x").await;
    let id = run["run_id"].as_str().unwrap();
    let waits = &run["waiting_for"][0];
    let body = json!({ "operation": waits["operation"], "answer": { "value": 7 } });
    assert_eq!(key.post(&format!("/v1/runs/{id}/answers"), &body).await.status, 200);
    key.get(&format!("/v1/runs/{id}?wait=30")).await;
    let operation = waits["operation"].as_str().unwrap();
    let form = browser.get(&format!("/runs/{id}/fork?op={operation}")).await;
    assert!(
        form.text.contains("&quot;input_given&quot;: 7") || form.text.contains("&#34;input_given&#34;: 7"),
        "{form:?}"
    );
    let fork = async |outcome: &str| {
        browser.submit(&format!("/runs/{id}/fork"), &[("op", operation), ("outcome", outcome)]).await
    };
    for wrong in ["{", "{ \"outcome\": { \"tool_returned\": 3 } }"] {
        let answer = fork(wrong).await;
        assert_eq!(answer.status, 422, "{answer:?}");
        assert!(answer.text.contains("role=\"alert\""), "{answer:?}");
    }
    let answer = fork("{ \"outcome\": { \"input_given\": 8 } }").await;
    assert_eq!(answer.status, 303, "{answer:?}");
    let place = answer.header("location").unwrap();
    let forked = place.strip_prefix("/runs/").unwrap().to_owned();
    let ended = key.get(&format!("/v1/runs/{forked}?wait=30")).await.json();
    assert_eq!(ended["answer"], "8 then", "{ended}");
    let page = browser.get(&place).await.text;
    assert!(page.contains("Forked from") && page.contains("1 outcome replaced"), "{page}");
    let diff = browser.get(&format!("/diff?left={id}&right={forked}")).await.text;
    assert!(diff.contains("First difference, in step 1") && diff.contains("<del>7</del>"), "{diff}");
    assert!(diff.contains("<ins>8</ins>"), "{diff}");
    let same = browser.get(&format!("/diff?left={id}&right={}", &id[..8])).await.text;
    assert!(same.contains("Both runs asked for the same"), "{same}");
    let replay = browser.get(&format!("/runs/{id}/replay")).await.text;
    assert!(replay.contains("Identical"), "{replay}");
    let forked_at = browser.submit(&format!("/runs/{id}/fork"), &[("at", "99")]).await;
    assert_eq!(forked_at.status, 422, "{forked_at:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_step_that_is_not_there_and_filters_that_are_none_are_pages_that_say_so() {
    let world = World::new().await;
    let (browser, key) = Browser::with_key(&world, "acme", Scope::ALL).await;
    let run = key.start("ask", "x").await;
    let id = run["run_id"].as_str().unwrap();
    for (path, status) in [
        (format!("/runs/{id}/steps/9"), 404),
        (format!("/runs/{id}/steps/x"), 404),
        (format!("/runs/{id}/steps/end"), 404),
        (format!("/runs/{id}/steps/1?why=x"), 400),
        (format!("/runs/{id}?from=x"), 400),
        (format!("/runs/{id}?from=99999999999"), 200),
        (format!("/runs/{id}?from=end"), 200),
        ("/runs?cursor=x".to_owned(), 400),
        ("/runs?nothing=1".to_owned(), 400),
        ("/runs?status=lost".to_owned(), 200),
        ("/runs?agent=No+Name".to_owned(), 200),
        ("/inbox?kind=x".to_owned(), 400),
        ("/diff?left=zz&right=".to_owned(), 200),
    ] {
        let answer = browser.get(&path).await;
        assert_eq!(answer.status, status, "{path}: {answer:?}");
        assert!(answer.text.starts_with("<!doctype html>"), "{path}: {answer:?}");
    }
    assert_eq!(browser.send("DELETE", "/runs", &[], "").await.status, 405);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_erased_is_on_no_page_that_was_looked_at_before() {
    let world = World::new().await;
    let (browser, key) = Browser::with_key(&world, "acme", Scope::ALL).await;
    for whole in [true, false] {
        let run = key.start("ask", "SECRET-TEXT").await;
        let id = run["run_id"].as_str().unwrap();
        let operation = run["waiting_for"][0]["operation"].as_str().unwrap();
        let body = json!({ "answer": { "value": 424_242 } });
        assert_eq!(key.post(&format!("/v1/runs/{id}/answers"), &body).await.status, 200);
        key.get(&format!("/v1/runs/{id}?wait=30")).await;
        let pages =
            [format!("/runs/{id}"), format!("/runs/{id}/steps/1"), format!("/runs/{id}/fork?op={operation}")];
        let has = |page: &Answer| page.text.contains("424242") || page.text.contains("SECRET-TEXT");
        for page in &pages {
            assert!(has(&browser.get(page).await), "{page}");
        }
        let only = (!whole).then(|| operation.parse().unwrap());
        world.engine.journal().erase(id.parse().unwrap(), only).await.unwrap();
        // The answer of the run is in a record of its own.
        for page in &pages[usize::from(!whole)..] {
            let text = browser.get(page).await.text;
            assert!(!text.contains("424242") && (!whole || !text.contains("SECRET-TEXT")), "{page}: {text}");
        }
    }
}

const AGENT: &str = "name = \"echo\"\n[[steps]]\nrespond = \"Now: {{request.text}}\"\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_document_is_checked_saved_over_a_version_that_was_seen_and_uncovered_by_forms() {
    let world = World::new().await;
    let (browser, key) = Browser::with_key(&world, "*", Scope::ALL).await;
    let first = browser.get("/agents/echo").await.text;
    assert!(first.contains("a file of the workspace") && !first.contains("value=\"delete\""), "{first}");
    let seen = hidden(&first, "version");
    let send = async |what: &str, version: &str, text: &str| {
        browser.submit("/agents/echo", &[("version", version), ("text", text), ("do", what)]).await
    };
    let broken = AGENT.replace("respond", "answers");
    let checked = send("check", &seen, &broken).await;
    assert_eq!(checked.status, 200, "{checked:?}");
    assert!(checked.text.contains("<mark class=\"error\">answers</mark>"), "{checked:?}");
    assert!(checked.text.contains("it cannot be saved so") && checked.text.contains("line 3"), "{checked:?}");
    let refused = send("save", &seen, &broken).await;
    assert!(refused.status == 422 && refused.text.contains("answers ="), "{refused:?}");
    let saved = send("save", &seen, AGENT).await;
    assert_eq!(saved.header("location").as_deref(), Some("/agents/echo?done=saved"), "{saved:?}");
    assert_eq!(key.start("echo", "x").await["answer"], "Now: x");
    // Another window has the version from before: it learns who changed what, and keeps what was typed.
    let other = AGENT.replace("Now", "Mine");
    let stale = send("save", &seen, &other).await;
    assert_eq!(stale.status, 412, "{stale:?}");
    assert!(stale.text.contains("Mine: ") && stale.text.contains(&format!("key {}", key.id)), "{stale:?}");
    assert!(stale.text.contains("<del>- respond"), "{stale:?}");
    assert_eq!(key.start("echo", "x").await["answer"], "Now: x", "nothing was written");
    let over = hidden(&stale.text, "version");
    assert_eq!(send("save", &over, &other).await.status, 303);
    let third = browser.get("/agents/echo").await.text;
    assert!(third.contains("/versions/") && third.contains("value=\"delete\""), "{third}");
    // The version that was there between them can be read.
    let earlier = browser.get(&format!("/agents/echo/versions/{over}")).await;
    assert!(earlier.status == 200 && earlier.text.contains("Now: "), "{earlier:?}");
    assert!(!earlier.text.contains("<textarea"), "{earlier:?}");
    assert_eq!(send("delete", &over, "").await.status, 412);
    let deleted = send("delete", &hidden(&third, "version"), "").await;
    assert_eq!(deleted.header("location").as_deref(), Some("/agents/echo?done=uncovered"), "{deleted:?}");
    assert_eq!(key.start("echo", "x").await["answer"], "You said: x");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_session_may_not_do_with_documents_is_not_shown_and_is_refused() {
    let world = World::new().await;
    let link = Browser::with_link(&world).await;
    let page = link.get("/agents/echo").await.text;
    assert!(page.contains("You said:") && !page.contains("<textarea") && !page.contains("value=\"save\""));
    let fields = [("version", ""), ("text", AGENT), ("do", "save")];
    assert_eq!(link.submit("/agents/echo", &fields).await.status, 403);
    assert_eq!(link.get("/agents/none").await.status, 404);
    assert!(!link.get("/agents").await.text.contains("name=\"open\""));
    // The documents that all tenants share are no business of a tenant, and those of another one are not there.
    let (acme, key) = Browser::with_key(&world, "acme", Scope::ALL).await;
    assert_eq!(acme.get("/agents/echo").await.status, 403);
    assert_eq!(acme.submit("/agents/echo", &fields).await.status, 403);
    let tool = json!({ "name": "till", "actions": [{ "name": "say", "description": "RIVAL-ONLY",
        "actions": [{ "type": "respond", "message": "x" }] }] })
    .to_string();
    let rival = world.all("rival");
    let put = rival.put("/v1/tenants/rival/tools/till", "json", ("if-none-match", "*"), &tool).await;
    assert_eq!(put.status, 201, "{put:?}");
    let seen: Vec<_> = ["rival", "nobody"].map(|tenant| format!("/tenants/{tenant}/tools/till")).to_vec();
    let mut answers = Vec::new();
    for path in &seen {
        let one = acme.get(path).await;
        answers.push((one.status, one.text));
        let one = acme.submit(path, &[("version", ""), ("text", &tool), ("do", "save")]).await;
        answers.push((one.status, one.text));
    }
    assert_eq!(answers[..2], answers[2..]);
    assert_eq!(answers[0].0, 404);
    for path in ["/tools", "/tenants", "/agents"] {
        let text = acme.get(path).await.text;
        assert!(!text.contains("rival") && !text.contains("till"), "{path}: {text}");
    }
    assert!(rival.get("/v1/tenants/rival/tools/till").await.text.contains("RIVAL-ONLY"));
    // Who may write and not read does not read by writing.
    let (writer, _) = Browser::with_key(&world, "*", &[Scope::RunsList, Scope::AgentsWrite]).await;
    let answer = writer.submit("/agents/echo", &[("version", ""), ("text", "x"), ("do", "check")]).await;
    assert!(answer.status == 403 && !answer.text.contains("You said"), "{answer:?}");
    for origin in [None, Some("https://evil.example")] {
        let (operator, _) = Browser::with_key(&world, "*", Scope::ALL).await;
        assert_eq!(operator.submit_from(origin, "/agents/echo", &fields).await.status, 403);
    }
    drop(key);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_is_begun_tried_before_it_is_saved_and_hostile_text_stays_text() {
    let world = World::new().await;
    let (browser, _) = Browser::with_key(&world, "*", Scope::ALL).await;
    let opened = browser.get("/tools?open=till").await;
    assert_eq!(opened.header("location").as_deref(), Some("/tools/till"), "{opened:?}");
    assert!(browser.get("/tools?open=No%20Name").await.text.contains("is no name"));
    let page = browser.get("/tools/till").await.text;
    assert!(page.contains("Not written yet"), "{page}");
    let text =
        json!({ "name": "till", "actions": [{ "name": "say", "description": "</textarea><script>1</script>",
        "parameters": [{ "name": "words", "type": "string", "required": true }],
        "actions": [{ "type": "respond", "message": "{{params.words}}" }] }] })
        .to_string();
    let send = async |what: &str, params: &str| {
        let fields = [
            ("version", ""),
            ("text", &*text),
            ("action", "say"),
            ("params", params),
            ("tenant", "acme"),
            ("do", what),
        ];
        browser.submit("/tools/till", &fields).await
    };
    let tried = send("try", "{ \"words\": \"<img src=x>\" }").await;
    assert!(tried.status == 200 && tried.text.contains("Outcome"), "{tried:?}");
    assert!(tried.text.contains("&lt;img src=x&gt;") && !tried.text.contains("<img"), "{tried:?}");
    assert!(!tried.text.contains("<script>1"), "{tried:?}");
    let wrong = send("try", "{").await;
    assert!(wrong.text.contains("The text of the arguments is not JSON"), "{wrong:?}");
    // A new document is one that has no errors.
    let start = browser.get("/agents/fresh").await.text;
    let (_, rest) = start.split_once("name=\"text\"").unwrap();
    let (_, rest) = rest.split_once('>').unwrap();
    let begun =
        rest.split_once("</textarea>").unwrap().0.trim_start().replace("&#34;", "\"").replace("&quot;", "\"");
    let saved = browser.submit("/agents/fresh", &[("version", ""), ("text", &begun), ("do", "save")]).await;
    assert_eq!(saved.status, 303, "{saved:?}");
    assert_eq!(send("save", "").await.status, 303);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_name_the_stream_that_misses_nothing_after_them_and_keep_their_filters() {
    let world = World::new().await;
    let (browser, key) = Browser::with_key(&world, "acme", Scope::ALL).await;
    let page = browser.get("/runs?agent=echo&status=running&root=true").await.text;
    let part = |name: &str| {
        let (_, rest) = page.split_once(&format!("data-{name}=\"")).unwrap();
        rest.split_once('"').unwrap().0.replace("&amp;", "&").replace("&#38;", "&")
    };
    // A run that has left a status has to be seen as well.
    assert_eq!(part("stream"), "/v1/runs?agent=echo&root=true");
    let (other, run) = (key.start("ask", "x").await, key.start("echo", "x").await);
    let mut stream = key.follow(&format!("{}&after={}", part("stream"), part("after")), None).await;
    let event = stream.next().await.unwrap();
    assert!(event.data.contains(run["run_id"].as_str().unwrap()), "{event:?}");
    assert!(!event.data.contains(other["run_id"].as_str().unwrap()), "{event:?}");
    // Without the scope of the stream there is none, and a page that is not the first one does not change.
    let (reader, _) = Browser::with_key(&world, "acme", &[Scope::RunsRead]).await;
    assert!(!reader.get("/inbox").await.text.contains("data-stream"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_conversation_is_one_session_and_a_message_is_sent_once_however_often_its_form_is() {
    let world = World::new().await;
    let (browser, key) = Browser::with_key(&world, "acme", Scope::ALL).await;
    let page = browser.get("/chat?agent=echo").await.text;
    let once = hidden(&page, "key");
    let say = async |agent: &str, session: &str, once: &str, text: &str| {
        browser
            .submit("/chat", &[("agent", agent), ("session", session), ("key", once), ("text", text)])
            .await
    };
    let first = say("echo", "", &once, "<i>one</i>").await;
    assert_eq!(first.status, 303, "{first:?}");
    assert_eq!(say("echo", "", &once, "<i>one</i>").await.header("location"), first.header("location"));
    assert_eq!(world.runs().await, 1, "the form was sent twice");
    let place = first.header("location").unwrap();
    let page = browser.get(&place).await.text;
    let session = hidden(&page, "session");
    assert!(!session.is_empty() && !page.contains("<i>"), "{page}");
    let second = say("echo", &session, &hidden(&page, "key"), "two").await;
    assert_eq!(second.header("location").as_deref(), Some(&*place), "{second:?}");
    let runs = key.get(&format!("/v1/runs?session={session}")).await.json();
    assert_eq!(runs["items"].as_array().unwrap().len(), 2, "{runs}");
    // What cannot be sent comes back, with what was typed.
    for (agent, text, status) in
        [("none", "kept words", 422), ("No Name", "kept words", 422), ("echo", " ", 422)]
    {
        let refused = say(agent, &session, "", text).await;
        assert_eq!(refused.status, status, "{refused:?}");
        assert!(refused.text.contains("was not sent") && refused.text.contains(text), "{refused:?}");
    }
    // A tenant reads no session of another one by its name, and starts no run there.
    let (rival, _) = Browser::with_key(&world, "rival", Scope::ALL).await;
    let theirs = rival.get(&format!("/chat?agent=echo&session={session}&tenant=acme")).await.text;
    assert!(!theirs.contains("You said"), "{theirs}");
    rival.submit("/chat", &[("agent", "echo"), ("tenant", "acme"), ("text", "x")]).await;
    let runs = key.get("/v1/runs").await.json();
    assert_eq!(runs["items"].as_array().unwrap().len(), 2, "{runs}");
    let (reader, _) = Browser::with_key(&world, "acme", &[Scope::RunsList, Scope::RunsRead]).await;
    assert_eq!(reader.get("/chat?agent=echo").await.status, 403);
    assert!(!reader.get("/runs").await.text.contains("/chat"));
    assert_eq!(reader.submit("/chat", &[("agent", "echo"), ("text", "x")]).await.status, 403);
    assert_eq!(browser.submit_from(None, "/chat", &[("agent", "echo"), ("text", "x")]).await.status, 403);
}

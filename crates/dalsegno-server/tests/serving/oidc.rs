//! Tokens of an identity provider, and its accounts for the pages: over real sockets, with a provider that signs.

use std::collections::BTreeMap;

use dalsegno_core::RunId;
use dalsegno_workspace::{OidcSettings, OidcSignIn, OidcTenant, SecretRef, ServeSettings};
use serde_json::{Value, json};

use crate::client::{Answer, Client};
use crate::issuer::{AUDIENCE, CLIENT, Grant, SECRET, SigningKey, TestIssuer, hmac, now};
use crate::world::{World, settings};

/// The settings of a server that accepts the tokens of a provider.
fn accepts(provider: &TestIssuer, sign_in: Option<OidcSignIn>) -> ServeSettings {
    let scopes: [(&str, &[&str]); 4] = [
        ("reader", &["runs:list", "runs:read"]),
        ("writer", &["runs:write"]),
        ("approver", &["answers:write"]),
        ("auditor", &["metrics:read"]),
    ];
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    let oidc = OidcSettings {
        issuer: provider.name.clone(),
        audience: [AUDIENCE.to_owned()].into(),
        algorithms: ["EdDSA".to_owned()].into(),
        tenant: OidcTenant::Claim { claim: "org".to_owned(), tenants: None },
        scopes_claim: "realm_access.roles".to_owned(),
        scopes: scopes.into_iter().map(|(role, scopes)| (role.to_owned(), words(scopes))).collect(),
        name_claim: "email".to_owned(),
        addresses: Default::default(),
        sign_in,
    };
    ServeSettings { oidc: Some(oidc), ..settings() }
}

async fn world(provider: &TestIssuer) -> World {
    World::with(accepts(provider, None)).await
}

fn with(world: &World, token: &str) -> Client {
    Client { key: Some(token.to_owned()), ..world.without_key() }
}

/// What a client can see of an answer, but for the time of day.
fn seen(answer: &Answer) -> (u16, String, String) {
    let head: Vec<&str> = answer.head.lines().filter(|line| !line.starts_with("date:")).collect();
    (answer.status, head.join("\n"), answer.text.clone())
}

fn roles(roles: &[&str]) -> Value {
    json!({ "realm_access": { "roles": roles } })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_is_an_access_of_its_tenant_with_the_scopes_of_its_roles() {
    let key = SigningKey::ed("one");
    let provider = TestIssuer::new(&[&key]).await;
    let world = world(&provider).await;
    assert_eq!(provider.state().asked, 0, "nothing is sent before there is a token");
    let ada = with(&world, &key.token(&provider.claims()));
    let run = ada.start("echo", "ours").await;
    assert_eq!((run["tenant"].as_str(), run["status"].as_str()), (Some("acme"), Some("completed")));
    let path = format!("/v1/runs/{}", run["run_id"].as_str().unwrap());
    assert_eq!(ada.get(&path).await.json()["answer"], "You said: ours");
    // A key of the same tenant sees the same, and keys are as good as before.
    assert_eq!(world.all("acme").get(&path).await.json(), ada.get(&path).await.json());
    ada.delete(&path, ("prefer", "x")).await.is_problem(403, "forbidden");
    ada.get("/v1/agents").await.is_problem(403, "forbidden");
    let body = json!({ "agent": "echo", "tenant": "rival" });
    ada.post("/v1/runs", &body).await.is_problem(403, "forbidden");
    let reader = with(&world, &key.token(&provider.claims_with(roles(&["reader"]))));
    let refused = reader.post("/v1/runs", &json!({ "agent": "echo" })).await;
    let told = refused.is_problem(403, "forbidden").json();
    assert_eq!(told["detail"], "the token does not give the scope `runs:write`");
    assert_eq!(reader.get(&path).await.status, 200);
    for nothing in
        [roles(&[]), roles(&["runs:read", "runs:write", "*", "admin"]), json!({ "realm_access": null })]
    {
        let none = with(&world, &key.token(&provider.claims_with(nothing)));
        none.get("/v1/runs").await.is_problem(403, "forbidden");
    }
    // Metrics are of all tenants, and its scope does not change that.
    let auditor = with(&world, &key.token(&provider.claims_with(roles(&["auditor"]))));
    auditor.get("/metrics").await.is_problem(403, "forbidden");
    assert_eq!(provider.state().asked, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_tenants_never_see_each_others_runs_by_token() {
    const MARK: &str = "RIVAL-ONLY";
    let key = SigningKey::ed("one");
    let provider = TestIssuer::new(&[&key]).await;
    let world = world(&provider).await;
    let all = ["reader", "writer", "approver"];
    let of = |org: &str| {
        let claims = json!({ "org": org, "realm_access": { "roles": all } });
        with(&world, &key.token(&provider.claims_with(claims)))
    };
    let (acme, rival) = (of("acme"), of("rival"));
    let waits = rival.start("pay", MARK).await;
    let id = waits["run_id"].as_str().unwrap();
    let one = &waits["waiting_for"][0];
    let approve =
        json!({ "operation": one["operation"], "shown": one["shown"], "answer": { "approve": {} } });
    let unknown = RunId::from_bytes([0x5a; 16]).to_string();
    for (path, body) in [
        ("", None),
        ("/events", None),
        ("/steps/1", None),
        ("/export", None),
        ("/cancel", Some(json!({}))),
        ("/fork", Some(json!({ "at": 1 }))),
        ("/answers", Some(approve)),
    ] {
        let ask = async |id: &str| {
            let path = format!("/v1/runs/{id}{path}");
            match &body {
                None => acme.get(&path).await,
                Some(body) => acme.post(&path, body).await,
            }
        };
        let theirs = ask(id).await;
        // All of its roles together have no scope to export.
        assert!([403, 404].contains(&theirs.status), "{path} {theirs:?}");
        assert_eq!(seen(&theirs), seen(&ask(&unknown).await), "{path}");
    }
    for path in ["/v1/runs", "/v1/runs?tenant=rival", "/v1/inbox", "/v1/inbox?tenant=rival"] {
        let listed = acme.get(path).await;
        assert!(!listed.text.contains(MARK) && !listed.text.contains(id), "{listed:?}");
    }
    assert_eq!(rival.get(&format!("/v1/runs/{id}")).await.json()["status"], "suspended");
    assert_eq!(world.runs().await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_without_the_role_approves_nothing_and_one_with_it_is_recorded_by_name() {
    let key = SigningKey::ed("one");
    let provider = TestIssuer::new(&[&key]).await;
    let world = world(&provider).await;
    let starts = with(&world, &key.token(&provider.claims()));
    let waits = starts.start("pay", "12").await;
    let id = waits["run_id"].as_str().unwrap();
    let one = &waits["waiting_for"][0];
    let path = format!("/v1/runs/{id}/answers");
    let approve =
        json!({ "operation": one["operation"], "shown": one["shown"], "answer": { "approve": {} } });
    starts.post(&path, &approve).await.is_problem(403, "forbidden");
    let live = json!({ "at": 1, "live_effects": true });
    starts.post(&format!("/v1/runs/{id}/fork"), &live).await.is_problem(403, "forbidden");
    let bob = json!({ "sub": "f:bob", "email": "bob@example.com", "realm_access": { "roles": ["reader", "approver"] } });
    let approves = with(&world, &key.token(&provider.claims_with(bob)));
    approves.post("/v1/runs", &json!({ "agent": "echo" })).await.is_problem(403, "forbidden");
    let answered = approves.post(&path, &approve).await;
    assert!([200, 202].contains(&answered.status), "{answered:?}");
    let ended = approves.get(&format!("/v1/runs/{id}?wait=30")).await.json();
    assert_eq!(ended["status"], "completed", "{ended}");
    let records = approves.get(&format!("/v1/runs/{id}/events")).await;
    assert!(records.text.contains("bob@example.com (token oidc-"), "{records:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_that_is_not_accepted_is_refused_and_the_answer_says_no_more() {
    let (key, other) = (SigningKey::ed("one"), SigningKey::ed("one"));
    let provider = TestIssuer::new(&[&key]).await;
    let world = world(&provider).await;
    let claims = provider.claims();
    let changed = |others: Value| key.token(&provider.claims_with(others));
    let text = claims.to_string();
    let head = r#"{"alg":"EdDSA","kid":"one"}"#;
    let none = key.raw(r#"{"alg":"none","kid":"one"}"#, &text);
    let tokens = [
        none.clone(),
        format!("{}.", none.rsplit_once('.').unwrap().0),
        hmac(&json!({ "alg": "HS256", "kid": "one" }), &claims, &key.public_bytes()),
        other.token(&claims),
        other.with(json!({ "jwk": other.public() }), &claims),
        key.with(json!({ "kid": "two" }), &claims),
        key.with(json!({ "kid": "../../../etc/passwd" }), &claims),
        key.with(json!({ "kid": "one\u{0}" }), &claims),
        key.with(json!({ "crit": ["exp"] }), &claims),
        changed(json!({ "aud": "another" })),
        changed(json!({ "iss": "https://elsewhere.example" })),
        changed(json!({ "nbf": now() + 600 })),
        changed(json!({ "org": null })),
        changed(json!({ "org": "*" })),
        changed(json!({ "org": "nothing-of-the-kind" })),
        changed(json!({ "org": "../acme" })),
        key.raw(head, &text.replacen('{', r#"{"org":"rival","#, 1)),
        key.token(&provider.claims_with(json!({ "padding": "x".repeat(9 << 10) }))),
        "..".to_owned(),
        "a.b.c".to_owned(),
    ];
    let mut answers: Vec<Answer> = Vec::new();
    for token in &tokens {
        let answer = with(&world, token).get("/v1/runs").await;
        answer.is_problem(401, "unauthenticated");
        let challenge = "Bearer resource_metadata=\"http://localhost/.well-known/oauth-protected-resource\"";
        assert_eq!(answer.header("www-authenticate").as_deref(), Some(challenge));
        answers.push(answer);
    }
    for answer in &answers {
        assert_eq!(seen(answer), seen(&answers[0]));
    }
    // What is larger than all heads may be is not read.
    let long = with(&world, &changed(json!({ "padding": "x".repeat(20 << 10) }))).get("/v1/runs").await;
    assert_eq!(long.status, 431, "{long:?}");
    // That its time is over is said of a token that was good: its holder gets another one.
    let expired = with(&world, &changed(json!({ "exp": now() - 600 }))).get("/v1/runs").await;
    assert_eq!(expired.is_problem(401, "unauthenticated").json()["detail"], "the token has expired");
    assert_eq!(world.runs().await, 0);
    with(&world, &key.token(&claims)).start("echo", "still here").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_counts_only_as_a_bearer_and_only_where_it_is_accepted() {
    let key = SigningKey::ed("one");
    let provider = TestIssuer::new(&[&key]).await;
    let world = world(&provider).await;
    let token = key.token(&provider.claims());
    let cookie = format!("__Host-dalsegno={token}");
    for path in ["/v1/runs", "/runs"] {
        assert_eq!(world.without_key().send("GET", path, &[("cookie", &cookie)], b"").await.status, 401);
    }
    let form = format!("key={token}&next=/runs");
    let headers = [("origin", "http://localhost"), ("content-type", "application/x-www-form-urlencoded")];
    let pasted = world.without_key().send("POST", "/sign-in", &headers, form.as_bytes()).await;
    assert!(pasted.status == 401 && pasted.header("set-cookie").is_none(), "{pasted:?}");
    for scheme in ["Basic", "DPoP", "Token"] {
        let header = format!("{scheme} {token}");
        let answer = world.without_key().send("GET", "/v1/runs", &[("authorization", &header)], b"").await;
        answer.is_problem(401, "unauthenticated");
    }
    for path in ["/sign-in/oidc", "/sign-in/oidc/return?code=x&state=y"] {
        let answer = world.without_key().get(path).await;
        assert!([401, 404].contains(&answer.status) && answer.header("set-cookie").is_none(), "{answer:?}");
    }
    // A server without an identity provider asks none, and says of a token what it says of a key.
    let without = World::new().await;
    let before = provider.state().asked;
    let token = with(&without, &token).get("/v1/runs").await;
    assert_eq!(
        seen(token.is_problem(401, "unauthenticated")),
        seen(&with(&without, "wrong").get("/v1/runs").await)
    );
    assert_eq!(provider.state().asked, before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_issuer_that_cannot_be_asked_is_not_the_fault_of_the_token() {
    let key = SigningKey::ed("one");
    let provider = TestIssuer::new(&[&key]).await;
    let world = world(&provider).await;
    let ada = with(&world, &key.token(&provider.claims()));
    provider.state().keys = "<html>sign in to the network</html>".to_owned();
    let answer = ada.get("/v1/runs").await;
    answer.is_problem(503, "server_unavailable");
    assert_eq!(answer.header("retry-after").as_deref(), Some("10"));
    assert!(!answer.text.contains("127.0.0.1") && !answer.text.contains("html"), "{answer:?}");
    // Keys need no issuer.
    assert_eq!(world.all("acme").get("/v1/runs").await.status, 200);
    provider.publish(&[&key]);
    assert_eq!(ada.get("/v1/runs").await.status, 200);
    // Its keys rotate without a restart.
    let next = SigningKey::ed("next");
    provider.publish(&[&next]);
    assert_eq!(with(&world, &next.token(&provider.claims())).get("/v1/runs").await.status, 200);
    ada.get("/v1/runs").await.is_problem(401, "unauthenticated");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_ends_with_its_token_and_counts_for_its_holder() {
    let key = SigningKey::ed("one");
    let provider = TestIssuer::new(&[&key]).await;
    let world =
        World::with(ServeSettings { streams: 1, requests_per_minute: 20, ..accepts(&provider, None) }).await;
    let ada = with(&world, &key.token(&provider.claims()));
    let waits = ada.start("ask", "").await;
    let run = waits["run_id"].as_str().unwrap();
    // Its time is over, and only the clocks may differ: the stream is not held open.
    let late = with(&world, &key.token(&provider.claims_with(json!({ "exp": now() - 5, "sub": "f:late" }))));
    let mut stream = late.stream(run, None).await;
    assert!(stream.head.starts_with("HTTP/1.1 200"), "{}", stream.head);
    // It ends at once; without the end of a token it would be open for ever.
    tokio::time::timeout(std::time::Duration::from_secs(20), stream.rest()).await.unwrap();
    let open = ada.stream(run, None).await;
    assert!(open.head.starts_with("HTTP/1.1 200"), "{}", open.head);
    // Another token of the same person is no way around the limits.
    let again = with(&world, &key.token(&provider.claims_with(json!({ "jti": "2" }))));
    let refused = again.stream(run, None).await;
    assert!(refused.head.starts_with("HTTP/1.1 429"), "{}", refused.head);
    let mut statuses = Vec::new();
    for n in 0..30 {
        let token = key.token(&provider.claims_with(json!({ "jti": n.to_string() })));
        statuses.push(with(&world, &token).get("/v1/runs").await.status);
    }
    assert!(statuses.contains(&429), "{statuses:?}");
    drop(open);
}

/// The parameters of an address.
fn parameters(address: &str) -> BTreeMap<String, String> {
    let query = address.split_once('?').unwrap().1;
    form_urlencoded::parse(query.as_bytes()).into_owned().collect()
}

/// The cookie of this name that an answer sets.
fn cookie(answer: &Answer, name: &str) -> Option<String> {
    let lines = answer.head.lines().filter_map(|line| line.strip_prefix("set-cookie: "));
    lines.filter_map(|line| line.strip_prefix(&format!("{name}="))).map(str::to_owned).next()
}

/// A browser on its way to the identity provider.
struct Visit {
    /// The cookie that it has kept, as it sends it.
    cookie: String,
    sent: BTreeMap<String, String>,
}

const ATTEMPT: &str = "__Host-dalsegno-attempt";
const SESSION: &str = "__Host-dalsegno";

async fn visit(world: &World, next: &str) -> Visit {
    let next: String = form_urlencoded::byte_serialize(next.as_bytes()).collect();
    let answer = world.without_key().get(&format!("/sign-in/oidc?next={next}")).await;
    assert_eq!(answer.status, 303, "{answer:?}");
    let cookie = cookie(&answer, ATTEMPT).unwrap();
    let (value, attributes) = cookie.split_once("; ").unwrap();
    assert_eq!(attributes, "Path=/; Max-Age=600; Secure; HttpOnly; SameSite=Lax");
    let sent = parameters(&answer.header("location").unwrap());
    Visit { cookie: format!("{ATTEMPT}={value}"), sent }
}

impl Visit {
    /// Has the identity provider sign the person in, with these claims besides those of the protocol.
    fn grants(&self, provider: &TestIssuer, key: &SigningKey, code: &str, others: &Value) {
        let mut claims = provider.claims_with(json!({ "aud": CLIENT, "nonce": self.sent["nonce"] }));
        for (name, value) in others.as_object().unwrap() {
            claims[name] = value.clone();
        }
        let (challenge, redirect) = (self.sent["code_challenge"].clone(), self.sent["redirect_uri"].clone());
        let grant = Grant { challenge, redirect, id_token: key.token(&claims) };
        provider.state().grants.insert(code.to_owned(), grant);
    }

    async fn returns(&self, world: &World, query: &str) -> Answer {
        returns(world, &self.cookie, query).await
    }
}

async fn returns(world: &World, cookie: &str, query: &str) -> Answer {
    let path = format!("/sign-in/oidc/return?{query}");
    world.without_key().send("GET", &path, &[("cookie", cookie), ("accept", "text/html")], b"").await
}

/// A server with the identity provider for its pages. The client's secret is in a file.
async fn with_pages(provider: &TestIssuer, folder: &std::path::Path) -> World {
    let file = folder.join("client-secret");
    std::fs::write(&file, SECRET).unwrap();
    let sign_in = OidcSignIn {
        client_id: CLIENT.to_owned(),
        client_secret: Some(SecretRef::File(file)),
        scopes: vec!["profile".to_owned()],
    };
    World::with(accepts(provider, Some(sign_in))).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_person_signs_in_to_the_pages_by_the_identity_provider() {
    let key = SigningKey::ed("one");
    let provider = TestIssuer::new(&[&key]).await;
    let folder = tempfile::tempdir().unwrap();
    let world = with_pages(&provider, folder.path()).await;
    let asked =
        world.without_key().send("GET", "/inbox?kind=approval", &[("accept", "text/html")], b"").await;
    assert_eq!(asked.status, 401);
    assert!(asked.text.contains("/sign-in/oidc?next=%2Finbox%3Fkind%3Dapproval"), "{}", asked.text);
    let visit = visit(&world, "/inbox?kind=approval").await;
    let other = self::visit(&world, "/inbox").await;
    for (name, expected) in [
        ("realm", "main"),
        ("response_type", "code"),
        ("client_id", CLIENT),
        ("redirect_uri", "http://localhost/sign-in/oidc/return"),
        ("scope", "openid profile"),
        ("code_challenge_method", "S256"),
    ] {
        assert_eq!(visit.sent[name], expected, "{name}");
    }
    for name in ["state", "nonce", "code_challenge"] {
        assert_eq!(visit.sent[name].len(), 43, "{name}");
        assert_ne!(visit.sent[name], other.sent[name], "{name}");
        assert!(!visit.cookie.contains(&visit.sent[name]), "{name}");
    }
    visit.grants(&provider, &key, "c0de", &json!({ "azp": CLIENT }));
    let query = format!("code=c0de&state={}&session_state=x&iss={}", visit.sent["state"], provider.name);
    let answer = visit.returns(&world, &query).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert!(answer.text.contains("/inbox?kind=approval"), "{}", answer.text);
    let gone = cookie(&answer, ATTEMPT).unwrap();
    assert!(gone.starts_with("; ") && gone.contains("Max-Age=0"), "{gone}");
    let set = cookie(&answer, SESSION).unwrap();
    assert!(set.ends_with("; Path=/; Max-Age=43200; Secure; HttpOnly; SameSite=Strict"), "{set}");
    let session = set.split_once(';').unwrap().0.to_owned();
    assert!(session.starts_with("dalsegno_") && !answer.text.contains(&session), "{set}");
    let header = format!("{SESSION}={session}");
    let page = world.without_key().send("GET", "/runs", &[("cookie", &header)], b"").await;
    assert_eq!(page.status, 200);
    assert!(page.text.contains("ada@example.com"), "{}", page.text);
    // It is a key of the same tenant and scopes, which is listed and can be revoked.
    let entry = world.keys.list().unwrap().pop().unwrap();
    assert_eq!((entry.name.as_deref(), entry.tenant.as_str()), (Some("browser (ada@example.com)"), "acme"));
    let scopes: Vec<_> = entry.scopes.iter().map(|scope| scope.as_str()).collect();
    assert_eq!(scopes, ["runs:list", "runs:read", "runs:write"]);
    let headers = [
        ("cookie", header.as_str()),
        ("origin", "http://localhost"),
        ("content-type", "application/x-www-form-urlencoded"),
    ];
    assert_eq!(world.without_key().send("POST", "/sign-out", &headers, b"").await.status, 303);
    assert_eq!(world.without_key().send("GET", "/runs", &[("cookie", &header)], b"").await.status, 401);
    // The code was good once.
    let again = visit.returns(&world, &query).await;
    assert!(again.status == 401 && cookie(&again, SESSION).is_none(), "{again:?}");
    assert_eq!(provider.state().exchanges.len(), 2);
    assert!(
        provider.state().exchanges.iter().all(|body| !body.contains("s3cret")),
        "the secret is in the header"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_browser_is_signed_in_by_what_another_one_began_or_the_provider_did_not_say() {
    let (key, other) = (SigningKey::ed("one"), SigningKey::ed("one"));
    let provider = TestIssuer::new(&[&key]).await;
    let folder = tempfile::tempdir().unwrap();
    let world = with_pages(&provider, folder.path()).await;
    let visit = visit(&world, "//elsewhere.example").await;
    let theirs = self::visit(&world, "/runs").await;
    let state = visit.sent["state"].clone();
    let refused = async |cookie: &str, query: &str| {
        let answer = returns(&world, cookie, query).await;
        assert_eq!(answer.status, 401, "{query} {answer:?}");
        assert!(self::cookie(&answer, SESSION).is_none(), "{query} {answer:?}");
        assert!(!answer.text.contains("elsewhere.example"), "{query} {answer:?}");
    };
    visit.grants(&provider, &key, "mine", &json!({}));
    theirs.grants(&provider, &key, "theirs", &json!({}));
    // Without asking the provider: another browser, another attempt, another issuer, no code.
    for (cookie, query) in [
        ("a=b", format!("code=mine&state={state}")),
        (theirs.cookie.as_str(), format!("code=mine&state={state}")),
        (&visit.cookie, "code=mine".to_owned()),
        (&visit.cookie, "code=mine&state=".to_owned()),
        (&visit.cookie, format!("code=theirs&state={}", theirs.sent["state"])),
        (&visit.cookie, format!("code=mine&state={state}x")),
        (&visit.cookie, format!("code=mine&state={state}&iss=https%3A%2F%2Felsewhere.example")),
        (&visit.cookie, format!("state={state}")),
        (&visit.cookie, format!("code=&state={state}")),
        (&visit.cookie, format!("code={}&state={state}", "x".repeat(5_000))),
        (&visit.cookie, format!("error=access_denied&error_description=%1b%5B31m&state={state}")),
        (&visit.cookie, format!("error=x&code=mine&state={state}")),
        (&format!("{ATTEMPT}=AAAA.AAAA"), format!("code=mine&state={state}")),
        (&format!("{ATTEMPT}="), format!("code=mine&state={state}")),
    ] {
        refused(cookie, &query).await;
    }
    assert_eq!(provider.state().exchanges.len(), 0);
    // A code that was given to another browser: its verifier is not this one's.
    refused(&visit.cookie, &format!("code=theirs&state={state}")).await;
    refused(&visit.cookie, &format!("code=unknown&state={state}")).await;
    for others in [
        json!({ "nonce": theirs.sent["nonce"] }),
        json!({ "nonce": null }),
        json!({ "aud": AUDIENCE }),
        json!({ "azp": "another" }),
        json!({ "iss": "https://elsewhere.example" }),
        json!({ "exp": now() - 600 }),
        json!({ "org": null }),
        json!({ "org": "nothing-of-the-kind" }),
        json!({ "realm_access": { "roles": ["nothing"] } }),
    ] {
        visit.grants(&provider, &key, "code", &others);
        refused(&visit.cookie, &format!("code=code&state={state}")).await;
    }
    visit.grants(&provider, &other, "code", &json!({}));
    refused(&visit.cookie, &format!("code=code&state={state}")).await;
    assert_eq!(world.keys.list().unwrap().len(), 0, "no session was made");
    // What looks ahead uses no code up, and afterwards only this server is gone to.
    let path = format!("/sign-in/oidc/return?code=mine&state={state}");
    let ahead = world.without_key().send("HEAD", &path, &[("cookie", &visit.cookie)], b"").await;
    assert_eq!(ahead.status, 204);
    let answer = visit.returns(&world, &format!("code=mine&state={state}")).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert!(!answer.text.contains("elsewhere.example"), "{}", answer.text);
    // A provider that fails is not the fault of the person.
    let late = self::visit(&world, "/runs").await;
    provider.state().document["token_endpoint"] = json!("http://127.0.0.1:9/token");
    let fresh = with_pages(&provider, folder.path()).await;
    let failed = returns(&fresh, &late.cookie, &format!("code=x&state={}", late.sent["state"])).await;
    assert_eq!(failed.status, 503, "{failed:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_shows_a_token_reads_of_tokens_finds_the_provider_and_is_counted() {
    let key = SigningKey::ed("one");
    let provider = TestIssuer::new(&[&key]).await;
    let world = world(&provider).await;
    let place = "/.well-known/oauth-protected-resource";
    let told = world.without_key().get(place).await;
    assert_eq!(told.status, 200, "{told:?}");
    let told = told.json();
    assert_eq!(told["resource"], "http://localhost");
    assert_eq!(told["authorization_servers"].as_array().map(Vec::len), Some(1), "{told}");
    assert!(told["scopes_supported"].to_string().contains("\"runs:read\""), "{told}");
    // A name that is not the server's is in no answer.
    let foreign = [("host", "evil.example")];
    let refused = world.without_key().send("GET", place, &foreign, b"").await;
    assert!(refused.status == 421 && !refused.text.contains("evil"), "{refused:?}");
    let keys_alone = World::new().await;
    keys_alone.without_key().get(place).await.is_problem(404, "not_found");
    let refused = keys_alone.without_key().get("/v1/runs").await;
    assert_eq!(refused.header("www-authenticate").as_deref(), Some("Bearer"));

    let ada = with(&world, &key.token(&provider.claims()));
    let run = ada.start("ask", "x").await;
    let fork = json!({ "at": 1, "live_effects": true });
    let path = format!("/v1/runs/{}/fork", run["run_id"].as_str().unwrap());
    for refused in [
        ada.post(&path, &fork).await,
        ada.post("/v1/runs", &json!({ "agent": "echo", "tenant": "rival" })).await,
        ada.get("/v1/agents").await,
    ] {
        let said = refused.is_problem(403, "forbidden").json();
        let detail = said["detail"].as_str().unwrap();
        assert!(detail.contains("the token") && !detail.contains("access key"), "{said}");
        assert!(!said["help"].as_str().unwrap().contains("key add"), "{said}");
    }
    with(&world, &format!("{}x", key.token(&provider.claims())))
        .get("/v1/runs")
        .await
        .is_problem(401, "unauthenticated");
    let metrics = world.all("*").get("/metrics").await.text;
    assert!(metrics.contains("dalsegno_tokens_checked_total{result=\"accepted\"} 4"), "{metrics}");
    assert!(metrics.contains("dalsegno_tokens_checked_total{result=\"refused\"} 1"), "{metrics}");
}

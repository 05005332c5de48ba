//! Access by OAuth: consent, refresh with rotation, and who is refused.
#![expect(clippy::unwrap_used, reason = "a helper that fails fails its test")]

mod double;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use dalsegno_mcp::{
    CallErrorKind, Consent, Endpoint, Grant, OAuth, OAuthConfig, OAuthError, Received, Server, ServerConfig,
};
use dalsegno_net::{Client, Egress};
use dalsegno_secrets::Secret;
use double::{Double, Memory, answered, begin, look};
use tracing::field::{Field, Visit};
use tracing::{Metadata, Subscriber, span};

fn scope(consent: &Consent) -> Option<String> {
    Some(consent.url().query_pairs().find(|(key, _)| key == "scope")?.1.into_owned())
}

#[tokio::test]
async fn without_consent_a_call_fails_and_names_what_to_do() {
    let double = Double::start().await;
    let (server, oauth) = double.server(double.config(&Arc::default()));
    let error = look(&server).await.unwrap_err();
    assert_eq!((error.kind, error.received), (CallErrorKind::Unauthorized, Received::No), "{error}");
    assert!(error.to_string().contains("run `dalsegno auth crm`"), "{error}");
    assert!(!oauth.is_given().await.unwrap());
}

#[tokio::test]
async fn consent_brings_tokens_and_calls_go_through() {
    let double = Double::start().await;
    let tokens = Arc::default();
    let (server, oauth) = double.server(double.config(&tokens));
    look(&server).await.unwrap_err();
    let consent = begin(&oauth).await.unwrap();
    let query: BTreeMap<_, _> = consent.url().query_pairs().collect();
    assert_eq!(query["code_challenge_method"], "S256");
    assert_eq!(query["resource"], double.url().as_str());
    // As the refused request said.
    assert_eq!(scope(&consent).as_deref(), Some("read"));
    let granted = consent.finish(&answered(&consent, "code=code-1")).await.unwrap();
    assert!(granted.renews && granted.ends_at.is_some() && granted.scopes == ["read"], "{granted:?}");
    assert_eq!(look(&server).await.unwrap(), "seen");
    assert_eq!(double.state().registrations, 1);
    assert!(oauth.is_given().await.unwrap());
    oauth.forget().await.unwrap();
    assert_eq!(look(&server).await.unwrap_err().kind, CallErrorKind::Unauthorized);
}

#[tokio::test]
async fn one_refresh_serves_all_calls_that_wait_for_it() {
    let double = Double::start().await;
    double.state().first_life = 0;
    let tokens = Arc::default();
    let (server, _) = double.consented(&tokens).await;
    let calls = futures::future::join_all((0..12).map(|_| look(&server))).await;
    assert!(calls.iter().all(|call| call.as_deref().is_ok_and(|text| text == "seen")), "{calls:?}");
    assert_eq!(double.state().grants("refresh_token"), 1);
    // The registration brought a secret, which goes with the refresh.
    assert_eq!(double.state().forms[1]["client_secret"], "registered-secret");
    // The next refresh token is the one that is kept.
    assert!(tokens.text().contains("refresh-secret-2") && !tokens.text().contains("refresh-secret-1"));
}

#[tokio::test]
async fn one_refresh_serves_all_calls_whose_token_was_refused() {
    let double = Double::start().await;
    let tokens = Arc::default();
    let (server, _) = double.consented(&tokens).await;
    look(&server).await.unwrap();
    double.state().valid.clear();
    let calls = futures::future::join_all((0..12).map(|_| look(&server))).await;
    assert!(calls.iter().all(|call| call.as_deref().is_ok_and(|text| text == "seen")), "{calls:?}");
    assert_eq!(double.state().grants("refresh_token"), 1);
}

#[tokio::test]
async fn a_server_that_refuses_every_token_has_few_made() {
    let double = Double::start().await;
    let tokens = Arc::default();
    let (server, _) = double.consented(&tokens).await;
    for _ in 0..5 {
        double.state().valid.clear();
        look(&server).await.unwrap();
    }
    for _ in 0..3 {
        double.state().valid.clear();
        let error = look(&server).await.unwrap_err();
        assert!(error.message.contains("refuses every token"), "{error}");
    }
    assert_eq!(double.state().grants("refresh_token"), 5);
}

#[tokio::test]
async fn rotated_tokens_are_kept_even_if_the_caller_goes_away() {
    let double = Double::start().await;
    double.state().first_life = 0;
    let tokens = Arc::default();
    let (server, _) = double.consented(&tokens).await;
    let writes = tokens.writes();
    // Given up as soon as the authorization server has answered, and maybe before the answer was read.
    let watched = Double::clone(&double);
    let answered = async move {
        while watched.state().grants("refresh_token") == 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        _ = look(&server) => {}
        () = answered => {}
    }
    while tokens.writes() == writes {
        tokio::task::yield_now().await;
    }
    assert!(tokens.text().contains("refresh-secret-2"));
    assert_eq!(look(&server).await.unwrap(), "seen");
    assert_eq!(double.state().grants("refresh_token"), 1);
}

#[tokio::test]
async fn a_refresh_token_that_is_taken_no_more_asks_for_consent() {
    let double = Double::start().await;
    double.state().first_life = 0;
    let tokens = Arc::default();
    let (server, oauth) = double.consented(&tokens).await;
    double.state().refresh = None;
    let error = look(&server).await.unwrap_err();
    assert!(!oauth.is_given().await.unwrap(), "what is worth nothing is forgotten");
    assert_eq!(error.kind, CallErrorKind::Unauthorized, "{error}");
    assert!(error.to_string().contains("the access has ended"), "{error}");
}

#[tokio::test]
async fn tokens_go_to_no_other_address() {
    let (double, other) = (Double::start().await, Double::start().await);
    let tokens = Arc::default();
    double.consented(&tokens).await;
    let (server, _) = other.server(other.config(&tokens));
    assert_eq!(look(&server).await.unwrap_err().kind, CallErrorKind::Unauthorized);
    assert!(other.state().shown.iter().all(Option::is_none));

    // Nor where one is configured with the access to another.
    let (_, oauth) = double.server(double.config(&tokens));
    let client = Client::new(Egress::new([other.state().resource.parse().unwrap()]));
    let endpoint = Endpoint { oauth: Some(oauth), ..Endpoint::new(other.url(), client) };
    let error = look(&Server::new(ServerConfig::http("crm", endpoint))).await.unwrap_err();
    assert!(error.to_string().contains("another address"), "{error}");
    assert!(other.state().shown.iter().all(Option::is_none));
}

#[tokio::test]
async fn an_authorization_server_that_was_not_granted_is_not_reached() {
    let double = Double::start().await;
    let client = Client::new(Egress::new([double.state().resource.parse().unwrap()]));
    let config = OAuthConfig { client, ..double.config(&Arc::default()) };
    let (_, oauth) = double.server(config);
    let error = begin(&oauth).await.unwrap_err();
    let OAuthError::Denied { origin, .. } = &error else { panic!("{error}") };
    assert_eq!(*origin, double.state().issuer);
    assert_eq!(double.state().registrations, 0);
}

#[tokio::test]
async fn metadata_of_another_resource_or_issuer_are_refused() {
    let double = Double::start().await;
    double.state().false_resource = Some("https://elsewhere.example.com/mcp".to_owned());
    let (_, oauth) = double.server(double.config(&Arc::default()));
    let error = begin(&oauth).await.unwrap_err();
    assert!(matches!(error, OAuthError::Unusable(_)), "{error:?}");

    double.state().false_resource = None;
    double.state().false_issuer = Some("https://elsewhere.example.com".to_owned());
    let error = begin(&oauth).await.unwrap_err();
    assert!(matches!(error, OAuthError::Unusable(_) | OAuthError::Refused(_)), "{error:?}");
    assert_eq!(double.state().registrations, 0);
}

#[tokio::test]
async fn an_answer_to_another_consent_or_of_another_issuer_is_refused_and_the_right_one_still_taken() {
    let double = Double::start().await;
    let tokens = Arc::default();
    let (server, oauth) = double.server(double.config(&tokens));
    let (consent, other) = (begin(&oauth).await.unwrap(), begin(&oauth).await.unwrap());
    for wrong in [
        answered(&other, "code=code-1"),
        answered(&consent, "code=code-1&iss=https%3A%2F%2Felsewhere.example.com"),
        answered(&consent, "error=access_denied&error_description=no"),
    ] {
        let error = consent.finish(&wrong).await.unwrap_err();
        assert!(matches!(error, OAuthError::Refused(_)), "{error:?}");
    }
    assert!(double.state().forms.is_empty());
    consent.finish(&answered(&consent, "code=code-1")).await.unwrap();
    assert_eq!(look(&server).await.unwrap(), "seen");
}

#[tokio::test]
async fn a_server_that_wants_more_is_named_its_scope_and_the_next_consent_asks_for_it() {
    let double = Double::start().await;
    let tokens = Arc::default();
    let (server, oauth) = double.consented(&tokens).await;
    double.state().wanted = Some("write".to_owned());
    let error = look(&server).await.unwrap_err();
    assert_eq!((error.kind, error.received), (CallErrorKind::Unauthorized, Received::No), "{error}");
    assert!(error.to_string().contains("`write`"), "{error}");
    let consent = begin(&oauth).await.unwrap();
    assert_eq!(scope(&consent).as_deref(), Some("read write"));

    // What the configuration says is not widened by a server.
    let narrow = OAuthConfig { scopes: vec!["read".to_owned()], ..double.config(&tokens) };
    let (server, oauth) = double.server(narrow);
    let error = look(&server).await.unwrap_err();
    assert!(error.to_string().contains("not among the `scopes`"), "{error}");
    assert_eq!(scope(&begin(&oauth).await.unwrap()).as_deref(), Some("read"));
}

#[tokio::test]
async fn client_credentials_need_nobody() {
    let double = Double::start().await;
    double.state().first_life = 0;
    let tokens = Arc::default();
    let config = OAuthConfig {
        grant: Grant::ClientCredentials,
        client_id: Some("service".to_owned()),
        client_secret: Some(Arc::new(Secret::new("configured-secret"))),
        ..double.config(&tokens)
    };
    let (server, _) = double.server(config);
    look(&server).await.unwrap();
    let asked = double.state().grants("client_credentials");
    double.state().first_life = 3600;
    look(&server).await.unwrap();
    assert_eq!(double.state().grants("client_credentials"), asked + 1, "the first token has ended");
    look(&server).await.unwrap();
    assert_eq!(double.state().grants("client_credentials"), asked + 1, "the second one is kept");
}

/// Gathers what everybody logs.
struct Log(&'static Mutex<String>);

impl Subscriber for Log {
    fn enabled(&self, _metadata: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &span::Attributes<'_>) -> span::Id {
        span.record(&mut Gather(self.0));
        span::Id::from_u64(1)
    }

    fn record(&self, _span: &span::Id, values: &span::Record<'_>) {
        values.record(&mut Gather(self.0));
    }

    fn record_follows_from(&self, _span: &span::Id, _follows: &span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        event.record(&mut Gather(self.0));
    }

    fn enter(&self, _span: &span::Id) {}

    fn exit(&self, _span: &span::Id) {}
}

struct Gather(&'static Mutex<String>);

impl Visit for Gather {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0.lock().unwrap().push_str(&format!("{field}={value:?}\n"));
    }
}

static LOGGED: Mutex<String> = Mutex::new(String::new());

#[tokio::test]
async fn nothing_that_is_printed_holds_a_token_or_a_secret() {
    tracing::subscriber::set_global_default(Log(&LOGGED)).unwrap();
    let double = Double::start().await;
    double.state().first_life = 0;
    let tokens: Arc<Memory> = Arc::default();
    let (server, oauth) = double.consented(&tokens).await;
    let consent = begin(&oauth).await.unwrap();
    assert!(tokens.text().contains("access-secret"));
    double.state().refresh = None;
    let error = look(&server).await.unwrap_err();
    let refused = consent.finish(&answered(&consent, "code=code-9")).await.unwrap_err();
    let printed = format!("{error} {error:?} {refused} {refused:?} {oauth:?} {consent:?} {server:?}");
    let logged = LOGGED.lock().unwrap().clone();
    assert!(logged.contains("discovery url"), "the SDK's log is there: {logged}");
    for secret in
        ["access-secret", "refresh-secret", "registered-secret", "identity-secret", "code-1", "code-9"]
    {
        assert!(!printed.contains(secret), "{printed}");
        assert!(!logged.contains(secret), "{logged}");
    }
}

#[tokio::test]
async fn a_server_without_metadata_gets_no_guesses() {
    let double = Double::start().await;
    let nowhere = double.url().join("/nowhere").unwrap();
    let oauth = OAuth::new(nowhere.clone(), double.config(&Arc::default()));
    let error = begin(&oauth).await.unwrap_err();
    assert!(error.to_string().contains("does not say who its authorization server is"), "{error}");
    let client = Client::new(Egress::new([double.state().resource.parse().unwrap()]));
    let endpoint = Endpoint { oauth: Some(oauth), ..Endpoint::new(nowhere, client) };
    let server = Server::new(ServerConfig::http("crm", endpoint));
    assert!(server.catalogue("default").await.is_err());
}

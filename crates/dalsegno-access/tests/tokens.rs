//! Tokens of an identity provider: which ones are accepted, what they allow, and how often their issuer is asked.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod issuer;

use std::collections::BTreeSet;

use dalsegno_access::{Access, Issuer, Reach, Refused, Rules, Scope, TenantRule};
use proptest::prelude::*;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::issuer::{AUDIENCE, SigningKey, TestIssuer, hmac, now};

/// All algorithms of public keys, and what is for one of them only.
const ALGORITHMS: [&str; 9] =
    ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA"];

fn rules(issuer: &TestIssuer) -> Rules {
    let scopes = [
        ("reader", vec![Scope::RunsList, Scope::RunsRead]),
        ("writer", vec![Scope::RunsWrite]),
        ("approver", vec![Scope::AnswersWrite]),
    ];
    let scopes = scopes.into_iter().map(|(role, scopes)| (role.to_owned(), scopes.into_iter().collect()));
    Rules {
        issuer: issuer.name.clone(),
        audience: [AUDIENCE.to_owned(), "https://agents.example.com".to_owned()].into(),
        algorithms: ALGORITHMS.map(str::to_owned).into(),
        tenant: TenantRule::Named { claim: "org".to_owned() },
        scopes_claim: "realm_access.roles".to_owned(),
        scopes: scopes.collect(),
        name_claim: "email".to_owned(),
        addresses: BTreeSet::new(),
    }
}

fn of(issuer: &TestIssuer) -> Issuer {
    Issuer::new(rules(issuer)).unwrap()
}

fn scopes(access: &Access) -> Vec<&'static str> {
    Scope::ALL.iter().filter(|scope| access.may(**scope)).map(|scope| scope.as_str()).collect()
}

/// Checks that a token is refused, with nothing said of why.
async fn refused(issuer: &Issuer, token: &str, what: &str) {
    let checked = issuer.check(token).await;
    assert!(matches!(checked, Err(Refused::Token)), "{what}: {checked:?}");
    assert_eq!(checked.unwrap_err().to_string(), "the token is not accepted");
}

#[tokio::test]
async fn a_token_gives_what_the_rules_make_of_its_claims_and_no_more() {
    let key = SigningKey::ed("one");
    let provider = TestIssuer::new(&[&key]).await;
    let access = of(&provider).check(&key.token(&provider.claims())).await.unwrap();
    assert_eq!(access.tenant(), Some("acme"));
    assert!(access.sees("acme") && !access.sees("rival"));
    assert_eq!(scopes(&access), ["runs:list", "runs:read", "runs:write"]);
    assert!(access.actor().starts_with("ada@example.com (token oidc-"), "{}", access.actor());
    assert!(!access.is_session());
    let ends = access.token_ends().unwrap();
    assert!((now() * 1_000..=(now() + 300) * 1_000).contains(&ends), "{ends}");
    // Another token of the same person has the same holder, and one of another person has another.
    let again = key.token(&provider.claims_with(json!({ "exp": now() + 900, "jti": "2" })));
    assert_eq!(of(&provider).check(&again).await.unwrap().key(), access.key());
    let other = key.token(&provider.claims_with(json!({ "sub": "f:bob" })));
    assert_ne!(of(&provider).check(&other).await.unwrap().key(), access.key());
}

#[tokio::test]
async fn each_algorithm_of_public_keys_is_checked_and_only_if_it_is_listed() {
    let keys = [SigningKey::rsa("r"), SigningKey::p256("p2"), SigningKey::p384("p3"), SigningKey::ed("e")];
    let provider = TestIssuer::new(&keys.iter().collect::<Vec<_>>()).await;
    for algorithm in ALGORITHMS {
        let key = match algorithm {
            "ES256" => &keys[1],
            "ES384" => &keys[2],
            "EdDSA" => &keys[3],
            _ => &keys[0],
        };
        let token = key.with(json!({ "alg": algorithm }), &provider.claims());
        of(&provider).check(&token).await.unwrap_or_else(|error| panic!("{algorithm}: {error}"));
        let mut fewer = rules(&provider);
        fewer.algorithms.remove(algorithm);
        refused(&Issuer::new(fewer).unwrap(), &token, algorithm).await;
        // A letter of the signature, of the claims, of the head: one that is not the same.
        for place in 0..3 {
            let mut parts: Vec<String> = token.split('.').map(str::to_owned).collect();
            let middle = parts[place].len() / 2;
            let letter = if parts[place].as_bytes()[middle] == b'A' { "B" } else { "A" };
            parts[place].replace_range(middle..=middle, letter);
            refused(&of(&provider), &parts.join("."), algorithm).await;
        }
    }
}

#[tokio::test]
async fn a_token_that_is_not_signed_by_a_key_of_the_issuer_is_refused() {
    let (key, rsa, other) = (SigningKey::p256("one"), SigningKey::rsa("rsa"), SigningKey::p256("one"));
    let provider = TestIssuer::new(&[&key, &rsa]).await;
    let issuer = of(&provider);
    let claims = provider.claims();
    refused(&issuer, &other.token(&claims), "another key of the same id").await;
    for algorithm in ["none", "None", "NONE", ""] {
        let head = json!({ "alg": algorithm, "kid": "one" }).to_string();
        let signed = key.raw(&head, &claims.to_string());
        let (message, _) = signed.rsplit_once('.').unwrap();
        refused(&issuer, &signed, algorithm).await;
        refused(&issuer, &format!("{message}."), algorithm).await;
    }
    // Who takes a public key for a secret accepts these.
    let mut everything = rules(&provider);
    everything.algorithms.extend(["HS256".to_owned(), "none".to_owned()]);
    let everything = Issuer::new(everything).unwrap();
    for (key, id) in [(&key, "one"), (&rsa, "rsa")] {
        let forms = [
            key.public_bytes(),
            key.public().to_string().into_bytes(),
            key.public()["kid"].to_string().into_bytes(),
        ];
        for secret in forms {
            let forged = hmac(&json!({ "alg": "HS256", "kid": id }), &claims, &secret);
            refused(&issuer, &forged, "a shared secret").await;
            refused(&everything, &forged, "a shared secret that is listed").await;
        }
    }
    // Keys that come with the token, or that it says where to find.
    for fields in [
        json!({ "jwk": other.public() }),
        json!({ "jku": "http://127.0.0.1:9/keys" }),
        json!({ "x5u": "http://127.0.0.1:9/keys" }),
        json!({ "x5c": ["AAAA"] }),
    ] {
        refused(&issuer, &other.with(fields.clone(), &claims), "a key of its own").await;
        // They change nothing of a token that is good.
        if fields.get("x5c").is_none() {
            issuer.check(&key.with(fields, &claims)).await.unwrap();
        }
    }
    let before = provider.state().asked;
    refused(&issuer, &other.with(json!({ "jwk": other.public() }), &claims), "again").await;
    assert_eq!(provider.state().asked, before, "what a token brings is no reason to ask");
}

#[tokio::test]
async fn a_head_that_is_not_that_of_a_plain_token_is_refused() {
    let key = SigningKey::ed("one");
    let provider = TestIssuer::new(&[&key]).await;
    let issuer = of(&provider);
    let claims = provider.claims();
    for fields in [
        json!({ "crit": ["exp"] }),
        json!({ "crit": [] }),
        json!({ "crit": ["b64"], "b64": false }),
        json!({ "typ": "logout+jwt" }),
        json!({ "typ": "dpop+jwt" }),
        json!({ "kid": "../../etc/passwd" }),
        json!({ "kid": "one\u{0}" }),
        json!({ "kid": "" }),
        json!({ "kid": "x".repeat(4_000) }),
        json!({ "kid": 1 }),
        json!({ "kid": ["one"] }),
    ] {
        refused(&issuer, &key.with(fields.clone(), &claims), &fields.to_string()).await;
    }
    for kind in ["at+jwt", "JWT", "jwt", "application/at+jwt"] {
        issuer.check(&key.with(json!({ "typ": kind }), &claims)).await.unwrap();
    }
    let twice = r#"{"alg":"EdDSA","kid":"one","kid":"one"}"#;
    refused(&issuer, &key.raw(twice, &claims.to_string()), "an id that is there twice").await;
    // Without an id it has to be the only key that fits.
    let without = key.raw(r#"{"alg":"EdDSA"}"#, &claims.to_string());
    issuer.check(&without).await.unwrap();
    provider.publish(&[&key, &SigningKey::ed("two")]);
    refused(&of(&provider), &without, "which key is not said").await;
}

#[tokio::test]
async fn a_token_for_others_or_of_another_time_is_refused() {
    let key = SigningKey::ed("one");
    let provider = TestIssuer::new(&[&key]).await;
    let issuer = of(&provider);
    for others in [
        json!({ "aud": "another" }),
        json!({ "aud": ["another", "third"] }),
        json!({ "aud": [] }),
        json!({ "aud": null }),
        json!({ "aud": 7 }),
        json!({ "iss": "https://elsewhere.example" }),
        json!({ "iss": format!("{}/", provider.name) }),
        json!({ "iss": [provider.name, "https://elsewhere.example"] }),
        json!({ "iss": null }),
        json!({ "exp": null }),
        json!({ "exp": "tomorrow" }),
        json!({ "exp": -1 }),
        json!({ "nbf": now() + 120 }),
        json!({ "nbf": "x" }),
        json!({ "iat": now() + 120 }),
        json!({ "iat": "x" }),
        json!({ "sub": null }),
        json!({ "sub": "" }),
        json!({ "sub": 5 }),
        json!({ "sub": "s".repeat(256) }),
        json!({ "cnf": { "jkt": "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I" } }),
        json!({ "org": null }),
        json!({ "org": "" }),
        json!({ "org": "*" }),
        json!({ "org": ["acme"] }),
        json!({ "org": { "name": "acme" } }),
    ] {
        refused(&issuer, &key.token(&provider.claims_with(others.clone())), &others.to_string()).await;
    }
    let expired = key.token(&provider.claims_with(json!({ "exp": now() - 60 })));
    assert!(matches!(issuer.check(&expired).await, Err(Refused::TokenExpired)));
    // Clocks may differ by half a minute.
    for others in [
        json!({ "exp": now() - 10 }),
        json!({ "nbf": now() + 10 }),
        json!({ "iat": now() + 10 }),
        json!({ "iat": null }),
    ] {
        issuer.check(&key.token(&provider.claims_with(others))).await.unwrap();
    }
    issuer.check(&key.token(&provider.claims_with(json!({ "aud": ["another", AUDIENCE] })))).await.unwrap();
    let claims = provider.claims().to_string();
    for twice in [r#""org":"rival","#, r#""sub":"f:eve","#, r#""aud":"dalsegno","#, r#""exp":99999999999,"#] {
        let claims = claims.replacen('{', &format!("{{{twice}"), 1);
        refused(&issuer, &key.raw(r#"{"alg":"EdDSA","kid":"one"}"#, &claims), twice).await;
    }
}

#[tokio::test]
async fn what_a_token_allows_and_reaches_is_only_what_is_listed() {
    let key = SigningKey::ed("one");
    let provider = TestIssuer::new(&[&key]).await;
    for (roles, expected) in [
        (json!(["reader"]), vec!["runs:list", "runs:read"]),
        (json!("reader approver"), vec!["runs:list", "runs:read", "answers:write"]),
        (json!(["answers:write", "runs:erase", "*", "READER", "reader approver"]), vec![]),
        (json!([7, { "approver": true }, ["approver"], null]), vec![]),
        (json!({ "approver": true }), vec![]),
        (json!(true), vec![]),
    ] {
        let claims = provider.claims_with(json!({ "realm_access": { "roles": roles } }));
        assert_eq!(scopes(&of(&provider).check(&key.token(&claims)).await.unwrap()), expected, "{roles}");
    }
    let without = key.token(&provider.claims_with(json!({ "realm_access": null, "scope": "reader" })));
    assert!(scopes(&of(&provider).check(&without).await.unwrap()).is_empty());
    let reaches = [("acme", Reach::Tenant("customer-1".to_owned())), ("ops", Reach::All)];
    let reaches = reaches.into_iter().map(|(value, reach)| (value.to_owned(), reach)).collect();
    let listed = TenantRule::Listed { claim: "org".to_owned(), reaches };
    let issuer = Issuer::new(Rules { tenant: listed, ..rules(&provider) }).unwrap();
    assert_eq!(issuer.check(&key.token(&provider.claims())).await.unwrap().tenant(), Some("customer-1"));
    let all = issuer.check(&key.token(&provider.claims_with(json!({ "org": "ops" })))).await.unwrap();
    assert!(all.tenant().is_none());
    for org in ["customer-1", "rival", "*"] {
        refused(&issuer, &key.token(&provider.claims_with(json!({ "org": org }))), org).await;
    }
    let fixed = TenantRule::Fixed(Reach::Tenant("only".to_owned()));
    let issuer = Issuer::new(Rules { tenant: fixed, ..rules(&provider) }).unwrap();
    let access = issuer.check(&key.token(&provider.claims_with(json!({ "org": "*" })))).await.unwrap();
    assert_eq!(access.tenant(), Some("only"));
}

#[tokio::test]
async fn a_name_is_short_and_has_no_control_characters() {
    let key = SigningKey::ed("one");
    let provider = TestIssuer::new(&[&key]).await;
    for (email, expected) in [
        (json!("a\u{1b}[31mda\n"), "a[31mda".to_owned()),
        (json!("é".repeat(200)), "é".repeat(64)),
        (json!(" "), "f:ada".to_owned()),
        (json!(7), "f:ada".to_owned()),
        (json!("browser (sign-in link)"), "browser (sign-in link)".to_owned()),
    ] {
        let token = key.token(&provider.claims_with(json!({ "email": email })));
        let access = of(&provider).check(&token).await.unwrap();
        assert_eq!(access.name(), Some(expected.as_str()));
        assert!(!access.is_session());
    }
}

#[tokio::test]
async fn a_key_that_is_for_something_else_signs_nothing() {
    let key = SigningKey::p256("one");
    let provider = TestIssuer::new(&[&key]).await;
    let rsa = SigningKey::rsa("one");
    let change = |fields: Value| {
        let mut public = key.public();
        for (name, value) in fields.as_object().unwrap() {
            public[name] = value.clone();
        }
        public
    };
    for published in [
        change(json!({ "use": "enc" })),
        change(json!({ "use": 1 })),
        change(json!({ "key_ops": ["encrypt"] })),
        change(json!({ "alg": "ES384" })),
        change(json!({ "alg": "RS256" })),
        change(json!({ "alg": "RSA-OAEP" })),
        change(json!({ "alg": "XS999" })),
        change(json!({ "crv": "P-384" })),
        change(json!({ "crv": "secp256k1" })),
        change(json!({ "x": "AAAA" })),
        change(json!({ "kty": "RSA" })),
        json!({ "kty": "oct", "k": "c2VjcmV0", "kid": "one" }),
        rsa.public(),
        json!("one"),
        json!(null),
    ] {
        provider.state().keys = json!({ "keys": [published] }).to_string();
        refused(&of(&provider), &key.token(&provider.claims()), &published.to_string()).await;
    }
    // One that cannot be used keeps no other from being used, also under the same id.
    let keys = [
        json!({ "kty": "new" }),
        change(json!({ "use": "enc" })),
        SigningKey::p256("one").public(),
        key.public(),
    ];
    provider.state().keys = json!({ "keys": keys }).to_string();
    of(&provider).check(&key.token(&provider.claims())).await.unwrap();
}

#[tokio::test]
async fn keys_that_rotate_are_fetched_and_the_issuer_is_not_asked_without_end() {
    let (one, two) = (SigningKey::ed("one"), SigningKey::ed("two"));
    let provider = TestIssuer::new(&[&one]).await;
    let issuer = of(&provider);
    assert_eq!(provider.state().asked, 0, "nothing is sent before there is a token");
    for _ in 0..20 {
        issuer.check(&one.token(&provider.claims())).await.unwrap();
    }
    assert_eq!(provider.state().asked, 1);
    provider.publish(&[&two]);
    issuer.check(&two.token(&provider.claims())).await.unwrap();
    assert_eq!(provider.state().asked, 2);
    refused(&issuer, &one.token(&provider.claims()), "a key that is gone").await;
    let unknown: Vec<String> =
        (0..50).map(|n| SigningKey::ed(&format!("x{n}")).token(&provider.claims())).collect();
    futures::future::join_all(unknown.iter().map(|token| refused(&issuer, token, "an unknown key"))).await;
    for token in &unknown {
        refused(&issuer, token, "an unknown key").await;
    }
    assert_eq!(provider.state().asked, 6, "in a minute");
    issuer.check(&two.token(&provider.claims())).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn keys_are_used_for_an_hour_while_the_issuer_is_away_and_looked_at_again_after_ten_minutes() {
    let key = SigningKey::ed("one");
    let provider = TestIssuer::new(&[&key]).await;
    let issuer = of(&provider);
    let token = key.token(&provider.claims());
    issuer.check(&token).await.unwrap();
    tokio::time::advance(std::time::Duration::from_secs(9 * 60)).await;
    issuer.check(&token).await.unwrap();
    assert_eq!(provider.state().asked, 1);
    provider.state().keys = "no JSON".to_owned();
    tokio::time::advance(std::time::Duration::from_secs(2 * 60)).await;
    issuer.check(&token).await.unwrap();
    while provider.state().asked == 1 {
        tokio::task::yield_now().await;
    }
    issuer.check(&token).await.unwrap();
    tokio::time::advance(std::time::Duration::from_secs(50 * 60)).await;
    assert!(matches!(issuer.check(&token).await, Err(Refused::Issuer)));
}

/// The trouble of an issuer that answers, and not as one should.
#[tokio::test]
async fn an_issuer_that_answers_with_something_else_says_nothing_of_a_token() {
    let key = SigningKey::ed("one");
    let provider = TestIssuer::new(&[&key]).await;
    // Another server of this machine, which has the same keys.
    let private = TestIssuer::new(&[&key]).await;
    let token = key.token(&provider.claims());
    let unavailable = async |what: &str| {
        let checked = of(&provider).check(&token).await;
        assert!(matches!(checked, Err(Refused::Issuer)), "{what}: {checked:?}");
    };
    let document = provider.state().document.clone();
    let keys_of_it = provider.state().keys.clone();
    for (field, value) in [
        ("issuer", json!("https://elsewhere.example")),
        ("issuer", json!(null)),
        ("jwks_uri", json!(null)),
        ("jwks_uri", json!("keys")),
        ("jwks_uri", json!("file:///etc/passwd")),
        // Not public, and not what the settings name: nothing is sent there.
        ("jwks_uri", json!(format!("{}/keys", private.name))),
        ("jwks_uri", json!(format!("{}/keys", private.name.replace("127.0.0.1", "localhost")))),
        ("jwks_uri", json!("https://127.0.0.1:9/keys")),
        ("jwks_uri", json!("https://localhost:9/keys")),
        ("jwks_uri", json!("https://169.254.169.254/keys")),
        ("jwks_uri", json!("http://login.example.com/keys")),
        ("jwks_uri", json!(format!("{}/nothing", provider.name))),
    ] {
        provider.state().document[field] = value.clone();
        unavailable(&format!("{field} {value}")).await;
        provider.state().document = document.clone();
    }
    let many: Vec<Value> = (0..1_000).map(|n| SigningKey::ed(&format!("k{n}")).public()).collect();
    for keys in [
        json!({ "keys": many }).to_string(),
        json!({ "keys": {} }).to_string(),
        "[]".to_owned(),
        String::new(),
        format!("{{\"keys\":[{}", " ".repeat(300 << 10)),
        format!("{{\"keys\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000)),
    ] {
        provider.state().keys = keys.clone();
        unavailable(&keys.chars().take(40).collect::<String>()).await;
    }
    provider.state().keys = keys_of_it;
    provider.state().is_endless = true;
    unavailable("endless").await;
    provider.state().is_endless = false;
    provider.state().document =
        json!({ "issuer": provider.name, "jwks_uri": document["jwks_uri"], "x": "x".repeat(70 << 10) });
    unavailable("a document that is too long").await;
    provider.state().document = document;
    // Where it sends on to is not followed, be it private or not.
    for elsewhere in [format!("{}/keys", private.name), "https://login.example.com/keys".to_owned()] {
        provider.state().elsewhere = Some(elsewhere.clone());
        unavailable(&elsewhere).await;
    }
    assert_eq!(private.state().asked, 0);
    provider.state().elsewhere = None;
    of(&provider).check(&token).await.unwrap();
}

#[tokio::test]
async fn an_issuer_that_is_not_there_says_nothing_of_a_token_and_is_found_when_it_is() {
    let key = SigningKey::ed("one");
    let provider = TestIssuer::new(&[&key]).await;
    let (address, token, issuer) = (provider.address, key.token(&provider.claims()), of(&provider));
    drop(provider);
    while tokio::net::TcpStream::connect(address).await.is_ok() {
        tokio::task::yield_now().await;
    }
    assert!(matches!(issuer.check(&token).await, Err(Refused::Issuer)));
    let _provider = TestIssuer::on(TcpListener::bind(address).await.unwrap(), &[&key]);
    issuer.check(&token).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_issuer_that_does_not_answer_is_given_up_for_all_who_wait() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let name = format!("http://{}", listener.local_addr().unwrap());
    // It takes connections, and says nothing.
    let silent = tokio::spawn(async move {
        let mut open = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            open.push(stream);
        }
    });
    let key = SigningKey::ed("one");
    let provider = TestIssuer::new(&[&key]).await;
    let issuer = Issuer::new(Rules { issuer: name, ..rules(&provider) }).unwrap();
    let token = key.token(&provider.claims());
    let began = tokio::time::Instant::now();
    let checked = futures::future::join_all((0..50).map(|_| issuer.check(&token))).await;
    assert!(checked.iter().all(|checked| matches!(checked, Err(Refused::Issuer))), "{checked:?}");
    assert!(began.elapsed() < std::time::Duration::from_secs(11), "{:?}", began.elapsed());
    silent.abort();
}

#[test]
fn no_text_is_a_token_but_what_the_issuer_signed() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let key = SigningKey::ed("one");
    let (provider, issuer) = runtime.block_on(async {
        let provider = TestIssuer::new(&[&key]).await;
        let issuer = of(&provider);
        (provider, issuer)
    });
    let good = key.token(&provider.claims());
    runtime.block_on(issuer.check(&good)).unwrap();
    assert!(Issuer::is_token(&good));
    runtime.block_on(refused(&issuer, &format!("{good}{}", "A".repeat(20 << 10)), "20 KiB"));
    proptest!(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() }, |(
        place in 0_usize..good.len(), letter in "[ -~é\u{0}]", cut in any::<bool>(), text in ".{0,40}\\..{0,40}\\..{0,40}"
    )| {
        let mut changed = good.clone();
        if cut { changed.remove(place); } else { changed.replace_range(place..=place, &letter); }
        for token in [&changed, &text] {
            // The last letter of base64 has bits that mean nothing; a text with others of them is refused as well.
            prop_assert!(*token == good || runtime.block_on(issuer.check(token)).is_err(), "{}", token);
        }
    });
}

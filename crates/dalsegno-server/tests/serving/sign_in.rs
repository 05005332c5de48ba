//! Who is signed in on the pages, with what, and until when.

use dalsegno_access::{KeyState, SESSION_NAME, Scope};
use serde_json::Value;

use crate::client::Client;
use crate::pages::{Browser, is_sign_in, path};
use crate::world::World;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_signs_in_once_and_its_session_is_a_key_that_can_be_revoked() {
    let world = World::new().await;
    let stranger = Browser::new(&world);
    assert!(is_sign_in(&stranger.get("/runs").await));
    // What looks ahead does not use it up.
    let link = path(&world.sign_in);
    assert_eq!(stranger.send("HEAD", link, &[], "").await.status, 204);
    assert_eq!(stranger.send("GET", link, &[("sec-purpose", "prefetch;prerender")], "").await.status, 204);
    let browser = Browser::with_link(&world).await;
    assert_eq!(browser.get("/runs").await.status, 200);
    assert!(is_sign_in(&stranger.get(link).await), "used");
    let wrong = link.replace("ticket=", "ticket=0");
    assert!(is_sign_in(&stranger.get(&wrong).await));
    let keys = world.keys.list().unwrap();
    let session = keys.iter().find(|key| key.name.as_deref() == Some(SESSION_NAME)).unwrap();
    assert!(session.tenant == "*" && !session.scopes.contains(&Scope::MetricsRead));
    world.keys.revoke(&session.id, 1).unwrap();
    assert!(is_sign_in(&browser.get("/runs").await), "revoked");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn signing_out_ends_the_session_and_leaves_a_key_as_it_is() {
    let world = World::new().await;
    let browser = Browser::with_link(&world).await;
    let (by_key, key) = Browser::with_key(&world, "acme", Scope::ALL).await;
    for one in [&browser, &by_key] {
        let answer = one.submit("/sign-out", &[]).await;
        assert_eq!((answer.status, answer.header("location").as_deref()), (303, Some("/sign-in")));
        assert!(answer.header("set-cookie").unwrap().contains("Max-Age=0"));
    }
    for one in [&browser, &by_key] {
        assert!(is_sign_in(&one.get("/runs").await), "the cookie that was copied is good for nothing");
    }
    assert_eq!(key.get("/v1/runs").await.status, 200);
    let ended = world.keys.list().unwrap().into_iter().filter(|key| key.state(1) == KeyState::Revoked);
    assert_eq!(ended.count(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_cookie_of_a_browser_is_worth_no_more_than_its_session() {
    let world = World::new().await;
    let (browser, key) = Browser::with_key(&world, "acme", Scope::ALL).await;
    let (name, cookie) = browser.cookie.split_once('=').unwrap();
    let secret = key.key.clone().unwrap();
    assert_ne!(cookie, secret, "a browser sends its cookies to all ports of a host");
    assert_eq!(browser.get("/runs").await.status, 200);
    // It is no key for a client, nor one to sign in with, and the key itself is no cookie.
    let bearer = Client { key: Some(cookie.to_owned()), ..world.without_key() };
    bearer.get("/v1/runs").await.is_problem(401, "unauthenticated");
    assert!(is_sign_in(&browser.submit("/sign-in", &[("key", cookie), ("next", "/")]).await));
    let mut copied = Browser::new(&world);
    copied.cookie = format!("{name}={secret}");
    assert!(is_sign_in(&copied.get("/runs").await));
    // Who revokes the key ends the session.
    let session = world.keys.list().unwrap().pop().unwrap();
    assert_eq!(session.name, Some(format!("browser (key {})", key.id)));
    world.keys.revoke(&key.id, 1).unwrap();
    assert!(is_sign_in(&browser.get("/runs").await), "revoked");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_cookie_is_as_good_as_a_key_of_another_kind() {
    let world = World::new().await;
    let mut browser = Browser::with_link(&world).await;
    let good = browser.cookie.clone();
    let (name, key) = good.split_once('=').unwrap();
    for cookie in [
        format!("{name}="),
        format!("{name}=x"),
        format!("dalsegno={key}"),
        format!("__Host-dalsegno={key}"),
        format!("{name}x={key}"),
        format!("{name}={}0", &key[..key.len() - 1]),
    ] {
        cookie.clone_into(&mut browser.cookie);
        let answer = browser.get("/runs").await;
        assert!(is_sign_in(&answer) || cookie.ends_with(&key[key.len() - 1..]), "{cookie}: {answer:?}");
        let document: Value = browser.get("/v1/runs").await.json();
        assert!(document["code"] == "unauthenticated" || document["items"].is_array(), "{document}");
    }
}

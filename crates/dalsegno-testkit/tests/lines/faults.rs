//! Sockets that are lost, and providers that send what none should send.

use dalsegno_core::LiveNews;
use dalsegno_testkit::{LiveAnswer, LiveFault, LiveModel};
use serde_json::json;

use crate::{World, call, hang_up_in_turn, holds, news, said, says, says_in_turn};

#[tokio::test]
async fn a_socket_that_is_lost_in_each_state_is_made_anew_and_no_effect_is_doubled() {
    for fault in [LiveFault::LostBefore, LiveFault::LostWithin, LiveFault::LostAfter] {
        let asks = LiveAnswer::asks("t__book", &json!({ "q": "eight" }));
        let mut answers = vec![LiveAnswer::says("Good evening."), asks.clone().with(fault)];
        // What was asked for before the loss is known to the new session; what was not is asked for again.
        if fault != LiveFault::LostAfter {
            answers.push(asks);
        }
        answers.push(LiveAnswer::says("It is booked."));
        let live = LiveModel::start(answers).await.unwrap();
        let world = World::new(&live, "");
        let engine = world.engine().await;
        let call = call(&engine).await;
        let run = call.handle.run();
        says_in_turn(&call, "Hello?").await;
        says_in_turn(&call, "A table, please.").await;
        live.until(|book| said(book).iter().any(|text| text == "It is booked.")).await;
        hang_up_in_turn(call).await;
        let book = live.book();
        holds(&engine, run, &book).await;
        assert_eq!(book.sessions, 2, "{fault:?}");
        assert_eq!(world.count("book"), 1, "{fault:?}");
        let kinds: Vec<&str> = news(&engine, run).await.iter().map(LiveNews::kind).collect();
        let count = |kind| kinds.iter().filter(|one| **one == kind).count();
        assert_eq!((count("lost"), count("attached")), (1, 1), "{fault:?}: {kinds:?}");
        let words = said(&book);
        assert!(
            words.starts_with(&["Hello?".to_owned(), "Good evening.".to_owned()]),
            "{fault:?}: {words:?}"
        );
    }
}

#[tokio::test]
async fn frames_that_nobody_should_send_change_nothing() {
    let live = LiveModel::start([
        LiveAnswer::says("Good evening.").with(LiveFault::Garbage),
        LiveAnswer::says("Good bye."),
    ])
    .await
    .unwrap();
    let world = World::new(&live, "");
    let engine = world.engine().await;
    let call = call(&engine).await;
    let run = call.handle.run();
    says_in_turn(&call, "Hello?").await;
    says_in_turn(&call, "Bye.").await;
    hang_up_in_turn(call).await;
    let book = live.book();
    holds(&engine, run, &book).await;
    assert_eq!(
        (said(&book), book.sessions),
        (vec!["Hello?".into(), "Good evening.".into(), "Bye.".into(), "Good bye.".into()], 1)
    );
}

#[tokio::test]
async fn a_response_that_the_provider_has_by_itself_is_waited_for() {
    let live = LiveModel::start([LiveAnswer::says("Good evening.").with(LiveFault::Other)]).await.unwrap();
    let world = World::new(&live, "");
    let engine = world.engine().await;
    let call = call(&engine).await;
    let run = call.handle.run();
    says(&call, "Hello?").await;
    live.until(|book| said(book).len() == 2).await;
    hang_up_in_turn(call).await;
    let book = live.book();
    holds(&engine, run, &book).await;
    assert_eq!(said(&book), ["Hello?", "Good evening."]);
    assert_eq!(book.count("response.create"), 2);
}

#[tokio::test]
async fn a_provider_that_is_not_there_ends_the_call_with_the_reason() {
    let live = LiveModel::start([]).await.unwrap();
    let world = World::new(&live, "");
    drop(live);
    let engine = world.engine().await;
    let call = call(&engine).await;
    let run = call.handle.run();
    call.handle.finish().await.unwrap();
    let news = news(&engine, run).await;
    let [LiveNews::Ended { reason, .. }] = &news[..] else { panic!("{news:?}") };
    assert!(reason.contains("cannot reach"), "{reason}");
    assert!(engine.journal().replay(run).await.unwrap().identical);
}

#[tokio::test]
async fn a_provider_that_closes_each_connection_at_once_ends_the_call_with_the_reason() {
    for is_polite in [true, false] {
        let live = LiveModel::start([]).await.unwrap();
        let world = World::new(&live, "");
        let closes = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let settings = world.path().join("dalsegno.toml");
        let text = std::fs::read_to_string(&settings).unwrap();
        let address = format!("http://{}/v1", closes.local_addr().unwrap());
        std::fs::write(settings, text.replace(&live.base_url(), &address)).unwrap();
        let accepted = tokio::spawn(async move {
            let mut accepted = 0_u32;
            loop {
                let Ok((stream, _)) = closes.accept().await else { return accepted };
                let Ok(mut socket) = tokio_tungstenite::accept_async(stream).await else { continue };
                accepted += 1;
                if is_polite {
                    let _ = socket.close(None).await;
                }
                if accepted == 5 {
                    return accepted;
                }
            }
        });
        let engine = world.engine().await;
        let call = call(&engine).await;
        let run = call.handle.run();
        call.handle.finish().await.unwrap();
        assert_eq!(accepted.await.unwrap(), 5);
        let news = news(&engine, run).await;
        let [LiveNews::Ended { reason, .. }] = &news[..] else { panic!("{news:?}") };
        assert!(reason.contains("the live model opens no session"), "{reason}");
        // Why a socket was lost is said; one that was closed has no more to say.
        assert!(is_polite || reason.contains("opens no session: "), "{reason}");
        assert!(engine.journal().replay(run).await.unwrap().identical);
    }
}

//! Words, tools and interruptions.

use dalsegno_core::{AgentRequest, LiveNews, Status};
use dalsegno_runtime::{RunEnd, StartOptions};
use dalsegno_testkit::{LiveAnswer, LiveModel};
use dalsegno_voice::{Caller, Line, LineError};
use serde_json::json;

use crate::{World, call, hang_up_in_turn, holds, news, said, says, says_in_turn};

#[tokio::test]
async fn a_call_with_a_read_and_a_keyed_tool() {
    let live = LiveModel::start([
        LiveAnswer::asks("t__find", &json!({ "q": "two" })),
        LiveAnswer { text: "I book it.".into(), ..LiveAnswer::asks("t__book", &json!({ "q": "eight" })) },
        LiveAnswer::says("It is booked."),
        LiveAnswer::says("Good bye."),
    ])
    .await
    .unwrap();
    let world = World::new(&live, "");
    let engine = world.engine().await;
    let call = call(&engine).await;
    let run = call.handle.run();
    says_in_turn(&call, "A table for two?").await;
    says_in_turn(&call, "Thank you.").await;
    let report = hang_up_in_turn(call).await;
    let RunEnd::Ended(response) = report.end else { panic!("{report:?}") };
    assert_eq!((response.status, response.answer.as_deref()), (Status::Completed, Some("Good bye.")));
    let book = live.book();
    holds(&engine, run, &book).await;
    assert_eq!((world.count("find"), world.count("book")), (1, 1));
    let expected = ["A table for two?", "I book it.", "It is booked.", "Thank you.", "Good bye."];
    assert_eq!(said(&book), expected);
    let session = &book.frames[0].1["session"];
    assert_eq!(session["instructions"], "You are the desk.");
    let tools: Vec<&str> =
        session["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(tools, ["t__book", "t__find", "t__slow"]);
}

#[tokio::test]
async fn arguments_cut_by_an_interruption_start_nothing() {
    let story =
        LiveAnswer { text: "Once upon".into(), ..LiveAnswer::asks("t__book", &json!({ "q": "eight" })) };
    let live = LiveModel::start([story.held(), LiveAnswer::says("Yes?")]).await.unwrap();
    let world = World::new(&live, "");
    let engine = world.engine().await;
    let call = call(&engine).await;
    let run = call.handle.run();
    says(&call, "Book me a table.").await;
    live.until(|book| book.count("response.create") == 1).await;
    says(&call, "Stop!").await;
    live.until(|book| book.count("response.create") == 2).await;
    hang_up_in_turn(call).await;
    let book = live.book();
    holds(&engine, run, &book).await;
    assert_eq!(book.count("response.cancel"), 1);
    assert_eq!(world.count("book"), 0, "what was cut was never whole");
    let news = news(&engine, run).await;
    assert!(!news.iter().any(|one| matches!(one, LiveNews::Asked { .. })), "{news:?}");
    assert!(
        news.iter()
            .any(|one| matches!(one, LiveNews::Said { text, heard_ms: Some(_) } if text == "Once upon"))
    );
    assert_eq!(said(&book), ["Book me a table.", "Stop!", "Once upon", "Yes?"]);
}

#[tokio::test]
async fn a_sentence_while_a_lookup_is_under_way_does_not_lose_it() {
    let live = LiveModel::start([
        LiveAnswer::asks("t__slow", &json!({ "q": "menu" })),
        LiveAnswer::says("I am still looking."),
        LiveAnswer::says("Here it is."),
    ])
    .await
    .unwrap();
    let world = World::new(&live, "");
    let engine = world.engine().await;
    let call = call(&engine).await;
    let run = call.handle.run();
    says(&call, "What is on the menu?").await;
    live.until(|book| book.calls().len() == 1).await;
    says(&call, "And is it vegetarian?").await;
    live.until(|book| book.count("response.create") == 2).await;
    world.may.add_permits(1);
    live.until(|book| book.count("response.create") == 3).await;
    hang_up_in_turn(call).await;
    let book = live.book();
    holds(&engine, run, &book).await;
    assert_eq!(world.count("slow"), 1);
    assert!(book.outputs(book.calls()[0])[0].contains("slow"), "{:#?}", book.items);
}

#[tokio::test]
async fn a_result_that_is_there_at_an_interruption_reaches_the_session_and_starts_no_answer_over_the_caller()
{
    let live = LiveModel::start([
        LiveAnswer::asks("t__slow", &json!({ "q": "menu" })),
        LiveAnswer::says("A long story").held(),
        LiveAnswer::says("The soup."),
    ])
    .await
    .unwrap();
    let world = World::new(&live, "");
    let engine = world.engine().await;
    let call = call(&engine).await;
    let run = call.handle.run();
    says(&call, "What is on the menu?").await;
    live.until(|book| book.calls().len() == 1).await;
    says(&call, "And tell me a story.").await;
    live.until(|book| book.count("response.create") == 2).await;
    // The result comes while the model speaks, and no response is asked for over it.
    world.may.add_permits(1);
    live.until(|book| book.count("conversation.item.create") == 3).await;
    assert_eq!(live.book().count("response.create"), 2);
    says(&call, "Enough.").await;
    live.until(|book| book.count("response.create") == 3).await;
    hang_up_in_turn(call).await;
    let book = live.book();
    holds(&engine, run, &book).await;
    assert_eq!(book.outputs(book.calls()[0]).len(), 1);
}

#[tokio::test]
async fn the_key_reaches_its_provider_and_no_record() {
    let key = "sk-of-the-line-0123456789";
    for (given, is_right) in [("api_key = { file = \"key\" }\n", true), ("", false)] {
        let live = LiveModel::listen(0, Some(key), []).await.unwrap();
        let world = World::new(&live, given);
        let engine = world.engine().await;
        let call = call(&engine).await;
        let run = call.handle.run();
        says_in_turn(&call, "Hello?").await;
        let report = hang_up_in_turn(call).await;
        let RunEnd::Ended(response) = report.end else { panic!("{report:?}") };
        assert_eq!(response.status == Status::Completed, is_right, "{response:?}");
        assert_eq!(live.book().refused, u32::from(!is_right), "a wrong key is shown once");
        let news = format!("{:?}", news(&engine, run).await);
        assert!(!news.contains(key), "{news}");
        assert_eq!(news.contains("refuses the connection: 401"), !is_right, "{news}");
    }
}

#[tokio::test]
async fn a_line_has_as_many_calls_as_it_may_have() {
    let live = LiveModel::start([]).await.unwrap();
    let world = World::new(&live, "max_calls = 1\n");
    let engine = world.engine().await;
    let line = Line::open(&engine, "front").unwrap();
    let desk = "desk".parse().unwrap();
    let begin = || line.call(&engine, &desk, AgentRequest::text(""), StartOptions::default());
    let first = begin().await.unwrap_or_else(|error| panic!("{error}"));
    match begin().await {
        Err(LineError::Full { max_calls: 1, .. }) => {}
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("it has room"),
    }
    first.caller.send(Caller::HangsUp).await.unwrap();
    first.handle.finish().await.unwrap();
    first.carried.await.unwrap();
    let next = begin().await.unwrap_or_else(|error| panic!("{error}"));
    drop(next.caller);
    next.handle.finish().await.unwrap();
    let Err(LineError::Unknown { known_lines, .. }) = Line::open(&engine, "back") else { panic!() };
    assert_eq!(known_lines, ["front"]);
}

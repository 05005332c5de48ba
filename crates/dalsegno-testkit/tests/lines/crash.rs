//! The process that carries a call dies, and another one attaches to it.

use dalsegno_core::LiveNews;
use dalsegno_testkit::{LiveAnswer, LiveModel};
use serde_json::json;

use crate::{World, call, hang_up_in_turn, holds, news, said, says};

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

#[test]
fn another_process_attaches_with_all_that_was_said_and_done() {
    // The provider is somewhere else, and lives on.
    let there = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let answers = [
        LiveAnswer::asks("t__book", &json!({ "q": "eight" })),
        LiveAnswer { text: "It is booked.".into(), ..LiveAnswer::asks("t__slow", &json!({ "q": "menu" })) },
        LiveAnswer::says("The soup."),
    ];
    let live = there.block_on(LiveModel::start(answers)).unwrap();
    let world = World::new(&live, "");
    let first = runtime();
    let run = first.block_on(async {
        let engine = world.engine().await;
        let call = call(&engine).await;
        says(&call, "A table at eight, and the menu?").await;
        // The second tool is under way, and never answers in this process.
        let run = call.handle.run();
        let booked = |one: &LiveNews| matches!(one, LiveNews::Said { text, .. } if text == "It is booked.");
        while world.count("slow") == 0 || !news(&engine, run).await.iter().any(booked) {
            tokio::task::yield_now().await;
        }
        std::mem::forget(call.caller);
        run
    });
    drop(first);
    world.may.add_permits(8);
    let second = runtime();
    second.block_on(async {
        let engine = world.engine().await;
        let call = call(&engine).await;
        assert_eq!(call.handle.run(), run);
        live.until(|book| book.sessions == 2 && said(book).iter().any(|text| text == "The soup.")).await;
        hang_up_in_turn(call).await;
        let book = live.book();
        holds(&engine, run, &book).await;
        assert_eq!(world.count("book"), 1, "it has its outcome, and is not repeated");
        assert_eq!(book.calls().len(), 2, "the new session knows both calls: {:#?}", book.items);
        assert_eq!(said(&book)[..2], ["A table at eight, and the menu?", "It is booked."]);
    });
}

//! A walk through a run says at every place what a fold from the beginning says, in whichever order the places are visited.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::sync::Arc;

use dalsegno_core::{LiveNews, OperationId, Outcome, RunId, Surface, Timestamp};
use dalsegno_history::{Journal, Scene, Standing, Walk};
use dalsegno_store::{Body, Created, MemoryStore, NewRecord, Owner, RecordKind, SqliteStore, Store};

use crate::support::{begin, config, record};

mod support;

const RUN: RunId = RunId::from_bytes([7; 16]);

async fn journal(steps: u64) -> Journal {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    record(&*store, RUN, steps, &|step| format!("words of step {step}")).await;
    Journal::of(store, None)
}

async fn whole(journal: &Journal) -> Walk {
    let mut walk = journal.walk(RUN).await.unwrap();
    walk.read_all().await.unwrap();
    walk
}

/// What a fold from the beginning says of a step.
async fn expected(journal: &Journal, walk: &Walk, place: usize) -> (dalsegno_core::AgentState, u64) {
    let (config, records) = journal.journal_of(RUN).await.unwrap();
    let outline = walk.outline();
    let first =
        outline.steps.get(place).map_or(outline.ending.as_ref().map(|end| end.seq), |step| Some(step.first));
    let until = usize::try_from(first.unwrap()).unwrap();
    let fold = journal.fold_all(RUN, config, &records[..=until]).await.unwrap();
    (fold.state().clone(), fold.active_ms())
}

async fn scene(walk: &mut Walk, place: usize) -> Scene {
    walk.scene(place).await.unwrap().unwrap_or_else(|| panic!("no scene at {place}"))
}

#[tokio::test]
async fn every_state_is_that_of_a_fold_from_the_start_forwards_backwards_and_at_random() {
    // More records than one page, and than lie between two folds that are kept.
    let journal = journal(301).await;
    let mut walk = whole(&journal).await;
    let places = walk.outline().places();
    assert_eq!(places, 302, "every step, and the end");
    // A multiplier without a common factor with the number of places visits each once, out of order.
    let scattered = (0..places).map(|place| place * 97 % places);
    let order: Vec<usize> = (0..places).chain((0..places).rev()).chain(scattered).collect();
    let inspection = journal.inspect(RUN, None).await.unwrap();
    let mut states = Vec::new();
    for place in 0..places {
        // Every tenth, and those at the ends: a fold from the beginning each time is what the walk saves.
        let is_compared = place % 10 == 0 || place + 2 >= places;
        states.push(if is_compared { Some(expected(&journal, &walk, place).await.0) } else { None });
    }
    for place in order {
        let scene = scene(&mut walk, place).await;
        if let Some(state) = &states[place] {
            assert_eq!(scene.state, *state, "at {place}");
        }
        if let Some(before) = place.checked_sub(1).and_then(|before| states[before].as_ref()) {
            assert_eq!(scene.before, *before, "before {place}");
        }
        assert_eq!(scene.view, inspection.steps[place], "at {place}");
    }
    assert_eq!(walk.unfolded(), None);
    assert_eq!(walk.unread(), None);
}

#[tokio::test]
async fn a_walk_needs_no_order_to_be_read_and_reads_what_was_added() {
    let journal = journal(301).await;
    let mut walk = journal.walk(RUN).await.unwrap();
    assert!(!walk.is_read() && walk.records_read() < walk.summary().records);
    // What was read can be looked at before the rest is.
    assert_eq!(scene(&mut walk, 3).await.view.step, 4);
    assert!(walk.read_on().await.unwrap() || walk.is_read());
    walk.read_all().await.unwrap();
    assert_eq!(walk.records_read(), walk.summary().records);
    assert!(!walk.refresh().await.unwrap(), "nothing was added");
    assert_eq!(scene(&mut walk, 301).await.response.unwrap().answer.as_deref(), Some("all is well"));
}

#[tokio::test]
async fn the_outline_says_what_stands_in_the_records() {
    let journal = journal(5).await;
    let walk = whole(&journal).await;
    let outline = walk.outline();
    let labels: Vec<Vec<&str>> =
        outline.steps.iter().map(|step| step.operations.iter().map(|one| &*one.label).collect()).collect();
    let (asks, calls) = (vec!["model completion"], vec!["tool `risk.score`", "tool `risk.note`"]);
    assert_eq!(labels, [asks.clone(), calls.clone(), asks.clone(), calls, asks]);
    let first = &outline.steps[0].operations[0];
    assert_eq!(
        (first.standing, first.attempts, first.elapsed_ms, first.tokens),
        (Standing::Done, 1, Some(10), 7)
    );
    assert_eq!(outline.ending.as_ref().map(|ending| ending.kind), Some(RecordKind::Completed));
    assert_eq!(outline.place_of(3), 2);
    assert_eq!(outline.find(outline.steps[1].operations[1].operation), Some((1, 1)));
    assert_eq!(outline.find(OperationId::from_bytes([1; 16])), None);
}

#[tokio::test]
async fn a_scene_says_what_is_new_what_was_used_and_what_caused_it() {
    let journal = journal(5).await;
    let mut walk = whole(&journal).await;
    let (asked, called, again) =
        (scene(&mut walk, 0).await, scene(&mut walk, 1).await, scene(&mut walk, 2).await);
    let id = |scene: &Scene, place: usize| scene.view.operations[place].operation;
    // Instructions and question; then the reply and two results.
    assert_eq!(asked.new_messages(id(&asked, 0)), 2);
    assert_eq!(again.new_messages(id(&again, 0)), 3);
    assert_eq!(again.prompt(id(&again, 0)).unwrap().reading.transcript.len(), 5);
    assert!(called.prompt(id(&called, 0)).is_none());
    assert_eq!(called.cause(id(&called, 1), Some(&asked)), Some(id(&asked, 0)));
    assert_eq!(again.cause(id(&again, 0), Some(&called)), None);
    let spent = asked.spent().unwrap();
    assert_eq!((spent.model_calls, spent.tokens(), spent.tool_calls), (1, 7, 2));
    assert!(again.changes().iter().any(|change| change.path == "/transcript/messages"));
    assert_eq!(called.records.len(), 4);
}

/// A journal in a file, of a run whose record `seq` is changed by `damage`.
async fn damaged(damage: &str, seq: i64) -> (tempfile::TempDir, Journal) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal.db");
    let store = SqliteStore::open(&path).unwrap();
    record(&store, RUN, 301, &|_| "words".to_owned()).await;
    drop(store);
    let file = rusqlite::Connection::open(&path).unwrap();
    let changed = file.execute(damage, [seq]).unwrap();
    assert_eq!(changed, 1);
    drop(file);
    let journal = Journal::open(&path).await.unwrap();
    (folder, journal)
}

#[tokio::test]
async fn a_damaged_journal_is_shown_up_to_the_damage() {
    let (_folder, journal) = damaged("UPDATE record SET at = at + 1 WHERE key & 4294967295 = ?1", 700).await;
    journal.inspect(RUN, None).await.unwrap_err();
    let mut walk = whole(&journal).await;
    let stop = walk.unread().unwrap().clone();
    assert_eq!(stop.seq, 700);
    assert!(stop.why.contains("record 700") && stop.why.contains("damaged"), "{stop}");
    assert_eq!(walk.records_read(), 700);
    let last = walk.outline().steps.len() - 1;
    assert_eq!(walk.outline().ending, None);
    let scene = scene(&mut walk, last).await;
    assert_eq!(scene.view.step, walk.outline().steps[last].step);
    assert!(walk.scene(last + 1).await.unwrap().is_none());
    // It does not mend itself.
    assert!(!walk.refresh().await.unwrap());
}

#[tokio::test]
async fn a_record_that_is_missing_is_where_the_walk_ends() {
    // In the middle, and the last one: 301 steps, of which 150 call two tools.
    let last = 1 + 151 * 2 + 150 * 4;
    for seq in [512, last] {
        let (_folder, journal) = damaged("DELETE FROM record WHERE key & 4294967295 = ?1", seq).await;
        let walk = whole(&journal).await;
        let seq = u64::try_from(seq).unwrap();
        assert_eq!(walk.unread().map(|stop| stop.seq), Some(seq));
        assert_eq!(walk.records_read(), seq);
    }
}

#[tokio::test]
async fn a_journal_that_does_not_fold_is_outlined_to_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal.db");
    let store = SqliteStore::open(&path).unwrap();
    record(&store, RUN, 21, &|_| "words".to_owned()).await;
    drop(store);
    // The reply of step 11 calls nothing, so the core would not ask for what follows.
    dalsegno_store::tamper::tamper(&path, RUN, 32, |body| {
        let Body::Resolved { outcome: Outcome::ModelReplied(reply), .. } = body else { panic!("{body:?}") };
        reply.parts.clear();
    })
    .unwrap();
    let journal = Journal::open(&path).await.unwrap();
    let mut walk = whole(&journal).await;
    assert_eq!(walk.outline().places(), 22);
    assert!(walk.scene(10).await.unwrap().is_some());
    assert!(walk.scene(15).await.unwrap().is_none());
    let stop = walk.unfolded().unwrap().clone();
    assert!(stop.seq == 33 && stop.why.contains("record 33"), "{stop:?}");
    // What stands before that can still be looked at.
    assert!(walk.scene(4).await.unwrap().is_some());
}

#[tokio::test]
async fn an_unknown_run_is_an_error() {
    let journal = journal(1).await;
    let error = journal.walk(RunId::from_bytes([9; 16])).await.err().unwrap();
    assert_eq!(error.kind(), dalsegno_history::ErrorKind::NotFound);
}

#[tokio::test]
async fn a_call_that_continues_meanwhile_is_forked_where_it_was_read() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let owner = Owner::in_process();
    let new = begin(RUN, &config(1), &owner, Some(Surface::Telephone));
    let Created::New(mut lease) = store.create(new).await.unwrap() else { panic!("the run exists") };
    let turn = |text: &str| {
        let news = vec![LiveNews::SpeechStarted, LiveNews::Heard { text: text.to_owned() }];
        vec![NewRecord::new(Timestamp::from_millis(2_000), Body::Conversed { news })]
    };
    store.append(&mut lease, turn("one")).await.unwrap();
    let journal = Journal::of(Arc::clone(&store), None);
    let (config, records) = journal.journal_of(RUN).await.unwrap();
    store.append(&mut lease, turn("two")).await.unwrap();
    let fork = async |at| {
        let point = journal.fork_point(RUN, &config, &records, Some(at), Vec::new(), &|_, _, _| {
            panic!("no outcome is replaced")
        });
        point.await.map(|point| (point.run, point.seq, point.within))
    };
    assert_eq!(fork(1).await.unwrap(), (RUN, 1, 0));
    let error = fork(2).await.unwrap_err().to_string();
    assert!(error.contains("it has 1 turns"), "{error}");
}

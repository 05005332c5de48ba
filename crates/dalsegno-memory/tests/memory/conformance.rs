//! What every memory must do, asked of a file and of SQLite's own memory.

use crate::common::{create, entities, observation, scopes, search};
use dalsegno_memory::{Memory, MemoryError, NewObservation, Scope, SearchQuery, SqliteMemory};
use serde_json::json;

conformance!(
    a_hit_says_everything_about_the_observation,
    the_better_match_comes_first_and_scores_stay_between_zero_and_one,
    equal_scores_stand_in_the_order_of_their_ids,
    a_query_in_the_language_of_the_index_is_plain_words,
    a_query_without_words_finds_nothing,
    a_query_out_of_bounds_is_refused,
    limit_and_lowest_score_cut_the_same_list,
    the_same_operation_writes_once,
    an_operation_id_is_not_reused_for_something_else,
    the_same_content_is_kept_once,
    an_entity_keeps_its_type_within_its_scope,
    a_refused_observation_leaves_nothing_behind,
    many_runs_write_and_search_at_once,
);

const HERE: &str = "acme/support/triage/s1";

async fn a_hit_says_everything_about_the_observation(memory: impl Memory) {
    let scopes = scopes(HERE, Scope::Workspace);
    let created =
        create(&memory, &scopes, observation(1, "INC-1 double charge", "Cards charged twice.")).await;
    let hits = search(&memory, &scopes, "Why were cards charged? nonsense").await;
    let [hit] = &hits[..] else { panic!("{hits:?}") };
    let shown = json!({
        "entity": "INC-1 double charge",
        "entity_type": "incident",
        "text": "Cards charged twice.",
        "score": hit.score,
        "why": {"bm25": hit.why.bm25, "words": ["cards", "charged"]},
        "observation": created.observation.to_string(),
        "recorded_at": 1_700_000_000_000_u64,
        "metadata": {"severity": "high"},
    });
    assert_eq!(serde_json::to_value(hit).unwrap(), shown);
    assert!(!created.duplicate);
    assert_eq!(created.entity, "INC-1 double charge");
}

async fn the_better_match_comes_first_and_scores_stay_between_zero_and_one(memory: impl Memory) {
    let scopes = scopes(HERE, Scope::Workspace);
    for (index, (entity, text)) in [
        ("once", "the refund queue was stuck behind a long migration of the orders table"),
        ("best", "refund queue stuck"),
        ("other", "certificate expired on the status page"),
    ]
    .into_iter()
    .enumerate()
    {
        create(&memory, &scopes, observation(index as u8, entity, text)).await;
    }
    let hits = search(&memory, &scopes, "refund queues are stuck").await;
    assert_eq!(entities(&hits), ["best", "once"]);
    // Repetition lifts a score, but never over 1.
    create(&memory, &scopes, observation(9, "repeated", &"refund queue stuck ".repeat(3_000))).await;
    let hits = search(&memory, &scopes, "refund queues are stuck").await;
    assert_eq!(hits.len(), 3);
    assert!(hits.iter().all(|hit| (0.0..=1.0).contains(&hit.score)), "{hits:?}");
    assert!(
        hits.windows(2).all(|pair| pair[0].score >= pair[1].score && pair[0].why.bm25 >= pair[1].why.bm25)
    );
}

async fn equal_scores_stand_in_the_order_of_their_ids(memory: impl Memory) {
    let scopes = scopes(HERE, Scope::Workspace);
    for index in 0..20 {
        create(&memory, &scopes, observation(index, &format!("entity {index}"), "the same words")).await;
    }
    let hits = search(&memory, &scopes, "same words").await;
    assert_eq!(hits.len(), 20);
    assert!(hits.windows(2).all(|pair| pair[0].score.to_bits() == pair[1].score.to_bits()));
    assert!(hits.windows(2).all(|pair| pair[0].observation < pair[1].observation));
    let first =
        memory.search(&scopes, &SearchQuery { limit: 3, ..SearchQuery::new("same words") }).await.unwrap();
    assert_eq!(first, hits[..3]);
}

async fn a_query_in_the_language_of_the_index_is_plain_words(memory: impl Memory) {
    let mine = scopes(HERE, Scope::Session);
    let others = scopes("rival/support/triage/s1", Scope::Tenant);
    create(&memory, &others, observation(1, "secret", "scope level token near or and not column 1 2")).await;
    create(&memory, &mine, observation(2, "mine", "ordinary payment failure")).await;
    for text in [
        "\") OR scope:\"1",
        "1.secret 2.secret 1.token",
        "NEAR(scope token, 5)",
        "NEAR(",
        "sec*",
        "*",
        "\"",
        "\"\"\"",
        "token : secret",
        "{token} : secret ^scope",
        "- + ^ ( ) ' \\ ; --",
        "secret' OR 1=1 --",
        "secret\u{0} OR token",
        "🦀 ſecret ＳＥＣＲＥＴ",
    ] {
        assert_eq!(search(&memory, &mine, text).await, [], "{text}");
    }
    let hits = search(&memory, &mine, "\") OR scope:\"1 payment* NEAR(\"").await;
    assert_eq!(entities(&hits), ["mine"]);
    assert_eq!(hits[0].why.words, ["payment"]);
}

async fn a_query_without_words_finds_nothing(memory: impl Memory) {
    let scopes = scopes(HERE, Scope::Workspace);
    assert_eq!(search(&memory, &scopes, "before anything was written").await, []);
    create(&memory, &scopes, observation(1, "e", "text")).await;
    for text in ["", "  \n", "?!", "…"] {
        assert_eq!(search(&memory, &scopes, text).await, [], "{text:?}");
    }
}

async fn a_query_out_of_bounds_is_refused(memory: impl Memory) {
    let scopes = scopes(HERE, Scope::Workspace);
    for limit in [0, 101] {
        let error =
            memory.search(&scopes, &SearchQuery { limit, ..SearchQuery::new("x") }).await.unwrap_err();
        assert_eq!(error.to_string(), format!("the limit is {limit}, expected 1 to 100"));
    }
    for min_score in [-0.1, 1.1, f64::NAN] {
        let query = SearchQuery { min_score, ..SearchQuery::new("x") };
        assert!(matches!(memory.search(&scopes, &query).await, Err(MemoryError::MinScore { .. })));
    }
    let long = "payment ".repeat(100_000);
    create(&memory, &scopes, observation(1, "e", "payment")).await;
    assert_eq!(search(&memory, &scopes, &long).await.len(), 1);
}

async fn limit_and_lowest_score_cut_the_same_list(memory: impl Memory) {
    let scopes = scopes(HERE, Scope::Workspace);
    let words = ["alpha", "beta", "gamma", "delta", "epsilon"];
    for index in 0..60_usize {
        let length = 1 + index % 11;
        let text: Vec<&str> = (0..length).map(|at| words[(index * 7 + at * at) % words.len()]).collect();
        create(&memory, &scopes, observation(index as u8, &format!("{index}"), &text.join(" "))).await;
    }
    let all = search(&memory, &scopes, "alpha beta gamma").await;
    assert!(all.len() > 40);
    for limit in 1..=100 {
        let query = SearchQuery { limit, ..SearchQuery::new("alpha beta gamma") };
        let hits = memory.search(&scopes, &query).await.unwrap();
        assert_eq!(hits, all[..all.len().min(limit as usize)], "limit {limit}");
    }
    for hit in &all {
        let query = SearchQuery { limit: 100, min_score: hit.score, ..SearchQuery::new("alpha beta gamma") };
        let hits = memory.search(&scopes, &query).await.unwrap();
        assert_eq!(hits, all.iter().filter(|one| one.score >= hit.score).cloned().collect::<Vec<_>>());
    }
}

async fn the_same_operation_writes_once(memory: impl Memory) {
    let scopes = scopes(HERE, Scope::Workspace);
    let first = create(&memory, &scopes, observation(1, "e", "text")).await;
    let later = NewObservation { recorded_at: 1_800_000_000_000, ..observation(1, "e", "text") };
    let again = create(&memory, &scopes, later).await;
    assert!(!first.duplicate && !again.duplicate, "it is answered as the first time");
    assert_eq!(again.observation, first.observation);
    let hits = search(&memory, &scopes, "text").await;
    assert_eq!(hits.len(), 1);
    assert_eq!(hits[0].recorded_at, 1_700_000_000_000);
}

async fn an_operation_id_is_not_reused_for_something_else(memory: impl Memory) {
    let scopes = scopes(HERE, Scope::Workspace);
    create(&memory, &scopes, observation(0xab, "e", "text")).await;
    let error = memory.create(&scopes, observation(0xab, "e", "other")).await.unwrap_err();
    assert!(error.to_string().starts_with(&format!("the operation `{}` has already", "ab".repeat(16))));
    assert_eq!(search(&memory, &scopes, "other").await, []);
}

async fn the_same_content_is_kept_once(memory: impl Memory) {
    let scopes = scopes(HERE, Scope::Workspace);
    let first = create(&memory, &scopes, observation(1, "e", "text")).await;
    let before = search(&memory, &scopes, "text").await;
    let merged = create(&memory, &scopes, observation(2, "e", "text")).await;
    assert!(merged.duplicate);
    assert_eq!(merged.observation, first.observation);
    assert_eq!(search(&memory, &scopes, "text").await, before);
    // The second operation counts as done, also for another content.
    assert!(create(&memory, &scopes, observation(2, "e", "text")).await.duplicate);
    assert!(memory.create(&scopes, observation(2, "e", "more")).await.is_err());

    let mut other = observation(3, "e", "text");
    other.metadata = json!({"severity": "low"});
    assert!(!create(&memory, &scopes, other).await.duplicate);
    assert!(!create(&memory, &scopes, observation(4, "f", "text")).await.duplicate);
    assert_eq!(search(&memory, &scopes, "text").await.len(), 3);
}

async fn an_entity_keeps_its_type_within_its_scope(memory: impl Memory) {
    let workspace = scopes(HERE, Scope::Workspace);
    create(&memory, &workspace, observation(1, "e", "text")).await;
    let person = || NewObservation { entity_type: "person".to_owned(), ..observation(2, "e", "other") };
    let error = memory.create(&workspace, person()).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the entity `e` is of type `incident`, not `person`; use that type or another name"
    );
    create(&memory, &scopes(HERE, Scope::Agent), person()).await;
}

async fn a_refused_observation_leaves_nothing_behind(memory: impl Memory) {
    let scopes = scopes(HERE, Scope::Workspace);
    create(&memory, &scopes, observation(1, "e", "text")).await;
    let before = search(&memory, &scopes, "text").await;
    let refused = [
        observation(2, "", "text"),
        observation(2, "x", &"text ".repeat(20_000)),
        NewObservation { metadata: json!("text"), ..observation(2, "x", "text") },
        NewObservation { entity_type: "person".to_owned(), ..observation(2, "e", "text") },
    ];
    for new in refused {
        memory.create(&scopes, new).await.unwrap_err();
    }
    assert_eq!(search(&memory, &scopes, "text").await, before);
    assert!(!create(&memory, &scopes, observation(2, "e", "more text")).await.duplicate);
}

async fn many_runs_write_and_search_at_once(memory: SqliteMemory) {
    let scopes = scopes(HERE, Scope::Workspace);
    let mut tasks = tokio::task::JoinSet::new();
    for index in 0..40 {
        let (memory, scopes) = (memory.clone(), scopes.clone());
        tasks.spawn(async move {
            // Two tasks share each operation.
            let new = observation(index / 2, &format!("entity {}", index / 2), "concurrent text");
            let created = create(&memory, &scopes, new).await;
            assert!(!search(&memory, &scopes, "concurrent").await.is_empty());
            assert!(!created.duplicate);
            created.observation.to_string()
        });
    }
    let written: std::collections::BTreeSet<String> = tasks.join_all().await.into_iter().collect();
    assert_eq!(written.len(), 20);
    assert_eq!(search(&memory, &scopes, "concurrent").await.len(), 20);
}

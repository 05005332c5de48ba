//! Relations, walks and views, asked of a file and of SQLite's own memory.

use crate::common::{create, observation, relate, relation, relations, scopes, unrelate};
use dalsegno_memory::{
    Direction, Memory, MemoryError, NewObservation, OBSERVATIONS_SHOWN, Relate, Scope, ScopeSet, Traversal,
    Traverse, UNKNOWN_TYPE,
};
use serde_json::json;

conformance!(
    a_walk_returns_every_frontier_in_order,
    a_walk_says_what_its_bounds_left_out,
    a_walk_follows_one_type_and_any_direction,
    a_walk_from_nowhere_reaches_nothing,
    a_walk_as_of_a_time_sees_what_held_then,
    a_walk_shows_the_newest_observations,
    the_same_relation_is_kept_once,
    another_strength_ends_the_one_that_stood,
    an_end_is_written_once_and_stays_in_the_history,
    periods_of_one_relation_never_overlap,
    an_operation_id_is_not_reused_for_another_kind_of_write,
    relations_come_with_an_observation_or_not_at_all,
    an_entity_known_by_relations_takes_the_first_type,
    narrower_scopes_decide_where_both_know,
    a_view_shows_everything_about_an_entity,
    a_list_counts_what_stands,
);

const HERE: &str = "acme/support/triage/s1";

fn here() -> ScopeSet {
    scopes(HERE, Scope::Workspace)
}

async fn graph(memory: &impl Memory, triples: &[&str]) {
    for (index, triple) in triples.iter().enumerate() {
        relate(memory, &here(), relation(index as u8, triple, 1.0, 10)).await;
    }
}

async fn walk(memory: &impl Memory, asked: Traverse) -> Traversal {
    memory.traverse(&here(), &asked).await.unwrap()
}

fn names(walk: &Traversal) -> Vec<String> {
    walk.entities.iter().map(|entity| format!("{}{}", entity.depth, entity.name)).collect()
}

fn triples(walk: &Traversal) -> Vec<String> {
    let shown = |relation: &dalsegno_memory::TraversedRelation| {
        format!("{} {} {} {}", relation.depth, relation.from, relation.relation, relation.to)
    };
    walk.relations.iter().map(shown).collect()
}

async fn a_walk_returns_every_frontier_in_order(memory: impl Memory) {
    graph(&memory, &["a r c", "a r b", "b r a", "b r d", "c r d", "d r d", "d r e", "e r a", "e r f"]).await;
    let reached = walk(&memory, Traverse { depth: 3, ..Traverse::new("a") }).await;
    assert_eq!(names(&reached), ["0a", "1b", "1c", "2d", "3e"]);
    assert_eq!(
        triples(&reached),
        ["1 a r b", "1 a r c", "2 b r a", "2 b r d", "2 c r d", "3 d r d", "3 d r e"]
    );
    assert!(!reached.truncated);
    let shown = json!({
        "entities": [
            {"name": "a", "entity_type": "unknown", "depth": 0, "observations": []},
            {"name": "b", "entity_type": "unknown", "depth": 1, "observations": []},
            {"name": "c", "entity_type": "unknown", "depth": 1, "observations": []},
        ],
        "relations": [
            {"from": "a", "relation": "r", "to": "b", "depth": 1, "strength": 1.0},
            {"from": "a", "relation": "r", "to": "c", "depth": 1, "strength": 1.0},
        ],
        "truncated": false,
    });
    let reached = walk(&memory, Traverse { depth: 1, ..Traverse::new("a") }).await;
    assert_eq!(serde_json::to_value(&reached).unwrap(), shown);
}

async fn a_walk_says_what_its_bounds_left_out(memory: impl Memory) {
    graph(&memory, &["a r b", "a r c", "b r d", "c r b"]).await;
    let reached = walk(&memory, Traverse { depth: 2, limit: 2, ..Traverse::new("a") }).await;
    assert_eq!(
        (names(&reached), triples(&reached)),
        (vec!["0a".into(), "1b".into()], vec!["1 a r b".into()])
    );
    assert!(reached.truncated);
    // What lies deeper than was asked for is not left out by a bound.
    let reached = walk(&memory, Traverse { depth: 1, limit: 3, ..Traverse::new("a") }).await;
    assert_eq!(names(&reached), ["0a", "1b", "1c"]);
    assert!(!reached.truncated);
    let reached = walk(&memory, Traverse { depth: 2, limit: 3, ..Traverse::new("a") }).await;
    assert_eq!(triples(&reached), ["1 a r b", "1 a r c", "2 c r b"]);
    assert!(reached.truncated);
    for index in 0..25 {
        relate(&memory, &here(), relation(100 + index, &format!("x {index} y"), 1.0, 10)).await;
    }
    let reached = walk(&memory, Traverse { limit: 2, ..Traverse::new("x") }).await;
    assert_eq!((reached.entities.len(), reached.relations.len(), reached.truncated), (2, 20, true));
    for (asked, problem) in [
        (Traverse { depth: 9, ..Traverse::new("a") }, "the depth is 9, expected 1 to 8"),
        (Traverse { limit: 0, ..Traverse::new("a") }, "the limit is 0, expected 1 to 1000"),
    ] {
        assert_eq!(memory.traverse(&here(), &asked).await.unwrap_err().to_string(), problem);
    }
}

async fn a_walk_follows_one_type_and_any_direction(memory: impl Memory) {
    graph(&memory, &["a r b", "a s c", "d r a", "e s a", "f r d"]).await;
    for (direction, relation, expected) in [
        (Direction::Out, None, "0a 1b 1c"),
        (Direction::In, None, "0a 1d 1e 2f"),
        (Direction::Both, None, "0a 1b 1c 1d 1e 2f"),
        (Direction::Out, Some("r"), "0a 1b"),
        (Direction::In, Some("r"), "0a 1d 2f"),
        (Direction::Both, Some("s"), "0a 1c 1e"),
        (Direction::Both, Some("none"), "0a"),
    ] {
        let asked = Traverse { direction, relation: relation.map(str::to_owned), ..Traverse::new("a") };
        assert_eq!(names(&walk(&memory, asked).await).join(" "), expected, "{direction} {relation:?}");
    }
    let asked = Traverse { direction: Direction::In, relation: Some("r".to_owned()), ..Traverse::new("a") };
    assert_eq!(triples(&walk(&memory, asked).await), ["1 d r a", "2 f r d"]);
}

async fn a_walk_from_nowhere_reaches_nothing(memory: impl Memory) {
    assert_eq!(walk(&memory, Traverse::new("a")).await, Traversal::default());
    graph(&memory, &["a r b"]).await;
    for name in ["A", "", "c"] {
        assert_eq!(walk(&memory, Traverse::new(name)).await, Traversal::default(), "{name}");
    }
}

async fn a_walk_as_of_a_time_sees_what_held_then(memory: impl Memory) {
    relate(&memory, &here(), relation(1, "a r b", 1.0, 10)).await;
    relate(&memory, &here(), relation(2, "a r c", 1.0, 20)).await;
    unrelate(&memory, &here(), 3, "a r b", 30).await;
    create(&memory, &here(), NewObservation { recorded_at: 25, ..observation(4, "a", "seen") }).await;
    for (as_of, expected, observations) in [
        (Some(9), "0a", 0),
        (Some(10), "0a 1b", 0),
        (Some(25), "0a 1b 1c", 1),
        (Some(29), "0a 1b 1c", 1),
        (Some(30), "0a 1c", 1),
        (Some(u64::MAX), "0a 1c", 1),
        (None, "0a 1c", 1),
    ] {
        let reached = walk(&memory, Traverse { as_of, ..Traverse::new("a") }).await;
        assert_eq!(names(&reached).join(" "), expected, "{as_of:?}");
        assert_eq!(reached.entities[0].observations.len(), observations, "{as_of:?}");
    }
}

async fn a_walk_shows_the_newest_observations(memory: impl Memory) {
    for index in 0..6_u8 {
        let new = observation(index, "a", &format!("number {index}"));
        create(&memory, &here(), NewObservation { recorded_at: u64::from(index), ..new }).await;
    }
    create(&memory, &here(), NewObservation { recorded_at: 9, ..observation(9, "a", &"long ".repeat(900)) })
        .await;
    let reached = walk(&memory, Traverse::new("a")).await;
    let shown = &reached.entities[0].observations;
    assert_eq!(shown.len(), OBSERVATIONS_SHOWN);
    assert!(shown[0].starts_with("long long") && shown[0].ends_with('…') && shown[0].len() <= 1024);
    assert_eq!(shown[1..], ["number 5", "number 4"]);
}

async fn the_same_relation_is_kept_once(memory: impl Memory) {
    let first = relate(&memory, &here(), relation(1, "a r b", 0.5, 10)).await;
    assert!(!first.duplicate);
    assert_eq!(first.made, ["a", "b"]);
    let repeated = relate(&memory, &here(), relation(1, "a r b", 0.5, 99)).await;
    assert!(repeated.duplicate);
    let merged = relate(&memory, &here(), relation(2, "a r b", 0.5, 99)).await;
    assert!(merged.duplicate && merged.made.is_empty());
    let view = memory.entity(&here(), "a").await.unwrap().unwrap();
    assert_eq!((view.relations_out.len(), view.relations_out[0].valid_from), (1, 10));
    // The id of the merged operation counts as used.
    assert!(matches!(
        memory.relate(&here(), relation(2, "a r c", 1.0, 10)).await,
        Err(MemoryError::OperationReused { .. })
    ));
    assert!(memory.entity(&here(), "c").await.unwrap().is_none());
}

async fn another_strength_ends_the_one_that_stood(memory: impl Memory) {
    relate(&memory, &here(), relation(1, "a r b", 0.5, 10)).await;
    assert!(!relate(&memory, &here(), relation(2, "a r b", 0.75, 20)).await.duplicate);
    for (as_of, strength) in [(Some(10), 0.5), (Some(19), 0.5), (Some(20), 0.75), (None, 0.75)] {
        let reached = walk(&memory, Traverse { as_of, ..Traverse::new("a") }).await;
        assert_eq!(reached.relations.len(), 1);
        assert_eq!(reached.relations[0].strength, strength, "{as_of:?}");
    }
}

async fn an_end_is_written_once_and_stays_in_the_history(memory: impl Memory) {
    relate(&memory, &here(), relation(1, "a r b", 1.0, 10)).await;
    assert!(!unrelate(&memory, &here(), 2, "a r x", 20).await.ended);
    assert!(unrelate(&memory, &here(), 3, "a r b", 20).await.ended);
    // It begins anew; the repeated end is not performed a second time.
    assert!(!relate(&memory, &here(), relation(4, "a r b", 1.0, 30)).await.duplicate);
    assert!(!unrelate(&memory, &here(), 3, "a r b", 40).await.ended);
    assert_eq!(names(&walk(&memory, Traverse::new("a")).await), ["0a", "1b"]);
    let view = memory.entity(&here(), "b").await.unwrap().unwrap();
    let shown = json!([
        {"scope": "workspace", "from": "a", "relation": "r", "to": "b", "strength": 1.0, "valid_from": 10,
         "valid_to": 20, "source": {"run": "run-2", "step": 5}, "ended_by": {"run": "run-2", "step": 5}},
        {"scope": "workspace", "from": "a", "relation": "r", "to": "b", "strength": 1.0, "valid_from": 30,
         "source": {"run": "run-2", "step": 5}},
    ]);
    assert_eq!(serde_json::to_value(&view.relations_in).unwrap(), shown);
}

async fn periods_of_one_relation_never_overlap(memory: impl Memory) {
    // Clocks that stand still and go backwards.
    for (operation, strength, at) in [(1, 0.5, 50), (2, 0.6, 50), (3, 0.7, 50), (4, 0.8, 10)] {
        relate(&memory, &here(), relation(operation, "a r b", strength, at)).await;
    }
    assert!(unrelate(&memory, &here(), 5, "a r b", 5).await.ended);
    relate(&memory, &here(), relation(6, "a r b", 0.9, 5)).await;
    let view = memory.entity(&here(), "a").await.unwrap().unwrap();
    let periods: Vec<_> =
        view.relations_out.iter().map(|relation| (relation.valid_from, relation.valid_to)).collect();
    assert_eq!(periods, [(50, Some(51)), (51, Some(52)), (52, Some(53)), (53, Some(54)), (54, None)]);
}

async fn an_operation_id_is_not_reused_for_another_kind_of_write(memory: impl Memory) {
    relate(&memory, &here(), relation(1, "a r b", 1.0, 10)).await;
    create(&memory, &here(), observation(2, "a", "text")).await;
    let Relate { from, relation: kind, to, source, .. } = relation(1, "a r b", 1.0, 10);
    let end = dalsegno_memory::Unrelate { operation: [1; 16], from, relation: kind, to, source, at: 20 };
    let problems = [
        memory.create(&here(), observation(1, "a", "text")).await.unwrap_err(),
        memory.relate(&here(), relation(2, "a r b", 1.0, 10)).await.unwrap_err(),
        memory.unrelate(&here(), end).await.unwrap_err(),
        memory
            .create_related(&here(), observation(2, "a", "text"), relations(&[("r", "c")]))
            .await
            .unwrap_err(),
    ];
    for problem in problems {
        assert!(problem.to_string().ends_with("a new write needs a new operation id"), "{problem}");
    }
}

async fn relations_come_with_an_observation_or_not_at_all(memory: impl Memory) {
    let list = relations(&[("caused_by", "deploy"), ("on", "billing"), ("on", "billing")]);
    let created =
        memory.create_related(&here(), observation(1, "INC-1", "text"), list.clone()).await.unwrap();
    assert!(!created.duplicate);
    let again = memory.create_related(&here(), observation(1, "INC-1", "text"), list).await.unwrap();
    assert!(again.repeated && !again.duplicate, "the same operation has the answer of the first time");
    assert_eq!(again.observation, created.observation);
    let reached = walk(&memory, Traverse::new("INC-1")).await;
    assert_eq!(triples(&reached), ["1 INC-1 caused_by deploy", "1 INC-1 on billing"]);
    // Known content may bring new relations.
    let more = relations(&[("like", "INC-0")]);
    assert!(memory.create_related(&here(), observation(2, "INC-1", "text"), more).await.unwrap().duplicate);
    assert_eq!(walk(&memory, Traverse::new("INC-1")).await.relations.len(), 3);

    let wrong = NewObservation { entity_type: "person".to_owned(), ..observation(3, "INC-1", "other") };
    assert!(memory.create_related(&here(), wrong, relations(&[("r", "nobody")])).await.is_err());
    let unnamed = relations(&[("r", "")]);
    let problem = memory.create_related(&here(), observation(3, "x", "other"), unnamed).await.unwrap_err();
    assert!(problem.to_string().starts_with("the to is empty"), "{problem}");
    assert_eq!(memory.entities(&here(), "", 100).await.unwrap().entities.len(), 4);
}

async fn an_entity_known_by_relations_takes_the_first_type(memory: impl Memory) {
    relate(&memory, &here(), relation(1, "a r b", 1.0, 10)).await;
    let as_unknown = NewObservation { entity_type: UNKNOWN_TYPE.to_owned(), ..observation(2, "a", "one") };
    create(&memory, &here(), as_unknown.clone()).await;
    assert_eq!(memory.entity(&here(), "a").await.unwrap().unwrap().entity_type, UNKNOWN_TYPE);
    create(&memory, &here(), observation(3, "a", "two")).await;
    assert_eq!(memory.entity(&here(), "a").await.unwrap().unwrap().entity_type, "incident");
    let as_unknown = NewObservation { operation: [4; 16], text: "three".to_owned(), ..as_unknown };
    create(&memory, &here(), as_unknown).await;
    assert_eq!(memory.entity(&here(), "a").await.unwrap().unwrap().entity_type, "incident");
    let person = NewObservation { entity_type: "person".to_owned(), ..observation(5, "a", "four") };
    assert!(matches!(memory.create(&here(), person).await, Err(MemoryError::EntityType { .. })));
}

async fn narrower_scopes_decide_where_both_know(memory: impl Memory) {
    let session = scopes(HERE, Scope::Session);
    relate(&memory, &here(), relation(1, "a r b", 0.25, 10)).await;
    relate(&memory, &session, relation(1, "a r b", 0.75, 5)).await;
    relate(&memory, &session, relation(2, "b r c", 1.0, 5)).await;
    relate(&memory, &here(), relation(3, "c r d", 1.0, 5)).await;
    create(&memory, &here(), observation(4, "a", "wide")).await;
    let person = NewObservation { entity_type: "person".to_owned(), ..observation(5, "b", "narrow") };
    create(&memory, &session, person).await;
    create(&memory, &here(), observation(6, "b", "wide")).await;

    // The walk goes from scope to scope: one name is one entity to the reader.
    let reached = walk(&memory, Traverse { depth: 3, ..Traverse::new("a") }).await;
    assert_eq!(names(&reached), ["0a", "1b", "2c", "3d"]);
    let types: Vec<_> = reached.entities.iter().map(|entity| entity.entity_type.as_str()).collect();
    assert_eq!(types, ["incident", "person", "unknown", "unknown"]);
    assert_eq!(
        reached.relations.iter().map(|relation| relation.strength).collect::<Vec<_>>(),
        [0.75, 1.0, 1.0]
    );
    assert_eq!(reached.entities[1].observations.len(), 2);

    let reached = memory.traverse(&session, &Traverse { depth: 3, ..Traverse::new("a") }).await.unwrap();
    assert_eq!(names(&reached), ["0a", "1b", "2c"]);
    let view = memory.entity(&here(), "a").await.unwrap().unwrap();
    let kept: Vec<_> = view.relations_out.iter().map(|relation| relation.scope).collect();
    assert_eq!(kept, [Scope::Session, Scope::Workspace]);
}

async fn a_view_shows_everything_about_an_entity(memory: impl Memory) {
    let first = create(&memory, &here(), observation(1, "a", "older")).await;
    let newer = NewObservation {
        recorded_at: 1_800_000_000_000,
        metadata: json!({"severity": "low", "owner": "ann"}),
        source: dalsegno_memory::Source::Seed,
        ..observation(2, "a", "newer")
    };
    let second = create(&memory, &here(), newer).await;
    relate(&memory, &here(), relation(3, "a knows a", 0.5, 10)).await;
    let itself = json!([{"scope": "workspace", "from": "a", "relation": "knows", "to": "a", "strength": 0.5,
        "valid_from": 10, "source": {"run": "run-2", "step": 5}}]);
    let shown = json!({
        "name": "a",
        "entity_type": "incident",
        "metadata": {"severity": "low", "owner": "ann"},
        "observations": [
            {"observation": second.observation.to_string(), "scope": "workspace", "text": "newer",
             "metadata": {"severity": "low", "owner": "ann"}, "valid_from": 1_800_000_000_000_u64,
             "recorded_at": 1_800_000_000_000_u64},
            {"observation": first.observation.to_string(), "scope": "workspace", "text": "older",
             "metadata": {"severity": "high"}, "valid_from": 1_700_000_000_000_u64,
             "recorded_at": 1_700_000_000_000_u64, "source": {"run": "run-1", "step": 3}},
        ],
        "relations_out": itself.clone(),
        "relations_in": itself,
        "truncated": false,
    });
    assert_eq!(serde_json::to_value(memory.entity(&here(), "a").await.unwrap()).unwrap(), shown);
    assert_eq!(memory.entity(&here(), "b").await.unwrap(), None);
    assert_eq!(memory.entity(&scopes(HERE, Scope::Agent), "a").await.unwrap(), None);
}

async fn a_list_counts_what_stands(memory: impl Memory) {
    graph(&memory, &["inc-1 r inc-2", "inc-1 r other", "inc-1 r inc-1", "other s inc-1"]).await;
    create(&memory, &here(), observation(50, "inc-1", "one")).await;
    create(&memory, &scopes(HERE, Scope::Session), observation(51, "inc-1", "two")).await;
    unrelate(&memory, &here(), 52, "inc-1 r other", 60).await;
    let list = memory.entities(&here(), "inc-", 100).await.unwrap();
    let shown = json!({
        "entities": [
            {"name": "inc-1", "entity_type": "incident", "observations": 2, "relations": 3},
            {"name": "inc-2", "entity_type": "unknown", "observations": 0, "relations": 1},
        ],
        "truncated": false,
    });
    assert_eq!(serde_json::to_value(&list).unwrap(), shown);
    let first = memory.entities(&here(), "", 2).await.unwrap();
    assert_eq!((first.entities.as_slice(), first.truncated), (list.entities.as_slice(), true));
    assert!(memory.entities(&here(), "inc_", 2).await.unwrap().entities.is_empty());
    assert!(matches!(memory.entities(&here(), "", 1_001).await, Err(MemoryError::Limit { .. })));
}

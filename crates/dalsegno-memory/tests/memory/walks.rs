//! Walks on random graphs, compared with a naive reference.

use crate::common::reference::{Edge, walk};
use crate::common::{relate, relation, scopes, unrelate, wait};
use dalsegno_memory::{Direction, Memory, Scope, SqliteMemory, Traverse};
use proptest::prelude::*;

fn edge() -> impl Strategy<Value = Edge> {
    let relation = prop::sample::select(vec!["r", "s"]);
    (0..12_u8, relation, 0..12_u8, 0..=4_u8).prop_map(|(from, relation, to, strength)| Edge {
        from: format!("n{from}"),
        relation: relation.to_owned(),
        to: format!("n{to}"),
        strength: f64::from(strength) / 4.0,
    })
}

fn asked() -> impl Strategy<Value = Traverse> {
    let relation = prop::option::of(prop::sample::select(vec!["r".to_owned(), "s".to_owned()]));
    let direction = prop::sample::select(Direction::ALL.as_slice());
    let limit = prop_oneof![1..16_u32, Just(1_000)];
    (0..12_u8, relation, direction, 1..=8_u32, limit).prop_map(|(from, relation, direction, depth, limit)| {
        Traverse { relation, direction, depth, limit, ..Traverse::new(format!("n{from}")) }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_walk_equals_the_naive_one(
        edges in prop::collection::vec(edge(), 0..40),
        asked in prop::collection::vec(asked(), 1..12),
    ) {
        wait(async {
            let scopes = scopes("t/w/a/s", Scope::Agent);
            let memory = SqliteMemory::in_memory().unwrap();
            for (index, edge) in edges.iter().enumerate() {
                let triple = format!("{} {} {}", edge.from, edge.relation, edge.to);
                let new = relation(index as u8, &triple, edge.strength, index as u64);
                relate(&memory, &scopes, new).await;
            }
            for asked in asked {
                let reached = memory.traverse(&scopes, &asked).await.unwrap();
                prop_assert_eq!(reached, walk(&edges, &asked), "{:?}", asked);
                // As it stood after the first half was written: relations that came later are not there.
                let half = edges.len() / 2;
                if let Some(as_of) = half.checked_sub(1) {
                    let then = Traverse { as_of: Some(as_of as u64), ..asked };
                    let reached = memory.traverse(&scopes, &then).await.unwrap();
                    let known = edges.iter().any(|edge| edge.from == then.from || edge.to == then.from);
                    if known {
                        let expected = walk(&edges[..half], &then);
                        prop_assert_eq!(reached.relations, expected.relations, "{:?}", then);
                    }
                }
            }
            Ok(())
        })?;
    }

    #[test]
    fn what_was_ended_is_as_if_it_had_never_been(
        edges in prop::collection::vec(edge(), 1..30),
        ended in prop::collection::vec(edge(), 1..10),
        asked in asked(),
    ) {
        wait(async {
            let scopes = scopes("t/w/a/s", Scope::Agent);
            let memory = SqliteMemory::in_memory().unwrap();
            let triple = |edge: &Edge| format!("{} {} {}", edge.from, edge.relation, edge.to);
            for (index, edge) in ended.iter().chain(&edges).enumerate() {
                relate(&memory, &scopes, relation(index as u8, &triple(edge), edge.strength, 5)).await;
            }
            for (index, edge) in ended.iter().enumerate() {
                unrelate(&memory, &scopes, 200 + index as u8, &triple(edge), 9).await;
            }
            let left: Vec<Edge> =
                edges.into_iter().filter(|edge| ended.iter().all(|gone| triple(gone) != triple(edge))).collect();
            let reached = memory.traverse(&scopes, &asked).await.unwrap();
            let expected = walk(&left, &asked);
            prop_assert_eq!(reached.relations, expected.relations);
            prop_assert_eq!(reached.truncated, expected.truncated);
            Ok(())
        })?;
    }
}

//! Tries to cross scopes with every operation, against a model in plain maps.

use std::collections::{BTreeMap, BTreeSet};

use crate::common::reference::{Edge, walk};
use crate::common::{export, import, observation, relation, relations, source, wait};
use dalsegno_memory::{
    Direction, ImportMode, Memory, NewObservation, Principal, Relate, Scope, ScopeResolver, ScopeSet,
    SearchQuery, SqliteMemory, Traverse, Unrelate,
};
use proptest::prelude::*;

/// Tenant, workspace, agent and session.
type Names = [String; 4];

/// A write; entities are numbers.
#[derive(Clone, Debug)]
enum Write {
    Create { entity: u8, text: u8, related: Vec<(u8, u8)> },
    Relate { from: u8, relation: u8, to: u8, strength: f64 },
    Unrelate { from: u8, relation: u8, to: u8 },
    Import { entity: u8, text: u8 },
}

/// What one scope keeps.
#[derive(Clone, Debug, Default)]
struct Kept {
    entities: BTreeSet<String>,
    observations: BTreeSet<(String, String)>,
    relations: BTreeMap<(String, String, String), f64>,
}

/// All scopes, by level and the names that count there.
#[derive(Debug, Default)]
struct Model(BTreeMap<(Scope, Vec<String>), Kept>);

fn key(names: &Names, scope: Scope) -> (Scope, Vec<String>) {
    let shared = match scope {
        Scope::Tenant => 1,
        Scope::Workspace => 2,
        Scope::Agent => 3,
        Scope::Session => 4,
    };
    (scope, names[..shared].to_vec())
}

impl Model {
    fn write(&mut self, names: &Names, scope: Scope, write: &Write) {
        let kept = self.0.entry(key(names, scope)).or_default();
        let mut relate = |from: u8, relation: u8, to: u8, strength| {
            kept.entities.extend([entity(from), entity(to)]);
            kept.relations.insert((entity(from), kind(relation), entity(to)), strength);
        };
        match write {
            Write::Create { entity: about, text, related } => {
                for (relation, to) in related {
                    relate(*about, *relation, *to, 1.0);
                }
                kept.entities.insert(entity(*about));
                kept.observations.insert((entity(*about), words(*text)));
            }
            Write::Relate { from, relation, to, strength } => relate(*from, *relation, *to, *strength),
            Write::Unrelate { from, relation, to } => {
                kept.relations.remove(&(entity(*from), kind(*relation), entity(*to)));
            }
            Write::Import { entity: about, text } => {
                kept.entities.insert(entity(*about));
                kept.observations.insert((entity(*about), words(*text)));
            }
        }
    }

    /// What a reader sees, the widest scope first.
    fn visible(&self, names: &Names, requested: Scope) -> Vec<&Kept> {
        let levels = Scope::ALL.into_iter().rev().filter(|level| *level <= requested);
        levels.filter_map(|level| self.0.get(&key(names, level))).collect()
    }
}

fn entity(number: u8) -> String {
    format!("e{number}")
}

fn kind(number: u8) -> String {
    format!("r{number}")
}

fn words(number: u8) -> String {
    format!("common words {number}")
}

fn resolve(names: &Names, scope: Scope) -> ScopeSet {
    let [tenant, workspace, agent, session] = names;
    ScopeResolver.resolve(&Principal::new(tenant, workspace, agent, session).unwrap(), scope)
}

/// Few and treacherous names, so that principals often share some of them and often nearly do.
fn names() -> impl Strategy<Value = Names> {
    let name = prop::sample::select(vec!["a", "A", "a ", "b", "1", "%", "a/a"]);
    [name.clone(), name.clone(), name.clone(), name].prop_map(|names| names.map(str::to_owned))
}

fn scope() -> impl Strategy<Value = Scope> {
    prop::sample::select(Scope::ALL.as_slice())
}

fn write() -> impl Strategy<Value = Write> {
    let triple = || (0..5_u8, 0..2_u8, 0..5_u8);
    prop_oneof![
        3 => (0..5_u8, 0..3_u8, prop::collection::vec((0..2_u8, 0..5_u8), 0..3))
            .prop_map(|(entity, text, related)| Write::Create { entity, text, related }),
        4 => (triple(), 0..=4_u8).prop_map(|((from, relation, to), strength)| {
            Write::Relate { from, relation, to, strength: f64::from(strength) / 4.0 }
        }),
        2 => triple().prop_map(|(from, relation, to)| Write::Unrelate { from, relation, to }),
        1 => (0..5_u8, 0..3_u8).prop_map(|(entity, text)| Write::Import { entity, text }),
    ]
}

/// Performs a write and returns the whole answer.
async fn perform(memory: &SqliteMemory, scopes: &ScopeSet, index: u8, write: &Write) -> String {
    match write {
        Write::Create { entity: about, text, related } => {
            let new = NewObservation {
                metadata: serde_json::Value::Null,
                recorded_at: u64::from(index),
                ..observation(index, &entity(*about), &words(*text))
            };
            let related: Vec<_> = related.iter().map(|(kind_of, to)| (kind(*kind_of), entity(*to))).collect();
            let related: Vec<_> = related.iter().map(|(kind, to)| (kind.as_str(), to.as_str())).collect();
            let created = memory.create_related(scopes, new, relations(&related)).await.unwrap();
            serde_json::to_string(&created).unwrap()
        }
        Write::Relate { from, relation: kind_of, to, strength } => {
            let triple = format!("{} {} {}", entity(*from), kind(*kind_of), entity(*to));
            let related =
                memory.relate(scopes, relation(index, &triple, *strength, u64::from(index))).await.unwrap();
            serde_json::to_string(&related).unwrap()
        }
        Write::Unrelate { from, relation: kind_of, to } => {
            let triple = format!("{} {} {}", entity(*from), kind(*kind_of), entity(*to));
            let Relate { operation, from, relation, to, .. } = relation(index, &triple, 1.0, 0);
            let end = Unrelate { operation, from, relation, to, source: source(), at: u64::from(index) };
            let unrelated = memory.unrelate(scopes, end).await.unwrap();
            serde_json::to_string(&unrelated).unwrap()
        }
        Write::Import { entity: about, text } => {
            let lines = format!(
                r#"{{"type":"entity","name":"{}","entityType":"incident","observations":["{}"]}}"#,
                entity(*about),
                words(*text)
            );
            format!("{:?}", import(memory, scopes, &lines, ImportMode::Fail).await.unwrap())
        }
    }
}

/// Asks everything that can be asked and returns the whole answers.
async fn ask(memory: &SqliteMemory, scopes: &ScopeSet) -> Vec<String> {
    let mut answers = Vec::new();
    for text in ["common words", "1", "e2 common 0"] {
        let query = SearchQuery { limit: 100, ..SearchQuery::new(text) };
        answers.push(serde_json::to_string(&memory.search(scopes, &query).await.unwrap()).unwrap());
    }
    for number in 0..5 {
        let name = entity(number);
        answers.push(serde_json::to_string(&memory.entity(scopes, &name).await.unwrap()).unwrap());
        for direction in Direction::ALL {
            for (depth, limit, as_of) in [(1, 1_000, None), (3, 1_000, Some(6)), (8, 3, None)] {
                let asked = Traverse { direction, depth, limit, as_of, ..Traverse::new(name.clone()) };
                answers.push(serde_json::to_string(&memory.traverse(scopes, &asked).await.unwrap()).unwrap());
            }
        }
    }
    for (prefix, limit) in [("", 1_000), ("e", 2), ("e1", 5)] {
        let list = memory.entities(scopes, prefix, limit).await.unwrap();
        answers.push(serde_json::to_string(&list).unwrap());
    }
    answers.push(export(memory, scopes).await);
    answers
}

async fn check_reader(
    memory: &SqliteMemory,
    model: &Model,
    names: &Names,
    requested: Scope,
) -> Result<(), TestCaseError> {
    let scopes = resolve(names, requested);
    let visible = model.visible(names, requested);

    let known: BTreeSet<String> = visible.iter().flat_map(|kept| kept.entities.clone()).collect();
    let list = memory.entities(&scopes, "", 1_000).await.unwrap();
    let listed: BTreeSet<String> = list.entities.iter().map(|entity| entity.name.clone()).collect();
    prop_assert_eq!(&listed, &known);
    for summary in &list.entities {
        let about = visible.iter().flat_map(|kept| &kept.observations);
        let observations = about.filter(|(entity, _)| *entity == summary.name).count() as u64;
        let touching = visible.iter().flat_map(|kept| kept.relations.keys());
        let relations =
            touching.filter(|(from, _, to)| *from == summary.name || *to == summary.name).count() as u64;
        prop_assert_eq!((summary.observations, summary.relations), (observations, relations));
    }

    // A narrower scope decides, so that it comes last.
    let edges: Vec<Edge> = visible
        .iter()
        .flat_map(|kept| &kept.relations)
        .map(|((from, relation, to), strength)| Edge {
            from: from.clone(),
            relation: relation.clone(),
            to: to.clone(),
            strength: *strength,
        })
        .collect();
    for name in (0..5).map(entity) {
        let view = memory.entity(&scopes, &name).await.unwrap();
        prop_assert_eq!(view.is_some(), known.contains(&name));
        let mut shown: Vec<_> =
            view.iter().flat_map(|view| &view.observations).map(|kept| kept.text.clone()).collect();
        shown.sort();
        let mut expected: Vec<_> = visible.iter().flat_map(|kept| kept.observations.clone()).collect();
        expected.retain(|(entity, _)| *entity == name);
        let mut expected: Vec<_> = expected.into_iter().map(|(_, text)| text).collect();
        expected.sort();
        prop_assert_eq!(shown, expected);

        for direction in Direction::ALL {
            let asked = Traverse { direction, depth: 3, limit: 1_000, ..Traverse::new(name.clone()) };
            let reached = memory.traverse(&scopes, &asked).await.unwrap();
            let expected = walk(&edges, &asked);
            prop_assert_eq!(&reached.relations, &expected.relations);
            let names = |walk: &dalsegno_memory::Traversal| -> Vec<_> {
                walk.entities.iter().map(|entity| (entity.depth, entity.name.clone())).collect()
            };
            if expected.entities.is_empty() {
                // Observations alone make an entity as well.
                let alone: Vec<_> = known.get(&name).map(|name| (0, name.clone())).into_iter().collect();
                prop_assert_eq!(names(&reached), alone);
            } else {
                prop_assert_eq!(names(&reached), names(&expected));
            }
        }
    }

    let written = model.0.get(&key(names, requested)).cloned().unwrap_or_default();
    let exported = export(memory, &scopes).await;
    let lines: Vec<serde_json::Value> =
        exported.lines().skip(1).map(|line| serde_json::from_str(line).unwrap()).collect();
    let of_kind = |kind: &str| lines.iter().filter(|line| line["type"] == kind).collect::<Vec<_>>();
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    let entities: BTreeSet<String> = of_kind("entity").iter().map(|line| text(&line["name"])).collect();
    prop_assert_eq!(entities, written.entities);
    let observations: BTreeSet<_> =
        of_kind("observation").iter().map(|line| (text(&line["entity"]), text(&line["text"]))).collect();
    prop_assert_eq!(observations, written.observations);
    let relations: BTreeMap<_, f64> = of_kind("relation")
        .iter()
        .filter(|line| line.get("valid_to").is_none())
        .map(|line| {
            let triple = (text(&line["from"]), text(&line["relation"]), text(&line["to"]));
            (triple, line["strength"].as_f64().unwrap())
        })
        .collect();
    prop_assert_eq!(relations, written.relations);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_operation_sees_and_changes_what_its_scopes_hold_and_nothing_else(
        writes in prop::collection::vec((names(), scope(), write()), 1..40),
        readers in prop::collection::vec((names(), scope()), 1..6),
    ) {
        wait(async {
            let memory = SqliteMemory::in_memory().unwrap();
            let mut model = Model::default();
            for (index, (names, scope, write)) in writes.iter().enumerate() {
                perform(&memory, &resolve(names, *scope), index as u8, write).await;
                model.write(names, *scope, write);
            }
            // Those who wrote read as well, else most readers would see nothing.
            let writers = writes.iter().take(8).map(|(names, _, _)| (names.clone(), Scope::Tenant));
            let same = writes.iter().take(8).map(|(names, scope, _)| (names.clone(), *scope));
            for (names, requested) in readers.iter().cloned().chain(writers).chain(same) {
                check_reader(&memory, &model, &names, requested).await?;
            }
            Ok::<(), TestCaseError>(())
        })?;
    }

    #[test]
    fn what_others_do_changes_no_byte_of_any_answer(
        mine in prop::collection::vec((scope(), write()), 1..16),
        others in prop::collection::vec((names(), scope(), write()), 1..40),
    ) {
        wait(async {
            // Others have other names at the level they write to; `mine`, `w`, `me` and `s` are none of them.
            let me = ["mine", "w", "me", "s"].map(str::to_owned);
            let (alone, crowded) = (SqliteMemory::in_memory().unwrap(), SqliteMemory::in_memory().unwrap());
            let mut theirs = others.into_iter().enumerate();
            for (index, (scope, write)) in mine.iter().enumerate() {
                for (other, (mut names, scope, write)) in theirs.by_ref().take(3) {
                    match scope {
                        Scope::Session if other % 2 == 0 => names[..3].clone_from_slice(&me[..3]),
                        Scope::Agent if other % 2 == 0 => names[..2].clone_from_slice(&me[..2]),
                        Scope::Workspace if other % 2 == 0 => names[..1].clone_from_slice(&me[..1]),
                        _ => {}
                    }
                    // The same operation ids, too.
                    perform(&crowded, &resolve(&names, scope), other as u8, &write).await;
                }
                let scopes = resolve(&me, *scope);
                let expected = perform(&alone, &scopes, index as u8, write).await;
                prop_assert_eq!(perform(&crowded, &scopes, index as u8, write).await, expected);
            }
            for requested in Scope::ALL {
                let scopes = resolve(&me, requested);
                let expected = ask(&alone, &scopes).await;
                prop_assert_eq!(ask(&crowded, &scopes).await, expected);
            }
            Ok(())
        })?;
    }

    #[test]
    fn repeated_operations_answer_and_change_nothing(
        writes in prop::collection::vec((names(), scope(), write()), 1..16),
    ) {
        wait(async {
            let memory = SqliteMemory::in_memory().unwrap();
            for (index, (names, scope, write)) in writes.iter().enumerate() {
                let scopes = resolve(names, *scope);
                perform(&memory, &scopes, index as u8, write).await;
                let before = ask(&memory, &scopes).await;
                // Any of the earlier ones, as a run that resumes would repeat it.
                for (index, (names, scope, write)) in writes.iter().enumerate().take(index + 1) {
                    if !matches!(write, Write::Import { .. }) {
                        perform(&memory, &resolve(names, *scope), index as u8, write).await;
                    }
                }
                prop_assert_eq!(ask(&memory, &scopes).await, before);
            }
            Ok(())
        })?;
    }
}

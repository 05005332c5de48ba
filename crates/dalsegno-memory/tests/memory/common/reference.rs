//! A naive walk over plain maps, to compare with.

use std::collections::BTreeMap;

use dalsegno_memory::{Direction, Traversal, Traverse, TraversedEntity, TraversedRelation};

/// A relation; of two with the same ends and type, the later in a list stands.
#[derive(Clone, Debug)]
pub(crate) struct Edge {
    pub(crate) from: String,
    pub(crate) relation: String,
    pub(crate) to: String,
    pub(crate) strength: f64,
}

/// Walks over relations whose entities have neither types nor observations. Depths are found by going over
/// all relations until nothing changes.
pub(crate) fn walk(edges: &[Edge], asked: &Traverse) -> Traversal {
    let standing: BTreeMap<(&str, &str, &str), f64> = edges
        .iter()
        .map(|edge| ((edge.from.as_str(), edge.relation.as_str(), edge.to.as_str()), edge.strength))
        .collect();
    if !edges.iter().any(|edge| edge.from == asked.from || edge.to == asked.from) {
        return Traversal::default();
    }
    let outwards = matches!(asked.direction, Direction::Out | Direction::Both);
    let inwards = matches!(asked.direction, Direction::In | Direction::Both);
    let followed: Vec<(&str, &str, &str)> = standing
        .keys()
        .copied()
        .filter(|(_, relation, _)| asked.relation.as_ref().is_none_or(|only| only == relation))
        .collect();

    let mut depths = BTreeMap::from([(asked.from.as_str(), 0)]);
    // A long way may be found first; repeating until nothing changes finds the shortest.
    loop {
        let before = depths.clone();
        for (from, _, to) in &followed {
            let ways = [(outwards, *from, *to), (inwards, *to, *from)];
            for (_, near, far) in ways.into_iter().filter(|(allowed, ..)| *allowed) {
                if let Some(depth) = depths.get(near).filter(|depth| **depth < asked.depth) {
                    let depth = depth + 1;
                    let known = depths.entry(far).or_insert(depth);
                    *known = depth.min(*known);
                }
            }
        }
        if depths == before {
            break;
        }
    }

    let mut entities: Vec<(u32, &str)> = depths.iter().map(|(name, depth)| (*depth, *name)).collect();
    entities.sort_unstable();
    let mut truncated = entities.len() > asked.limit as usize;
    entities.truncate(asked.limit as usize);

    let depth_of = |name: &str| entities.iter().find(|(_, known)| *known == name).map(|(depth, _)| *depth);
    let mut relations = Vec::new();
    for (from, relation, to) in followed {
        let (Some(start), Some(end)) = (depth_of(from), depth_of(to)) else { continue };
        let near = [(outwards, start), (inwards, end)];
        let near = near.into_iter().filter(|(allowed, _)| *allowed).map(|(_, depth)| depth).min().unwrap();
        if near < asked.depth {
            relations.push(TraversedRelation {
                from: from.to_owned(),
                relation: relation.to_owned(),
                to: to.to_owned(),
                depth: near + 1,
                strength: standing[&(from, relation, to)],
            });
        }
    }
    // The keys are in order already.
    relations.sort_by_key(|relation| relation.depth);
    let most = asked.limit as usize * 10;
    truncated |= relations.len() > most;
    relations.truncate(most);
    let entities = entities.into_iter().map(|(depth, name)| TraversedEntity {
        name: name.to_owned(),
        entity_type: "unknown".to_owned(),
        depth,
        observations: Vec::new(),
    });
    Traversal { entities: entities.collect(), relations, truncated }
}

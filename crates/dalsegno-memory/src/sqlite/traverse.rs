//! Following relations breadth first, within the scopes that may be read.

use std::cmp::Reverse;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};

use rusqlite::{Row, Transaction, params};

use super::rows::{self, ReadableScope};
use crate::traverse::{OBSERVATIONS_SHOWN, RELATIONS_PER_ENTITY, RELATIONS_READ_MAX, shown};
use crate::{Direction, MemoryError, ScopeSet, Traversal, Traverse, TraversedEntity, TraversedRelation};

/// Returns what the walk reaches.
pub(super) fn traverse(
    transaction: &Transaction<'_>,
    scopes: &ScopeSet,
    asked: &Traverse,
) -> Result<Traversal, MemoryError> {
    let scopes = rows::readable(transaction, scopes)?;
    // What stands has no end, which comes after every time.
    let moment = asked.as_of.map_or(i64::MAX, |as_of| i64::try_from(as_of).unwrap_or(i64::MAX));
    let mut walk = Walk {
        transaction,
        scopes: &scopes,
        asked,
        moment,
        reached: HashSet::new(),
        entities: Vec::new(),
        followed: HashMap::new(),
        unread: RELATIONS_READ_MAX,
        truncated: false,
    };
    let mut frontier: Vec<Node> =
        node(transaction, &scopes, asked.from.clone(), Vec::new())?.into_iter().collect();
    walk.reach(&frontier, 0)?;
    for depth in 1..=asked.depth {
        if frontier.is_empty() {
            break;
        }
        frontier = walk.step(&frontier, depth)?;
        walk.reach(&frontier, depth)?;
    }
    Ok(walk.finish())
}

/// Everything that the readable scopes keep under one name.
struct Node {
    name: String,
    entity_type: String,
    /// The place of a scope among the readable ones, and the entity's row there.
    rows: Vec<(usize, i64)>,
}

/// The row of an entity in one scope.
struct Known {
    /// The place of the scope among the readable ones.
    rank: usize,
    row: i64,
    entity_type: String,
}

/// The new entities of a frontier by name, with the rows that relations led to.
type Found = BTreeMap<String, Vec<Known>>;

/// A relation that was followed, in the scope that decides about it.
struct Followed {
    depth: u32,
    rank: usize,
    valid_from: i64,
    strength: f64,
}

struct Walk<'walk> {
    transaction: &'walk Transaction<'walk>,
    scopes: &'walk [ReadableScope<'walk>],
    asked: &'walk Traverse,
    moment: i64,
    reached: HashSet<String>,
    entities: Vec<TraversedEntity>,
    /// By start, type and end.
    followed: HashMap<(String, String, String), Followed>,
    /// How many more relations may be read.
    unread: u32,
    truncated: bool,
}

impl Walk<'_> {
    /// Adds a frontier to what is returned.
    fn reach(&mut self, frontier: &[Node], depth: u32) -> Result<(), MemoryError> {
        for node in frontier {
            self.entities.push(TraversedEntity {
                name: node.name.clone(),
                entity_type: node.entity_type.clone(),
                depth,
                observations: self.newest(node)?,
            });
            self.reached.insert(node.name.clone());
        }
        Ok(())
    }

    /// Follows the relations of a frontier and returns the next one, in the order of names.
    fn step(&mut self, frontier: &[Node], depth: u32) -> Result<Vec<Node>, MemoryError> {
        let mut found = Found::new();
        for node in frontier {
            for &(rank, row) in &node.rows {
                if matches!(self.asked.direction, Direction::Out | Direction::Both) {
                    self.follow(node, rank, row, depth, Way::Out, &mut found)?;
                }
                if matches!(self.asked.direction, Direction::In | Direction::Both) {
                    self.follow(node, rank, row, depth, Way::In, &mut found)?;
                }
            }
        }
        let room = (self.asked.limit as usize).saturating_sub(self.entities.len());
        self.truncated |= found.len() > room;
        let nodes = found.into_iter().take(room);
        nodes
            .filter_map(|(name, known)| node(self.transaction, self.scopes, name, known).transpose())
            .collect()
    }

    /// Follows the relations of one row of a node, one way.
    fn follow(
        &mut self,
        node: &Node,
        rank: usize,
        row: i64,
        depth: u32,
        way: Way,
        found: &mut Found,
    ) -> Result<(), MemoryError> {
        let mut statement = self.transaction.prepare_cached(way.sql(self.asked.relation.is_some()))?;
        let scope = self.scopes[rank].id;
        let mut rows = match &self.asked.relation {
            Some(relation) => statement.query(params![row, self.moment, scope, relation])?,
            None => statement.query(params![row, self.moment, scope])?,
        };
        while let Some(row) = rows.next()? {
            let Some(unread) = self.unread.checked_sub(1) else {
                self.truncated = true;
                return Ok(());
            };
            self.unread = unread;
            let (relation, other): (String, String) = (row.get(0)?, row.get(1)?);
            if !self.reached.contains(&other) {
                let known = match found.get_mut(&other) {
                    Some(known) => known,
                    None => found.entry(other.clone()).or_default(),
                };
                if known.iter().all(|known| known.rank != rank) {
                    known.push(Known { rank, row: row.get(4)?, entity_type: row.get(5)? });
                }
            }
            let triple = match way {
                Way::Out => (node.name.clone(), relation, other),
                Way::In => (other, relation, node.name.clone()),
            };
            let followed = Followed { depth, rank, valid_from: row.get(2)?, strength: row.get(3)? };
            match self.followed.entry(triple) {
                Entry::Vacant(place) => {
                    place.insert(followed);
                }
                Entry::Occupied(mut known) => {
                    if followed.decides_before(known.get()) {
                        known.insert(followed);
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns the newest observations about a node.
    fn newest(&self, node: &Node) -> Result<Vec<String>, MemoryError> {
        let mut statement = self.transaction.prepare_cached(
            "SELECT valid_from, public_id, text FROM observation
             WHERE entity = ?1 AND valid_from <= ?2 AND (valid_to IS NULL OR valid_to > ?2)
             ORDER BY valid_from DESC, public_id LIMIT ?3",
        )?;
        let mut newest: Vec<(i64, [u8; 16], String)> = Vec::new();
        for (_, row) in &node.rows {
            let read = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?, shown(row.get_ref(2)?.as_str()?)));
            for observation in
                statement.query_map(params![row, self.moment, OBSERVATIONS_SHOWN as i64], read)?
            {
                newest.push(observation?);
            }
        }
        newest.sort_by(|one, other| other.0.cmp(&one.0).then(one.1.cmp(&other.1)));
        Ok(newest.into_iter().take(OBSERVATIONS_SHOWN).map(|(_, _, text)| text).collect())
    }

    /// Leaves out the relations that lead beyond the entities, and puts the rest in order.
    fn finish(mut self) -> Traversal {
        let reached = &self.reached;
        let mut relations: Vec<TraversedRelation> = self
            .followed
            .into_iter()
            .filter(|((from, _, to), _)| reached.contains(from) && reached.contains(to))
            .map(|((from, relation, to), Followed { depth, strength, .. })| TraversedRelation {
                from,
                relation,
                to,
                depth,
                strength,
            })
            .collect();
        relations.sort_unstable_by(|one, other| order(one).cmp(&order(other)));
        let most = self.asked.limit as usize * RELATIONS_PER_ENTITY as usize;
        self.truncated |= relations.len() > most;
        relations.truncate(most);
        Traversal { entities: self.entities, relations, truncated: self.truncated }
    }
}

fn order(relation: &TraversedRelation) -> (u32, &str, &str, &str) {
    (relation.depth, &relation.from, &relation.relation, &relation.to)
}

impl Followed {
    /// The shortest way decides, then the narrowest scope, then the latest period.
    fn decides_before(&self, other: &Self) -> bool {
        let order = |followed: &Self| (followed.depth, followed.rank, Reverse(followed.valid_from));
        order(self) < order(other)
    }
}

/// Which end of a relation a row is.
#[derive(Clone, Copy)]
enum Way {
    Out,
    In,
}

impl Way {
    /// Selects type, other end, beginning and strength of what holds at a moment, and the other end's row. That the other end is of
    /// the same scope holds by construction; it is asked for once more.
    fn sql(self, of_one_type: bool) -> &'static str {
        match (self, of_one_type) {
            (Self::Out, false) => {
                "SELECT relation.type, entity.name, valid_from, strength, entity.id, entity.type
                 FROM relation CROSS JOIN entity ON entity.id = to_entity
                 WHERE from_entity = ?1 AND valid_from <= ?2 AND (valid_to IS NULL OR valid_to > ?2)
                     AND entity.scope = ?3
                 ORDER BY relation.type, to_entity, valid_from"
            }
            (Self::Out, true) => {
                "SELECT relation.type, entity.name, valid_from, strength, entity.id, entity.type
                 FROM relation CROSS JOIN entity ON entity.id = to_entity
                 WHERE from_entity = ?1 AND valid_from <= ?2 AND (valid_to IS NULL OR valid_to > ?2)
                     AND entity.scope = ?3 AND relation.type = ?4
                 ORDER BY to_entity, valid_from"
            }
            (Self::In, false) => {
                "SELECT relation.type, entity.name, valid_from, strength, entity.id, entity.type
                 FROM relation INDEXED BY relation_backwards CROSS JOIN entity ON entity.id = from_entity
                 WHERE to_entity = ?1 AND valid_from <= ?2 AND (valid_to IS NULL OR valid_to > ?2)
                     AND entity.scope = ?3
                 ORDER BY relation.type, from_entity, valid_from"
            }
            (Self::In, true) => {
                "SELECT relation.type, entity.name, valid_from, strength, entity.id, entity.type
                 FROM relation INDEXED BY relation_backwards CROSS JOIN entity ON entity.id = from_entity
                 WHERE to_entity = ?1 AND valid_from <= ?2 AND (valid_to IS NULL OR valid_to > ?2)
                     AND entity.scope = ?3 AND relation.type = ?4
                 ORDER BY from_entity, valid_from"
            }
        }
    }
}

/// Returns what the readable scopes keep under a name, of which some rows may be known.
fn node(
    transaction: &Transaction<'_>,
    scopes: &[ReadableScope<'_>],
    name: String,
    mut known: Vec<Known>,
) -> Result<Option<Node>, MemoryError> {
    for (rank, scope) in scopes.iter().enumerate() {
        if known.iter().any(|known| known.rank == rank) {
            continue;
        }
        if let Some((row, entity_type)) = rows::find_entity(transaction, scope.id, &name)? {
            known.push(Known { rank, row, entity_type });
        }
    }
    if known.is_empty() {
        return Ok(None);
    }
    known.sort_unstable_by_key(|known| known.rank);
    let entity_type = rows::shown_type(known.iter().map(|known| known.entity_type.as_str()));
    let rows = known.into_iter().map(|known| (known.rank, known.row)).collect();
    Ok(Some(Node { name, entity_type, rows }))
}

//! Finding the best observations within the scopes that may be read.

use rusqlite::Transaction;

use super::create::token;
use super::rank::{Posting, Ranker, score};
use super::rows::{self, ReadableScope, json, unsigned};
use crate::words::{self, QueryWord};
use crate::{Hit, MemoryError, ObservationId, ScopeSet, SearchQuery, Why};

/// An observation that is among the best so far.
struct Candidate<'postings> {
    share: f64,
    public_id: ObservationId,
    postings: &'postings [Posting],
}

/// Returns the best hits of the query, best first.
pub(super) fn search(
    transaction: &Transaction<'_>,
    scopes: &ScopeSet,
    query: &SearchQuery,
) -> Result<Vec<Hit>, MemoryError> {
    let words = words::query_words(&query.text);
    let scopes = rows::readable(transaction, scopes)?;
    let (postings, frequencies) = occurrences(transaction, &scopes, &words)?;
    let observations = scopes.iter().map(|scope| scope.observations).sum();
    let ranker = Ranker::new(observations, scopes.iter().map(|scope| scope.words).sum(), &frequencies);
    best(transaction, &ranker, &postings, query)?
        .into_iter()
        .filter_map(|candidate| hit(transaction, &scopes, &ranker, &words, &candidate).transpose())
        .collect()
}

/// Returns where the words of the query occur, in the order of observations and then of words, and in how
/// many observations each occurs.
///
/// The index is asked for whole tokens by equality, never with a query expression, and a token belongs to
/// one scope.
fn occurrences(
    transaction: &Transaction<'_>,
    scopes: &[ReadableScope<'_>],
    words: &[QueryWord],
) -> Result<(Vec<Posting>, Vec<u64>), MemoryError> {
    let mut statement = transaction.prepare_cached("SELECT doc FROM word_occurrence WHERE term = ?1")?;
    let mut postings: Vec<Posting> = Vec::new();
    let mut frequencies = vec![0; words.len()];
    for (word, frequency) in frequencies.iter_mut().enumerate() {
        for scope in scopes {
            let mut rows = statement.query([token(scope.id, &words[word].term)])?;
            // One row for each occurrence; those of one observation stand together.
            while let Some(row) = rows.next()? {
                let observation = row.get(0)?;
                match postings.last_mut() {
                    Some(last) if last.word == word && last.observation == observation => last.count += 1,
                    _ => {
                        postings.push(Posting { observation, word, count: 1 });
                        *frequency += 1;
                    }
                }
            }
        }
    }
    postings.sort_by_key(|posting| (posting.observation, posting.word));
    Ok((postings, frequencies))
}

/// Returns the best candidates, best first.
///
/// Lengths are looked up in the order of what an observation could earn at most, which ends the search as
/// soon as nothing that is left could still be among the best.
fn best<'postings>(
    transaction: &Transaction<'_>,
    ranker: &Ranker,
    postings: &'postings [Posting],
    query: &SearchQuery,
) -> Result<Vec<Candidate<'postings>>, MemoryError> {
    let mut bounded: Vec<(f64, &[Posting])> = postings
        .chunk_by(|one, other| one.observation == other.observation)
        .map(|postings| (ranker.share_at_most(postings), postings))
        .collect();
    bounded.sort_by(|(one, _), (other, _)| other.total_cmp(one));

    let limit = query.limit as usize;
    let mut statement =
        transaction.prepare_cached("SELECT word_count, public_id FROM observation WHERE id = ?1")?;
    let mut best: Vec<Candidate<'postings>> = Vec::with_capacity(limit + 1);
    for (share_at_most, postings) in bounded {
        let beaten = best.len() == limit && best.last().is_some_and(|last| last.share > share_at_most);
        if beaten || score(share_at_most) < query.min_score {
            break;
        }
        let (length, public_id) = statement.query_row([postings[0].observation], |row| {
            Ok((unsigned(row, 0)?, ObservationId::from_bytes(row.get(1)?)))
        })?;
        let share = ranker.share(postings, length);
        if score(share) < query.min_score {
            continue;
        }
        let place = best.partition_point(|known| {
            known.share.total_cmp(&share).reverse().then(known.public_id.cmp(&public_id)).is_lt()
        });
        best.insert(place, Candidate { share, public_id, postings });
        best.truncate(limit);
    }
    Ok(best)
}

/// Reads what is shown of a candidate. The scope is checked once more, against the row itself.
fn hit(
    transaction: &Transaction<'_>,
    scopes: &[ReadableScope<'_>],
    ranker: &Ranker,
    words: &[QueryWord],
    candidate: &Candidate<'_>,
) -> Result<Option<Hit>, MemoryError> {
    let mut statement = transaction.prepare_cached(
        "SELECT entity.scope, entity.name, entity.type, observation.text, observation.recorded_at,
                observation.metadata
         FROM observation JOIN entity ON entity.id = observation.entity WHERE observation.id = ?1",
    )?;
    let (scope, hit): (i64, Hit) = statement.query_row([candidate.postings[0].observation], |row| {
        let found = candidate.postings.iter().map(|posting| words[posting.word].word.clone());
        let hit = Hit {
            entity: row.get(1)?,
            entity_type: row.get(2)?,
            text: row.get(3)?,
            score: score(candidate.share),
            why: Why { bm25: ranker.bm25(candidate.share), words: found.collect() },
            observation: candidate.public_id,
            recorded_at: unsigned(row, 4)?,
            metadata: json(row, 5)?,
        };
        Ok((row.get(0)?, hit))
    })?;
    if scopes.iter().any(|readable| readable.id == scope) {
        return Ok(Some(hit));
    }
    tracing::error!(observation = %hit.observation, "left out: the index named an observation of another scope");
    Ok(None)
}

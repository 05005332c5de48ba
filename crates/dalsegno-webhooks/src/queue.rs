//! What is still to be delivered. The journal itself is the queue: an endpoint has a place in it, and here is what lies between that
//! place and what its receiver has accepted.

use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};

use crate::backoff::{self, NONSENSE};
use crate::endpoint::{Endpoint, OffReason, Seen};
use crate::error::WebhookError;
use crate::event::{Event, delivery_id};
use crate::send::{SendOutcome, Sent};
use crate::store::{WebhookStore, on};

/// Most deliveries of an endpoint that wait here. What comes after them waits in the journal.
const WAITING_MAX: u64 = 10_000;

/// Something to deliver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// Its id, the same in each attempt and every process.
    pub id: String,
    /// The endpoint that it is for.
    pub endpoint: Endpoint,
    /// The run that it is about.
    pub run: [u8; 16],
    /// What has happened.
    pub event: Event,
    /// The number of the run's records then.
    pub records: u64,
}

/// What became of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempted {
    /// The delivery.
    pub id: String,
    /// The endpoint.
    pub endpoint: String,
    /// When the attempt began, in milliseconds since the epoch.
    pub began_at: u64,
    /// What came of it.
    pub result: AttemptResult,
}

/// What came of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AttemptResult {
    /// It was sent.
    Sent(Sent),
    /// It was not sent, since it is no longer true: the run was suspended, and has resumed.
    Outdated,
}

/// What changed with an attempt that an operator wants to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum News {
    /// Nothing further is delivered to an endpoint.
    Off {
        /// The endpoint.
        endpoint: String,
        /// Why.
        reason: OffReason,
    },
    /// A delivery that failed for a day, while others were accepted, is tried no more.
    GivenUp {
        /// The endpoint.
        endpoint: String,
        /// The delivery.
        id: String,
    },
}

/// How much there is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Load {
    /// Deliveries that wait, those of endpoints that are off included.
    pub waiting: u64,
    /// Endpoints that are off.
    pub off: u64,
}

impl WebhookStore {
    /// The change after which the journal is to be read next; none where no endpoint has room.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn place(&self) -> Result<Option<u64>, WebhookError> {
        let endpoints = on(&self.connection())?;
        Ok(endpoints.iter().filter(|one| has_room(one)).map(|one| one.position).min())
    }

    /// The change that the endpoint which is furthest has seen last.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn furthest(&self) -> Result<u64, WebhookError> {
        Ok(on(&self.connection())?.iter().map(|one| one.position).max().unwrap_or_default())
    }

    /// Takes the changes that follow a place, in their order, and notes what is to be delivered. Taking them again changes nothing.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn take(&self, after: u64, changes: &[Seen<'_>], now: u64) -> Result<(), WebhookError> {
        let Some(last) = changes.last() else { return Ok(()) };
        let mut connection = self.connection();
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut endpoints = on(&transaction)?;
        // One that is further back has not seen what lies between.
        endpoints.retain(|one| has_room(one) && one.position >= after);
        for seen in changes {
            let Some(event) = seen.event else { continue };
            let change = if event.is_end() { first_end(&transaction, seen)? } else { seen.change };
            for one in endpoints.iter().filter(|one| change > one.position && one.wants(seen, event)) {
                transaction
                    .prepare_cached(
                        "INSERT OR IGNORE INTO delivery (id, endpoint, run, event, records, change, attempts, next_at)
                         VALUES (?1, ?2, ?3, ?4, ?5, ?6, 0, ?7)",
                    )?
                    .execute(params![
                        delivery_id(&one.id, seen.run, event, seen.records),
                        one.id,
                        seen.run,
                        event.as_str(),
                        seen.records.cast_signed(),
                        seen.change.cast_signed(),
                        now.cast_signed(),
                    ])?;
            }
        }
        for one in &endpoints {
            transaction
                .prepare_cached("UPDATE endpoint SET position = max(position, ?2) WHERE id = ?1")?
                .execute(params![one.id, last.change.cast_signed()])?;
        }
        transaction.commit()?;
        Ok(())
    }

    /// Moves the places back that lie behind the latest change of the journal, which is then an earlier copy of it. Says whether there
    /// were any.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn rewind(&self, latest: u64) -> Result<bool, WebhookError> {
        let moved = self
            .connection()
            .prepare_cached("UPDATE endpoint SET position = ?1 WHERE position > ?1")?
            .execute([latest.cast_signed()])?;
        Ok(moved > 0)
    }

    /// The endpoints with something to deliver now.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn ready(&self, now: u64) -> Result<Vec<Endpoint>, WebhookError> {
        let mut endpoints = on(&self.connection())?;
        let is_due = |at: u64| at <= now || at > now.saturating_add(NONSENSE);
        endpoints.retain(|one| one.waiting > 0 && one.resume_at.is_none_or(is_due));
        Ok(endpoints)
    }

    /// What is to be delivered to an endpoint now, at most `limit`, but for what is under way.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn due(
        &self,
        endpoint: &Endpoint,
        now: u64,
        limit: usize,
        is_under_way: impl Fn(&str) -> bool,
    ) -> Result<Vec<Delivery>, WebhookError> {
        let connection = self.connection();
        let mut statement = connection.prepare_cached(
            "SELECT id, run, event, records FROM delivery WHERE endpoint = ?1 AND (next_at <= ?2 OR next_at > ?3)
             ORDER BY next_at, change",
        )?;
        let late = now.saturating_add(NONSENSE).cast_signed();
        let mut rows = statement.query(params![endpoint.id, now.cast_signed(), late])?;
        let mut found = Vec::new();
        while found.len() < limit
            && let Some(row) = rows.next()?
        {
            // One that is damaged must not keep the others from their receivers.
            let read = || Some((row.get(0).ok()?, row.get(1).ok()?, row.get::<_, String>(2).ok()?));
            let Some((id, run, event)) = read() else {
                tracing::error!(webhook = %endpoint.id, "a delivery is damaged in its file, and is not made");
                continue;
            };
            let (id, event): (String, Option<Event>) = (id, event.parse().ok());
            let Some(event) = event.filter(|_| !is_under_way(&id)) else { continue };
            let records = row.get::<_, i64>(3)?.cast_unsigned();
            found.push(Delivery { id, endpoint: endpoint.clone(), run, event, records });
        }
        Ok(found)
    }

    /// When something is to be delivered next, in milliseconds since the epoch; none where nothing waits.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn next_at(&self) -> Result<Option<u64>, WebhookError> {
        let next: Option<i64> = self
            .connection()
            .prepare_cached(
                "SELECT min(max((SELECT min(next_at) FROM delivery WHERE endpoint = endpoint.id), coalesce(resume_at, 0)))
                 FROM endpoint WHERE off_at IS NULL",
            )?
            .query_row([], |row| row.get(0))?;
        Ok(next.map(i64::cast_unsigned))
    }

    /// Notes what came of attempts. What was accepted is forgotten; what failed is tried again, for a day.
    ///
    /// # Errors
    /// When the file cannot be written: then all of them are made again, with the same ids.
    pub fn settle(&self, attempts: &[Attempted], now: u64) -> Result<Vec<News>, WebhookError> {
        let mut connection = self.connection();
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut news = Vec::new();
        for attempted in attempts {
            match &attempted.result {
                AttemptResult::Outdated => forget(&transaction, &attempted.id)?,
                AttemptResult::Sent(Sent { outcome: SendOutcome::Delivered, .. }) => {
                    forget(&transaction, &attempted.id)?;
                    transaction
                        .prepare_cached(
                            "UPDATE endpoint SET delivered = delivered + 1, delivered_at = ?2, failing_since = NULL, failures = 0,
                                resume_at = NULL WHERE id = ?1",
                        )?
                        .execute(params![attempted.endpoint, now.cast_signed()])?;
                }
                AttemptResult::Sent(sent) => news.extend(failed(&transaction, attempted, sent, now)?),
            }
        }
        transaction.commit()?;
        Ok(news)
    }

    /// How much there is to do.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn load(&self) -> Result<Load, WebhookError> {
        let connection = self.connection();
        let number = |sql: &str| -> Result<u64, rusqlite::Error> {
            connection.prepare_cached(sql)?.query_row([], |row| row.get::<_, i64>(0)).map(i64::cast_unsigned)
        };
        Ok(Load {
            waiting: number("SELECT count(*) FROM delivery")?,
            off: number("SELECT count(*) FROM endpoint WHERE off_at IS NOT NULL")?,
        })
    }
}

fn has_room(endpoint: &Endpoint) -> bool {
    endpoint.waiting < WAITING_MAX
}

/// The change in which the end of a run was seen first. A later one of such a run says only what is in doubt.
fn first_end(connection: &Connection, seen: &Seen<'_>) -> Result<u64, rusqlite::Error> {
    connection
        .prepare_cached("INSERT OR IGNORE INTO ended (run, change) VALUES (?1, ?2)")?
        .execute(params![seen.run, seen.change.cast_signed()])?;
    let change: i64 = connection
        .prepare_cached("SELECT change FROM ended WHERE run = ?1")?
        .query_row([seen.run], |row| row.get(0))?;
    Ok(change.cast_unsigned())
}

fn forget(connection: &Connection, id: &str) -> Result<(), rusqlite::Error> {
    connection.prepare_cached("DELETE FROM delivery WHERE id = ?1")?.execute([id])?;
    Ok(())
}

/// Notes a failure.
fn failed(
    transaction: &Transaction<'_>,
    attempted: &Attempted,
    sent: &Sent,
    now: u64,
) -> Result<Option<News>, WebhookError> {
    let Attempted { id, endpoint, began_at, .. } = attempted;
    let time = |time: Option<i64>| time.map(i64::cast_unsigned);
    let found = transaction
        .prepare_cached(
            "SELECT failures, failing_since, failed_at, delivered_at, off_at FROM endpoint WHERE id = ?1",
        )?
        .query_row([endpoint], |row| {
            Ok((
                row.get::<_, u32>(0)?,
                time(row.get(1)?),
                time(row.get(2)?),
                time(row.get(3)?),
                time(row.get(4)?),
            ))
        })
        .optional()?;
    // It was removed, or turned off, meanwhile.
    let Some((failures, failing_since, failed_at, delivered_at, None)) = found else { return Ok(None) };
    // Of attempts at the same time, one counts.
    let counts = failing_since.is_none() || failed_at.is_none_or(|at| *began_at >= at);
    let failures = failures.saturating_add(u32::from(counts)).max(1);
    let since = failing_since.unwrap_or(now);
    let is_gone = sent.outcome == SendOutcome::Gone;
    let reason = match is_gone {
        true => Some(OffReason::Gone),
        false => backoff::is_over(since, now, failures).then_some(OffReason::Failing),
    };
    transaction
        .prepare_cached(
            "UPDATE endpoint SET failures = ?2, failing_since = ?3, failed_at = ?4, failure = ?5, resume_at = ?6, off_at = ?7,
                off_reason = ?8 WHERE id = ?1",
        )?
        .execute(params![
            endpoint,
            failures,
            since.cast_signed(),
            now.cast_signed(),
            sent.failure(),
            now.saturating_add(backoff::pause(failures, sent.retry_after)).cast_signed(),
            reason.map(|_| now.cast_signed()),
            reason.map(OffReason::as_str),
        ])?;
    let found = transaction
        .prepare_cached("SELECT attempts, failed_at FROM delivery WHERE id = ?1")?
        .query_row([id], |row| Ok((row.get::<_, u32>(0)?, time(row.get(1)?))))
        .optional()?;
    let Some((attempts, first)) = found else { return Ok(None) };
    let (attempts, first) = (attempts.saturating_add(1), first.unwrap_or(now));
    // The receiver accepts others, so that it is this one that it cannot take.
    let is_alone = delivered_at.is_some_and(|at| at > first);
    if reason.is_none() && is_alone && backoff::is_over(first, now, attempts) {
        forget(transaction, id)?;
        transaction
            .prepare_cached("UPDATE endpoint SET given_up = given_up + 1 WHERE id = ?1")?
            .execute([endpoint])?;
        return Ok(Some(News::GivenUp { endpoint: endpoint.clone(), id: id.clone() }));
    }
    let next_at = now.saturating_add(backoff::pause(attempts, sent.retry_after));
    transaction
        .prepare_cached("UPDATE delivery SET attempts = ?2, failed_at = ?3, next_at = ?4 WHERE id = ?1")?
        .execute(params![id, attempts, first.cast_signed(), next_at.cast_signed()])?;
    Ok(reason.map(|reason| News::Off { endpoint: endpoint.clone(), reason }))
}

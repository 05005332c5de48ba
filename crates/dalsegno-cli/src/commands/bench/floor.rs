//! F: what one commit costs on this disk, whoever makes it.

use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::Connection;

/// Commits of one look: enough for a median on a disk that other programs use too.
const COMMITS: usize = 300;
/// The longest that one look takes, on a disk that needs long for a flush.
const LONGEST: Duration = Duration::from_secs(3);
/// The bytes of a commit.
const BYTES: usize = 1024;

/// The times of some commits of 1 KiB in WAL mode with `synchronous = FULL`; fewer when it is to stop.
pub(super) fn floor(file: &Path, stops: impl Fn() -> bool) -> Result<Vec<Duration>, rusqlite::Error> {
    let connection = Connection::open(file)?;
    connection.pragma_update(None, "journal_mode", "wal")?;
    connection.pragma_update(None, "synchronous", "full")?;
    connection.execute_batch("CREATE TABLE IF NOT EXISTS body (bytes BLOB)")?;
    let mut insert = connection.prepare("INSERT INTO body VALUES (?1)")?;
    let body = vec![7_u8; BYTES];
    let begun = Instant::now();
    let mut times = Vec::with_capacity(COMMITS);
    while times.len() < COMMITS && begun.elapsed() < LONGEST && !stops() {
        let begin = Instant::now();
        insert.execute([&body])?;
        times.push(begin.elapsed());
    }
    Ok(times)
}

/// The time in the middle; zero of no times.
pub(super) fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_takes_time_and_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("floor.db");
        let times = floor(&file, || false).unwrap();
        assert!(!times.is_empty() && times.iter().all(|time| !time.is_zero()));
        let rows = |connection: &Connection| -> u32 {
            connection.query_row("SELECT count(*) FROM body", [], |row| row.get(0)).unwrap()
        };
        assert_eq!(rows(&Connection::open(&file).unwrap()) as usize, times.len());
        assert!(floor(&file, || true).unwrap().is_empty());
    }

    #[test]
    fn the_median_is_the_one_in_the_middle() {
        let times = [5, 1, 9].map(Duration::from_millis).to_vec();
        assert_eq!(median(times), Duration::from_millis(5));
        assert_eq!(median(Vec::new()), Duration::ZERO);
    }
}

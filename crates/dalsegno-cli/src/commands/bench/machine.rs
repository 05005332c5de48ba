//! What the machine says about this process and its journal.

use std::fs;
use std::path::Path;
use std::time::Duration;

/// The processor time of all threads of this process so far.
#[cfg(unix)]
pub(super) fn cpu() -> Option<Duration> {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    let seconds = u64::try_from(time.tv_sec).ok()?;
    Some(Duration::new(seconds, u32::try_from(time.tv_nsec).ok()?))
}

#[cfg(not(unix))]
pub(super) fn cpu() -> Option<Duration> {
    None
}

/// The most memory that this process had at once, in bytes. Only Linux says it of the program itself: elsewhere, and by
/// `getrusage`, the process that started it counts as well.
pub(super) fn peak_memory() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kibibytes| kibibytes * 1024)
}

/// The commits of a journal since its first process opened it: SQLite counts them in the index of its log, the file beside
/// it that ends in `-shm` (<https://www.sqlite.org/walformat.html>, `iChange`). Each is one flush of the log.
pub(super) fn commits(journal: &Path) -> Option<u64> {
    const COUNTER: std::ops::Range<usize> = 8..12;
    let mut name = journal.file_name()?.to_owned();
    name.push("-shm");
    let index = fs::read(journal.with_file_name(name)).ok()?;
    let counter = index.get(COUNTER)?.try_into().ok()?;
    // In the byte order of the machine: the file is memory that processes share.
    Some(u32::from_ne_bytes(counter).into())
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;

    #[test]
    fn commits_are_counted_by_sqlite_itself() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("journal.db");
        let connection = Connection::open(&file).unwrap();
        connection.pragma_update(None, "journal_mode", "wal").unwrap();
        connection.execute_batch("CREATE TABLE line (text TEXT)").unwrap();
        let before = commits(&file).unwrap();
        // More than one log holds, so that the count must outlive its beginning anew.
        for _ in 0..1_500 {
            connection.execute("INSERT INTO line VALUES (?1)", ["x".repeat(5_000)]).unwrap();
        }
        connection
            .execute_batch(
                "BEGIN; INSERT INTO line VALUES ('a'); INSERT INTO line VALUES ('b'); COMMIT; \
                 BEGIN; INSERT INTO line VALUES ('c'); ROLLBACK; SELECT count(*) FROM line;",
            )
            .unwrap();
        assert_eq!(commits(&file).unwrap() - before, 1_501);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn work_takes_processor_time_and_memory() {
        let before = cpu().unwrap();
        let mut bytes = vec![0_u8; 64 * 1024 * 1024];
        bytes.iter_mut().zip(0_u64..).for_each(|(byte, place)| *byte = place.to_le_bytes()[0]);
        assert!(std::hint::black_box(bytes).len() as u64 <= peak_memory().unwrap());
        assert!(cpu().unwrap() > before);
    }
}

//! What processes use, as the system says.

use std::fs;
use std::time::Duration;

/// What Linux says of a process's memory, in bytes: `process` is its number or `self`, and `what` is `VmRSS` for now or `VmHWM` for the
/// most that it had at once. None where the system or the process does not say it.
pub fn memory_of(process: &str, what: &str) -> Option<u64> {
    kibibytes(&fs::read_to_string(format!("/proc/{process}/status")).ok()?, what)
}

/// The memory that the processes below this one have at this moment, in bytes: those that it started, those that they started, and so
/// on. What several of them share counts once. None where the system does not say it.
pub fn memory_below(process: u32) -> Option<u64> {
    let mut parents = Vec::new();
    for entry in fs::read_dir("/proc").ok()? {
        let name = entry.ok()?.file_name();
        let Some(number) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        // One that has ended meanwhile has no parent.
        let parent = stat(&number.to_string()).and_then(|fields| fields.get(1)?.parse::<u32>().ok());
        parents.extend(parent.map(|parent| (number, parent)));
    }
    let mut found = vec![process];
    let mut at = 0;
    while let Some(above) = found.get(at).copied() {
        found.extend(parents.iter().filter(|(_, parent)| *parent == above).map(|(number, _)| *number));
        at += 1;
    }
    let part =
        |number: &u32| kibibytes(&fs::read_to_string(format!("/proc/{number}/smaps_rollup")).ok()?, "Pss");
    let memory: u64 = found.iter().skip(1).filter_map(part).sum();
    (memory > 0).then_some(memory)
}

/// The figure behind this name, in bytes.
fn kibibytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kibibytes| kibibytes * 1024)
}

/// The fields of `/proc/PID/stat` behind the name of the process, which may have spaces.
fn stat(process: &str) -> Option<Vec<String>> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let (_, behind) = stat.rsplit_once(')')?;
    Some(behind.split_whitespace().map(str::to_owned).collect())
}

/// What a process has used of the processor so far, in programs and in the system: `process` is its number or `self`. None where the
/// system does not say it.
pub fn processor_of(process: &str) -> Option<Duration> {
    processor(process, 11)
}

/// The same of all processes that it has waited for.
pub fn processor_of_ended(process: &str) -> Option<Duration> {
    processor(process, 13)
}

fn processor(process: &str, from: usize) -> Option<Duration> {
    let fields = stat(process)?;
    let ticks: u64 = fields.get(from..from + 2)?.iter().filter_map(|field| field.parse::<u64>().ok()).sum();
    // Linux counts a hundred in a second for programs, on every machine.
    Some(Duration::from_millis(ticks * 10))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn the_system_says_what_a_process_uses() {
        assert!(memory_of("self", "VmRSS").unwrap() > 1 << 20);
        assert!(memory_of("self", "VmHWM").unwrap() >= 1 << 20);
        assert_eq!(memory_of("self", "VmNothing"), None);
        assert_eq!((memory_of("0", "VmRSS"), processor_of("0")), (None, None));
        let mut working = Duration::ZERO;
        while working.is_zero() {
            working = processor_of("self").unwrap();
        }
        assert!(processor_of_ended("self").is_some());
        // It starts another one, and both count.
        let mut shell = Command::new("sh")
            .args(["-c", "sleep 60 & read line; kill $!"])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let below = std::iter::repeat_with(|| memory_below(shell.id())).find_map(|memory| memory).unwrap();
        assert!(below < memory_below(std::process::id()).unwrap());
        drop(shell.stdin.take());
        assert!(shell.wait().is_ok());
    }
}

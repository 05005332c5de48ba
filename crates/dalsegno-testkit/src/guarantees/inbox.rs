//! What is promised of messages: each is taken, and something comes of it.

use dalsegno_core::RunId;
use dalsegno_store::Message;

use super::Guarantees;
use super::pauses::takes_words;
use crate::process::Process;

/// How many commits an owner may make between reading a message and taking it. The next one takes it, unless it says that an
/// operation is to be given up: that stays until the operation has its outcome, while others of its step have theirs.
const COMMITS: u32 = 50;

impl Guarantees {
    /// Messages were taken out of the inbox by a commit of so many records that is in the journal now.
    pub(crate) fn consumed(&mut self, run: RunId, messages: &[Message], records: usize) {
        let Some(line) = self.runs.get(&run) else { return };
        let mut wrong = Vec::new();
        if !messages.is_empty() && records == 0 {
            wrong.push(format!("{}: messages were taken out, and no record says so", line.alias));
        }
        if !(takes_words(line, messages) || line.signalled || line.ended) {
            wrong.push(format!("{}: a pause or its end was taken and nothing came of it", line.alias));
        }
        for message in messages {
            match message {
                Message::Cancel { .. } if !line.signalled && !line.ended => {
                    wrong.push(format!("{}: a cancel was taken and nothing came of it", line.alias));
                }
                Message::Answer { operation, attempts, .. } => {
                    // One to an earlier question came too late.
                    if let Some(op) = line.ops.get(operation)
                        && op.gate.is_some()
                        && op.attempts == *attempts
                        && !line.signalled
                    {
                        wrong.push(format!("{}: an answer was taken and nothing came of it", op.alias));
                    }
                }
                _ => {}
            }
        }
        self.violations.extend(wrong);
    }

    /// An owner reads its messages: what it has read before it must have taken meanwhile.
    pub(crate) fn read(&mut self, process: &Process, run: RunId, numbers: &[u64]) {
        let Some(line) = self.runs.get_mut(&run) else { return };
        if line.owner.as_ref().is_none_or(|owner| owner.number != process.number) {
            return;
        }
        let (epoch, alias) = (line.epoch, line.alias.clone());
        let mut often = Vec::new();
        for number in numbers {
            let commits = line.read.entry((epoch, *number)).or_insert(0_u32);
            if *commits > COMMITS {
                often.push(format!("{alias}: message {number} is read again and again, and never taken"));
            }
        }
        self.violations.extend(often);
    }

    /// Somebody wants a run to end, and was told that it will.
    pub(crate) fn cancel_wanted(&mut self, run: RunId) {
        let now = self.now;
        if let Some(line) = self.runs.get_mut(&run) {
            line.cancel_wanted.get_or_insert(now);
        }
    }
}

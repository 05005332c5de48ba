//! Files that tools return, on their way into the journal: the outcome names them, and their bytes go beside it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dalsegno_core::{Attachment, Digest, OperationId, Outcome, ToolReturn};
use dalsegno_protocol::ResultFiles;
use dalsegno_store::digest_bytes;

/// The bytes of files, by their digests.
pub(crate) type Files = Vec<(Digest, Arc<[u8]>)>;

/// The files of results that no record has yet.
#[derive(Default)]
pub(crate) struct ReturnedFiles(Mutex<BTreeMap<OperationId, Files>>);

impl ReturnedFiles {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<OperationId, Files>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the files of an attempt's result, in place of those of an attempt before it.
    pub(crate) fn put(&self, operation: OperationId, files: Files) {
        match files.is_empty() {
            true => drop(self.lock().remove(&operation)),
            false => drop(self.lock().insert(operation, files)),
        }
    }

    /// Takes out the files that the outcome of an operation names.
    pub(crate) fn take(&self, operation: OperationId, outcome: &Outcome) -> Files {
        let mut files = self.lock().remove(&operation).unwrap_or_default();
        let named = match outcome {
            Outcome::ToolReturned(returned) => returned.files.as_slice(),
            _ => &[],
        };
        files.retain(|(digest, _)| named.iter().any(|file| file.digest == *digest));
        files
    }

    /// Forgets all of them: a new step begins, and results of the one before come too late.
    pub(crate) fn clear(&self) {
        self.lock().clear();
    }
}

/// Puts files into a result, with a line for each one that was left out, and returns their bytes. A failure has none.
pub(crate) fn attach(returned: &mut ToolReturn, files: ResultFiles) -> Files {
    returned.files.clear();
    if returned.is_error {
        return Files::new();
    }
    let (files, refused) = files.into_parts();
    refused.iter().for_each(|line| returned.add_line(line));
    let mut kept = BTreeMap::new();
    for file in files {
        let (digest, bytes) = (digest_bytes(&file.bytes), file.bytes.len() as u64);
        let media_type = file.media_type.to_owned();
        returned.files.push(Attachment { name: file.name, media_type, digest, bytes });
        kept.entry(digest).or_insert_with(|| Arc::from(file.bytes));
    }
    kept.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const PNG: &[u8] = b"\x89PNG\r\n\x1a\n";

    fn files(count: usize) -> ResultFiles {
        let mut files = ResultFiles::default();
        for number in 0..count {
            files.add(None, Some("image/png"), [PNG, &[u8::try_from(number % 2).unwrap()]].concat());
        }
        files.add(None, Some("image/png"), b"no picture".to_vec());
        files
    }

    #[test]
    fn equal_files_are_kept_once_and_named_each_time() {
        let mut returned = ToolReturn { text: "three".to_owned(), ..ToolReturn::default() };
        let kept = attach(&mut returned, files(3));
        assert_eq!((returned.files.len(), kept.len()), (3, 2));
        assert!(
            returned.text.starts_with("three\n[image/png, 10 bytes, is not passed on"),
            "{}",
            returned.text
        );
        let operation = OperationId::from_bytes([1; 16]);
        let waiting = ReturnedFiles::default();
        waiting.put(operation, kept.clone());
        assert_eq!(waiting.take(operation, &Outcome::TimerFired), Files::new());
        waiting.put(operation, kept.clone());
        assert_eq!(waiting.take(operation, &Outcome::ToolReturned(returned.clone())), kept);
        assert_eq!(waiting.take(operation, &Outcome::ToolReturned(returned.clone())), Files::new());
        waiting.put(operation, kept);
        returned.files.truncate(1);
        assert_eq!(waiting.take(operation, &Outcome::ToolReturned(returned)).len(), 1);
    }

    #[test]
    fn a_structured_result_says_what_was_left_out_and_stays_what_it_was() {
        let mut returned = ToolReturn::structured(json!({ "b": 1, "a": 2 }));
        attach(&mut returned, files(0));
        assert_eq!(returned.structured, Some(json!({ "a": 2, "b": 1 })));
        assert!(returned.text.starts_with("{\"a\":2,\"b\":1}\n[image/png, "), "{}", returned.text);
        let mut whole = ToolReturn::structured(json!({}));
        let mut one = ResultFiles::default();
        one.add(None, None, PNG.to_vec());
        attach(&mut whole, one);
        assert!(whole.text.is_empty() && whole.files.len() == 1);
    }

    #[test]
    fn a_failure_and_a_forged_name_bring_no_file() {
        let mut failed = ToolReturn { is_error: true, ..ToolReturn::default() };
        assert_eq!(attach(&mut failed, files(1)), Files::new());
        assert!(failed.files.is_empty() && failed.text.is_empty());
        let (name, media_type, digest) = ("a".to_owned(), "image/png".to_owned(), digest_bytes(b"a secret"));
        let forged = Attachment { name, media_type, digest, bytes: 8 };
        let mut returned = ToolReturn { files: vec![forged], ..ToolReturn::default() };
        assert_eq!(attach(&mut returned, ResultFiles::default()), Files::new());
        assert!(returned.files.is_empty());
    }
}

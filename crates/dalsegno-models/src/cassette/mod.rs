//! Cassettes: exchanges with a model, recorded once and replayed without one.
//!
//! A [`Recorder`] wraps a model and keeps each exchange that succeeds; a [`Cassette`] answers from them. It is strict:
//! a request must be one that was recorded, down to the last character that the model would read, and each recording
//! is used once. Anything else fails at once and says which recording comes nearest and where the two part.
//!
//! # The file
//!
//! One JSON value a line: first `{"dalsegno_cassette":1}`, the version; then for each exchange a `request` with its
//! settings, a line for each `tool`, the `output_schema`, each `entry` of the transcript, and the `reply`. A request that
//! goes on with an earlier one names it in `like` and holds only what is new, so that a file grows with the
//! conversation and its diff shows the entry that changed. TOML would be easier on the eye, but it has no null, which
//! tools' schemas, arguments and opaque parts may hold.
//!
//! A file holds what the model read and wrote, and no key: keys never enter a request.

mod difference;
mod file;
mod lock;
mod request;

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use dalsegno_core::{Digest, ModelReply, ReplyPart};

use self::file::Exchange;
use self::lock::Lock;
use self::request::Request;
use crate::model::{CompletionRequest, DeltaSink, Model, ModelError, ModelErrorKind};

/// Why a cassette cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CassetteError {
    /// The file cannot be read.
    #[error("cannot read the cassette `{}`: {source}; correct its path, or record it first", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The file cannot be written.
    #[error(
        "cannot write the cassette `{}`: {source}; check that its folder exists, has room and is writable",
        path.display()
    )]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// Another recorder writes to the file.
    #[error("another run records to the cassette `{}`: wait until it ends, or record to another file", path.display())]
    Busy {
        /// The file.
        path: PathBuf,
    },
    /// The file system has no locks, so nothing would keep a second recorder out.
    #[error("the cassette `{}` cannot be locked: {source}; record to a local file", path.display())]
    NoLock {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The file is larger than any cassette should be.
    #[error("the cassette `{}` is larger than 64 MiB: record shorter runs", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// A newer release wrote it.
    #[error("the cassette `{}` has the version {found}, this release reads version 1; record it again", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// The version that it has.
        found: u32,
    },
    /// A line is not what a cassette has there.
    #[error("the cassette `{}`, line {line}: {message}; correct the line, or record it again", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// What is wrong and what is expected.
        message: String,
    },
}

/// A file to which recorders add. The recorders of a workspace's models may share one.
///
/// It is the only one of its file, in this process and every other, until it is dropped.
pub struct Recording {
    path: PathBuf,
    _lock: Lock,
    written: Mutex<Written>,
}

struct Written {
    text: String,
    exchanges: Vec<Exchange>,
}

impl Recording {
    /// Opens a file to add to, or begins one. Nothing is written to it before the first exchange succeeds.
    ///
    /// # Errors
    /// Fails if another recorder has the file, if its folder cannot be written to or has no locks, or if it cannot be
    /// read or is no cassette.
    pub fn open(path: impl Into<PathBuf>) -> Result<Arc<Self>, CassetteError> {
        let path = path.into();
        let lock = Lock::take(&path)?;
        let text = file::read(&path)?.unwrap_or_else(file::header);
        let exchanges = file::parse(&path, &text)?;
        Ok(Arc::new(Self { path, _lock: lock, written: Mutex::new(Written { text, exchanges }) }))
    }

    /// Adds an exchange. The file is replaced as a whole: after a crash it holds the exchange or it does not.
    fn add(&self, exchange: Exchange) -> Result<(), CassetteError> {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        let lines = file::print(&exchange, &written.exchanges);
        let mut text = written.text.clone();
        if !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(&lines);
        file::replace(&self.path, &text)?;
        written.text = text;
        written.exchanges.push(exchange);
        Ok(())
    }
}

impl fmt::Debug for Recording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recording").field("path", &self.path).finish_non_exhaustive()
    }
}

/// A model whose exchanges are recorded. Failed attempts are not.
pub struct Recorder {
    model: Arc<dyn Model>,
    recording: Arc<Recording>,
}

impl Recorder {
    /// Records what `model` replies.
    pub fn new(model: Arc<dyn Model>, recording: Arc<Recording>) -> Self {
        Self { model, recording }
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").field("recording", &self.recording).finish_non_exhaustive()
    }
}

#[async_trait]
impl Model for Recorder {
    /// A reply that cannot be recorded is a failure: a recording with a hole would miss only when it is replayed.
    async fn complete(
        &self,
        request: &CompletionRequest,
        sink: &dyn DeltaSink,
    ) -> Result<ModelReply, ModelError> {
        let reply = self.model.complete(request, sink).await?;
        let exchange = Exchange { request: Request::of(request), reply: reply.clone() };
        let recording = Arc::clone(&self.recording);
        let added = tokio::task::spawn_blocking(move || recording.add(exchange)).await;
        let failed = |message: String| ModelError::new(ModelErrorKind::Refused, message);
        match added {
            Ok(Ok(())) => Ok(reply),
            Ok(Err(error)) => Err(failed(format!("the model replied, but {error}"))),
            Err(error) => Err(failed(format!("the model replied, but recording it failed: {error}"))),
        }
    }
}

/// A model that replies from a recording.
pub struct Cassette {
    path: PathBuf,
    exchanges: Vec<Exchange>,
    by_digest: HashMap<Digest, Vec<usize>>,
    used: Mutex<Vec<bool>>,
}

impl Cassette {
    /// Reads a recording.
    ///
    /// # Errors
    /// Fails if the file is not there or is no cassette.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, CassetteError> {
        let path = path.as_ref().to_owned();
        let Some(text) = file::read(&path)? else {
            return Err(CassetteError::Read { path, source: io::ErrorKind::NotFound.into() });
        };
        let exchanges = file::parse(&path, &text)?;
        let mut by_digest: HashMap<Digest, Vec<usize>> = HashMap::new();
        for (index, exchange) in exchanges.iter().enumerate() {
            by_digest.entry(exchange.request.digest()).or_default().push(index);
        }
        let used = Mutex::new(vec![false; exchanges.len()]);
        Ok(Self { path, exchanges, by_digest, used })
    }

    /// The number of recordings.
    pub fn len(&self) -> usize {
        self.exchanges.len()
    }

    /// Says whether there are no recordings.
    pub fn is_empty(&self) -> bool {
        self.exchanges.is_empty()
    }

    /// The number of recordings that nobody asked for yet: a replay that ends before all are used took another course.
    pub fn unused(&self) -> usize {
        self.used.lock().unwrap_or_else(PoisonError::into_inner).iter().filter(|used| !**used).count()
    }

    /// The next recording of a request.
    fn take(&self, asked: &Request) -> Option<&ModelReply> {
        let found = self.by_digest.get(&asked.digest())?;
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let mut unused = found.iter().copied().filter(|index| !used[*index]);
        let is_named_alike = |index: &usize| self.exchanges[*index].request.head.model == asked.head.model;
        let index = unused.clone().find(is_named_alike).or_else(|| unused.next())?;
        used[index] = true;
        Some(&self.exchanges[index].reply)
    }

    /// Why there is none, in words.
    fn miss(&self, asked: &Request) -> ModelError {
        let path = self.path.display();
        let used = self.used.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let candidates = self.exchanges.iter().enumerate();
        let nearness = |index: usize, exchange: &Exchange| {
            (difference::nearness(&exchange.request, asked), !used[index])
        };
        // Of equally near ones the first.
        let nearest = candidates.rev().max_by_key(|(index, exchange)| nearness(*index, exchange));
        let message = match nearest {
            None => format!("nothing is recorded in the cassette `{path}`; record the run first"),
            Some((index, exchange)) => {
                let (number, count) = (index + 1, self.exchanges.len());
                match difference::first(&exchange.request, asked) {
                    None => format!(
                        "the cassette `{path}` has no further reply to this request: recording {number} of {count} fits \
                         but was used already, so the run now asks more often; record it again"
                    ),
                    Some(difference) => {
                        let common = exchange.request.common_entries(asked);
                        format!(
                            "nothing recorded in the cassette `{path}` fits this request; the nearest is recording \
                             {number} of {count}, with {common} of {} entries in common; the first difference: \
                             {difference}; undo the change or record the run again",
                            asked.entries.len()
                        )
                    }
                }
            }
        };
        ModelError::new(ModelErrorKind::Refused, message)
    }
}

impl fmt::Debug for Cassette {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cassette")
            .field("path", &self.path)
            .field("recordings", &self.len())
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl Model for Cassette {
    async fn complete(
        &self,
        request: &CompletionRequest,
        sink: &dyn DeltaSink,
    ) -> Result<ModelReply, ModelError> {
        let asked = Request::of(request);
        let Some(reply) = self.take(&asked) else { return Err(self.miss(&asked)) };
        for part in &reply.parts {
            if let ReplyPart::Text(text) = part {
                text.split_inclusive(char::is_whitespace).for_each(|word| sink.text(word));
            }
        }
        Ok(reply.clone())
    }
}

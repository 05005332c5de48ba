//! Files that tools return: which of them a model is sent.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use dalsegno_core::{Attachment, Digest, Entry};

use super::body::{self, Media};
use super::client::Failed;
use crate::model::CompletionRequest;

/// Which files that tools return a model is sent. The words of their results stand for all others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ToolFiles {
    /// All that the wire carries.
    #[default]
    All,
    /// Images.
    Images,
    /// None: for a model that reads text alone.
    Off,
}

impl ToolFiles {
    /// The request with those files of results alone that the model reads.
    pub(super) fn narrow(self, request: &CompletionRequest) -> Cow<'_, CompletionRequest> {
        // Most requests have none, and need no look at their history.
        if self == Self::All || request.attachments.is_empty() {
            return Cow::Borrowed(request);
        }
        let reads = |file: &Attachment| match self {
            Self::All => true,
            Self::Images => file.media_type.starts_with("image/"),
            Self::Off => false,
        };
        let unread = of_results(request).filter(|file| !reads(file)).map(|file| file.digest);
        let unread: BTreeSet<Digest> = unread.collect();
        if unread.is_empty() {
            return Cow::Borrowed(request);
        }
        let mut attachments = (*request.attachments).clone();
        attachments.retain(|digest, _| !unread.contains(digest));
        Cow::Owned(CompletionRequest { attachments: Arc::new(attachments), ..request.clone() })
    }
}

/// The request without the files of results, where these may be what the provider refused: the words of the results stand for
/// them. So neither a model that reads text alone nor a file that is damaged holds up a run.
pub(super) fn without(
    request: &CompletionRequest,
    refused: &Failed,
) -> Option<Cow<'static, CompletionRequest>> {
    let count = of_results(request).count();
    if count == 0 || !refused.unread {
        return None;
    }
    let (model, error) = (&request.settings.name, &refused.error.message);
    tracing::warn!(model, count, error, "asked again without the files that tools returned");
    Some(Cow::Owned(ToolFiles::Off.narrow(request).into_owned()))
}

/// The files of results whose bytes a request has, but for those that the user attached as well.
fn of_results(request: &CompletionRequest) -> impl Iterator<Item = &Attachment> {
    let entries = request.transcript.iter();
    let of_user = entries.filter(|entry| matches!(entry, Entry::Attachment(_))).flat_map(Entry::files);
    let of_user: BTreeSet<Digest> = of_user.map(|file| file.digest).collect();
    let files = request.transcript.iter().flat_map(Entry::files);
    files
        .filter(move |file| request.attachments.contains_key(&file.digest) && !of_user.contains(&file.digest))
}

/// The files of a result that the request carries, by what their bytes are. The words of the result stand for all others: older
/// ones, those that the model's settings leave out, and those that are not what an archive said of them.
pub(super) fn of_result<'r>(
    request: &CompletionRequest,
    files: &'r [Attachment],
) -> impl Iterator<Item = (&'r Attachment, Media<'r>)> {
    files.iter().filter_map(|file| {
        let bytes = request.attachments.get(&file.digest)?;
        let is_sound = dalsegno_core::media_type(bytes) == Some(file.media_type.as_str());
        is_sound.then(|| body::media(request, file).ok()).flatten().map(|media| (file, media))
    })
}

/// What stands before files of a result that do not stand in it.
pub(super) fn title(name: &str, call_id: &str) -> String {
    format!("[Files that `{name}` returned to the call {call_id}]")
}

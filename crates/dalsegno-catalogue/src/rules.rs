//! Whether a change may be made, and which old versions it drops: the same for every store.

use crate::document::{DocumentId, Version};
use crate::error::ChangeError;
use crate::limits::Limits;
use crate::store::Change;
use crate::version::{canonical, digest};

/// What a store has before a change.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Before {
    pub(crate) generation: u64,
    /// The version of the document, and the bytes of its text.
    pub(crate) current: Option<(Version, u64)>,
    /// The documents in use of the same kind and tenant.
    pub(crate) documents: u64,
    /// The bytes of these documents.
    pub(crate) bytes: u64,
}

/// What a change writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Write {
    /// Nothing: the document is as it is to be.
    Nothing,
    /// This canonical text, which has this version.
    Text(String, Version),
    /// The end of the document.
    Deletion,
}

pub(crate) fn judge(change: &Change<'_>, before: &Before, limits: &Limits) -> Result<Write, ChangeError> {
    let found = before.current.map(|(version, _)| version);
    if found != change.expected {
        return Err(ChangeError::Stale { found });
    }
    if before.generation != change.generation {
        return Err(ChangeError::Moved { generation: before.generation });
    }
    let Some(text) = change.text else {
        return Ok(if found.is_some() { Write::Deletion } else { Write::Nothing });
    };
    let text = canonical(text);
    let bytes = text.len() as u64;
    if bytes > limits.document {
        return Err(ChangeError::TooLarge { bytes, most: limits.document });
    }
    let version = Version(digest(&text));
    if found == Some(version) {
        return Ok(Write::Nothing);
    }
    let room = room(change.id, limits);
    if found.is_none() && before.documents >= room.documents {
        return Err(ChangeError::TooMany { most: room.documents });
    }
    let own = before.current.map_or(0, |(_, bytes)| bytes);
    if before.bytes.saturating_sub(own).saturating_add(bytes) > room.bytes {
        return Err(ChangeError::Full { most: room.bytes });
    }
    Ok(Write::Text(text, version))
}

fn room(id: &DocumentId, limits: &Limits) -> crate::limits::Room {
    if id.tenant().is_some() { limits.tenant } else { limits.workspace }
}

/// Of how many of the newest versions, given by the bytes of each, the newest first, are kept. The newest always is.
pub(crate) fn kept(bytes: impl IntoIterator<Item = u64>, limits: &Limits) -> u64 {
    let (mut kept, mut sum) = (0, 0_u64);
    for bytes in bytes {
        sum = sum.saturating_add(bytes);
        if kept > 0 && (kept >= limits.versions || sum > limits.version_bytes) {
            break;
        }
        kept += 1;
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_is_always_kept() {
        let limits = Limits { versions: 3, version_bytes: 10, ..Limits::default() };
        for (bytes, expected) in
            [(vec![], 0), (vec![99], 1), (vec![1, 1, 1, 1], 3), (vec![6, 5, 1], 1), (vec![5, 5, 1], 2)]
        {
            assert_eq!(kept(bytes.clone(), &limits), expected, "{bytes:?}");
        }
    }
}

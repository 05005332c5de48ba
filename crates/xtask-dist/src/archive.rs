//! Archives whose bytes depend on nothing but their content: entries are sorted, and have one time and one owner.

use std::collections::BTreeSet;
use std::io::Write as _;

use anyhow::{Context as _, ensure};
use flate2::write::DeflateEncoder;
use flate2::{Compression, GzBuilder};
use rawzip::time::UtcDateTime;
use rawzip::{CompressionMethod, ZipArchiveWriter};
use tar::{Builder, EntryType, Header};

/// One entry of an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Path from the root of the archive, with `/`, without one at the beginning or at the end.
    pub path: String,
    /// Permission bits.
    pub mode: u32,
    /// Number of the user and of the group that owns it.
    pub owner: u32,
    /// What it is.
    pub content: Content,
}

/// What an entry is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// A folder. Archives add those above their entries by themselves.
    Folder,
    /// A regular file.
    File(Vec<u8>),
    /// A symbolic link to this path.
    Link(String),
}

impl Entry {
    /// A file that everyone may read.
    pub fn file(path: impl Into<String>, content: impl Into<Vec<u8>>) -> Self {
        Self { path: path.into(), mode: 0o644, owner: 0, content: Content::File(content.into()) }
    }

    /// A file that everyone may read and execute.
    pub fn program(path: impl Into<String>, content: impl Into<Vec<u8>>) -> Self {
        Self { mode: 0o755, ..Self::file(path, content) }
    }

    /// A folder.
    pub fn folder(path: impl Into<String>, mode: u32, owner: u32) -> Self {
        Self { path: path.into(), mode, owner, content: Content::Folder }
    }

    /// Returns the content, which is empty unless this is a file.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        match &self.content {
            Content::File(bytes) => bytes,
            Content::Folder | Content::Link(_) => &[],
        }
    }
}

/// Returns the entries in the order of their paths, with the folders above them.
fn complete(mut entries: Vec<Entry>) -> Vec<Entry> {
    let mut known: BTreeSet<String> = entries.iter().map(|entry| entry.path.clone()).collect();
    for index in 0..entries.len() {
        let path = entries[index].path.clone();
        let ends = path.match_indices('/').map(|(end, _)| end);
        for folder in ends.map(|end| &path[..end]) {
            if known.insert(folder.to_owned()) {
                entries.push(Entry::folder(folder, 0o755, 0));
            }
        }
    }
    entries.sort_by(|one, other| one.path.cmp(&other.path));
    entries
}

/// Returns a tar archive of the entries and of the folders above them.
///
/// # Errors
/// A link is too long for the format.
pub fn tar(entries: Vec<Entry>, seconds: u64) -> anyhow::Result<Vec<u8>> {
    let mut builder = Builder::new(Vec::new());
    for entry in complete(entries) {
        let mut header = Header::new_gnu();
        header.set_mode(entry.mode);
        header.set_uid(entry.owner.into());
        header.set_gid(entry.owner.into());
        header.set_mtime(seconds);
        header.set_size(0);
        let path = &entry.path;
        let added = match &entry.content {
            Content::Folder => {
                header.set_entry_type(EntryType::Directory);
                builder.append_data(&mut header, format!("{path}/"), [].as_slice())
            }
            Content::File(bytes) => {
                header.set_entry_type(EntryType::Regular);
                header.set_size(bytes.len() as u64);
                builder.append_data(&mut header, path, bytes.as_slice())
            }
            Content::Link(target) => {
                header.set_entry_type(EntryType::Symlink);
                builder.append_link(&mut header, path, target)
            }
        };
        added.with_context(|| format!("cannot put `{path}` into a tar archive"))?;
    }
    Ok(builder.into_inner()?)
}

/// Compresses bytes as `gzip --best --no-name` does.
#[must_use]
pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzBuilder::new().mtime(0).write(Vec::new(), Compression::best());
    let written = encoder.write_all(bytes).and_then(|()| encoder.finish());
    written.expect("a vector takes every byte")
}

/// Returns a ZIP archive of the entries, in their order. Only files are allowed in it.
///
/// # Errors
/// A name is not allowed in the format.
pub fn zip(entries: &[Entry], seconds: u64) -> anyhow::Result<Vec<u8>> {
    let time = UtcDateTime::from_unix(i64::try_from(seconds)?);
    let mut archive = ZipArchiveWriter::new(Vec::new());
    for entry in entries {
        let (mut writer, config) = archive
            .new_file(&entry.path)
            .compression_method(CompressionMethod::DEFLATE)
            .last_modified(time)
            .unix_permissions(0o100_000 | entry.mode)
            .start()
            .with_context(|| format!("cannot put `{}` into a ZIP archive", entry.path))?;
        let mut data = config.wrap(DeflateEncoder::new(&mut writer, Compression::best()));
        data.write_all(entry.bytes())?;
        let (encoder, descriptor) = data.finish()?;
        encoder.finish()?;
        writer.finish(descriptor)?;
    }
    Ok(archive.finish()?)
}

/// Returns an `ar` archive of the entries, in their order.
///
/// # Errors
/// A name has more than 16 bytes, for which the format needs a table of names.
pub fn ar(entries: &[Entry], seconds: u64) -> anyhow::Result<Vec<u8>> {
    let mut archive = b"!<arch>\n".to_vec();
    for entry in entries {
        let (name, bytes) = (&entry.path, entry.bytes());
        ensure!(name.len() <= 16, "`{name}` is too long for an `ar` archive");
        let (mode, owner) = (0o100_000 | entry.mode, entry.owner);
        let head = format!("{name:<16}{seconds:<12}{owner:<6}{owner:<6}{mode:<8o}{:<10}`\n", bytes.len());
        archive.extend(head.as_bytes());
        archive.extend(bytes);
        // Every entry begins at an even place.
        archive.extend((bytes.len() % 2 == 1).then_some(b'\n'));
    }
    Ok(archive)
}

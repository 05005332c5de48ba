//! The texts of a workspace as they are, or as they were.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

use dalsegno_workspace::{InCode, Workspace};
use toml::Value;

/// A version of a workspace: the text of each file that decides what its agents do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Version {
    /// By which people know it: a revision, or a folder.
    pub name: String,
    /// By the path below the workspace's folder.
    pub texts: BTreeMap<PathBuf, String>,
}

impl Version {
    /// The most files of a version.
    pub const FILES_MAX: usize = 20_000;

    /// Reads the version in a folder. Files that are no text are left out: a workspace reports them.
    ///
    /// # Errors
    /// When a file or a folder cannot be read, a file is too large, or there are too many.
    pub fn on_disk(root: &Path, name: impl Into<String>) -> io::Result<Self> {
        let mut version = Self { name: name.into(), texts: BTreeMap::new() };
        let mut open: Vec<PathBuf> = Workspace::PLACES.iter().map(PathBuf::from).collect();
        while let Some(path) = open.pop() {
            let found = match fs::metadata(root.join(&path)) {
                Ok(found) => found,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            if found.is_dir() {
                for entry in root.join(&path).read_dir()? {
                    open.push(path.join(entry?.file_name()));
                }
            } else if Self::is_read(&path) {
                version.add(root, path)?;
            }
        }
        for schema in version.schemas() {
            if root.join(&schema).is_file() {
                version.add(root, schema)?;
            }
        }
        Ok(version)
    }

    /// This version as texts that are read instead of files, whatever the folder has by now. Files of `other` versions that this one
    /// does not have are read as if they were not there.
    pub fn in_code(&self, other: &Self) -> InCode {
        let mut texts = InCode::default();
        other.texts.keys().for_each(|file| texts.set_absent(file));
        self.texts.iter().for_each(|(file, text)| texts.set_text(file, text.as_str()));
        texts
    }

    /// Says whether a workspace reads a file of this path, by its name.
    pub fn is_read(path: &Path) -> bool {
        let is_known = path.extension().is_some_and(|one| one == "toml" || one == "json" || one == "lock");
        is_known && !path.iter().any(Workspace::is_kept_aside)
    }

    /// The JSON Schemas that agents name, by their paths below the workspace's folder. Those outside of it are not part of a version.
    pub fn schemas(&self) -> BTreeSet<PathBuf> {
        let agents = self.texts.iter().filter(|(file, _)| file.starts_with("agents"));
        let tables = agents.filter_map(|(_, text)| text.parse::<toml::Table>().ok());
        let mut named = BTreeSet::new();
        tables.for_each(|table| collect(&Value::Table(table), &mut named));
        named
    }

    fn add(&mut self, root: &Path, path: PathBuf) -> io::Result<()> {
        if self.texts.len() >= Self::FILES_MAX {
            return Err(io::Error::other(format!("there are more than {} files", Self::FILES_MAX)));
        }
        let (mut bytes, most) = (Vec::new(), Workspace::FILE_BYTES_MAX);
        fs::File::open(root.join(&path))?.take(most + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > most {
            let message = format!("`{}` is larger than {} MiB", path.display(), most >> 20);
            return Err(io::Error::other(message));
        }
        if let Ok(text) = String::from_utf8(bytes) {
            self.texts.insert(path, text);
        }
        Ok(())
    }
}

/// Finds the paths of schemas in an agent file, wherever they stand.
fn collect(value: &Value, named: &mut BTreeSet<PathBuf>) {
    match value {
        Value::Table(table) => {
            for (key, value) in table {
                match value.as_str().filter(|_| key == "schema") {
                    Some(path) => named.extend(within(path)),
                    None => collect(value, named),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, named)),
        _ => {}
    }
}

/// A path below the workspace's folder, without `.` in it.
fn within(path: &str) -> Option<PathBuf> {
    let mut within = PathBuf::new();
    for part in Path::new(path).components() {
        match part {
            Component::Normal(part) => within.push(part),
            Component::CurDir => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(within)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_what_a_workspace_reads_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &[u8]| {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("dalsegno.toml", b"");
        write(
            "agents/a.toml",
            b"[output]\nschema = \"./forms/a.json\"\n[[steps]]\ninput = { schema = \"../b.json\" }",
        );
        write("agents/.a.toml.swp", b"x");
        write("agents/notes.md", b"x");
        write("forms/a.json", b"{}");
        write("forms/b.json", b"{}");
        write("tenants/acme/tools/t.json", b"{}");
        write("tools/x.json", &[0xff, 0xfe]);
        write("tests/a.toml", b"");
        let version = Version::on_disk(folder.path(), "now").unwrap();
        let files: Vec<_> = version.texts.keys().map(|file| file.to_str().unwrap()).collect();
        assert_eq!(files, ["agents/a.toml", "dalsegno.toml", "forms/a.json", "tenants/acme/tools/t.json"]);
    }
}

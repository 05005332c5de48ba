//! Which workspaces this user trusts, although they belong to another user or start programs.
//!
//! The list is in the user's own state folder, where no workspace reaches it. Trust in an owner ends when the folder gets
//! another one, and trust in programs when their names, arguments, environments or folders change. What the file of a program
//! holds is not compared.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use dalsegno_core::digest_json;
use dalsegno_files::Ownership;
use dalsegno_workspace::{CommandBinding, EnvValue, RemoteBinding, Settings};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::error::Error;

/// The largest list that is read, in bytes.
const LARGEST: u64 = 1 << 20;

/// What this user agreed to for one workspace.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Trust {
    /// The numbers of the other users to whom parts of the folder may belong.
    #[serde(default)]
    pub(crate) owners: BTreeSet<u32>,
    /// The digest of the programs that may be started.
    #[serde(default)]
    pub(crate) programs: Option<String>,
}

/// All that this user agreed to, by the folder of the workspace.
pub(crate) type Trusted = BTreeMap<PathBuf, Trust>;

/// A program that a workspace starts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Program {
    /// The section of dalsegno.toml that names it, such as `servers.crm`.
    pub(crate) section: String,
    /// Its name and its arguments.
    pub(crate) command: Vec<String>,
}

impl std::fmt::Display for Program {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "`{}` of `[{}]`", self.command.join(" "), self.section)
    }
}

/// The programs that a workspace starts.
pub(crate) fn programs(settings: &Settings) -> Vec<Program> {
    let program = |section: String, program: &Path, arguments: &[String]| {
        let name = program.display().to_string();
        let command = std::iter::once(name).chain(arguments.iter().cloned()).collect();
        Program { section, command }
    };
    let servers = commands(settings)
        .map(|(server, command)| program(format!("servers.{server}"), &command.program, &command.arguments));
    let secrets = settings
        .secret_commands()
        .map(|(section, command)| program(section, &command.program, &command.arguments));
    servers.chain(secrets).collect()
}

/// What tells these programs from others: their names, arguments, environments and folders. `None` where there are none.
fn digest(settings: &Settings) -> Option<String> {
    let described = commands(settings).map(|(server, command)| {
        let env: BTreeMap<&String, String> = command
            .env
            .iter()
            .map(|(name, value)| {
                let value = match value {
                    EnvValue::Text(text) => format!("text {text}"),
                    EnvValue::Secret(place) => format!("secret {place:?}"),
                };
                (name, value)
            })
            .collect();
        json!({
            "server": server,
            "program": program(&command.program).display().to_string(),
            "arguments": command.arguments,
            "env": env,
            "folder": real(&command.directory).display().to_string(),
        })
    });
    // What a program that prints a secret prints is sent, and it is started with this user's environment.
    let secrets = settings.secret_commands().map(|(section, command)| {
        json!({
            "secret_of": section,
            "program": program(&command.program).display().to_string(),
            "arguments": command.arguments,
            "folder": real(&command.directory).display().to_string(),
        })
    });
    let described: Vec<_> = described.chain(secrets).collect();
    (!described.is_empty()).then(|| digest_json(&json!(described)).to_string())
}

/// A path is the same however the workspace was named; a program without a folder is looked up in `PATH`.
fn program(path: &Path) -> PathBuf {
    if path.components().count() > 1 { real(path) } else { path.to_path_buf() }
}

fn commands(settings: &Settings) -> impl Iterator<Item = (&str, &CommandBinding)> {
    settings.servers.iter().filter_map(|(name, server)| match &server.remote {
        Some(RemoteBinding::Command(command)) => Some((name.as_str(), command)),
        _ => None,
    })
}

/// The part of a workspace that belongs to another user whom this user does not trust there, and that user's number.
pub(crate) fn foreign(root: &Path) -> Option<(PathBuf, u32)> {
    let others = others(root);
    if others.is_empty() {
        return None;
    }
    // A list that cannot be read grants no trust.
    let trusted = read().unwrap_or_default();
    let trust = trusted.get(&real(root));
    others.into_iter().find(|(_, user)| trust.is_none_or(|trust| !trust.owners.contains(user)))
}

/// The parts of a workspace that belong to other users than this one and root.
fn others(root: &Path) -> Vec<(PathBuf, u32)> {
    let parts = [root.join("dalsegno.toml"), root.to_path_buf(), root.join(".dalsegno")];
    let other = |part: PathBuf| match dalsegno_files::ownership(&part) {
        Ownership::Other(user) => Some((part, user)),
        Ownership::Ours | Ownership::Unknown => None,
    };
    parts.into_iter().filter_map(other).collect()
}

/// Says whether this user agreed that a workspace starts the programs that it names now. True where it names none.
pub(crate) fn may_start(root: &Path, settings: &Settings) -> bool {
    let Some(digest) = digest(settings) else { return true };
    let trusted = read().unwrap_or_default();
    trusted.get(&real(root)).is_some_and(|trust| trust.programs == Some(digest))
}

/// Remembers that this user agreed to the programs of a workspace.
pub(crate) fn agree(root: &Path, settings: &Settings) -> Result<(), Error> {
    change(|trusted| {
        trusted.entry(real(root)).or_default().programs = digest(settings);
    })
}

/// Trusts a workspace as it is now: whose it is, and what it starts. Returns what is trusted.
pub(crate) fn trust(root: &Path, settings: Option<&Settings>) -> Result<Trust, Error> {
    let owners = others(root).into_iter().map(|(_, user)| user).collect();
    let trust = Trust { owners, programs: settings.and_then(digest) };
    let kept = trust.clone();
    change(|trusted| {
        trusted.insert(real(root), kept);
    })?;
    Ok(trust)
}

/// Trusts a workspace no longer. Says whether it was trusted.
pub(crate) fn revoke(root: &Path) -> Result<bool, Error> {
    let mut was = false;
    change(|trusted| was = trusted.remove(&real(root)).is_some())?;
    Ok(was)
}

/// All that this user agreed to.
pub(crate) fn read() -> Result<Trusted, Error> {
    let Some(path) = place() else { return Ok(Trusted::new()) };
    let unreadable = |source| Error::TrustList { path: path.clone(), source };
    match fs::metadata(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Trusted::new()),
        Err(error) => return Err(unreadable(error)),
        Ok(found) if found.len() > LARGEST => return Err(unreadable(io::ErrorKind::FileTooLarge.into())),
        Ok(_) if !dalsegno_files::is_ours(&path) => {
            return Err(unreadable(io::Error::other("it belongs to another user")));
        }
        Ok(_) => {}
    }
    let text = fs::read(&path).map_err(unreadable)?;
    serde_json::from_slice(&text).map_err(|error| unreadable(io::Error::other(error)))
}

/// Changes the list, one process at a time.
fn change(work: impl FnOnce(&mut Trusted)) -> Result<(), Error> {
    let Some(path) = place() else { return Err(Error::NoStateFolder) };
    let failed = |source| Error::TrustList { path: path.clone(), source };
    if let Some(folder) = path.parent() {
        dalsegno_files::make_folder(folder).map_err(failed)?;
    }
    let lock = dalsegno_files::open_or_create(&path.with_extension("lock")).map_err(failed)?;
    lock.lock().map_err(failed)?;
    let mut trusted = read()?;
    work(&mut trusted);
    let text = serde_json::to_vec_pretty(&trusted).map_err(|error| failed(io::Error::other(error)))?;
    dalsegno_files::replace(&path, &text).map_err(failed)
}

fn place() -> Option<PathBuf> {
    Some(dalsegno_files::state_folder()?.join("trusted.json"))
}

/// The folder by its one name, wherever links lead.
pub(crate) fn real(root: &Path) -> PathBuf {
    root.canonicalize().or_else(|_| std::path::absolute(root)).unwrap_or_else(|_| root.to_path_buf())
}

/// The programs as one line of an error.
pub(crate) fn listed(programs: &[Program]) -> String {
    const SHOWN: usize = 8;
    let mut words: Vec<String> = programs.iter().take(SHOWN).map(ToString::to_string).collect();
    if programs.len() > SHOWN {
        words.push(format!("and {} more", programs.len() - SHOWN));
    }
    words.join(", ")
}

#[cfg(test)]
mod tests {
    use dalsegno_workspace::Workspace;

    use super::*;

    fn settings(text: &str) -> Settings {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("dalsegno.toml"), text).unwrap();
        let mut settings = Workspace::load(folder.path()).settings.unwrap();
        // The folder differs from test to test, and counts.
        for server in settings.servers.values_mut() {
            if let Some(RemoteBinding::Command(command)) = &mut server.remote {
                command.directory = PathBuf::from("/w");
            }
        }
        settings
    }

    #[test]
    fn everything_that_changes_what_is_started_changes_the_digest() {
        let of = |text: &str| digest(&settings(text));
        assert_eq!(of("[servers.a]\nurl = \"https://a.example.com\"\n"), None);
        let texts = [
            "[servers.a]\ncommand = [\"ls\"]\n",
            "[servers.b]\ncommand = [\"ls\"]\n",
            "[servers.a]\ncommand = [\"rm\"]\n",
            "[servers.a]\ncommand = [\"ls\", \"-l\"]\n",
            "[servers.a]\ncommand = [\"ls\"]\nenv = { A = \"b\" }\n",
            "[servers.a]\ncommand = [\"ls\"]\nenv = { A = { env = \"b\" } }\n",
            "[secrets]\nA = { command = [\"ls\"] }\n",
            "[secrets]\nA = { command = [\"ls\", \"-l\"] }\n",
            "[servers.a]\nurl = \"https://a.example.com\"\nheaders = { A = { command = [\"ls\"] } }\n",
            "[models.a]\nprovider = \"openai\"\nmodel = \"m\"\napi_key = { command = [\"ls\"] }\n",
            "[models.b]\nprovider = \"openai\"\nmodel = \"m\"\napi_key = { command = [\"ls\"] }\n",
        ];
        let digests: BTreeSet<_> = texts.iter().map(|text| of(text)).collect();
        assert_eq!(digests.len(), texts.len());
        let other = "[servers.h]\nurl = \"https://a.example.com\"\n";
        assert_eq!(of(texts[0]), of(&format!("{other}{}", texts[0])), "an address is no program");
    }
}

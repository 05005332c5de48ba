//! What goes into the packages, independent of their formats.

use std::collections::BTreeMap;

use anyhow::Context as _;

use crate::archive::{Entry, gzip};
use crate::elf::Needs;

/// One sentence about Dalsegno, as package indexes show it.
pub const SUMMARY: &str = "Durable agent engine: kill a run at any point and it resumes";

/// A few lines about Dalsegno, for the pages of package indexes and for `dpkg --status`.
pub const DESCRIPTION: &str = include_str!("description.md");

/// The licence, as an SPDX expression.
pub const LICENCE: &str = "MIT OR Apache-2.0";

/// What each format calls a kind of machine.
#[derive(Debug, PartialEq, Eq)]
pub struct Machine {
    /// Rust's target triple.
    pub triple: &'static str,
    /// Python's name, in the tag of a wheel.
    pub wheel: &'static str,
    /// Node's `process.arch`.
    pub npm: &'static str,
    /// Debian's architecture.
    pub debian: &'static str,
    /// The architecture in an image's configuration, which is Go's.
    pub image: &'static str,
}

/// The machines that packages are made for.
pub const MACHINES: [Machine; 2] = [
    Machine {
        triple: "x86_64-unknown-linux-gnu",
        wheel: "x86_64",
        npm: "x64",
        debian: "amd64",
        image: "amd64",
    },
    Machine {
        triple: "aarch64-unknown-linux-gnu",
        wheel: "aarch64",
        npm: "arm64",
        debian: "arm64",
        image: "arm64",
    },
];

impl Machine {
    /// Finds a machine by its target triple.
    ///
    /// # Errors
    /// No packages are made for it.
    pub fn of(triple: &str) -> anyhow::Result<&'static Self> {
        MACHINES.iter().find(|machine| machine.triple == triple).with_context(|| {
            let known = MACHINES.map(|machine| machine.triple).join("` and `");
            format!(
                "there are packages for `{known}`, and this is `{triple}`: use `cargo install --path crates/dalsegno-cli` here"
            )
        })
    }
}

/// A shell with a completion script.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Shell {
    /// GNU Bash.
    Bash,
    /// Fish.
    Fish,
    /// Z shell.
    Zsh,
}

impl Shell {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Bash, Self::Fish, Self::Zsh];

    /// Returns the name that `dalsegno completions` takes.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Bash => "bash",
            Self::Fish => "fish",
            Self::Zsh => "zsh",
        }
    }
}

/// Everything that goes into the packages.
#[derive(Debug, Clone)]
pub struct Product {
    /// The version, such as `0.1.0`.
    pub version: String,
    /// What the binary runs on.
    pub machine: &'static Machine,
    /// The time that every entry of every package gets, in seconds since 1970.
    pub seconds: u64,
    /// The executable.
    pub binary: Vec<u8>,
    /// What the executable needs from a system.
    pub needs: Needs,
    /// Manual pages by file name, such as `dalsegno-run.1`.
    pub manuals: BTreeMap<String, Vec<u8>>,
    /// The completion script of each shell.
    pub completions: BTreeMap<Shell, Vec<u8>>,
    /// The README, licences, notices and change log by file name.
    pub documents: BTreeMap<String, Vec<u8>>,
    /// Files of the building machine that an image needs beside the binary: the dynamic loader, the base libraries, and
    /// the certificates of the authorities that HTTPS relies on. Paths are relative to `/`.
    pub system: Vec<Entry>,
    /// The person that a Debian package names, as `Name <address>`.
    pub maintainer: String,
}

impl Product {
    /// Returns the licences among the documents, which every package contains.
    pub fn licences(&self) -> impl Iterator<Item = (&str, &[u8])> {
        let is_licence = |name: &str| name.starts_with("LICENSE") || name == crate::sbom::NOTICES;
        let documents = self.documents.iter().map(|(name, text)| (name.as_str(), text.as_slice()));
        documents.filter(move |(name, _)| is_licence(name))
    }

    /// Returns the files below a prefix such as `/usr`: the binary, manual pages, completions and documents.
    ///
    /// `zsh` is the folder of Z shell's completions, which differs between `/usr/local` and Debian.
    #[must_use]
    pub fn below(&self, prefix: &str, zsh: &str, compressed: bool) -> Vec<Entry> {
        let mut entries = vec![Entry::program(format!("{prefix}/bin/dalsegno"), self.binary.clone())];
        for (name, text) in &self.manuals {
            let path = format!("{prefix}/share/man/man1/{name}");
            entries.push(if compressed {
                Entry::file(format!("{path}.gz"), gzip(text))
            } else {
                Entry::file(path, text.clone())
            });
        }
        for (shell, script) in &self.completions {
            let path = match shell {
                Shell::Bash => "bash-completion/completions/dalsegno".to_owned(),
                Shell::Fish => "fish/vendor_completions.d/dalsegno.fish".to_owned(),
                Shell::Zsh => format!("zsh/{zsh}/_dalsegno"),
            };
            entries.push(Entry::file(format!("{prefix}/share/{path}"), script.clone()));
        }
        let documents = self.documents.iter();
        entries
            .extend(documents.map(|(name, text)| {
                Entry::file(format!("{prefix}/share/doc/dalsegno/{name}"), text.clone())
            }));
        entries
    }
}

//! Runs travel in one file: to another workspace, to another machine.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use dalsegno_core::RunId;
use dalsegno_history::Journal;
use dalsegno_secrets::{KeyFile, KeySource as _};
use dalsegno_store::{Archive, Imported, Signer, SigningKey};
use dalsegno_workspace::Settings;
use serde::Serialize;

use crate::engine::Engine;
use crate::error::EngineError;

/// The file of the key with which archives are signed, in the folder of the journal.
const SIGNING_KEY: &str = "archive.key";

/// What signs the archives of a workspace, knows the signers of others, and takes their runs in.
pub struct Archives {
    journal: Journal,
    /// The file of the key.
    key: PathBuf,
    /// The keys of known signers, by name.
    signers: BTreeMap<String, String>,
}

impl Engine {
    /// What signs and takes in archives here.
    pub fn archives(&self) -> Archives {
        Archives::new(self.journal().clone(), &self.workspace().settings)
    }
}

impl Archives {
    /// The archives of a workspace with these settings; `journal` is its journal.
    pub fn new(journal: Journal, settings: &Settings) -> Self {
        Self { journal, key: settings.store.with_file_name(SIGNING_KEY), signers: settings.signers.clone() }
    }

    /// Makes one portable file of an archive, signed with the key of this workspace, which is made if it is not there.
    ///
    /// # Errors
    /// When the key cannot be read or made.
    pub fn sign(&self, archive: &Archive) -> Result<Vec<u8>, EngineError> {
        Ok(archive.encode_signed(&self.signing_key(true)?.ok_or(EngineError::NoSigningKey)?))
    }

    /// By what the signatures of this workspace are verified; none where it has signed nothing yet.
    ///
    /// # Errors
    /// When its key cannot be read.
    pub fn signer(&self) -> Result<Option<Signer>, EngineError> {
        Ok(self.signing_key(false)?.map(|key| key.signer()))
    }

    /// The key lies in a file beside the journal that only its owner may read, in no journal and in no archive.
    fn signing_key(&self, make: bool) -> Result<Option<SigningKey>, EngineError> {
        let path = &self.key;
        if !path.exists() {
            if !make {
                return Ok(None);
            }
            match KeyFile::create(path) {
                Ok(_) => {}
                // Another process was faster.
                Err(_) if path.exists() => {}
                Err(error) => return Err(EngineError::SigningKey(error)),
            }
        }
        let key = KeyFile::new(path).master_key().map_err(EngineError::SigningKey)?;
        let seed = blake3::derive_key("dalsegno archive signing key 1", key.to_base64().expose().as_bytes());
        Ok(Some(SigningKey::from_seed(&seed)))
    }

    /// Imports runs: all of the file's, or none. Runs that are there already stay as they are; the others are foreign:
    /// they can be inspected, replayed, compared and forked, and nothing of them is performed.
    ///
    /// # Errors
    /// When the file's journals do not verify, a run is there with another content or names one of this journal's own, or
    /// it cannot be written down.
    pub async fn import(&self, archive: Archive) -> Result<ImportReport, EngineError> {
        let signer = archive.signer();
        let by = match signer {
            None => SignedBy::Nobody,
            Some(signer) if self.signer()? == Some(signer) => SignedBy::ThisWorkspace,
            Some(signer) => match self.signers.iter().find(|(_, key)| **key == signer.to_string()) {
                Some((name, _)) => SignedBy::Known(name.clone()),
                None => SignedBy::Stranger,
            },
        };
        let Imported { added, known } = self.journal.store().import(archive).await?;
        let mut report = ImportReport { added, known, signer, signed_by: by, ..ImportReport::default() };
        let mut configs = BTreeSet::new();
        for run in report.added.iter().chain(&report.known) {
            let summary = self.journal.store().summary(*run).await?;
            report.brings.agents.insert(summary.agent.to_string());
            report.brings.tenants.insert(summary.tenant);
            report.brings.sessions.insert(summary.session);
            if configs.insert(summary.config)
                // One that cannot be read is told when the run is looked at.
                && let Ok(config) = self.journal.config(*run, summary.config).await
            {
                report.brings.tools.extend(config.tools.tools.keys().map(ToString::to_string));
            }
        }
        Ok(report)
    }
}

/// What an import did.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ImportReport {
    /// The runs that are new here. They are foreign.
    pub added: Vec<RunId>,
    /// The runs that were here already, with the same records.
    pub known: Vec<RunId>,
    /// What all of them name.
    pub brings: Brings,
    /// The key of whoever signed the archive.
    pub signer: Option<Signer>,
    /// Who that is, as far as this workspace knows.
    pub signed_by: SignedBy,
}

/// Who signed an archive, as far as a workspace knows.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SignedBy {
    /// Nobody did: it was exported by a release that did not sign, or by hand.
    #[default]
    Nobody,
    /// This workspace itself.
    ThisWorkspace,
    /// A signer of `[signers]` in `dalsegno.toml`, by that name.
    Known(String),
    /// Somebody whom `dalsegno.toml` does not name.
    Stranger,
}

/// What the runs of an archive name: it says what they would do if somebody performed them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Brings {
    /// Agents.
    pub agents: BTreeSet<String>,
    /// Tools that their configurations allow.
    pub tools: BTreeSet<String>,
    /// Tenants on whose behalf they work.
    pub tenants: BTreeSet<String>,
    /// Sessions that they belong to.
    pub sessions: BTreeSet<String>,
}

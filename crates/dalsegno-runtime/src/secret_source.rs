//! Where the secrets of a workspace are found: the environment, files, the secret store.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use dalsegno_core::Timestamp;
use dalsegno_secrets::{
    EnvKey, KeyError, KeyFile, KeySource, MasterKey, RevealError, Rotated, Rotation, Secret, SecretError,
    SecretName, SecretStore, SqliteSecrets, Tenant,
};
use dalsegno_workspace::{SecretRef, SecretStoreBinding, StoreKey};
use tokio::sync::OnceCell;

use crate::error::OpenError;
use crate::error::make_folder;

/// Whose the secrets are that the files of a workspace refer to. No run can have a tenant of this name by accident.
const WORKSPACE_TENANT: &str = "(workspace)";

/// Reads secrets from where the files of a workspace say.
///
/// The secret store is opened when it is first needed, and never made by a reader.
pub struct SecretSource {
    binding: SecretStoreBinding,
    store: OnceCell<Arc<dyn SecretStore>>,
    tenant: Tenant,
}

/// Why a secret cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SecretUnavailable {
    /// The environment does not have it.
    #[error("the environment variable `{name}` is not set, or is not UTF-8: set it")]
    Variable {
        /// The variable.
        name: String,
    },
    /// Its file cannot be read.
    #[error("the file `{}` cannot be read: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The secret store does not have it, or there is no such store yet.
    #[error("the secret store has no secret `{name}`: add it with `{}`", put_command(name))]
    NotStored {
        /// The secret's name; that of a tenant's own as `TENANT/NAME`.
        name: String,
    },
    /// A program prints it, and this process starts no programs.
    #[error("it is printed by the program `{program}`, and this command starts no programs")]
    NoPrograms {
        /// The program.
        program: String,
    },
    /// The program that should print it did not.
    #[error("{0}")]
    Unprinted(#[source] RevealError),
    /// There is no secret store.
    #[error("there is no secret store yet: create it with `dalsegno secret put NAME`")]
    NoStore,
    /// The key is in the environment, and no new one was named.
    #[error(
        "the environment variable `{name}` has the present key of the secret store: name another variable, with the new key"
    )]
    NoNewKey {
        /// The variable with the old key.
        name: String,
    },
    /// The key of the secret store cannot be read.
    #[error("cannot read the key of the secret store: {0}")]
    Key(#[from] KeyError),
    /// The secret store cannot be opened.
    #[error("{0}")]
    Open(#[source] Box<dalsegno_secrets::OpenError>),
    /// The secret store cannot be read.
    #[error("{0}")]
    Store(#[from] SecretError),
    /// What is asked for is no name of a secret.
    #[error("{0}")]
    Name(#[from] dalsegno_secrets::NameError),
    /// The folder of the secret store cannot be made, or a thread failed.
    #[error("cannot open the secret store: {message}")]
    Stopped {
        /// What happened.
        message: String,
    },
}

impl SecretSource {
    /// The source of a workspace.
    pub fn new(binding: SecretStoreBinding) -> Self {
        let tenant = WORKSPACE_TENANT.parse().expect("it is one printable line");
        Self { binding, store: OnceCell::new(), tenant }
    }

    /// A source with a secret store that is open already.
    pub(crate) fn with(binding: SecretStoreBinding, store: Arc<dyn SecretStore>) -> Self {
        Self { store: OnceCell::new_with(Some(store)), ..Self::new(binding) }
    }

    /// Whose the secrets are that the files of the workspace refer to.
    pub fn tenant(&self) -> &Tenant {
        &self.tenant
    }

    /// Whose the secrets are that the file of this tenant refers to; without a tenant, those of the workspace.
    ///
    /// # Errors
    /// When it is no name of a tenant.
    pub fn owner(&self, tenant: Option<&str>) -> Result<Tenant, SecretUnavailable> {
        match tenant {
            Some(tenant) => Ok(tenant.parse()?),
            None => Ok(self.tenant.clone()),
        }
    }

    /// Reads a secret as of now, without the space around it: so it is known wherever it comes back. It starts no program:
    /// what one prints is unavailable here.
    ///
    /// # Errors
    /// When it is not there, or what keeps it cannot be read.
    pub async fn read(&self, reference: &SecretRef, now: Timestamp) -> Result<Secret, SecretUnavailable> {
        let secret = match reference {
            SecretRef::Env(name) => std::env::var(name)
                .map(|value| Secret::new(&value))
                .map_err(|_| SecretUnavailable::Variable { name: name.clone() }),
            SecretRef::File(path) => read_file(path, None),
            SecretRef::Below { path, folder } => read_file(path, Some(folder)),
            SecretRef::Command(command) => {
                let program = command.program.display().to_string();
                Err(SecretUnavailable::NoPrograms { program })
            }
            SecretRef::Store(name) => self.stored(name, now).await,
            SecretRef::OfTenant { tenant, name } => self.stored(&of_tenant(tenant, name), now).await,
        };
        Ok(secret?.trimmed())
    }

    /// Reads the newest version of a secret from the store: one of the workspace, or of a tenant as `TENANT/NAME`.
    pub(crate) async fn stored(&self, name: &str, now: Timestamp) -> Result<Secret, SecretUnavailable> {
        let missing = || SecretUnavailable::NotStored { name: name.to_owned() };
        let (owner, own) = match name.split_once('/') {
            Some((tenant, own)) => (self.owner(Some(tenant))?, own),
            None => (self.tenant.clone(), name),
        };
        let parsed: SecretName = own.parse()?;
        let store = self.store().await?.ok_or_else(missing)?;
        let stored = store.get(&owner, &parsed, now.as_millis()).await?;
        stored.map(|stored| stored.value).ok_or_else(missing)
    }

    /// The secret store; none where nobody has put anything there yet.
    ///
    /// # Errors
    /// When its key cannot be read, or it cannot be opened.
    pub async fn store(&self) -> Result<Option<Arc<dyn SecretStore>>, SecretUnavailable> {
        if self.store.get().is_none() && !self.binding.path.exists() {
            return Ok(None);
        }
        self.store.get_or_try_init(|| self.open()).await.cloned().map(Some)
    }

    /// The secret store, which is made if it is not there: its key too where that is a file.
    ///
    /// # Errors
    /// When its key cannot be read or made, or it cannot be opened.
    pub async fn make(&self) -> Result<Arc<dyn SecretStore>, SecretUnavailable> {
        let made = async {
            if !self.binding.path.exists() {
                let stopped = |error: OpenError| SecretUnavailable::Stopped { message: error.to_string() };
                make_folder(self.binding.path.parent().unwrap_or(&self.binding.path)).map_err(stopped)?;
                if let StoreKey::File(path) = &self.binding.key
                    && !path.exists()
                {
                    make_folder(path.parent().unwrap_or(path)).map_err(stopped)?;
                    KeyFile::create(path)?;
                }
            }
            self.open().await
        };
        self.store.get_or_try_init(|| made).await.cloned()
    }

    /// Makes another key the store's, and puts it where the old one is: in the key file; a variable is the caller's to
    /// change, from the one that dalsegno.toml names to the content of `variable`.
    ///
    /// # Errors
    /// When there is no store, a key cannot be read or made, or the storage fails. Either the old or the new key opens
    /// everything then.
    pub async fn rotate_key(
        &self,
        variable: Option<&str>,
        rotation: Rotation,
    ) -> Result<Rotated, SecretUnavailable> {
        let store = self.store().await?.ok_or(SecretUnavailable::NoStore)?;
        match (&self.binding.key, variable) {
            (StoreKey::Env(_), Some(variable)) => {
                Ok(store.rotate_key(&EnvKey::new(variable).master_key()?, rotation).await?)
            }
            (StoreKey::Env(name), None) => Err(SecretUnavailable::NoNewKey { name: name.clone() }),
            (StoreKey::File(path), _) => {
                let moved = |source| SecretUnavailable::File { path: path.clone(), source };
                let next = next_key(path);
                // The store was opened with the key in place, so what an earlier rotation left was never used.
                match std::fs::remove_file(&next) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(moved(error)),
                    _ => {}
                }
                let key = KeyFile::create(&next)?.master_key()?;
                let rotated = store.rotate_key(&key, rotation).await?;
                std::fs::rename(&next, path).map_err(moved)?;
                Ok(rotated)
            }
        }
    }

    async fn open(&self) -> Result<Arc<dyn SecretStore>, SecretUnavailable> {
        let SecretStoreBinding { path, key } = self.binding.clone();
        let opened = tokio::task::spawn_blocking(move || open(&path, &key));
        let opened =
            opened.await.map_err(|error| SecretUnavailable::Stopped { message: error.to_string() })?;
        Ok(Arc::new(opened?))
    }
}

/// How a secret of a tenant is called where one of the workspace has its plain name. No name in the store has a slash.
pub(crate) fn of_tenant(tenant: &str, name: &str) -> String {
    format!("{tenant}/{name}")
}

/// The command that puts a secret into the store.
fn put_command(name: &str) -> String {
    match name.split_once('/') {
        Some((tenant, name)) => format!("dalsegno secret put --tenant {tenant} {name}"),
        None => format!("dalsegno secret put {name}"),
    }
}

/// Reads a secret from a file: none of the engine's own, wherever links lead, and one below `folder` if that is given.
fn read_file(path: &Path, folder: Option<&Path>) -> Result<Secret, SecretUnavailable> {
    let failed = |source| SecretUnavailable::File { path: path.to_owned(), source };
    let refused = |why: &str| failed(io::Error::new(io::ErrorKind::PermissionDenied, why.to_owned()));
    let found = path.canonicalize().map_err(failed)?;
    if found.iter().any(|part| part == ENGINE_FOLDER) {
        return Err(refused("it is a file of the engine"));
    }
    if let Some(folder) = folder
        && !found.starts_with(folder.canonicalize().map_err(failed)?)
    {
        return Err(refused("it leads out of what the tenant is granted"));
    }
    Ok(Secret::new(&std::fs::read_to_string(found).map_err(failed)?))
}

/// The folder in which the engine keeps what is its own.
const ENGINE_FOLDER: &str = ".dalsegno";

fn open(path: &Path, key: &StoreKey) -> Result<SqliteSecrets, SecretUnavailable> {
    let with = |key: &MasterKey| {
        SqliteSecrets::open(path, key).map_err(|error| SecretUnavailable::Open(Box::new(error)))
    };
    let file = match key {
        StoreKey::Env(name) => return with(&EnvKey::new(name).master_key()?),
        StoreKey::File(file) => file,
    };
    let opened = with(&KeyFile::new(file).master_key()?);
    let next = next_key(file);
    match &opened {
        // A rotation was killed after the new key counted, and before it was in its place.
        Err(SecretUnavailable::Open(error))
            if matches!(**error, dalsegno_secrets::OpenError::WrongKey { .. }) && next.exists() =>
        {
            let opened = with(&KeyFile::new(&next).master_key()?)?;
            let moved = |source| SecretUnavailable::File { path: file.clone(), source };
            std::fs::rename(&next, file).map_err(moved)?;
            Ok(opened)
        }
        _ => opened,
    }
}

/// Where a rotation keeps the new key until the old one is of no use any more.
fn next_key(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".next");
    name.into()
}

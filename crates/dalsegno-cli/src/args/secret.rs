//! The arguments of `dalsegno secret`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand, ValueHint};

use super::{DocumentArgs, Format};

#[derive(Debug, ClapArgs)]
pub(crate) struct SecretArgs {
    #[command(subcommand)]
    pub(crate) verb: SecretVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SecretVerb {
    /// Put a secret into the store and notify the runs that wait for it
    #[command(after_help = PUT_EXAMPLES)]
    Put(SecretPutArgs),
    /// List the names of secrets, never their values
    #[command(after_help = LIST_EXAMPLES)]
    List(SecretListArgs),
    /// Remove a secret with all its versions and erase its bytes
    #[command(after_help = REMOVE_EXAMPLES)]
    Remove(SecretRemoveArgs),
    /// Encrypt the store with another key
    #[command(after_help = ROTATE_EXAMPLES)]
    RotateKey(SecretRotateArgs),
    /// Write a new key for the store to standard output; changes nothing
    #[command(after_help = NEW_KEY_EXAMPLES)]
    NewKey,
}

impl SecretVerb {
    pub(super) fn format(&self) -> Format {
        match self {
            Self::Put(put) => put.document.resolve(),
            Self::List(list) => list.document.resolve(),
            Self::Remove(remove) => remove.document.resolve(),
            Self::RotateKey(rotate) => rotate.document.resolve(),
            // What it writes is the key alone.
            Self::NewKey => Format::Text,
        }
    }
}

#[derive(Debug, ClapArgs)]
pub(crate) struct SecretPutArgs {
    /// Name of the secret, as in `{ store = "NAME" }`
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) owner: SecretOwnerArgs,
    /// Read the value from this file; without it, from standard input, which a terminal does not echo
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) document: DocumentArgs,
}

/// The owner of a secret.
#[derive(Debug, ClapArgs)]
pub(crate) struct SecretOwnerArgs {
    /// Tenant whose file names the secret [default: the workspace's own secrets]
    #[arg(long, value_name = "NAME", value_parser = tenant_name)]
    pub(crate) tenant: Option<String>,
}

fn tenant_name(text: &str) -> Result<String, String> {
    let inside = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte);
    if (1..=64).contains(&text.len()) && text.bytes().all(inside) {
        return Ok(text.to_owned());
    }
    Err("expected lower-case letters, digits, `-` and `_`, as in `tenants/NAME.toml`".to_owned())
}

#[derive(Debug, ClapArgs)]
pub(crate) struct SecretListArgs {
    #[command(flatten)]
    pub(crate) owner: SecretOwnerArgs,
    #[command(flatten)]
    pub(crate) document: DocumentArgs,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct SecretRemoveArgs {
    /// Name of the secret
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) owner: SecretOwnerArgs,
    #[command(flatten)]
    pub(crate) document: DocumentArgs,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct SecretRotateArgs {
    /// Encrypt every value again as well: for an old key that may have leaked
    #[arg(long)]
    pub(crate) everything: bool,
    /// Environment variable with the new key, if the old one is in the environment too
    #[arg(long, value_name = "NAME")]
    pub(crate) new_env: Option<String>,
    #[command(flatten)]
    pub(crate) document: DocumentArgs,
}

pub(super) const EXAMPLES: &str = "\
Secrets are kept in an encrypted file of their own: never in a journal, export or workspace file.

Examples:
  dalsegno secret put openai              then, in dalsegno.toml: api_key = { store = \"openai\" }
  dalsegno secret list";

const PUT_EXAMPLES: &str = "\
Examples:
  dalsegno secret put openai              asks for the value, and does not show it
  pass show openai | dalsegno secret put openai
  dalsegno secret put --tenant acme crm_token     for `{ store = \"crm_token\" }` in tenants/acme.toml";

const LIST_EXAMPLES: &str = "\
Examples:
  dalsegno secret list
  dalsegno secret list --json";

const REMOVE_EXAMPLES: &str = "\
Examples:
  dalsegno secret remove openai";

const ROTATE_EXAMPLES: &str = "\
If you kill it at any point, either the old or the new key opens everything.

Examples:
  dalsegno secret rotate-key              a new key in the key file; the old one is overwritten
  dalsegno secret rotate-key --everything
  dalsegno secret rotate-key --new-env NEXT     from one variable to another";

const NEW_KEY_EXAMPLES: &str = "\
Examples:
  export DALSEGNO_SECRETS_KEY=$(dalsegno secret new-key)";

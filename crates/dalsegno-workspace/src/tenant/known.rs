//! Whether a name is that of a tenant on whose behalf a run may work.

use super::read::is_tenant_name;
use crate::names::{nearest, some};
use crate::workspace::Workspace;

/// Why a run may not work on behalf of a tenant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoTenant {
    /// The text is not the name of a tenant.
    #[error(
        "`{name}` is not the name of a tenant: expected 1 to 64 lower-case letters, digits, `-` and `_`, beginning with a letter \
         or a digit"
    )]
    NotAName {
        /// The text.
        name: String,
    },
    /// The workspace has no such tenant.
    #[error("there is no tenant `{name}`: {hint}")]
    Unknown {
        /// The name.
        name: String,
        /// One thing to do about it.
        hint: String,
    },
    /// The tenant's file has errors.
    #[error("the tenant `{name}` cannot be used because its file has errors: run `dalsegno check`")]
    Broken {
        /// The name.
        name: String,
    },
}

impl Workspace {
    /// The tenant of a run that names none. It needs no file: without one, its tools have no settings and reach no host.
    pub const DEFAULT_TENANT: &str = "default";

    /// Checks that a run may work on behalf of a tenant: it is [`DEFAULT_TENANT`](Self::DEFAULT_TENANT), or has a file
    /// without errors.
    ///
    /// # Errors
    /// What is wrong with the name, or with the tenant.
    pub fn check_tenant(&self, name: &str) -> Result<(), NoTenant> {
        if !is_tenant_name(name) {
            return Err(NoTenant::NotAName { name: name.chars().take(80).collect() });
        }
        if self.broken.tenants.contains(name) {
            return Err(NoTenant::Broken { name: name.to_owned() });
        }
        if name == Self::DEFAULT_TENANT || self.tenants.contains_key(name) {
            return Ok(());
        }
        let known = || self.tenants.keys().map(String::as_str);
        let hint = match nearest(name, known()) {
            Some(near) => format!("did you mean `{near}`?"),
            None if self.tenants.is_empty() => {
                format!("the workspace has no tenants; add `tenants/{name}.toml` with `name = \"{name}\"`")
            }
            None => format!("the workspace has {}; add `tenants/{name}.toml` for another one", some(known())),
        };
        Err(NoTenant::Unknown { name: name.to_owned(), hint })
    }
}

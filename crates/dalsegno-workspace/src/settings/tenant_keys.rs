//! Reads `[models.NAME.keys]`: which key the runs of a tenant have. Only dalsegno.toml says so, not the file of a tenant.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use toml::de::DeValue;

use super::keys::{SECRET, SECRET_KEYS};
use super::paths::Paths;
use super::{AwsKeyBinding, HttpBinding, Provider, SecretRef, TenantKey, bedrock, secrets};
use crate::code::Code;
use crate::diagnostic::{Diagnostic, Severity};
use crate::names::{nearest, some};
use crate::section::{Located, Section, wrong_type};
use crate::shape::{Form, Key, Need, Shape};
use crate::source::SourceFile;
use crate::workspace::Workspace;

const ABOUT: &str = "The keys of single tenants, by tenant. The others use the model's own key; without one, \
                     a tenant that is not here cannot use the model.";

static TEXT_KEY: Form = Form::Table(&SECRET);

static ANY_KEY: Form = Form::Table(&BEDROCK_KEY);

pub(super) const KEYS: Key = Key::new("keys", Form::Map(&TEXT_KEY), ABOUT);

pub(super) const BEDROCK_KEYS: Key = Key::new("keys", Form::Map(&ANY_KEY), ABOUT);

static BEDROCK_KEY: Shape = Shape {
    what: "a key",
    one_of: &["env", "file", "store", "command", "credentials", "access_key_id"],
    needs: &[
        Need { because_of: "ttl", word: None, keys: &["command"] },
        Need { because_of: "timeout", word: None, keys: &["command"] },
        Need { because_of: "access_key_id", word: None, keys: &["secret_access_key"] },
        Need { because_of: "secret_access_key", word: None, keys: &["access_key_id"] },
        Need { because_of: "session_token", word: None, keys: &["access_key_id"] },
    ],
    keys: &[
        SECRET_KEYS[0],
        SECRET_KEYS[1],
        SECRET_KEYS[2],
        SECRET_KEYS[3],
        SECRET_KEYS[4],
        SECRET_KEYS[5],
        bedrock::KEYS[0],
        bedrock::KEYS[1],
        bedrock::KEYS[2],
        bedrock::KEYS[3],
    ],
};

/// The keys of such a table that are those of any secret, of which one must be there.
const PLACES: [&str; 4] = ["env", "file", "store", "command"];

impl HttpBinding {
    /// The secrets that requests need, each with the key of the table that refers to it, such as `api_key`, or `keys.acme` for
    /// that of a tenant.
    pub fn secrets(&self) -> impl Iterator<Item = (String, &SecretRef)> {
        let own = self.api_key.iter().map(|key| ("api_key".to_owned(), key));
        let aws = self.aws_key.iter().flat_map(|key| key.secrets());
        let aws = aws.map(|(name, secret)| (name.to_owned(), secret));
        let tenants = self.keys.iter().flatten().flat_map(|(tenant, key)| {
            let (text, aws) = match key {
                TenantKey::Text(secret) => (Some(secret), None),
                TenantKey::Aws(key) => (None, Some(key)),
            };
            let text = text.into_iter().map(move |secret| (format!("keys.{tenant}"), secret));
            let aws = aws.into_iter().flat_map(AwsKeyBinding::secrets);
            text.chain(aws.map(move |(name, secret)| (format!("keys.{tenant}.{name}"), secret)))
        });
        own.chain(aws).chain(tenants)
    }

    /// The key that belongs to a tenant alone.
    pub fn key_of(&self, tenant: &str) -> Option<&TenantKey> {
        self.keys.as_ref()?.get(tenant)
    }

    /// Says whether runs of a tenant cannot use the model: the model has keys of tenants, none for this one, and none for all.
    pub fn lacks_key(&self, tenant: &str) -> bool {
        self.lacks_shared_key() && self.key_of(tenant).is_none()
    }

    /// Says whether only tenants with a key of their own can use the model.
    fn lacks_shared_key(&self) -> bool {
        self.keys.is_some() && self.api_key.is_none() && self.aws_key.is_none()
    }
}

impl AwsKeyBinding {
    /// The secrets that it is made of, each with the key of the table that refers to it.
    fn secrets(&self) -> impl Iterator<Item = (&'static str, &SecretRef)> {
        let all = match self {
            Self::Parts { access_key_id, secret_access_key, session_token } => [
                Some(("access_key_id", access_key_id)),
                Some(("secret_access_key", secret_access_key)),
                session_token.as_ref().map(|token| ("session_token", token)),
            ],
            Self::Document(document) => [Some(("credentials", document)), None, None],
        };
        all.into_iter().flatten()
    }
}

/// Reads the keys of tenants; none where there is no such table. An empty one is a table: no tenant has a key then.
pub(super) fn read(
    model: &Section<'_>,
    paths: &Paths<'_>,
    provider: Provider,
    what: &str,
) -> Option<BTreeMap<String, TenantKey>> {
    model.get("keys")?;
    let mut keys = BTreeMap::new();
    for (tenant, value) in model.tables("keys") {
        let what = format!("the key of the tenant `{}` for {what}", tenant.value);
        if !crate::tenant::is_tenant_name(&tenant.value) {
            let problem = format!("`{}` is not the name of a tenant", tenant.value);
            model.report.error(Code::InvalidValue, tenant.span, problem);
            continue;
        }
        let key = match value.get_ref() {
            DeValue::String(_) => {
                let table = model.get("keys").and_then(|keys| keys.get_ref().as_table());
                if let Some((name, value)) = table.and_then(|keys| keys.get_key_value(tenant.value.as_str()))
                {
                    crate::secrets::in_clear(model.report, name, value);
                }
                None
            }
            DeValue::Table(_) if provider == Provider::Bedrock => {
                Section::of(model.report, &tenant.value, value, &what, &BEDROCK_KEY)
                    .and_then(|section| of_bedrock(&section, paths, &what))
            }
            DeValue::Table(_) => {
                secrets::one(model.report, &tenant.value, value, &what, paths).map(TenantKey::Text)
            }
            _ => wrong_type(
                model.report,
                &tenant.value,
                value,
                "`{ env = \"NAME\" }`, `{ file = \"PATH\" }`, `{ store = \"NAME\" }` or `{ command = [\"PROGRAM\", …] }`",
            ),
        };
        keys.extend(key.map(|key| (tenant.value, key)));
    }
    Some(keys)
}

/// Reads a key of Bedrock: a text, or an access key that signs.
fn of_bedrock(section: &Section<'_>, paths: &Paths<'_>, what: &str) -> Option<TenantKey> {
    let signs = bedrock::PARTS.into_iter().chain(["credentials"]).any(|key| section.has(key));
    if !signs {
        return secrets::reference(section, paths, what).map(TenantKey::Text);
    }
    let help = "write `{ env = \"NAME\" }` for a key of Bedrock, `access_key_id` with `secret_access_key`, or `credentials`";
    bedrock::access_key(section, paths, what, (&PLACES, help)).map(TenantKey::Aws)
}

/// Where the keys of tenants for a model stand.
#[derive(Debug)]
pub(crate) struct KeysPlace {
    model: String,
    /// The key `keys` itself.
    span: Range<usize>,
    tenants: Vec<Located<String>>,
    /// Other tenants cannot use the model.
    is_strict: bool,
}

impl KeysPlace {
    pub(super) fn of(model: &Section<'_>, name: &str, binding: &HttpBinding) -> Option<Self> {
        let span = model.key_span("keys")?;
        let tenants = model.tables("keys").into_iter().map(|(tenant, _)| tenant).collect();
        Some(Self { model: name.to_owned(), span, tenants, is_strict: binding.lacks_shared_key() })
    }

    /// Compares the keys with the tenants that there are: `sound` ones, and those whose file has errors.
    ///
    /// Both problems are warnings: the file of a tenant that is removed has to take effect at once, also where a key of it is left.
    pub(crate) fn check(
        &self,
        source: &SourceFile,
        sound: &BTreeSet<&str>,
        broken: &BTreeSet<String>,
    ) -> Vec<Diagnostic> {
        let warning = |code, span: &Range<usize>, problem: String| {
            Diagnostic::new(code, Severity::Warning, source.file(), problem).at(source, span.clone())
        };
        let is_known =
            |name: &str| name == Workspace::DEFAULT_TENANT || sound.contains(name) || broken.contains(name);
        let mut found = Vec::new();
        for tenant in self.tenants.iter().filter(|tenant| !is_known(&tenant.value)) {
            let name = &tenant.value;
            let problem =
                format!("the model `{}` has a key for the tenant `{name}`, which does not exist", self.model);
            let help = match nearest(name, sound.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("add `tenants/{name}.toml` with `name = \"{name}\"`, or remove the key"),
            };
            let label = "no run has this key";
            found.push(warning(Code::UnknownTenant, &tenant.span, problem).with_label(label).with_help(help));
        }
        let has_key = |name: &str| self.tenants.iter().any(|tenant| tenant.value == name);
        let without: Vec<&str> =
            sound.iter().copied().filter(|name| self.is_strict && !has_key(name)).collect();
        if let Some(first) = without.first() {
            let problem =
                format!("the model `{}` has no key for {}", self.model, some(without.iter().copied()));
            let help = format!(
                "add `{first} = {{ env = \"NAME\" }}` here, or an `api_key` for all tenants without a key of their own"
            );
            let label = "runs of these tenants cannot use the model";
            found.push(warning(Code::NoTenantKey, &self.span, problem).with_label(label).with_help(help));
        }
        found
    }
}

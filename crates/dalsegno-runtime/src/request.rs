//! The secrets that come with a request: kept in the secret store, with references in their place.

use std::collections::BTreeSet;

use dalsegno_core::{AgentRequest, RunId};
use dalsegno_secrets::{Put, Secret, SecretName};
use serde_json::{Value, json};

use crate::effects::ports::Ports;
use crate::error::EngineError;

/// How long a secret is kept that came with a request. A run that waits longer asks for it again.
const REQUEST_SECRET_MS: u64 = 7 * 24 * 60 * 60 * 1_000;

/// How the names of such secrets begin.
pub(crate) const OF_REQUEST: &str = "request.";

/// What stands in a request where a secret stood: the name that it has in the secret store.
pub(crate) const REFERENCE: &str = "dalsegno_secret";

/// Puts the secrets that came with a request into the secret store, and references in their place.
pub(crate) async fn keep_secrets(
    ports: &Ports,
    run: RunId,
    request: &mut AgentRequest,
) -> Result<(), EngineError> {
    for path in &ports.bindings.settings().secret_paths {
        let Some(place) = place(&mut request.user, path) else { continue };
        if place.is_null() {
            continue;
        }
        let failed = |message: String| EngineError::UserSecret { path: path.clone(), message };
        let name = format!("{OF_REQUEST}{run}.{}", path.trim_start_matches("user."));
        // Anything but text could pass for a reference, and lead to a secret that is not the caller's.
        let Value::String(value) = place else {
            return Err(failed("it is not text: give it as a string".to_owned()));
        };
        let known: SecretName = name.parse().map_err(|error| failed(format!("{error}")))?;
        let source = ports.bindings.vault().source();
        let store = source.make().await.map_err(|error| failed(error.to_string()))?;
        let now = ports.now().as_millis();
        let secret = Secret::new(value);
        ports.bindings.vault().hide(&name, &secret);
        let mut put = Put::new(secret, now);
        put.expires_at = Some(now.saturating_add(REQUEST_SECRET_MS));
        store.put(source.tenant(), &known, put).await.map_err(|error| failed(error.to_string()))?;
        *place = json!({ REFERENCE: name });
    }
    Ok(())
}

/// What a caller says of the user, but for secrets: these are new with each start.
pub(crate) fn without_secrets(user: &Value, paths: &BTreeSet<String>) -> Value {
    let mut user = user.clone();
    for path in paths {
        // One that did not come leaves no trace.
        if let Some(place) = place(&mut user, path) {
            *place = Value::Null;
        }
    }
    user
}

/// The names of the secrets that came with a request, in the secret store.
pub(crate) fn kept_secrets<'u>(
    user: &'u Value,
    paths: &'u BTreeSet<String>,
) -> impl Iterator<Item = &'u str> {
    let find = move |path: &'u String| {
        path.strip_prefix("user.")?.split('.').try_fold(user, |value, name| value.get(name))
    };
    let places = paths.iter().filter_map(find);
    places.filter_map(|place| place[REFERENCE].as_str()).filter(|name| name.starts_with(OF_REQUEST))
}

/// What a foreign run was asked, without what only this workspace may say: the tenant's settings, and references to
/// secrets, which would be those of another run.
pub(crate) fn without_what_is_ours(mut request: AgentRequest, paths: &BTreeSet<String>) -> AgentRequest {
    request.tenant_settings = Value::Null;
    request.user = without_secrets(&request.user, paths);
    request
}

/// What stands at a path below `user`, which `dalsegno.toml` names, to be changed.
fn place<'v>(user: &'v mut Value, path: &str) -> Option<&'v mut Value> {
    path.strip_prefix("user.")?.split('.').try_fold(user, |value, name| value.get_mut(name))
}

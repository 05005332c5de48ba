//! Access keys of AWS, and the signatures that they make (Signature Version 4).

use std::fmt::Display;
use std::sync::Arc;
use std::time::SystemTime;

use aws_credential_types::Credentials;
use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign};
use aws_sigv4::sign::v4;
use aws_smithy_types::DateTime;
use aws_smithy_types::date_time::Format;
use dalsegno_secrets::{Reveal, RevealError, Secret};
use reqwest::Url;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;

use super::key::{Revealed, unreadable};
use crate::model::{ModelError, ModelErrorKind};

/// The service that requests to Bedrock are signed for.
pub(super) const SERVICE: &str = "bedrock";

/// An access key of AWS: where its parts are found.
#[derive(Clone)]
pub enum AwsKey {
    /// Each part is a secret of its own.
    Parts {
        /// The id of the access key, such as `AKIA…`.
        access_key_id: Arc<dyn Reveal>,
        /// Its secret.
        secret_access_key: Arc<dyn Reveal>,
        /// The token of a session, which the keys of a session have besides.
        session_token: Option<Arc<dyn Reveal>>,
    },
    /// All parts are in one JSON document, as `aws configure export-credentials` and every `credential_process` print it:
    /// `AccessKeyId`, `SecretAccessKey`, and of a session `SessionToken` and `Expiration`.
    Document(Arc<dyn Reveal>),
}

impl AwsKey {
    /// Reads the parts. A document whose session is over is read anew.
    pub(super) async fn reveal(&self) -> Result<Revealed, ModelError> {
        match self {
            Self::Parts { access_key_id, secret_access_key, session_token } => {
                let mut parts = Vec::with_capacity(3);
                for part in [access_key_id, secret_access_key].into_iter().chain(session_token) {
                    parts.push(part.reveal().await.map_err(unreadable)?);
                }
                Ok(Revealed { parts, read_from: None })
            }
            Self::Document(handle) => {
                let document = Document::read(handle.reveal().await.map_err(unreadable)?)?;
                if !document.is_over() {
                    return Ok(document.revealed());
                }
                let next = handle.renew(&document.text).await.map_err(unreadable)?;
                match next.map(Document::read).transpose()?.filter(|next| !next.is_over()) {
                    Some(next) => Ok(next.revealed()),
                    None => Err(over()),
                }
            }
        }
    }

    /// Reads the parts to use instead of those that were refused; none if there are no others.
    pub(super) async fn renew(&self, refused: &Revealed) -> Result<Option<Revealed>, ModelError> {
        if let (Self::Document(handle), Some(text)) = (self, &refused.read_from) {
            let next = handle.renew(text).await.map_err(unreadable)?;
            return Ok(next.map(Document::read).transpose()?.map(Document::revealed));
        }
        // All parts of a key change together.
        let next = self.reveal().await?;
        let is_same = next.parts.len() == refused.parts.len()
            && next.parts.iter().zip(&refused.parts).all(|(one, other)| one.expose() == other.expose());
        Ok((!is_same).then_some(next))
    }
}

/// The parts of a document with an access key, each of which is a secret: its id, its secret, and the token of its session if it
/// has one. None where the text is no such document.
pub fn aws_key_parts(document: &Secret) -> Option<Vec<Secret>> {
    Document::read(document.clone()).ok().map(|document| document.parts)
}

/// A document with an access key.
struct Document {
    text: Secret,
    parts: Vec<Secret>,
    /// When the session is over.
    expires: Option<SystemTime>,
}

impl Document {
    fn read(text: Secret) -> Result<Self, ModelError> {
        // The error of the parser would quote the secret.
        let refused = |what: &str| {
            unreadable(RevealError::new(format!(
                "{what}: expected JSON with `AccessKeyId` and `SecretAccessKey`, as `aws configure export-credentials` \
                 prints it"
            )))
        };
        let json: Value =
            serde_json::from_str(text.expose()).map_err(|_| refused("the credentials are not JSON"))?;
        // `aws sts assume-role` and its kin put them one level deeper.
        let json = json.get("Credentials").unwrap_or(&json);
        let part = |name: &str| json.get(name).and_then(Value::as_str).filter(|part| !part.is_empty());
        let needed = |name: &str| {
            part(name).map(Secret::new).ok_or_else(|| refused(&format!("the credentials have no `{name}`")))
        };
        let mut parts = vec![needed("AccessKeyId")?, needed("SecretAccessKey")?];
        parts.extend(part("SessionToken").map(Secret::new));
        let expires =
            part("Expiration").and_then(|text| DateTime::from_str(text, Format::DateTimeWithOffset).ok());
        let expires = expires.and_then(|time| SystemTime::try_from(time).ok());
        Ok(Self { text, parts, expires })
    }

    fn is_over(&self) -> bool {
        self.expires.is_some_and(|end| end <= SystemTime::now())
    }

    fn revealed(self) -> Revealed {
        Revealed { parts: self.parts, read_from: Some(self.text) }
    }
}

/// The error for a session that is over, before anything was sent with it.
fn over() -> ModelError {
    let message = "the AWS credentials of the model have expired, and there are no others: log in again (such as with \
                   `aws sso login`), or let `command` print new ones";
    ModelError::new(ModelErrorKind::Refused, message)
}

/// A request that is signed, by headers that it gets.
pub(super) struct Unsigned<'r> {
    pub(super) method: &'r str,
    pub(super) url: &'r Url,
    pub(super) body: &'r [u8],
    pub(super) region: &'r str,
    pub(super) service: &'r str,
    pub(super) now: SystemTime,
}

impl Unsigned<'_> {
    /// Adds the headers of the signature to those that are sent besides.
    pub(super) fn sign(&self, key: &Revealed, headers: &mut HeaderMap) -> Result<(), ModelError> {
        let failed = |error: &dyn Display| {
            let message = format!("cannot sign the request for AWS: {error}; check the model's access key");
            ModelError::new(ModelErrorKind::Refused, message)
        };
        let [id, secret, session @ ..] = &key.parts[..] else {
            return Err(failed(&"the access key has no secret"));
        };
        let session = session.first().map(|token| token.expose().to_owned());
        let identity = Credentials::new(id.expose(), secret.expose(), session, None, "dalsegno").into();
        let params = v4::SigningParams::builder()
            .identity(&identity)
            .region(self.region)
            .name(self.service)
            .time(self.now)
            .settings(SigningSettings::default())
            .build()
            .map_err(|error| failed(&error))?
            .into();
        // AWS wants all of its own headers signed. Proxies change others.
        let signed = headers.iter().filter(|(name, _)| is_signed(name));
        let signed = signed.filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)));
        let request =
            SignableRequest::new(self.method, self.url.as_str(), signed, SignableBody::Bytes(self.body));
        let request = request.map_err(|error| failed(&error))?;
        // The library logs what it signs, with the id of the key.
        let quiet = tracing::subscriber::NoSubscriber::default();
        let output = tracing::subscriber::with_default(quiet, || sign(request, &params));
        let (instructions, _) = output.map_err(|error| failed(&error))?.into_parts();
        let (added, _) = instructions.into_parts();
        for header in added {
            let mut value = HeaderValue::from_str(header.value()).map_err(|error| failed(&error))?;
            value.set_sensitive(true);
            headers.insert(HeaderName::from_static(header.name()), value);
        }
        Ok(())
    }
}

fn is_signed(name: &HeaderName) -> bool {
    *name == CONTENT_TYPE || name.as_str().starts_with("x-amz-")
}

#[cfg(test)]
mod tests;

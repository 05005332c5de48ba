//! The errors of `dalsegno serve`, `dalsegno key` and `dalsegno webhook`.

use dalsegno_access::{KeyError, OpenError};
use dalsegno_server::ServeError;
use dalsegno_webhooks::{BadUrl, WebhookError};

use super::{Error, ErrorClass};
use crate::exit::Exit;

/// Why the server or its keys cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServeTrouble {
    #[error(transparent)]
    File(#[from] OpenError),
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error(transparent)]
    WebhookFile(#[from] dalsegno_webhooks::OpenError),
    #[error(transparent)]
    Webhook(#[from] WebhookError),
    #[error(transparent)]
    Url(#[from] BadUrl),
    #[error(transparent)]
    Serve(ServeError),
    #[error("there is no trigger `{name}`{}", listed(known))]
    UnknownTrigger { name: String, known: Vec<String> },
    #[error(transparent)]
    Delivery(dalsegno_workspace::TriggerError),
    #[error("the session of this delivery is no name: `{session}`")]
    Session { session: String },
    #[error("`{name}` is given more than once with `{option}`")]
    Twice { option: &'static str, name: String },
}

fn listed(known: &[String]) -> String {
    match known {
        [] => String::new(),
        known => format!(": dalsegno.toml has `{}`", known.join("`, `")),
    }
}

impl ServeTrouble {
    pub(super) fn class(&self) -> ErrorClass {
        let bad_input = |code| ErrorClass::new(Exit::BadInput, code);
        let failed = |code| ErrorClass::new(Exit::Failed, code);
        match self {
            Self::File(error) => failed("access_keys").with_help(
                error.remedy().unwrap_or("restore the file from a backup, or move it away and make new keys"),
            ),
            Self::Key(KeyError::Unknown { .. } | KeyError::Ambiguous { .. }) => {
                bad_input("unknown_key").with_help("list the keys with `dalsegno key list`")
            }
            Self::Key(KeyError::NoScope | KeyError::Name) => bad_input("bad_argument"),
            Self::Key(_) => failed("access_keys"),
            Self::WebhookFile(dalsegno_webhooks::OpenError::File(error))
            | Self::Serve(ServeError::Webhooks(dalsegno_webhooks::OpenError::File(error)))
                if let Some(remedy) = error.remedy() =>
            {
                failed("webhooks").with_help(remedy)
            }
            Self::WebhookFile(_) | Self::Serve(ServeError::Webhooks(_)) => failed("webhooks").with_help(
                "restore `webhooks.db` and `webhooks.key` together from a backup, or move both away and add the webhooks again",
            ),
            Self::Webhook(WebhookError::Unknown { .. } | WebhookError::Ambiguous { .. }) => {
                bad_input("unknown_webhook").with_help("list the webhooks with `dalsegno webhook list`")
            }
            Self::Webhook(WebhookError::TooMany { .. }) => {
                bad_input("bad_argument").with_help("remove one with `dalsegno webhook remove`")
            }
            Self::Webhook(WebhookError::NoEvent | WebhookError::Name) => bad_input("bad_argument"),
            Self::Webhook(_) => failed("webhooks"),
            Self::UnknownTrigger { .. } => bad_input("unknown_trigger")
                .with_help("name one that `[triggers.NAME]` of dalsegno.toml describes"),
            Self::Delivery(_) | Self::Session { .. } => bad_input("bad_delivery")
                .with_help("correct the delivery, or the trigger in dalsegno.toml"),
            Self::Twice { .. } => bad_input("bad_argument").with_help("give it once, as a sender sends it"),
            Self::Url(_) => bad_input("bad_argument").with_help(
                "name a public receiver, such as `https://hooks.example.com/dalsegno`, or list this one as `webhooks` in `[serve]`",
            ),
            Self::Serve(ServeError::Listen { .. }) => bad_input("address")
                .with_help("name an address of this machine with a free port, such as `127.0.0.1:8700`"),
            Self::Serve(ServeError::NotEncrypted { .. }) => bad_input("not_encrypted").with_help(
                "set `certificate` and `private_key` in `[serve]`, or put a proxy with TLS before it and set `behind_proxy = true`, or listen at `127.0.0.1:8700`",
            ),
            Self::Serve(ServeError::Tls(_)) => bad_input("certificate")
                .with_help("name files in PEM that belong together as `certificate` and `private_key` in `[serve]`"),
            Self::Serve(ServeError::NoKeys { .. }) => {
                bad_input("no_access_key").with_help("make one with `dalsegno key add`, or name your identity provider in `[serve.oidc]`")
            }
            Self::Serve(_) => failed("serve"),
        }
    }
}

impl From<OpenError> for Error {
    fn from(error: OpenError) -> Self {
        ServeTrouble::from(error).into()
    }
}

impl From<KeyError> for Error {
    fn from(error: KeyError) -> Self {
        ServeTrouble::from(error).into()
    }
}

impl From<dalsegno_webhooks::OpenError> for Error {
    fn from(error: dalsegno_webhooks::OpenError) -> Self {
        ServeTrouble::from(error).into()
    }
}

impl From<WebhookError> for Error {
    fn from(error: WebhookError) -> Self {
        ServeTrouble::from(error).into()
    }
}

impl From<BadUrl> for Error {
    fn from(error: BadUrl) -> Self {
        ServeTrouble::from(error).into()
    }
}

impl From<ServeError> for Error {
    fn from(error: ServeError) -> Self {
        match error {
            ServeError::Engine(error) => error.into(),
            ServeError::Line(error) => Self::VoiceLine(*error),
            error => ServeTrouble::Serve(error).into(),
        }
    }
}

//! Mails of declarative tools: one attempt, under the tenant's rules.

use std::time::Duration;

use lettre::message::{Mailbox, MultiPart};
use lettre::transport::smtp::AsyncSmtpTransport;
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Tls, TlsParameters};
use lettre::{AsyncTransport as _, Message, Tokio1Executor};
use segno_core::{EmailReceipt, Failure, FailureCode, Outcome};
use segno_net::{Egress, EgressError, Origin, Scheme};
use segno_sandbox::Received;
use segno_tools::{Email, Security};

use crate::attempt::certain;
use crate::policy::AttemptError;

/// Sends a mail once. `login` is the name and password, where the mail has them.
pub(crate) async fn send(
    mail: &Email,
    login: Option<(String, String)>,
    message_id: &str,
    egress: &Egress,
    timeout: Duration,
) -> Result<Outcome, AttemptError> {
    let message =
        message(mail, message_id).map_err(|message| certain(FailureCode::InvalidArguments, message))?;
    let origin = Origin::new(Scheme::Smtp, &mail.host, mail.port)
        .map_err(|error| certain(FailureCode::NotPermitted, error.to_string()))?;
    let addresses = egress.check(&origin).await.map_err(|error| match error {
        EgressError::Denied(denied) => certain(FailureCode::NotPermitted, denied.to_string()),
        error => AttemptError { transient: true, ..certain(FailureCode::Unavailable, error.to_string()) },
    })?;
    let tls = || TlsParameters::new_rustls(mail.host.clone());
    let protected = |error: lettre::transport::smtp::Error| certain(FailureCode::Internal, error.to_string());
    let tls = match mail.security {
        Security::None if login.is_some() => {
            let message = "a password is not sent in the clear: set `security` to `starttls` or `tls`";
            return Err(certain(FailureCode::NotPermitted, message.to_owned()));
        }
        Security::None => Tls::None,
        Security::Starttls => Tls::Required(tls().map_err(protected)?),
        Security::Tls => Tls::Wrapper(tls().map_err(protected)?),
    };
    // The address that was checked is the one that is dialled; the certificate is for the name.
    let Some(address) = addresses.first() else {
        return Err(certain(FailureCode::Unavailable, format!("`{}` has no address", mail.host)));
    };
    let mut transport = AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous(address.ip().to_string())
        .port(address.port())
        .tls(tls)
        .timeout(Some(timeout));
    if let Some((name, password)) = login {
        transport = transport.credentials(Credentials::new(name, password));
    }
    match transport.build().send(message).await {
        Ok(_) => Ok(Outcome::EmailSent(EmailReceipt { message_id: Some(message_id.to_owned()) })),
        Err(error) => Err(unsent(&error)),
    }
}

/// What a server's refusal, or a broken connection, says of the mail.
fn unsent(error: &lettre::transport::smtp::Error) -> AttemptError {
    let words = crate::bindings::describe(error);
    // The server said no: a mail that was refused was not sent.
    if error.is_permanent() || error.is_transient() {
        let failure = Failure::new(FailureCode::Unavailable, format!("the mail server refused: {words}"));
        let transient = error.is_transient();
        return AttemptError { failure, received: Received::No, transient, after: None, gate: None };
    }
    let never_sent = error.is_client() || error.is_tls() || error.is_transport_shutdown();
    let received = if never_sent { Received::No } else { Received::Possibly };
    let code = if error.is_timeout() { FailureCode::Timeout } else { FailureCode::Unavailable };
    let failure = Failure::new(code, format!("the mail server gave no answer: {words}"));
    AttemptError { failure, received, transient: true, after: None, gate: None }
}

fn message(mail: &Email, message_id: &str) -> Result<Message, String> {
    let mailbox = |text: &String| {
        text.parse::<Mailbox>().map_err(|error| format!("`{text}` is no mail address: {error}"))
    };
    let mut builder = Message::builder()
        .from(mailbox(&mail.from)?)
        .subject(&mail.subject)
        .message_id(Some(format!("<{message_id}@{}>", mail.host)));
    for to in &mail.to {
        builder = builder.to(mailbox(to)?);
    }
    for cc in &mail.cc {
        builder = builder.cc(mailbox(cc)?);
    }
    for bcc in &mail.bcc {
        builder = builder.bcc(mailbox(bcc)?);
    }
    if let Some(reply_to) = &mail.reply_to {
        builder = builder.reply_to(mailbox(reply_to)?);
    }
    let built = match &mail.html {
        Some(html) => builder.multipart(MultiPart::alternative_plain_html(mail.body.clone(), html.clone())),
        None => builder.body(mail.body.clone()),
    };
    built.map_err(|error| format!("the mail cannot be written: {error}"))
}

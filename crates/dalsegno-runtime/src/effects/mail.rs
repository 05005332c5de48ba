//! Mails of declarative tools: one attempt, under the tenant's rules.

use std::time::Duration;

use dalsegno_core::Received;
use dalsegno_core::{EmailReceipt, Failure, FailureCode, Outcome};
use dalsegno_net::{Egress, EgressError, Origin, Scheme};
use dalsegno_tools::{Email, Security};
use lettre::Message;
use lettre::address::Envelope;
use lettre::message::{Mailbox, MultiPart};
use lettre::transport::smtp::authentication::{Credentials, Mechanism};
use lettre::transport::smtp::client::{AsyncSmtpConnection, TlsParameters};
use lettre::transport::smtp::extension::{ClientId, MailParameter};
use lettre::transport::smtp::{Error, commands};
use tokio::time::{Instant, timeout_at};

use crate::effects::failure::AttemptError;
use crate::effects::failure::certain;

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
    // What comes before the text is over before the attempt is, which knows less of what may have happened.
    let limit = timeout / 10 * 9;
    let until = Instant::now() + limit;
    let late = |_| {
        let message = format!("the mail server did not take the mail within {} ms", limit.as_millis());
        AttemptError { transient: true, ..certain(FailureCode::Timeout, message) }
    };
    let addresses = timeout_at(until, egress.check(&origin)).await.map_err(late)?;
    let addresses = addresses.map_err(|error| match error {
        EgressError::Denied(denied) => certain(FailureCode::NotPermitted, denied.to_string()),
        error => AttemptError { transient: true, ..certain(FailureCode::Unavailable, error.to_string()) },
    })?;
    let tls = || TlsParameters::new_rustls(mail.host.clone());
    let protected = |error: Error| certain(FailureCode::Internal, error.to_string());
    let (wrapped, upgrade) = match mail.security {
        Security::None if login.is_some() => {
            let message = "a password is not sent in the clear: set `security` to `starttls` or `tls`";
            return Err(certain(FailureCode::NotPermitted, message.to_owned()));
        }
        Security::None => (None, None),
        Security::Starttls => (None, Some(tls().map_err(protected)?)),
        Security::Tls => (Some(tls().map_err(protected)?), None),
    };
    // The address that was checked is the one that is dialled; the certificate is for the name.
    let Some(address) = addresses.first() else {
        return Err(certain(FailureCode::Unavailable, format!("`{}` has no address", mail.host)));
    };
    let announced = async {
        let hello = ClientId::default();
        let mut server =
            AsyncSmtpConnection::connect_tokio1(*address, Some(timeout), &hello, wrapped, None).await?;
        if let Some(tls) = upgrade {
            server.starttls(tls, &hello).await?;
        }
        if let Some((name, password)) = login {
            server.auth(&[Mechanism::Plain, Mechanism::Login], &Credentials::new(name, password)).await?;
        }
        announce(&mut server, message.envelope()).await?;
        Ok(server)
    };
    // Until the text itself is on its way, nobody can have sent the mail on, whatever goes wrong.
    let unsent = |error: Error| AttemptError { received: Received::No, ..no_answer(&error) };
    let mut server = timeout_at(until, announced).await.map_err(late)?.map_err(unsent)?;
    let sent = server.message(&message.formatted()).await.map_err(|error| no_answer(&error));
    // Whether it says goodbye changes nothing, and nobody waits for it.
    tokio::spawn(async move { tokio::time::timeout(GOODBYE, server.quit()).await.is_ok() });
    sent.map(|_| Outcome::EmailSent(EmailReceipt { message_id: Some(message_id.to_owned()) }))
}

/// How long a server may take to say goodbye.
const GOODBYE: Duration = Duration::from_secs(2);

/// Says whom the mail is from and to, and that its text comes.
async fn announce(server: &mut AsyncSmtpConnection, envelope: &Envelope) -> Result<(), Error> {
    let mut parameters = Vec::new();
    // A server that does not know such addresses refuses them.
    if envelope.to().iter().chain(envelope.from()).any(|address| !AsRef::<str>::as_ref(address).is_ascii()) {
        parameters.push(MailParameter::SmtpUtfEight);
    }
    server.command(commands::Mail::new(envelope.from().cloned(), parameters)).await?;
    for to in envelope.to() {
        server.command(commands::Rcpt::new(to.clone(), Vec::new())).await?;
    }
    server.command(commands::Data).await?;
    Ok(())
}

/// What a server's refusal, or a broken connection, says of the mail.
fn no_answer(error: &Error) -> AttemptError {
    let words = crate::effects::failure::describe(error);
    // The server said no: a mail that was refused was not sent.
    if error.is_permanent() || error.is_transient() {
        let failure = Failure::new(FailureCode::Unavailable, format!("the mail server refused: {words}"));
        let transient = error.is_transient();
        return AttemptError {
            failure,
            received: Received::No,
            transient,
            after: None,
            gate: None,
            is_under_way: false,
        };
    }
    let code = if error.is_timeout() { FailureCode::Timeout } else { FailureCode::Unavailable };
    let failure = Failure::new(code, format!("the mail server gave no answer: {words}"));
    AttemptError {
        failure,
        received: Received::Possibly,
        transient: true,
        after: None,
        gate: None,
        is_under_way: false,
    }
}

fn message(mail: &Email, message_id: &str) -> Result<Message, String> {
    let mailbox = |text: &String| {
        text.parse::<Mailbox>().map_err(|error| format!("`{text}` is not a mail address: {error}"))
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

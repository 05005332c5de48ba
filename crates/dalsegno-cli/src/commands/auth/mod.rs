//! `dalsegno auth`: a person gives access by consent, and runs that wait for it go on.

mod browser;
mod question;

use std::io::{self, BufRead as _};
use std::time::Duration;

use dalsegno_runtime::Consented;
use serde_json::json;
use tokio::sync::mpsc;
use url::Url;

use self::browser::Browser;
use self::question::Question;
use super::{Context, secret};
use crate::args::{AuthArgs, Format};
use crate::error::{ConsentTrouble, Error};
use crate::exit::Exit;
use crate::render::text::{count, time};

/// Where the browser is sent when nobody listens: it shows an error there, and the address that is wanted.
const UNHEARD_PORT: u16 = 8_431;

pub(super) async fn auth(args: &AuthArgs, context: &mut Context<'_>) -> Result<Exit, Error> {
    let engine = context.quiet().await?;
    let patience = Duration::from_secs(args.timeout.get());
    let browser = match args.no_listen {
        true => None,
        false => {
            let port = args.port.unwrap_or(0);
            let opened = Browser::listen(port).await;
            Some(opened.map_err(|source| ConsentTrouble::Listen { port, source })?)
        }
    };
    let port = browser.as_ref().map_or(args.port.unwrap_or(UNHEARD_PORT), Browser::port);
    let question = Question::ask(args, &engine, &browser::redirect(port)).await?;
    context
        .output
        .note(format_args!("open this address in a browser, and agree there:\n\n  {}\n", question.url()));
    context.output.stderr.flush();
    let answered = match browser {
        Some(browser) => {
            context.output.note("waiting for the browser");
            tokio::time::timeout(patience, browser.answer(&question)).await.map(Some)
        }
        None => {
            context.output.note("it ends at an address that does not open: paste that address here");
            tokio::time::timeout(patience, pasted(&question, context)).await
        }
    };
    let seconds = args.timeout.get();
    let answered =
        answered.map_err(|_| ConsentTrouble::TimedOut { seconds })?.ok_or(ConsentTrouble::NothingPasted)?;
    let consented = question.take(&engine, &answered).await?;
    let told = secret::tell_runs(engine.journal()).await?;
    tell(args, &consented, told, context);
    Ok(Exit::Done)
}

/// The first line that answers the question; none at the end of the input.
async fn pasted(question: &Question, context: &mut Context<'_>) -> Option<Url> {
    let (sender, mut lines) = mpsc::channel(1);
    // Nobody waits for this thread: a read of the terminal cannot be stopped.
    std::thread::spawn(move || {
        for line in io::stdin().lock().lines().map_while(Result::ok) {
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    });
    while let Some(line) = lines.recv().await {
        let line = line.trim();
        if line.is_empty() {
            continue;
        }
        let read = line.parse::<Url>().map_err(|error| error.to_string());
        let read = read.and_then(|url| question.accepts(&url).map(|()| url));
        match read {
            Ok(url) => return Some(url),
            // What was pasted may hold a code: it is not shown.
            Err(message) => context.output.note(format_args!("this is not it: {}", message)),
        }
    }
    None
}

fn tell(args: &AuthArgs, consented: &Consented, told: u64, context: &mut Context<'_>) {
    let Consented { name, scopes, expires_at, renews } = consented;
    let output = &mut *context.output;
    if context.format == Format::Json {
        output.document(&json!({
            "name": name,
            "tenant": args.tenant,
            "scopes": scopes,
            "expires_at": expires_at.map(time),
            "renews": renews,
            "told": told,
        }));
    }
    output.note(format_args!("access is given: it stands in the secret store as `{name}`"));
    if !renews {
        let until = expires_at
            .map_or_else(|| "until it is taken back".to_owned(), |end| format!("until {}", time(end)));
        output.note(format_args!("the service gave no refresh token: it is good {until}"));
    }
    if told > 0 {
        let runs = count(told, "run");
        output.note(format_args!("{runs} waiting for a secret: a worker goes on, or `dalsegno resume RUN`"));
    }
}

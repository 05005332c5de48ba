//! The mail server of the killed runs: a mail is an effect of the number that its subject has, and it has taken place when
//! the whole text has arrived.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;

use dalsegno_core::{EffectClass, OperationId};

use crate::receiver::{Call, Shared};

/// Listens for mails; each is entered into the ledger of the receiver. Returns the port.
pub(crate) fn listen(shared: &Arc<Shared>) -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let accepting = Arc::clone(shared);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            if accepting.is_stopped() {
                return;
            }
            let (stream, shared) = (stream.unwrap(), Arc::clone(&accepting));
            accepting.keep(std::thread::spawn(move || {
                // A client that dies closes its connection.
                let _ = converse(stream, &shared);
            }));
        }
    });
    port
}

/// Waits until every connection that was made before has its handler.
pub(crate) fn mark(port: u16) {
    let mut stream = BufReader::new(TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap());
    stream.read_line(&mut String::new()).unwrap();
}

/// Wakes the thread that accepts, so that it sees that it is to stop.
pub(crate) fn wake(port: u16) {
    drop(TcpStream::connect((Ipv4Addr::LOCALHOST, port)));
}

fn converse(stream: TcpStream, shared: &Shared) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    stream.get_mut().write_all(b"220 post\r\n")?;
    loop {
        let Some(line) = line(&mut stream)? else { return Ok(()) };
        let word = line.split(' ').next().unwrap_or_default().to_ascii_uppercase();
        match word.as_str() {
            "DATA" => {
                stream.get_mut().write_all(b"354 go on\r\n")?;
                let Some(call) = mail(&mut stream)? else { return Ok(()) };
                if !shared.arrived(call) {
                    // Nothing more comes: this ends when the client does.
                    let _ = line_or_end(&mut stream);
                    return Ok(());
                }
                stream.get_mut().write_all(b"250 taken\r\n")?;
            }
            "QUIT" => return stream.get_mut().write_all(b"221 bye\r\n"),
            _ => stream.get_mut().write_all(b"250 ok\r\n")?,
        }
    }
}

fn line_or_end(stream: &mut BufReader<TcpStream>) -> std::io::Result<()> {
    while line(stream)?.is_some() {}
    Ok(())
}

/// A line without its end; `None` where the client has gone.
fn line(stream: &mut BufReader<TcpStream>) -> std::io::Result<Option<String>> {
    let mut line = String::new();
    stream.read_line(&mut line)?;
    Ok(line.strip_suffix("\r\n").map(str::to_owned))
}

/// A mail up to the line that ends it. One that the client does not end is none.
fn mail(stream: &mut BufReader<TcpStream>) -> std::io::Result<Option<Call>> {
    let (mut subject, mut id) = (None, None);
    loop {
        let Some(line) = line(stream)? else { return Ok(None) };
        if line == "." {
            break;
        }
        if let Some(text) = line.strip_prefix("Subject: effect ") {
            subject = text.parse().ok();
        }
        if let Some(text) = line.strip_prefix("Message-ID: <") {
            id = text.split('@').next().map(str::to_owned);
        }
    }
    let id = id.expect("a mail has the id of its operation");
    let operation: OperationId = serde_json::from_value(id.into()).expect("an operation's id");
    let n = subject.expect("a mail says which effect it is");
    // A mail does not say which attempt it is.
    Ok(Some(Call { class: EffectClass::Unsafe, operation, attempt: 0, n }))
}

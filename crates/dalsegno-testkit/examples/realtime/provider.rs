//! The provider of the testkit, and how calls come to a server.

use std::cell::RefCell;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context as _, ensure};
use dalsegno_testkit::{LiveBook, LiveModel, LiveWebhook};
use tokio::runtime::Runtime;

use crate::process::Running;
use crate::workspace::{NUMBER, SECRET};

/// How long calls may take to begin, and how long to have their turns.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// How long nothing comes when all calls have begun.
pub(crate) const QUIET: Duration = Duration::from_secs(1);

/// How often is looked.
pub(crate) const LOOK: Duration = Duration::from_millis(20);

/// A provider, and what it runs in.
pub(crate) struct Provider {
    pub(crate) there: Runtime,
    pub(crate) live: LiveModel,
}

impl Provider {
    pub(crate) fn new() -> anyhow::Result<Self> {
        let there = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let live = there.block_on(LiveModel::start([]))?;
        Ok(Self { there, live })
    }

    /// A telephone rings, and a server is told.
    pub(crate) fn ring(&self, server: &str, call: &str) -> anyhow::Result<()> {
        self.live.rings(call, 0, []);
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_secs();
        let to = format!("<sip:{NUMBER}@sip.example.com>");
        let headers = [("From", "<sip:+4915112345678@sip.example.com>"), ("To", to.as_str())];
        let webhook = LiveWebhook::ringing(SECRET, now, call, &headers);
        let mut stream = TcpStream::connect(server)?;
        stream.write_all(webhook.request("front", "localhost").as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        ensure!(answer.starts_with("HTTP/1.1 200"), "the server did not take a call: {answer}");
        Ok(())
    }

    /// Looks into the book.
    pub(crate) fn look<T>(&self, look: impl Fn(&LiveBook) -> T) -> anyhow::Result<T> {
        let seen = RefCell::new(None);
        self.there.block_on(self.live.until(|book| {
            seen.replace(Some(look(book)));
            true
        }));
        seen.into_inner().context("the book was not looked into")
    }

    /// Waits until so many calls have begun, and nothing comes of it any more; how many have.
    pub(crate) fn begun(&self, running: &mut Running, calls: u32) -> anyhow::Result<u32> {
        let begun = Instant::now();
        let (mut frames, mut since) = (0, Instant::now());
        loop {
            let (there, now) = self.look(|book| {
                let attached: u32 = book.telephones.values().map(|telephone| telephone.attached).sum();
                (book.sessions + attached, book.frames.len())
            })?;
            if now != frames || there < calls {
                (frames, since) = (now, Instant::now());
            }
            if since.elapsed() > QUIET || begun.elapsed() > PATIENCE {
                return Ok(there);
            }
            ensure!(!running.has_ended()?, "a client ended before its calls had begun");
            thread::sleep(LOOK);
        }
    }
}

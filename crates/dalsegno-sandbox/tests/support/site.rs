//! A web server on this machine, as small as can be, which remembers what it was asked; and names that it has.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use dalsegno_sandbox::Resolver;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// A server that answers until it is dropped.
pub(crate) struct Site {
    pub(crate) address: SocketAddr,
    /// The head of each request, in the order of their arrival.
    heads: Arc<Mutex<Vec<String>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Site {
    pub(crate) async fn start() -> Self {
        Self::serving(None).await
    }

    /// A site that speaks TLS and proves that it is `crm.test`, to who trusts the authority in `tests/tls`.
    pub(crate) async fn encrypted() -> Self {
        let file = |name: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tls").join(name);
        let certificate = CertificateDer::from_pem_file(file("server.pem")).unwrap();
        let key = PrivateKeyDer::from_pem_file(file("server.key.pem")).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .unwrap();
        Self::serving(Some(TlsAcceptor::from(Arc::new(config)))).await
    }

    async fn serving(tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let heads = Arc::<Mutex<Vec<String>>>::default();
        let seen = Arc::clone(&heads);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (seen, tls) = (Arc::clone(&seen), tls.clone());
                tokio::spawn(async move {
                    // A caller that goes away ends its own exchange only.
                    let _ = match tls {
                        Some(tls) => match tls.accept(stream).await {
                            Ok(stream) => answer(stream, &seen).await,
                            Err(error) => Err(error),
                        },
                        None => answer(stream, &seen).await,
                    };
                });
            }
        });
        Self { address, heads, task }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// The same site under a name.
    pub(crate) fn named(&self, name: &str, path: &str) -> String {
        format!("http://{name}:{}{path}", self.address.port())
    }

    pub(crate) fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn answer(stream: impl AsyncRead + AsyncWrite + Unpin, seen: &Mutex<Vec<String>>) -> io::Result<()> {
    let mut stream = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if stream.read_line(&mut head).await? == 0 {
            return Ok(());
        }
    }
    seen.lock().unwrap().push(head.clone());
    let stream = stream.get_mut();
    reply(stream, &head).await?;
    stream.shutdown().await
}

async fn reply(stream: &mut (impl AsyncWrite + Unpin), head: &str) -> io::Result<()> {
    let path = head.split(' ').nth(1).unwrap_or_default();
    let start = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\nconnection: close\r\n";
    if let Some(location) = path.strip_prefix("/to/") {
        let moved = format!(
            "HTTP/1.1 302 Found\r\nlocation: {location}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
        );
        return stream.write_all(moved.as_bytes()).await;
    }
    match path {
        // Shows the caller what it is said to have sent.
        "/echo" => stream.write_all(format!("{start}\r\n{head}").as_bytes()).await,
        "/endless" => {
            stream.write_all(format!("{start}\r\n").as_bytes()).await?;
            loop {
                stream.write_all(&[b'x'; 4096]).await?;
            }
        }
        "/slow" => {
            stream.write_all(format!("{start}content-length: 10\r\n\r\n12345").as_bytes()).await?;
            std::future::pending().await
        }
        "/header" => stream.write_all(format!("{start}authorization: leak\r\n\r\nhello").as_bytes()).await,
        _ => stream.write_all(format!("{start}\r\nhello").as_bytes()).await,
    }
}

/// Names with the answers that a look-up gets: one after the other, the last one again and again.
#[derive(Default)]
pub(crate) struct Names {
    answers: Mutex<BTreeMap<String, VecDeque<Vec<IpAddr>>>>,
    lookups: Mutex<Vec<String>>,
}

impl Names {
    pub(crate) fn with(self, name: &str, answers: &[&[&str]]) -> Self {
        let answers = answers.iter().map(|one| one.iter().map(|address| address.parse().unwrap()).collect());
        self.answers.lock().unwrap().insert(name.to_owned(), answers.collect());
        self
    }

    pub(crate) fn lookups(&self) -> Vec<String> {
        self.lookups.lock().unwrap().clone()
    }
}

#[async_trait]
impl Resolver for Names {
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        self.lookups.lock().unwrap().push(name.to_owned());
        let mut answers = self.answers.lock().unwrap();
        let queue = answers.get_mut(name).ok_or(io::ErrorKind::NotFound)?;
        let next = if queue.len() > 1 { queue.pop_front() } else { queue.front().cloned() };
        next.ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

//! TLS: the certificate and its key, read from files and read again when these change.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::SystemTime;

use dalsegno_workspace::TlsFiles;
use rustls::ServerConfig;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio_rustls::TlsAcceptor;

/// Why a certificate cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file cannot be read, or has something else in it.
    #[error("cannot read {what} in `{}`: {reason}", path.display())]
    File {
        /// What was looked for.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The two do not belong together, or are of a kind that is not known.
    #[error("the certificate in `{}` cannot be used with its private key: {source}", path.display())]
    Unfit {
        /// The file of the certificate.
        path: PathBuf,
        /// Why.
        source: rustls::Error,
    },
}

/// The certificate of a server.
#[derive(Debug)]
pub(crate) struct Tls {
    files: TlsFiles,
    current: Arc<Current>,
    config: Arc<ServerConfig>,
    /// How the files looked when they were read last.
    seen: Mutex<Option<Looks>>,
}

/// When two files were written, and how long they are.
type Looks = [Option<(SystemTime, u64)>; 2];

/// The certificate that new connections get. Those that are open keep theirs.
#[derive(Debug)]
struct Current(RwLock<Arc<CertifiedKey>>);

impl ResolvesServerCert for Current {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner)))
    }
}

impl Tls {
    /// Reads the files, whose paths are relative to a folder or absolute.
    ///
    /// # Errors
    /// When one of them cannot be read, or they do not belong together.
    pub(crate) fn open(folder: &Path, files: &TlsFiles) -> Result<Self, TlsError> {
        let files = TlsFiles {
            certificate: folder.join(&files.certificate),
            private_key: folder.join(&files.private_key),
        };
        let seen = looks(&files);
        let provider = Arc::new(ring::default_provider());
        let key = read(&files, &provider)?;
        let current = Arc::new(Current(RwLock::new(Arc::new(key))));
        let unfit = |source| TlsError::Unfit { path: files.certificate.clone(), source };
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(unfit)?
            .with_no_client_auth()
            .with_cert_resolver(Arc::clone(&current) as Arc<dyn ResolvesServerCert>);
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self { files, current, config: Arc::new(config), seen: Mutex::new(Some(seen)) })
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(Arc::clone(&self.config))
    }

    /// Reads the files again if they have changed. What cannot be used is told, and what was read before stays.
    pub(crate) fn look(&self) {
        let looks = looks(&self.files);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.replace(looks) == Some(looks) {
            return;
        }
        drop(seen);
        match read(&self.files, &ring::default_provider()) {
            Ok(key) => {
                *self.current.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(key);
                tracing::info!(path = %self.files.certificate.display(), "the certificate has changed");
            }
            Err(error) => {
                tracing::error!(%error, "the certificate has changed, and the one from before stays in use");
            }
        }
    }
}

fn looks(files: &TlsFiles) -> Looks {
    [&files.certificate, &files.private_key].map(|path| {
        let metadata = std::fs::metadata(path).ok()?;
        Some((metadata.modified().ok()?, metadata.len()))
    })
}

fn read(files: &TlsFiles, provider: &CryptoProvider) -> Result<CertifiedKey, TlsError> {
    let failed = |what, path: &Path, reason: String| TlsError::File { what, path: path.to_owned(), reason };
    let path = &files.certificate;
    let chain = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| failed("a certificate", path, words(&error)))?;
    if chain.is_empty() {
        return Err(failed("a certificate", path, "there is none: expected PEM".to_owned()));
    }
    let key = PrivateKeyDer::from_pem_file(&files.private_key)
        .map_err(|error| failed("a private key", &files.private_key, words(&error)))?;
    CertifiedKey::from_der(chain, key, provider)
        .map_err(|source| TlsError::Unfit { path: path.clone(), source })
}

/// What is wrong with a file of PEM, in words.
fn words(error: &rustls::pki_types::pem::Error) -> String {
    use rustls::pki_types::pem::Error;
    match error {
        Error::Io(error) if error.kind() == io::ErrorKind::NotFound => "there is no such file".to_owned(),
        Error::Io(error) => error.to_string(),
        Error::NoItemsFound => "there is none: expected PEM".to_owned(),
        error => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes a new certificate of its own, and returns it.
    fn write(folder: &Path) -> Vec<u8> {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        std::fs::write(folder.join("cert.pem"), made.cert.pem()).unwrap();
        std::fs::write(folder.join("key.pem"), made.signing_key.serialize_pem()).unwrap();
        made.cert.der().to_vec()
    }

    fn files() -> TlsFiles {
        TlsFiles { certificate: "cert.pem".into(), private_key: "key.pem".into() }
    }

    /// The certificate that a new connection gets.
    fn current(tls: &Tls) -> Vec<u8> {
        tls.current.0.read().unwrap().cert[0].to_vec()
    }

    #[test]
    fn a_certificate_that_has_changed_is_the_one_of_new_connections_and_one_that_is_spoiled_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let first = write(folder.path());
        let tls = Tls::open(folder.path(), &files()).unwrap();
        tls.look();
        assert_eq!(current(&tls), first);
        let second = write(folder.path());
        // A clock can stand still between two writes; the files then have other lengths, or are as good as the same.
        *tls.seen.lock().unwrap() = None;
        tls.look();
        assert_eq!(current(&tls), second);
        std::fs::write(folder.path().join("cert.pem"), "half a certifi").unwrap();
        tls.look();
        assert_eq!(current(&tls), second);
        std::fs::remove_file(folder.path().join("key.pem")).unwrap();
        tls.look();
        assert_eq!(current(&tls), second);
        let third = write(folder.path());
        *tls.seen.lock().unwrap() = None;
        tls.look();
        assert_eq!(current(&tls), third);
    }

    #[test]
    fn files_that_cannot_be_used_are_named_with_what_is_wrong() {
        let folder = tempfile::tempdir().unwrap();
        let wrong = |expected: &str| {
            let error = Tls::open(folder.path(), &files()).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        };
        wrong("cert.pem`: there is no such file");
        write(folder.path());
        std::fs::write(folder.path().join("key.pem"), "").unwrap();
        wrong("key.pem`: there is none: expected PEM");
        let other = tempfile::tempdir().unwrap();
        write(other.path());
        std::fs::copy(other.path().join("key.pem"), folder.path().join("key.pem")).unwrap();
        wrong("cannot be used with its private key");
        std::fs::write(folder.path().join("cert.pem"), "").unwrap();
        wrong("cert.pem`: there is none: expected PEM");
    }
}

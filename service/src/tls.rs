//! TLS: a certificate with its key, read from files, and the handshake of a connection.

use parhelia_store::name::step::Step;
use std::{
    io::{self, ErrorKind, Read},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use parhelia_store::name::NameExt as _;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time,
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        self, ServerConfig,
        crypto::ring,
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    },
    server::TlsStream,
};

use crate::{error::Error, log::say, own::open_regular};

/// A handshake takes no longer.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(10);
/// A longer file is no certificate and no key, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The files of a certificate, in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The certificate, followed by those of its issuers.
    pub certificate: PathBuf,
    /// The private key of the certificate.
    pub key: PathBuf,
}

/// A certificate that the service shows to whoever connects. Its clones show the same one, also after it was read again.
#[derive(Clone)]
pub struct Tls {
    files: CertificateFiles,
    acceptor: Arc<RwLock<TlsAcceptor>>,
}

impl Tls {
    /// Reads a certificate and its key, and checks that they belong together.
    pub fn of_files(files: &CertificateFiles) -> Result<Self, Error> {
        Ok(Tls { files: files.clone(), acceptor: Arc::new(RwLock::new(acceptor(files)?)) })
    }

    /// Reads them again, for connections that come from now on. Where they cannot be used, those that were read before stay.
    pub fn reload(&self) -> Result<(), Error> {
        let acceptor = acceptor(&self.files)?;
        *self.acceptor.write().unwrap_or_else(PoisonError::into_inner) = acceptor;
        Ok(())
    }

    /// Shakes hands, within ten seconds.
    pub async fn handshake<S: AsyncRead + AsyncWrite + Unpin>(&self, stream: S) -> io::Result<TlsStream<S>> {
        let acceptor = self.acceptor.read().unwrap_or_else(PoisonError::into_inner).clone();
        let shaken = time::timeout(HANDSHAKE_LIMIT, acceptor.accept(stream)).await;
        shaken.map_err(|_| io::Error::new(ErrorKind::TimedOut, "the handshake took too long"))?
    }
}

/// Takes connections with the certificate that is in its files now.
fn acceptor(files: &CertificateFiles) -> Result<TlsAcceptor, Error> {
    let CertificateFiles { certificate, key } = files;
    let (chain, private) = (chain(certificate)?, private_key(key)?);
    let provider = Arc::new(ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, private));
    let mut config = config.map_err(|e| refused(files, &e))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// The certificates of a file.
fn chain(path: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let next = "a file in PEM: the certificate of this service first, then those of its issuers";
    let next = || format!("Give {} {next}", Step::TlsCertificate);
    let failed = |why: String| Error::Certificate { what: "certificate", path: path.to_owned(), why, next: next() };
    let (bytes, _) = read(path).map_err(|e| failed(e.to_string()))?;
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    let chain = chain.map_err(|e| failed(format!("it is damaged: {e}")))?;
    if chain.is_empty() { Err(failed("it holds no certificate in PEM".into())) } else { Ok(chain) }
}

/// The private key of a file.
fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, Error> {
    let next = || format!("Give {} the certificate's key in PEM, without a passphrase", Step::TlsKey);
    let failed = |why: String| Error::Certificate { what: "key", path: path.to_owned(), why, next: next() };
    let (bytes, is_open) = read(path).map_err(|e| failed(e.to_string()))?;
    let key = PrivateKeyDer::from_pem_slice(&bytes).map_err(|e| match e {
        rustls::pki_types::pem::Error::NoItemsFound => failed("it holds no private key in PEM, or an encrypted one".into()),
        e => failed(format!("it is damaged: {e}")),
    })?;
    if is_open {
        say(&format!("others can read the key {}; `chmod 600` it", path.shown()));
    }
    Ok(key)
}

/// The reason why a certificate and a key, each of which could be read, are not used.
fn refused(CertificateFiles { certificate, key }: &CertificateFiles, error: &rustls::Error) -> Error {
    let of_key = |why: String, next: String| Error::Certificate { what: "key", path: key.clone(), why, next };
    match error {
        rustls::Error::InvalidCertificate(why) => Error::Certificate {
            what: "certificate",
            path: certificate.clone(),
            why: format!("it is damaged: {why}"),
            next: "Have it issued anew".into(),
        },
        rustls::Error::InconsistentKeys(_) => of_key(
            format!("it is not the key of the first certificate in {}", certificate.shown()),
            format!(
                "Give {} the key for which the certificate was issued, and put that certificate first in its file",
                Step::TlsKey
            ),
        ),
        e => {
            of_key(e.to_string(), "Use a key of a usual kind: ECDSA P-256 or P-384, Ed25519, or RSA of 2048 bits or more".into())
        }
    }
}

/// The content of a file, and true if users can read it who need not.
fn read(path: &Path) -> io::Result<(Vec<u8>, bool)> {
    let file = open_regular(path)?;
    let found = file.metadata()?;
    // Certificates of the whole machine are often kept with a group of their own, by root.
    let is_own = found.uid() == rustix::process::geteuid().as_raw();
    let is_open = found.mode() & 0o007 != 0 || is_own && found.mode() & 0o070 != 0;
    if found.len() > FILE_BYTES_MAX {
        return Err(io::Error::new(ErrorKind::InvalidData, format!("it is longer than {FILE_BYTES_MAX} bytes")));
    }
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok((bytes, is_open))
}

//! Serving certificates: files that are reloaded when they change, or a self-signed one.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use kernel::SharedClock;
use parking_lot::Mutex;
use rustls::crypto::aws_lc_rs;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

/// Files are checked for changes at most this often.
const CHECK_INTERVAL: Duration = Duration::from_secs(10);

/// Where the serving certificate comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Certificate {
    /// PEM files, reloaded when they change.
    Files {
        /// The certificate chain.
        certificate: PathBuf,
        /// Its private key.
        key: PathBuf,
    },
    /// A self-signed one, made at start, for clients that do not verify it.
    SelfSigned,
}

/// A certificate that cannot be used, with the flag that names it.
#[derive(Debug, thiserror::Error)]
#[error("{unusable}; correct --{flag}, or leave it out for a self-signed one")]
pub struct CertificateError {
    flag: &'static str,
    unusable: Unusable,
}

/// Why a certificate cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("serving certificate {what}: {cause}")]
struct Unusable {
    what: String,
    cause: String,
}

impl Unusable {
    fn new(what: impl std::fmt::Display, cause: impl std::fmt::Display) -> Self {
        Self {
            what: what.to_string(),
            cause: cause.to_string(),
        }
    }
}

/// A TLS acceptor with this certificate, which `flag` names.
pub(crate) fn acceptor(
    flag: &'static str,
    certificate: &Certificate,
    clock: SharedClock,
) -> Result<TlsAcceptor, CertificateError> {
    let config = server_config(certificate, clock);
    let config = config.map_err(|unusable| CertificateError { flag, unusable })?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

fn server_config(
    certificate: &Certificate,
    clock: SharedClock,
) -> Result<rustls::ServerConfig, Unusable> {
    let resolver: Arc<dyn ResolvesServerCert> = match certificate {
        Certificate::SelfSigned => Arc::new(Fixed(self_signed()?)),
        Certificate::Files { certificate, key } => {
            Arc::new(Reloading::new(certificate, key, clock)?)
        }
    };
    let provider = Arc::new(aws_lc_rs::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Unusable::new("protocol", error))?;
    Ok(config.with_no_client_auth().with_cert_resolver(resolver))
}

fn self_signed() -> Result<Arc<CertifiedKey>, Unusable> {
    let made =
        rcgen::generate_simple_self_signed(vec!["pontoon".to_owned(), "localhost".to_owned()]);
    let made = made.map_err(|error| Unusable::new("self-signed", error))?;
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der())
        .map_err(|e| Unusable::new("self-signed", e))?;
    certified(vec![made.cert.der().clone()], key, "self-signed")
}

fn certified(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    what: &str,
) -> Result<Arc<CertifiedKey>, Unusable> {
    let key =
        aws_lc_rs::sign::any_supported_type(&key).map_err(|error| Unusable::new(what, error))?;
    let pair = CertifiedKey::new(chain, key);
    // Certificate and key do not match while only one of the files has been replaced.
    match pair.keys_match() {
        Ok(()) | Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::Unknown)) => {
            Ok(Arc::new(pair))
        }
        Err(error) => Err(Unusable::new(what, error)),
    }
}

#[derive(Debug)]
struct Fixed(Arc<CertifiedKey>);

impl ResolvesServerCert for Fixed {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.clone())
    }
}

#[derive(Debug)]
struct Reloading {
    certificate: PathBuf,
    key: PathBuf,
    clock: SharedClock,
    loaded: Mutex<LoadedPair>,
}

/// A certificate and its key, as they were last loaded.
#[derive(Debug)]
struct LoadedPair {
    pair: Arc<CertifiedKey>,
    text: (Vec<u8>, Vec<u8>),
    /// When the files were last checked for changes.
    checked_at: Duration,
}

impl Reloading {
    fn new(certificate: &Path, key: &Path, clock: SharedClock) -> Result<Self, Unusable> {
        let text = read(certificate, key)?;
        let loaded = LoadedPair {
            pair: parse(&text, certificate)?,
            text,
            checked_at: clock.elapsed(),
        };
        Ok(Self {
            certificate: certificate.to_owned(),
            key: key.to_owned(),
            clock,
            loaded: Mutex::new(loaded),
        })
    }
}

impl ResolvesServerCert for Reloading {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current())
    }
}

impl Reloading {
    fn current(&self) -> Arc<CertifiedKey> {
        let mut loaded = self.loaded.lock();
        let now = self.clock.elapsed();
        if now.saturating_sub(loaded.checked_at) >= CHECK_INTERVAL {
            loaded.checked_at = now;
            // Files may be half-written. Then the loaded pair stays in use.
            match read(&self.certificate, &self.key) {
                Ok(text) if text != loaded.text => match parse(&text, &self.certificate) {
                    Ok(pair) => (loaded.pair, loaded.text) = (pair, text),
                    Err(error) => {
                        tracing::warn!(%error, "cannot load the new certificate; the old one stays in use");
                    }
                },
                Ok(_) => {}
                Err(error) => {
                    tracing::warn!(%error, "cannot load the new certificate; the old one stays in use");
                }
            }
        }
        loaded.pair.clone()
    }
}

fn read(certificate: &Path, key: &Path) -> Result<(Vec<u8>, Vec<u8>), Unusable> {
    let file =
        |path: &Path| std::fs::read(path).map_err(|error| Unusable::new(path.display(), error));
    Ok((file(certificate)?, file(key)?))
}

fn parse((chain, key): &(Vec<u8>, Vec<u8>), path: &Path) -> Result<Arc<CertifiedKey>, Unusable> {
    let what = path.display().to_string();
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(chain).collect();
    let chain = chain.map_err(|error| Unusable::new(&what, error))?;
    if chain.is_empty() {
        return Err(Unusable::new(&what, "the file contains no certificate"));
    }
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| Unusable::new(&what, error))?;
    certified(chain, key, &what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernel::TestClock;

    fn write(folder: &Path, certificate: &str, key: &str) {
        std::fs::write(folder.join("tls.crt"), certificate).unwrap();
        std::fs::write(folder.join("tls.key"), key).unwrap();
    }

    fn pair() -> (String, String, Vec<u8>) {
        let made = rcgen::generate_simple_self_signed(vec!["a".to_owned()]).unwrap();
        (
            made.cert.pem(),
            made.signing_key.serialize_pem(),
            made.cert.der().to_vec(),
        )
    }

    #[test]
    fn a_renewed_certificate_is_served_and_a_half_written_one_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let (old, old_key, old_der) = pair();
        let (new, new_key, new_der) = pair();
        write(folder.path(), &old, &old_key);
        let clock = Arc::new(TestClock::new());
        let (crt, key) = (folder.path().join("tls.crt"), folder.path().join("tls.key"));
        let served = Reloading::new(&crt, &key, clock.clone()).unwrap();
        let der = || served.current().cert[0].to_vec();

        write(folder.path(), &new[..100], &new_key);
        clock.advance(CHECK_INTERVAL);
        assert_eq!(der(), old_der);
        write(folder.path(), &new, &old_key);
        clock.advance(CHECK_INTERVAL);
        assert_eq!(der(), old_der, "the key file is still the old one");
        write(folder.path(), &new, &new_key);
        assert_eq!(
            der(),
            old_der,
            "the files are not checked before the interval ends"
        );
        clock.advance(CHECK_INTERVAL);
        assert_eq!(der(), new_der);
    }

    #[test]
    fn a_missing_certificate_is_named_at_start() {
        let files = Certificate::Files {
            certificate: "nowhere/tls.crt".into(),
            key: "nowhere/tls.key".into(),
        };
        let Err(error) = acceptor("web-cert-path", &files, Arc::new(TestClock::new())) else {
            panic!("it was accepted")
        };
        assert!(
            error.to_string().contains("nowhere/tls.crt")
                && error.to_string().contains("--web-cert-path")
        );
    }
}

//! Certificates, keys and tokens.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kernel::Redacted;
use rustls::RootCertStore;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::{PemObject, SectionKind};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

use super::section::Section;
use crate::{Login, RefusedKubeconfig};

const CA: &str = "certificate-authority-data";
const TOKEN: &str = "token";
const CERTIFICATE: &str = "client-certificate-data";
const KEY: &str = "client-key-data";

const CA_INSTEAD: &str = "write the certificates of the server's authority there, PEM in base64";
const CERTIFICATE_INSTEAD: &str = "write the certificates of the login there, PEM in base64";
const KEY_INSTEAD: &str = "write one private key without a passphrase there, PEM in base64";

/// The certificates that may sign the server's, each as DER. There is at least one.
pub(super) fn authorities(cluster: &Section<'_>) -> Result<Vec<Vec<u8>>, RefusedKubeconfig> {
    let pem = decoded(cluster, CA, cluster.required(CA, CA_INSTEAD)?, CA_INSTEAD)?;
    let certificates = certificates(cluster, CA, &pem, CA_INSTEAD)?;
    let mut store = RootCertStore::empty();
    for certificate in &certificates {
        let added = store.add(certificate.clone());
        added.map_err(|_| cluster.refused(CA, "has an invalid certificate", CA_INSTEAD))?;
    }
    let certificates = certificates.iter().map(|der| der.to_vec());
    Ok(certificates.collect())
}

/// | token | certificate | key | login                                    |
/// |-------|-------------|-----|------------------------------------------|
/// | yes   | no          | no  | the token                                |
/// | no    | yes         | yes | the certificate                          |
/// | no    | no          | no  | refused: none                            |
/// | no    | yes         | no  | refused: the key is missing              |
/// | no    | no          | yes | refused: the certificate is missing      |
/// | yes   | yes         | any | refused: the server would choose one     |
/// | yes   | any         | yes | refused: the server would choose one     |
pub(super) fn login(user: &Section<'_>) -> Result<Login, RefusedKubeconfig> {
    const ONE: &str = "write an inline token, or client-certificate-data with client-key-data";
    let found = (user.text(TOKEN)?, user.text(CERTIFICATE)?, user.text(KEY)?);
    match found {
        (Some(token), None, None) => by_token(user, token),
        (None, Some(certificate), Some(key)) => by_certificate(user, certificate, key),
        (None, None, None) => Err(user.refused("", "has no login", ONE)),
        (None, Some(_), None) => Err(user.refused(KEY, "is missing", KEY_INSTEAD)),
        (None, None, Some(_)) => Err(user.refused(CERTIFICATE, "is missing", CERTIFICATE_INSTEAD)),
        (Some(_), _, _) => Err(user.refused(
            TOKEN,
            "is there besides a client certificate",
            "keep one of the two, because the server would choose between them",
        )),
    }
}

fn by_token(user: &Section<'_>, token: &str) -> Result<Login, RefusedKubeconfig> {
    // Anything else would not fit into a header.
    if token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Ok(Login::Token(Redacted::new(token.to_owned())));
    }
    let why = "has a space, a line break or a character that is not ASCII";
    Err(user.refused(TOKEN, why, "write the token alone, without base64"))
}

fn by_certificate(
    user: &Section<'_>,
    certificate: &str,
    key: &str,
) -> Result<Login, RefusedKubeconfig> {
    let chain = decoded(user, CERTIFICATE, certificate, CERTIFICATE_INSTEAD)?;
    let certificates = certificates(user, CERTIFICATE, &chain, CERTIFICATE_INSTEAD)?;
    let key = decoded(user, KEY, key, KEY_INSTEAD)?;
    let unusable = |why| user.refused(KEY, why, KEY_INSTEAD);
    let keys = PrivateKeyDer::pem_slice_iter(&key).collect::<Result<Vec<_>, _>>();
    let mut keys = keys.map_err(|_| unusable("is not PEM"))?;
    let (Some(private), true) = (keys.pop(), keys.is_empty()) else {
        return Err(unusable("is not exactly one private key"));
    };
    // The checks of a TLS client, so that the refusal names the field.
    let pair = CertifiedKey::from_der(certificates, private, &aws_lc_rs::default_provider());
    pair.map_err(|_| unusable("is not a usable key of the client certificate"))?;
    Ok(Login::Certificate {
        chain: Redacted::new(chain),
        key: Redacted::new(key),
    })
}

/// `text` without base64. Line breaks in it are of no meaning.
fn decoded(
    section: &Section<'_>,
    field: &str,
    text: &str,
    instead: &'static str,
) -> Result<Vec<u8>, RefusedKubeconfig> {
    let text: String = text.split_ascii_whitespace().collect();
    let decoded = STANDARD.decode(text);
    decoded.map_err(|_| section.refused(field, "is not base64", instead))
}

/// The certificates in `pem`, at least one, and nothing else.
fn certificates(
    section: &Section<'_>,
    field: &str,
    pem: &[u8],
    instead: &'static str,
) -> Result<Vec<CertificateDer<'static>>, RefusedKubeconfig> {
    let refused = |why| Err(section.refused(field, why, instead));
    let mut certificates = Vec::new();
    for part in <(SectionKind, Vec<u8>)>::pem_slice_iter(pem) {
        match part {
            Ok((SectionKind::Certificate, der)) => certificates.push(CertificateDer::from(der)),
            Ok(_) => return refused("has something other than certificates"),
            Err(_) => return refused("is not PEM"),
        }
    }
    if certificates.is_empty() {
        return refused("has no certificate");
    }
    Ok(certificates)
}

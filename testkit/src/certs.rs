//! The certificates and keys of control planes.

use std::{fmt, path::PathBuf, sync::Arc};

use anyhow::Result;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};

use crate::scratch::Scratch;

/// What a cluster's identities are signed with: a certificate authority, and the key of the tokens of
/// ServiceAccounts. Clones are the same authority, so several clusters can have one.
#[derive(Clone)]
pub struct Authority(Arc<Keys>);

struct Keys {
    issuer: CertifiedIssuer<'static, KeyPair>,
    tokens: KeyPair,
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Authority")
    }
}

/// A certificate and its key, both PEM.
pub(crate) struct Identity {
    pub(crate) cert: String,
    pub(crate) key: String,
}

/// The files of the API server.
pub(crate) struct Files {
    pub(crate) authority: PathBuf,
    pub(crate) serving_cert: PathBuf,
    pub(crate) serving_key: PathBuf,
    /// Signs the tokens of service accounts.
    pub(crate) token_key: PathBuf,
    /// Verifies them.
    pub(crate) token_public: PathBuf,
}

impl Authority {
    /// A new one with random keys.
    pub fn new() -> Result<Self> {
        let mut params = CertificateParams::default();
        params
            .distinguished_name
            .push(DnType::CommonName, "testkit");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![
            KeyUsagePurpose::KeyCertSign,
            KeyUsagePurpose::DigitalSignature,
        ];
        Ok(Self(Arc::new(Keys {
            issuer: CertifiedIssuer::self_signed(params, KeyPair::generate()?)?,
            tokens: KeyPair::generate()?,
        })))
    }

    pub(crate) fn pem(&self) -> String {
        self.0.issuer.pem()
    }

    /// A client certificate: `group` is what RBAC sees besides the user's name.
    pub(crate) fn client(&self, user: &str, group: Option<&str>) -> Result<Identity> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, user);
        if let Some(group) = group {
            params
                .distinguished_name
                .push(DnType::OrganizationName, group);
        }
        self.issue(params, ExtendedKeyUsagePurpose::ClientAuth)
    }

    /// A certificate for a server of these names.
    pub(crate) fn server<const N: usize>(&self, names: [&str; N]) -> Result<Identity> {
        let params = CertificateParams::new(names.map(str::to_owned))?;
        self.issue(params, ExtendedKeyUsagePurpose::ServerAuth)
    }

    /// Writes what an API server on loopback needs.
    pub(crate) fn serving_files(&self, scratch: &Scratch) -> Result<Files> {
        let serving = self.server(["127.0.0.1", "localhost", "kubernetes.default.svc"])?;
        let tokens = &self.0.tokens;
        Ok(Files {
            authority: scratch.write("ca.crt", self.pem())?,
            serving_cert: scratch.write("serving.crt", serving.cert)?,
            serving_key: scratch.write("serving.key", serving.key)?,
            token_key: scratch.write("tokens.key", tokens.serialize_pem())?,
            token_public: scratch.write("tokens.pub", tokens.public_key_pem())?,
        })
    }

    fn issue(
        &self,
        mut params: CertificateParams,
        usage: ExtendedKeyUsagePurpose,
    ) -> Result<Identity> {
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![usage];
        let key = KeyPair::generate()?;
        let cert = params.signed_by(&key, &self.0.issuer)?;
        Ok(Identity {
            cert: cert.pem(),
            key: key.serialize_pem(),
        })
    }
}

//! The certificates and keys of one control plane.

use std::path::PathBuf;

use anyhow::Result;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};

use crate::scratch::Scratch;

/// A certificate authority that lives as long as its control plane.
pub(crate) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
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
    pub(crate) fn new() -> Result<Self> {
        let mut params = CertificateParams::default();
        params
            .distinguished_name
            .push(DnType::CommonName, "testkit");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![
            KeyUsagePurpose::KeyCertSign,
            KeyUsagePurpose::DigitalSignature,
        ];
        Ok(Self {
            issuer: CertifiedIssuer::self_signed(params, KeyPair::generate()?)?,
        })
    }

    pub(crate) fn pem(&self) -> String {
        self.issuer.pem()
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
        let tokens = KeyPair::generate()?;
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
        let cert = params.signed_by(&key, &self.issuer)?;
        Ok(Identity {
            cert: cert.pem(),
            key: key.serialize_pem(),
        })
    }
}

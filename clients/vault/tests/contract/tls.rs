//! A listener with a private CA that requires a client certificate and a server name.

use std::sync::Arc;
use std::time::Duration;

use kernel::{Class, RealClock};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};
use rstest::rstest;
use serde_json::json;
use testkit::child::{Child, Spec};
use testkit::port::Port;
use testkit::scratch::Scratch;
use testkit::tools::{self, Tool};
use testkit::{Result, eventually};
use vault_client::{Client, Error, Secret, ServerState, Tls};

use crate::world::{Seen, config, parts, with_token};

const NAME: &str = "vault.internal";

/// A private certificate authority.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub(crate) fn new() -> Self {
        testkit::install_crypto();
        let mut params = CertificateParams::default();
        params
            .distinguished_name
            .push(DnType::CommonName, "private");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    /// Certificate and key of the server `name`.
    pub(crate) fn server(&self, name: &str) -> (String, String) {
        let params = CertificateParams::new([name.to_owned()]).unwrap();
        self.issue(params, ExtendedKeyUsagePurpose::ServerAuth)
    }

    fn client(&self) -> (String, String) {
        let params = CertificateParams::default();
        self.issue(params, ExtendedKeyUsagePurpose::ClientAuth)
    }

    fn issue(
        &self,
        mut params: CertificateParams,
        usage: ExtendedKeyUsagePurpose,
    ) -> (String, String) {
        params.extended_key_usages = vec![usage];
        let key = KeyPair::generate().unwrap();
        let cert = params.signed_by(&key, &self.0).unwrap();
        (cert.pem(), key.serialize_pem())
    }
}

/// A Vault that listens with TLS as [`NAME`] and was never initialised.
struct Listening {
    _server: Child,
    _scratch: Scratch,
    port: Port,
    authority: Authority,
    client: (String, String),
}

impl Listening {
    async fn start() -> Result<Self> {
        let scratch = Scratch::new("vault-tls")?;
        let port = Port::free()?;
        let authority = Authority::new();
        let (cert, key) = authority.server(NAME);
        let listener = json!({
            "address": port.address(),
            "tls_cert_file": scratch.write("tls.crt", cert)?,
            "tls_key_file": scratch.write("tls.key", key)?,
            "tls_client_ca_file": scratch.write("ca.crt", authority.pem())?,
            "tls_require_and_verify_client_cert": true,
        });
        let vault = json!({
            "storage": { "file": { "path": scratch.path().join("store") } },
            "listener": { "tcp": listener },
            "disable_mlock": true,
        });
        let vault = scratch.write("vault.json", vault.to_string())?;
        let server = Child::start(&Spec {
            name: "vault".to_owned(),
            program: tools::find(Tool::Vault)?,
            args: vec![
                "server".into(),
                format!("-config={}", vault.display()).into(),
            ],
            env: vec![("HOME".to_owned(), scratch.path().into())],
            dir: scratch.path().to_owned(),
            ..Spec::default()
        })?;
        let client = authority.client();
        let listening = Self {
            _server: server,
            _scratch: scratch,
            port,
            authority,
            client,
        };
        let probe = listening.client(listening.tls());
        eventually("Vault listens", async || Ok(probe.health().await.ok())).await?;
        Ok(listening)
    }

    /// All that the listener requires.
    fn tls(&self) -> Tls {
        let (cert, key) = self.client.clone();
        Tls {
            skip_verify: false,
            ca_pem: Some(self.authority.pem()),
            client_cert_pem: Some(Secret::new(cert)),
            client_key_pem: Some(Secret::new(key)),
            server_name: Some(NAME.to_owned()),
        }
    }

    fn client(&self, tls: Tls) -> Client {
        let address = format!("https://{}", self.port.address());
        let mut config = config("f", &address, with_token("hvs.x"));
        config.settings.tls = tls;
        config.settings.timeout = Duration::from_secs(5);
        let clock = Arc::new(RealClock::new());
        Client::new(config, parts(clock, Arc::<Seen>::default())).unwrap()
    }
}

#[tokio::test]
async fn a_private_ca_a_client_certificate_and_a_name_work() -> Result<()> {
    let listening = Listening::start().await?;
    let client = listening.client(listening.tls());
    let health = client.health().await?;
    assert_eq!(health.state, ServerState::Uninitialised);
    let error = health.usable("x").unwrap_err();
    assert!(matches!(error, Error::Uninitialised { .. }));

    // A call fails with the same error.
    let error = client.read_policy("p").await.unwrap_err();
    assert_eq!(error.class(), Class::Sealed, "{error:?}");
    Ok(())
}

#[rstest]
#[case::without_a_certificate(|tls: &mut Tls| {
    tls.client_cert_pem = None;
    tls.client_key_pem = None;
})]
#[case::with_a_certificate_of_someone_else(|tls: &mut Tls| {
    let (cert, key) = Authority::new().client();
    tls.client_cert_pem = Some(Secret::new(cert));
    tls.client_key_pem = Some(Secret::new(key));
})]
#[case::with_another_authority(|tls: &mut Tls| tls.ca_pem = Some(Authority::new().pem()))]
#[case::with_the_systems_authorities(|tls: &mut Tls| tls.ca_pem = None)]
#[case::under_another_name(|tls: &mut Tls| tls.server_name = Some("other.internal".to_owned()))]
#[case::by_its_address(|tls: &mut Tls| tls.server_name = None)]
#[tokio::test]
async fn vault_cannot_be_reached(#[case] change: fn(&mut Tls)) -> Result<()> {
    let listening = Listening::start().await?;
    let mut tls = listening.tls();
    change(&mut tls);
    let error = listening.client(tls).health().await.unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }), "{error:?}");
    Ok(())
}

#[tokio::test]
async fn skipping_verification_accepts_any_certificate() -> Result<()> {
    let listening = Listening::start().await?;
    let tls = Tls {
        skip_verify: true,
        ca_pem: None,
        server_name: None,
        ..listening.tls()
    };
    listening.client(tls).health().await?;
    Ok(())
}

//! A Vault that listens with a private authority, under a name, for those who have a certificate.

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};
use reqwest::{Client, Method};
use serde_json::{Value, json};
use testkit::child::{Child, Spec};
use testkit::port::Port;
use testkit::scratch::Scratch;
use testkit::tools::{self, Tool};
use testkit::{Result, eventually};

/// The only name its certificate is for.
pub(crate) const NAME: &str = "vault.internal";

/// An authority that nobody else knows.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub(crate) fn new() -> Self {
        testkit::install_crypto();
        let mut params = CertificateParams::default();
        let name = &mut params.distinguished_name;
        name.push(DnType::CommonName, "private");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    /// Certificate and key of a caller.
    pub(crate) fn client(&self) -> (String, String) {
        let params = CertificateParams::default();
        self.issue(params, ExtendedKeyUsagePurpose::ClientAuth)
    }

    fn server(&self) -> (String, String) {
        let params = CertificateParams::new([NAME.to_owned()]).unwrap();
        self.issue(params, ExtendedKeyUsagePurpose::ServerAuth)
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

/// The Vault. Its administrator has a listener of their own, without TLS.
pub(crate) struct Listening {
    _server: Child,
    _scratch: Scratch,
    port: Port,
    back_door: Port,
    http: Client,
    root: String,
    pub(crate) authority: Authority,
}

impl Listening {
    pub(crate) async fn start() -> Result<Self> {
        let scratch = Scratch::new("vault-tls")?;
        let (port, back_door) = (Port::free()?, Port::free()?);
        let authority = Authority::new();
        let (cert, key) = authority.server();
        let front = json!({
            "address": port.address(),
            "tls_cert_file": scratch.write("tls.crt", cert)?,
            "tls_key_file": scratch.write("tls.key", key)?,
            "tls_client_ca_file": scratch.write("ca.crt", authority.pem())?,
            "tls_require_and_verify_client_cert": true,
        });
        let back = json!({"address": back_door.address(), "tls_disable": true});
        let vault = json!({
            "storage": {"file": {"path": scratch.path().join("store")}},
            "listener": [{"tcp": front}, {"tcp": back}],
            "api_addr": format!("https://{}", port.address()),
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
        let mut listening = Self {
            _server: server,
            _scratch: scratch,
            port,
            back_door,
            http: Client::new(),
            root: String::new(),
            authority,
        };
        listening.open().await?;
        Ok(listening)
    }

    /// Initialises and unseals it.
    async fn open(&mut self) -> Result<()> {
        let one = json!({"secret_shares": 1, "secret_threshold": 1});
        let made = eventually("Vault is initialised", async || {
            // Before it listens, nobody answers.
            let Ok((_, made)) = self.ask(Method::PUT, "sys/init", one.clone()).await else {
                return Ok(None);
            };
            Ok(made["root_token"].is_string().then_some(made))
        })
        .await?;
        let root = made["root_token"].as_str().unwrap_or_default();
        root.clone_into(&mut self.root);
        let key = json!({"key": made["keys"][0]});
        self.ask(Method::PUT, "sys/unseal", key).await?;
        eventually("Vault is active", async || {
            let (status, _) = self.ask(Method::GET, "sys/health", json!({})).await?;
            Ok((status == 200).then_some(()))
        })
        .await
    }

    pub(crate) fn address(&self) -> String {
        format!("https://{}", self.port.address())
    }

    /// Lets the operator log in and write policies; its role and what it has to show.
    pub(crate) async fn let_in(&self) -> Result<(String, String)> {
        let grants = r#"path "sys/policies/acl/*" { capabilities = ["create", "read", "update"] }"#;
        let role = json!({"token_policies": ["operator"], "token_ttl": "1h"});
        for (path, body) in [
            ("sys/policies/acl/operator", json!({"policy": grants})),
            ("sys/auth/approle", json!({"type": "approle"})),
            ("auth/approle/role/operator", role),
        ] {
            let (status, answer) = self.ask(Method::POST, path, body).await?;
            assert!(status < 300, "{path}: {answer}");
        }
        let path = "auth/approle/role/operator/role-id";
        let (_, id) = self.ask(Method::GET, path, json!({})).await?;
        let path = "auth/approle/role/operator/secret-id";
        let (_, secret) = self.ask(Method::POST, path, json!({})).await?;
        let text = |answer: &Value| answer.as_str().unwrap_or_default().to_owned();
        Ok((
            text(&id["data"]["role_id"]),
            text(&secret["data"]["secret_id"]),
        ))
    }

    /// Whether the token of this accessor lives.
    pub(crate) async fn knows(&self, accessor: &str) -> Result<bool> {
        let (path, body) = ("auth/token/lookup-accessor", json!({"accessor": accessor}));
        let (status, _) = self.ask(Method::POST, path, body).await?;
        Ok(status == 200)
    }

    async fn ask(&self, method: Method, path: &str, body: Value) -> Result<(u16, Value)> {
        let url = format!("http://{}/v1/{path}", self.back_door.address());
        let mut asked = self.http.request(method.clone(), url);
        if method != Method::GET {
            asked = asked.json(&body);
        }
        let answer = asked.header("X-Vault-Token", &self.root).send().await?;
        let (status, body) = (answer.status().as_u16(), answer.bytes().await?);
        Ok((status, serde_json::from_slice(&body).unwrap_or_default()))
    }
}

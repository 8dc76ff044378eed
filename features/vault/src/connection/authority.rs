//! Whom Vault is to trust as our API server.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// The certificates by which we trust the API server ourselves, as PEM.
pub(super) async fn ca_pem() -> Option<String> {
    let config = kube::Config::infer().await.ok()?;
    let pem = |der: &Vec<u8>| {
        let body = STANDARD.encode(der);
        let lines: Vec<&str> = body
            .as_bytes()
            .chunks(64)
            .map(|line| std::str::from_utf8(line).expect("base64 is ASCII"))
            .collect();
        format!(
            "-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n",
            lines.join("\n")
        )
    };
    Some(config.root_cert?.iter().map(pem).collect())
}

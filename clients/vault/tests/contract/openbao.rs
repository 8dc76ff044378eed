//! OpenBao: its health answer has no field for namespaces, so the version decides.

use std::net::TcpListener;
use std::sync::Arc;

use kernel::RealClock;
use rstest::rstest;
use testkit::Result;
use vault_client::{Client, ServerState};

use crate::logins::ok_response;
use crate::redirects::answering;
use crate::world::{Seen, config, parts, with_token};

/// The health answer of an OpenBao server, from its documentation.
fn health(version: &str) -> String {
    format!(
        r#"{{"initialized":true,"sealed":false,"standby":false,"performance_standby":false,
            "replication_performance_mode":"disabled","replication_dr_mode":"disabled",
            "server_time_utc":1748000000,"version":"{version}","cluster_name":"bao-cluster",
            "cluster_id":"5d4f8b5c-0b9b-4d1f-8f52-2a1f4b4f9a10"}}"#
    )
}

#[rstest]
#[case::with_namespaces("2.3.1", true)]
#[case::before_it_had_any("2.2.0", false)]
#[tokio::test]
async fn openbao_works_like_vault_with_namespaces_by_version(
    #[case] version: &str,
    #[case] has_namespaces: bool,
) -> Result<()> {
    testkit::install_crypto();
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = format!("http://{}", listener.local_addr()?);
    let answer = health(version);
    let server = answering(listener, 3, move |request| {
        if request.contains("/sys/health") {
            ok_response(&answer)
        } else if request.contains("/lookup-self") {
            ok_response(
                r#"{"data":{"accessor":"acc","ttl":0,"renewable":false,"expire_time":null}}"#,
            )
        } else {
            ok_response(
                r#"{"data":{"name":"p","policy":"path \"a\" { capabilities = [\"scan\"] }"}}"#,
            )
        }
    });
    let clock = Arc::new(RealClock::new());
    let config = config("f", &address, with_token("s.bao"));
    let client = Client::new(config, parts(clock, Arc::<Seen>::default()))?;

    let health = client.health().await?;
    assert_eq!(health.state, ServerState::Active);
    assert_eq!(health.version, version);
    health.usable(&address)?;
    assert_eq!(health.takes_namespace("team").is_ok(), has_namespaces);
    let policy = client.in_namespace("team").read_policy("p").await?;
    assert!(policy.is_some_and(|text| text.contains("scan")));

    let heads = server.join().unwrap();
    assert!(heads[0].starts_with("get /v1/sys/health"), "{}", heads[0]);
    assert!(heads[2].starts_with("get /v1/sys/policies/acl/p "));
    assert!(heads[2].contains("x-vault-namespace: team\r\n"));
    Ok(())
}

use api::vault::{names as words, reasons};
use http::{Method, StatusCode};
use rstest::rstest;
use serde_json::{Value, json};
use testkit::fault_proxy::{AnyMethod, Rule};

use super::*;
use crate::fixture::Fixture;

const DATA: &str = "/v1/secret/data/*";
const METADATA: &str = "/v1/secret/metadata/*";

/// A Vault that has no secret yet, and that answers this to a write.
async fn answers(status: StatusCode, body: &'static str) -> Fixture {
    let kv = r#"{"data": {"type": "kv", "options": {"version": "2"}}}"#;
    let engine = Rule::on(Method::GET, "/v1/sys/internal/ui/mounts/secret");
    let metadata = Rule::on(Method::GET, METADATA);
    Fixture::new([
        engine.status(StatusCode::OK, kv),
        metadata.status(StatusCode::NOT_FOUND, r#"{"errors": []}"#),
        Rule::on(Method::POST, DATA).status(status, body),
    ])
    .await
}

/// The status of a seed whose write is announced.
fn announced() -> Value {
    json!({"intent": {"kind": "create", "vaultPath": "secret/data/team-a/seed"}})
}

fn seed(generation: i64, status: Value) -> Value {
    json!({
        "metadata": {
            "name": "seed", "namespace": "team-a", "uid": "u", "resourceVersion": "1",
            "generation": generation, "finalizers": [words::FINALIZER],
        },
        "spec": {"connectionRef": "c", "path": "secret/data/team-a/seed", "data": {"a": "b"}},
        "status": status,
    })
}

async fn attempted(fixture: &Fixture, json: Value) -> (Result<(), Stop>, bool) {
    let mut pass = fixture.pass(&fixture.ctx.caches.seeds, &json).await;
    let seed: VaultKVSecret = serde_json::from_value(json).unwrap();
    let mut told = Told::default();
    let ended = attempt(&seed, &fixture.ctx, &mut pass, &mut told).await;
    (ended, told.refused)
}

#[tokio::test]
async fn what_vault_finds_invalid_is_not_asked_again_until_an_edit() {
    let fixture = answers(StatusCode::BAD_REQUEST, r#"{"errors": ["no"]}"#).await;
    let is_invalid = |ended: Result<(), Stop>| {
        let Err(Stop::Blocked { reason }) = ended else {
            panic!("{ended:?}");
        };
        assert_eq!(reason.code, reasons::VALIDATION_FAILED);
    };
    let (ended, refused) = attempted(&fixture, seed(1, announced())).await;
    is_invalid(ended);
    assert!(refused);

    let calls = || fixture.vault.count(AnyMethod::any(), "/v1/*");
    let before = calls();
    let (ended, _) = attempted(&fixture, seed(1, json!({}))).await;
    is_invalid(ended);
    assert_eq!(calls(), before, "nothing is asked");

    let (ended, _) = attempted(&fixture, seed(2, announced())).await;
    is_invalid(ended);
    assert_eq!(
        fixture.vault.count(Method::POST, DATA),
        2,
        "an edit is tried"
    );
}

const SEALED: &str = r#"{"errors": ["Vault is sealed"]}"#;

#[rstest] //     answer to the write                         refused, reads of metadata
#[case::denied(StatusCode::FORBIDDEN, "", true, 2)]
#[case::missing(StatusCode::NOT_FOUND, "", true, 1)]
#[case::behind(StatusCode::PRECONDITION_FAILED, "", true, 1)]
#[case::throttled(StatusCode::TOO_MANY_REQUESTS, "", true, 1)]
#[case::sealed(StatusCode::SERVICE_UNAVAILABLE, SEALED, true, 1)]
#[case::broken(StatusCode::BAD_GATEWAY, "", false, 1)]
#[tokio::test]
async fn only_a_write_that_may_have_happened_stays_announced(
    #[case] status: StatusCode,
    #[case] body: &'static str,
    #[case] expected: bool,
    #[case] reads: usize,
) {
    let fixture = answers(status, body).await;
    let (ended, refused) = attempted(&fixture, seed(1, announced())).await;
    assert!(ended.is_err());
    assert_eq!(refused, expected);
    assert_eq!(fixture.vault.count(Method::POST, DATA), 1);
    // Only a refusal that may mean that somebody was faster is followed by a read.
    assert_eq!(fixture.vault.count(Method::GET, METADATA), reads);
}

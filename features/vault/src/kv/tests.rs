use api::vault::{names as words, reasons};
use http::{Method, StatusCode};
use serde_json::{Value, json};
use testkit::fault_proxy::{AnyMethod, Rule};

use super::*;
use crate::fixture::Fixture;

const DATA: &str = "/v1/secret/data/*";

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
    let kv = r#"{"data": {"type": "kv", "options": {"version": "2"}}}"#;
    let engine = Rule::on(Method::GET, "/v1/sys/internal/ui/mounts/secret");
    let metadata = Rule::on(Method::GET, "/v1/secret/metadata/*");
    let fixture = Fixture::new([
        engine.status(StatusCode::OK, kv),
        metadata.status(StatusCode::NOT_FOUND, r#"{"errors": []}"#),
        Rule::on(Method::POST, DATA).status(StatusCode::BAD_REQUEST, r#"{"errors": ["no"]}"#),
    ])
    .await;
    let announced = json!({"intent": {"kind": "create", "vaultPath": "secret/data/team-a/seed"}});
    let is_invalid = |ended: Result<(), Stop>| {
        let Err(Stop::Blocked { reason }) = ended else {
            panic!("{ended:?}");
        };
        assert_eq!(reason.code, reasons::VALIDATION_FAILED);
    };
    let (ended, refused) = attempted(&fixture, seed(1, announced.clone())).await;
    is_invalid(ended);
    assert!(refused);

    let calls = || fixture.vault.count(AnyMethod::any(), "/v1/*");
    let before = calls();
    let (ended, _) = attempted(&fixture, seed(1, json!({}))).await;
    is_invalid(ended);
    assert_eq!(calls(), before, "nothing is asked");

    let (ended, _) = attempted(&fixture, seed(2, announced)).await;
    is_invalid(ended);
    assert_eq!(
        fixture.vault.count(Method::POST, DATA),
        2,
        "an edit is tried"
    );
}

//! Authentication of requests, and refusals.

use rstest::rstest;
use serde_json::json;

use crate::world::{Key, TEST_ACCOUNT, World, authorization, document};

#[tokio::test]
async fn an_unsigned_query_request_is_refused_in_xml() {
    let world = World::start().await;
    let request = world.sts_request(None, "GetCallerIdentity", &[]);
    let (status, answer) = document(request.send().await.unwrap()).await;
    assert_eq!(
        (status, answer.text("Code").as_str()),
        (403, "MissingAuthenticationToken")
    );
    assert_eq!(answer.text("Type"), "Sender");
    assert_eq!(
        answer.namespace().as_deref(),
        Some("https://sts.amazonaws.com/doc/2011-06-15/")
    );
    assert!(!answer.text("RequestId").is_empty());
}

#[tokio::test]
async fn an_unsigned_json_request_is_refused_in_json() {
    let world = World::start().await;
    let request = world
        .http
        .post(world.emulator.url())
        .header("x-amz-target", "Probe.List");
    let answer = request
        .header("content-type", "application/x-amz-json-1.1")
        .send()
        .await
        .unwrap();
    assert_eq!(answer.status(), 400);
    assert_eq!(
        answer.headers()["x-amzn-errortype"],
        "MissingAuthenticationTokenException"
    );
    let body: serde_json::Value = answer.json().await.unwrap();
    assert_eq!(body["__type"], "MissingAuthenticationTokenException");
}

#[rstest]
#[case::no_signature(
    "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/sts/aws4_request, SignedHeaders=host",
    "Signature"
)]
#[case::short_scope(
    "AWS4-HMAC-SHA256 Credential=test/sts, SignedHeaders=host, Signature=0",
    "slash-delimited"
)]
#[tokio::test]
async fn a_malformed_signature_is_refused_with_the_reason(
    #[case] header: &str,
    #[case] wrong: &str,
) {
    let world = World::start().await;
    let request = world
        .sts_request(None, "GetCallerIdentity", &[])
        .header("authorization", header);
    let (status, answer) = document(request.send().await.unwrap()).await;
    assert_eq!(
        (status, answer.text("Code").as_str()),
        (400, "IncompleteSignature")
    );
    assert!(answer.text("Message").contains(wrong), "{answer:?}");
}

#[tokio::test]
async fn a_signature_without_a_date_is_incomplete() {
    let world = World::start().await;
    let request = world
        .sts_request(None, "GetCallerIdentity", &[])
        .header("authorization", authorization("test", "sts"));
    let (_, answer) = document(request.send().await.unwrap()).await;
    assert_eq!(answer.text("Code"), "IncompleteSignature");
    assert!(answer.text("Message").contains("X-Amz-Date"));
}

#[rstest]
#[case::the_default_key("test", TEST_ACCOUNT)]
#[case::digits_in_the_key("AKIA111122223333ABCD", "111122223333")]
#[tokio::test]
async fn a_key_belongs_to_its_account(#[case] key: &str, #[case] account: &str) {
    let world = World::start().await;
    let (status, answer) = world.sts(&key.into(), "GetCallerIdentity", &[]).await;
    assert_eq!((status, answer.text("Account").as_str()), (200, account));
}

#[tokio::test]
async fn a_presigned_url_is_signed_too() {
    let world = World::start().await;
    let query = "Action=GetCallerIdentity&Version=2011-06-15&X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Date=20260101T000000Z\
                 &X-Amz-Credential=AKIA111122223333ABCD%2F20260101%2Fus-east-1%2Fsts%2Faws4_request\
                 &X-Amz-SignedHeaders=host&X-Amz-Signature=00";
    let answer = world
        .http
        .get(format!("{}/?{query}", world.emulator.url()))
        .send()
        .await
        .unwrap();
    let (status, answer) = document(answer).await;
    assert_eq!(
        (status, answer.text("Account").as_str()),
        (200, "111122223333")
    );
}

#[tokio::test]
async fn an_unknown_key_is_refused_in_each_protocol() {
    let world = World::start().await;
    let (status, answer) = world
        .sts(&"stranger".into(), "GetCallerIdentity", &[])
        .await;
    assert_eq!(
        (status, answer.text("Code").as_str()),
        (403, "InvalidClientTokenId")
    );
    let (status, answer) = world.probe("stranger", "List", json!({})).await;
    assert_eq!(
        (status, &answer["__type"]),
        (400, &json!("UnrecognizedClientException"))
    );
}

#[tokio::test]
async fn accounts_see_only_their_own_things() {
    let world = World::start().await;
    world.put("a", "1").await;
    let (_, own) = world.probe("test", "List", json!({})).await;
    let (_, others) = world.probe("AKIA111122223333ABCD", "List", json!({})).await;
    assert_eq!(own["things"][0]["name"], "a");
    assert_eq!(others["things"], json!([]));
}

#[tokio::test]
async fn an_unknown_service_is_refused_with_the_known_ones() {
    let world = World::start().await;
    let answer = world
        .signed(&Key::from("test"), "braket")
        .send()
        .await
        .unwrap();
    let (status, answer) = document(answer).await;
    assert_eq!(
        (status, answer.text("Code").as_str()),
        (501, "ServiceNotEmulated")
    );
    assert!(answer.text("Message").contains("sts, probe"));
}

#[tokio::test]
async fn an_unknown_operation_is_refused() {
    let world = World::start().await;
    let (status, answer) = world.probe("test", "Explode", json!({})).await;
    assert_eq!((status, &answer["__type"]), (400, &json!("InvalidAction")));
}

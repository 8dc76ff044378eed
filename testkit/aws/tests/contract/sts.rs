//! Sessions: who may open one, for how long, and their expiry.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::Method;
use rstest::rstest;
use serde_json::{Value, json};

use crate::world::{Key, ROLE, World, document};

async fn world_with_role() -> World {
    let world = World::start().await;
    let roles = json!([{ "arn": ROLE, "externalId": "secret-handshake", "maxSeconds": 7200 }]);
    world
        .controlled(
            Method::POST,
            "mutate",
            json!({ "service": "sts", "roles": roles }),
        )
        .await;
    world
}

#[tokio::test]
async fn a_session_acts_in_the_roles_account() {
    let world = world_with_role().await;
    let key = world.assume(&[("ExternalId", "secret-handshake")]).await;
    assert!(key.id.starts_with("ASIA") && key.id.len() == 20);
    let (_, answer) = world.sts(&key, "GetCallerIdentity", &[]).await;
    assert_eq!(answer.text("Account"), "222222222222");
    assert_eq!(
        answer.text("Arn"),
        "arn:aws:sts::222222222222:assumed-role/dns/tests"
    );
}

#[rstest]
#[case::a_role_that_is_not_allowed(
    "arn:aws:iam::222222222222:role/other",
    Some("secret-handshake")
)]
#[case::the_wrong_external_id(ROLE, Some("guess"))]
#[case::no_external_id(ROLE, None)]
#[tokio::test]
async fn access_is_denied_for(#[case] role: &str, #[case] external_id: Option<&str>) {
    let world = world_with_role().await;
    let mut params = vec![("RoleArn", role), ("RoleSessionName", "tests")];
    params.extend(external_id.map(|id| ("ExternalId", id)));
    let (status, answer) = world.sts(&"test".into(), "AssumeRole", &params).await;
    assert_eq!(
        (status, answer.text("Code").as_str()),
        (403, "AccessDenied")
    );
    assert!(
        answer
            .text("Message")
            .ends_with(&format!("sts:AssumeRole on resource: {role}"))
    );
}

#[rstest]
#[case::too_short("899", Some("greater than or equal to 900"))]
#[case::just_long_enough("900", None)]
#[case::as_long_as_the_role_allows("7200", None)]
#[case::longer_than_the_role_allows("7201", Some("exceeds the MaxSessionDuration"))]
#[case::longer_than_any_role("43201", Some("less than or equal to 43200"))]
#[tokio::test]
async fn the_length_of_a_session_is_bounded(#[case] seconds: &str, #[case] refused: Option<&str>) {
    let world = world_with_role().await;
    let params = [
        ("RoleArn", ROLE),
        ("RoleSessionName", "tests"),
        ("ExternalId", "secret-handshake"),
        ("DurationSeconds", seconds),
    ];
    let (status, answer) = world.sts(&"test".into(), "AssumeRole", &params).await;
    match refused {
        None => assert_eq!(status, 200),
        Some(expected) => {
            assert_eq!(
                (status, answer.text("Code").as_str()),
                (400, "ValidationError")
            );
            assert!(answer.text("Message").contains(expected), "{answer:?}");
        }
    }
}

#[tokio::test]
async fn a_session_ends_on_the_emulators_clock() {
    let world = world_with_role().await;
    world
        .controlled(Method::POST, "clock", json!({ "factor": 0 }))
        .await;
    let key = world
        .assume(&[
            ("ExternalId", "secret-handshake"),
            ("DurationSeconds", "900"),
        ])
        .await;
    world
        .controlled(Method::POST, "clock", json!({ "advance": 899 }))
        .await;
    assert_eq!(world.sts(&key, "GetCallerIdentity", &[]).await.0, 200);

    world
        .controlled(Method::POST, "clock", json!({ "advance": "1s" }))
        .await;
    let (status, answer) = world.sts(&key, "GetCallerIdentity", &[]).await;
    assert_eq!(
        (status, answer.text("Code").as_str()),
        (403, "ExpiredToken")
    );
    let answer = world
        .probe_request(&key, "List", &json!({}))
        .send()
        .await
        .unwrap();
    assert_eq!(
        answer.headers()["x-amzn-errortype"],
        "ExpiredTokenException"
    );
}

#[tokio::test]
async fn a_session_key_without_its_token_is_unknown() {
    let world = world_with_role().await;
    let key = world.assume(&[("ExternalId", "secret-handshake")]).await;
    for token in [None, Some("another".to_owned())] {
        let (_, answer) = world
            .sts(
                &Key {
                    id: key.id.clone(),
                    token,
                },
                "GetCallerIdentity",
                &[],
            )
            .await;
        assert_eq!(answer.text("Code"), "InvalidClientTokenId");
    }
}

#[tokio::test]
async fn a_session_opened_by_a_session_lasts_at_most_an_hour() {
    let world = world_with_role().await;
    let key = world.assume(&[("ExternalId", "secret-handshake")]).await;
    let params = [
        ("RoleArn", ROLE),
        ("RoleSessionName", "again"),
        ("ExternalId", "secret-handshake"),
        ("DurationSeconds", "3601"),
    ];
    let (_, answer) = world.sts(&key, "AssumeRole", &params).await;
    assert_eq!(answer.text("Code"), "ValidationError");
}

fn web_token(claims: &Value) -> String {
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    format!(
        "{}.{}.c2lnbmF0dXJl",
        part(&json!({ "alg": "RS256" })),
        part(claims)
    )
}

#[tokio::test]
async fn a_web_identity_needs_no_signature() {
    let world = world_with_role().await;
    let token = web_token(
        &json!({ "sub": "system:serviceaccount:a:b", "iss": "https://issuer", "aud": ["sts.amazonaws.com"] }),
    );
    let params = [
        ("RoleArn", ROLE),
        ("RoleSessionName", "tests"),
        ("WebIdentityToken", token.as_str()),
    ];
    let request = world.sts_request(None, "AssumeRoleWithWebIdentity", &params);
    let (status, answer) = document(request.send().await.unwrap()).await;
    assert_eq!(status, 200, "{answer:?}");
    assert_eq!(
        answer.text("SubjectFromWebIdentityToken"),
        "system:serviceaccount:a:b"
    );
    assert_eq!(answer.text("Audience"), "sts.amazonaws.com");
    let key = Key {
        id: answer.text("AccessKeyId"),
        token: Some(answer.text("SessionToken")),
    };
    assert_eq!(
        world
            .sts(&key, "GetCallerIdentity", &[])
            .await
            .1
            .text("Account"),
        "222222222222"
    );
}

#[rstest]
#[case::not_three_parts("abc")]
#[case::not_base64("a!.b!.c")]
#[case::no_claims("e30.e30.c")]
#[tokio::test]
async fn a_malformed_token_is_refused(#[case] token: &str) {
    let world = world_with_role().await;
    let params = [
        ("RoleArn", ROLE),
        ("RoleSessionName", "tests"),
        ("WebIdentityToken", token),
    ];
    let request = world.sts_request(None, "AssumeRoleWithWebIdentity", &params);
    let (status, answer) = document(request.send().await.unwrap()).await;
    assert_eq!(
        (status, answer.text("Code").as_str()),
        (400, "InvalidIdentityToken")
    );
}

#[tokio::test]
async fn keys_can_be_added_and_roles_forbidden_again() {
    let world = world_with_role().await;
    let change = json!({ "service": "sts", "keys": { "mine": "333333333333" }, "forbid": [ROLE] });
    world.controlled(Method::POST, "mutate", change).await;
    assert_eq!(
        world
            .sts(&"mine".into(), "GetCallerIdentity", &[])
            .await
            .1
            .text("Account"),
        "333333333333"
    );
    let params = [
        ("RoleArn", ROLE),
        ("RoleSessionName", "tests"),
        ("ExternalId", "secret-handshake"),
    ];
    assert_eq!(
        world
            .sts(&"test".into(), "AssumeRole", &params)
            .await
            .1
            .text("Code"),
        "AccessDenied"
    );
}

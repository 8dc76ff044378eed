use std::cell::RefCell;
use std::collections::BTreeMap;

use http::Method;
use parking_lot::Mutex;
use rstest::rstest;
use serde_json::json;
use testkit::scratch::Scratch;
use testkit::{Aws, Result, install_crypto};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::*;

fn found(env: &[(&str, &str)], region: Option<&str>) -> Result<Origin, KeysProblem> {
    let env: BTreeMap<&str, &str> = env.iter().copied().collect();
    Origin::find(
        &|name| env.get(name).map(|value| (*value).to_owned()),
        region,
    )
}

const KEYS: [(&str, &str); 3] = [
    ("AWS_ACCESS_KEY_ID", "AKIA"),
    ("AWS_SECRET_ACCESS_KEY", "hush"),
    ("AWS_SESSION_TOKEN", "hush-hush"),
];
const WEB_IDENTITY: [(&str, &str); 2] = [
    ("AWS_WEB_IDENTITY_TOKEN_FILE", "/var/run/token"),
    ("AWS_ROLE_ARN", "arn:aws:iam::000000000000:role/vault"),
];
const POD_IDENTITY: [(&str, &str); 2] = [
    (
        "AWS_CONTAINER_CREDENTIALS_FULL_URI",
        "http://169.254.170.23/v1/credentials",
    ),
    (
        "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
        "/var/run/pod-token",
    ),
];

#[test]
fn keys_of_the_environment_come_first() {
    let all = [&KEYS[..], &WEB_IDENTITY, &POD_IDENTITY].concat();
    let Ok(Origin::Given(keys)) = found(&all, None) else {
        panic!("not the keys")
    };
    assert_eq!(keys.access_key_id, "AKIA");
    assert_eq!(keys.secret_access_key.expose(), "hush");
    assert_eq!(keys.session_token.unwrap().expose(), "hush-hush");
}

#[test]
fn then_comes_web_identity() {
    let both = [&WEB_IDENTITY[..], &POD_IDENTITY].concat();
    let Ok(Origin::WebIdentity {
        sts, role, session, ..
    }) = found(&both, None)
    else {
        panic!("not web identity")
    };
    assert_eq!(sts.as_str(), "https://sts.amazonaws.com/");
    assert_eq!(role, "arn:aws:iam::000000000000:role/vault");
    assert_eq!(session, "pontoon");
}

#[test]
fn then_the_container() {
    let Ok(Origin::Container { url, authorization }) = found(&POD_IDENTITY, None) else {
        panic!("not the container")
    };
    assert_eq!(url.as_str(), "http://169.254.170.23/v1/credentials");
    assert!(matches!(authorization, Authorization::File(path) if path == "/var/run/pod-token"));
}

#[test]
fn and_at_last_the_instance() {
    let Ok(Origin::Instance { metadata }) = found(&[("AWS_ACCESS_KEY_ID", "")], None) else {
        panic!("not the instance")
    };
    assert_eq!(metadata.as_str(), "http://169.254.169.254/");
}

#[test]
fn only_variables_of_aws_are_looked_at() {
    let asked = RefCell::new(Vec::new());
    let nothing = |name: &str| {
        asked.borrow_mut().push(name.to_owned());
        None
    };
    Origin::find(&nothing, None).unwrap();
    assert!(asked.borrow().iter().all(|name| name.starts_with("AWS_")));
}

#[rstest]
#[case::given_in_the_spec(&[("AWS_REGION", "eu-west-1")], Some("us-east-2"), "https://sts.us-east-2.amazonaws.com/")]
#[case::given_in_the_environment(&[("AWS_REGION", "eu-west-1")], None, "https://sts.eu-west-1.amazonaws.com/")]
#[case::given_the_old_way(&[("AWS_DEFAULT_REGION", "eu-west-1")], None, "https://sts.eu-west-1.amazonaws.com/")]
#[case::in_china(&[], Some("cn-north-1"), "https://sts.cn-north-1.amazonaws.com.cn/")]
#[case::elsewhere(&[("AWS_ENDPOINT_URL", "http://emulator:1")], Some("us-east-2"), "http://emulator:1/")]
#[case::elsewhere_for_sts_alone(
    &[("AWS_ENDPOINT_URL", "http://emulator:1"), ("AWS_ENDPOINT_URL_STS", "http://sts:2")],
    None,
    "http://sts:2/"
)]
fn sts_is_the_one_of_the_region(
    #[case] env: &[(&str, &str)],
    #[case] region: Option<&str>,
    #[case] address: &str,
) {
    let env = [&WEB_IDENTITY[..], env].concat();
    let Ok(Origin::WebIdentity { sts, .. }) = found(&env, region) else {
        panic!("not web identity")
    };
    assert_eq!(sts.as_str(), address);
}

#[rstest]
#[case::half_of_the_keys(&KEYS[..1], "AWS_ACCESS_KEY_ID is set, so set AWS_SECRET_ACCESS_KEY, too")]
#[case::a_token_for_no_role(
    &WEB_IDENTITY[..1],
    "AWS_WEB_IDENTITY_TOKEN_FILE is set, so set AWS_ROLE_ARN, too"
)]
#[case::keys_in_plain_text(
    &[("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://keys.example.com/")],
    "keys.example.com would give keys in plain text over a network"
)]
#[case::a_path_that_is_a_host(
    &[("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "@keys.example.com/")],
    "keys.example.com would give keys in plain text over a network"
)]
#[case::no_address(&[("AWS_CONTAINER_CREDENTIALS_FULL_URI", "keys")], r#""keys" is no address"#)]
fn an_environment_that_leads_nowhere_is_told(#[case] env: &[(&str, &str)], #[case] told: &str) {
    let problem = found(env, None).unwrap_err();
    let whole = format!("the operator's environment does not lead to AWS keys: {told}");
    assert!(problem.to_string().starts_with(&whole), "{problem}");
    assert_eq!(problem.class(), Class::Denied);
}

#[test]
fn a_region_cannot_name_another_host() {
    let env = [&WEB_IDENTITY[..], &[("AWS_REGION", "x.example.com/")]].concat();
    assert!(matches!(
        found(&env, None),
        Err(KeysProblem::Environment(_))
    ));
    assert!(is_region("eu-west-1"));
}

#[test]
fn without_the_instance_it_is_said_what_to_set() {
    let off = [("AWS_EC2_METADATA_DISABLED", "true")];
    let problem = found(&off, None).unwrap_err().to_string();
    assert!(problem.contains("AWS_WEB_IDENTITY_TOKEN_FILE"), "{problem}");
}

#[rstest]
#[case::over_tls("https://keys.example.com/")]
#[case::loopback("http://127.0.0.1:8080/")]
#[case::loopback_by_name("http://localhost/")]
#[case::ecs("http://169.254.170.2/v2/credentials/x")]
#[case::eks_in_ipv6("http://[fd00:ec2::23]/v1/credentials")]
fn an_address_next_door_or_over_tls_may_have_our_token(#[case] address: &str) {
    assert!(near(address).is_ok());
}

/// Runs `origin` at an address that gives these answers, one to a request; what was asked, too.
async fn asked(
    answers: &[(u16, &str)],
    origin: impl FnOnce(Url) -> Origin,
) -> (Result<AwsKeys, KeysProblem>, Vec<String>) {
    install_crypto();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let origin = origin(Url::parse(&format!("http://{address}")).unwrap());
    let requests = Mutex::new(Vec::new());
    let serves = async {
        for (status, body) in answers {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = vec![0; 16 << 10];
            let read = stream.read(&mut request).await.unwrap();
            let request = String::from_utf8_lossy(&request[..read]).into_owned();
            requests.lock().push(request.to_lowercase());
            let answer = format!(
                "HTTP/1.1 {status} x\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            );
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
        std::future::pending::<()>().await;
    };
    let keys = tokio::select! {
        keys = origin.keys() => keys,
        () = serves => unreachable!("it never ends"),
    };
    (keys, requests.into_inner())
}

const DOCUMENT: &str = r#"{
    "Code": "Success", "AccessKeyId": "ASIA", "SecretAccessKey": "hush",
    "Token": "hush-hush", "Expiration": "2026-01-01T00:00:00Z"
}"#;

#[tokio::test]
async fn an_instance_gives_the_keys_of_its_role() {
    let answers = [(200, "session"), (200, "vault\nother"), (200, DOCUMENT)];
    let (keys, requests) = asked(&answers, |metadata| Origin::Instance { metadata }).await;
    let keys = keys.unwrap();
    assert_eq!(keys.access_key_id, "ASIA");
    assert_eq!(keys.session_token.unwrap().expose(), "hush-hush");
    assert!(requests[0].starts_with("put /latest/api/token "));
    let last = "get /latest/meta-data/iam/security-credentials/vault ";
    assert!(requests[2].starts_with(last), "{}", requests[2]);
    assert!(requests[2].contains("x-aws-ec2-metadata-token: session"));
}

#[tokio::test]
async fn an_instance_without_a_role_has_no_keys() {
    let answers = [(200, "session"), (404, "")];
    let (keys, _) = asked(&answers, |metadata| Origin::Instance { metadata }).await;
    let problem = keys.unwrap_err();
    assert!(matches!(problem, KeysProblem::Nowhere(_)), "{problem}");
    assert!(problem.to_string().contains("it answered 404"), "{problem}");
}

#[tokio::test]
async fn a_container_shows_its_token_and_gets_keys() {
    let (keys, requests) = asked(&[(200, DOCUMENT)], |url| Origin::Container {
        url,
        authorization: Authorization::Given(Secret::new("pod-token".to_owned())),
    })
    .await;
    assert_eq!(keys.unwrap().secret_access_key.expose(), "hush");
    assert!(requests[0].contains("authorization: pod-token"));
}

#[rstest]
#[case::busy(503, "", Class::Transient)]
#[case::too_often(429, "", Class::Throttled)]
#[case::not_for_us(403, "", Class::Denied)]
#[case::a_way_elsewhere(302, "", Class::Denied)]
#[case::not_understood(200, r#"{"AccessKeyId": "hush"}"#, Class::Denied)]
#[tokio::test]
async fn what_a_container_gets_instead_has_a_class_and_is_not_quoted(
    #[case] status: u16,
    #[case] body: &str,
    #[case] class: Class,
) {
    let (keys, _) = asked(&[(status, body)], |url| Origin::Container {
        url: url.join("/credentials/hush").unwrap(),
        authorization: Authorization::None,
    })
    .await;
    let problem = keys.unwrap_err();
    assert_eq!(problem.class(), class, "{problem}");
    assert!(!problem.to_string().contains("hush"), "{problem}");
}

#[tokio::test]
async fn who_does_not_answer_is_asked_again() {
    install_crypto();
    let origin = Origin::Container {
        url: Url::parse("http://127.0.0.1:1/").unwrap(),
        authorization: Authorization::None,
    };
    let problem = origin.keys().await.unwrap_err();
    assert_eq!(problem.class(), Class::Transient, "{problem}");
}

/// `{"alg":"none"}` and the claims that the emulator asks for.
const JWT: &str = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJ4IiwiaXNzIjoieSIsImF1ZCI6InN0cyJ9.hush";

fn web_identity(aws: &Aws, token_file: &str, role: &str) -> Origin {
    let env = [
        ("AWS_ENDPOINT_URL", aws.url()),
        ("AWS_WEB_IDENTITY_TOKEN_FILE", token_file.to_owned()),
        ("AWS_ROLE_ARN", role.to_owned()),
        ("AWS_ROLE_SESSION_NAME", "a+b=c".to_owned()),
    ];
    let env: BTreeMap<&str, String> = env.into();
    Origin::find(&|name| env.get(name).cloned(), Some("eu-west-1")).unwrap()
}

#[tokio::test]
async fn sts_changes_a_jwt_for_keys_of_the_role() -> Result<()> {
    install_crypto();
    let (aws, scratch) = (Aws::start().await?, Scratch::new("aws-keys")?);
    let role = WEB_IDENTITY[1].1;
    let allow = json!({"service": "sts", "roles": [{"arn": role}]});
    aws.control(Method::POST, "mutate", allow)?;
    let file = scratch.write("token", format!("{JWT}\n"))?;

    let keys = web_identity(&aws, &file.to_string_lossy(), role)
        .keys()
        .await?;

    let state = aws.control(Method::GET, "state?service=sts", json!(null))?;
    assert!(state.to_string().contains(&keys.access_key_id), "{state}");
    assert!(state.to_string().contains("vault/a+b=c"), "{state}");
    assert!(keys.session_token.is_some());
    Ok(())
}

#[tokio::test]
async fn what_sts_refuses_is_told_in_its_own_words() -> Result<()> {
    install_crypto();
    let (aws, scratch) = (Aws::start().await?, Scratch::new("aws-keys")?);
    let file = scratch.write("token", JWT)?;
    let origin = web_identity(&aws, &file.to_string_lossy(), WEB_IDENTITY[1].1);
    let problem = origin.keys().await.unwrap_err();
    assert_eq!(
        problem.to_string(),
        "STS at 127.0.0.1, asked for arn:aws:iam::000000000000:role/vault, gives us no AWS keys; \
         it answered 403: AccessDenied Not authorized to perform sts:AssumeRoleWithWebIdentity"
    );
    assert_eq!(problem.class(), Class::Denied);
    Ok(())
}

#[tokio::test]
async fn a_token_file_that_is_not_there_is_named() -> Result<()> {
    install_crypto();
    let aws = Aws::start().await?;
    let origin = web_identity(&aws, "no/such/token", WEB_IDENTITY[1].1);
    let problem = origin.keys().await.unwrap_err().to_string();
    assert!(
        problem.contains("no/such/token cannot be read"),
        "{problem}"
    );
    Ok(())
}

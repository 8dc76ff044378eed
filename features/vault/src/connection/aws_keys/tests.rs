use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use aws::{Keys, Operation, Parts, Refusal, Settings};
use engine::Classified as _;
use engine::SharedValues;
use kernel::RealClock;
use rstest::rstest;
use vault_client::Secret;

use super::*;

fn process_aws(shared: &SharedValues) -> ProcessAws {
    ProcessAws::new(shared.of(), None, Arc::new(RealClock::new()), Vec::new())
}

/// The AWS of another feature, with keys of its own.
async fn with_keys(shared: &SharedValues) {
    let keys = Keys {
        access_key_id: "AKIA".to_owned(),
        secret_access_key: Secret::new("hush".to_owned()),
        session_token: Some(Secret::new("hush-hush".to_owned())),
    };
    let settings = Settings {
        keys: Some(keys),
        region: Some("eu-west-1".to_owned()),
        ..Settings::default()
    };
    let parts = Parts {
        clock: Arc::new(RealClock::new()),
        guards: vec![Guard::closed()],
        observer: Arc::new(Unobserved),
    };
    let aws = shared.of::<Aws>();
    aws.get_or_init(|| Aws::load(settings, parts)).await;
}

#[tokio::test]
async fn a_login_uses_the_keys_of_the_process() {
    let shared = SharedValues::default();
    with_keys(&shared).await;
    let keys = process_aws(&shared).current().await.unwrap();
    assert_eq!(keys.access_key_id, "AKIA");
    assert_eq!(keys.secret_access_key.expose(), "hush");
    assert_eq!(keys.session_token.unwrap().expose(), "hush-hush");
}

/// Keys as a container gets them.
const KEYS: &str = r#"{
    "AccessKeyId": "AKIA", "SecretAccessKey": "hush", "Token": "hush-hush",
    "Expiration": "2120-01-01T00:00:00Z"
}"#;

/// Gives keys to a container. Returns its address, and how often it gave some.
fn gives_keys() -> (String, Arc<AtomicU32>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/keys", listener.local_addr().unwrap());
    let given = Arc::<AtomicU32>::default();
    let count = Arc::clone(&given);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let received = stream.read(&mut [0; 4096]).unwrap();
            assert!(received > 0);
            count.fetch_add(1, Ordering::SeqCst);
            let length = KEYS.len();
            let head = format!("HTTP/1.1 200 x\r\nConnection: close\r\nContent-Length: {length}");
            write!(
                stream,
                "{head}\r\nContent-Type: application/json\r\n\r\n{KEYS}"
            )
            .unwrap();
        }
    });
    (address, given)
}

/// Vault may refuse keys that AWS accepts: the next login must have others. The keys come from the
/// environment, so the logins are in a process of their own.
#[tokio::test]
async fn each_login_fetches_its_keys() {
    if std::env::var_os("AWS_CONTAINER_CREDENTIALS_FULL_URI").is_some() {
        let aws = process_aws(&SharedValues::default());
        for _ in 0..2 {
            assert_eq!(aws.current().await.unwrap().access_key_id, "AKIA");
        }
        return;
    }
    let (address, given) = gives_keys();
    let child = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "connection::aws_keys::tests::each_login_fetches_its_keys",
        ])
        .env_clear()
        .env("AWS_CONTAINER_CREDENTIALS_FULL_URI", address)
        .output();
    let child = child.unwrap();
    let printed = String::from_utf8_lossy(&child.stdout);
    assert!(child.status.success(), "{printed}");
    assert_eq!(given.load(Ordering::SeqCst), 2, "{printed}");
}

#[test]
fn nothing_of_aws_is_loaded_before_the_first_login() {
    let shared = SharedValues::default();
    let _keys = process_aws(&shared).keys();
    assert!(shared.of::<Aws>().get().is_none());
}

fn credentials(passing: bool) -> aws::Error {
    aws::Error::Credentials {
        reason: "the credential provider was not enabled".to_owned(),
        passing,
    }
}

fn refused(status: u16, code: &str) -> aws::Error {
    aws::Error::Refused(Box::new(Refusal {
        operation: Operation::AssumeRoleWithWebIdentity,
        resource: String::new(),
        code: code.to_owned(),
        message: "Not authorized to perform sts:AssumeRoleWithWebIdentity".to_owned(),
        status,
        request_id: None,
    }))
}

#[rstest]
#[case::nowhere(credentials(false), Class::Denied)]
#[case::no_answer(credentials(true), Class::Transient)]
#[case::denied(refused(403, "AccessDenied"), Class::Denied)]
#[case::throttled(refused(400, "Throttling"), Class::Throttled)]
#[case::failed(refused(500, "InternalFailure"), Class::Transient)]
fn a_problem_has_the_class_of_its_error(#[case] error: aws::Error, #[case] class: Class) {
    let problem = Problem::from(KeysProblem::from(error));
    assert_eq!(problem.class(), class, "{problem}");
}

#[test]
fn without_keys_the_message_names_what_to_set() {
    let problem = KeysProblem::from(credentials(false)).to_string();
    for remedy in ["AWS_WEB_IDENTITY_TOKEN_FILE", "IAM role"] {
        assert!(problem.contains(remedy), "{problem}");
    }
}

#[test]
fn the_message_of_sts_is_reported() {
    let problem = KeysProblem::from(refused(403, "AccessDenied")).to_string();
    let text = "AccessDenied: Not authorized to perform sts:AssumeRoleWithWebIdentity";
    assert!(problem.contains(text), "{problem}");
}

#[rstest]
#[case::region("eu-west-1", true)]
#[case::another_host("x.example.com/", false)]
#[case::empty("", false)]
fn a_region_cannot_name_another_host(#[case] text: &str, #[case] expected: bool) {
    assert_eq!(is_region(text), expected);
}

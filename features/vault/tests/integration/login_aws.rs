//! The login at `aws`: a question to STS, signed with keys from where the environment says they
//! are, and asked by Vault.
//!
//! STS is the emulator's; Vault's own `sts_endpoint` leads there.

use std::time::Duration;

use crate::connection_fixtures::{login, ready};
use crate::stories::{Crew, Plan, Site, event, note, reader, said, tell};
use api::vault::{Phase, VaultConnection, VaultPolicy};
use reqwest::Method;
use serde_json::{Value, json};
use testkit::{Aws, Result, is};
use tokio::sync::{Mutex, MutexGuard, OnceCell};

/// Real time: signatures are good for minutes of it.
const WORLD: Plan = Plan { pace: 1, args: &[] };

const REGION: &str = "eu-west-1";
/// How Vault wants to be named in what is signed for it.
const SERVER: &str = "vault.example.com";
/// Who the operator is by keys in its environment, and by its ServiceAccount's token.
const USER: &str = "arn:aws:iam::000000000000:user/test";
const ROLE: &str = "arn:aws:iam::000000000000:role/operator";

/// The body of the one question that Vault asks for us.
const QUESTION: &str = "Action=GetCallerIdentity&Version=2011-06-15";

/// The keys in its environment.
const KEYS: [(&str, &str); 2] = [
    ("AWS_ACCESS_KEY_ID", "test"),
    ("AWS_SECRET_ACCESS_KEY", "hush-secret-key"),
];

/// AWS as the operator and Vault see it.
async fn aws(site: &Site) -> Result<&'static Aws> {
    static AWS: OnceCell<Aws> = OnceCell::const_new();
    let start = async || {
        let aws = Aws::start().await?;
        let role = json!({"service": "sts", "roles": [{"arn": ROLE}]});
        aws.control(Method::POST, "mutate", role)?;
        let client = json!({
            "sts_endpoint": aws.url(), "sts_region": REGION, "iam_server_id_header_value": SERVER,
        });
        site.put("sys/auth/aws", json!({"type": "aws"})).await?;
        site.put("auth/aws/config/client", client).await?;
        for (name, principal) in [("user", USER), ("role", ROLE)] {
            let role = json!({
                "auth_type": "iam", "bound_iam_principal_arn": [principal],
                // Only AWS itself could tell the id behind an ARN.
                "resolve_aws_unique_ids": false,
                "token_policies": ["pontoon"], "token_ttl": "1h",
            });
            site.put(&format!("auth/aws/role/{name}"), role).await?;
        }
        Ok(aws)
    };
    AWS.get_or_try_init(start).await
}

/// Starts the operator with just these variables of AWS. It has one environment: stories that
/// change it take turns. Returns the turn, and how many entries the log of AWS had before the start.
async fn with_env<const N: usize>(
    site: &Site,
    env: [(&str, &str); N],
) -> Result<(MutexGuard<'static, ()>, u64)> {
    static TURN: Mutex<()> = Mutex::const_new(());
    let turn = TURN.lock().await;
    let operator = site.world.operator();
    operator.terminate(Duration::from_secs(25)).await?;
    let since = entries(aws(site).await?)?;
    // Empty is unset, whatever the environment of the test says; the last of a name counts.
    let unset = [
        "AWS_ACCESS_KEY_ID",
        "AWS_WEB_IDENTITY_TOKEN_FILE",
        "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
        "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    ];
    let env = unset.map(|name| (name, "")).into_iter().chain(env);
    let env = env.map(|(name, value)| (name.to_owned(), value.to_owned()));
    operator
        .restart(|options| {
            options.env.retain(|(name, _)| !name.starts_with("AWS_"));
            options.env.extend(env);
        })
        .await?;
    Ok((turn, since))
}

/// Declares a connection that logs in as `role`.
async fn connect(crew: &Crew, aws: &Aws, name: &str, role: &str) -> Result<()> {
    let auth = json!({
        "role": role, "region": REGION, "stsEndpoint": aws.url(), "iamServerIdHeaderValue": SERVER,
    });
    let spec = json!({"auth": {"kubernetes": null, "aws": auth}, "healthCheckInterval": "5s"});
    crew.connect(name, spec).await
}

/// Waits until a connection says that it is not let in; its words.
async fn refused(crew: &Crew, connection: &str) -> Result<String> {
    let cluster = crew.cluster();
    let found = cluster
        .until::<VaultConnection>(connection, is("Ready", "AuthFailed"))
        .await?;
    let status = found.status.unwrap();
    let state = (status.phase, status.healthy);
    assert_eq!(state, (Some(Phase::Error), Some(false)));
    let told = event(&cluster, connection, "SyncFailed").await?;
    let message = said(&status.conditions, "Ready");
    assert_eq!(note(&told), message);
    Ok(message)
}

/// What STS was asked since its log had `since` entries.
fn asked(aws: &Aws, since: u64) -> Result<Vec<Value>> {
    let mut log = aws.control(Method::GET, &format!("log?since={since}"), Value::Null)?;
    Ok(log["entries"]
        .as_array_mut()
        .map(std::mem::take)
        .unwrap_or_default())
}

/// How many entries it has.
fn entries(aws: &Aws) -> Result<u64> {
    let log = aws.control(Method::GET, "log", Value::Null)?;
    Ok(log["last"].as_u64().unwrap_or_default())
}

/// The question came as a signed POST: signed for this region's STS, and with the question in its
/// body. A GET would have it in its address.
fn is_our_question(entry: &Value) {
    assert_eq!(entry["operation"], "GetCallerIdentity", "{entry}");
    assert_eq!(entry["body"], QUESTION, "{entry}");
    assert_eq!(entry["status"], 200, "{entry}");
    let scope = entry["scope"].as_str().unwrap_or_default();
    let signed = format!("/{REGION}/sts/aws4_request");
    assert!(scope.ends_with(&signed), "{entry}");
}

/// A policy goes through the connection.
async fn writes_through(crew: &Crew, connection: &str) -> Result<()> {
    let mut spec = reader();
    spec["connectionRef"] = json!(connection);
    crew.declare::<VaultPolicy>("app", spec).await?;
    let app = crew
        .until::<VaultPolicy>("app", is("Ready", "Succeeded"))
        .await?;
    let name = format!("vao.aws.{}.app", crew.name());
    assert_eq!(app.status.unwrap().vault_name.as_ref(), Some(&name));
    let text = crew.site.policy(&name).await?.unwrap();
    assert!(text.contains("\n# auth-mount: aws\n"), "{text}");
    Ok(())
}

#[test]
fn keys_of_the_environment_sign_a_question_by_which_vault_lets_us_in() -> Result<()> {
    tell(WORLD, async |site| {
        let aws = aws(site).await?;
        let _turn = with_env(site, KEYS).await?;
        let crew = site.crew().await?;
        let (name, since) = (crew.own("aws"), entries(aws)?);
        connect(&crew, aws, &name, "user").await?;
        let status = ready(&crew, &name).await?;
        let state = (status.phase, status.healthy);
        assert_eq!(state, (Some(Phase::Active), Some(true)));
        let login = login(&status);
        assert_eq!(login.auth_method.as_deref(), Some("aws"));
        assert!(login.token_accessor.is_some() && login.token_expiration.is_some());

        writes_through(&crew, &name).await?;
        assert_eq!(crew.calls(Method::POST, "auth/aws/login"), 1);
        // Connections of other stories ask the same.
        let asked = asked(aws, since)?;
        assert!(!asked.is_empty());
        for entry in asked {
            is_our_question(&entry);
            assert_eq!(entry["key"], "test", "{entry}");
        }
        assert!(!site.world.operator().log().contains(KEYS[1].1));
        Ok(())
    })
}

#[test]
fn a_role_that_is_not_for_us_is_a_login_refused() -> Result<()> {
    tell(WORLD, async |site| {
        let aws = aws(site).await?;
        let _turn = with_env(site, KEYS).await?;
        let crew = site.crew().await?;
        for role in ["role", "nobodys"] {
            let name = crew.own(role);
            connect(&crew, aws, &name, role).await?;
            let message = refused(&crew, &name).await?;
            let told = format!("aws login at auth/aws as role {role} was refused");
            assert!(message.contains(&told), "{message}");
            assert!(!message.contains(KEYS[1].1), "{message}");
        }

        // The same connection, told the right role, gets in.
        let name = crew.own("role");
        connect(&crew, aws, &name, "user").await?;
        ready(&crew, &name).await?;
        Ok(())
    })
}

#[test]
fn a_web_identity_is_changed_for_keys_of_its_role() -> Result<()> {
    tell(WORLD, async |site| {
        let (aws, home) = (aws(site).await?, site.world.operator_namespace());
        let jwt = site.jwt(home, "pontoon", Some("sts.amazonaws.com")).await?;
        let scratch = site.world.control_plane().scratch();
        let file = scratch.write("web-identity", &jwt)?;
        let env = [
            ("AWS_ENDPOINT_URL_STS", &*aws.url()),
            ("AWS_ROLE_ARN", ROLE),
            ("AWS_WEB_IDENTITY_TOKEN_FILE", &file.to_string_lossy()),
        ];
        // The operator may have got its keys at the start, for a connection of another story.
        let (_turn, since) = with_env(site, env).await?;
        let crew = site.crew().await?;
        let name = crew.own("irsa");
        connect(&crew, aws, &name, "role").await?;
        ready(&crew, &name).await?;
        writes_through(&crew, &name).await?;

        // Connections of other stories ask the same.
        let (changed, asked): (Vec<_>, Vec<_>) = asked(aws, since)?
            .into_iter()
            .partition(|entry| entry["operation"] == "AssumeRoleWithWebIdentity");
        assert!(!changed.is_empty() && !asked.is_empty());
        for entry in changed {
            assert_eq!(entry["resource"], ROLE, "{entry}");
            assert_eq!(entry["status"], 200, "{entry}");
        }
        for entry in asked {
            is_our_question(&entry);
            let key = entry["key"].as_str().unwrap_or_default();
            assert!(key.starts_with("ASIA"), "keys of a session: {key}");
        }
        assert!(!site.world.operator().log().contains(&jwt));
        Ok(())
    })
}

#[test]
fn without_keys_it_is_said_what_to_give_and_nobody_is_asked() -> Result<()> {
    tell(WORLD, async |site| {
        let aws = aws(site).await?;
        let _turn = with_env(site, [("AWS_EC2_METADATA_DISABLED", "true")]).await?;
        let crew = site.crew().await?;
        let (name, since) = (crew.own("keyless"), entries(aws)?);
        connect(&crew, aws, &name, "user").await?;
        let message = refused(&crew, &name).await?;
        for remedy in ["AWS_WEB_IDENTITY_TOKEN_FILE", "IAM role"] {
            assert!(message.contains(remedy), "{message}");
        }
        assert_eq!(asked(aws, since)?, Vec::<Value>::new());
        assert_eq!(crew.calls(Method::POST, "auth/aws/login"), 0);
        Ok(())
    })
}

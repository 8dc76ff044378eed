//! Logins: with which token Vault is asked, how long it serves, and by what way it gets there.

use std::time::Duration;

use crate::connection_fixtures::tls::{Authority, Listening, NAME};
use crate::connection_fixtures::{
    accessor, by_token, current, keep, keep_in, key, known, lives, login, looks, mint, ready,
};
use crate::stories::{Crew, Plan, Site, event, events, note, reader, rule, said, tell};
use api::vault::{Phase, VaultConnection, VaultPolicy};
use reqwest::Method;
use serde_json::{Value, json};
use testkit::fault_proxy::Logged;
use testkit::{Result, eventually, eventually_within, is};
use tokio::sync::OnceCell;

/// Tokens live in real time; who uses them asks every few seconds.
const WORLD: Plan = Plan {
    pace: 1,
    args: &["--vault-resync=5s"],
};

/// The operator's environment speaks of a Vault of somebody's own.
async fn mislead(site: &Site) -> Result<()> {
    static MISLED: OnceCell<()> = OnceCell::const_new();
    let restart = async || {
        let operator = site.world.operator();
        operator.terminate(Duration::from_secs(25)).await?;
        let wrong = [
            ("VAULT_ADDR", "http://127.0.0.1:1"),
            ("VAULT_TOKEN", "hvs.somebody-elses"),
            ("VAULT_NAMESPACE", "somebody-elses"),
            ("VAULT_CACERT", "/nonexistent"),
            ("VAULT_SKIP_VERIFY", "true"),
        ];
        let wrong = wrong.map(|(name, value)| (name.to_owned(), value.to_owned()));
        operator.restart(|options| options.env.extend(wrong)).await
    };
    MISLED.get_or_try_init(restart).await.map(drop)
}

/// Waits until a connection says that a Secret cannot be read, and where it looked.
async fn unreadable(crew: &Crew, connection: &str, place: &str) -> Result<()> {
    let unreadable = is("Ready", "SecretNotReadable");
    let cluster = crew.cluster();
    let found = cluster
        .until::<VaultConnection>(connection, unreadable)
        .await?;
    let status = found.status.unwrap();
    assert_eq!(status.phase, Some(Phase::Error));
    let message = said(&status.conditions, "Ready");
    assert!(message.contains(place), "{message}");
    let told = event(&cluster, connection, "SyncFailed").await?;
    assert!(note(&told).contains(place), "{}", note(&told));
    Ok(())
}

#[test]
fn a_missing_key_is_named_and_no_value_is_told_to_anyone() -> Result<()> {
    tell(WORLD, async |site| {
        mislead(site).await?;
        let crew = site.crew().await?;
        let (name, home) = (crew.own("keyless"), site.world.operator_namespace());
        let beside = "hush-beside-the-key";
        keep(site, &name, &[("other", beside)]).await?;
        let spec = json!({"auth": by_token(site, &name), "healthCheckInterval": "5s"});
        crew.connect(&name, spec).await?;
        unreadable(&crew, &name, &format!("{home}/{name}/token")).await?;

        // A token that Vault does not know is shown to nobody else, either.
        let wrong = "hvs.hush-not-a-token";
        keep(site, &name, &[("other", beside), ("token", wrong)]).await?;
        let cluster = crew.cluster();
        cluster
            .until::<VaultConnection>(&name, is("Ready", "AuthFailed"))
            .await?;
        let token = mint(site.world.vault(), json!({"policies": ["pontoon"]})).await?;
        keep(site, &name, &[("other", beside), ("token", &token.token)]).await?;
        ready(&crew, &name).await?;

        let connections = kube::Api::<VaultConnection>::all(crew.client());
        let told = [
            ("the log", site.world.operator().log()),
            (
                "the object",
                serde_json::to_string(&connections.get(&name).await?)?,
            ),
            (
                "the events",
                format!("{:?}", events(&cluster, &name).await?),
            ),
        ];
        for (what, text) in told {
            assert!(text.contains(&name), "{what} tells of {name}");
            for value in [beside, wrong, &token.token] {
                assert!(!text.contains(value), "{what} holds {value}");
            }
        }
        Ok(())
    })
}

#[test]
fn a_secret_of_a_namespace_that_is_not_granted_is_named() -> Result<()> {
    tell(WORLD, async |site| {
        mislead(site).await?;
        let crew = site.crew().await?;
        keep_in(site, crew.name(), "theirs", &[("token", "x")]).await?;
        let mut secret = key(site, "theirs", "token");
        secret["namespace"] = json!(crew.name());
        let auth = json!({"kubernetes": null, "token": {"secretRef": secret}});
        let name = crew.own("theirs");
        crew.connect(&name, json!({"auth": auth})).await?;
        unreadable(&crew, &name, &format!("{}/theirs/token", crew.name())).await
    })
}

/// How many uses the token of this accessor has left.
async fn uses(site: &Site, accessor: &str) -> Result<i64> {
    let found = known(site.world.vault(), accessor).await?;
    Ok(found.unwrap_or_default()["num_uses"]
        .as_i64()
        .unwrap_or_default())
}

#[test]
fn a_replaced_token_is_used_within_the_interval_and_the_old_one_no_more() -> Result<()> {
    tell(WORLD, async |site| {
        mislead(site).await?;
        // Vault counts what such a token is used for.
        let counted = || json!({"policies": ["pontoon"], "num_uses": 10_000, "ttl": "1h"});
        let old = mint(site.world.vault(), counted()).await?;
        let new = mint(site.world.vault(), counted()).await?;
        keep(site, "replaced", &[("token", &old.token)]).await?;
        let crew = site
            .crew_with(json!({
                "auth": by_token(site, "replaced"), "healthCheckInterval": "5s",
            }))
            .await?;
        assert_eq!(
            accessor(&current(&crew, &crew.connection).await?),
            old.accessor
        );
        crew.declare::<VaultPolicy>("app", reader()).await?;
        crew.until::<VaultPolicy>("app", is("Ready", "Succeeded"))
            .await?;

        keep(site, "replaced", &[("token", &new.token)]).await?;
        let asked = crew.proxy.requests().len();
        eventually("the new token is in use", async || {
            let now = current(&crew, &crew.connection).await?;
            Ok((accessor(&now) == new.accessor).then_some(()))
        })
        .await?;
        // A look that had read the Secret before, and the next one.
        let since = crew.proxy.requests().split_off(asked);
        let is_new = |one: &Logged| one.vault_token.as_ref() == Some(&new.token);
        let before = since.iter().take_while(|one| !is_new(one));
        let count = before.filter(|one| one.path == "/v1/sys/health").count();
        assert!(count <= 2, "{count} looks before the first use");

        let (of_old, of_new) = (
            uses(site, &old.accessor).await?,
            uses(site, &new.accessor).await?,
        );
        crew.declare::<VaultPolicy>("app", json!({"rules": [rule("secret/data/x", &["read"])]}))
            .await?;
        crew.until::<VaultPolicy>("app", is("Ready", "Succeeded"))
            .await?;
        looks(&[crew.proxy], 2).await?;
        assert_eq!(uses(site, &old.accessor).await?, of_old);
        // Ours is not to revoke it: it was given to us.
        assert!(of_old > 0 && lives(site.world.vault(), &old.token).await?);
        assert!(uses(site, &new.accessor).await? < of_new);
        Ok(())
    })
}

/// A crew that logs in for a minute at a time, with a policy that is looked at all the while.
async fn for_a_minute(site: &'static Site, strategy: &str) -> Result<Crew> {
    let role = json!({
        "bound_service_account_names": ["pontoon"],
        "bound_service_account_namespaces": [site.world.operator_namespace()],
        "audience": "vault", "token_policies": ["pontoon"], "token_ttl": "60s",
    });
    site.put("auth/kubernetes/role/minute", role).await?;
    let auth = json!({"kubernetes": {"role": "minute", "renewalStrategy": strategy}});
    let crew = site.crew_with(json!({"auth": auth})).await?;
    crew.declare::<VaultPolicy>("app", reader()).await?;
    crew.until::<VaultPolicy>("app", is("Ready", "Succeeded"))
        .await?;
    Ok(crew)
}

/// Nothing failed while one token made room for the next.
async fn never_failed(crew: &Crew) -> Result<()> {
    // All that could fail with the old token has been tried since.
    crew.rereads(&format!("sys/policies/acl/{}", crew.vault_name("app")), 2)
        .await?;
    for (story, name) in [(&**crew, "app"), (&crew.cluster(), &*crew.connection)] {
        let told = events(story, name).await?;
        let failed = told
            .iter()
            .find(|one| one.reason.as_deref() == Some("SyncFailed"));
        assert_eq!(failed, None);
    }
    let labels = [("connection", &*crew.connection), ("result", "failure")];
    let failed = crew.site.metric("connection_health_checks_total", &labels);
    assert!(failed.await?.abs() < f64::EPSILON);
    Ok(())
}

#[test]
fn a_token_of_a_minute_is_renewed_or_replaced_before_it_ends() -> Result<()> {
    tell(WORLD, async |site| {
        mislead(site).await?;
        let renewing = for_a_minute(site, "renew").await?;
        let replacing = for_a_minute(site, "reauth").await?;
        let first = current(&renewing, &renewing.connection).await?;
        assert_eq!(login(&first).token_renewal_count, Some(0));
        let token = accessor(&current(&replacing, &replacing.connection).await?);

        let minute = Duration::from_secs(65);
        let renewed = eventually_within(minute, "a renewal", async || {
            let now = current(&renewing, &renewing.connection).await?;
            let count = login(&now).token_renewal_count;
            Ok((count >= Some(1)).then_some(now))
        })
        .await?;
        assert_eq!(accessor(&renewed), accessor(&first));
        assert!(login(&renewed).token_last_renewed.is_some());
        assert!(login(&renewed).token_expiration > login(&first).token_expiration);
        assert_eq!(renewing.calls(Method::POST, "auth/*/login"), 1);
        never_failed(&renewing).await?;

        let replaced = eventually_within(minute, "another login", async || {
            let now = current(&replacing, &replacing.connection).await?;
            Ok((accessor(&now) != token).then_some(now))
        })
        .await?;
        assert_eq!(login(&replaced).token_renewal_count, Some(0));
        let logins = replacing.proxy.arrivals(Method::POST, "/v1/auth/*/login");
        for pair in logins.windows(2) {
            // A token with more than a quarter of its minute left is used on.
            let apart = pair[1].duration_since(pair[0]).as_secs_f64();
            assert!(apart >= 44.0, "{logins:?}");
        }
        assert_eq!(replacing.calls(Method::POST, "auth/token/renew-self"), 0);
        never_failed(&replacing).await
    })
}

#[test]
fn a_private_authority_a_name_and_a_certificate_of_ours_lead_to_vault() -> Result<()> {
    tell(WORLD, async |site| {
        mislead(site).await?;
        let crew = site.crew().await?;
        let vault = Listening::start().await?;
        let (role, secret) = vault.let_in().await?;
        let (cert, private) = vault.authority.client();
        let name = crew.own("private");
        let entries = [
            ("ca.crt", &*vault.authority.pem()),
            ("tls.crt", &cert),
            ("tls.key", &private),
            ("secret-id", &secret),
        ];
        let with_ca = |pem: &str| {
            let mut entries = entries.map(|(key, value)| (key, value.to_owned()));
            entries[0].1 = pem.to_owned();
            entries
        };
        let store = async |pem: &str| -> Result<()> {
            let entries = with_ca(pem);
            let entries: Vec<(&str, &str)> = entries
                .iter()
                .map(|(key, value)| (*key, &**value))
                .collect();
            keep(site, &name, &entries).await
        };
        store(&vault.authority.pem()).await?;
        let spec = |tls: Value| {
            let id = key(site, &name, "secret-id");
            json!({
                "address": vault.address(), "tls": tls, "healthCheckInterval": "5s",
                "auth": {"kubernetes": null, "appRole": {"roleId": role, "secretIdRef": id}},
            })
        };
        let ours = json!({"name": name, "namespace": site.world.operator_namespace()});
        let whole = json!({
            "caSecretRef": key(site, &name, "ca.crt"),
            "clientCertSecretRef": ours, "serverName": NAME,
        });

        // Each of the three is needed.
        let cluster = crew.cluster();
        for part in ["caSecretRef", "clientCertSecretRef", "serverName"] {
            let mut tls = whole.clone();
            tls.as_object_mut().unwrap().remove(part);
            crew.connect(&name, spec(tls)).await?;
            cluster
                .until::<VaultConnection>(&name, is("Ready", "NetworkError"))
                .await?;
        }
        crew.connect(&name, spec(whole)).await?;
        let first = accessor(&ready(&crew, &name).await?);
        assert!(vault.knows(&first).await?);
        let mut policy = reader();
        policy["connectionRef"] = json!(name);
        crew.declare::<VaultPolicy>("app", policy).await?;
        crew.until::<VaultPolicy>("app", is("Ready", "Succeeded"))
            .await?;

        // Another authority beside the one that counts: the login is a new one.
        let logins = async || {
            let labels = [("connection", &*name)];
            site.metric("connection_logins_total", &labels).await
        };
        let before = logins().await?;
        let other = Authority::new();
        store(&(other.pem() + &vault.authority.pem())).await?;
        let second = eventually("a new login", async || {
            let now = accessor(&current(&crew, &name).await?);
            Ok((now != first).then_some(now))
        })
        .await?;
        assert!((logins().await? - before - 1.0).abs() < f64::EPSILON);
        assert!(vault.knows(&second).await? && !vault.knows(&first).await?);
        // And in its place: nobody there is trusted.
        store(&other.pem()).await?;
        cluster
            .until::<VaultConnection>(&name, is("Ready", "NetworkError"))
            .await?;
        Ok(())
    })
}

//! What concerns a whole world at once: Vault is sealed, or the operator's leader dies.

use std::process::Command;
use std::time::Duration;

use crate::connection_fixtures::{by_token, current, gauge, keep, key, looks, mint, ready};
use crate::stories::{Crew, Plan, Site, admits, event, reader, rule, tell};
use api::vault::{Phase, VaultConnection, VaultPolicy, VaultRole};
use jiff::Timestamp;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use testkit::fault_proxy::{AnyMethod, Rule};
use testkit::{Mark, Operator, Result, eventually, is};
use tokio::sync::Mutex;

/// Real time.
const WORLD: Plan = Plan { pace: 1, args: &[] };

/// The same with a lease that runs out within a story.
const SHORT_LEASE: Plan = Plan {
    pace: 1,
    args: &[
        "--lease-duration=5s",
        "--lease-renew-deadline=3s",
        "--lease-retry-period=500ms",
    ],
};

/// A lease that does not run out within a story.
const LONG_LEASE: [&str; 3] = [
    "--lease-duration=600s",
    "--lease-renew-deadline=500s",
    "--lease-retry-period=500ms",
];

/// How soon after a look that finds it unsealed a Vault is in use again.
const RECOVERY: Duration = Duration::from_secs(15);
/// How often a sealed Vault is looked at.
const SEALED: Duration = Duration::from_secs(10);

/// One story of this world at a time.
static TURN: Mutex<()> = Mutex::const_new(());

/// A crew for each way to log in that takes no cloud.
async fn crews(site: &'static Site) -> Result<Vec<Crew>> {
    let home = site.world.operator_namespace();
    let token = mint(site.world.vault(), json!({"policies": ["pontoon"]})).await?;
    keep(site, "sealed", &[("token", &token.token)]).await?;

    let role = json!({"token_policies": ["pontoon"], "token_ttl": "1h"});
    site.put("sys/auth/approle", json!({"type": "approle"}))
        .await?;
    site.put("auth/approle/role/pontoon", role).await?;
    let vault = site.world.vault();
    let path = "auth/approle/role/pontoon";
    let id = site.read(&format!("{path}/role-id")).await?;
    let secret_id = format!("{path}/secret-id");
    let made = vault.expect(Method::POST, &secret_id, None).await?;
    let secret = made["data"]["secret_id"].as_str().unwrap_or_default();
    keep(site, "sealed-id", &[("id", secret)]).await?;

    let role = json!({
        "role_type": "jwt", "user_claim": "sub", "bound_audiences": ["vault"],
        "bound_subject": format!("system:serviceaccount:{home}:pontoon"),
        "token_policies": ["pontoon"], "token_ttl": "1h",
    });
    site.put("auth/jwt/role/pontoon", role).await?;

    let id = id.unwrap_or_default()["role_id"].take();
    let app_role = json!({"roleId": id, "secretIdRef": key(site, "sealed-id", "id")});
    let ways = [
        by_token(site, "sealed"),
        json!({"kubernetes": null, "appRole": app_role}),
        json!({}),
        json!({"kubernetes": null, "jwt": {"role": "pontoon"}}),
    ];
    let mut crews = Vec::new();
    for auth in ways {
        let spec = json!({"auth": auth, "healthCheckInterval": "5s"});
        crews.push(site.crew_with(spec).await?);
    }
    Ok(crews)
}

/// How often the operator asked for anything about a login.
fn logins(crew: &Crew) -> usize {
    crew.proxy.count(AnyMethod::any(), "/v1/auth/*")
}

async fn is_sealed(crew: &Crew) -> Result<()> {
    let sealed = is("Ready", "VaultSealed");
    let cluster = crew.cluster();
    let found = cluster
        .until::<VaultConnection>(&crew.connection, sealed)
        .await?;
    let status = found.status.unwrap();
    assert_eq!(status.phase, Some(Phase::Error));
    assert_eq!(status.healthy, Some(false));
    assert!(status.consecutive_fails >= Some(1));
    let healthy = gauge(crew.site, "connection_healthy", &crew.connection).await?;
    assert_eq!(healthy, Some(0.0));
    Ok(())
}

/// The last look that found Vault sealed and the first that did not.
fn around_unsealing(crew: &Crew) -> [Timestamp; 2] {
    let requests = crew.proxy.requests().into_iter();
    let arrivals = crew.proxy.arrivals(AnyMethod::any(), "*");
    let looks: Vec<_> = requests
        .zip(arrivals)
        .filter(|(one, _)| one.path == "/v1/sys/health")
        .collect();
    let sealed = Some(StatusCode::SERVICE_UNAVAILABLE);
    let last = looks.iter().rposition(|(one, _)| one.status == sealed);
    let last = last.expect("it was sealed");
    [looks[last].1, looks[last + 1].1]
}

/// When the status of the crew's connection was last written.
async fn last_status_write(crew: &Crew, mark: Mark) -> Result<Timestamp> {
    let mut writes = crew.kubernetes_writes(mark).await?;
    writes.retain(|one| one.name == crew.connection && one.subresource == "status");
    Ok(writes.last().expect("it is ready now").time)
}

#[test]
fn by_whatever_way_nobody_logs_in_to_a_sealed_vault_and_all_go_on_when_it_is_unsealed() -> Result<()>
{
    tell(WORLD, async |site| {
        let _turn = TURN.lock().await;
        let crews = crews(site).await?;
        let methods = ["token", "appRole", "kubernetes", "jwt"];
        for (crew, method) in crews.iter().zip(methods) {
            let status = current(crew, &crew.connection).await?;
            let auth = status.auth_status.unwrap();
            assert_eq!(auth.auth_method.as_deref(), Some(method));
        }

        site.world.vault().seal().await?;
        for crew in &crews {
            is_sealed(crew).await?;
        }
        let before: Vec<_> = crews.iter().map(logins).collect();
        let proxies: Vec<_> = crews.iter().map(|crew| crew.proxy).collect();
        looks(&proxies, 1).await?;
        let after: Vec<_> = crews.iter().map(logins).collect();
        assert_eq!(after, before, "with a token that was good before");

        // The next life of the operator has no token at all. The last one gave its tokens back.
        let operator = site.world.operator();
        operator.terminate(Duration::from_secs(25)).await?;
        let before: Vec<_> = crews.iter().map(logins).collect();
        operator.restart(|_| {}).await?;
        looks(&proxies, 2).await?;
        for crew in &crews {
            is_sealed(crew).await?;
        }
        let after: Vec<_> = crews.iter().map(logins).collect();
        assert_eq!(after, before, "without a token");

        let mark = site.world.mark();
        site.world.vault().unseal().await?;
        for crew in &crews {
            let status = ready(crew, &crew.connection).await?;
            assert_eq!(status.phase, Some(Phase::Active));
            assert_eq!(status.healthy, Some(true));
        }
        for crew in &crews {
            let [sealed, unsealed] = around_unsealing(crew);
            let apart = unsealed.duration_since(sealed).unsigned_abs();
            assert!(apart < 2 * SEALED, "a look was left out: {apart:?}");
            let ready = last_status_write(crew, mark).await?;
            let took = ready.duration_since(unsealed).unsigned_abs();
            assert!(took <= RECOVERY, "{took:?}");
            event(&crew.cluster(), &crew.connection, "VaultUnsealed").await?;
        }
        Ok(())
    })
}

/// How long a pod of the chart has to end.
fn grace() -> Duration {
    let deployment = include_str!("../../../../charts/pontoon/templates/deployment.yaml");
    let mut lines = deployment.lines().map(str::trim);
    let grace = lines.find_map(|line| line.strip_prefix("terminationGracePeriodSeconds: "));
    let seconds = grace.expect("the chart says so").parse();
    Duration::from_secs(seconds.expect("a number of seconds"))
}

#[test]
fn told_to_stop_while_vault_hangs_the_operator_ends_within_its_pods_grace() -> Result<()> {
    tell(WORLD, async |site| {
        let _turn = TURN.lock().await;
        let crew = site.crew().await?;
        crew.declare::<VaultPolicy>("app", reader()).await?;
        crew.until::<VaultPolicy>("app", is("Ready", "Succeeded"))
            .await?;
        crew.proxy
            .rule(Rule::on(AnyMethod::any(), "/v1/*").black_hole());
        let path = format!("sys/policies/acl/{}", crew.vault_name("app"));
        let before = crew.calls(Method::GET, &path);
        let edited = json!({"rules": [rule("secret/data/edited", &["read"])]});
        crew.declare::<VaultPolicy>("app", edited).await?;
        eventually("a pass hangs", async || {
            Ok((crew.calls(Method::GET, &path) > before).then_some(()))
        })
        .await?;

        let operator = site.world.operator();
        let ended = operator.terminate(grace()).await;
        // Whatever came of it, the next story finds an operator.
        operator.restart(|_| {}).await?;
        assert!(ended?.success());
        // Of the pod's time, twenty seconds are for passes, unless somebody says otherwise.
        let help = Command::new(testkit::binary(None)?)
            .args(["run", "--help"])
            .output()?;
        let help = String::from_utf8(help.stdout)?;
        let words: Vec<_> = help.split_whitespace().collect();
        let flag = words.iter().position(|word| *word == "--shutdown-deadline");
        let mut after = words[flag.expect("there is such a flag")..].iter();
        after.find(|word| **word == "[default:");
        assert_eq!(after.next(), Some(&"20s]"));
        assert!(grace() > Duration::from_secs(20 + 5), "and for the rest");
        Ok(())
    })
}

/// The reads of all policies and roles of a crew.
fn reads(crew: &Crew, each: usize) -> Vec<usize> {
    let names = (0..each).flat_map(|n| {
        [
            format!("sys/policies/acl/{}", crew.vault_name(&format!("p{n}"))),
            format!("auth/kubernetes/role/{}", crew.vault_name(&format!("r{n}"))),
        ]
    });
    names.map(|path| crew.calls(Method::GET, &path)).collect()
}

/// The leader dies, and the other goes on. No other story uses this world.
async fn succeeded_by(other: &Operator, crew: &Crew, each: usize) -> Result<()> {
    let (world, mark) = (&crew.site.world, crew.site.world.mark());
    let (writes, before) = (crew.writes(), reads(crew, each));
    let logins = || crew.calls(Method::POST, "auth/*/login");
    let logins_before = logins();
    world.operator().kill();
    // A lease runs out, and who waited for the new leader's login is woken over half a minute.
    eventually("the other has looked at all", async || {
        let now = reads(crew, each);
        let all = now.iter().zip(&before).all(|(now, before)| now > before);
        Ok(all.then_some(()))
    })
    .await?;
    // What it does about all that comes right behind; the connection's next look is later.
    looks(&[crew.proxy], 2).await?;
    assert_eq!(crew.writes(), writes);
    // A login of its own is told of in the status of the connection.
    let mut written = crew.kubernetes_writes(mark).await?;
    written.retain(|one| one.resource != "vaultconnections" || one.subresource != "status");
    assert_eq!(written, vec![]);
    assert_eq!(logins(), logins_before + 1);

    let edited = json!({"rules": [rule("secret/data/edited", &["read"])]});
    crew.declare::<VaultPolicy>("p0", edited).await?;
    crew.until::<VaultPolicy>("p0", is("Ready", "Succeeded"))
        .await?;
    assert_eq!(crew.writes(), writes + 1);
    let passed = other.metric("vault_access_operator_policy_reconcile_total", &[]);
    assert!(passed.await? > 0.0);
    Ok(())
}

#[test]
fn when_the_leader_is_killed_the_other_goes_on_and_writes_nothing_unneeded() -> Result<()> {
    tell(SHORT_LEASE, async |site| {
        const EACH: usize = 5;
        let crew = site.crew_with(json!({"healthCheckInterval": "5s"})).await?;
        for n in 0..EACH {
            let (policy, role) = (format!("p{n}"), format!("r{n}"));
            let mut spec: Value = admits(&["sa1"]);
            spec["policies"][0]["name"] = json!(policy);
            crew.declare::<VaultPolicy>(&policy, reader()).await?;
            crew.declare::<VaultRole>(&role, spec).await?;
            crew.until::<VaultRole>(&role, is("Ready", "Succeeded"))
                .await?;
            // It names its roles, and then has nothing more to say.
            let used = |policy: &VaultPolicy| {
                let status = policy.status.as_ref();
                status.is_some_and(|status| !status.used_by_roles.is_empty())
            };
            crew.until::<VaultPolicy>(&policy, used).await?;
        }
        // Once it leads, it keeps its lease on a busy machine, too.
        let other = site.world.replica_with("other", |options| {
            options.args.retain(|flag| !flag.starts_with("--lease-"));
            options.args.extend(LONG_LEASE.map(str::to_owned));
        });
        succeeded_by(&other.await?, &crew, EACH).await
    })
}

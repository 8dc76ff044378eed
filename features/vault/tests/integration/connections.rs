//! Connections: what they say of Vault, of what they need to get there, and of who needs them.

use std::time::Duration;

use crate::connection_fixtures::{
    accessor, by_token, current, empty_vault, gauge, keep, login, mint, ready,
};
use crate::stories::{Crew, Plan, Site, admits, annotate, event, events, reader, rule, said, tell};
use api::vault::{
    Phase, VaultClusterPolicy, VaultClusterRole, VaultConnection, VaultKVSecret, VaultPolicy,
    VaultRole,
};
use kernel::{Clock, RealClock};
use kube::Resource;
use reqwest::{Method, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use testkit::fault_proxy::{AnyMethod, Rule};
use testkit::{Entry, Result, Story, eventually, eventually_within, is};

/// Real time, and no retry within a story: what goes on does so because something changed, or
/// because its interval is over.
const WORLD: Plan = Plan {
    pace: 1,
    args: &["--vault-error-interval=5m"],
};

/// A resync that is shorter than the interval of a connection does not count for it.
const SHORT_RESYNC: Plan = Plan {
    pace: 1,
    args: &["--vault-error-interval=5m", "--vault-resync=5s"],
};

/// How long a call hangs before it is given up.
const HANGING: Duration = Duration::from_secs(10);

/// A name that is not found may take the resolver a while.
const PATIENCE: Duration = Duration::from_secs(90);

/// What these stories write beside policies and roles: seeds.
async fn let_all_in(site: &Site) -> Result<Value> {
    let all = r#"path "*" { capabilities = ["create", "read", "update", "patch", "delete"] }"#;
    site.write_policy("all", all).await?;
    site.let_operator_in("kubernetes", "all", "all").await?;
    Ok(json!({"auth": {"kubernetes": {"role": "all"}}}))
}

#[test]
fn a_good_token_makes_a_connection_active() -> Result<()> {
    tell(WORLD, async |site| {
        let fields = json!({"policies": ["pontoon"], "ttl": "1h"});
        let token = mint(site.world.vault(), fields).await?;
        keep(site, "good", &[("token", &token.token)]).await?;
        let crew = site
            .crew_with(json!({"auth": by_token(site, "good")}))
            .await?;

        let status = current(&crew, &crew.connection).await?;
        assert_eq!(status.phase, Some(Phase::Active));
        assert_eq!(status.healthy, Some(true));
        let vault = site.world.vault();
        let health = vault.expect(Method::GET, "sys/health", None).await?;
        assert_eq!(status.vault_version.as_deref(), health["version"].as_str());
        let login = login(&status);
        assert_eq!(login.auth_method.as_deref(), Some("token"));
        assert_eq!(login.token_accessor, Some(token.accessor));
        let left = login.token_expiration.unwrap().0 - RealClock::new().now();
        let minutes = left.total(jiff::Unit::Minute)?;
        assert!((55.0..=60.0).contains(&minutes), "{minutes}");
        let healthy = gauge(site, "connection_healthy", &crew.connection).await?;
        assert_eq!(healthy, Some(1.0));
        Ok(())
    })
}

/// Waits until a connection has failed this often in a row because nobody answers.
async fn fails(crew: &Crew, connection: &str, times: i64) -> Result<()> {
    let away = |found: &VaultConnection| {
        let status = found.status.as_ref();
        status.and_then(|status| status.consecutive_fails) >= Some(times)
    };
    let cluster = crew.cluster().within(PATIENCE);
    let found = cluster.until::<VaultConnection>(connection, away).await?;
    let status = found.status.unwrap();
    assert_eq!(status.phase, Some(Phase::Error));
    assert_eq!(status.healthy, Some(false));
    let ready = status.conditions.iter().find(|one| one.type_ == "Ready");
    let ready = ready.unwrap();
    assert_eq!((&*ready.status, &*ready.reason), ("False", "NetworkError"));
    assert_eq!(status.health_check_error.as_ref(), Some(&ready.message));

    let healthy = gauge(crew.site, "connection_healthy", connection).await?;
    assert_eq!(healthy, Some(0.0));
    let fails = gauge(crew.site, "connection_consecutive_fails", connection).await?;
    assert!(fails >= Some(2.0), "{fails:?}");
    let told = events(&crew.cluster(), connection).await?;
    let failed = told
        .iter()
        .filter(|one| one.reason.as_deref() == Some("SyncFailed"));
    assert_eq!(failed.count(), 1, "only a transition is an event: {told:?}");
    Ok(())
}

#[test]
fn a_host_that_is_not_found_is_a_network_error_counted_at_each_look() -> Result<()> {
    tell(WORLD, async |site| {
        let crew = site.crew().await?;
        let nowhere = crew.own("nowhere");
        let spec = json!({"address": "http://vault.invalid:8200", "healthCheckInterval": "5s"});
        crew.connect(&nowhere, spec).await?;
        fails(&crew, &nowhere, 3).await
    })
}

#[test]
fn a_host_that_dies_is_a_network_error_until_it_is_back() -> Result<()> {
    tell(WORLD, async |site| {
        let (vault, _) = empty_vault().await?;
        keep(site, "mortal", &[("token", vault.root_token())]).await?;
        let crew = site
            .crew_with(json!({
                "address": vault.address(), "auth": by_token(site, "mortal"),
                "healthCheckInterval": "5s",
            }))
            .await?;
        crew.declare::<VaultPolicy>("app", reader()).await?;
        crew.until::<VaultPolicy>("app", is("Ready", "Succeeded"))
            .await?;

        vault.stop().await?;
        let mark = site.world.mark();
        // Who has something to do says what it waits for, and may notice before the connection does.
        let edited = json!({"rules": [rule("secret/data/edited", &["read"])]});
        crew.declare::<VaultPolicy>("app", edited).await?;
        let app = crew
            .until::<VaultPolicy>("app", is("Ready", "ConnectionNotReady"))
            .await?;
        let message = said(&app.status.unwrap().sync.conditions, "Ready");
        assert!(message.contains("its status says why"), "{message}");
        fails(&crew, &crew.connection, 3).await?;
        // Now it hears of the same from its connection, and has nothing new to say.
        let failed = async || {
            let labels = [("namespace", crew.name()), ("result", "failure")];
            site.metric("policy_reconcile_total", &labels).await
        };
        let before = failed().await?;
        annotate::<VaultPolicy>(&crew, "app", "story.example/again", Some("true")).await?;
        eventually("the policy has had another pass", async || {
            Ok((failed().await? > before).then_some(()))
        })
        .await?;
        let mut writes = crew.kubernetes_writes(mark).await?;
        writes.retain(|one| one.name == "app" && one.subresource == "status");
        assert_eq!(writes.len(), 1, "{writes:?}");

        vault.start_again().await?;
        let status = ready(&crew, &crew.connection).await?;
        assert_eq!(status.healthy, Some(true));
        assert_eq!(status.consecutive_fails, Some(0));
        assert_eq!(status.health_check_error, None);
        let healthy = gauge(site, "connection_healthy", &crew.connection).await?;
        assert_eq!(healthy, Some(1.0));
        crew.until::<VaultPolicy>("app", is("Ready", "Succeeded"))
            .await?;
        Ok(())
    })
}

#[test]
fn vault_is_looked_at_once_in_the_interval_it_was_given() -> Result<()> {
    tell(SHORT_RESYNC, async |site| {
        let crew = site.crew_with(json!({"healthCheckInterval": "7s"})).await?;
        let looks = || crew.proxy.arrivals(Method::GET, "/v1/sys/health");
        let before = looks().len();
        crate::connection_fixtures::looks(&[crew.proxy], 5).await?;
        let looks = looks().split_off(before);
        for pair in looks.windows(2) {
            let apart = pair[1].duration_since(pair[0]).as_secs_f64();
            // Never earlier than a tenth, and none is skipped; a busy machine is late.
            assert!((6.3..12.6).contains(&apart), "{looks:?}");
        }
        Ok(())
    })
}

#[test]
fn a_server_without_namespaces_is_asked_for_its_health_and_nothing_else() -> Result<()> {
    tell(WORLD, async |site| {
        let crew = site.crew().await?;
        let namespace = json!({"vaultNamespace": "child"});
        for (n, change) in [namespace.clone(), json!({"auth": namespace})]
            .into_iter()
            .enumerate()
        {
            let (name, proxy) = (crew.own(&format!("child{n}")), site.proxy().await?);
            let mut spec = change;
            spec["address"] = json!(proxy.url());
            spec["healthCheckInterval"] = json!("5s");
            crew.connect(&name, spec).await?;
            let cluster = crew.cluster();
            let found = cluster
                .until::<VaultConnection>(&name, is("Ready", "UnsupportedByServer"))
                .await?;
            let status = found.status.unwrap();
            assert_eq!(
                (status.phase, status.healthy),
                (Some(Phase::Error), Some(false))
            );
            let (mut policy, mut role) = (reader(), admits(&["sa1"]));
            policy["connectionRef"] = json!(name);
            role["connectionRef"] = json!(name);
            let (app, r) = (format!("app{n}"), format!("r{n}"));
            crew.declare::<VaultPolicy>(&app, policy).await?;
            crew.declare::<VaultRole>(&r, role).await?;
            crew.until::<VaultPolicy>(&app, is("Ready", "ConnectionNotReady"))
                .await?;
            crew.until::<VaultRole>(&r, is("Ready", "ConnectionNotReady"))
                .await?;
            crate::connection_fixtures::looks(&[proxy], 2).await?;
            let mut asked = proxy.requests();
            asked.retain(|one| one.path != "/v1/sys/health");
            assert_eq!(asked, vec![]);
        }
        Ok(())
    })
}

#[test]
fn a_connection_waits_for_a_seed_and_goes_after_it() -> Result<()> {
    tell(WORLD, async |site| {
        let crew = site.crew_with(let_all_in(site).await?).await?;
        let path = format!("secret/data/{}/seed", crew.name());
        let spec = json!({"path": path, "data": {"colour": "red"}});
        crew.declare::<VaultKVSecret>("seed", spec).await?;
        crew.until::<VaultKVSecret>("seed", is("Ready", "Succeeded"))
            .await?;
        let (cluster, name) = (crew.cluster(), &crew.connection);
        let token = accessor(&current(&crew, name).await?);

        cluster.delete::<VaultConnection>(name).await?;
        let waits = cluster
            .until::<VaultConnection>(name, is("Deleting", "ChildrenExist"))
            .await?;
        let status = waits.status.unwrap();
        assert_eq!(status.phase, Some(Phase::Deleting));
        let message = said(&status.conditions, "Deleting");
        let child = format!("VaultKVSecret {}/seed", crew.name());
        assert!(message.contains(&child), "{message}");
        // The login is still there for the seed to go by.
        assert!(
            crate::connection_fixtures::known(site.world.vault(), &token)
                .await?
                .is_some()
        );

        crew.delete::<VaultKVSecret>("seed").await?;
        crew.gone::<VaultKVSecret>("seed").await?;
        cluster.gone::<VaultConnection>(name).await?;
        let seed = format!("secret/metadata/{}/seed", crew.name());
        assert_eq!(site.read(&seed).await?, None);
        assert_eq!(
            crate::connection_fixtures::known(site.world.vault(), &token).await?,
            None
        );
        assert_eq!(gauge(site, "connection_healthy", name).await?, None);
        Ok(())
    })
}

/// Waits for a sign on an object; its phase then.
async fn phase<K>(story: &Story, name: &str, sign: testkit::Holds) -> Result<Value>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Serialize + std::fmt::Debug,
{
    let found = story.until::<K>(name, sign).await?;
    Ok(serde_json::to_value(found)?["status"]["phase"].take())
}

#[test]
fn every_kind_waits_for_its_connection_and_goes_on_when_it_is_made() -> Result<()> {
    tell(WORLD, async |site| {
        let crew = site.crew().await?;
        let (late, both) = (crew.own("late"), crew.own("both"));
        let on_late = |mut spec: Value| {
            spec["connectionRef"] = json!(late);
            spec
        };
        crew.declare::<VaultPolicy>("app", on_late(reader()))
            .await?;
        crew.declare::<VaultRole>("r", on_late(admits(&["sa1"])))
            .await?;
        let path = format!("secret/data/{}/seed", crew.name());
        let seed = json!({"path": path, "data": {"colour": "red"}});
        crew.declare::<VaultKVSecret>("seed", on_late(seed)).await?;
        let policy = json!({"rules": [rule("secret/data/x", &["read"])]});
        crew.declare::<VaultClusterPolicy>(&both, on_late(policy))
            .await?;
        let role = json!({
            "serviceAccounts": [{"name": "sa1", "namespace": crew.name()}],
            "policies": [{"kind": "VaultClusterPolicy", "name": both}],
        });
        crew.declare::<VaultClusterRole>(&both, on_late(role))
            .await?;

        let cluster = crew.cluster();
        let phases = async |sign: testkit::Holds| -> Result<Vec<Value>> {
            Ok(vec![
                phase::<VaultPolicy>(&crew, "app", sign.clone()).await?,
                phase::<VaultRole>(&crew, "r", sign.clone()).await?,
                phase::<VaultKVSecret>(&crew, "seed", sign.clone()).await?,
                phase::<VaultClusterPolicy>(&cluster, &both, sign.clone()).await?,
                phase::<VaultClusterRole>(&cluster, &both, sign).await?,
            ])
        };
        let waiting = phases(is("DependencyReady", "DependencyNotReady")).await?;
        assert_eq!(waiting, vec!["Error"; 5]);

        // Those who waited are woken over half a minute.
        crew.connect(&late, let_all_in(site).await?).await?;
        ready(&crew, &late).await?;
        let done = phases(is("Ready", "Succeeded")).await?;
        assert_eq!(done, vec!["Active"; 5]);
        Ok(())
    })
}

#[test]
fn what_a_connection_writes_about_itself_wakes_nobody() -> Result<()> {
    tell(WORLD, async |site| {
        let fresh = async || mint(site.world.vault(), json!({"policies": ["pontoon"]})).await;
        let (old, new) = (fresh().await?, fresh().await?);
        keep(site, "waking", &[("token", &old.token)]).await?;
        let crew = site
            .crew_with(json!({"auth": by_token(site, "waking"), "healthCheckInterval": "5s"}))
            .await?;
        crew.declare::<VaultPolicy>("app", reader()).await?;
        crew.until::<VaultPolicy>("app", is("Ready", "Succeeded"))
            .await?;
        // Events are sent after the status.
        event(&crew, "app", "Synced").await?;
        let path = format!("sys/policies/acl/vao._.{}.app", crew.name());
        let (reads, mark) = (crew.calls(Method::GET, &path), site.world.mark());

        // Another login: the connection says so in its status, and stays as healthy as it was.
        keep(site, "waking", &[("token", &new.token)]).await?;
        eventually("the new token is in use", async || {
            let now = current(&crew, &crew.connection).await?;
            Ok((accessor(&now) == new.accessor).then_some(()))
        })
        .await?;
        // And a note that somebody leaves on it.
        let cluster = crew.cluster();
        annotate::<VaultConnection>(&cluster, &crew.connection, "note", Some("x")).await?;
        crate::connection_fixtures::looks(&[crew.proxy], 2).await?;
        assert_eq!(crew.calls(Method::GET, &path), reads);
        let written = crew.kubernetes_writes(mark).await?;
        assert!(!written.is_empty(), "the login was told");
        // Events about it have its name and more.
        let is_its_own = |one: &&Entry| {
            let rest = one.name.strip_prefix(&crew.connection);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        let mut others = written.iter().filter(|one| !is_its_own(one));
        assert_eq!(others.next(), None);
        Ok(())
    })
}

#[test]
fn a_vault_that_hangs_holds_up_nobody_elses_objects() -> Result<()> {
    tell(WORLD, async |site| {
        const MANY: usize = 60;
        let (crew, dead) = (site.crew().await?, site.proxy().await?);
        let hangs = crew.own("hangs");
        crew.connect(&hangs, json!({"address": dead.url()})).await?;
        ready(&crew, &hangs).await?;
        let many = |path: &str| -> String {
            let spec = json!({"connectionRef": hangs, "rules": [rule(path, &["read"])]});
            let name = |n: usize| format!("p{n}");
            (0..MANY)
                .map(|n| crew.manifest::<VaultPolicy>(&name(n), spec.clone()))
                .collect()
        };
        crew.apply(&many("secret/data/old")).await?;
        crew.declare::<VaultPolicy>("app", reader()).await?;
        crew.until::<VaultPolicy>("app", is("Ready", "Succeeded"))
            .await?;
        for n in 0..MANY {
            crew.until::<VaultPolicy>(&format!("p{n}"), is("Ready", "Succeeded"))
                .await?;
        }

        // All of its objects have something to do, and each call takes as long as one may.
        let asked = || dead.count(AnyMethod::any(), "/v1/sys/policies/*");
        dead.rule(Rule::on(AnyMethod::any(), "/v1/*").black_hole());
        dead.cut_all();
        let before = asked();
        let clock = RealClock::new();
        crew.apply(&many("secret/data/new")).await?;
        eventually("they hang", async || Ok((asked() > before).then_some(()))).await?;
        for n in 0..5 {
            let began = clock.elapsed();
            let edited = json!({"rules": [rule(&format!("secret/data/{n}"), &["read"])]});
            crew.declare::<VaultPolicy>("app", edited).await?;
            crew.until::<VaultPolicy>("app", is("Ready", "Succeeded"))
                .await?;
            let took = clock.elapsed().saturating_sub(began);
            assert!(took < HANGING, "{took:?} for edit {n}");
        }
        // No more calls hang than the connection may have under way, besides its own. Those that
        // began first make room once they have timed out.
        let hung = asked() - before;
        let periods = clock.elapsed().as_secs() / HANGING.as_secs();
        let most = 16 * (1 + usize::try_from(periods)?);
        assert!(hung <= most, "{hung} calls at once, {most} are allowed");
        Ok(())
    })
}

#[test]
fn a_standby_is_as_good_as_any() -> Result<()> {
    tell(WORLD, async |site| {
        let crew = site.crew().await?;
        for status in [429, 473] {
            let told = json!({
                "initialized": true, "sealed": false, "standby": true, "version": "1.21.1",
                "performance_standby": status == 473,
            });
            let standby = Rule::on(Method::GET, "/v1/sys/health")
                .status(StatusCode::from_u16(status)?, told.to_string());
            let standby = crew.proxy.rule(standby);
            let (name, app) = (crew.own(&format!("s{status}")), format!("app{status}"));
            crew.connect(&name, json!({})).await?;
            let said = ready(&crew, &name).await?;
            assert_eq!(
                (said.phase, said.healthy),
                (Some(Phase::Active), Some(true))
            );
            let mut spec = reader();
            spec["connectionRef"] = json!(name);
            crew.declare::<VaultPolicy>(&app, spec).await?;
            crew.until::<VaultPolicy>(&app, is("Ready", "Succeeded"))
                .await?;
            assert!(crew.proxy.remove(standby));
        }
        Ok(())
    })
}

#[test]
fn who_is_told_to_come_later_comes_just_then_and_says_nothing_meanwhile() -> Result<()> {
    tell(WORLD, async |site| {
        let crew = site.crew().await?;
        let path = format!("sys/policies/acl/{}", crew.vault_name("app"));
        crew.declare::<VaultPolicy>("app", reader()).await?;
        crew.until::<VaultPolicy>("app", is("Ready", "Succeeded"))
            .await?;
        let headers = json!({"enable_rate_limit_response_headers": true});
        site.put("sys/quotas/config", headers).await?;
        let quota = json!({"path": path, "rate": 2, "interval": "12s"});
        site.put(&format!("sys/quotas/rate-limit/{}", crew.name()), quota)
            .await?;

        // One edit, a read and a write, uses the quota up.
        let clock = RealClock::new();
        let edit = |path: &str| json!({"rules": [rule(path, &["read"])]});
        crew.declare::<VaultPolicy>("app", edit("secret/data/one"))
            .await?;
        let app = crew
            .until::<VaultPolicy>("app", is("Ready", "Succeeded"))
            .await?;
        let asked = |status: u16| {
            let all = crew.proxy.requests().into_iter();
            let about = all.filter(|one| one.path == format!("/v1/{path}"));
            about
                .filter(|one| one.status.is_some_and(|found| found == status))
                .count()
        };
        let allowed = asked(200) + asked(204);
        crew.declare::<VaultPolicy>("app", edit("secret/data/two"))
            .await?;
        eventually("Vault says: too many", async || {
            Ok((asked(429) == 1).then_some(()))
        })
        .await?;
        // The quota is full again 12 s after its first call, which came after `clock` was made.
        let again = || asked(200) + asked(204) + asked(429) - allowed - 1;
        eventually_within(Duration::from_secs(25), "it comes again", async || {
            let policies = kube::Api::<VaultPolicy>::namespaced(crew.client(), crew.name());
            let now = policies.get("app").await?;
            if again() == 0 {
                assert_eq!(now.status, app.status, "nothing is said meanwhile");
            }
            Ok((again() > 0).then_some(()))
        })
        .await?;
        let waited = clock.elapsed();
        assert!(waited >= Duration::from_secs(11), "{waited:?}");
        crew.until::<VaultPolicy>("app", is("Ready", "Succeeded"))
            .await?;
        let told = events(&crew, "app").await?;
        assert!(
            told.iter()
                .all(|one| one.type_.as_deref() == Some("Normal")),
            "{told:?}"
        );
        Ok(())
    })
}

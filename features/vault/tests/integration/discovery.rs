//! What is in Vault and nobody declares.

use crate::stories::{Crew, Plan, annotate, change_object, event, is_annotated, said, tell};
use api::vault::{
    Phase, VaultConnection, VaultConnectionStatus, VaultPolicy, VaultRole, names as words, reasons,
};
use kube::api::Api;
use reqwest::Method;
use serde_json::{Value, json};
use testkit::fault_proxy::Rule;
use testkit::{Result, eventually, is};

const WORLD: Plan = Plan {
    pace: 60,
    args: &["--vault-min-scan-interval=1s"],
};

fn discovery(more: Value) -> Value {
    let mut discovery = json!({"enabled": true, "interval": "5m"});
    for (field, value) in more.as_object().into_iter().flatten() {
        discovery[field] = value.clone();
    }
    json!({"discovery": discovery})
}

/// The names found, once a scan has come to an end that `fits`.
async fn found(crew: &Crew, fits: impl Fn(&[String]) -> bool) -> Result<Vec<String>> {
    eventually("a scan that fits", async || {
        let connections = Api::<VaultConnection>::all(crew.client());
        let connection = connections.get(&crew.connection).await?;
        let scan = connection.status.and_then(|status| status.discovery_status);
        let names: Option<Vec<String>> = scan.map(|scan| {
            let found = scan.discovered_resources.into_iter();
            found.filter_map(|one| one.name).collect()
        });
        Ok(names.filter(|names| fits(names)))
    })
    .await
}

#[test]
fn only_what_fits_the_patterns_is_found_and_a_failed_scan_keeps_it() -> Result<()> {
    tell(WORLD, async |site| {
        let text = "path \"secret/data/x\" { capabilities = [\"read\"] }";
        for name in ["app-one", "app-two", "other"] {
            site.write_policy(name, text).await?;
        }
        let patterns = json!({"policyPatterns": ["app-*"], "rolePatterns": ["none-*"]});
        let crew = site.crew_with(discovery(patterns)).await?;
        let mut names = found(&crew, |names| !names.is_empty()).await?;
        names.sort();
        assert_eq!(names, ["app-one", "app-two"]);
        event(&crew.cluster(), &crew.connection, "DiscoveryScanComplete").await?;

        crew.proxy
            .rule(Rule::on(Method::from_bytes(b"LIST")?, "/v1/sys/policies/*").reset());
        eventually("a scan fails", async || {
            let labels = [("connection", &*crew.connection), ("result", "failure")];
            let failed = site.metric("discovery_scans_total", &labels).await?;
            Ok((failed > 0.0).then_some(()))
        })
        .await?;
        assert_eq!(found(&crew, |_| true).await?.len(), 2);
        Ok(())
    })
}

#[test]
fn of_more_finds_than_five_hundred_the_first_are_listed_and_all_are_counted() -> Result<()> {
    tell(WORLD, async |site| {
        let text = "path \"secret/data/x\" { capabilities = [\"read\"] }";
        for n in 0..501 {
            site.write_policy(&format!("many-{n:03}"), text).await?;
        }
        let patterns = json!({"policyPatterns": ["many-*"], "rolePatterns": ["none-*"]});
        let crew = site.crew_with(discovery(patterns)).await?;
        let (cluster, name) = (crew.cluster(), &crew.connection);
        let told = async |reason: &str| -> Result<VaultConnectionStatus> {
            let told = is("DiscoveryResultsTruncated", reason);
            let found = cluster.until::<VaultConnection>(name, told).await?;
            Ok(found.status.expect("a condition is in the status"))
        };
        let status = told("Capped").await?;
        let message = said(&status.conditions, "DiscoveryResultsTruncated");
        assert!(message.contains("501"), "{message}");
        let scan = status.discovery_status.unwrap();
        assert_eq!(scan.unmanaged_policies, Some(501));
        assert_eq!(scan.discovered_resources.len(), 500);
        let labels = [("connection", &**name), ("type", "policy")];
        let count = site
            .metric("discovery_unmanaged_resources", &labels)
            .await?;
        assert!((count - 501.0).abs() < f64::EPSILON, "{count}");

        // One less, and all are listed.
        site.remove("sys/policies/acl/many-000").await?;
        let scan = told("WithinCap").await?.discovery_status.unwrap();
        assert_eq!(scan.unmanaged_policies, Some(500));
        assert_eq!(scan.discovered_resources.len(), 500);
        Ok(())
    })
}

#[test]
fn roles_are_looked_for_where_the_connection_writes_them() -> Result<()> {
    tell(WORLD, async |site| {
        let crew = site.crew().await?;
        // Of each mount a role that is nobody's, and one that an object of ours has left behind.
        let fields = json!({
            "bound_service_account_names": ["a"], "bound_service_account_namespaces": ["b"],
        });
        for mount in ["kubernetes", "kubernetes-x"] {
            for name in [crew.own(mount), crew.vault_name("lost")] {
                let path = format!("auth/{mount}/role/{name}");
                site.put(&path, fields.clone()).await?;
            }
        }
        let patterns = format!("{}-*", crew.name());
        let patterns = json!({"policyPatterns": ["none-*"], "rolePatterns": [patterns]});
        let (name, mut spec) = (crew.own("x"), discovery(patterns));
        spec["defaults"] = json!({"authPath": "kubernetes-x"});
        crew.connect(&name, spec).await?;
        let scanned = |connection: &VaultConnection| {
            let status = connection.status.as_ref();
            let scan = status.and_then(|status| status.discovery_status.as_ref());
            scan.is_some_and(|scan| !scan.discovered_resources.is_empty())
        };
        let cluster = crew.cluster();
        let found = cluster.until::<VaultConnection>(&name, scanned).await?;
        let scan = found.status.unwrap().discovery_status.unwrap();
        let found = scan.discovered_resources.into_iter();
        let found: Vec<_> = found.filter_map(|one| one.name).collect();
        assert_eq!(found, [crew.own("kubernetes-x")]);

        let labels = [("connection", &*name), ("type", "role")];
        let orphans = eventually("orphans are told", async || {
            let count = site.metric("vault_orphaned_resources", &labels).await?;
            Ok((count > 0.0).then_some(count))
        })
        .await?;
        assert!((orphans - 1.0).abs() < f64::EPSILON, "{orphans}");
        Ok(())
    })
}

/// How many passes over policies of the crew there were.
async fn passes(crew: &Crew) -> Result<f64> {
    let labels = [("kind", "VaultPolicy"), ("namespace", crew.name())];
    crew.site.metric("policy_reconcile_total", &labels).await
}

#[test]
fn what_is_found_becomes_objects_that_wait_for_a_person_and_change_nothing() -> Result<()> {
    tell(WORLD, async |site| {
        let text = "# by hand\npath \"secret/data/legacy/*\" {\n  capabilities = [\"read\"]\n}\n";
        site.write_policy("legacy-app", text).await?;
        let crew = site.crew_with(json!({})).await?;
        let auto = json!({
            "policyPatterns": ["legacy-*"],
            "rolePatterns": ["none-*"],
            "autoCreateCRs": true,
            "targetNamespace": crew.name(),
        });
        let change = json!({"spec": discovery(auto)});
        change_object::<VaultConnection>(&crew.cluster(), &crew.connection, &change).await?;
        let pending = crew
            .until::<VaultPolicy>("legacy-app", is("Ready", reasons::DISCOVERY_PENDING))
            .await?;
        let spec = &pending.spec.policy;
        assert_eq!(spec.external_name.as_deref(), Some("legacy-app"));
        assert_eq!(spec.rules.len(), 1);
        assert_eq!(spec.rules[0].path, "secret/data/legacy/*");
        for annotation in [words::ADOPT, words::DISCOVERED_AT, words::DISCOVERED_FROM] {
            assert!(is_annotated(&pending, annotation), "{annotation}");
        }
        // Passes over it, asked for one by one, leave Vault as it is.
        for n in 0..5 {
            let (value, before) = (n.to_string(), passes(&crew).await?);
            annotate::<VaultPolicy>(&crew, "legacy-app", "poke", Some(&value)).await?;
            eventually("one more pass", async || {
                Ok((passes(&crew).await? > before).then_some(()))
            })
            .await?;
        }
        assert_eq!(site.policy("legacy-app").await?.as_deref(), Some(text));
        assert_eq!(crew.writes(), 0);

        annotate::<VaultPolicy>(&crew, "legacy-app", words::DISCOVERY_PENDING, None).await?;
        let active = crew
            .until::<VaultPolicy>("legacy-app", is("Ready", "Succeeded"))
            .await?;
        assert_eq!(active.status.unwrap().sync.phase, Some(Phase::Active));
        let now = site.policy("legacy-app").await?.unwrap_or_default();
        assert!(now.contains("# managed-by: vault-access-operator"), "{now}");
        Ok(())
    })
}

#[test]
fn a_role_that_is_found_names_its_accounts_and_policies() -> Result<()> {
    tell(WORLD, async |site| {
        let crew = site.crew_with(json!({})).await?;
        let name = crew.own("ci");
        site.put(
            &format!("auth/kubernetes/role/{name}"),
            json!({
                "bound_service_account_names": ["builder"],
                "bound_service_account_namespaces": [crew.name()],
                "token_policies": ["default"],
            }),
        )
        .await?;
        let auto = json!({
            "policyPatterns": ["none-*"],
            "rolePatterns": [format!("{}*", crew.name())],
            "autoCreateCRs": true,
            "targetNamespace": crew.name(),
        });
        let change = json!({"spec": discovery(auto)});
        change_object::<VaultConnection>(&crew.cluster(), &crew.connection, &change).await?;
        let role = crew
            .until::<VaultRole>(&name, is("Ready", reasons::DISCOVERY_PENDING))
            .await?;
        assert_eq!(role.spec.service_accounts, ["builder"]);
        assert_eq!(role.spec.role.policies[0].name, "default");
        Ok(())
    })
}

//! Cluster roles: exactly the pairs of namespace and service account that are named get in.

use crate::stories::{Crew, Plan, annotate, event, is_annotated, label, note, reader, said, tell};
use api::vault::{RoleStatus, VaultClusterRole, VaultPolicy, names};
use serde_json::{Value, json};
use testkit::{Result, Story, eventually, is};

/// Real time: what is true within a minute was neither a resync nor a retry.
const WORLD: Plan = Plan { pace: 1, args: &[] };

/// A crew with the policy `app` in Vault, and another team.
async fn neighbours(site: &'static crate::stories::Site) -> Result<(Crew, Story)> {
    let crew = site.crew().await?;
    crew.declare::<VaultPolicy>("app", reader()).await?;
    crew.until::<VaultPolicy>("app", is("Ready", "Succeeded"))
        .await?;
    Ok((crew, site.world.namespace("team-b").await?))
}

/// The spec of a cluster role with the crew's policy.
fn spec(crew: &Crew, change: Value) -> Value {
    let policy = json!({"kind": "VaultPolicy", "name": "app", "namespace": crew.name()});
    let mut spec = json!({"policies": [policy]});
    for (field, value) in change.as_object().expect("fields") {
        spec[field] = value.clone();
    }
    spec
}

/// Service accounts, as cluster roles list them.
fn pairs(listed: &[(&str, &str)]) -> Value {
    let pair = |(namespace, name): &(&str, &str)| json!({"name": name, "namespace": namespace});
    listed.iter().map(pair).collect()
}

/// Declares the crew's cluster role and waits until it is in Vault.
async fn written(crew: &Crew, change: Value) -> Result<RoleStatus> {
    let name = crew.own("r");
    crew.declare::<VaultClusterRole>(&name, spec(crew, change))
        .await?;
    let role = crew
        .cluster()
        .until::<VaultClusterRole>(&name, is("Ready", "Succeeded"))
        .await?;
    Ok(role.status.expect("it is ready"))
}

/// The base name in Vault of the crew's cluster role.
fn base(crew: &Crew) -> String {
    format!("vao.kubernetes._.{}", crew.own("r"))
}

/// Whether a service account gets in by a role.
async fn gets_in(crew: &Crew, role: &str, namespace: &str, account: &str) -> Result<bool> {
    let (status, _) = crew.site.login_of(role, namespace, account).await?;
    Ok(status == 200)
}

#[test]
fn selected_service_accounts_follow_the_labels_of_namespaces() -> Result<()> {
    tell(WORLD, async |site| {
        let (crew, other) = neighbours(site).await?;
        let selector = json!({"matchLabels": {"shop": crew.name()}});
        let selected = json!({"names": ["sa1"], "namespaceSelector": selector});
        let status = written(&crew, json!({"selectedServiceAccounts": selected})).await?;

        // No namespace is picked, and nobody gets in.
        let base = base(&crew);
        assert_eq!(status.vault_role_name.as_deref(), Some(&*base));
        let role = site.role(&base).await?.unwrap();
        assert_eq!(role["bound_service_account_namespaces"], json!(["_"]));
        assert!(!gets_in(&crew, &base, other.name(), "sa1").await?);

        let bound = async |namespaces: Value| {
            eventually(&format!("bound to {namespaces}"), async || {
                let role = site.role(&base).await?.unwrap_or_default();
                let now = &role["bound_service_account_namespaces"];
                Ok((*now == namespaces).then_some(()))
            })
            .await
        };
        label(&other, "shop", Some(crew.name())).await?;
        bound(json!([other.name()])).await?;
        assert!(gets_in(&crew, &base, other.name(), "sa1").await?);
        assert!(!gets_in(&crew, &base, other.name(), "sa2").await?);
        assert!(!gets_in(&crew, &base, crew.name(), "sa1").await?);

        label(&other, "shop", None).await?;
        bound(json!(["_"])).await?;
        assert!(!gets_in(&crew, &base, other.name(), "sa1").await?);
        Ok(())
    })
}

#[test]
fn vault_itself_can_look_at_the_labels() -> Result<()> {
    tell(WORLD, async |site| {
        let (crew, other) = neighbours(site).await?;
        let selector = json!({"matchLabels": {"shop": crew.name()}});
        let by_vault =
            json!({"names": ["sa1"], "namespaceSelector": selector, "resolveBy": "Vault"});
        written(&crew, json!({"selectedServiceAccounts": by_vault})).await?;
        let role = site.role(&base(&crew)).await?.unwrap();
        let sent = role["bound_service_account_namespace_selector"].as_str();
        let sent: Value = serde_json::from_str(sent.unwrap())?;
        assert_eq!(sent, selector);

        label(&other, "shop", Some(crew.name())).await?;
        assert!(gets_in(&crew, &base(&crew), other.name(), "sa1").await?);
        assert!(!gets_in(&crew, &base(&crew), crew.name(), "sa1").await?);
        Ok(())
    })
}

#[test]
fn a_product_is_one_role_at_the_base_name() -> Result<()> {
    tell(WORLD, async |site| {
        let (crew, other) = neighbours(site).await?;
        let (a, b) = (crew.name(), other.name());
        let all = pairs(&[(a, "x"), (a, "y"), (b, "x"), (b, "y")]);
        let status = written(&crew, json!({"serviceAccounts": all})).await?;
        assert_eq!(status.vault_role_name, Some(base(&crew)));
        assert!(status.vault_role_names.is_empty());
        for (namespace, account) in [(a, "x"), (a, "y"), (b, "x"), (b, "y")] {
            assert!(gets_in(&crew, &base(&crew), namespace, account).await?);
        }
        crew.cluster()
            .until::<VaultClusterRole>(&crew.own("r"), is("BindingExact", "Exact"))
            .await?;
        Ok(())
    })
}

#[test]
fn what_is_no_product_has_a_role_for_each_namespace_and_admits_no_stranger() -> Result<()> {
    tell(WORLD, async |site| {
        let (crew, other) = neighbours(site).await?;
        let (a, b) = (crew.name(), other.name());
        let some = pairs(&[(a, "x"), (b, "y")]);
        let status = written(&crew, json!({"serviceAccounts": some})).await?;
        let base = base(&crew);
        let (of_a, of_b) = (format!("{base}__{a}"), format!("{base}__{b}"));
        assert!(status.vault_role_name.unwrap_or_default().is_empty());
        let mut told: Vec<_> = status
            .vault_role_names
            .into_iter()
            .map(|one| (one.namespace, one.vault_role_name, one.service_accounts))
            .collect();
        told.sort();
        let entry = |namespace: &str, role: &String, account: &str| {
            let accounts = vec![account.to_owned()];
            (Some(namespace.to_owned()), Some(role.clone()), accounts)
        };
        let mut wanted = vec![entry(a, &of_a, "x"), entry(b, &of_b, "y")];
        wanted.sort();
        assert_eq!(told, wanted);
        assert_eq!(site.role(&base).await?, None);

        assert!(gets_in(&crew, &of_a, a, "x").await?);
        assert!(gets_in(&crew, &of_b, b, "y").await?);
        for role in [&of_a, &of_b] {
            assert!(!gets_in(&crew, role, a, "y").await?);
            assert!(!gets_in(&crew, role, b, "x").await?);
        }
        let name = crew.own("r");
        crew.cluster()
            .until::<VaultClusterRole>(&name, is("BindingExact", "Exact"))
            .await?;

        crew.cluster().delete::<VaultClusterRole>(&name).await?;
        crew.cluster().gone::<VaultClusterRole>(&name).await?;
        for role in [&of_a, &of_b] {
            assert_eq!(site.role(role).await?, None);
        }
        Ok(())
    })
}

#[test]
fn who_means_everyone_may_not_say_so_in_passing() -> Result<()> {
    tell(WORLD, async |site| {
        let (crew, other) = neighbours(site).await?;
        let (a, b, name) = (crew.name(), other.name(), crew.own("r"));
        for (listed, told) in [
            (pairs(&[(a, "*"), (a, "x")]), "the name *"),
            (pairs(&[("team-*", "x"), (b, "x")]), "the namespace team-*"),
        ] {
            let spec = spec(&crew, json!({"serviceAccounts": listed}));
            crew.declare::<VaultClusterRole>(&name, spec).await?;
            let role = crew
                .cluster()
                .until::<VaultClusterRole>(&name, is("Ready", "ValidationFailed"))
                .await?;
            let message = said(&role.status.unwrap().sync.conditions, "Ready");
            assert!(message.contains(told), "{message}");
        }
        assert_eq!(site.role(&base(&crew)).await?, None);

        // Alone in its namespace it is what it says, there and nowhere else.
        let everyone = pairs(&[(a, "*"), (b, "x")]);
        written(&crew, json!({"serviceAccounts": everyone})).await?;
        let (of_a, of_b) = (
            format!("{}__{a}", base(&crew)),
            format!("{}__{b}", base(&crew)),
        );
        assert!(gets_in(&crew, &of_a, a, "anyone").await?);
        assert!(!gets_in(&crew, &of_a, b, "x").await?);
        assert!(gets_in(&crew, &of_b, b, "x").await?);
        assert!(!gets_in(&crew, &of_b, b, "anyone").await?);
        Ok(())
    })
}

#[test]
fn once_split_a_role_stays_while_its_namespace_has_a_pair() -> Result<()> {
    tell(WORLD, async |site| {
        let (crew, other) = neighbours(site).await?;
        let (a, b) = (crew.name(), other.name());
        let some = pairs(&[(a, "x"), (b, "y")]);
        written(&crew, json!({"serviceAccounts": some})).await?;
        let base = base(&crew);
        let (of_a, of_b) = (format!("{base}__{a}"), format!("{base}__{b}"));

        // A product again: the base is written, and who logs in by the split roles still can.
        let all = pairs(&[(a, "x"), (a, "y"), (b, "x"), (b, "y")]);
        let status = written(&crew, json!({"serviceAccounts": all})).await?;
        assert_eq!(status.vault_role_name.as_deref(), Some(&*base));
        for (role, namespace) in [(&of_a, a), (&of_b, b), (&base, a), (&base, b)] {
            for account in ["x", "y"] {
                let here = gets_in(&crew, role, namespace, account).await?;
                assert!(here, "{account} of {namespace} by {role}");
            }
        }

        // A namespace without a pair has no role any more.
        let one = pairs(&[(a, "x")]);
        written(&crew, json!({"serviceAccounts": one})).await?;
        assert_eq!(site.role(&of_b).await?, None);
        assert!(gets_in(&crew, &of_a, a, "x").await?);
        assert!(!gets_in(&crew, &of_a, a, "y").await?);
        assert!(!gets_in(&crew, &base, b, "x").await?);
        Ok(())
    })
}

#[test]
fn an_accepted_product_is_one_role_and_says_who_else_gets_in() -> Result<()> {
    tell(WORLD, async |site| {
        let (crew, other) = neighbours(site).await?;
        let (a, b) = (crew.name(), other.name());
        let some = json!({
            "serviceAccounts": pairs(&[(a, "x"), (b, "y")]), "serviceAccountBinding": "Product",
        });
        let status = written(&crew, some).await?;
        assert_eq!(status.vault_role_name, Some(base(&crew)));
        assert!(gets_in(&crew, &base(&crew), a, "y").await?);
        let role = crew
            .cluster()
            .until::<VaultClusterRole>(&crew.own("r"), is("BindingExact", "ProductAccepted"))
            .await?;
        let message = said(&role.status.unwrap().sync.conditions, "BindingExact");
        assert!(message.contains(&format!("{a}/y")), "{message}");
        Ok(())
    })
}

#[test]
fn a_base_role_of_before_only_shrinks_until_someone_consents_to_its_end() -> Result<()> {
    tell(WORLD, async |site| {
        let (crew, other) = neighbours(site).await?;
        let (a, b, name) = (crew.name(), other.name(), crew.own("r"));
        let all = pairs(&[(a, "x"), (a, "y"), (a, "z"), (b, "x"), (b, "y"), (b, "z")]);
        written(&crew, json!({"serviceAccounts": all})).await?;
        let base = base(&crew);

        // Without z, and without y in the other namespace, it still lets that one in, and says so.
        let fewer = json!({"serviceAccounts": pairs(&[(a, "x"), (a, "y"), (b, "x")])});
        written(&crew, fewer.clone()).await?;
        let cluster = crew.cluster();
        let legacy = is("BindingExact", "LegacyProductRole");
        let role = cluster.until::<VaultClusterRole>(&name, legacy).await?;
        let message = said(&role.status.unwrap().sync.conditions, "BindingExact");
        assert!(message.contains(&format!("{b}/y")), "{message}");
        let told = event(&cluster, &name, "LegacyProductRole").await?;
        assert_eq!(told.type_.as_deref(), Some("Warning"));
        assert!(note(&told).contains(&format!("{b}/y")), "{told:?}");
        assert!(gets_in(&crew, &base, a, "x").await?);
        assert!(!gets_in(&crew, &base, a, "z").await?);
        let of_b = format!("{base}__{b}");
        assert!(gets_in(&crew, &of_b, b, "x").await?);
        assert!(!gets_in(&crew, &of_b, b, "y").await?);

        annotate::<VaultClusterRole>(&cluster, &name, names::ALLOW_DESTRUCTIVE, Some("true"))
            .await?;
        let exact = is("BindingExact", "Exact");
        cluster.until::<VaultClusterRole>(&name, exact).await?;
        let spent = |role: &VaultClusterRole| !is_annotated(role, names::ALLOW_DESTRUCTIVE);
        cluster.until::<VaultClusterRole>(&name, spent).await?;
        assert_eq!(site.role(&base).await?, None);
        assert!(gets_in(&crew, &format!("{base}__{a}"), a, "y").await?);
        Ok(())
    })
}

#[test]
fn an_exact_binding_ends_a_base_role_that_admits_more() -> Result<()> {
    tell(WORLD, async |site| {
        let (crew, other) = neighbours(site).await?;
        let (a, b) = (crew.name(), other.name());
        let all = pairs(&[(a, "x"), (a, "y"), (b, "x"), (b, "y")]);
        written(&crew, json!({"serviceAccounts": all})).await?;
        let fewer = json!({
            "serviceAccounts": pairs(&[(a, "x"), (a, "y"), (b, "x")]),
            "serviceAccountBinding": "Exact",
        });
        let status = written(&crew, fewer).await?;
        assert!(status.vault_role_name.unwrap_or_default().is_empty());
        assert_eq!(site.role(&base(&crew)).await?, None);
        assert!(gets_in(&crew, &format!("{}__{b}", base(&crew)), b, "x").await?);
        Ok(())
    })
}

//! Ownership: what is not ours is neither written nor deleted, unless somebody says so.

use crate::stories::{Crew, Plan, admits, annotate, event, note, reader, said, tell};
use api::vault::{Phase, VaultPolicy, VaultRole, names};
use reqwest::Method;
use serde_json::{Value, json};
use testkit::fault_proxy::Rule;
use testkit::{Result, is};

/// A minute passes in a second, and every object is looked at once a minute. The predecessor's
/// switch for markers has no effect: whose a thing is, is looked at whatever it says.
const WORLD: Plan = Plan {
    pace: 60,
    args: &["--vault-resync=1m", "--managed-markers=false"],
};

/// A policy that nobody signed.
const UNMARKED: &str = r#"path "secret/data/legacy" { capabilities = ["read"] }"#;

/// A policy that another cluster signed, and that cluster's name for it.
const FOREIGN: &str = r#"# managed-by: vault-access-operator
# auth-mount: elsewhere
# cluster: blue
# k8s-resource: other/app
# k8s-kind: VaultPolicy

path "secret/data/theirs" { capabilities = ["read"] }
"#;
const OWNER: &str = "VaultPolicy other/app (auth-mount elsewhere, cluster blue)";

fn path(crew: &Crew, name: &str) -> String {
    format!("sys/policies/acl/{}", crew.vault_name(name))
}

async fn adoptions(crew: &Crew, kind: &str) -> Result<f64> {
    let labels = [("kind", kind), ("namespace", crew.name())];
    crew.site.metric("discovery_adoptions_total", &labels).await
}

#[test]
fn an_unmarked_policy_is_a_conflict_until_it_is_adopted() -> Result<()> {
    tell(WORLD, async |site| {
        let crew = site.crew().await?;
        let name = crew.vault_name("app");
        site.write_policy(&name, UNMARKED).await?;
        crew.declare::<VaultPolicy>("app", reader()).await?;
        let app = crew
            .until::<VaultPolicy>("app", is("Ready", "Conflict"))
            .await?;
        let sync = app.status.unwrap().sync;
        assert_eq!(sync.phase, Some(Phase::Conflict));
        assert!(sync.binding.is_none(), "{:?}", sync.binding);
        let message = said(&sync.conditions, "Ready");
        assert!(message.contains(names::ADOPT), "{message}");
        event(&crew, "app", "SyncFailed").await?;
        crew.rereads(&path(&crew, "app"), 2).await?;
        assert_eq!(site.policy(&name).await?.as_deref(), Some(UNMARKED));
        assert_eq!(crew.writes(), 0);

        annotate::<VaultPolicy>(&crew, "app", names::ADOPT, Some("true")).await?;
        crew.until::<VaultPolicy>("app", is("Ready", "Succeeded"))
            .await?;
        let text = site.policy(&name).await?.unwrap();
        let head = "# managed-by: vault-access-operator\n";
        assert!(text.starts_with(head) && !text.contains("legacy"), "{text}");
        let told = event(&crew, "app", "Adopted").await?;
        assert!(note(&told).contains("secret/data/legacy"), "{told:?}");

        // It is taken once, however often it is looked at.
        crew.rereads(&path(&crew, "app"), 2).await?;
        assert!((adoptions(&crew, "VaultPolicy").await? - 1.0).abs() < f64::EPSILON);
        assert_eq!(crew.writes(), 1);
        Ok(())
    })
}

#[test]
fn adoption_signs_even_what_is_as_declared() -> Result<()> {
    tell(WORLD, async |site| {
        let crew = site.crew().await?;
        let (name, team) = (crew.vault_name("app"), crew.name());
        let same = format!("path \"secret/data/{team}/*\" {{ capabilities = [\"read\"] }}");
        site.write_policy(&name, &same).await?;
        let mut spec = reader();
        spec["conflictPolicy"] = json!("Adopt");
        crew.declare::<VaultPolicy>("app", spec).await?;
        crew.until::<VaultPolicy>("app", is("Ready", "Succeeded"))
            .await?;
        let text = site.policy(&name).await?.unwrap();
        assert!(text.contains(&format!("# k8s-resource: {team}/app\n")));
        Ok(())
    })
}

#[test]
fn a_foreign_policy_is_never_overwritten_and_survives_our_deletion() -> Result<()> {
    tell(WORLD, async |site| {
        let crew = site.crew().await?;
        let name = crew.vault_name("app");
        site.write_policy(&name, FOREIGN).await?;
        crew.declare::<VaultPolicy>("app", reader()).await?;
        let app = crew
            .until::<VaultPolicy>("app", is("Ready", "Conflict"))
            .await?;
        let message = said(&app.status.unwrap().sync.conditions, "Ready");
        assert!(message.contains(OWNER), "{message}");

        // Consent to take what is nobody's is no consent to take what is somebody's.
        annotate::<VaultPolicy>(&crew, "app", names::ADOPT, Some("true")).await?;
        crew.rereads(&path(&crew, "app"), 2).await?;
        let app = crew
            .until::<VaultPolicy>("app", is("Ready", "Conflict"))
            .await?;
        let message = said(&app.status.unwrap().sync.conditions, "Ready");
        assert!(message.contains(OWNER), "{message}");

        crew.delete::<VaultPolicy>("app").await?;
        crew.gone::<VaultPolicy>("app").await?;
        assert_eq!(site.policy(&name).await?.as_deref(), Some(FOREIGN));
        assert_eq!(crew.writes(), 0);
        let told = event(&crew, "app", "ForeignPolicyNotDeleted").await?;
        assert!(note(&told).contains(OWNER), "{told:?}");
        Ok(())
    })
}

#[test]
fn a_policy_that_another_took_over_survives_our_deletion() -> Result<()> {
    tell(WORLD, async |site| {
        let crew = site.crew().await?;
        let name = crew.vault_name("app");
        crew.declare::<VaultPolicy>("app", reader()).await?;
        crew.until::<VaultPolicy>("app", is("Ready", "Succeeded"))
            .await?;
        site.write_policy(&name, FOREIGN).await?;
        crew.until::<VaultPolicy>("app", is("Ready", "Conflict"))
            .await?;
        crew.delete::<VaultPolicy>("app").await?;
        crew.gone::<VaultPolicy>("app").await?;
        assert_eq!(site.policy(&name).await?.as_deref(), Some(FOREIGN));
        assert_eq!(crew.calls(Method::DELETE, "sys/policies/*"), 0);
        event(&crew, "app", "ForeignPolicyNotDeleted").await?;
        Ok(())
    })
}

#[test]
fn a_foreign_policy_is_taken_over_from_exactly_its_owner() -> Result<()> {
    tell(WORLD, async |site| {
        let crew = site.crew().await?;
        let name = crew.vault_name("app");
        site.write_policy(&name, FOREIGN).await?;
        crew.declare::<VaultPolicy>("app", reader()).await?;
        let nearly = "VaultPolicy other/app (auth-mount elsewhere, cluster green)";
        annotate::<VaultPolicy>(&crew, "app", names::ADOPT_FROM, Some(nearly)).await?;
        crew.until::<VaultPolicy>("app", is("Ready", "Conflict"))
            .await?;
        crew.rereads(&path(&crew, "app"), 2).await?;
        assert_eq!(site.policy(&name).await?.as_deref(), Some(FOREIGN));

        annotate::<VaultPolicy>(&crew, "app", names::ADOPT_FROM, Some(OWNER)).await?;
        crew.until::<VaultPolicy>("app", is("Ready", "Succeeded"))
            .await?;
        let text = site.policy(&name).await?.unwrap();
        let ours = format!("# k8s-resource: {}/app\n", crew.name());
        assert!(text.contains(&ours), "{text}");
        event(&crew, "app", "Adopted").await?;
        Ok(())
    })
}

#[test]
fn an_external_name_needs_a_grant_and_then_adoption() -> Result<()> {
    tell(WORLD, async |site| {
        let crew = site.crew().await?;
        let name = crew.own("legacy");
        crew.searched().await?;
        site.write_policy(&name, UNMARKED).await?;
        let mut spec = reader();
        spec["externalName"] = json!(name);
        crew.declare::<VaultPolicy>("app", spec).await?;
        let app = crew
            .until::<VaultPolicy>("app", is("Ready", "TenancyDenied"))
            .await?;
        let message = said(&app.status.unwrap().sync.conditions, "Ready");
        assert!(message.contains(&name), "{message}");
        event(&crew, "app", "SyncFailed").await?;
        assert_eq!(
            crew.calls(Method::GET, &format!("sys/policies/acl/{name}")),
            0
        );

        // The connection grants it; now it is there unmarked, as anything could be.
        let grant = json!({"tenancy": {"externalNames": ["{{namespace}}-*"]}});
        crew.connect(&crew.connection, grant).await?;
        crew.until::<VaultPolicy>("app", is("Ready", "Conflict"))
            .await?;
        assert_eq!(site.policy(&name).await?.as_deref(), Some(UNMARKED));
        annotate::<VaultPolicy>(&crew, "app", names::ADOPT, Some("true")).await?;
        let app = crew
            .until::<VaultPolicy>("app", is("Ready", "Succeeded"))
            .await?;
        let status = app.status.unwrap();
        assert_eq!(status.vault_name.as_deref(), Some(&*name));
        assert_eq!(status.sync.managed, Some(true));
        let text = site.policy(&name).await?.unwrap();
        assert!(text.starts_with("# managed-by: vault-access-operator\n"));
        assert_eq!(site.policy(&crew.vault_name("app")).await?, None);

        crew.delete::<VaultPolicy>("app").await?;
        crew.gone::<VaultPolicy>("app").await?;
        assert_eq!(site.policy(&name).await?, None);
        Ok(())
    })
}

#[test]
fn an_unmarked_role_is_a_conflict_until_it_is_adopted() -> Result<()> {
    tell(WORLD, async |site| {
        let crew = site.crew().await?;
        let path = format!("auth/kubernetes/role/{}", crew.vault_name("r"));
        let theirs = json!({
            "bound_service_account_names": ["theirs"],
            "bound_service_account_namespaces": ["theirs"],
        });
        site.put(&path, theirs).await?;
        let before = site.read(&path).await?;
        crew.declare::<VaultPolicy>("app", reader()).await?;
        crew.until::<VaultPolicy>("app", is("Ready", "Succeeded"))
            .await?;
        crew.declare::<VaultRole>("r", admits(&["sa1"])).await?;
        crew.until::<VaultRole>("r", is("Ready", "Conflict"))
            .await?;
        crew.rereads(&path, 2).await?;
        assert_eq!(site.read(&path).await?, before);

        annotate::<VaultRole>(&crew, "r", names::ADOPT, Some("true")).await?;
        crew.until::<VaultRole>("r", is("Ready", "Succeeded"))
            .await?;
        let role = site.read(&path).await?.unwrap();
        assert_eq!(role["bound_service_account_names"], json!(["sa1"]));
        assert_eq!(
            role["bound_service_account_namespaces"],
            json!([crew.name()])
        );
        assert!((adoptions(&crew, "VaultRole").await? - 1.0).abs() < f64::EPSILON);
        Ok(())
    })
}

#[test]
fn where_the_server_keeps_markers_a_foreign_role_is_a_conflict_that_names_its_owner() -> Result<()>
{
    tell(WORLD, async |site| {
        let crew = site.crew().await?;
        let path = format!("auth/kubernetes/role/{}", crew.vault_name("r"));
        let theirs = json!({
            "bound_service_account_names": ["theirs"],
            "bound_service_account_namespaces": ["theirs"],
        });
        site.put(&path, theirs).await?;
        // The server at hand drops the field; answers as from one that keeps it.
        let keeps = Rule::on(Method::GET, &format!("/v1/{path}")).rewrite_body(|body| {
            let mut answer: Value = serde_json::from_slice(&body).unwrap_or_default();
            if answer["data"].is_object() {
                answer["data"]["alias_metadata"] = json!({
                    "managed-by": "vault-access-operator", "auth-mount": "elsewhere",
                    "k8s-resource": "other/r", "k8s-kind": "VaultRole",
                });
            }
            answer.to_string().into()
        });
        crew.proxy.rule(keeps);
        crew.declare::<VaultPolicy>("app", reader()).await?;
        crew.until::<VaultPolicy>("app", is("Ready", "Succeeded"))
            .await?;
        let mut spec = admits(&["sa1"]);
        spec["conflictPolicy"] = json!("Adopt");
        crew.declare::<VaultRole>("r", spec).await?;
        let r = crew
            .until::<VaultRole>("r", is("Ready", "Conflict"))
            .await?;
        let message = said(&r.status.unwrap().sync.conditions, "Ready");
        let owner = "VaultRole other/r (auth-mount elsewhere)";
        assert!(message.contains(owner), "{message}");

        crew.delete::<VaultRole>("r").await?;
        crew.gone::<VaultRole>("r").await?;
        let role = site.read(&path).await?.unwrap();
        assert_eq!(role["bound_service_account_names"], json!(["theirs"]));
        Ok(())
    })
}

//! The operator dies while it makes objects, for what it found in Vault or for a template: each is
//! made once, none is missing, and Vault is left as it is.

use crate::crashes::front::{
    self,
    When::{self, After, Before},
};
use crate::stories::{Crew, Plan, Site, change_object, is_annotated, label, rule, tell};
use api::vault::{VaultConnection, VaultPolicy, VaultRole, names, reasons};
use kube::ResourceExt;
use kube::api::{Api, ListParams};
use reqwest::Method;
use rstest::rstest;
use serde_json::{Value, json};
use testkit::fault_proxy::Rule;
use testkit::{Result, eventually, is};

use At::{Point, Status};
use Given::{Policy, Role};

/// Ten seconds pass in one.
const WORLD: Plan = Plan {
    pace: 10,
    args: &["--vault-deletion-deadline=never"],
};

/// Where the operator dies.
#[derive(Debug, Clone, Copy)]
enum At {
    /// At a kill point.
    Point(&'static str),
    /// At the write that tells of the scan.
    Status(When),
}

/// A crew, and what nobody has declared of three policies and a role: by name and path in Vault.
struct Finds {
    crew: Crew,
    policies: [String; 3],
    role: String,
}

impl Finds {
    async fn begin(site: &'static Site) -> Result<Self> {
        let crew = site.crew().await?;
        let policies = ["p1", "p2", "p3"].map(|name| crew.own(name));
        for name in &policies {
            let text = "# by hand\npath \"secret/data/x\" { capabilities = [\"read\"] }\n";
            site.write_policy(name, text).await?;
        }
        let role = crew.own("r1");
        let fields = json!({
            "bound_service_account_names": ["builder"],
            "bound_service_account_namespaces": [crew.name()],
            "token_policies": ["default"],
        });
        site.put(&format!("auth/kubernetes/role/{role}"), fields)
            .await?;
        Ok(Self {
            crew,
            policies,
            role,
        })
    }

    /// Has objects made for them.
    async fn discover(&self) -> Result<()> {
        let crew = &self.crew;
        let own = format!("{}-*", crew.name());
        let discovery = json!({
            "enabled": true, "interval": "5m", "autoCreateCRs": true,
            "policyPatterns": [own], "rolePatterns": [own], "targetNamespace": crew.name(),
        });
        let change = json!({"spec": {"discovery": discovery}});
        change_object::<VaultConnection>(&crew.cluster(), &crew.connection, &change).await
    }

    /// The objects there are, as `(name, uid)`.
    async fn made(&self) -> Result<Vec<(String, Option<String>)>> {
        let (client, namespace) = (|| self.crew.client(), self.crew.name());
        let all = ListParams::default();
        let policies = Api::<VaultPolicy>::namespaced(client(), namespace);
        let roles = Api::<VaultRole>::namespaced(client(), namespace);
        let policies = policies.list(&all).await?.items;
        let roles = roles.list(&all).await?.items;
        for policy in &policies {
            assert!(is_annotated(policy, names::DISCOVERY_PENDING));
            let external = policy.spec.policy.external_name.clone();
            assert_eq!(external, Some(policy.name_any()));
        }
        let policies = policies.into_iter().map(|one| (one.name_any(), one.uid()));
        let roles = roles.into_iter().map(|one| (one.name_any(), one.uid()));
        Ok(policies.chain(roles).collect())
    }

    /// All that Vault holds of it.
    async fn in_vault(&self) -> Result<Vec<Value>> {
        let mut found = Vec::new();
        for name in &self.policies {
            let path = format!("sys/policies/acl/{name}");
            found.extend(self.crew.site.read(&path).await?);
        }
        found.extend(self.crew.site.role(&self.role).await?);
        Ok(found)
    }
}

#[rstest]
#[case::before_the_first(Point("vault-before-declare"), 0)]
#[case::after_the_first(Point("vault-after-declare"), 1)]
#[case::before_the_third(Point("vault-before-declare#3"), 2)]
#[case::after_the_last(Point("vault-after-declare#4"), 4)]
#[case::before_the_scan_is_told(Status(Before), 4)]
#[case::after_the_scan_is_told(Status(After), 4)]
fn a_crash_while_finds_become_objects_makes_each_once(
    #[case] at: At,
    #[case] before: usize,
) -> Result<()> {
    tell(WORLD, async |site| {
        crate::crashes::ensure_living_operator(site).await?;
        let finds = Finds::begin(site).await?;
        let crew = &finds.crew;
        let in_vault = finds.in_vault().await?;
        match at {
            Point(point) => site.doom(point).await?,
            Status(when) => {
                // The first tells of the login.
                let path = front::path::<VaultConnection>("", &crew.connection);
                site.doom_at(when, &format!("{path}/status"), 2).await?;
                crew.rereads("sys/health", 1).await?;
            }
        }
        finds.discover().await?;
        site.died().await?;
        let made = finds.made().await?;
        assert_eq!(made.len(), before, "{made:?}");
        site.revive().await?;

        eventually("all four are declared", async || {
            Ok((finds.made().await?.len() >= 4).then_some(()))
        })
        .await?;
        for name in &finds.policies {
            let pending = is("Ready", reasons::DISCOVERY_PENDING);
            crew.until::<VaultPolicy>(name, pending).await?;
        }
        let listed = |connection: &VaultConnection| {
            let status = connection.status.as_ref();
            let scan = status.and_then(|status| status.discovery_status.as_ref());
            scan.is_some_and(|scan| scan.last_scan_at.is_some())
        };
        let (cluster, name) = (crew.cluster(), &crew.connection);
        cluster.until::<VaultConnection>(name, listed).await?;
        let now = finds.made().await?;
        assert_eq!(now.len(), 4, "{now:?}");
        // What was made before is what there is.
        assert!(made.iter().all(|one| now.contains(one)), "{made:?} {now:?}");
        assert_eq!(finds.in_vault().await?, in_vault);
        assert_eq!(crew.writes(), 0);

        // Else a pass that has begun declares again what the story deletes.
        let off = json!({"spec": {"discovery": null}});
        change_object::<VaultConnection>(&cluster, name, &off).await?;
        crew.rereads("sys/health", 2).await?;
        for name in &finds.policies {
            crew.delete::<VaultPolicy>(name).await?;
            crew.gone::<VaultPolicy>(name).await?;
        }
        crew.delete::<VaultRole>(&finds.role).await?;
        crew.gone::<VaultRole>(&finds.role).await?;
        assert_eq!(finds.in_vault().await?, in_vault);
        finds.crew.leave().await
    })
}

/// What a template gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Given {
    Policy,
    Role,
}

impl Given {
    fn path(self, crew: &Crew) -> String {
        match self {
            Policy => front::path::<VaultPolicy>(crew.name(), "given"),
            Role => front::path::<VaultRole>(crew.name(), "given"),
        }
    }
}

/// A crew whose connection gives to namespaces with its label.
async fn giver(site: &'static Site) -> Result<Crew> {
    let crew = site.crew().await?;
    let change = json!({"spec": {"tenancy": {"templates": [{
        "name": "given",
        "namespaceSelector": {"matchLabels": {"crew": crew.name()}},
        "rules": [rule("secret/data/{{namespace}}/*", &["read"])],
        "serviceAccounts": ["app"],
    }]}}});
    change_object::<VaultConnection>(&crew.cluster(), &crew.connection, &change).await?;
    Ok(crew)
}

async fn is_given(crew: &Crew) -> Result<()> {
    crew.until::<VaultPolicy>("given", is("Ready", "Succeeded"))
        .await?;
    let role = crew
        .until::<VaultRole>("given", is("Ready", "Succeeded"))
        .await?;
    let of = format!("{}.given", crew.connection);
    assert_eq!(role.labels().get(names::TEMPLATE_LABEL), Some(&of));
    Ok(())
}

async fn is_taken_back(crew: &Crew) -> Result<()> {
    crew.gone::<VaultRole>("given").await?;
    crew.gone::<VaultPolicy>("given").await?;
    let (site, name) = (crew.site, crew.vault_name("given"));
    assert_eq!(site.policy(&name).await?, None);
    assert_eq!(site.role(&name).await?, None);
    Ok(())
}

#[rstest]
fn a_crash_while_a_template_gives_gives_once(
    #[values(Before, After)] when: When,
    #[values(Policy, Role)] what: Given,
) -> Result<()> {
    tell(WORLD, async |site| {
        crate::crashes::ensure_living_operator(site).await?;
        let crew = giver(site).await?;
        site.doom_at(when, &what.path(&crew), 1).await?;
        label(&crew, "crew", Some(crew.name())).await?;
        site.revive().await?;

        is_given(&crew).await?;
        let name = crew.vault_name("given");
        let policy = format!("sys/policies/acl/{name}");
        assert_eq!(crew.calls(Method::PUT, &policy), 1);
        label(&crew, "crew", None).await?;
        is_taken_back(&crew).await?;
        crew.leave().await
    })
}

#[rstest]
fn a_crash_while_a_template_takes_back_takes_all_back(
    #[values(Before, After)] when: When,
    #[values(Policy, Role)] what: Given,
) -> Result<()> {
    tell(WORLD, async |site| {
        crate::crashes::ensure_living_operator(site).await?;
        let crew = giver(site).await?;
        label(&crew, "crew", Some(crew.name())).await?;
        is_given(&crew).await?;
        let taken = Rule::on(Method::DELETE, &what.path(&crew));
        site.doom_by(when, taken).await?;
        crew.rereads("sys/health", 1).await?;
        label(&crew, "crew", None).await?;
        site.revive().await?;

        is_taken_back(&crew).await?;
        crew.leave().await
    })
}

//! What a connection gives to every namespace that its templates pick.

use crate::stories::{Plan, annotate, change_object, event, label, reader, rule, tell};
use api::vault::{VaultConnection, VaultPolicy, VaultRole};
use kube::ResourceExt;
use kube::api::{Api, DeleteParams};
use serde_json::{Value, json};
use testkit::{Result, is};

const WORLD: Plan = Plan { pace: 5, args: &[] };

fn template(label: &str) -> Value {
    json!({"tenancy": {"templates": [{
        "name": "given",
        "namespaceSelector": {"matchLabels": {"crew": label}},
        "rules": [rule("secret/data/{{namespace}}/*", &["read"])],
        "serviceAccounts": ["app"],
        "tokenTTL": "10m",
    }]}})
}

#[test]
fn a_labelled_namespace_is_given_policy_and_role_until_it_is_labelled_no_more() -> Result<()> {
    tell(WORLD, async |site| {
        let crew = site.crew_with(template("one")).await?;
        label(&crew, "crew", Some("one")).await?;
        crew.until::<VaultPolicy>("given", is("Ready", "Succeeded"))
            .await?;
        let role = crew
            .until::<VaultRole>("given", is("Ready", "Succeeded"))
            .await?;
        let of = format!("{}.given", crew.connection);
        assert_eq!(role.labels().get("vault.platform.io/template"), Some(&of));
        let jwt = site.jwt(crew.name(), "app", None).await?;
        let login = site
            .login("kubernetes", &crew.vault_name("given"), &jwt)
            .await?;
        assert_eq!(login.status, 200, "{:?}", login.body);

        label(&crew, "crew", None).await?;
        crew.gone::<VaultRole>("given").await?;
        crew.gone::<VaultPolicy>("given").await?;
        assert_eq!(site.policy(&crew.vault_name("given")).await?, None);
        assert_eq!(site.role(&crew.vault_name("given")).await?, None);
        Ok(())
    })
}

#[test]
fn a_namesake_of_a_template_is_left_alone() -> Result<()> {
    tell(WORLD, async |site| {
        let crew = site.crew_with(template("two")).await?;
        crew.declare::<VaultPolicy>("given", reader()).await?;
        crew.until::<VaultPolicy>("given", is("Ready", "Succeeded"))
            .await?;
        label(&crew, "crew", Some("two")).await?;
        event(&crew.cluster(), &crew.connection, "TemplateNameTaken").await?;
        let own = crew
            .until::<VaultPolicy>("given", is("Ready", "Succeeded"))
            .await?;
        assert!(own.labels().is_empty(), "{:?}", own.labels());
        Ok(())
    })
}

#[test]
fn a_connection_that_goes_takes_back_what_it_gave_first() -> Result<()> {
    tell(WORLD, async |site| {
        let crew = site.crew_with(template("three")).await?;
        label(&crew, "crew", Some("three")).await?;
        crew.until::<VaultRole>("given", is("Ready", "Succeeded"))
            .await?;
        let connections = Api::<VaultConnection>::all(crew.client());
        connections
            .delete(&crew.connection, &DeleteParams::default())
            .await?;
        crew.gone::<VaultRole>("given").await?;
        crew.gone::<VaultPolicy>("given").await?;
        crew.cluster()
            .gone::<VaultConnection>(&crew.connection)
            .await?;
        assert_eq!(site.policy(&crew.vault_name("given")).await?, None);
        Ok(())
    })
}

#[test]
fn an_edited_template_reaches_what_it_gave() -> Result<()> {
    tell(WORLD, async |site| {
        let crew = site.crew_with(template("four")).await?;
        label(&crew, "crew", Some("four")).await?;
        crew.until::<VaultPolicy>("given", is("Ready", "Succeeded"))
            .await?;
        // A hand that edits what was given does not keep the edit: it is the connection's.
        annotate::<VaultPolicy>(&crew, "given", "note", Some("kept")).await?;
        let mut wider = template("four");
        wider["tenancy"]["templates"][0]["rules"][0]["capabilities"] = json!(["read", "list"]);
        let spec = json!({"spec": wider});
        change_object::<VaultConnection>(&crew.cluster(), &crew.connection, &spec).await?;
        testkit::eventually("the policy in Vault has the new rule", async || {
            let text = site.policy(&crew.vault_name("given")).await?;
            Ok(text.filter(|text| text.contains("\"list\"")))
        })
        .await?;
        Ok(())
    })
}

//! Logins for runs that `pontoon migrate kubeconfig` makes.

use api::migrate::{CheckId, Phase};
use serde_json::{Value, json};
use testkit::Result;

use crate::stories::{DESTINATION, NAME, SOURCE, Shop, ids, message, replicas, run_story_of};

/// The kubeconfig of a person who logs in to the source by a program, as in EKS.
async fn with_program(shop: &Shop) -> Result<Value> {
    let person = "person";
    let plane = shop.cluster(SOURCE).control_plane();
    let all = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]);
    plane.grant(shop.source.name(), person, &all).await?;
    let token = plane.service_account_token(shop.source.name(), person, None);
    let version = "client.authentication.k8s.io/v1";
    let credential = json!({
        "apiVersion": version, "kind": "ExecCredential", "status": {"token": token.await?},
    });
    let file = shop.file("credential", &credential.to_string())?;
    let mut kubeconfig: Value = serde_json::from_slice(&std::fs::read(shop.user_kubeconfig()?)?)?;
    let users = kubeconfig["users"].as_array_mut();
    for user in users.into_iter().flatten() {
        if user["name"] == SOURCE {
            let exec = json!({
                "apiVersion": version, "interactiveMode": "Never", "command": "cat", "args": [file],
            });
            user["user"] = json!({"exec": exec});
        }
    }
    Ok(kubeconfig)
}

/// The same with another current context.
fn current(kubeconfig: &Value, context: &str) -> Value {
    let mut kubeconfig = kubeconfig.clone();
    kubeconfig["current-context"] = json!(context);
    kubeconfig
}

#[test]
fn a_login_by_a_program_is_refused_and_replaced_by_the_verb() -> Result<()> {
    run_story_of(replicas(1), async |shop| {
        shop.open_shop().await?;
        let person = with_program(shop).await?;
        let secret = format!("{SOURCE}-kubeconfig");
        shop.store(&secret, &current(&person, SOURCE)).await?;
        let login = json!({"kubeConfigSecret": secret});
        shop.migrate(&json!({"dryRun": true, "sourceCluster": login}))
            .await?;
        let findings = shop.until_blocked(NAME).await?;
        assert_eq!(ids(&findings), [CheckId::Kubeconfig], "{findings:?}");
        let why = message(&findings, CheckId::Kubeconfig);
        assert!(why.contains("user.exec"), "{why}");

        let kubeconfig = current(&person, DESTINATION).to_string();
        let kubeconfig = shop.file("person", &kubeconfig)?;
        let make = |flags: &[&str]| {
            let args = [&["migrate", "kubeconfig", "--context", SOURCE][..], flags].concat();
            shop.run_program(&testkit::binary(None)?, &kubeconfig, &args)
        };
        make(&["--apply"])?.exits(2).prints("pass --yes");
        let printed = make(&["--yes", "-o", "json"])?.exits(0).findings()?;
        assert_eq!(printed[0]["users"][0]["user"]["exec"], Value::Null);
        make(&["--apply", "--yes"])?.exits(0).prints(&secret);
        shop.verb(&["retry", NAME, "--yes", "--timeout=60s"])?
            .exits(0);
        let status = shop.until_phase(Phase::Planned).await?;
        assert!(!status.plan.is_empty());
        Ok(())
    })
}

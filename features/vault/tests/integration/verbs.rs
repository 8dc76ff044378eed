//! What people find out with `pontoon vault` about what stories have made.

use std::process::{Command, Output, Stdio};

use crate::stories::{Plan, Site, admits, reader, tell};
use api::vault::{Phase, VaultClusterPolicy, VaultClusterRole, VaultPolicy, VaultRole};
use reqwest::Method;
use serde_json::json;
use testkit::{Result, is};

/// Real time: nothing here waits for a resync.
const WORLD: Plan = Plan { pace: 1, args: &[] };

/// Runs a verb with the administrator's kubeconfig.
fn ask(site: &Site, args: &[&str]) -> Result<Output> {
    let home = format!("--operator-namespace={}", site.world.operator_namespace());
    let mut command = Command::new(testkit::binary(None)?);
    let command = command.arg("vault").args(args).arg(home);
    let command = command.stdin(Stdio::null()).env_remove("CLUSTER_NAME");
    let kubeconfig = site.world.control_plane().kubeconfig();
    Ok(command.env("KUBECONFIG", kubeconfig).output()?)
}

/// Checks the exit code; answers what was printed.
fn ends(output: &Output, code: i32) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let said = text(&output.stdout) + &text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{said}");
    said
}

#[test]
fn explain_names_an_audience_that_does_not_fit() -> Result<()> {
    tell(WORLD, async |site| {
        let crew = site.crew().await?;
        crew.declare::<VaultPolicy>("app", reader()).await?;
        let mut spec = admits(&["sa1"]);
        spec["audience"] = json!("shop");
        crew.declare::<VaultRole>("r", spec).await?;
        crew.until::<VaultRole>("r", is("Ready", "Succeeded"))
            .await?;
        let account = format!("{}/sa1", crew.name());
        let scratch = site.world.control_plane().scratch();
        let explained = async |audience: &str| -> Result<Output> {
            let jwt = site.jwt(crew.name(), "sa1", Some(audience)).await?;
            let file = scratch.write(&crew.own(audience), jwt)?;
            let file = file.to_string_lossy();
            let args = ["explain", "vr/r", "-n", crew.name(), "--sa", &account];
            ask(site, &[&args[..], &["--jwt", &file]].concat())
        };

        // Vault says only that it does not let the token in.
        let jwt = site.jwt(crew.name(), "sa1", Some("vault")).await?;
        let name = crew.vault_name("r");
        assert_ne!(site.login("kubernetes", &name, &jwt).await?.status, 200);
        let said = ends(&explained("vault").await?, 1);
        assert!(said.contains("It cannot log in: audience"), "{said}");
        assert!(said.contains("shop"), "{said}");
        ends(&explained("shop").await?, 0);
        Ok(())
    })
}

#[test]
fn what_is_exported_and_applied_leaves_nothing_to_plan() -> Result<()> {
    tell(WORLD, async |site| {
        let crew = site.crew().await?;
        let (policy, role) = (crew.own("policy"), crew.own("role"));
        let text = r#"path "secret/a" { capabilities = ["read", "list"] }"#;
        site.write_policy(&policy, text).await?;
        let fields = json!({
            "bound_service_account_names": ["a", "b"], "bound_service_account_namespaces": ["x"],
            "token_policies": [policy], "token_ttl": 3600, "audience": "vault",
        });
        let path = format!("auth/kubernetes/role/{role}");
        site.put(&path, fields).await?;
        let before = site.read(&path).await?;
        let glob = format!("{}*", crew.name());
        let args = ["export", "--connection", &crew.connection];
        let globs = ["--policies", &glob, "--roles", &glob];
        let exported = ask(site, &[&args[..], &globs].concat())?;
        ends(&exported, 0);
        let manifests = String::from_utf8(exported.stdout)?;

        crew.apply(&manifests).await?;
        let (cluster, ready) = (crew.cluster(), || is("Ready", "Succeeded"));
        let made = cluster.until::<VaultClusterPolicy>(&policy, ready());
        let sync = made.await?.status.unwrap().sync;
        assert_eq!(sync.phase, Some(Phase::Active));
        cluster.until::<VaultClusterRole>(&role, ready()).await?;
        assert_eq!(
            site.read(&path).await?,
            before,
            "the role says what it said"
        );

        // Nothing is left to do, by name and by file.
        let writes = crew.writes();
        for object in [format!("vcp/{policy}"), format!("vcr/{role}")] {
            let said = ends(&ask(site, &["plan", &object])?, 0);
            assert!(said.contains("0 steps for 1 object"), "{said}");
        }
        let file = site.world.control_plane().scratch();
        let file = file.write(&crew.own("exported.yaml"), &manifests)?;
        let said = ends(&ask(site, &["plan", "-f", &file.to_string_lossy()])?, 0);
        assert!(said.contains("0 steps for 2 objects"), "{said}");
        assert_eq!(crew.writes(), writes);
        assert_eq!(crew.calls(Method::DELETE, "*"), 0);
        Ok(())
    })
}

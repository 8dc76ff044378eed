//! `pontoon vault …` as users call it, beside a running operator.

use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};

use crate::stories::{Crew, Plan, Site, admits, is_annotated, reader, rule, tell};
use api::vault::{VaultClusterPolicy, VaultClusterRole, VaultPolicy, VaultRole, names};
use kube::{Api, ResourceExt};
use reqwest::Method;
use serde_json::{Value, json};
use testkit::{Result, is};

/// Real time: nothing here waits for a resync.
const WORLD: Plan = Plan {
    pace: 1,
    args: &["--vault-deletion-deadline=never"],
};

/// A command with the administrator's kubeconfig.
fn verb(site: &Site, args: &[&str]) -> Result<Command> {
    let home = format!("--operator-namespace={}", site.world.operator_namespace());
    let mut command = Command::new(testkit::binary(None)?);
    command
        .arg("vault")
        .args(args)
        .arg(home)
        .stdin(Stdio::null())
        .env("KUBECONFIG", site.world.control_plane().kubeconfig())
        .env_remove("CLUSTER_NAME");
    Ok(command)
}

/// Runs a command with the administrator's kubeconfig.
fn run_verb(site: &Site, args: &[&str]) -> Result<Output> {
    Ok(verb(site, args)?.output()?)
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn all_output(output: &Output) -> String {
    format!("{}{}", out(output), String::from_utf8_lossy(&output.stderr))
}

/// Checks the exit code; returns stdout and stderr.
fn ends(output: &Output, code: i32) -> String {
    let all_output = all_output(output);
    assert_eq!(output.status.code(), Some(code), "{all_output}");
    all_output
}

/// The full result of a command, from its JSON.
fn found(output: &Output) -> Result<Vec<Value>> {
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// A policy `app` and a role `r` for the account `app`, both in Vault.
async fn app(crew: &Crew) -> Result<()> {
    crew.declare::<VaultPolicy>("app", reader()).await?;
    crew.declare::<VaultRole>("r", admits(&["app"])).await?;
    let ready = || is("Ready", "Succeeded");
    crew.until::<VaultPolicy>("app", ready()).await?;
    crew.until::<VaultRole>("r", ready()).await?;
    Ok(())
}

#[test]
fn status_shows_what_is_not_ready() -> Result<()> {
    tell(WORLD, async |site| {
        let crew = site.crew().await?;
        app(&crew).await?;
        let calm = run_verb(site, &["status", &crew.connection, "-o", "json"])?;
        ends(&calm, 0);
        let names: Vec<_> = found(&calm)?
            .iter()
            .map(|one| one["kind"].clone())
            .collect();
        assert_eq!(names, ["VaultConnection", "VaultPolicy", "VaultRole"]);

        let other = json!({"serviceAccounts": ["app"],
            "policies": [{"kind": "VaultPolicy", "name": "nowhere"}]});
        crew.declare::<VaultRole>("lost", other).await?;
        crew.until::<VaultRole>("lost", is("Ready", "PolicyNotInVault"))
            .await?;
        let output = run_verb(site, &["status", &crew.connection])?;
        assert!(ends(&output, 1).contains("PolicyNotInVault"));
        let all = run_verb(site, &["status", "-o", "json"])?;
        let ours = found(&all)?;
        let ours = ours
            .iter()
            .find(|one| one["connection"] == *crew.connection);
        assert_eq!(
            ours.map(|one| (&one["objects"], &one["objectsReady"])),
            Some((&json!(3), &json!(2)))
        );
        assert!(
            ends(&run_verb(site, &["status", "nobody"])?, 2)
                .contains("there is no VaultConnection nobody")
        );
        Ok(())
    })
}

#[test]
fn a_watch_prints_changes_of_objects_of_a_connection() -> Result<()> {
    tell(WORLD, async |site| {
        let crew = site.crew().await?;
        app(&crew).await?;
        let mut command = verb(site, &["status", &crew.connection, "--watch"])?;
        let mut child = command.stdout(Stdio::piped()).spawn()?;
        let printed = BufReader::new(child.stdout.take().expect("it is piped"));
        let lines: Vec<_> = printed.lines().take(4).collect::<std::io::Result<_>>()?;
        child.kill()?;
        child.wait()?;
        let kinds: Vec<_> = lines
            .iter()
            .filter_map(|line| line.split_whitespace().next())
            .collect();
        assert_eq!(
            kinds,
            ["KIND", "VaultConnection", "VaultPolicy", "VaultRole"]
        );
        Ok(())
    })
}

#[test]
fn a_plan_covers_one_namespace_or_all() -> Result<()> {
    tell(WORLD, async |site| {
        let crew = site.crew().await?;
        app(&crew).await?;
        // The kubeconfig's namespace is another, and has no objects.
        let other = ends(&run_verb(site, &["plan"])?, 0);
        assert!(other.contains("-A shows all"), "{other}");
        let both = ends(&run_verb(site, &["plan", "-A", "-n", crew.name()])?, 2);
        assert!(both.contains("cannot be used with"), "{both}");
        Ok(())
    })
}

#[test]
fn a_plan_is_empty_until_something_differs_and_writes_nothing() -> Result<()> {
    tell(WORLD, async |site| {
        let crew = site.crew().await?;
        app(&crew).await?;
        let team = crew.name();
        assert!(ends(&run_verb(site, &["plan", "-n", team])?, 0).contains("0 steps for 2 objects"));

        // A user edits it in Vault.
        let name = crew.vault_name("app");
        site.write_policy(&name, r#"path "secret/*" { capabilities = ["sudo"] }"#)
            .await?;
        let writes = crew.writes();
        let plan = run_verb(site, &["plan", "vp/app", "-n", team, "-o", "json"])?;
        ends(&plan, 1);
        let line = &found(&plan)?[0];
        assert_eq!(
            (&line["step"], &line["why"]),
            (&json!("report"), &json!("drift"))
        );
        let diff = ends(&run_verb(site, &["diff", "-n", team])?, 1);
        assert!(diff.contains("sudo") && diff.contains(&name), "{diff}");
        assert!(!out(&run_verb(site, &["diff", "vr/r", "-n", team])?).contains("VaultRole"));

        // The objects of a file are compared without being applied.
        let wider = json!({"rules": [rule("secret/data/{{namespace}}/*", &["read", "list"])]});
        let file = tempfile::NamedTempFile::new()?;
        std::fs::write(file.path(), crew.manifest::<VaultPolicy>("app", wider))?;
        let path = file.path().to_string_lossy();
        let plan = ends(&run_verb(site, &["plan", "-n", team, "-f", &path])?, 1);
        assert!(plan.contains("spec edited, outside change lost"), "{plan}");
        assert_eq!(crew.writes(), writes);

        // The command has revoked the token of every login.
        let logins = crew.calls(Method::POST, "auth/kubernetes/login");
        let ends = crew.calls(Method::POST, "auth/token/revoke-self");
        assert_eq!(logins, ends + 1, "the operator's own goes on");
        Ok(())
    })
}

#[test]
fn wrong_input_is_refused_with_what_to_write() -> Result<()> {
    tell(WORLD, async |site| {
        let crew = site.crew().await?;
        let team = crew.name();
        for (args, hint) in [
            (vec!["plan", "pod/x"], "VaultKVSecret (vks)"),
            (vec!["plan", "vp/x", "-n", team], "there is no VaultPolicy"),
            (vec!["plan", "app"], "<kind>/<name>"),
            (
                vec!["plan", "-f", "/nonexistent"],
                "/nonexistent cannot be read",
            ),
            (vec!["explain", "vp/x", "--sa", "a/b"], "VaultRole (vr)"),
            (vec!["explain", "vr/x", "--sa", "b"], "<namespace>/<name>"),
            (
                vec!["adopt", "vks/x", "-n", team],
                "there is no VaultKVSecret",
            ),
            (
                vec!["export", "--connection", "nobody"],
                "there is no VaultConnection",
            ),
            (
                vec!["export", "--connection", &crew.connection, "--roles", "[a"],
                "glob",
            ),
            (
                vec!["status", "--cluster-name", "a.b"],
                "--cluster-name=a.b",
            ),
            (
                vec!["status", "--token-file", "/nonexistent"],
                "--token-file",
            ),
        ] {
            let all_output = ends(&run_verb(site, &args)?, 2);
            assert!(all_output.contains(hint), "{args:?}: {all_output}");
        }
        Ok(())
    })
}

#[test]
fn an_unreachable_vault_gives_no_answer() -> Result<()> {
    tell(WORLD, async |site| {
        let crew = site.crew().await?;
        app(&crew).await?;
        let broken = tempfile::NamedTempFile::new()?;
        std::fs::write(broken.path(), "hvs.nobodys")?;
        let path = broken.path().to_string_lossy();
        let all_output = ends(
            &run_verb(
                site,
                &["plan", "vp/app", "-n", crew.name(), "--token-file", &path],
            )?,
            2,
        );
        assert!(!all_output.contains("hvs.nobodys"), "{all_output}");
        Ok(())
    })
}

/// State and finding of `pontoon doctor` about `what`.
fn examined(site: &Site, what: &str, lease: Option<&str>) -> Result<(String, String)> {
    let mut command = Command::new(testkit::binary(None)?);
    command
        .args(["doctor", "--feature=vault", "-o", "json"])
        .arg(format!("--namespace={}", site.world.operator_namespace()))
        .env("KUBECONFIG", site.world.control_plane().kubeconfig());
    command.args(lease.map(|lease| format!("--vault-legacy-lease={lease}")));
    let output = command.output()?;
    let all = found(&output)?;
    let one = all.iter().find(|one| one["check"] == what);
    let one = one.unwrap_or_else(|| panic!("nothing of {what}: {}", all_output(&output)));
    let text = |field: &str| one[field].as_str().unwrap_or_default().to_owned();
    Ok((text("state"), text("finding")))
}

#[test]
fn doctor_says_whether_each_vault_answers_from_here() -> Result<()> {
    tell(WORLD, async |site| {
        let crew = site.crew().await?;
        let check = format!("vault: connection {}", crew.connection);
        let (state, finding) = examined(site, &check, None)?;
        assert_eq!((&*state, &*finding), ("ok", "Vault 1.21.1 answers"));

        let nowhere = format!("{}-nowhere", crew.name());
        let spec = json!({"address": "http://127.0.0.1:9"});
        crew.connect(&nowhere, spec).await?;
        let (state, finding) = examined(site, &format!("vault: connection {nowhere}"), None)?;
        assert_eq!(state, "PROBLEM", "{finding}");
        assert!(finding.contains("127.0.0.1:9"), "{finding}");
        Ok(())
    })
}

#[test]
fn doctor_warns_of_a_predecessor_that_would_not_wait_for_us() -> Result<()> {
    tell(WORLD, async |site| {
        let crew = site.crew().await?;
        let check = "vault: predecessor vault-access-operator";
        assert_eq!(
            examined(site, check, None)?,
            ("ok".into(), "does not run".into())
        );
        for (lease, finding) in [
            (
                "nowhere/old",
                "does not run, and there is no namespace nowhere: nobody can hold its Lease nowhere/old",
            ),
            ("default/old", "does not run; its Lease default/old is free"),
        ] {
            assert_eq!(
                examined(site, check, Some(lease))?,
                ("ok".into(), finding.into())
            );
        }
        crew.apply(
            "{apiVersion: apps/v1, kind: Deployment, metadata: {name: manager}, spec: {
                  selector: {matchLabels: {app: vao}}, template: {metadata: {labels: {app: vao}},
                  spec: {containers: [{name: manager, image: vault-access-operator:v0.12}]}}}}",
        )
        .await?;
        for (lease, finding) in [
            (None, "while we hold its Lease"),
            (
                Some("default/elsewhere"),
                "without its Lease default/elsewhere",
            ),
            (Some("none"), "both write; scale it to 0"),
        ] {
            let (state, found) = examined(site, check, lease)?;
            assert_eq!(state, "warning", "{found}");
            assert!(found.contains(finding), "{found}");
        }
        Ok(())
    })
}

#[test]
fn adopt_shows_the_difference_asks_and_annotates() -> Result<()> {
    tell(WORLD, async |site| {
        let crew = site.crew().await?;
        let (team, name) = (crew.name(), crew.vault_name("app"));
        site.write_policy(&name, r#"path "secret/old" { capabilities = ["read"] }"#)
            .await?;
        crew.declare::<VaultPolicy>("app", reader()).await?;
        crew.until::<VaultPolicy>("app", is("Ready", "Conflict"))
            .await?;

        // stdin is not a terminal.
        let refused = ends(&run_verb(site, &["adopt", "vp/app", "-n", team])?, 2);
        assert!(
            refused.contains("secret/old") && refused.contains("--yes"),
            "{refused}"
        );
        let app = Api::<VaultPolicy>::namespaced(crew.client(), team)
            .get("app")
            .await?;
        assert!(!is_annotated(&app, names::ADOPT));

        ends(
            &run_verb(site, &["adopt", "vp/app", "-n", team, "--yes"])?,
            0,
        );
        crew.until::<VaultPolicy>("app", is("Ready", "Succeeded"))
            .await?;
        let again = run_verb(site, &["adopt", "vp/app", "-n", team, "--yes"])?;
        assert!(ends(&again, 0).contains("nothing"));
        Ok(())
    })
}

#[test]
fn a_foreign_policy_is_adopted_only_from_its_owner() -> Result<()> {
    tell(WORLD, async |site| {
        let crew = site.crew().await?;
        let (team, shared) = (crew.name(), crew.own("legacy"));
        let text = "# managed-by: vault-access-operator\n# auth-mount: elsewhere\n\
                    # k8s-resource: a/b\n# k8s-kind: VaultPolicy\n\n\
                    path \"secret/old\" {\n  capabilities = [\"read\"]\n}\n";
        site.write_policy(&shared, text).await?;
        let mut spec = reader();
        spec["rules"] = json!([rule("secret/data/x", &["read"])]);
        spec["externalName"] = json!(shared);
        let name = crew.own("taker");
        crew.declare::<VaultClusterPolicy>(&name, spec).await?;
        crew.cluster()
            .until::<VaultClusterPolicy>(&name, is("Ready", "Conflict"))
            .await?;
        let object = format!("vcp/{name}");
        let refused = ends(
            &run_verb(site, &["adopt", &object, "-n", team, "--yes"])?,
            2,
        );
        let owner = "VaultPolicy a/b (auth-mount elsewhere)";
        assert!(refused.contains(owner), "{refused}");
        ends(
            &run_verb(site, &["adopt", &object, "--from", owner, "--yes"])?,
            0,
        );
        crew.cluster()
            .until::<VaultClusterPolicy>(&name, is("Ready", "Succeeded"))
            .await?;
        Ok(())
    })
}

#[test]
fn explain_names_the_first_obstacle_of_a_login() -> Result<()> {
    tell(WORLD, async |site| {
        let crew = site.crew().await?;
        app(&crew).await?;
        let team = crew.name();
        let own = format!("{team}/app");
        let explain = |role: &str, sa: &str, more: &[&str]| {
            let mut args = vec!["explain", role, "-n", team, "--sa", sa];
            args.extend(more);
            run_verb(site, &args)
        };
        let fine = explain("vr/r", &own, &[])?;
        assert!(ends(&fine, 0).contains(&format!("log in as {}", crew.vault_name("r"))));
        let stranger = ends(&explain("vr/r", &format!("{team}/other"), &[])?, 1);
        assert!(stranger.contains("It cannot log in: pair"), "{stranger}");
        assert!(ends(&explain("vr/none", &own, &[])?, 1).contains("It cannot log in: object"));

        // A token of the account, and one of another.
        let file = tempfile::NamedTempFile::new()?;
        let path = file.path().to_string_lossy().into_owned();
        let jwt = site.jwt(team, "app", None).await?;
        std::fs::write(file.path(), &jwt)?;
        let all_output = ends(&explain("vr/r", &own, &["--jwt", &path])?, 0);
        assert!(
            all_output.contains("the API server knows") && !all_output.contains(&jwt),
            "{all_output}"
        );
        std::fs::write(file.path(), site.jwt(team, "other", None).await?)?;
        assert!(ends(&explain("vr/r", &own, &["--jwt", &path])?, 1).contains("the token is of"));

        // The policy is deleted directly in Vault.
        site.remove(&format!("sys/policies/acl/{}", crew.vault_name("app")))
            .await?;
        let all_output = ends(&explain("vr/r", &own, &[])?, 1);
        assert!(
            all_output.contains("It cannot log in: policies"),
            "{all_output}"
        );
        Ok(())
    })
}

#[test]
fn explain_names_the_split_role_of_the_accounts_namespace() -> Result<()> {
    tell(WORLD, async |site| {
        let crew = site.crew().await?;
        app(&crew).await?;
        let (team, name) = (crew.name(), crew.own("split"));
        let account = |namespace: &str, name: &str| json!({"namespace": namespace, "name": name});
        let spec = json!({
            "serviceAccounts": [account(team, "app"), account("kube-system", "other")],
            "policies": [{"kind": "VaultPolicy", "name": "app", "namespace": team}],
        });
        crew.declare::<VaultClusterRole>(&name, spec).await?;
        let made = crew
            .cluster()
            .until::<VaultClusterRole>(&name, is("Ready", "Succeeded"))
            .await?;
        let role = format!("vcr/{}", made.name_any());
        let fine = run_verb(site, &["explain", &role, "--sa", &format!("{team}/app")])?;
        assert!(ends(&fine, 0).contains(&format!("{name}__{team}")));
        let none = ends(
            &run_verb(site, &["explain", &role, "--sa", "default/app"])?,
            1,
        );
        assert!(none.contains("It cannot log in: split name"), "{none}");
        Ok(())
    })
}

#[test]
fn an_export_has_an_empty_plan() -> Result<()> {
    tell(WORLD, async |site| {
        let crew = site.crew().await?;
        let (plain, odd, role) = (crew.own("plain"), crew.own("odd"), crew.own("role"));
        site.write_policy(
            &plain,
            r#"path "secret/a" { capabilities = ["read", "list"] }"#,
        )
        .await?;
        let text = "name = \"odd\"\npath \"secret/b\" {\n  capabilities = [\"read\"]\n}\n";
        site.write_policy(&odd, text).await?;
        site.put(
            &format!("auth/kubernetes/role/{role}"),
            json!({
                "bound_service_account_names": ["a", "b"],
                "bound_service_account_namespaces": ["x"],
                "token_policies": [plain], "token_ttl": 3600, "audience": "vault",
            }),
        )
        .await?;
        let glob = format!("{}*", crew.name());
        let args = [
            "export",
            "--connection",
            &crew.connection,
            "--policies",
            &glob,
            "--roles",
            &glob,
        ];
        let output = run_verb(site, &args)?;
        ends(&output, 0);
        let text = out(&output);
        for name in [&plain, &odd, &role] {
            assert!(
                text.contains(&format!("externalName: {name}")),
                "{}",
                all_output(&output)
            );
        }
        let file = tempfile::NamedTempFile::new()?;
        std::fs::write(file.path(), text)?;
        let plan = run_verb(site, &["plan", "-f", &file.path().to_string_lossy()])?;
        assert!(ends(&plan, 0).contains("becomes ours"));
        Ok(())
    })
}

#[test]
fn orphans_are_listed_and_deleted_only_on_request() -> Result<()> {
    tell(WORLD, async |site| {
        let crew = site.crew().await?;
        app(&crew).await?;
        let elsewhere = site.crew().await?; // the same Vault by another address
        app(&elsewhere).await?;
        let lost = crew.vault_name("lost");
        let text = format!(
            "# managed-by: vault-access-operator\n# auth-mount: kubernetes\n\
             # k8s-resource: {}/lost\n# k8s-kind: VaultPolicy\n\n\
             path \"secret/old\" {{\n  capabilities = [\"read\"]\n}}\n",
            crew.name()
        );
        site.write_policy(&lost, &text).await?;
        let only = ["orphans", "--connection", &crew.connection];
        let shown = ends(&run_verb(site, &only)?, 1);
        assert!(shown.contains(&lost), "{shown}");
        for kept in [&crew, &elsewhere] {
            assert!(!shown.contains(&kept.vault_name("app")), "{shown}");
        }
        // If one connection does not work, the others are still read.
        let spec = json!({"address": "http://127.0.0.1:9"});
        crew.connect(&format!("{}-nowhere", crew.name()), spec)
            .await?;
        let all = ends(&run_verb(site, &["orphans"])?, 2);
        assert!(all.contains(&lost) && all.contains("127.0.0.1:9"), "{all}");
        let with = |more: &[&str]| run_verb(site, &[&only, more].concat());
        assert!(ends(&with(&["--delete"])?, 2).contains("--yes"));
        assert!(site.policy(&lost).await?.is_some());
        assert!(ends(&with(&["--delete", "--yes"])?, 0).contains("deleted"));
        assert_eq!(site.policy(&lost).await?, None);
        assert!(site.policy(&crew.vault_name("app")).await?.is_some());
        Ok(())
    })
}

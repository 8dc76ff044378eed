//! What `pontoon tenants` and `pontoon doctor` say when something is wrong: what, with what, and what
//! to do about it.

use std::process::{Command, Output, Stdio};

use crate::stories::cloud::{ACCOUNT, DENIED};
use crate::stories::objects::{acme, manifest};
use crate::stories::{USUAL, tell};
use crate::verbs::{ask, ends, has_line, pontoon};
use api::tenants::DistributionTenant;
use serde_json::{Value, json};
use testkit::Result;

/// Where nobody listens.
const NOWHERE: &str = "http://127.0.0.1:1";

/// Takes away the keys, wherever they may come from.
fn without_keys(command: &mut Command) -> &mut Command {
    command
        .env_remove("AWS_ACCESS_KEY_ID")
        .env_remove("AWS_SECRET_ACCESS_KEY")
        .env_remove("AWS_PROFILE")
        .env("AWS_EC2_METADATA_DISABLED", "true")
        .env("HOME", "/nonexistent")
}

/// Checks that a verb could not answer, and says so in these words.
fn cannot(output: &Output, hint: &str) {
    ends(output, 2);
    let besides = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(besides.contains(hint), "no {hint:?} in:\n{besides}");
}

#[test]
fn wrong_input_is_answered_with_what_to_do() -> Result<()> {
    tell(USUAL, async |site| {
        let file = |name, text: &str| site.writes_file(name, text);
        let broken = file("broken.yaml", "a: [b")?;
        let other = file("other.yaml", "kind: ConfigMap")?;
        let wrong = json!({"distributionId": "E1", "domains": 5});
        let wrong = manifest::<DistributionTenant>("acme", &wrong);
        let wrong = file("wrong.yaml", &wrong)?;
        let shown = [&broken, &other, &wrong].map(|path| path.to_string_lossy());
        for (args, hint) in [
            (vec!["status", "-n", "a", "-A"], "cannot be used with"),
            (vec!["plan", "nobody"], "check the name"),
            (vec!["plan", "-f", "nowhere.yaml"], "give a file"),
            (vec!["plan", "-f", &shown[0]], "correct it"),
            (vec!["plan", "-f", &shown[1]], "give a file that does"),
            (vec!["plan", "-f", &shown[2]], "default/acme"),
            (vec!["plan", "--drift-policy=ignore"], "write enforce"),
            (vec!["import"], "--distribution"),
            (vec!["import", "--distribution", "E9"], "check the id"),
            (
                vec!["import", "--distribution", "E1", "--out", "/proc/none"],
                "give another --out",
            ),
            (vec!["dns", "nobody"], "check the name"),
            (vec!["dns", "-o", "xml"], "zone"),
            (vec!["conflicts", "not a domain"], "such as a.example.com"),
            (vec!["conflicts", "z.example.com"], "--distribution"),
            (vec!["dance"], "dance"),
        ] {
            cannot(&ask(site, &args)?, hint);
        }
        // Nothing found is an answer, and says where it was looked.
        let output = ask(site, &["status", "-n", "nowhere"])?;
        ends(&output, 0);
        let besides = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(besides.contains("in namespace nowhere"), "{besides}");
        assert_eq!(site.done()?, [""; 0]);
        Ok(())
    })
}

#[test]
fn without_a_cluster_each_verb_says_what_to_set() -> Result<()> {
    for verb in [
        vec!["status"],
        vec!["plan"],
        vec!["import", "--distribution", "E1"],
        vec!["dns"],
        vec!["conflicts"],
    ] {
        let mut command = Command::new(testkit::binary(None)?);
        let command = command.arg("tenants").args(&verb).stdin(Stdio::null());
        let command = command.env_remove("KUBECONFIG").env("HOME", "/nonexistent");
        cannot(&command.output()?, "set KUBECONFIG");
    }
    Ok(())
}

#[test]
fn without_aws_each_verb_says_what_is_missing() -> Result<()> {
    tell(USUAL, async |site| {
        site.makes("acme", acme()).await?;
        let here = ["-n", site.name()];
        let import = ["tenants", "import", "--distribution", "E1"];
        let asks = |args: &[&str]| -> Result<Command> {
            let mut command = pontoon(site)?;
            command.args(args).args(here);
            Ok(command)
        };
        // Nobody answers.
        let away = |args: &[&str]| -> Result<Output> {
            Ok(asks(args)?.env("AWS_ENDPOINT_URL", NOWHERE).output()?)
        };
        cannot(&away(&import)?, "check the network");
        let plan = away(&["tenants", "plan"])?;
        cannot(&plan, "pontoon doctor --feature tenants");
        let why = ["acme", "no answer from AWS"];
        has_line(&String::from_utf8_lossy(&plan.stdout), &why);
        cannot(
            &away(&["tenants", "conflicts", "a.example.com"])?,
            "check the network",
        );
        // What the operator last said needs no AWS.
        ends(&away(&["tenants", "status"])?, 0);

        // Nobody asks.
        cannot(
            &without_keys(&mut asks(&import)?).output()?,
            "set AWS_PROFILE",
        );

        // Somebody asks who may not.
        site.breaks("ListDistributionTenants", DENIED)?;
        let denied = "must allow cloudfront:ListDistributionTenants";
        cannot(&asks(&import)?.output()?, denied);
        Ok(())
    })
}

/// What `pontoon doctor` says of `what`: whether that holds, and what was found.
fn examined(output: &Output, what: &str) -> Result<Option<(bool, String)>> {
    let all: Vec<Value> = serde_json::from_slice(&output.stdout)?;
    let one = all.iter().find(|one| one["check"] == what);
    Ok(one.map(|one| {
        let finding = one["finding"].as_str().unwrap_or_default();
        (one["holds"] == true, finding.to_owned())
    }))
}

#[test]
fn doctor_says_who_asks_aws_and_whether_cloudfront_answers() -> Result<()> {
    tell(USUAL, async |site| {
        let (identity, cloudfront) = ("tenants: AWS identity", "tenants: CloudFront");
        let doctor = || -> Result<Command> {
            let mut command = pontoon(site)?;
            let home = format!("--namespace={}", site.world.operator_namespace());
            command.args(["doctor", "--feature=tenants", "-o=json", &home]);
            Ok(command)
        };
        let well = doctor()?.output()?;
        let (holds, finding) = examined(&well, identity)?.expect("it is looked at");
        assert!(holds && finding.contains(ACCOUNT), "{finding}");
        let (holds, finding) = examined(&well, cloudfront)?.expect("it is looked at");
        assert!(holds, "{finding}");

        site.breaks("ListDistributionTenants", DENIED)?;
        let denied = doctor()?.output()?;
        let (holds, finding) = examined(&denied, cloudfront)?.expect("it is looked at");
        let right = "must allow cloudfront:ListDistributionTenants";
        assert!(!holds && finding.contains(right), "{finding}");
        assert_eq!(denied.status.code(), Some(1));
        site.mends()?;

        let away = doctor()?.env("AWS_ENDPOINT_URL", NOWHERE).output()?;
        let (holds, finding) = examined(&away, cloudfront)?.expect("it is looked at");
        assert!(!holds && finding.contains("check the network"), "{finding}");

        let nobody = without_keys(&mut doctor()?).output()?;
        let (holds, finding) = examined(&nobody, identity)?.expect("it is looked at");
        assert!(!holds && finding.contains("set AWS_PROFILE"), "{finding}");
        assert_eq!(examined(&nobody, cloudfront)?, None);
        assert_eq!(site.done()?, [""; 0]);
        Ok(())
    })
}

#[test]
fn an_unknown_drift_policy_is_wrong_usage() -> Result<()> {
    let mut command = Command::new(testkit::binary(None)?);
    let run = ["run", "--features", "tenants", "--drift-policy=ignore"];
    let output = command.args(run).stdin(Stdio::null()).output()?;
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("enforce, report or suspend"), "{said}");
    Ok(())
}

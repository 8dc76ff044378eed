//! `start -f` and `plan -f`: create the migration of a file.

use api::migrate::{StatefulSetMigration, StoredMigration};
use clap::ArgMatches;
use engine::cli::{Answer, Failure, confirm};
use engine::{ApiError, Stored};
use kernel::ObjectKey;
use kube::api::{DynamicObject, PostParams};
use serde_json::{Value, json};

use super::edit::{followed, refusal};
use super::refused;
use super::session::{MigrateSession, kind};

/// Creates the migration of the file, and waits for its end if there is a time limit.
pub(super) async fn start(session: &MigrateSession, args: &ArgMatches) -> Result<Answer, Failure> {
    match create(session, args, false).await? {
        Ok((key, created)) => followed(session, args, &key, &created, "created").await,
        Err(why) => Ok(refused(why)),
    }
}

/// A migration that was created, or why none was.
pub(super) type Creation = Result<(ObjectKey, StatefulSetMigration), String>;

/// Shows the migration of the file, asks, and creates it with this `dryRun`.
pub(super) async fn create(
    session: &MigrateSession,
    args: &ArgMatches,
    dry_run: bool,
) -> Result<Creation, Failure> {
    let selected = session.kinds().select(&session.cluster.scope, args)?;
    let [(target, stored)] = &selected[..] else {
        let count = selected.len();
        return Err(format!("the file has {count} migrations; give a file with one").into());
    };
    let key = target.key.clone();
    if session.find(&key).await?.is_some() {
        return Ok(Err(exists(&key)));
    }
    let body = match body(stored, dry_run) {
        Ok(body) => body,
        Err(why) => {
            return Ok(Err(format!(
                "StatefulSetMigration {key}: {why}; correct the file"
            )));
        }
    };
    eprintln!("StatefulSetMigration {key} is created:");
    for line in lines(&body) {
        eprintln!("  {line}");
    }
    confirm(args, "Create it?")?;
    session.cluster.allow_writes();
    match created(session, &key, body).await {
        Ok(created) => Ok(Ok((key, created))),
        Err(ApiError::Answer { code: 409, .. }) => Ok(Err(exists(&key))),
        Err(error) => refusal(error).map(Err),
    }
}

async fn created(
    session: &MigrateSession,
    key: &ObjectKey,
    body: Value,
) -> Result<StatefulSetMigration, ApiError> {
    let what = || format!("create StatefulSetMigration {key}");
    let unreadable = |error: serde_json::Error| ApiError::Unreadable {
        what: what(),
        message: error.to_string(),
    };
    let resource = kube::api::ApiResource::erase::<StatefulSetMigration>(&());
    let namespace = key.namespace.as_deref().unwrap_or("default");
    // Untyped: a field of a newer definition must not be lost on its way.
    let api = kube::Api::<DynamicObject>::namespaced_with(session.writer(), namespace, &resource);
    let object: DynamicObject = serde_json::from_value(body).map_err(unreadable)?;
    let answer = api.create(&PostParams::default(), &object).await;
    let answer = answer.map_err(|error| ApiError::classify(what(), error))?;
    answer.try_parse().map_err(|error| ApiError::Unreadable {
        what: what(),
        message: error.to_string(),
    })
}

fn exists(key: &ObjectKey) -> String {
    format!(
        "StatefulSetMigration {key} exists already; pontoon migrate plan {key} shows its plan, and \
         pontoon migrate start {key} begins it"
    )
}

/// The object to create, with this `dryRun`. A spec that breaks a rule is refused with the field.
fn body(stored: &Stored, dry_run: bool) -> Result<Value, String> {
    let kind = kind();
    let migration: StoredMigration = stored.parse(&kind).map_err(|error| error.to_string())?;
    migration.spec.map_err(|error| error.to_string())?;
    let mut object: Value = stored.parse(&kind).map_err(|error| error.to_string())?;
    object["apiVersion"] = json!(kind.api_version());
    object["kind"] = json!(kind.kind);
    if let Some(object) = object.as_object_mut() {
        object.remove("status");
    }
    object["spec"]["dryRun"] = json!(dry_run);
    Ok(object)
}

/// What a migration of this body does.
fn lines(body: &Value) -> Vec<String> {
    let spec = &body["spec"];
    let text = |field: &str| spec[field].as_str().unwrap_or_default().to_owned();
    let access = |field: &str| spec[field]["kubeConfigSecret"].as_str().unwrap_or_default();
    let is_dry_run = spec["dryRun"] == true;
    let effect = if is_dry_run {
        "spec.dryRun: true; it is checked and planned, and nothing moves"
    } else {
        "spec.dryRun: false; once its checks pass, it moves one ordinal at a time"
    };
    vec![
        format!("StatefulSet {}", text("statefulSetName")),
        format!(
            "from namespace {} of the cluster in Secret {}",
            text("sourceNamespace"),
            access("sourceCluster")
        ),
        format!(
            "to namespace {} of the cluster in Secret {}",
            text("destNamespace"),
            access("destCluster")
        ),
        effect.to_owned(),
    ]
}

#[cfg(test)]
mod tests {
    use engine::Projection;
    use rstest::rstest;

    use super::*;
    use crate::cli::tests::migration;

    fn stored(change: impl FnOnce(&mut Value)) -> Stored {
        let mut object = json!(migration(json!({}), json!({"phase": "Completed"})));
        change(&mut object);
        Stored::read(&kind(), &object.to_string(), &Projection::Full).unwrap()
    }

    #[rstest]
    #[case::to_plan(true, "nothing moves")]
    #[case::to_start(false, "one ordinal at a time")]
    fn the_verb_decides_about_a_dry_run(#[case] dry_run: bool, #[case] line: &str) {
        let body = body(
            &stored(|object| object["spec"]["dryRun"] = json!(!dry_run)),
            dry_run,
        )
        .unwrap();
        assert_eq!(body["spec"]["dryRun"], dry_run);
        assert_eq!(body["kind"], "StatefulSetMigration");
        assert_eq!(body.get("status"), None);
        let lines = lines(&body);
        assert!(lines[3].contains(line), "{lines:?}");
        assert_eq!(lines[1], "from namespace shop of the cluster in Secret src");
    }

    #[test]
    fn a_spec_that_breaks_a_rule_is_refused() {
        let broken = stored(|object| object["spec"]["retry"] = json!(-1));
        assert_eq!(
            body(&broken, true).unwrap_err(),
            "spec.retry must be at least 0"
        );
    }
}

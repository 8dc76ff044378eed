//! `journal`: what the locks in both clusters have recorded of a run; with `--restore`, its migration again.

mod restoration;
mod rows;

use api::migrate::StatefulSetMigrationSpec;
use clap::ArgMatches;
use engine::ApiError;
use engine::cli::flags::is_set;
use engine::cli::{Answer, Failure, Outcome, confirm};
use k8s_openapi::api::core::v1::ConfigMap;
use kernel::{ObjectKey, PAUSED};
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use self::restoration::{Existing, Restoration};
use super::clusters::{BothClusters, calls};
use super::edit::refusal;
use super::refused;
use super::session::{MigrateSession, migrations};
use crate::migration::decision::{Change, ObjectKind, Target};
use crate::migration::documents::version;
use crate::migration::observation::Side;
use crate::record::lock::{LockAction, LockGoal, StoredLock, next_action};
use crate::record::names::lock_name;

/// A lock as it was read.
pub(super) struct FoundLock {
    pub(super) side: Side,
    pub(super) namespace: String,
    pub(super) object: Value,
    pub(super) stored: StoredLock,
}

/// Prints the journals of the named StatefulSet, or restores the migration from the newer one.
pub(super) async fn journal(
    session: &MigrateSession,
    args: &ArgMatches,
) -> Result<Answer, Failure> {
    let both = BothClusters::open(session, args).await?;
    let Some(set) = both.set.clone() else {
        return Err("which StatefulSet? give --statefulset <namespace>/<name>".into());
    };
    let locks = read(&both, &set).await?;
    if locks.is_empty() {
        return Ok(refused(format!(
            "neither cluster has a lock of StatefulSet {set}: ConfigMap {}; check the name and --dest-namespace",
            lock_name(&set.name)
        )));
    }
    if is_set(args, "restore") {
        return restore(session, args, &both, &set, &locks).await;
    }
    let findings = locks.iter().map(rows::finding).collect();
    Ok(Answer::table(rows::COLUMNS, findings, Outcome::Holds))
}

/// The locks of a StatefulSet in both clusters.
async fn read(both: &BothClusters, set: &ObjectKey) -> Result<Vec<FoundLock>, Failure> {
    let source = set.namespace.as_deref().unwrap_or_default();
    let mut locks = Vec::new();
    locks.extend(lock(both, Side::Source, source, &set.name).await?);
    let named = locks.first().and_then(|lock| dest_namespace(&lock.stored));
    let destination = both.dest_namespace.clone().or(named);
    let destination = destination.as_deref().unwrap_or(source);
    locks.extend(lock(both, Side::Destination, destination, &set.name).await?);
    Ok(locks)
}

/// The namespace at the destination, by the spec in a lock.
fn dest_namespace(lock: &StoredLock) -> Option<String> {
    let spec: StatefulSetMigrationSpec = serde_json::from_str(&lock.spec).ok()?;
    Some(spec.dest_namespace)
}

async fn lock(
    both: &BothClusters,
    side: Side,
    namespace: &str,
    set: &str,
) -> Result<Option<FoundLock>, Failure> {
    let found =
        calls::get::<ConfigMap>(both.cluster(side), Some(namespace), &lock_name(set)).await?;
    Ok(found.map(|object| found_lock(side, namespace, object)))
}

/// The lock in a ConfigMap.
pub(super) fn found_lock(side: Side, namespace: &str, object: Value) -> FoundLock {
    let map: ConfigMap = serde_json::from_value(object.clone()).unwrap_or_default();
    FoundLock {
        side,
        namespace: namespace.to_owned(),
        stored: StoredLock::parse(&map),
        object,
    }
}

async fn restore(
    session: &MigrateSession,
    args: &ArgMatches,
    both: &BothClusters,
    set: &ObjectKey,
    locks: &[FoundLock],
) -> Result<Answer, Failure> {
    let restored = match Restoration::of(locks) {
        Ok(restored) => restored,
        Err(why) => return Ok(refused(why)),
    };
    let key = restored.key();
    let existing = restored.existing(session.find(&key).await?.as_ref());
    if let Existing::Foreign(why) = existing {
        return Ok(refused(why));
    }
    let management = session.cluster.deck.cluster.to_string();
    let changes = match rebound(&restored, locks, both, set, &management) {
        Ok(changes) => changes,
        Err(why) => return Ok(refused(why)),
    };
    eprintln!(
        "StatefulSetMigration {key} of run {} is restored from the lock in the {}:",
        restored.run(),
        restored.from
    );
    for line in restored.lines(&existing) {
        eprintln!("  {line}");
    }
    for change in &changes {
        eprintln!("  {change}");
    }
    confirm(args, "Restore it?")?;
    session.cluster.allow_writes();
    both.allow_writes();
    match written(session, both, &restored, &existing, &changes).await {
        Ok(()) => Ok(done(&restored)),
        Err(error) => Ok(refused(refusal(error)?)),
    }
}

/// The changes that bind both locks to the restored migration.
fn rebound(
    restored: &Restoration,
    locks: &[FoundLock],
    both: &BothClusters,
    set: &ObjectKey,
    management: &str,
) -> Result<Vec<Change>, String> {
    let wanted = restored.lock(management)?;
    let mut changes = Vec::new();
    for side in Side::BOTH {
        let found = locks.iter().find(|lock| lock.side == side);
        let namespace = match side {
            Side::Source => set.namespace.as_deref().unwrap_or_default(),
            Side::Destination => &restored.migration.spec.dest_namespace,
        };
        let stored = found.map(|lock| &lock.stored);
        match next_action(LockGoal::Restore, stored, &wanted) {
            LockAction::Create => changes.push(Change::Create {
                side,
                kind: ObjectKind::ConfigMap,
                body: json!(wanted.config_map(namespace, &set.name)),
            }),
            LockAction::Rewrite => {
                let found = found.expect("only a lock that exists is rewritten");
                changes.push(Change::Patch {
                    side,
                    target: target(found),
                    patch: wanted.patch(),
                });
            }
            LockAction::Nothing => {}
            LockAction::Refuse(owner) => {
                let identity = both.identity(side);
                return Err(format!(
                    "the lock in the {side} (cluster {identity}) is of {owner}; pontoon migrate audit shows what \
                     is left of which run"
                ));
            }
            LockAction::Delete | LockAction::Lost => {}
        }
    }
    Ok(changes)
}

/// UID and version of a lock.
pub(super) fn target(lock: &FoundLock) -> Target {
    Target {
        kind: ObjectKind::ConfigMap,
        namespace: Some(lock.namespace.clone()),
        name: crate::migration::extract::name(&lock.object),
        version: version(&lock.object),
    }
}

/// The migration is created paused: without its status the operator would begin a new run.
async fn written(
    session: &MigrateSession,
    both: &BothClusters,
    restored: &Restoration,
    existing: &Existing,
    changes: &[Change],
) -> Result<(), ApiError> {
    let key = restored.key();
    let api = migrations(session.writer(), &key);
    let classified =
        |error| ApiError::classify(format!("restore StatefulSetMigration {key}"), error);
    let live = match existing {
        Existing::Missing => {
            let created = api
                .create(&PostParams::default(), &restored.without_status())
                .await;
            created.map_err(classified)?
        }
        Existing::WithoutStatus(live) | Existing::Restored(live) => (**live).clone(),
        Existing::Foreign(_) => unreachable!("the caller refuses it"),
    };
    if !matches!(existing, Existing::Restored(_)) {
        // By UID alone: the operator may write conditions meanwhile. It begins nothing while it is paused.
        let patch =
            json!({"metadata": {"uid": live.metadata.uid}, "status": restored.migration.status});
        let how = PatchParams::default();
        let patched = api
            .patch_status(&key.name, &how, &Patch::Merge(patch))
            .await;
        patched.map_err(classified)?;
    }
    for change in changes {
        let Some(side) = change.side() else {
            continue;
        };
        calls::make(both.cluster(side), change).await?;
    }
    let patch = json!({"metadata": {"uid": live.metadata.uid, "annotations": {PAUSED: null}}});
    let patched = api
        .patch(&key.name, &PatchParams::default(), &Patch::Merge(patch))
        .await;
    patched.map(drop).map_err(classified)
}

fn done(restored: &Restoration) -> Answer {
    let finding = restored.finding();
    let spec = &restored.migration.spec;
    let remark = format!(
        "It goes on as far as the evidence shows. It needs its kubeconfigs: Secrets {} and {} beside it.",
        spec.source_cluster.kube_config_secret, spec.dest_cluster.kube_config_secret
    );
    Answer::table(restoration::COLUMNS, vec![finding], Outcome::Holds).with_remark(remark)
}

//! A lost migration from the mirror in a lock.

use std::collections::BTreeMap;

use api::migrate::names::FINALIZER;
use api::migrate::{StatefulSetMigration, StatefulSetMigrationStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kernel::{ObjectKey, PAUSED};

use super::super::lock::StoredLock;
use super::{Journal, JournalError, json_of, understood};

/// The migration of a lock: its spec, and its status with `runId` and `started`.
///
/// The object has the finalizer, and the annotation `pontoon.io/paused`. Create it, write its
/// status, and then remove the annotation. A migration without status would begin a new run.
///
/// The mirror may be older than the last step. That does no harm: evidence decides what was done.
pub fn restore(found: &StoredLock) -> Result<StatefulSetMigration, JournalError> {
    let (namespace, name) = object_of(found)?;
    let spec = understood("spec", &json_of("spec", &found.spec)?)?;
    let Journal { record } = Journal::parse(&found.journal)?;
    let run_id = record.run_id.as_deref().unwrap_or_default();
    if run_id.is_empty() || run_id != found.holder {
        return Err(JournalError::OtherRun {
            holder: found.holder.clone(),
            found: run_id.to_owned(),
        });
    }
    let paused = BTreeMap::from([(PAUSED.to_owned(), "true".to_owned())]);
    Ok(StatefulSetMigration {
        metadata: ObjectMeta {
            namespace: Some(namespace),
            name: Some(name),
            finalizers: Some(vec![FINALIZER.to_owned()]),
            annotations: Some(paused),
            ..ObjectMeta::default()
        },
        spec,
        // Whoever has a lock has written outside.
        status: Some(StatefulSetMigrationStatus {
            started: true,
            ..record
        }),
    })
}

/// Which of two mirrors to restore from: the readable one, and of two the one with the later record.
///
/// A crash between the two writes of a mirror leaves one of them a step behind.
pub fn newest<'l>(source: &'l StoredLock, destination: &'l StoredLock) -> &'l StoredLock {
    let latest = |lock: &StoredLock| {
        restore(lock).ok()?;
        Journal::parse(&lock.journal)
            .ok()
            .map(|journal| journal.latest())
    };
    // A lock that cannot be restored is none, which is less than a journal without times.
    if latest(destination) > latest(source) {
        destination
    } else {
        source
    }
}

fn object_of(found: &StoredLock) -> Result<(String, String), JournalError> {
    let key: Option<ObjectKey> = found.object.parse().ok();
    let parts = key.and_then(|key| Some((key.namespace?.to_string(), key.name.to_string())));
    parts.ok_or_else(|| JournalError::NoObject(found.object.clone()))
}

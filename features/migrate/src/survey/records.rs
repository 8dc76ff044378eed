//! How large the records of the run would be. Pure.

use api::migrate::StatefulSetMigrationStatus;
use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet};
use serde::Serialize;
use serde_json::Value;

use crate::migration::begin::begun;
use crate::migration::documents::Documents;
use crate::preflight::moved_claims::set_claims;
use crate::preflight::reading::{Reading, Unread};
use crate::preflight::survey::{RecordSizes, Survey};
use crate::record::RECORD_LIMIT;
use crate::record::capture::{Capture, CapturedObjects};
use crate::record::journal::full_size;
use crate::translate::Document;

/// The sizes; not known if a part of the source is not.
pub(super) fn sizes(
    survey: &Survey,
    revisions: &Reading<Vec<ControllerRevision>>,
) -> Reading<RecordSizes> {
    match of_set(survey, revisions) {
        Ok(Some(sizes)) => Reading::Read(sizes),
        // The part that is missing is reported itself.
        Ok(None) | Err(_) => Reading::NotRead,
    }
}

fn of_set(
    survey: &Survey,
    revisions: &Reading<Vec<ControllerRevision>>,
) -> Result<Option<RecordSizes>, Unread> {
    let Some(set) = survey.source.set.get("StatefulSet")? else {
        return Ok(None);
    };
    let claims = set_claims(survey)?;
    let revisions = revisions.get("ControllerRevisions")?.iter();
    let objects = CapturedObjects {
        stateful_set: value(set),
        controller_revisions: revisions
            .filter(|revision| is_of(revision, set))
            .map(value)
            .collect(),
        claims: claims
            .iter()
            .filter_map(|claim| claim.claim.map(value))
            .collect(),
        volumes: claims
            .iter()
            .filter_map(|claim| claim.volume.map(value))
            .collect(),
    };
    Ok(Some(RecordSizes {
        journal: journal(survey, &objects),
        capture: capture(&survey.run, objects),
    }))
}

fn capture(run: &str, objects: CapturedObjects) -> usize {
    match Capture::new(run, objects).pack() {
        Ok(packed) => packed.size(),
        // Repetitive objects may be small once compressed, but too large to be read again.
        Err(large) => large.bytes.max(RECORD_LIMIT + 1),
    }
}

fn journal(survey: &Survey, objects: &CapturedObjects) -> usize {
    let source = Documents {
        claims: objects.claims.clone(),
        volumes: objects.volumes.clone(),
        ..Documents::default()
    };
    let Ok(set) = Document::read(objects.stateful_set.clone()) else {
        return 0;
    };
    let begun = begun(
        &StatefulSetMigrationStatus::default(),
        &source,
        &Documents::default(),
        &set,
        &std::collections::BTreeMap::new(),
        survey.spec.dormant_claims,
    );
    full_size(&survey.spec, &begun)
}

fn is_of(revision: &ControllerRevision, set: &StatefulSet) -> bool {
    let mut owners = revision.metadata.owner_references.iter().flatten();
    owners.any(|owner| Some(&owner.uid) == set.metadata.uid.as_ref())
}

fn value<K: Serialize>(object: &K) -> Value {
    serde_json::to_value(object).expect("a Kubernetes object is JSON")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::survey::fixture::{self, by};
    use rstest::rstest;
    use serde_json::json;

    fn revision(owner: &str, length: usize) -> Reading<Vec<ControllerRevision>> {
        // Numbers that compress badly.
        let content: Vec<u64> = (0..length as u64)
            .map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15))
            .collect();
        let revision = json!({"metadata": {"name": "r", "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": owner}]},
            "revision": 1, "data": {"content": content}});
        Reading::Read(vec![serde_json::from_value(revision).unwrap()])
    }

    fn read(survey: &Survey, revisions: &Reading<Vec<ControllerRevision>>) -> RecordSizes {
        *sizes(survey, revisions).get("records").unwrap()
    }

    #[test]
    fn the_records_of_a_small_set_are_small() {
        let sizes = read(&fixture::survey(), &Reading::Read(Vec::new()));
        assert!(
            (100..RECORD_LIMIT / 100).contains(&sizes.capture),
            "{sizes:?}"
        );
        assert!(
            (100..RECORD_LIMIT / 100).contains(&sizes.journal),
            "{sizes:?}"
        );
    }

    #[test]
    fn revisions_of_the_set_count_and_others_do_not() {
        let survey = fixture::survey();
        let none = read(&survey, &Reading::Read(Vec::new()));
        assert_eq!(read(&survey, &revision("other", 1000)), none);
        let own = read(&survey, &revision("set-uid", 1000));
        assert!(own.capture > none.capture + 1000, "{own:?}");
        assert_eq!(own.journal, none.journal);
    }

    #[test]
    fn a_capture_that_cannot_be_stored_is_over_the_limit() {
        let sizes = read(&fixture::survey(), &revision("set-uid", 200_000));
        assert!(sizes.capture > RECORD_LIMIT, "{sizes:?}");
    }

    #[rstest]
    #[case::no_set(by(|s| s.source.set = Reading::Read(None)))]
    #[case::claims_not_read(by(|s| s.source.claims = Reading::Denied("why".to_owned())))]
    fn without_the_source_there_are_no_sizes(#[case] edit: fixture::Edit) {
        let mut survey = fixture::survey();
        edit(&mut survey);
        assert_eq!(sizes(&survey, &Reading::Read(Vec::new())), Reading::NotRead);
    }
}

//! DestStatefulSet, DestClaims, Names, Dependencies, Admission, HeadlessService, StorageClass.

use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::preflight::admission::rendered_pod;
use crate::preflight::dependencies::{Dependency, DependencyKind, missing};
use crate::preflight::moved_claims::moved_claims;
use crate::record::RECORD_LIMIT;
use crate::translate::classes::ClassMapping;
use crate::translate::pair::Pair;
use crate::translate::{
    Destination, Document, PairTarget, RunMarker, dest_pair, dest_stateful_set,
};

/// What a run with this id would make of the StatefulSet and of ordinal 0.
fn made(survey: &Survey, run: &str) -> (StatefulSet, Pair) {
    let to = Destination {
        namespace: "store",
        classes: &ClassMapping::default(),
        run: Some(RunMarker {
            run_id: run,
            migration_id: "m",
        }),
    };
    let set = Document::read(serde_json::to_value(survey.set().unwrap()).unwrap()).unwrap();
    let claims = moved_claims(survey).unwrap();
    let source = Pair {
        volume: Document::read(serde_json::to_value(claims[0].volume).unwrap()).unwrap(),
        claim: Document::read(serde_json::to_value(claims[0].claim).unwrap()).unwrap(),
    };
    let target = PairTarget {
        volume: "pv-0",
        claim: "data-web-0",
        zone: ZONE_A,
    };
    let pair = dest_pair(&source, &to, &target).unwrap();
    (dest_stateful_set(&set, &to, 0).typed().unwrap(), pair)
}

fn add_set(survey: &mut Survey, run: &str) {
    let (set, _) = made(survey, run);
    survey.destination.set = Read(Some(set));
}

fn add_claim(survey: &mut Survey, run: &str) {
    let (_, pair) = made(survey, run);
    read(&mut survey.destination.claims).push(pair.claim.typed().unwrap());
}

fn add_volume(survey: &mut Survey, run: &str) {
    let (_, pair) = made(survey, run);
    read(&mut survey.destination.volumes).push(pair.volume.typed().unwrap());
}

fn without_marker() -> Value {
    json!({"metadata": {"annotations": {"migration.aqua.io/run": null}}})
}

#[rstest]
#[case::ours(by(|s| add_set(s, RUN)), &[])]
#[case::ours_with_replicas(by(|s| {
    add_set(s, RUN);
    patch(read(&mut s.destination.set).as_mut().unwrap(), json!({"spec": {"replicas": 2}}));
}), &[])]
#[case::ours_from_a_server_without_retention_policy(by(|s| {
    add_set(s, RUN);
    let change = json!({"spec": {"persistentVolumeClaimRetentionPolicy": null}});
    patch(read(&mut s.destination.set).as_mut().unwrap(), change);
}), &[])]
#[case::ours_but_edited(by(|s| {
    add_set(s, RUN);
    patch(read(&mut s.destination.set).as_mut().unwrap(), json!({"spec": {"serviceName": "other"}}));
}), &["StatefulSet store/web of the destination: found our own with other values in /spec/serviceName, need none \
      but that of this run"])]
#[case::of_another_run(by(|s| add_set(s, OTHER_RUN)), &[
    "StatefulSet store/web of the destination: found one of run other-run, need none but that of this run"])]
#[case::unmarked(by(|s| {
    add_set(s, RUN);
    patch(read(&mut s.destination.set).as_mut().unwrap(), without_marker());
}), &["StatefulSet store/web of the destination: found one that this run did not make, need none but that of \
      this run"])]
fn dest_set_names_what_fails(#[case] edit: Edit, #[case] expected: &[&str]) {
    assert_found(DestStatefulSet, edit, expected);
}

#[rstest]
#[case::our_claim(by(|s| add_claim(s, RUN)), &[])]
#[case::our_claim_of_another_volume(by(|s| {
    add_claim(s, RUN);
    patch(&mut read(&mut s.destination.claims)[0], json!({"spec": {"volumeName": "other"}}));
}), &["PersistentVolumeClaim store/data-web-0 of the destination: found our own with other values in \
      /spec/volumeName, need none but that of this run"])]
#[case::a_claim_of_another_run(by(|s| add_claim(s, OTHER_RUN)), &[
    "PersistentVolumeClaim store/data-web-0 of the destination: found one of run other-run, need none but that of \
     this run"])]
#[case::an_unmarked_claim(by(|s| {
    add_claim(s, RUN);
    patch(&mut read(&mut s.destination.claims)[0], without_marker());
}), &["PersistentVolumeClaim store/data-web-0 of the destination: found one that this run did not make, need none \
      but that of this run"])]
#[case::a_claim_of_another_name(by(|s| {
    add_claim(s, OTHER_RUN);
    patch(&mut read(&mut s.destination.claims)[0], json!({"metadata": {"name": "data-db-0"}}));
}), &[])]
#[case::our_volume(by(|s| add_volume(s, RUN)), &[])]
#[case::a_volume_with_the_id(by(|s| {
    add_volume(s, RUN);
    let change = without_marker();
    patch(&mut read(&mut s.destination.volumes)[0], change);
    patch(&mut read(&mut s.destination.volumes)[0], json!({"metadata": {"name": "pv-x"}}));
}), &["PersistentVolume pv-x of the destination: found one that this run did not make, with EBS volume \
      vol-00000000, need none but that of this run"])]
#[case::a_volume_of_the_name_with_another_id(by(|s| {
    add_volume(s, RUN);
    let change = json!({"spec": {"csi": {"volumeHandle": "vol-99999999"}}});
    patch(&mut read(&mut s.destination.volumes)[0], change);
    patch(&mut read(&mut s.destination.volumes)[0], without_marker());
}), &[])]
fn dest_claims_names_what_fails(#[case] edit: Edit, #[case] expected: &[&str]) {
    assert_found(DestClaims, edit, expected);
}

#[rstest]
#[case::a_large_capture(by(|s| read(&mut s.records).capture = RECORD_LIMIT + 1), &[
    "capture of StatefulSet shop/web of the source: found 921601 bytes, need 921600 bytes at most"])]
#[case::the_largest_journal(by(|s| read(&mut s.records).journal = RECORD_LIMIT), &[])]
#[case::a_large_journal(by(|s| read(&mut s.records).journal = RECORD_LIMIT + 1), &[
    "journal of StatefulSet shop/web of the source: found 921601 bytes, need 921600 bytes at most"])]
#[case::a_run_without_letters(by(|s| s.run = "--".to_owned()), &[
    "Secret stsm-web-: found a name that Kubernetes refuses, need a DNS subdomain of at most 253 characters"])]
#[case::a_long_claim(by(|s| {
    let name = "d".repeat(248);
    patch(set(s), json!({"spec": {"replicas": 1, "volumeClaimTemplates": [{"metadata": {"name": name}}]}}));
}), &[LONG_CLAIM.as_str()])]
fn names_names_what_fails(#[case] edit: Edit, #[case] expected: &[&str]) {
    assert_found(Names, edit, expected);
}

static LONG_CLAIM: std::sync::LazyLock<String> = std::sync::LazyLock::new(|| {
    format!(
        "PersistentVolumeClaim {}-web-0: found a name that Kubernetes refuses, need a DNS subdomain of at most 253 \
         characters",
        "d".repeat(248)
    )
});

fn dependency(kind: DependencyKind, name: &str) -> Dependency {
    Dependency {
        kind,
        name: name.to_owned(),
    }
}

fn depend(survey: &mut Survey, map: Reading<bool>, secret: Reading<bool>, account: Reading<bool>) {
    template(
        survey,
        json!({
        "serviceAccountName": "web",
        "imagePullSecrets": [{"name": "pull"}],
        "volumes": [{"name": "v", "configMap": {"name": "app"}}]}),
    );
    survey.arrival.dependencies = BTreeMap::from([
        (dependency(DependencyKind::ConfigMap, "app"), map),
        (dependency(DependencyKind::Secret, "pull"), secret),
        (dependency(DependencyKind::ServiceAccount, "web"), account),
    ]);
}

#[rstest]
#[case::all_there(by(|s| depend(s, Read(true), Read(true), Read(true))), &[])]
#[case::all_missing(by(|s| depend(s, Read(false), Read(false), Read(false))), &[
    "ConfigMap store/app of the destination, Secret store/pull of the destination, ServiceAccount store/web of the \
     destination: found none, need one, as the template names it"])]
#[case::one_missing(by(|s| depend(s, Read(true), Read(false), Read(true))), &[
    "Secret store/pull of the destination: found none, need one, as the template names it"])]
#[case::denied(by(|s| depend(s, Read(true), Reading::Denied("no".to_owned()), Read(true))), &[
    "Secret store/pull of the destination: found access denied (no), need one, as the template names it"])]
#[case::a_class_of_the_cluster(by(|s| {
    template(s, json!({"priorityClassName": "high"}));
    s.arrival.dependencies = [(dependency(DependencyKind::PriorityClass, "high"), Read(false))].into();
}), &["PriorityClass high of the destination: found none, need one, as the template names it"])]
#[case::not_read(by(|s| template(s, json!({"priorityClassName": "high"}))), &[
    "PriorityClass high of the destination: found it was not read, need an answer to judge Dependencies"])]
fn dependencies_names_what_fails(#[case] edit: Edit, #[case] expected: &[&str]) {
    assert_found(Dependencies, edit, expected);
}

#[test]
fn the_tried_pod_lacks_only_what_is_missing() {
    let mut survey = survey();
    template(
        &mut survey,
        json!({
        "serviceAccountName": "web", "serviceAccount": "web", "priorityClassName": "high",
        "runtimeClassName": "kata"}),
    );
    let existing = BTreeMap::from([
        (
            dependency(DependencyKind::ServiceAccount, "web"),
            Read(false),
        ),
        (
            dependency(DependencyKind::PriorityClass, "high"),
            Read(true),
        ),
        (
            dependency(DependencyKind::RuntimeClass, "kata"),
            Reading::NotRead,
        ),
    ]);
    let pod = rendered_pod(survey.set().unwrap(), "store", &missing(&existing));
    let spec = pod.spec.unwrap();
    assert_eq!(
        (spec.service_account_name, spec.service_account),
        (None, None)
    );
    assert_eq!(spec.priority_class_name.as_deref(), Some("high"));
    assert_eq!(spec.runtime_class_name.as_deref(), Some("kata"));
}

#[test]
fn the_tried_pod_has_the_claims_of_the_first_ordinal() {
    let mut survey = survey();
    patch(
        set(&mut survey),
        json!({"spec": {"ordinals": {"start": 5}}}),
    );
    let pod = rendered_pod(survey.set().unwrap(), "store", &BTreeSet::new());
    assert_eq!(pod.metadata.namespace.as_deref(), Some("store"));
    assert_eq!(
        (pod.metadata.name, pod.metadata.generate_name.as_deref()),
        (None, Some("web-"))
    );
    assert_eq!(
        pod.metadata.labels,
        Some(BTreeMap::from([("app".to_owned(), "web".to_owned())]))
    );
    let volumes = serde_json::to_value(pod.spec.unwrap().volumes).unwrap();
    assert_eq!(
        volumes,
        json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data-web-5"}}])
    );
}

fn quota(survey: &mut Survey, resource: &str, hard: &str, used: &str, scope: Option<&str>) {
    let scopes: Vec<&str> = scope.into_iter().collect();
    read(&mut survey.arrival.quotas).push(object(json!({
        "metadata": {"name": "q"},
        "spec": {"hard": {resource: hard}, "scopes": scopes},
        "status": {"used": {resource: used}}})));
}

#[rstest]
#[case::refused(by(|s| read(&mut s.arrival.dry_runs)[0].refusal = Some("violates PodSecurity".to_owned())),
    Some("StatefulSet store/web of the destination: found a refused dry run (violates PodSecurity), need an object \
          that admission accepts"))]
#[case::room_for_all_pods(by(|s| quota(s, "pods", "5", "2", None)), None)]
#[case::no_room_for_one_pod(by(|s| quota(s, "pods", "5", "3", None)), Some("2 of pods free, need 3"))]
#[case::counted_pods(by(|s| quota(s, "count/pods", "2", "0", None)), Some("2 of count/pods free, need 3"))]
#[case::cpu(by(|s| quota(s, "requests.cpu", "2500m", "0", None)), Some("2500m of requests.cpu free, need 3"))]
#[case::cpu_in_short(by(|s| quota(s, "cpu", "2", "0", None)), Some("2 of cpu free, need 3"))]
#[case::no_limits_in_the_template(by(|s| quota(s, "limits.cpu", "0", "0", None)), None)]
#[case::claims(by(|s| quota(s, "persistentvolumeclaims", "2", "0", None)),
    Some("2 of persistentvolumeclaims free, need 3"))]
#[case::storage(by(|s| quota(s, "requests.storage", "24Gi", "1Gi", None)),
    Some("23Gi of requests.storage free, need 24Gi"))]
#[case::enough_storage(by(|s| quota(s, "requests.storage", "24Gi", "0", None)), None)]
#[case::storage_of_the_class(
    by(|s| quota(s, "gp3.storageclass.storage.k8s.io/requests.storage", "8Gi", "0", None)),
    Some("8Gi of gp3.storageclass.storage.k8s.io/requests.storage free, need 24Gi"))]
#[case::storage_of_another_class(
    by(|s| quota(s, "gp2.storageclass.storage.k8s.io/requests.storage", "8Gi", "0", None)), None)]
#[case::the_class_it_will_have(by(|s| {
    patch(&mut s.spec, json!({"storageClassMapping": {"gp3": "fast"}}));
    quota(s, "fast.storageclass.storage.k8s.io/persistentvolumeclaims", "1", "0", None);
}), Some("1 of fast.storageclass.storage.k8s.io/persistentvolumeclaims free, need 3"))]
#[case::set_itself(by(|s| quota(s, "count/statefulsets.apps", "1", "1", None)),
    Some("0 of count/statefulsets.apps free, need 1"))]
#[case::what_is_ours_already(by(|s| {
    add_set(s, RUN);
    add_claim(s, RUN);
    quota(s, "count/statefulsets.apps", "1", "1", None);
    quota(s, "persistentvolumeclaims", "3", "1", None);
}), None)]
#[case::of_other_objects(by(|s| quota(s, "services", "0", "0", None)), None)]
#[case::in_scope(by(|s| quota(s, "pods", "2", "0", Some("NotTerminating"))), Some("2 of pods free, need 3"))]
#[case::out_of_scope(by(|s| quota(s, "pods", "2", "0", Some("BestEffort"))), None)]
#[case::unknown_scope(by(|s| quota(s, "pods", "2", "0", Some("Later"))), Some("2 of pods free, need 3"))]
fn admission_names_what_fails(#[case] edit: Edit, #[case] expected: Option<&str>) {
    let mut survey = survey();
    edit(&mut survey);
    let expected = expected.map(|expected| {
        if expected.starts_with("StatefulSet") {
            return expected.to_owned();
        }
        format!("ResourceQuota store/q of the destination: found {expected}")
    });
    assert_eq!(messages(&survey, Admission), Vec::from_iter(expected));
}

#[rstest]
#[case::listed("In", &["high"], true)]
#[case::not_listed("In", &["low"], false)]
#[case::excluded("NotIn", &["high"], false)]
#[case::any_class("Exists", &[], true)]
#[case::no_class("DoesNotExist", &[], false)]
fn a_quota_may_be_for_priority_classes(
    #[case] operator: &str,
    #[case] values: &[&str],
    #[case] counts: bool,
) {
    let mut survey = survey();
    template(&mut survey, json!({"priorityClassName": "high"}));
    quota(&mut survey, "pods", "2", "0", None);
    let quota = &mut read(&mut survey.arrival.quotas)[0];
    patch(
        quota,
        json!({"spec": {"scopes": null, "scopeSelector": {"matchExpressions": [
        {"scopeName": "PriorityClass", "operator": operator, "values": values}]}}}),
    );
    assert_eq!(!messages(&survey, Admission).is_empty(), counts);
}

#[rstest]
#[case::missing(by(|s| s.arrival.service = Read(None)), &[
    "Service store/web of the destination: found none, need the headless Service of the StatefulSet"])]
#[case::not_headless(by(|s| s.arrival.service = Read(Some(object(json!({"spec": {"clusterIP": "10.0.0.1"}}))))), &[
    "Service store/web of the destination: found one with a cluster IP, need clusterIP None"])]
#[case::none_is_named(by(|s| {
    patch(set(s), json!({"spec": {"serviceName": ""}}));
    s.arrival.service = Reading::NotRead;
}), &[])]
fn headless_service_names_what_fails(#[case] edit: Edit, #[case] expected: &[&str]) {
    assert_found(HeadlessService, edit, expected);
}

#[rstest]
#[case::missing(by(|s| s.arrival.storage_classes = Read(BTreeSet::new())), &[
    "StorageClass gp3 of the destination: found none, need one for later claims"])]
#[case::mapped(by(|s| {
    patch(&mut s.spec, json!({"storageClassMapping": {"gp3": "fast"}}));
    s.arrival.storage_classes = Read(BTreeSet::from(["fast".to_owned()]));
}), &[])]
#[case::mapped_to_none(by(|s| patch(&mut s.spec, json!({"storageClassMapping": {"gp3": "fast"}}))), &[
    "StorageClass fast of the destination: found none, need one for later claims"])]
#[case::empty_or_unset(by(|s| {
    for ordinal in 0..3 {
        patch(claim(s, ordinal), json!({"spec": {"storageClassName": ""}}));
        patch(volume(s, ordinal), json!({"spec": {"storageClassName": null}}));
    }
    patch(set(s), json!({"spec": {"volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {}}]}}));
    s.arrival.storage_classes = Reading::NotRead;
}), &[])]
#[case::old_annotation(by(|s| patch(claim(s, 0), json!({"metadata": {"annotations":
    {"volume.beta.kubernetes.io/storage-class": "old"}}}))), &[
    "StorageClass old of the destination: found none, need one for later claims"])]
#[case::attributes_class(by(|s| patch(claim(s, 0), json!({"spec": {"volumeAttributesClassName": "silver"}}))), &[
    "VolumeAttributesClass silver of the destination: found none, need one for later claims"])]
fn storage_class_names_what_fails(#[case] edit: Edit, #[case] expected: &[&str]) {
    assert_found(StorageClass, edit, expected);
}

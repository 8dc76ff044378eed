use api::vault::{VaultClusterRole, VaultPolicy, VaultRole};
use http::{Method, StatusCode};
use rstest::rstest;
use serde_json::{Value, json};
use testkit::fault_proxy::Rule;

use super::super::gather;
use super::super::{Told, attempt};
use super::*;
use crate::fixture::{Fixture, up};
use crate::role::payload::Canonical;

const ROLES: &str = "/v1/auth/kubernetes/role/*";
const POLICIES: &str = "/v1/sys/policies/acl/*";
const MISSING: &str = r#"{"errors": []}"#;

fn object(name: &str, spec: Value, status: Value) -> Value {
    json!({
        "metadata": {
            "name": name, "namespace": "team-a", "uid": "u", "resourceVersion": "1",
            "generation": 1, "finalizers": [words::FINALIZER],
        },
        "spec": spec,
        "status": status,
    })
}

fn policy() -> Value {
    let rules = json!([{"path": "secret/data/x", "capabilities": ["read"]}]);
    object(
        "p",
        json!({"connectionRef": "c", "rules": rules}),
        json!({}),
    )
}

/// An earlier place whose time is over.
fn earlier(path: &str, connection: &str) -> PreviousName {
    PreviousName {
        vault_path: Some(path.to_owned()),
        connection: Some(connection.to_owned()),
        ..PreviousName::default()
    }
}

#[tokio::test]
async fn an_earlier_place_waits_for_its_own_connection() {
    let fixture = Fixture::new([]).await;
    let (ctx, json) = (&fixture.ctx, policy());
    let mut pass = fixture.pass(&ctx.caches.policies, &json).await;
    let policy: VaultPolicy = serde_json::from_value(json).unwrap();
    let ground = gather::ground(&policy, ctx, &pass).unwrap();
    let mut entry = earlier("sys/policies/acl/old", "far");
    let mut applied = Applied::default();
    let stays = keep_up(
        &policy,
        &mut entry,
        &[],
        &ground,
        ctx,
        &mut pass,
        &mut applied,
    );
    assert!(Box::pin(stays).await.unwrap(), "it is still there");
    assert!(ctx.links.found("c", up("c")).is_empty(), "it is well");
    assert_eq!(ctx.links.found("far", up("far")).len(), 1);
}

#[tokio::test]
async fn what_is_current_over_an_alias_is_not_deleted() {
    let found = Rule::on(Method::GET, POLICIES);
    let found = found.status(StatusCode::OK, r#"{"data": {"policy": ""}}"#);
    let deleted = Rule::on(Method::DELETE, POLICIES).status(StatusCode::OK, "");
    let fixture = Fixture::new([found, deleted]).await;
    let (ctx, json) = (&fixture.ctx, policy());
    let mut pass = fixture.pass(&ctx.caches.policies, &json).await;
    let policy: VaultPolicy = serde_json::from_value(json).unwrap();
    let ground = gather::ground(&policy, ctx, &pass).unwrap();
    let is_here = ["c", "alias", "far"].map(|name| ground.is_its_vault(Some(name), ctx));
    assert_eq!(is_here, [true, true, false]);

    let desired = policy.desired(ctx, &ground).unwrap();
    let targets: Vec<_> = desired.targets.iter().collect();
    let current = targets[0].place.to_string();
    let mut applied = Applied::default();
    for (path, deletions) in [(&*current, 0), ("sys/policies/acl/old", 1)] {
        let mut entry = earlier(path, "alias");
        let stays = keep_up(
            &policy,
            &mut entry,
            &targets,
            &ground,
            ctx,
            &mut pass,
            &mut applied,
        );
        assert!(!Box::pin(stays).await.unwrap());
        assert_eq!(fixture.vault.count(Method::DELETE, POLICIES), deletions);
    }
}

const HEALTH: &str = "/v1/sys/health";
const HEALTHY: &str = r#"{"initialized": true, "version": "1.21.1"}"#;

#[rstest] //         answer, and health                                        waits, rechecks
#[case::nobody_is_behind_it(StatusCode::BAD_GATEWAY, StatusCode::BAD_GATEWAY, Ok((1, false)))]
#[case::a_server_error(StatusCode::BAD_GATEWAY, StatusCode::OK, Ok((0, true)))]
#[case::throttled(StatusCode::TOO_MANY_REQUESTS, StatusCode::OK, Ok((0, true)))]
#[case::denied(
    StatusCode::FORBIDDEN,
    StatusCode::OK,
    Err(reasons::VAULT_PERMISSION_DENIED)
)]
#[tokio::test]
async fn what_passes_at_another_connection_stops_nothing(
    #[case] answer: StatusCode,
    #[case] health: StatusCode,
    #[case] expected: Result<(usize, bool), &str>,
) {
    let fixture = Fixture::new([
        Rule::on(Method::GET, POLICIES).status(answer, ""),
        Rule::on(Method::GET, HEALTH).status(health, HEALTHY),
    ])
    .await;
    let (ctx, json) = (&fixture.ctx, policy());
    let mut pass = fixture.pass(&ctx.caches.policies, &json).await;
    let policy: VaultPolicy = serde_json::from_value(json).unwrap();
    let ground = gather::ground(&policy, ctx, &pass).unwrap();
    let mut entry = earlier("sys/policies/acl/old", "alias");
    let mut applied = Applied::default();
    let stays = keep_up(
        &policy,
        &mut entry,
        &[],
        &ground,
        ctx,
        &mut pass,
        &mut applied,
    );
    let ended = Box::pin(stays).await;
    let found = match ended {
        Ok(stays) => {
            assert!(stays, "it is still there");
            let waits = ctx.links.found("alias", up("alias")).len();
            Ok((waits, applied.recheck.is_some()))
        }
        Err(Stop::Failed(Error::Vault(error))) => Err(crate::sync::reason(&error).unwrap()),
        Err(stop) => panic!("{stop:?}"),
    };
    assert_eq!(found, expected);
}

#[tokio::test]
async fn a_policy_found_right_is_recorded_with_its_text() {
    let fixture = Fixture::new([]).await;
    let (ctx, json) = (&fixture.ctx, policy());
    let pass = fixture.pass(&ctx.caches.policies, &json).await;
    let policy: VaultPolicy = serde_json::from_value(json.clone()).unwrap();
    let ground = gather::ground(&policy, ctx, &pass).unwrap();
    let desired = policy.desired(ctx, &ground).unwrap();
    let Wanted::Policy { text, .. } = &desired.targets[0].wanted else {
        panic!("a policy wants a policy");
    };
    let text = format!("{text}\n# a comment means nothing\n");
    let found = json!({"data": {"policy": text}}).to_string();
    let found = Rule::on(Method::GET, POLICIES).status(StatusCode::OK, found);
    fixture.vault.rule(found);
    let (ended, applied) = attempted::<VaultPolicy>(json, &ctx.caches.policies, &fixture).await;
    ended.unwrap();
    assert_eq!(applied.records[0].sent, Some(place::sha256(&text)));
}

fn role(status: Value) -> Value {
    role_of("sa", status)
}

/// The role of another service account.
fn role_of(account: &str, status: Value) -> Value {
    let spec = json!({
        "connectionRef": "c", "serviceAccounts": [account],
        "policies": [{"kind": "VaultPolicy", "name": "p"}],
    });
    object("r", spec, status)
}

/// What an object wants, and the intents to create it, in order.
async fn wanted<K: Declared>(
    json: &Value,
    cache: &engine::Cache,
    at: &Fixture,
) -> (Vec<Target>, Vec<Intent>) {
    let pass = at.pass(cache, json).await;
    let object: K = serde_json::from_value(json.clone()).unwrap();
    let ground = gather::ground(&object, &at.ctx, &pass).unwrap();
    let targets = object.desired(&at.ctx, &ground).unwrap().targets;
    let create = |target: &Target| intent(target, Cause::Create, &ground).unwrap();
    let creates = targets.iter().map(create).collect();
    (targets, creates)
}

/// What comes of a pass over a role.
async fn attempted<K: Declared>(
    json: Value,
    cache: &engine::Cache,
    at: &Fixture,
) -> (Result<(), Stop>, Applied) {
    let mut pass = at.pass(cache, &json).await;
    let object: K = serde_json::from_value(json).unwrap();
    let mut told = Told::default();
    let ended = Box::pin(attempt(&object, &at.ctx, &mut pass, &mut told)).await;
    (ended, told.applied)
}

fn missing() -> Rule {
    Rule::on(Method::GET, ROLES).status(StatusCode::NOT_FOUND, MISSING)
}

fn created_role() -> Rule {
    Rule::on(Method::POST, ROLES).status(StatusCode::OK, "{}")
}

#[rstest]
#[case::denied(StatusCode::FORBIDDEN, true)]
#[case::invalid(StatusCode::BAD_REQUEST, true)]
#[case::missing(StatusCode::NOT_FOUND, true)]
#[case::behind(StatusCode::PRECONDITION_FAILED, true)]
#[case::throttled(StatusCode::TOO_MANY_REQUESTS, true)]
#[case::broken(StatusCode::BAD_GATEWAY, false)]
#[tokio::test]
async fn a_refused_create_is_told_from_a_lost_one(
    #[case] answer: StatusCode,
    #[case] refused: bool,
) {
    let created = Rule::on(Method::POST, ROLES).status(answer, "");
    let fixture = Fixture::new([missing(), created]).await;
    let cache = &fixture.ctx.caches.roles;
    let (_, creates) = wanted::<VaultRole>(&role(json!({})), cache, &fixture).await;
    let json = role(json!({"intent": creates[0]}));
    let (ended, applied) = attempted::<VaultRole>(json, cache, &fixture).await;
    assert!(ended.is_err());
    assert_eq!(fixture.vault.count(Method::POST, ROLES), 1);
    let path = creates[0].vault_path.iter();
    let expected: Vec<_> = path.filter(|_| refused).cloned().collect();
    assert_eq!(applied.refused, expected);
}

/// A role as Vault shows it that drops markers.
fn without_marker(target: &Target) -> serde_json::Map<String, Value> {
    let Wanted::Role(sent) = &target.wanted else {
        panic!("a role wants roles");
    };
    let mut fields = sent.fields();
    fields.remove("alias_metadata").expect("roles are marked");
    fields
}

/// A Vault that has the unmarked role of `live`, where that of `announced` is announced; and what comes
/// of a pass over the role of `sa`, if Vault answers this to a write.
async fn announced_role(
    live: &str,
    announced: &str,
    answer: StatusCode,
) -> (Fixture, Result<(), Stop>, Applied) {
    let written = Rule::on(Method::POST, ROLES).status(answer, "{}");
    let fixture = Fixture::new([written]).await;
    let cache = &fixture.ctx.caches.roles;
    let of = |account: &str| role_of(account, json!({}));
    let (targets, _) = wanted::<VaultRole>(&of(live), cache, &fixture).await;
    let found = json!({"data": without_marker(&targets[0])}).to_string();
    let found = Rule::on(Method::GET, ROLES).status(StatusCode::OK, found);
    fixture.vault.rule(found);
    let (_, creates) = wanted::<VaultRole>(&of(announced), cache, &fixture).await;
    let json = role(json!({"intent": creates[0]}));
    let (ended, applied) = attempted::<VaultRole>(json, cache, &fixture).await;
    (fixture, ended, applied)
}

#[rstest] //                       in Vault announced writes
#[case::as_announced_and_wanted("sa", "sa", Some(0))]
#[case::as_announced_and_edited_since("old", "old", Some(1))]
#[case::as_wanted_after_a_lost_edit("sa", "old", Some(0))]
#[case::as_neither("other", "old", None)]
#[tokio::test]
async fn an_unmarked_role_is_ours_as_announced_or_as_wanted(
    #[case] live: &str,
    #[case] announced: &str,
    #[case] writes: Option<usize>,
) {
    let (fixture, ended, applied) = announced_role(live, announced, StatusCode::OK).await;
    let made = fixture.vault.count(Method::POST, ROLES);
    assert_eq!(made, writes.unwrap_or_default());
    assert_eq!(applied.records.len(), usize::from(writes.is_some()));
    match (ended, writes) {
        (Ok(()), Some(_)) => {}
        (Err(Stop::Blocked { reason }), None) => assert_eq!(reason.code, reasons::CONFLICT),
        (ended, _) => panic!("{ended:?}"),
    }
}

#[tokio::test]
async fn a_refused_edit_says_nothing_of_the_create_before_it() {
    let refusal = StatusCode::FORBIDDEN;
    let (fixture, ended, applied) = announced_role("old", "old", refusal).await;
    assert!(ended.is_err());
    assert_eq!(fixture.vault.count(Method::POST, ROLES), 1);
    assert_eq!(applied.refused, Vec::<String>::new());
}

const OLD: &str = "auth/kubernetes/role/vao.before.team-a.r";

#[rstest] //                             marker                                as announced, ours
#[case::unmarked_and_as_announced(None, true, true)]
#[case::unmarked_and_different(None, false, false)]
#[case::marked_as_ours(Some(("team-a/r", None)), false, true)]
#[case::marked_before_the_cluster_was_renamed(Some(("team-a/r", Some("before"))), true, true)]
#[case::marked_by_another_cluster(Some(("team-a/r", Some("other"))), true, false)]
#[case::marked_by_another_object(Some(("team-b/r", None)), true, false)]
#[tokio::test]
async fn what_a_lost_create_made_is_remembered_if_it_is_ours(
    #[case] marker: Option<(&str, Option<&str>)>,
    #[case] is_as_announced: bool,
    #[case] ours: bool,
) {
    let mut fixture = Fixture::new([]).await;
    fixture.ctx.settings.cluster_name = Some("after".to_owned());
    let json = role(json!({}));
    let pass = fixture.pass(&fixture.ctx.caches.roles, &json).await;
    let role: VaultRole = serde_json::from_value(json).unwrap();
    let ground = gather::ground(&role, &fixture.ctx, &pass).unwrap();
    let desired = role.desired(&fixture.ctx, &ground).unwrap();
    let mut fields = without_marker(&desired.targets[0]);
    if let Some((resource, cluster)) = marker {
        let marker = json!({
            "managed-by": words::SENTINEL, "k8s-kind": "VaultRole", "k8s-resource": resource,
            "auth-mount": "kubernetes", "cluster": cluster,
        });
        fields.insert("alias_metadata".to_owned(), marker);
    }
    let canonical = Canonical::of_live(payload::family(&fields), &fields);
    let found = Found::Role { fields, canonical };
    let hash = found.hash().filter(|_| is_as_announced).unwrap_or_default();
    let entry = created(&Place::parse(OLD).unwrap(), &hash, &found, &ground);
    assert_eq!(entry.is_some(), ours);
    if let Some(entry) = entry {
        assert_eq!(entry.vault_path.as_deref(), Some(OLD));
        assert_eq!(entry.connection.as_deref(), Some("c"));
        assert_eq!(entry.owner.is_some(), marker.is_some());
        assert_eq!(entry.until, Some(Time(ground.now)), "nobody was given it");
    }
}

#[rstest]
#[case::another_is_wanted(OLD, 1)]
#[case::it_is_wanted("auth/kubernetes/role/vao.kubernetes.team-a.r", 0)]
#[tokio::test]
async fn what_was_announced_elsewhere_is_read_before_it_is_forgotten(
    #[case] announced: &str,
    #[case] reads: usize,
) {
    let fixture = Fixture::new([missing(), created_role()]).await;
    let intent = json!({"kind": "create", "vaultPath": announced, "canonicalHash": "h"});
    let json = role(json!({"intent": intent}));
    let cache = &fixture.ctx.caches.roles;
    let (ended, _) = attempted::<VaultRole>(json, cache, &fixture).await;
    assert!(ended.is_err(), "this cluster takes no intent");
    let old = format!("/v1/{OLD}");
    assert_eq!(fixture.vault.count(Method::GET, &old), reads);
}

const PARTS: usize = 8;

/// A role of as many parts.
fn parted(status: Value) -> Value {
    let account = |n| json!({"namespace": format!("ns{n}"), "name": format!("sa{n}")});
    let spec = json!({
        "connectionRef": "c", "serviceAccounts": (0..PARTS).map(account).collect::<Vec<_>>(),
        "policies": [{"kind": "VaultPolicy", "name": "p", "namespace": "team-a"}],
    });
    let mut json = object("wide", spec, status);
    json["metadata"]["namespace"].take();
    json
}

/// The status of a role whose first parts are on record and whose next one is announced.
fn part_way(creates: &[Intent], made: usize) -> Value {
    let entry = |(n, create): (usize, &Intent)| {
        let path = create.vault_path.as_deref().unwrap();
        json!({
            "namespace": format!("ns{n}"), "canonicalHash": create.canonical_hash,
            "vaultRoleName": Place::parse(path).unwrap().name(),
        })
    };
    let on_record: Vec<_> = creates.iter().enumerate().take(made).map(entry).collect();
    let binding = json!({"authMount": "kubernetes", "connection": "c"});
    json!({"vaultRoleNames": on_record, "intent": creates[made], "binding": binding})
}

#[tokio::test]
async fn a_role_is_made_with_few_reads_a_part() {
    let fixture = Fixture::new([missing(), created_role()]).await;
    let cache = &fixture.ctx.caches.cluster_roles;
    let (_, creates) = wanted::<VaultClusterRole>(&parted(json!({})), cache, &fixture).await;
    assert_eq!(creates.len(), PARTS);
    for made in 0..PARTS {
        let json = parted(part_way(&creates, made));
        // This Vault does not show what was written, which ends the pass after the write.
        let (ended, _) = attempted::<VaultClusterRole>(json, cache, &fixture).await;
        assert!(ended.is_err());
        assert_eq!(fixture.vault.count(Method::POST, ROLES), made + 1);
    }
    // The part itself, the next one, and one look that verifies the write.
    let reads = fixture.vault.count(Method::GET, ROLES);
    assert!(reads <= 3 * PARTS, "{reads} reads");
}

#[tokio::test]
async fn the_next_part_is_announced_with_the_record_of_this_one() {
    let fixture = Fixture::new([created_role()]).await;
    let cache = &fixture.ctx.caches.cluster_roles;
    let (targets, creates) = wanted::<VaultClusterRole>(&parted(json!({})), cache, &fixture).await;
    let Wanted::Role(sent) = &targets[0].wanted else {
        panic!("a role wants roles");
    };
    // The first part is missing, and there as it was written when it is verified.
    let first = format!("/v1/{}", targets[0].place);
    let first = |status, body: String| Rule::on(Method::GET, &first).status(status, body);
    let shown = json!({"data": sent.fields()}).to_string();
    let vault = &fixture.vault;
    vault.rule(first(StatusCode::NOT_FOUND, MISSING.to_owned()).times(1));
    vault.rule(first(StatusCode::OK, shown));
    vault.rule(missing());
    let json = parted(part_way(&creates, 0));
    let (ended, applied) = attempted::<VaultClusterRole>(json, cache, &fixture).await;
    ended.unwrap();
    assert_eq!(applied.records.len(), 1);
    let next = applied.next.unwrap();
    assert_eq!(next.vault_path, creates[1].vault_path);
    assert_eq!(vault.count(Method::GET, ROLES), 3);
}

#[tokio::test]
async fn a_role_that_admits_too_many_goes_after_its_parts_were_made() {
    let fixture = Fixture::new([missing(), created_role()]).await;
    let cache = &fixture.ctx.caches.cluster_roles;
    let (_, creates) = wanted::<VaultClusterRole>(&parted(json!({})), cache, &fixture).await;
    // It was one role for all, and somebody consents to its end.
    let base = "vao.kubernetes._.wide";
    let mut json = parted(json!({
        "binding": {
            "vaultPath": format!("auth/kubernetes/role/{base}"),
            "authMount": "kubernetes", "connection": "c",
        },
        "boundServiceAccounts": ["ns0/sa0", "ns1/sa1"],
        "intent": creates[0],
    }));
    json["metadata"]["annotations"] = json!({words::ALLOW_DESTRUCTIVE: "true"});
    let (ended, _) = attempted::<VaultClusterRole>(json, cache, &fixture).await;
    assert!(ended.is_err(), "this Vault does not show what was written");
    assert_eq!(fixture.vault.count(Method::POST, ROLES), 1);
}

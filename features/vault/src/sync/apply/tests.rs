use api::vault::{VaultClusterRole, VaultPolicy, VaultRole};
use http::{Method, StatusCode};
use rstest::rstest;
use serde_json::{Value, json};
use testkit::fault_proxy::Rule;

use super::super::gather;
use super::super::{Told, attempt};
use super::*;
use crate::fixture::{Fixture, up};

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

fn role(status: Value) -> Value {
    let spec = json!({
        "connectionRef": "c", "serviceAccounts": ["sa"],
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

fn created() -> Rule {
    Rule::on(Method::POST, ROLES).status(StatusCode::OK, "{}")
}

#[rstest]
#[case::denied(StatusCode::FORBIDDEN, true)]
#[case::invalid(StatusCode::BAD_REQUEST, true)]
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
    let path = creates[0].vault_path.clone();
    assert_eq!(applied.refused, path.filter(|_| refused));
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
    let fixture = Fixture::new([missing(), created()]).await;
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
    let fixture = Fixture::new([created()]).await;
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
    let fixture = Fixture::new([missing(), created()]).await;
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

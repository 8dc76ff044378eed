//! Forms of a write: create, apply onto an object, and a plan of what an apply would change.

use engine::Onto;
use kernel::ChangeKind;

use super::*;

fn uid(object: &Value) -> &str {
    object["metadata"]["uid"].as_str().unwrap_or_default()
}

#[tokio::test]
async fn a_create_never_writes_an_object_that_exists() -> Result<()> {
    let fixture = fixture("applier-post").await?;
    let kind = Kind::of::<ConfigMap>();
    let created = fixture
        .applier
        .create(&kind, fixture.map(json!({"a": "1"})));
    assert_eq!(created.await?["data"]["a"], "1");
    let again = fixture
        .applier
        .create(&kind, fixture.map(json!({"a": "2"})));
    assert_eq!(again.await.unwrap_err().class(), Class::AlreadyExists);
    assert_eq!(fixture.live().await?["data"]["a"], "1");
    let dry = fixture.applier.clone().dry_run();
    let mut other = fixture.map(json!({}));
    other["metadata"]["name"] = json!("other");
    assert_eq!(
        dry.create(&kind, other.clone()).await?["metadata"]["name"],
        "other"
    );
    fixture.applier.create(&kind, other).await?;
    Ok(())
}

#[tokio::test]
async fn an_apply_onto_an_object_writes_no_other() -> Result<()> {
    let fixture = fixture("applier-onto").await?;
    let kind = Kind::of::<ConfigMap>();
    let desired = fixture.map(json!({"b": "2"}));
    let missing = Onto {
        uid: "00000000-0000-4000-8000-000000000000",
        version: None,
        force: false,
    };
    let apply = async |onto: Onto<'_>| {
        fixture
            .applier
            .apply_onto(&kind, desired.clone(), onto, None)
            .await
    };
    assert_eq!(apply(missing).await.unwrap_err().class(), Class::Stale);
    assert_eq!(fixture.live().await?, Value::Null, "it makes no object");

    fixture.edit("somebody", json!({"a": "1"})).await?;
    let old = fixture.live().await?;
    assert_eq!(apply(missing).await.unwrap_err().class(), Class::Stale);
    let version = |object: &Value| {
        object["metadata"]["resourceVersion"]
            .as_str()
            .map(str::to_owned)
    };
    let old_version = version(&old);
    fixture.edit("somebody", json!({"a": "2"})).await?;
    let outdated = Onto {
        uid: uid(&old),
        version: old_version.as_deref(),
        force: true,
    };
    assert_eq!(apply(outdated).await.unwrap_err().class(), Class::Stale);
    assert_eq!(fixture.live().await?["data"], json!({"a": "2"}));

    let new_version = version(&fixture.live().await?);
    let newest = Onto {
        version: new_version.as_deref(),
        ..outdated
    };
    assert!(matches!(apply(newest).await?, Applied::Written(_)));
    assert_eq!(fixture.live().await?["data"], json!({"a": "2", "b": "2"}));
    Ok(())
}

#[tokio::test]
async fn the_mark_of_an_older_release_goes_with_the_next_write() -> Result<()> {
    let fixture = fixture("applier-mark").await?;
    let kind = Kind::of::<ConfigMap>();
    let api = Api::<ConfigMap>::namespaced(fixture.plane.admin(), &fixture.namespace);
    let mut older = fixture.map(json!({"a": "1"}));
    older["apiVersion"] = json!("v1");
    older["kind"] = json!("ConfigMap");
    older["metadata"]["annotations"] = json!({"pontoon.io/applied": "0123456789abcdef"});
    let by = PatchParams::apply(FIELD_OWNER);
    api.patch("m", &by, &Patch::Apply(older)).await?;

    let live = fixture.cached(&kind, "m").await?;
    let desired = fixture.map(json!({"a": "1"}));
    let applied = fixture.applier.apply(&kind, desired, Some(&live)).await?;
    assert_eq!(applied, Applied::Unchanged);
    let desired = fixture.map(json!({"a": "2"}));
    fixture.applier.apply(&kind, desired, Some(&live)).await?;
    assert_eq!(fixture.live().await?["metadata"].get("annotations"), None);
    Ok(())
}

#[tokio::test]
async fn a_diff_shows_what_the_next_apply_changes() -> Result<()> {
    let fixture = fixture("applier-diff").await?;
    let kind = Kind::of::<ConfigMap>();
    fixture.apply(json!({"a": "1", "b": "2"})).await?;
    fixture.edit("somebody", json!({"theirs": "x"})).await?;
    let live = fixture.cached(&kind, "m").await?;
    let desired = fixture.map(json!({"a": "2", "theirs": "y"}));
    let mark = fixture.plane.mark();
    let diff = fixture
        .applier
        .diff(&kind, desired.clone(), Some(&live))
        .await?;
    let changed = diff
        .changes
        .iter()
        .filter(|one| one.kind != ChangeKind::Same);
    let changed: Vec<_> = changed.map(|one| (&*one.path, one.kind)).collect();
    let expected = [
        ("/data/a", ChangeKind::Edit),
        ("/data/b", ChangeKind::Edit),
        ("/data/theirs", ChangeKind::Both),
    ];
    assert_eq!(changed, expected);
    assert_eq!(fixture.requests_since(mark).await?, Vec::<String>::new());
    fixture
        .applier
        .adopt(&kind, desired.clone(), Some(&live))
        .await?;
    let live = fixture.cached(&kind, "m").await?;
    let diff = fixture.applier.diff(&kind, desired, Some(&live)).await?;
    assert!(diff.is_same(), "{}", diff.summary(9));
    Ok(())
}

//! StatefulSets of other shapes than the usual one: several templates, other ordinals, no replicas.

use api::migrate::Phase;
use http::Method;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use kube::api::Api;
use serde_json::{Value, json};
use testkit::Result;
use testkit::disks::SetPlan;
use testkit::stories::change_object;

use crate::stories::{Shop, first_ordinal, has_condition, replicas, run_story_of};

fn two_templates(count: u32) -> SetPlan {
    SetPlan {
        templates: vec!["data".to_owned(), "logs".to_owned()],
        ..replicas(count)
    }
}

fn from_five() -> SetPlan {
    SetPlan {
        start: 5,
        ..replicas(2)
    }
}

/// The disks of an ordinal, in the order of the templates.
fn disks_of(shop: &Shop, ordinal: i32) -> Vec<String> {
    let ordinal = u32::try_from(ordinal).expect("ordinals are not negative");
    let templates = shop.set.templates.iter();
    templates
        .map(|template| shop.set.volume(template, ordinal))
        .collect()
}

#[test]
fn the_disks_of_an_ordinal_move_together() -> Result<()> {
    run_story_of(two_templates(2), async |shop| {
        shop.open_shop().await?;
        shop.migrate(&json!({"ordinalLimit": 1})).await?;
        let half = shop.until_paused("OrdinalLimit").await?;
        assert_eq!(half.migrated_pods[0].volume_ids, disks_of(shop, 0));
        assert_eq!(shop.ready_pods(&shop.source).await?, ["web-1"]);
        shop.edit(&json!({"ordinalLimit": 2})).await?;
        let status = shop.until_phase(Phase::Completed).await?;
        assert_eq!(status.migrated_pods[1].volume_ids, disks_of(shop, 1));
        assert_eq!(shop.disks(&shop.destination).await?, shop.own_disks());
        Ok(())
    })
}

#[test]
fn ordinals_have_the_same_numbers_at_the_destination() -> Result<()> {
    run_story_of(from_five(), async |shop| {
        shop.open_shop().await?;
        shop.migrate(&json!({})).await?;
        let status = shop.until_phase(Phase::Completed).await?;
        let order: Vec<i32> = status.migrated_pods.iter().map(|pod| pod.index).collect();
        assert_eq!(order, [5, 6]);
        let set = shop.stateful_set(&shop.destination).await?;
        assert_eq!(set.as_ref().map(first_ordinal), Some(5));
        assert_eq!(
            shop.ready_pods(&shop.destination).await?,
            ["web-5", "web-6"]
        );
        assert_eq!(shop.disks(&shop.destination).await?, shop.own_disks());
        Ok(())
    })
}

#[test]
fn a_rollback_restores_the_first_ordinal() -> Result<()> {
    run_story_of(from_five(), async |shop| {
        shop.open_shop().await?;
        shop.migrate(&json!({"ordinalLimit": 1})).await?;
        shop.until_paused("OrdinalLimit").await?;
        let half = shop.stateful_set(&shop.source).await?;
        assert_eq!(half.as_ref().map(first_ordinal), Some(6));
        shop.edit(&json!({"abort": "Rollback"})).await?;
        shop.until_phase(Phase::RolledBack).await?;
        let set = shop.stateful_set(&shop.source).await?;
        assert_eq!(set.as_ref().map(first_ordinal), Some(5));
        assert_eq!(shop.ready_pods(&shop.source).await?, ["web-5", "web-6"]);
        assert_eq!(shop.disks(&shop.source).await?, shop.own_disks());
        Ok(())
    })
}

#[test]
fn a_set_without_replicas_moves_its_claims() -> Result<()> {
    run_story_of(replicas(2), async |shop| {
        let client = shop.source.client();
        shop.site.source.seed_claims(&client, &shop.set).await?;
        let is_bound = |claim: &PersistentVolumeClaim| {
            let phase = claim.status.as_ref().and_then(|one| one.phase.as_deref());
            phase == Some("Bound")
        };
        for claim in ["data-web-0", "data-web-1"] {
            let bound = shop.source.until::<PersistentVolumeClaim>(claim, is_bound);
            bound.await?;
        }
        let empty = SetPlan {
            replicas: 0,
            ..shop.set.clone()
        };
        shop.declare_set(&empty, &json!({})).await?;
        shop.migrate(&json!({})).await?;
        shop.until_phase(Phase::Completed).await?;
        let set = shop.stateful_set(&shop.destination).await?;
        let spec = set.and_then(|set| set.spec);
        assert_eq!(spec.and_then(|spec| spec.replicas), Some(0));
        assert_eq!(shop.disks(&shop.destination).await?, shop.own_disks());
        assert_eq!(shop.disks(&shop.source).await?, []);
        assert_eq!(shop.stateful_set(&shop.source).await?, None);
        Ok(())
    })
}

#[test]
fn mapped_classes_are_those_of_later_claims_too() -> Result<()> {
    run_story_of(replicas(1), async |shop| {
        shop.add_class("gp3").await?;
        shop.open_shop().await?;
        shop.migrate(&json!({"storageClassMapping": {"gp2": "gp3"}}))
            .await?;
        shop.until_phase(Phase::Completed).await?;
        let claims = Api::<PersistentVolumeClaim>::namespaced(
            shop.destination.client(),
            shop.destination.name(),
        );
        let class_of = async |claim: &str| -> Result<Option<String>> {
            let spec = claims.get(claim).await?.spec;
            Ok(spec.and_then(|spec| spec.storage_class_name))
        };
        assert_eq!(class_of("data-web-0").await?.as_deref(), Some("gp3"));
        let volumes = Api::<PersistentVolume>::all(shop.destination.client());
        let volume = volumes.get(&shop.set.persistent_volume("data", 0)).await?;
        let class = volume.spec.and_then(|spec| spec.storage_class_name);
        assert_eq!(class.as_deref(), Some("gp3"));
        let wider = json!({"spec": {"replicas": 2}});
        change_object::<StatefulSet>(&shop.destination, "web", &wider).await?;
        let is_ready = |pod: &Pod| has_condition(pod, "Ready", "True");
        shop.destination.until::<Pod>("web-1", is_ready).await?;
        assert_eq!(class_of("data-web-1").await?.as_deref(), Some("gp3"));
        Ok(())
    })
}

#[test]
fn a_snapshot_of_each_disk_is_made_on_the_way() -> Result<()> {
    run_story_of(two_templates(1), async |shop| {
        shop.open_shop().await?;
        let snapshots = json!({"when": "AfterDetach", "tags": {"team": "shop"}});
        shop.migrate(&json!({"snapshots": snapshots})).await?;
        let status = shop.until_phase(Phase::Completed).await?;
        let claims = &status.ordinals[0].claims;
        assert_eq!(claims.len(), 2);
        for claim in claims {
            let recorded = claim.snapshot_id.as_deref().unwrap_or_default();
            assert!(recorded.starts_with("snap-"), "{claim:?}");
            let path = format!("ec2/volumes/{}", claim.volume_id);
            let aws = shop.site.world.aws();
            let disk = aws.control(Method::GET, &path, Value::Null)?;
            let made = disk["snapshots"].as_array().cloned().unwrap_or_default();
            assert_eq!(made.len(), 1, "{disk}");
            assert!(made[0].to_string().contains(recorded), "{disk}");
        }
        Ok(())
    })
}

#[test]
fn tags_follow_the_disks_and_return_with_them() -> Result<()> {
    run_story_of(two_templates(1), async |shop| {
        shop.open_shop().await?;
        let name = |disk: &str| -> Result<Value> {
            let aws = shop.site.world.aws();
            let disk = aws.control(Method::GET, &format!("ec2/volumes/{disk}"), Value::Null)?;
            Ok(disk["tags"]["ebs.csi.aws.com/cluster-name"].clone())
        };
        let disks = shop.own_disks();
        let fence = json!({"sourceClusterName": "east", "destClusterName": "west"});
        let soak = json!({"soak": "1h"});
        shop.migrate(&json!({"fence": fence, "sourceCleanup": soak}))
            .await?;
        shop.until_phase(Phase::Finalizing).await?;
        for (claim, disk) in &disks {
            assert_eq!(name(disk)?, "west", "{claim}");
        }
        shop.edit(&json!({"abort": "Rollback"})).await?;
        shop.until_phase(Phase::RolledBack).await?;
        for (claim, disk) in &disks {
            assert_eq!(name(disk)?, Value::Null, "{claim}");
        }
        Ok(())
    })
}

//! PersistentVolumes and claims of other shapes than the usual one: in-tree ids, zone keys, classes, block devices.

use api::migrate::Phase;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use kube::api::Api;
use serde_json::{Value, json};
use testkit::Result;
use testkit::disks::{DRIVER, SetPlan};

use crate::stories::{Shop, foreign_volume, replicas, run_story, run_story_of};

const ZONE: &str = "topology.kubernetes.io/zone";
const DRIVER_ZONE: &str = "topology.ebs.csi.aws.com/zone";
const OLD_ZONE: &str = "failure-domain.beta.kubernetes.io/zone";
const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";

fn affinity(key: &str, zone: &str) -> Value {
    let zones = json!({"key": key, "operator": "In", "values": [zone]});
    json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [zones]}]}})
}

/// A PersistentVolume of the driver that was built into Kubernetes.
fn in_tree(id: &str, affinity: &Value) -> Value {
    json!({
        "metadata": {"annotations": {PROVISIONED_BY: "kubernetes.io/aws-ebs"}},
        "spec": {
            "csi": null, "nodeAffinity": affinity,
            "awsElasticBlockStore": {"volumeID": id, "fsType": "ext4"},
        },
    })
}

/// The claim in the destination, and its PersistentVolume.
async fn arrived(shop: &Shop, claim: &str) -> Result<(Value, Value)> {
    let (client, namespace) = (shop.destination.client(), shop.destination.name());
    let claims = Api::<PersistentVolumeClaim>::namespaced(client.clone(), namespace);
    let claim = json!(claims.get(claim).await?);
    let volume = claim["spec"]["volumeName"].as_str().unwrap_or_default();
    let volume = json!(Api::<PersistentVolume>::all(client).get(volume).await?);
    Ok((claim, volume))
}

#[test]
fn in_tree_volumes_arrive_with_the_driver_and_one_zone_key() -> Result<()> {
    run_story(async |shop| {
        let client = shop.source.client();
        let usual = json!({});
        for ordinal in shop.set.ordinals() {
            let (disk, zone) = (shop.set.volume("data", ordinal), shop.set.zone(ordinal));
            let mut volume = match ordinal {
                0 => in_tree(&format!("aws://{zone}/{disk}"), &Value::Null),
                1 => in_tree(&format!("aws:///{disk}"), &affinity(ZONE, zone)),
                _ => in_tree(&disk, &affinity(DRIVER_ZONE, zone)),
            };
            if ordinal == 0 {
                volume["metadata"]["labels"] = json!({OLD_ZONE: zone});
            }
            let patches = [&volume, &usual];
            let simulators = &shop.site.source;
            simulators
                .seed_disk(&client, &shop.set, ("data", ordinal), patches)
                .await?;
        }
        shop.declare_set(&shop.set, &json!({})).await?;
        // Somebody has a PersistentVolume of the same name with another disk.
        let taken = shop.set.persistent_volume("data", 1);
        let foreign = foreign_volume(&taken, "vol-0123456789abcdef0");
        shop.destination.apply(&foreign.to_string()).await?;
        shop.migrate(&json!({})).await?;
        shop.until_phase(Phase::Completed).await?;
        for ordinal in shop.set.ordinals() {
            let (claim, volume) = arrived(shop, &shop.set.claim("data", ordinal)).await?;
            assert_eq!(claim["status"]["phase"], "Bound");
            assert_eq!(volume["status"]["phase"], "Bound");
            let spec = &volume["spec"];
            assert_eq!(spec["awsElasticBlockStore"], Value::Null);
            assert_eq!(spec["csi"]["driver"], DRIVER);
            assert_eq!(
                spec["csi"]["volumeHandle"],
                shop.set.volume("data", ordinal)
            );
            let zone = shop.set.zone(ordinal);
            assert_eq!(spec["nodeAffinity"], affinity(ZONE, zone));
            let name = volume["metadata"]["name"].as_str().unwrap_or_default();
            let own = shop.set.persistent_volume("data", ordinal);
            if ordinal == 1 {
                let hash = name.strip_prefix(&format!("{own}-"));
                assert_eq!(hash.map(str::len), Some(8), "{name}");
            } else {
                assert_eq!(name, own);
            }
        }
        let volumes = Api::<PersistentVolume>::all(shop.destination.client());
        let untouched = json!(volumes.get(&taken).await?);
        assert_eq!(
            untouched["spec"]["csi"]["volumeHandle"],
            "vol-0123456789abcdef0"
        );
        assert_eq!(shop.ready_pods(&shop.destination).await?.len(), 3);
        Ok(())
    })
}

/// A set with a filesystem of class "", a filesystem without class but with an attributes class, a block device.
fn shapes() -> SetPlan {
    SetPlan {
        templates: ["data", "logs", "raw"].map(str::to_owned).to_vec(),
        ..replicas(1)
    }
}

/// What the PersistentVolume and the claim of each template have beside the usual fields.
fn patches() -> [(&'static str, Value, Value); 3] {
    let user = json!({"labels": {"team": "shop"}, "annotations": {"shop.test/note": "kept"}});
    let plain = json!({
        "metadata": user,
        "spec": {
            "storageClassName": "", "mountOptions": ["noatime", "discard"],
            "csi": {"fsType": "xfs", "volumeAttributes": {"tier": "warm"}},
        },
    });
    let of_plain = json!({"metadata": user, "spec": {"storageClassName": ""}});
    let fast = json!({"spec": {"storageClassName": null, "volumeAttributesClassName": "fast"}});
    let block = json!({"spec": {"volumeMode": "Block", "csi": {"fsType": null}}});
    let of_block = json!({"spec": {"volumeMode": "Block"}});
    [
        ("data", plain, of_plain),
        ("logs", fast.clone(), fast),
        ("raw", block, of_block),
    ]
}

#[test]
fn classes_modes_and_what_users_set_are_kept() -> Result<()> {
    run_story_of(shapes(), async |shop| {
        let class = json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttributesClass",
            "metadata": {"name": "fast"}, "driverName": DRIVER, "parameters": {"iops": "4000"},
        });
        for team in [&shop.source, &shop.destination] {
            team.apply(&class.to_string()).await?;
        }
        let client = shop.source.client();
        let mut set = shop.set.stateful_set();
        for (at, (template, volume, claim)) in patches().into_iter().enumerate() {
            let simulators = &shop.site.source;
            simulators
                .seed_disk(&client, &shop.set, (template, 0), [&volume, &claim])
                .await?;
            let template = json!({"spec": claim["spec"]});
            testkit::stories::merge(&mut set["spec"]["volumeClaimTemplates"][at], &template);
        }
        let container = &mut set["spec"]["template"]["spec"]["containers"][0];
        container["volumeDevices"] = json!([{"name": "raw", "devicePath": "/dev/raw"}]);
        let mounts = container["volumeMounts"].as_array_mut();
        mounts.expect("each template is mounted").pop();
        shop.declare_set(&shop.set, &json!({"spec": set["spec"]}))
            .await?;
        shop.migrate(&json!({})).await?;
        shop.until_phase(Phase::Completed).await?;

        let (data, of_data) = arrived(shop, "data-web-0").await?;
        let (logs, of_logs) = arrived(shop, "logs-web-0").await?;
        let (raw, of_raw) = arrived(shop, "raw-web-0").await?;
        for object in [&data, &of_data] {
            assert_eq!(object["metadata"]["labels"]["team"], "shop");
            assert_eq!(object["metadata"]["annotations"]["shop.test/note"], "kept");
        }
        let of_data = &of_data["spec"];
        assert_eq!(of_data["mountOptions"], json!(["noatime", "discard"]));
        assert_eq!(of_data["csi"]["fsType"], "xfs");
        assert_eq!(of_data["csi"]["volumeAttributes"]["tier"], "warm");
        for object in [&logs, &of_logs] {
            assert_eq!(object["spec"]["volumeAttributesClassName"], "fast");
        }
        for object in [&raw, &of_raw] {
            assert_eq!(object["spec"]["volumeMode"], "Block");
        }
        let expected = [json!(""), Value::Null, json!("gp2")];
        let claims = [&data, &logs, &raw].map(|claim| claim["spec"]["storageClassName"].clone());
        assert_eq!(claims, expected);
        let set = json!(shop.stateful_set(&shop.destination).await?);
        let templates = &set["spec"]["volumeClaimTemplates"];
        let templates = [0, 1, 2].map(|at| templates[at]["spec"]["storageClassName"].clone());
        assert_eq!(templates, expected);
        Ok(())
    })
}

//! Whether the destination has room: a node, slots for disks and the driver, in each zone.

use api::migrate::CheckId;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::storage::v1::CSINode;
use serde_json::json;
use testkit::Result;
use testkit::disks::{DRIVER, SetPlan};

use crate::stories::{DESTINATION, NAME, SOURCE, message, node_in, replicas, run_story_of};

/// Zones of the destination: without a node, without a slot for disks, without the driver.
const NO_NODE: &str = "us-east-1f";
const NO_SLOT: &str = "us-east-1g";
const NO_DRIVER: &str = "us-east-1h";

#[test]
fn a_zone_without_node_slots_or_driver_blocks() -> Result<()> {
    let set = SetPlan {
        zones: [NO_NODE, NO_SLOT, NO_DRIVER].map(str::to_owned).to_vec(),
        ..replicas(3)
    };
    run_story_of(set, async |shop| {
        shop.open_shop_with(&json!({"spec": {"podManagementPolicy": "Parallel"}}))
            .await?;
        let nodes = shop.cluster(DESTINATION).cluster();
        nodes.delete::<Node>(&node_in(NO_NODE)).await?;
        nodes.gone::<Node>(&node_in(NO_NODE)).await?;
        for zone in [NO_NODE, NO_SLOT, NO_DRIVER] {
            let node = node_in(zone);
            if zone != NO_NODE {
                nodes.delete::<CSINode>(&node).await?;
            }
            nodes.gone::<CSINode>(&node).await?;
        }
        let full = json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "CSINode",
            "metadata": {"name": node_in(NO_SLOT)},
            "spec": {"drivers": [{
                "name": DRIVER, "nodeID": "i-full", "topologyKeys": [], "allocatable": {"count": 0},
            }]},
        });
        nodes.apply(&full.to_string()).await?;

        let mark = shop.cluster(SOURCE).mark();
        shop.migrate(&json!({})).await?;
        let findings = shop.until_blocked(NAME).await?;
        for (check, zone, others) in [
            (CheckId::Zone, NO_NODE, [NO_SLOT, NO_DRIVER].as_slice()),
            (CheckId::AttachLimit, NO_SLOT, &[]),
            (CheckId::DestDriver, NO_DRIVER, &[NO_SLOT]),
        ] {
            let message = message(&findings, check);
            assert!(message.contains(zone), "{check}: {findings:?}");
            let is_named = |zone: &&str| message.contains(*zone);
            assert!(!others.iter().any(is_named), "{check}: {findings:?}");
        }
        let writes = shop.writes_since(SOURCE, mark).await?;
        assert!(writes.is_empty(), "{writes:?}");
        assert_eq!(shop.ready_pods(&shop.source).await?.len(), 3);
        Ok(())
    })
}

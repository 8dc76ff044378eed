//! What fails for one story alone: calls of EC2, and the node of a zone that no other story uses.

use http::Method;
use k8s_openapi::api::core::v1::Node;
use serde_json::{Value, json};
use testkit::Result;
use testkit::stories::annotate;

use super::{Shop, node_in};

/// Reads of the operator.
pub(crate) const READ: (&str, &str) = ("DescribeVolumes", "test");
/// Attachments of the driver in the destination.
pub(crate) const ATTACH: (&str, &str) = ("AttachVolume", "attacher-dst");

/// EC2 answers some calls with an error as long as this lives.
pub(crate) struct Ec2Fault<'a> {
    shop: &'a Shop,
    id: String,
}

impl Drop for Ec2Fault<'_> {
    fn drop(&mut self) {
        let aws = self.shop.site.world.aws();
        let path = format!("faults?id={}", self.id);
        let removed = aws.control(Method::DELETE, &path, Value::Null);
        removed.expect("the rule has no limit, so it is still there");
    }
}

impl Shop {
    /// EC2 fails for this call with the set's disk of an ordinal. A read of several disks fails for all of them.
    pub(crate) fn fail_ec2(
        &self,
        (action, caller): (&str, &str),
        ordinal: u32,
        effect: &str,
    ) -> Result<Ec2Fault<'_>> {
        let disk = self.set.volume("data", ordinal);
        let rule = json!({"action": action, "volumeId": disk, "caller": caller, "effect": effect});
        let aws = self.site.world.aws();
        let added = aws.control(Method::POST, "faults", rule)?;
        let id = added["id"].to_string();
        Ok(Ec2Fault { shop: self, id })
    }

    /// Sets or removes an annotation by which the simulated node of a zone behaves in another way.
    pub(crate) async fn annotate_node(
        &self,
        cluster: &str,
        zone: &str,
        annotation: &str,
        value: Option<&str>,
    ) -> Result<()> {
        let nodes = self.cluster(cluster).cluster();
        let annotation = format!("sim.pontoon.test/{annotation}");
        annotate::<Node>(&nodes, &node_in(zone), &annotation, value).await
    }
}

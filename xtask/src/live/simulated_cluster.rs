//! Control planes with simulated nodes and disks. Those of one world share the disks of its EC2.

use serde_json::Value;
use testkit::disks::{DiskSimulators, SimulatorOptions, plane_options};
use testkit::{Aws, ControlPlane};

use super::surroundings::deep;
use crate::operator::Operator;
use crate::verdict::{Error, While};

/// A running cluster. Dropping it stops everything.
pub(crate) struct SimulatedCluster {
    // The order of these fields is the order in which they end.
    _simulators: DiskSimulators,
    pub(crate) plane: ControlPlane,
}

impl SimulatedCluster {
    /// Starts a cluster for each role, side by side. With its role a cluster calls EC2.
    pub(crate) async fn start_all(roles: &[&str], aws: &Aws) -> Result<Vec<Self>, Error> {
        let options = roles.iter().map(|_| plane_options()).collect();
        let planes = ControlPlane::start_together(options).await.map_err(deep)?;
        let mut clusters = Vec::new();
        for (plane, role) in planes.into_iter().zip(roles) {
            let options = SimulatorOptions::new(role);
            let simulators = DiskSimulators::start(&plane, &aws.url(), options).await;
            clusters.push(Self {
                _simulators: simulators.map_err(deep)?,
                plane,
            });
        }
        Ok(clusters)
    }

    /// A kubeconfig for migrations, in one line: the operator's own verb makes the account and its rights.
    pub(crate) fn login(&self, operator: &Operator) -> Result<String, Error> {
        let context = "--context=testkit";
        let verb = ["migrate", "kubeconfig", context, "--yes", "--output=json"];
        let printed = operator.print_in(&self.plane.kubeconfig(), &verb)?;
        let [kubeconfig]: [Value; 1] =
            serde_json::from_str(&printed).doing("reading the kubeconfig of a login")?;
        Ok(kubeconfig.to_string())
    }
}

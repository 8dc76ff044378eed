//! Tenants of one distribution, with their records in one zone, in several namespaces.

use serde_json::{Value, json};

/// The distribution of all tenants, and the zone of their records.
pub(super) const DISTRIBUTION: &str = "E1";
pub(super) const ZONE: &str = "Z1";
pub(super) const DOMAIN: &str = "example.com";

const GROUP: &str = "cloudfront-tenant-operator.io";
const VERSION: &str = "v1alpha1";
/// The plural of the kind, as in the audit log.
pub(super) const PLURAL: &str = "distributiontenants";

/// The number of parameters of a tenant, and the length of each: together its object has 3 KB.
const PARAMETERS: usize = 4;
const LENGTH: usize = 120;

/// A number of tenants, numbered from 0.
#[derive(Debug, Clone, Copy)]
pub(super) struct Crowd {
    /// The prefix of the names of tenants and namespaces.
    pub(super) name: &'static str,
    pub(super) count: usize,
    pub(super) namespaces: usize,
    /// How many are in the first namespace; the others share the rest.
    pub(super) first: usize,
}

impl Crowd {
    /// The namespaces, in order.
    pub(super) fn homes(self) -> impl Iterator<Item = String> {
        (0..self.namespaces).map(move |namespace| self.home(namespace))
    }

    fn home(self, namespace: usize) -> String {
        format!("{}-{namespace:02}", self.name)
    }

    /// The number of a tenant's namespace.
    pub(super) fn namespace(self, number: usize) -> usize {
        match number.checked_sub(self.first) {
            None => 0,
            Some(rest) => 1 + rest % (self.namespaces - 1),
        }
    }

    /// The name of a tenant, in the cluster as in CloudFront.
    pub(super) fn tenant(self, number: usize) -> String {
        format!("{}-{number:05}", self.name)
    }

    /// The number of the tenant of this name.
    pub(super) fn number(self, name: &str) -> Option<usize> {
        let number = name.strip_prefix(self.name)?.strip_prefix('-')?;
        number.parse().ok().filter(|number| *number < self.count)
    }

    /// `namespace/name`, as in markers.
    pub(super) fn key(self, number: usize) -> String {
        let home = self.home(self.namespace(number));
        format!("{home}/{}", self.tenant(number))
    }

    /// The path of the tenants of a namespace.
    pub(super) fn list_path(home: &str) -> String {
        format!("/apis/{GROUP}/{VERSION}/namespaces/{home}/{PLURAL}")
    }

    /// The path of the tenants of this tenant's namespace.
    pub(super) fn home_path(self, number: usize) -> String {
        Self::list_path(&self.home(self.namespace(number)))
    }

    /// The path of a tenant.
    pub(super) fn path(self, number: usize) -> String {
        format!("{}/{}", self.home_path(number), self.tenant(number))
    }

    /// All objects, each with the path to create it at.
    pub(super) fn all(self) -> impl Iterator<Item = (String, Value)> {
        (0..self.count).map(move |number| (self.home_path(number), self.object(number)))
    }

    /// A tenant with DNS and parameters.
    pub(super) fn object(self, number: usize) -> Value {
        let mut object = self.plain(number);
        object["spec"]["dns"] = json!({"provider": "route53", "hostedZoneId": ZONE});
        object["spec"]["parameters"] = parameters();
        object
    }

    /// A tenant without them.
    pub(super) fn plain(self, number: usize) -> Value {
        let name = self.tenant(number);
        json!({
            "apiVersion": format!("{GROUP}/{VERSION}"),
            "kind": "DistributionTenant",
            "metadata": {"name": name},
            "spec": {
                "distributionId": DISTRIBUTION,
                "domains": [{"domain": format!("{name}.{DOMAIN}")}],
            },
        })
    }
}

fn parameters() -> Value {
    let one = |number| {
        let name = format!("parameter-{number}");
        json!({"name": name, "value": "x".repeat(LENGTH)})
    };
    (0..PARAMETERS).map(one).collect()
}

/// Whether an object is ready with its current spec.
pub(super) fn is_ready(object: &Value) -> bool {
    let generation = &object["metadata"]["generation"];
    let conditions = object["status"]["conditions"].as_array();
    conditions.is_some_and(|conditions| {
        conditions.iter().any(|one| {
            one["type"] == "Ready"
                && one["status"] == "True"
                && one["observedGeneration"] == *generation
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FEW: Crowd = Crowd {
        name: "few",
        count: 7,
        namespaces: 3,
        first: 4,
    };

    #[test]
    fn the_first_namespace_has_its_number_and_the_others_share_the_rest() {
        let homes: Vec<_> = (0..FEW.count).map(|number| FEW.namespace(number)).collect();
        assert_eq!(homes, [0, 0, 0, 0, 1, 2, 1]);
        let homes: Vec<_> = FEW.homes().collect();
        assert_eq!(homes, ["few-00", "few-01", "few-02"]);
    }

    #[test]
    fn a_tenant_is_known_by_its_name() {
        assert_eq!(FEW.number(&FEW.tenant(6)), Some(6));
        assert_eq!(FEW.number("few-00007"), None);
        assert_eq!(FEW.number("many-00001"), None);
        assert_eq!(FEW.key(5), "few-02/few-00005");
        assert!(
            FEW.path(5)
                .ends_with("/few-02/distributiontenants/few-00005")
        );
    }

    #[test]
    fn ready_counts_only_for_its_generation() {
        let object = |seen: i64, status: &str| {
            json!({
                "metadata": {"generation": 2},
                "status": {"conditions": [
                    {"type": "Ready", "status": status, "observedGeneration": seen},
                ]},
            })
        };
        assert!(is_ready(&object(2, "True")));
        assert!(!is_ready(&object(1, "True")));
        assert!(!is_ready(&object(2, "False")));
    }
}

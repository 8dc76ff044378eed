//! How a run must end, whatever happens on its way.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Resource;
use kube::api::{Api, ListParams};
use serde_json::Value;
use testkit::{Entry, Mark, Result, Story};

use crate::stories::{DESTINATION, SOURCE, Shop};

/// The state of a shop before its migration.
pub(crate) struct Before {
    definition: Vec<Value>,
    marks: [Mark; 2],
}

impl Before {
    /// What is there now.
    pub(crate) async fn of(shop: &Shop) -> Result<Self> {
        Ok(Self {
            definition: shop.definition(&shop.source).await?,
            marks: [SOURCE, DESTINATION].map(|name| shop.cluster(name).mark()),
        })
    }

    /// Every ordinal runs at the destination on its own disks, and nothing is left in the source.
    pub(crate) async fn has_moved(&self, shop: &Shop) -> Result<()> {
        assert_eq!(shop.disks(&shop.destination).await?, shop.own_disks());
        assert_eq!(shop.ready_pods(&shop.destination).await?, pods(shop));
        assert_eq!(shop.definition(&shop.source).await?, Vec::<Value>::new());
        self.leaves_nothing(shop, 1).await
    }

    /// Every ordinal runs in the source as before, and nothing is left at the destination.
    pub(crate) async fn has_returned(&self, shop: &Shop) -> Result<()> {
        assert_eq!(shop.definition(&shop.source).await?, self.definition);
        assert_eq!(shop.disks(&shop.source).await?, shop.own_disks());
        assert_eq!(shop.ready_pods(&shop.source).await?, pods(shop));
        assert_eq!(
            shop.definition(&shop.destination).await?,
            Vec::<Value>::new()
        );
        // In both clusters a claim is replaced by its tombstone, or the other way round.
        self.leaves_nothing(shop, 2).await
    }

    /// No lock and no capture is left in the clusters, and no object was created twice; a claim only as often as the
    /// run does it.
    async fn leaves_nothing(&self, shop: &Shop, claims: usize) -> Result<()> {
        for team in [&shop.source, &shop.destination] {
            assert_eq!(records::<ConfigMap>(team).await?, Vec::<String>::new());
            assert_eq!(records::<Secret>(team).await?, Vec::<String>::new());
        }
        for (name, mark) in [SOURCE, DESTINATION].into_iter().zip(self.marks) {
            let mut created = BTreeMap::<(String, String), usize>::new();
            for entry in shop.writes_since(name, mark).await? {
                if is_created(&entry) {
                    *created.entry((entry.resource, entry.name)).or_default() += 1;
                }
            }
            created.retain(|(resource, _), count| {
                let is_claim = resource == "persistentvolumeclaims";
                *count > if is_claim { claims } else { 1 }
            });
            assert_eq!(created, BTreeMap::new(), "created twice in {name}");
        }
        Ok(())
    }
}

fn is_created(entry: &Entry) -> bool {
    entry.verb == "create" && entry.code == 201
}

fn pods(shop: &Shop) -> Vec<String> {
    let ordinals = shop.set.ordinals();
    ordinals.map(|ordinal| format!("web-{ordinal}")).collect()
}

/// The locks or captures of runs in a namespace.
async fn records<K>(team: &Story) -> Result<Vec<String>>
where
    K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + serde::de::DeserializeOwned,
{
    let all = Api::<K>::namespaced(team.client(), team.name());
    let all = all.list(&ListParams::default()).await?.into_iter();
    let names = all.filter_map(|one| one.meta().name.clone());
    Ok(names.filter(|name| name.starts_with("stsm-")).collect())
}

//! Two other clusters as a model, and the kubeconfig that leads to one of them.
//!
//! It has one Mirror, and each pass reads the true identity. So it does not cover the pin that Mirrors of
//! one Secret share, identities that are read late, and acceptances: see the tests of `IdentityPin`, and
//! the tables in tests.rs.

use cluster_client::ClusterIdentity;
use engine::Object;
use jiff::Timestamp;
use kernel::{CallError, Class, ClusterId, Ownership};
use serde_json::{Value, json};
use simulator::{Model, Seeds, check};
use std::collections::BTreeMap;
use std::time::Duration;

use super::plan::same_cluster;
use super::{Answer, Connection, Copy, MirrorCore, Read, Step};

const FOREIGN: &str = "other/mirror";

/// The copy in each cluster.
#[derive(Debug, Clone, Default)]
struct Clusters {
    copies: BTreeMap<&'static str, Copy>,
    now: Timestamp,
    /// The kubeconfig is wrong until then: it leads to another cluster, or nowhere.
    away: Option<(Timestamp, Option<&'static str>)>,
    pinned: Option<&'static str>,
    uids: u64,
    broken_law: Option<String>,
}

/// A wrong kubeconfig is corrected after this time.
const AWAY: Duration = Duration::from_secs(600);

fn core() -> MirrorCore {
    MirrorCore {
        cluster: ClusterId::new("harbour").expect("it is a valid name"),
    }
}

impl Clusters {
    fn connected(&self) -> Option<&'static str> {
        match self.away {
            Some((until, cluster)) if self.now < until => cluster,
            Some(_) | None => Some("a"),
        }
    }

    fn reached(&self) -> Result<&'static str, CallError> {
        let none = || CallError::new(Class::Unreachable, "there is no connection");
        self.connected().ok_or_else(none)
    }

    fn put(&mut self, cluster: &'static str, ownership: Ownership, text: &str) -> String {
        self.uids += 1;
        let copy = Copy {
            ownership,
            uid: self.uids.to_string(),
            text: Some(text.to_owned()),
        };
        let uid = copy.uid.clone();
        self.copies.insert(cluster, copy);
        uid
    }

    fn ours(&self) -> Vec<(&'static str, &Copy)> {
        let all = self.copies.iter().map(|(cluster, copy)| (*cluster, copy));
        all.filter(|(_, copy)| copy.ownership == Ownership::Ours)
            .collect()
    }

    /// Everything that we write is in the cluster that was recorded first.
    fn writes_to(&mut self, cluster: &'static str) {
        let pinned = *self.pinned.get_or_insert(cluster);
        if pinned != cluster {
            self.broken_law = Some(format!("nothing is written to {cluster} beside {pinned}"));
        }
    }

    fn stale() -> CallError {
        CallError::new(Class::Stale, "it is another ConfigMap")
    }
}

impl Model<MirrorCore> for Clusters {
    const READ_LAG: Duration = Duration::ZERO;

    fn new(choice: u8) -> (Self, Value) {
        let mut clusters = Self::default();
        if choice & 0b11 == 0b11 {
            clusters.put("a", Ownership::Foreign(FOREIGN.to_owned()), "a");
        }
        let object = json!({
            "apiVersion": "probe.pontoon.io/v1alpha1", "kind": "Mirror",
            "metadata": {"namespace": "team", "name": "ferry"},
            "spec": {"kubeconfig": {"name": "s", "key": "k"}, "namespace": "there", "text": "a"},
        });
        (clusters, object)
    }

    fn edit(&mut self, object: &mut Value, choice: u8) {
        object["spec"]["text"] = json!(if choice & 1 == 0 { "a" } else { "b" });
    }

    fn meddle(&mut self, object: &Value, choice: u8) -> String {
        match choice % 4 {
            0 => {
                // The first cluster that is recorded is the right one.
                let is_recorded = object["status"]["cluster"].is_string();
                let cluster = (is_recorded && choice & 4 == 0).then_some("b");
                self.away = Some((self.now + AWAY, cluster));
                format!("changes the kubeconfig to {cluster:?}")
            }
            1 => {
                self.copies.clear();
                "deletes the copies".to_owned()
            }
            2 => {
                for copy in self.copies.values_mut() {
                    copy.text = Some("edited".to_owned());
                }
                "edits the copies".to_owned()
            }
            _ => {
                for cluster in ["a", "b"] {
                    if !self.copies.contains_key(cluster) {
                        self.put(cluster, Ownership::Unmarked, "a");
                    }
                }
                "creates ConfigMaps of our name".to_owned()
            }
        }
    }

    fn facts(&self, _object: &Object<MirrorCore>) {}

    fn passes(&mut self, now: Timestamp) {
        self.now = now;
    }

    fn read(&self, read: &Read) -> Result<Answer, CallError> {
        Ok(match read {
            Read::Connection { .. } => Answer::Connection(match self.connected() {
                Some(cluster) => Connection::Cluster(cluster.to_owned()),
                None => Connection::Refused("users[0].user.exec".to_owned()),
            }),
            Read::Copy(_) => Answer::Copy(self.copies.get(self.reached()?).cloned()),
        })
    }

    fn apply(&mut self, step: &Step) -> Result<String, CallError> {
        let cluster = self.reached()?;
        let (Step::Write {
            cluster: decided_for,
            ..
        }
        | Step::Remove {
            cluster: decided_for,
            ..
        }) = step;
        same_cluster(decided_for, ClusterIdentity::new(cluster).ok().as_ref())?;
        let live = self.copies.get(cluster).cloned();
        match step {
            Step::Write { text, over, .. } => {
                if live.as_ref().map(|copy| &copy.uid) != over.as_ref() {
                    return Err(Self::stale());
                }
                self.writes_to(cluster);
                if live.is_some_and(|copy| copy.ownership != Ownership::Ours) {
                    self.broken_law = Some(format!("nothing foreign is touched: {step}"));
                }
                match self.copies.get_mut(cluster) {
                    Some(copy) => {
                        copy.text = Some(text.clone());
                        Ok(copy.uid.clone())
                    }
                    None => Ok(self.put(cluster, Ownership::Ours, text)),
                }
            }
            Step::Remove { uid, .. } => {
                self.writes_to(cluster);
                if live.as_ref().is_some_and(|copy| copy.uid != *uid) {
                    return Err(Self::stale());
                }
                if live.is_some_and(|copy| copy.ownership != Ownership::Ours) {
                    self.broken_law = Some(format!("nothing foreign is touched: {step}"));
                }
                self.copies.remove(cluster);
                Ok(String::new())
            }
        }
    }

    fn broken_law(&self) -> Option<String> {
        self.broken_law.clone()
    }

    fn is_as_desired(&self, object: &Value) -> bool {
        let text = object["spec"]["text"].as_str();
        let ours = self.ours();
        ours.len() == 1 && ours[0].1.text.as_deref() == text
    }

    fn may_rest(&self, _object: &Value) -> bool {
        let live = self.connected().and_then(|one| self.copies.get(one));
        live.is_some_and(|copy| copy.ownership != Ownership::Ours)
    }

    fn leftover(&self, _object: &Value) -> Option<String> {
        let ours = self.ours();
        let (cluster, _) = ours.first()?;
        Some(format!("a copy in cluster {cluster}"))
    }
}

#[test]
fn every_law_holds_for_mirrors() {
    check::<MirrorCore, Clusters>(&core(), &Seeds::first(2_000));
}

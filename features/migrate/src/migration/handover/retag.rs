//! The tags of the disks name the cluster whose EBS driver may use them. Only where the spec names both clusters.
//!
//! Never before the disks are confirmed as free: the old cluster needs its tag to detach them.

use std::collections::BTreeMap;

use api::migrate::StepName;
use api::migrate::names::{EBS_CLUSTER_NAME_TAG, EBS_CLUSTER_TAG, KUBERNETES_CLUSTER_TAG_PREFIX};

use super::{Direction, Handover, HandoverClaim};
use crate::migration::decision::{Change, Decision, first_unfinished};

/// Tags of a disk.
pub type Tags = BTreeMap<String, String>;

/// What is to be changed in the tags of a disk.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct TagChange {
    set: Tags,
    remove: Vec<String>,
}

/// The first disk whose tags are not as they should be.
pub(super) fn next(handover: &Handover<'_>) -> Decision {
    first_unfinished(handover.claims.iter().map(|claim| one(handover, claim)))
}

/// | tags are missing or differ      | tags are too many | so                |
/// |---------------------------------|-------------------|-------------------|
/// | not read since they were changed | any              | read them         |
/// | yes                             | any               | create these tags |
/// | no                              | yes               | delete those tags |
/// | no                              | no                | done              |
fn one(handover: &Handover<'_>, claim: &HandoverClaim) -> Decision {
    let Some(names) = handover.cluster_names else {
        return Decision::Done;
    };
    let Some(read) = handover.observation.disks.get(&claim.disk) else {
        return Decision::ReadDisks {
            step: handover.direction.pick(StepName::Retag, StepName::RRetag),
            ids: vec![claim.disk.clone()],
            not_before: handover.elapsed,
        };
    };
    let Some(live) = read.disk.as_ref().map(|disk| &disk.tags) else {
        return Decision::Done; // a disk that is not there is held before
    };
    let (step, change) = match handover.direction {
        Direction::Forward => (StepName::Retag, given(live, names)),
        Direction::Back => match handover.old_tags.get(&claim.name) {
            Some(old) => (StepName::RRetag, returned(live, old, names)),
            None => return Decision::Done,
        },
    };
    let disk = claim.disk.clone();
    let change = if change.set.is_empty() {
        let keys = change.remove;
        if keys.is_empty() {
            return Decision::Done;
        }
        Change::DeleteTags { disk, keys }
    } else {
        let tags = change.set;
        Change::CreateTags { disk, tags }
    };
    Decision::act(step, Some(handover.ordinal), change)
}

/// The keys that a run may change.
fn keys((source, destination): (&str, &str)) -> [String; 4] {
    [
        EBS_CLUSTER_NAME_TAG.to_owned(),
        EBS_CLUSTER_TAG.to_owned(),
        format!("{KUBERNETES_CLUSTER_TAG_PREFIX}{source}"),
        format!("{KUBERNETES_CLUSTER_TAG_PREFIX}{destination}"),
    ]
}

/// The tags that a run changes, as they are now: to be recorded before the first change.
pub fn changed_tags(live: &Tags, names: (&str, &str)) -> Tags {
    let keys = keys(names);
    let tags = live.iter().filter(|(key, _)| keys.contains(key));
    tags.map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

/// | tag                               | at the destination                                         |
/// |-----------------------------------|------------------------------------------------------------|
/// | `ebs.csi.aws.com/cluster-name`    | the destination's name                                     |
/// | `ebs.csi.aws.com/cluster`         | `true`                                                     |
/// | `kubernetes.io/cluster/<source>`  | gone; its value is that of `kubernetes.io/cluster/<dest>`  |
fn given(live: &Tags, (source, destination): (&str, &str)) -> TagChange {
    let [name, driver, of_source, of_destination] = keys((source, destination));
    let mut wanted = Tags::from([(name, destination.to_owned()), (driver, "true".to_owned())]);
    let mut remove = Vec::new();
    if let Some(value) = live.get(&of_source) {
        wanted.insert(of_destination, value.clone());
        remove.push(of_source);
    }
    TagChange {
        set: missing(live, wanted),
        remove,
    }
}

/// Every tag that the run may have changed is as it was, or gone if it was not there.
fn returned(live: &Tags, old: &Tags, names: (&str, &str)) -> TagChange {
    let keys = keys(names).into_iter();
    let remove = keys.filter(|key| live.contains_key(key) && !old.contains_key(key));
    TagChange {
        remove: remove.collect(),
        set: missing(live, old.clone()),
    }
}

fn missing(live: &Tags, mut wanted: Tags) -> Tags {
    wanted.retain(|key, value| live.get(key) != Some(value));
    wanted
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const NAMES: (&str, &str) = ("old", "new");

    fn tags(all: &[(&str, &str)]) -> Tags {
        let tags = all
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        tags.collect()
    }

    fn change(set: &[(&str, &str)], remove: &[&str]) -> TagChange {
        TagChange {
            set: tags(set),
            remove: remove.iter().map(|key| (*key).to_owned()).collect(),
        }
    }

    const DRIVER: (&str, &str) = ("ebs.csi.aws.com/cluster", "true");
    const NEW: (&str, &str) = ("ebs.csi.aws.com/cluster-name", "new");
    const OLD: (&str, &str) = ("ebs.csi.aws.com/cluster-name", "old");
    const USERS: (&str, &str) = ("team", "shop");

    #[rstest]
    #[case::without_tags(&[], change(&[DRIVER, NEW], &[]))]
    #[case::of_the_source(&[DRIVER, OLD], change(&[NEW], &[]))]
    #[case::as_wanted(&[DRIVER, NEW], change(&[], &[]))]
    #[case::of_the_user(&[DRIVER, NEW, USERS], change(&[], &[]))]
    #[case::owned_by_the_source(
        &[DRIVER, NEW, ("kubernetes.io/cluster/old", "owned")],
        change(&[("kubernetes.io/cluster/new", "owned")], &["kubernetes.io/cluster/old"])
    )]
    #[case::owned_by_both(
        &[DRIVER, NEW, ("kubernetes.io/cluster/old", "owned"), ("kubernetes.io/cluster/new", "owned")],
        change(&[], &["kubernetes.io/cluster/old"])
    )]
    #[case::owned_by_a_third(&[DRIVER, NEW, ("kubernetes.io/cluster/third", "owned")], change(&[], &[]))]
    fn a_disk_is_given_to_the_destination(
        #[case] live: &[(&str, &str)],
        #[case] expected: TagChange,
    ) {
        assert_eq!(given(&tags(live), NAMES), expected);
    }

    #[rstest]
    #[case::nothing_was_there(&[], &[DRIVER, NEW, USERS], change(&[], &[NEW.0, DRIVER.0]))]
    #[case::the_name_returns(&[DRIVER, OLD], &[DRIVER, NEW], change(&[OLD], &[]))]
    #[case::as_it_was(&[DRIVER, OLD], &[DRIVER, OLD, USERS], change(&[], &[]))]
    #[case::the_owner_returns(
        &[("kubernetes.io/cluster/old", "owned")],
        &[("kubernetes.io/cluster/new", "owned")],
        change(&[("kubernetes.io/cluster/old", "owned")], &["kubernetes.io/cluster/new"])
    )]
    fn a_disk_returns_with_its_tags(
        #[case] old: &[(&str, &str)],
        #[case] live: &[(&str, &str)],
        #[case] expected: TagChange,
    ) {
        assert_eq!(returned(&tags(live), &tags(old), NAMES), expected);
    }

    #[test]
    fn the_record_has_the_tags_that_change() {
        let live = tags(&[DRIVER, OLD, USERS, ("kubernetes.io/cluster/old", "owned")]);
        let expected = tags(&[DRIVER, OLD, ("kubernetes.io/cluster/old", "owned")]);
        assert_eq!(changed_tags(&live, NAMES), expected);
    }
}

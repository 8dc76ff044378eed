//! What an Update sends: every member, ours or carried along.

use std::collections::{BTreeMap, BTreeSet};

use crate::body::Body;

/// `desired`, with the group that is live where none is ours: an Update without one would mean
/// the default group to CloudFront if it replaces, and nothing if it merges.
pub(super) fn complete(desired: &Body, live: &Body) -> Body {
    let group = desired.connection_group_id.as_ref();
    Body {
        connection_group_id: group.or(live.connection_group_id.as_ref()).cloned(),
        ..desired.clone()
    }
}

/// `live` with the edits from `last` to `desired` in it, and nothing else changed.
pub(super) fn merged(last: &Body, live: &Body, desired: &Body) -> Body {
    Body {
        enabled: edited(&last.enabled, &live.enabled, &desired.enabled),
        distribution_id: edited(
            &last.distribution_id,
            &live.distribution_id,
            &desired.distribution_id,
        ),
        connection_group_id: edited(
            &last.connection_group_id,
            &live.connection_group_id,
            &desired.connection_group_id,
        ),
        domains: elements(&last.domains, &live.domains, &desired.domains),
        parameters: entries(&last.parameters, &live.parameters, &desired.parameters),
        web_acl: edited(&last.web_acl, &live.web_acl, &desired.web_acl),
        certificate_arn: edited(
            &last.certificate_arn,
            &live.certificate_arn,
            &desired.certificate_arn,
        ),
        geo_restrictions: edited(
            &last.geo_restrictions,
            &live.geo_restrictions,
            &desired.geo_restrictions,
        ),
    }
}

fn edited<T: PartialEq + Clone>(last: &T, live: &T, desired: &T) -> T {
    if desired == last { live } else { desired }.clone()
}

fn elements(
    last: &BTreeSet<String>,
    live: &BTreeSet<String>,
    desired: &BTreeSet<String>,
) -> BTreeSet<String> {
    let has = |one: &&String| {
        let [last, live, desired] = [last, live, desired].map(|side| side.contains(*one));
        edited(&last, &live, &desired)
    };
    live.union(desired).filter(has).cloned().collect()
}

fn entries(
    last: &BTreeMap<String, String>,
    live: &BTreeMap<String, String>,
    desired: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let names: BTreeSet<&String> = live.keys().chain(desired.keys()).collect();
    let entry = |name: &String| {
        let [last, live, desired] = [last, live, desired].map(|side| side.get(name));
        Some((name.clone(), edited(&last, &live, &desired)?.clone()))
    };
    names.into_iter().filter_map(entry).collect()
}

//! What the tests of this module share.

use kernel::ObjectKey;

use super::{ChangeSet, ZoneAccess, ZoneRole};
use crate::route53::{Action, Answer, Change, Record};

pub(super) fn key() -> ObjectKey {
    ObjectKey::namespaced("web", "acme")
}

pub(super) fn access(zone: &str) -> ZoneAccess {
    ZoneAccess {
        zone: zone.to_owned(),
        login: ZoneRole::default(),
    }
}

pub(super) fn record(name: &str, kind: &str, value: &str) -> Record {
    Record {
        name: name.to_owned(),
        kind: kind.to_owned(),
        answer: Answer::Values {
            ttl: 300,
            values: vec![value.to_owned()],
        },
        set_identifier: None,
    }
}

pub(super) fn a_set() -> ChangeSet {
    let name = "a.example.com";
    ChangeSet {
        access: access("Z1"),
        name: name.to_owned(),
        changes: vec![Change {
            action: Action::Create,
            record: record(name, "CNAME", "d0.cloudfront.net"),
        }],
    }
}

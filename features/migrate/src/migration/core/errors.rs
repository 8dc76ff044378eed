//! What a failed call means for a run. Pure.

use api::migrate::StallReason;
use kernel::{CallError, Class};

use super::{FailedCall, Read, Write};
use crate::migration::decision::Change;

/// What follows from a failed call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Consequence {
    /// The objects are read again, and the pass decides anew.
    DecideAgain,
    /// The run waits, and says after some time that it stalls.
    Stall(StallReason),
    /// The pass fails, and is repeated with back-off.
    Fail,
}

/// The status with which an API server refuses a login.
const UNAUTHORIZED: &str = "401";

/// What a call goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Callee {
    OwnCluster,
    OtherCluster,
    Ec2,
}

/// | callee        | class of the error                           | consequence             |
/// |---------------|----------------------------------------------|-------------------------|
/// | own cluster   | a change that came too late                  | decide again, then fail |
/// | own cluster   | any other                                    | fail                    |
/// | other cluster | a change that came too late                  | decide again, then fail |
/// | other cluster | a change that is denied, but not the login; one that is invalid | stall: ChangeRefused |
/// | other cluster | denied                                       | stall: AuthFailed       |
/// | other cluster | a read that is invalid                       | fail                    |
/// | other cluster | any other                                    | stall: ClusterUnreachable |
/// | EC2           | denied                                       | stall: Ec2Denied        |
/// | EC2           | invalid                                      | fail                    |
/// | EC2           | any other                                    | stall: Ec2Unavailable   |
///
/// A change comes too late if its object has changed, gone or appeared meanwhile.
pub(super) fn consequence(call: &FailedCall, error: &CallError, is_repeated: bool) -> Consequence {
    let callee = callee(call);
    let is_too_late = matches!(call, FailedCall::Write(_)) && is_outdated(error.class);
    if is_too_late && callee != Callee::Ec2 {
        return if is_repeated {
            Consequence::Fail
        } else {
            Consequence::DecideAgain
        };
    }
    let is_change = matches!(call, FailedCall::Write(_));
    let is_login = error.code.as_deref() == Some(UNAUTHORIZED);
    match (callee, error.class) {
        (Callee::OtherCluster, Class::Denied) if is_change && !is_login => {
            Consequence::Stall(StallReason::ChangeRefused)
        }
        (Callee::OtherCluster, Class::Invalid) if is_change => {
            Consequence::Stall(StallReason::ChangeRefused)
        }
        (Callee::OwnCluster, _) | (_, Class::Invalid | Class::Deposed) => Consequence::Fail,
        (Callee::OtherCluster, Class::Denied) => Consequence::Stall(StallReason::AuthFailed),
        (Callee::OtherCluster, _) => Consequence::Stall(StallReason::ClusterUnreachable),
        (Callee::Ec2, Class::Denied) => Consequence::Stall(StallReason::Ec2Denied),
        (Callee::Ec2, _) => Consequence::Stall(StallReason::Ec2Unavailable),
    }
}

fn is_outdated(class: Class) -> bool {
    matches!(
        class,
        Class::Stale | Class::Conflict | Class::NotFound | Class::AlreadyExists
    )
}

fn callee(call: &FailedCall) -> Callee {
    match call {
        FailedCall::Read(Read::Migration | Read::Capture(_)) => Callee::OwnCluster,
        FailedCall::Read(
            Read::Connection { .. } | Read::Documents { .. } | Read::Survey { .. },
        ) => Callee::OtherCluster,
        FailedCall::Read(Read::Disks { .. } | Read::Snapshots { .. }) => Callee::Ec2,
        FailedCall::Write(Write::Change(step) | Write::Mirror(step)) => match &step.change {
            Change::StoreCapture { .. } => Callee::OwnCluster,
            Change::CreateTags { .. }
            | Change::DeleteTags { .. }
            | Change::CreateSnapshot { .. } => Callee::Ec2,
            Change::Create { .. } | Change::Patch { .. } | Change::Delete { .. } => {
                Callee::OtherCluster
            }
        },
    }
}

/// The error, with what was called.
pub(super) fn message(call: &FailedCall, error: &CallError) -> String {
    match call {
        FailedCall::Read(read) => format!("{read}: {}", error.message),
        FailedCall::Write(write) => format!("{write}: {}", error.message),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use rstest::rstest;

    use super::*;

    const AUTH_FAILED: Consequence = Consequence::Stall(StallReason::AuthFailed);
    const REFUSED: Consequence = Consequence::Stall(StallReason::ChangeRefused);
    const UNREACHABLE: Consequence = Consequence::Stall(StallReason::ClusterUnreachable);
    const EC2_DENIED: Consequence = Consequence::Stall(StallReason::Ec2Denied);
    const EC2_UNAVAILABLE: Consequence = Consequence::Stall(StallReason::Ec2Unavailable);

    fn disks() -> FailedCall {
        FailedCall::Read(Read::Disks {
            ids: vec!["vol-1".to_owned()],
            not_before: Duration::ZERO,
        })
    }

    fn documents() -> FailedCall {
        FailedCall::Read(Read::Documents {
            side: crate::migration::observation::Side::Source,
            scope: crate::migration::core::Scope {
                namespace: "shop".to_owned(),
                set: "web".to_owned(),
                capture: None,
            },
        })
    }

    fn snapshots() -> FailedCall {
        FailedCall::Read(Read::Snapshots {
            ordinal: 1,
            tags: BTreeMap::new(),
            not_before: Duration::ZERO,
        })
    }

    fn change(change: Change) -> FailedCall {
        FailedCall::Write(Write::Change(crate::migration::decision::Step {
            name: api::migrate::StepName::Capture,
            ordinal: None,
            change,
        }))
    }

    fn create() -> FailedCall {
        change(Change::Create {
            side: crate::migration::observation::Side::Source,
            kind: crate::migration::decision::ObjectKind::Claim,
            body: serde_json::Value::Null,
        })
    }

    fn store() -> FailedCall {
        change(Change::StoreCapture {
            body: serde_json::Value::Null,
        })
    }

    #[rstest]
    #[case::too_late(create(), Class::Stale, false, Consequence::DecideAgain)]
    #[case::exists(create(), Class::AlreadyExists, false, Consequence::DecideAgain)]
    #[case::too_late_again(create(), Class::Conflict, true, Consequence::Fail)]
    #[case::quota_or_permission(create(), Class::Denied, false, REFUSED)]
    #[case::admission(create(), Class::Invalid, false, REFUSED)]
    #[case::read_is_denied(documents(), Class::Denied, false, AUTH_FAILED)]
    #[case::away(create(), Class::Unreachable, false, UNREACHABLE)]
    #[case::own_cluster_refuses(store(), Class::Invalid, false, Consequence::Fail)]
    #[case::own_cluster(
        FailedCall::Read(Read::Migration),
        Class::Denied,
        false,
        Consequence::Fail
    )]
    #[case::own_cluster_too_late(store(), Class::AlreadyExists, false, Consequence::DecideAgain)]
    #[case::objects(documents(), Class::Transient, false, UNREACHABLE)]
    #[case::ec2_denied(disks(), Class::Denied, false, EC2_DENIED)]
    #[case::ec2_throttled(disks(), Class::Throttled, false, EC2_UNAVAILABLE)]
    #[case::search_denied(snapshots(), Class::Denied, false, EC2_DENIED)]
    #[case::snapshot_lost(
        change(Change::CreateSnapshot {
            disk: "vol-1".to_owned(),
            tags: BTreeMap::new(),
            attempt: 0,
        }),
        Class::Transient,
        false,
        EC2_UNAVAILABLE
    )]
    fn rule(
        #[case] call: FailedCall,
        #[case] class: Class,
        #[case] is_repeated: bool,
        #[case] expected: Consequence,
    ) {
        let error = CallError::new(class, "why");
        assert_eq!(consequence(&call, &error, is_repeated), expected);
    }

    #[test]
    fn a_refused_login_of_a_change_is_no_refused_change() {
        let error = CallError {
            code: Some("401".to_owned()),
            ..CallError::new(Class::Denied, "why")
        };
        assert_eq!(consequence(&create(), &error, false), AUTH_FAILED);
    }
}

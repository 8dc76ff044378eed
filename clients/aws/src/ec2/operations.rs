//! What is called in EC2, how fast, and what its error codes mean.

use crate::limiter::{Limit, RateRange};
use crate::operation::{ServiceRow, operations};
use crate::wire::Hosts;
use crate::{Error, Fault, Service};

impl Service {
    /// Elastic Compute Cloud.
    #[allow(non_upper_case_globals, reason = "it is AWS's own name")]
    pub const Ec2: Self = Self(&ServiceRow {
        name: "ec2",
        id: "EC2",
        signing: "ec2",
        hosts: Hosts::Regional("ec2"),
        region: None,
        fault,
    });
}

/// EC2 limits each action separately. Its buckets are refilled by 20 a second for reads, 10 for tags
/// and 5 for snapshots; other programs of the account use them too.
const fn of(label: &'static str, start: f64, highest: f64) -> Limit {
    Limit {
        label,
        rates: RateRange::new(start, 0.2, highest),
    }
}

operations! { Ec2 "EC2":
    Read DescribeVolumes of("ec2/DescribeVolumes", 10.0, 20.0);
    Read DescribeVolumesModifications of("ec2/DescribeVolumesModifications", 10.0, 20.0);
    Read DescribeSnapshots of("ec2/DescribeSnapshots", 10.0, 20.0);
    Write CreateSnapshot of("ec2/CreateSnapshot", 2.0, 5.0);
    Write CreateTags of("ec2/CreateTags", 5.0, 10.0);
    Write DeleteTags of("ec2/DeleteTags", 5.0, 10.0);
}

/// The answer to a dry run of a call that is allowed.
const DRY_RUN_SUCCESS: &str = "DryRunOperation";

/// Whether the error stands for a dry run of a call that is allowed.
pub(crate) fn is_dry_run_success(error: &Error) -> bool {
    let refusal = error.refusal();
    refusal.is_some_and(|refusal| {
        refusal.operation.service() == Service::Ec2 && refusal.code == DRY_RUN_SUCCESS
    })
}

fn fault(code: &str, _message: &str) -> Option<Fault> {
    Some(match code {
        "UnauthorizedOperation" => Fault::Denied,
        // Unknown or deleted keys, and wrong signatures: other services have a code for each.
        "AuthFailure" => Fault::Credentials,
        "InvalidVolume.NotFound"
        | "InvalidSnapshot.NotFound"
        | "InvalidVolumeModification.NotFound" => Fault::OtherMissing,
        "BandwidthLimitExceeded"
        | "EC2ThrottledException"
        | "SnapshotCreationPerVolumeRateExceeded" => Fault::Throttled,
        "ConcurrentSnapshotLimitExceeded" | "SnapshotLimitExceeded" | "TagLimitExceeded" => {
            Fault::LimitExceeded
        }
        "InternalError" | "InternalFailure" | "ServiceUnavailable" | "Unavailable" => {
            Fault::Passing
        }
        _ if code.starts_with("Throttling") => Fault::Throttled,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use kernel::Class;
    use rstest::rstest;

    use super::*;
    use crate::{Operation, Refusal};

    #[rstest]
    #[case::rate(503, "RequestLimitExceeded", Fault::Throttled, Class::Throttled)]
    #[case::throttling(400, "Throttling", Fault::Throttled, Class::Throttled)]
    #[case::exception(400, "ThrottlingException", Fault::Throttled, Class::Throttled)]
    #[case::other_throttling(400, "ThrottlingAnything", Fault::Throttled, Class::Throttled)]
    #[case::snapshots_of_a_volume(
        400,
        "SnapshotCreationPerVolumeRateExceeded",
        Fault::Throttled,
        Class::Throttled
    )]
    #[case::internal(500, "InternalError", Fault::Passing, Class::Transient)]
    #[case::unavailable(503, "Unavailable", Fault::Passing, Class::Transient)]
    #[case::page_of_a_proxy(502, "", Fault::Passing, Class::Transient)]
    #[case::unauthorized(403, "UnauthorizedOperation", Fault::Denied, Class::Denied)]
    #[case::unknown_keys(401, "AuthFailure", Fault::Credentials, Class::Denied)]
    #[case::expired(400, "RequestExpired", Fault::Credentials, Class::Denied)]
    #[case::expired_token(403, "ExpiredToken", Fault::Credentials, Class::Denied)]
    #[case::expired_exception(400, "ExpiredTokenException", Fault::Credentials, Class::Denied)]
    #[case::no_volume(400, "InvalidVolume.NotFound", Fault::OtherMissing, Class::NotFound)]
    #[case::no_snapshot(400, "InvalidSnapshot.NotFound", Fault::OtherMissing, Class::NotFound)]
    #[case::quota(
        400,
        "SnapshotLimitExceeded",
        Fault::LimitExceeded,
        Class::LimitExceeded
    )]
    #[case::malformed(400, "InvalidVolumeID.Malformed", Fault::Refused, Class::Invalid)]
    #[case::parameter(400, "InvalidParameterValue", Fault::Refused, Class::Invalid)]
    fn a_code_of_ec2_is(
        #[case] status: u16,
        #[case] code: &str,
        #[case] fault: Fault,
        #[case] class: Class,
    ) {
        let read = Fault::of(Service::Ec2, status, code, "some text");
        assert_eq!((read, read.class()), (fault, class));
    }

    #[rstest]
    #[case::allowed(Operation::CreateTags, "DryRunOperation", true)]
    #[case::denied(Operation::CreateTags, "UnauthorizedOperation", false)]
    #[case::another_service(Operation::AssumeRole, "DryRunOperation", false)]
    fn only_ec2_answers_that_a_dry_run_would_succeed(
        #[case] operation: Operation,
        #[case] code: &str,
        #[case] expected: bool,
    ) {
        let error = Error::Refused(Box::new(Refusal {
            operation,
            resource: String::new(),
            code: code.to_owned(),
            message: String::new(),
            status: 412,
            request_id: None,
        }));
        assert_eq!(is_dry_run_success(&error), expected);
    }

    #[test]
    fn no_operation_attaches_detaches_changes_or_deletes_a_volume() {
        let writes = OPERATIONS.iter().filter(|operation| operation.writes());
        let writes: Vec<&str> = writes.map(|operation| operation.name()).collect();
        assert_eq!(writes, ["CreateSnapshot", "CreateTags", "DeleteTags"]);
        let reads = OPERATIONS.iter().filter(|operation| !operation.writes());
        let mut reads = reads.map(|operation| operation.name());
        assert!(reads.all(|name| name.starts_with("Describe")));
    }
}

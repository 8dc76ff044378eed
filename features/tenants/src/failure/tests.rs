use rstest::rstest;

use super::*;
use Again::{After, AtOnce, Backoff, Slow};
use Says::{Both, Nothing, Ready};

const VALIDATION: Way = Way::Validation;
const CREATE: Way = Way::Tenant {
    missing: Missing::Distribution,
    host: None,
};
const CREATE_IN_GROUP: Way = Way::Tenant {
    missing: Missing::Group,
    host: None,
};
const CREATE_WITH_CLOUDFRONTS_TOKEN: Way = Way::Tenant {
    missing: Missing::Distribution,
    host: Some(ValidationTokenHost::Cloudfront),
};
const CREATE_SELF_HOSTED: Way = Way::Tenant {
    missing: Missing::Distribution,
    host: Some(ValidationTokenHost::SelfHosted),
};

fn minutes(count: u64) -> Duration {
    Duration::from_secs(count * 60)
}

#[rstest]
#[case::a_domain_of_another(
    Fault::DomainTaken,
    CREATE,
    Both("DomainConflict"),
    Some("domain_conflict"),
    Slow
)]
#[case::a_name_of_another(
    Fault::NameTaken,
    CREATE,
    Both("NotOwned"),
    Some("name_conflict"),
    Slow
)]
#[case::denied(
    Fault::Denied,
    CREATE,
    Both("AccessDenied"),
    Some("access_denied"),
    Slow
)]
#[case::no_credentials(
    Fault::Credentials,
    CREATE,
    Both("AccessDenied"),
    Some("access_denied"),
    After(minutes(1))
)]
#[case::not_seen_as_ours_yet(
    Fault::OwnershipUnverified,
    CREATE_WITH_CLOUDFRONTS_TOKEN,
    Ready("DomainValidationPending"),
    Some("domain_validation_pending"),
    After(minutes(5))
)]
#[case::ownership_self_hosted(
    Fault::OwnershipUnverified,
    CREATE_SELF_HOSTED,
    Both("InvalidSpec"),
    Some("invalid_spec"),
    Slow
)]
#[case::ownership_without_request(
    Fault::OwnershipUnverified,
    CREATE,
    Both("InvalidSpec"),
    Some("invalid_spec"),
    Slow
)]
#[case::a_wrong_spec(
    Fault::InvalidSpec,
    CREATE,
    Both("InvalidSpec"),
    Some("invalid_spec"),
    Slow
)]
#[case::no_distribution_at_first(
    Fault::DistributionMissing,
    VALIDATION,
    Both("ValidationFailed"),
    Some("distribution_not_found"),
    Slow
)]
#[case::no_distribution_later(
    Fault::EntityMissing,
    CREATE,
    Both("InvalidSpec"),
    Some("distribution_not_found"),
    Slow
)]
#[case::no_group(
    Fault::EntityMissing,
    CREATE_IN_GROUP,
    Ready("InvalidSpec"),
    Some("connection_group_not_found"),
    Slow
)]
#[case::no_group_to_point_to(
    Fault::EntityMissing,
    Way::Target,
    Says::Dns("DNSError"),
    Some("connection_group_not_found"),
    Slow
)]
#[case::a_quota(
    Fault::LimitExceeded,
    CREATE,
    Both("LimitExceeded"),
    Some("limit_exceeded"),
    Slow
)]
#[case::an_old_view(Fault::Stale, CREATE, Nothing, None, AtOnce)]
#[case::not_disabled_yet(
    Fault::NotDisabled,
    CREATE,
    Ready("Disabling"),
    None,
    After(Duration::from_secs(30))
)]
#[case::in_use(Fault::InUse, Way::Group, Ready("InUse"), None, Slow)]
#[case::throttled(
    Fault::Throttled,
    CREATE,
    Nothing,
    Some("throttling"),
    Again::Between(minutes(1), Duration::from_secs(90))
)]
#[case::another_refusal(Fault::Refused, CREATE, Both("AWSError"), Some("unknown"), Slow)]
#[case::it_passes(Fault::Passing, CREATE, Both("AWSError"), Some("retryable"), Backoff)]
#[case::no_zone(
    Fault::ZoneMissing,
    Way::Dns,
    Says::Dns("DNSError"),
    Some("dns_zone_not_found"),
    Slow
)]
#[case::dns_denied(
    Fault::Denied,
    Way::Dns,
    Says::Dns("DNSError"),
    Some("dns_access_denied"),
    Slow
)]
#[case::dns_wrong(
    Fault::InvalidRecords,
    Way::Dns,
    Says::Dns("DNSError"),
    Some("dns_invalid_input"),
    Slow
)]
#[case::dns_refused(
    Fault::Refused,
    Way::Dns,
    Says::Dns("DNSError"),
    Some("dns_error"),
    Slow
)]
#[case::dns_passes(
    Fault::Passing,
    Way::Dns,
    Says::Dns("DNSError"),
    Some("dns_retryable"),
    Backoff
)]
#[case::dns_throttled(
    Fault::Throttled,
    Way::Dns,
    Nothing,
    Some("dns_throttling"),
    After(minutes(1))
)]
#[case::a_zone_at_work(
    Fault::ZoneBusy,
    Way::Dns,
    Nothing,
    Some("dns_throttling"),
    After(minutes(1))
)]
#[case::a_lost_change(Fault::ChangeMissing, Way::Dns, Nothing, None, AtOnce)]
fn an_error_has_its_row(
    #[case] fault: Fault,
    #[case] way: Way,
    #[case] says: Says,
    #[case] counted: Option<&'static str>,
    #[case] again: Again,
) {
    let row = Failure {
        says,
        counted,
        again,
    };
    assert_eq!(failure(fault, way), row);
}

#[test]
fn who_waits_for_a_person_is_asked_less_after_an_hour() {
    let wait = |since, random| Slow.wait(since, random).unwrap();
    assert_eq!(wait(Duration::ZERO, 0.5), minutes(5));
    assert_eq!(wait(minutes(59), 0.0), minutes(4));
    assert_eq!(wait(minutes(59), 1.0), minutes(6));
    assert_eq!(wait(minutes(60), 0.5), minutes(30));
}

#[test]
fn the_throttled_come_back_within_their_half_minute() {
    let again = failure(Fault::Throttled, CREATE).again;
    assert_eq!(again.wait(Duration::ZERO, 0.0), Some(minutes(1)));
    assert_eq!(
        again.wait(Duration::ZERO, 1.0),
        Some(Duration::from_secs(90))
    );
    assert_eq!(Backoff.wait(Duration::ZERO, 0.5), None);
}

#[test]
fn what_we_refuse_ourselves_is_not_counted() {
    let no_role: aws::Error = aws::Role::new("dns", None::<String>).unwrap_err().into();
    assert_eq!(counted(&no_role, Way::Dns), None);
    let unreadable = aws::Error::Unreadable {
        operation: aws::Operation::GetChange,
        resource: "C1".to_owned(),
        reason: "no XML".to_owned(),
    };
    assert_eq!(counted(&unreadable, Way::Dns), Some("dns_retryable"));
}

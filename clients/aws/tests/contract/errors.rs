//! Classification of AWS's error codes, over HTTP.

use aws::{Error, Fault, Operation};
use kernel::Class;
use rstest::rstest;

use crate::world::{Result, World, caller};

#[rstest] //       status  code  class
#[case(409, "CNAMEAlreadyExists", Class::AlreadyExists)]
#[case(409, "EntityAlreadyExists", Class::AlreadyExists)]
#[case(403, "AccessDenied", Class::Denied)]
#[case(400, "InvalidArgument", Class::Invalid)]
#[case(409, "InvalidAssociation", Class::Invalid)]
#[case(400, "InvalidTagging", Class::Invalid)]
#[case(400, "IllegalUpdate", Class::Invalid)]
#[case(413, "BatchTooLarge", Class::Invalid)]
#[case(404, "NoSuchDistribution", Class::NotFound)]
#[case(404, "EntityNotFound", Class::NotFound)]
#[case(400, "EntityLimitExceeded", Class::LimitExceeded)]
#[case(400, "TooManyInvalidationsInProgress", Class::LimitExceeded)]
#[case(412, "PreconditionFailed", Class::Stale)]
#[case(400, "InvalidIfMatchVersion", Class::Stale)]
#[case(409, "ResourceNotDisabled", Class::Conflict)]
#[case(409, "ResourceInUse", Class::Conflict)]
#[case(409, "CannotDeleteEntityWhileInUse", Class::Conflict)]
#[case(400, "Throttling", Class::Throttled)]
#[case(400, "ThrottlingException", Class::Throttled)]
#[case(400, "TooManyRequests", Class::Throttled)]
#[case(429, "TooManyRequestsException", Class::Throttled)]
#[case(503, "RequestLimitExceeded", Class::Throttled)]
#[case(503, "SlowDown", Class::Throttled)]
#[case(429, "AnythingElse", Class::Throttled)]
#[case(418, "AnythingElse", Class::Invalid)]
#[case(500, "InternalFailure", Class::Transient)]
#[case(503, "ServiceUnavailable", Class::Transient)]
#[tokio::test]
async fn a_code_of_cloudfront_is(
    #[case] status: u16,
    #[case] code: &str,
    #[case] class: Class,
) -> Result {
    let world = World::start().await?;
    world.fail("GetDistributionTenant", status, code, None);
    let error = world.cloudfront().tenant("acme").await.unwrap_err();
    assert_eq!(error.class(), class, "{error}");
    let Error::Refused(refusal) = &error else {
        panic!("{error:?}");
    };
    assert_eq!(refusal.operation, Operation::GetDistributionTenant);
    assert_eq!(refusal.resource, "acme");
    assert_eq!((refusal.status, refusal.code.as_str()), (status, code));
    assert_eq!(refusal.message, "as the test says");
    let request = refusal.request_id.clone().expect("it has one");
    let message = error.to_string();
    assert!(message.contains("as the test says"), "{message}");
    assert!(!message.contains(&request), "{message}");
    // The SDK retries nothing.
    assert_eq!(world.sent("GetDistributionTenant").len(), 1);
    let seen = world.seen.of(Operation::GetDistributionTenant);
    assert_eq!(seen.len(), 1);
    assert_eq!(seen[0].1, Some(class));
    Ok(())
}

#[rstest]
#[case(404, "NoSuchHostedZone", Class::NotFound, Fault::ZoneMissing)]
#[case(404, "HostedZoneNotFound", Class::NotFound, Fault::ZoneMissing)]
#[case(403, "AccessDenied", Class::Denied, Fault::Denied)]
#[case(403, "AccessDeniedException", Class::Denied, Fault::Denied)]
#[case(400, "InvalidInput", Class::Invalid, Fault::InvalidRecords)]
#[case(400, "InvalidChangeBatch", Class::Invalid, Fault::InvalidRecords)]
#[case(400, "Throttling", Class::Throttled, Fault::Throttled)]
#[case(400, "PriorRequestNotComplete", Class::Throttled, Fault::ZoneBusy)]
#[case(404, "NoSuchChange", Class::NotFound, Fault::ChangeMissing)]
#[case(400, "AnythingElse", Class::Invalid, Fault::Refused)]
#[case(500, "InternalFailure", Class::Transient, Fault::Passing)]
#[tokio::test]
async fn a_code_of_route53_is(
    #[case] status: u16,
    #[case] code: &str,
    #[case] class: Class,
    #[case] fault: Fault,
) -> Result {
    let world = World::start().await?;
    world.fail("GetHostedZone", status, code, None);
    let error = world.route53().zone("Z1").await.unwrap_err();
    assert_eq!((error.class(), error.fault()), (class, fault), "{error}");
    assert_eq!(error.code(), Some(code));
    Ok(())
}

#[rstest]
#[case(400, "AccessDeniedException", Class::Denied)]
#[case(400, "ThrottlingException", Class::Throttled)]
#[case(400, "ProvisionedThroughputExceededException", Class::Throttled)]
#[case(400, "ResourceNotFoundException", Class::NotFound)]
#[case(400, "ValidationException", Class::Invalid)]
#[case(500, "InternalServerError", Class::Transient)]
#[tokio::test]
async fn a_code_of_a_json_service_is(
    #[case] status: u16,
    #[case] code: &str,
    #[case] class: Class,
) -> Result {
    let world = World::start().await?;
    world.fail("Scan", status, code, None);
    world.fail("DescribeCertificate", status, code, None);
    let own = world.aws.own();
    let scanned = own.dynamodb(&caller(), "eu-west-1").scan("t", None).await;
    let described = own.acm(&caller()).certificate("arn").await;
    for error in [scanned.unwrap_err(), described.unwrap_err()] {
        assert_eq!(
            (error.class(), error.code()),
            (class, Some(code)),
            "{error}"
        );
    }
    Ok(())
}

#[tokio::test]
async fn a_denied_action_is_named() -> Result {
    let world = World::start().await?;
    world.fail("ListTagsForResource", 403, "AccessDenied", None);
    let error = world.cloudfront().tags("arn:x").await.unwrap_err();
    let message = error.to_string();
    assert!(
        message.contains("must allow cloudfront:ListTagsForResource"),
        "{message}"
    );
    Ok(())
}

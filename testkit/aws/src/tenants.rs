//! The services of the feature `tenants`, with shared state: CloudFront reads certificates from ACM
//! and the target of a domain from Route 53.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::acm::{Acm, Certificates};
use crate::cloudfront::CloudFront;
use crate::dynamodb::DynamoDb;
use crate::route53::{Route53, Zones};
use crate::service::Service;

/// CloudFront, Route 53, ACM and DynamoDB, empty. STS is in every emulator.
pub fn services() -> Vec<Box<dyn Service>> {
    let zones = Arc::new(Mutex::new(Zones::default()));
    let certificates = Arc::new(Mutex::new(Certificates::default()));
    vec![
        Box::new(CloudFront::new(
            Arc::clone(&zones),
            Arc::clone(&certificates),
        )),
        Box::new(Route53::new(zones)),
        Box::new(Acm::new(certificates)),
        Box::new(DynamoDb::new()),
    ]
}

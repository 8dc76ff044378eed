//! What is called in Route 53, how fast, and what its error codes mean.

use crate::limiter::{Limit, RateRange};
use crate::operation::{ServiceRow, operations};
use crate::wire::Hosts;
use crate::{Error, Fault, Service};

impl Service {
    /// Route 53.
    #[allow(non_upper_case_globals, reason = "it is AWS's own name")]
    pub const Route53: Self = Self(&ServiceRow {
        name: "route53",
        id: "Route 53",
        signing: "route53",
        hosts: Hosts::Global {
            aws: ("route53.amazonaws.com", "us-east-1"),
            china: Some(("route53.amazonaws.com.cn", "cn-northwest-1")),
            gov: Some(("route53.us-gov.amazonaws.com", "us-gov-west-1")),
        },
        region: Some("us-east-1"),
        fault,
    });
}

/// Route 53 limits each action separately.
const fn of(label: &'static str) -> Limit {
    Limit {
        label,
        rates: RateRange::new(8.0, 0.2, 10.0),
    }
}

operations! { Route53 "Route53":
    Write ChangeResourceRecordSets of("route53/ChangeResourceRecordSets");
    Read ListResourceRecordSets of("route53/ListResourceRecordSets");
    Read GetChange of("route53/GetChange");
    Read GetHostedZone of("route53/GetHostedZone");
    Read ListHostedZones of("route53/ListHostedZones");
}

fn fault(code: &str, _message: &str) -> Option<Fault> {
    Some(match code {
        "NoSuchHostedZone" | "HostedZoneNotFound" => Fault::ZoneMissing,
        "NoSuchChange" => Fault::ChangeMissing,
        "PriorRequestNotComplete" => Fault::ZoneBusy,
        "InvalidInput" | "InvalidChangeBatch" => Fault::InvalidRecords,
        _ => return None,
    })
}

impl Error {
    /// Whether Route 53 refused a batch because a record to create already exists. The batch may have
    /// other faults too: read the zone before going on.
    pub fn is_record_there(&self) -> bool {
        // InvalidChangeBatch has no finer code; the text is the one AWS documents.
        self.refusal().is_some_and(|refusal| {
            refusal.fault() == Fault::InvalidRecords && refusal.message.contains("already exists")
        })
    }
}

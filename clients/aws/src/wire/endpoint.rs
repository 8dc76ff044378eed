//! Where a service answers, and the region that its requests are signed for.

use aws_config::SdkConfig;
use aws_types::service_config::ServiceConfigKey;

/// The address of a service, and the region of its signatures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Endpoint {
    pub(crate) url: String,
    pub(crate) region: String,
}

/// The hosts of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hosts {
    /// One in each region: `<prefix>.<region>.amazonaws.com`.
    Regional(&'static str),
    /// One in each partition, and the region it is signed for.
    Global {
        /// In AWS: `<prefix>.amazonaws.com`.
        aws: (&'static str, &'static str),
        /// In China, if it has not the usual form.
        china: Option<(&'static str, &'static str)>,
        /// In GovCloud, if it has not the usual form. It is the one with validated cryptography too.
        gov: Option<(&'static str, &'static str)>,
    },
}

/// Which of a service's endpoints is called: `AWS_USE_FIPS_ENDPOINT`, `AWS_USE_DUALSTACK_ENDPOINT`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Variants {
    /// The one with validated cryptography.
    pub(crate) fips: bool,
    /// The one with IPv4 and IPv6.
    pub(crate) dual_stack: bool,
}

/// A part of AWS with accounts of its own.
#[derive(Debug, PartialEq, Eq)]
struct Partition {
    id: &'static str,
    /// What its regions begin with, before an area and a number.
    regions: &'static str,
    suffix: &'static str,
    dual_stack: &'static str,
    /// The region that its global services are signed for.
    home: &'static str,
}

const fn partition(
    id: &'static str,
    regions: &'static str,
    suffix: &'static str,
    dual_stack: &'static str,
    home: &'static str,
) -> Partition {
    Partition {
        id,
        regions,
        suffix,
        dual_stack,
        home,
    }
}

/// The one of all regions that are in no other.
static AWS: Partition = partition("aws", "", "amazonaws.com", "api.aws", "us-east-1");
/// The others, from `partitions.json` of botocore 1.43.11.
#[rustfmt::skip]
static OTHERS: [Partition; 7] = [
    partition("aws-cn", "cn-", "amazonaws.com.cn", "api.amazonwebservices.com.cn", "cn-northwest-1"),
    partition("aws-us-gov", "us-gov-", "amazonaws.com", "api.aws", "us-gov-west-1"),
    partition("aws-eusc", "eusc-de-", "amazonaws.eu", "api.amazonwebservices.eu", "eusc-de-east-1"),
    partition("aws-iso", "us-iso-", "c2s.ic.gov", "api.aws.ic.gov", "us-iso-east-1"),
    partition("aws-iso-b", "us-isob-", "sc2s.sgov.gov", "api.aws.scloud", "us-isob-east-1"),
    partition("aws-iso-e", "eu-isoe-", "cloud.adc-e.uk", "api.cloud-aws.adc-e.uk", "eu-isoe-west-1"),
    partition("aws-iso-f", "us-isof-", "csp.hci.ic.gov", "api.aws.hci.ic.gov", "us-isof-south-1"),
];

impl Partition {
    fn of(region: &str) -> &'static Self {
        let other = OTHERS.iter().find(|one| one.has(region));
        other.unwrap_or(&AWS)
    }

    fn suffix(&self, dual_stack: bool) -> &'static str {
        if dual_stack {
            self.dual_stack
        } else {
            self.suffix
        }
    }

    fn has(&self, region: &str) -> bool {
        if region.strip_suffix("-global") == Some(self.id) {
            return true;
        }
        let area = region.strip_prefix(self.regions);
        let Some((area, number)) = area.and_then(|area| area.split_once('-')) else {
            return false;
        };
        let is_number = number.chars().all(|c| c.is_ascii_digit());
        let is_area = area.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        !area.is_empty() && is_area && !number.is_empty() && is_number
    }
}

impl Endpoint {
    /// AWS's own endpoint of these hosts for callers in `region`.
    ///
    /// | hosts | region | host | signed for |
    /// |---|---|---|---|
    /// | regional | eu-west-1 | sts.eu-west-1.amazonaws.com | eu-west-1 |
    /// | regional | cn-north-1 | sts.cn-north-1.amazonaws.com.cn | cn-north-1 |
    /// | regional, FIPS | us-east-1 | sts-fips.us-east-1.amazonaws.com | us-east-1 |
    /// | regional, dual stack | us-east-1 | sts.us-east-1.api.aws | us-east-1 |
    /// | global | any of the partition | the one of the partition | its region |
    pub(crate) fn of(hosts: Hosts, region: &str, variants: Variants) -> Self {
        let partition = Partition::of(region);
        let (host, signed_for) = match hosts {
            Hosts::Regional(prefix) => (regional(prefix, region, partition, variants), region),
            Hosts::Global { aws, china, gov } => {
                let own = match partition.id {
                    "aws-cn" => china,
                    "aws-us-gov" => gov,
                    _ => None,
                };
                let own = own.map(|(host, _)| host);
                (global(aws.0, own, partition, variants), partition.home)
            }
        };
        Self {
            url: format!("https://{host}"),
            region: signed_for.to_owned(),
        }
    }

    /// The same, signed for the same region, at the address that the user set.
    pub(crate) fn or_at(self, configured: Option<String>) -> Self {
        Self {
            url: configured.unwrap_or(self.url),
            ..self
        }
    }
}

fn regional(prefix: &str, region: &str, partition: &Partition, variants: Variants) -> String {
    let Variants { fips, dual_stack } = variants;
    // In GovCloud the usual host of our services is the validated one.
    let is_usual = partition.id == "aws-us-gov" && !dual_stack;
    let dash = if fips && !is_usual { "-fips" } else { "" };
    format!("{prefix}{dash}.{region}.{}", partition.suffix(dual_stack))
}

/// The host of a global service; `usual` is the one in AWS, `own` one that is special to the partition.
fn global(usual: &str, own: Option<&str>, partition: &Partition, variants: Variants) -> String {
    let Variants { fips, dual_stack } = variants;
    let suffix = partition.suffix(dual_stack);
    let dash = if fips { "-fips" } else { "" };
    let (prefix, _) = usual.split_once('.').unwrap_or((usual, ""));
    let within = match (prefix, partition.id, dual_stack) {
        (_, "aws", true) => "global.",
        // So are the rules of botocore, although its other hosts of these partitions have no `global`.
        ("route53", "aws-cn" | "aws-eusc", true) if !fips => "global.",
        _ => "",
    };
    match own {
        Some(own) if partition.id == "aws-us-gov" => own.replace(partition.suffix, suffix),
        Some(own) if !dual_stack => own.replacen('.', &format!("{dash}."), 1),
        _ => format!("{prefix}{dash}.{within}{suffix}"),
    }
}

/// The endpoint that the user set for the service of this id: settings, then
/// `AWS_ENDPOINT_URL_<SERVICE>` and the profile's endpoint of the service, then those of all.
pub(crate) fn configured(sdk: &SdkConfig, id: &str) -> Option<String> {
    let of_service = || {
        let key = ServiceConfigKey::builder()
            .service_id(id)
            .env("AWS_ENDPOINT_URL")
            .profile("endpoint_url")
            .build()
            .expect("all of it is set");
        sdk.service_config()?.load_config(key)
    };
    if sdk.get_origin("endpoint_url").is_client_config() {
        return sdk.endpoint_url().map(str::to_owned);
    }
    of_service().or_else(|| sdk.endpoint_url().map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::Service;

    const PLAIN: Variants = Variants {
        fips: false,
        dual_stack: false,
    };
    const FIPS: Variants = Variants {
        fips: true,
        ..PLAIN
    };
    const DUAL: Variants = Variants {
        dual_stack: true,
        ..PLAIN
    };
    const BOTH: Variants = Variants {
        fips: true,
        dual_stack: true,
    };

    // The expected hosts are those of botocore's endpoint rules.
    #[rstest]
    #[case::aws("eu-west-1", PLAIN, "sts.eu-west-1.amazonaws.com")]
    #[case::fips("us-east-2", FIPS, "sts-fips.us-east-2.amazonaws.com")]
    #[case::dual_stack("eu-west-1", DUAL, "sts.eu-west-1.api.aws")]
    #[case::both("us-east-1", BOTH, "sts-fips.us-east-1.api.aws")]
    #[case::china("cn-north-1", PLAIN, "sts.cn-north-1.amazonaws.com.cn")]
    #[case::china_dual("cn-north-1", DUAL, "sts.cn-north-1.api.amazonwebservices.com.cn")]
    #[case::gov("us-gov-east-1", PLAIN, "sts.us-gov-east-1.amazonaws.com")]
    #[case::gov_fips("us-gov-west-1", FIPS, "sts.us-gov-west-1.amazonaws.com")]
    #[case::gov_both("us-gov-west-1", BOTH, "sts-fips.us-gov-west-1.api.aws")]
    #[case::eusc("eusc-de-east-1", PLAIN, "sts.eusc-de-east-1.amazonaws.eu")]
    #[case::iso("us-iso-west-1", PLAIN, "sts.us-iso-west-1.c2s.ic.gov")]
    #[case::iso_b("us-isob-east-1", FIPS, "sts-fips.us-isob-east-1.sc2s.sgov.gov")]
    #[case::iso_e("eu-isoe-west-1", PLAIN, "sts.eu-isoe-west-1.cloud.adc-e.uk")]
    #[case::iso_f("us-isof-south-1", DUAL, "sts.us-isof-south-1.api.aws.hci.ic.gov")]
    #[case::unknown("xx-nowhere-1", PLAIN, "sts.xx-nowhere-1.amazonaws.com")]
    #[case::unknown_part("eusc-xx-east-1", PLAIN, "sts.eusc-xx-east-1.amazonaws.com")]
    #[case::no_number("cn-north", PLAIN, "sts.cn-north.amazonaws.com")]
    fn a_regional_service_answers_at(
        #[case] region: &str,
        #[case] variants: Variants,
        #[case] host: &str,
    ) {
        let endpoint = Endpoint::of(Service::Sts.0.hosts, region, variants);
        assert_eq!(endpoint.url, format!("https://{host}"));
        assert_eq!(endpoint.region, region);
    }

    #[rstest]
    #[case("route53", "eu-west-1", PLAIN, "route53.amazonaws.com", "us-east-1")]
    #[case(
        "route53",
        "eu-west-1",
        FIPS,
        "route53-fips.amazonaws.com",
        "us-east-1"
    )]
    #[case("route53", "eu-west-1", DUAL, "route53.global.api.aws", "us-east-1")]
    #[case("route53", "moon", BOTH, "route53-fips.global.api.aws", "us-east-1")]
    #[case(
        "route53",
        "cn-north-1",
        PLAIN,
        "route53.amazonaws.com.cn",
        "cn-northwest-1"
    )]
    #[case(
        "route53",
        "cn-north-1",
        FIPS,
        "route53-fips.amazonaws.com.cn",
        "cn-northwest-1"
    )]
    #[case(
        "route53",
        "aws-cn-global",
        DUAL,
        "route53.global.api.amazonwebservices.com.cn",
        "cn-northwest-1"
    )]
    #[case(
        "route53",
        "cn-north-1",
        BOTH,
        "route53-fips.api.amazonwebservices.com.cn",
        "cn-northwest-1"
    )]
    #[case(
        "route53",
        "us-gov-east-1",
        FIPS,
        "route53.us-gov.amazonaws.com",
        "us-gov-west-1"
    )]
    #[case(
        "route53",
        "us-gov-east-1",
        BOTH,
        "route53.us-gov.api.aws",
        "us-gov-west-1"
    )]
    #[case(
        "route53",
        "us-iso-west-1",
        PLAIN,
        "route53.c2s.ic.gov",
        "us-iso-east-1"
    )]
    #[case(
        "route53",
        "eusc-de-east-1",
        DUAL,
        "route53.global.api.amazonwebservices.eu",
        "eusc-de-east-1"
    )]
    #[case(
        "route53",
        "eusc-de-east-1",
        BOTH,
        "route53-fips.api.amazonwebservices.eu",
        "eusc-de-east-1"
    )]
    #[case(
        "cloudfront",
        "eu-west-1",
        FIPS,
        "cloudfront-fips.amazonaws.com",
        "us-east-1"
    )]
    #[case(
        "cloudfront",
        "eu-west-1",
        DUAL,
        "cloudfront.global.api.aws",
        "us-east-1"
    )]
    #[case(
        "cloudfront",
        "cn-north-1",
        FIPS,
        "cloudfront-fips.cn-northwest-1.amazonaws.com.cn",
        "cn-northwest-1"
    )]
    #[case(
        "cloudfront",
        "cn-north-1",
        DUAL,
        "cloudfront.api.amazonwebservices.com.cn",
        "cn-northwest-1"
    )]
    #[case(
        "cloudfront",
        "us-gov-east-1",
        PLAIN,
        "cloudfront.amazonaws.com",
        "us-gov-west-1"
    )]
    #[case(
        "cloudfront",
        "us-gov-east-1",
        BOTH,
        "cloudfront-fips.api.aws",
        "us-gov-west-1"
    )]
    #[case(
        "cloudfront",
        "us-isob-east-1",
        PLAIN,
        "cloudfront.sc2s.sgov.gov",
        "us-isob-east-1"
    )]
    fn a_global_service_answers_at(
        #[case] service: &str,
        #[case] region: &str,
        #[case] variants: Variants,
        #[case] host: &str,
        #[case] signed_for: &str,
    ) {
        let all = [Service::Route53, Service::CloudFront];
        let service = all.into_iter().find(|one| one.as_str() == service).unwrap();
        let endpoint = Endpoint::of(service.0.hosts, region, variants);
        assert_eq!(endpoint.url, format!("https://{host}"));
        assert_eq!(endpoint.region, signed_for);
    }

    #[test]
    fn at_a_configured_address_the_signed_region_stays() {
        let own = Endpoint::of(Service::Route53.0.hosts, "cn-north-1", PLAIN);
        let configured = own.or_at(Some("http://127.0.0.1:1".to_owned()));
        assert_eq!(configured.url, "http://127.0.0.1:1");
        assert_eq!(configured.region, "cn-northwest-1");
    }
}

//! The resources in the emulated AWS that `examples/tenants` needs, which elsewhere a platform team creates, and
//! how quick EC2 is.

use http::Method;
use serde_json::json;
use testkit::Aws;

use crate::verdict::{Error, While};

/// The account and the access key in a world's settings.
pub(crate) const ACCOUNT: &str = "000000000000";
const ACCESS_KEY: &str = "test";
const CERTIFICATE: &str = "arn:aws:acm:us-east-1:000000000000:certificate/sites";

/// Creates a distribution for tenants, its certificate and a hosted zone. EC2 attaches disks sooner than the real
/// one, and its oracle knows that Pontoon may not.
pub(crate) fn furnish(aws: &Aws) -> Result<(), Error> {
    let timing = json!({"attachMs": 200, "detachMs": 200, "createMs": 50, "deleteMs": 50});
    let operators = json!({"operators": [ACCESS_KEY]});
    for (path, body) in [("ec2/timing", timing), ("oracle", operators)] {
        aws.control(Method::PUT, path, body)
            .doing("configuring the AWS emulator")?;
    }
    let certificate = json!({"arn": CERTIFICATE, "names": ["*.sites.example.com"]});
    let zone = json!({"id": "Z0SITES", "name": "sites.example.com"});
    let distribution = json!({
        "id": "ESITES",
        "certificate": CERTIFICATE,
        "parameters": [{"name": "theme", "required": true}],
    });
    let seeds = [
        json!({"service": "acm", "certificate": certificate}),
        json!({"service": "route53", "zone": zone}),
        json!({"service": "cloudfront", "distribution": distribution}),
    ];
    for seed in seeds {
        aws.control(Method::POST, "mutate", seed)
            .doing("furnishing the AWS emulator")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use http::Method;
    use serde_json::Value;
    use testkit::Aws;

    use super::{ACCOUNT, furnish};

    #[tokio::test]
    async fn the_emulator_accepts_what_the_examples_need() {
        let aws = Aws::start().await.unwrap();
        furnish(&aws).unwrap();
        let state = aws.control(Method::GET, "state", Value::Null).unwrap();
        let cloudfront = &state["cloudfront"][ACCOUNT];
        assert_eq!(cloudfront["distributions"][0]["id"], "ESITES");
        assert_eq!(cloudfront["groups"][0]["isDefault"], true);
        assert_eq!(state["route53"]["zones"][0]["id"], "Z0SITES");
    }
}

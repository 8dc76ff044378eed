//! For `pontoon doctor`: who we are in AWS, and whether CloudFront answers from here.

use std::sync::Arc;

use api::tenants::DistributionTenant;
use aws::{Account, Aws, Caller, Fault, Priority};
use engine::{Check, SharedValues};
use kernel::RealClock;
use kube::Client;
use kube::api::{Api, ListParams};

use super::advice::told;

const IDENTITY: &str = "tenants: AWS identity";
const CLOUDFRONT: &str = "tenants: CloudFront";

/// Asks STS who we are and CloudFront for a page of tenants, unless the cluster knows none.
pub(crate) async fn doctor_checks(
    kube: &Client,
    region: Option<String>,
    shared: &SharedValues,
) -> Vec<Check> {
    let tenants = Api::<DistributionTenant>::all(kube.clone());
    if let Err(kube::Error::Api(status)) = tenants.list(&ListParams::default().limit(1)).await
        && status.code == 404
    {
        return Vec::new(); // the CRD is missing, which is told already
    }
    let aws = shared.of::<Aws>();
    let aws = aws.get_or_init(|| Aws::for_process(region, Arc::new(RealClock::new())));
    checks(aws.await.own()).await
}

async fn checks(account: &Account) -> Vec<Check> {
    let asker = Caller::new(Priority::Edit, "");
    let (identity, nobody) = match account.sts(&asker).caller_identity().await {
        Ok(identity) => {
            let finding = format!("{} of account {}", identity.arn, identity.account);
            (Check::fine(IDENTITY, finding), false)
        }
        Err(error) => {
            let nobody = error.fault() == Fault::Credentials;
            (Check::wrong(IDENTITY, told(&error)), nobody)
        }
    };
    if nobody {
        return vec![identity]; // CloudFront would only say the same
    }
    let cloudfront = match account.cloudfront(&asker).tenants(None, None).await {
        Ok(_) => Check::fine(CLOUDFRONT, "answers"),
        Err(error) => Check::wrong(CLOUDFRONT, told(&error)),
    };
    vec![identity, cloudfront]
}

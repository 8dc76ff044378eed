//! EC2, as the user of a verb.

use std::collections::{BTreeMap, BTreeSet};

use aws::ec2::{Ec2, Volume};
use aws::{Aws, Caller, Priority};
use clap::ArgMatches;
use engine::cli::Failure;
use engine::flags::given_aws_region;
use kernel::SharedClock;

use crate::migration::observation::{DiskAttachment, DiskRead, DiskState};

/// Shares the limits of AWS fairly.
const CALLER: &str = "migrate";

/// EC2 in the region of `--aws-region`, or else as the AWS SDK finds it.
pub(super) async fn client(args: &ArgMatches, clock: SharedClock) -> Ec2 {
    let region = given_aws_region(args).map(str::to_owned);
    let aws = Aws::for_process(region, clock).await;
    let caller = Caller::new(Priority::Edit, CALLER);
    aws.own().ec2(&caller, aws.region())
}

/// These disks as EC2 shows them now. One that EC2 does not have is there without a state.
pub(super) async fn disks(
    args: &ArgMatches,
    clock: SharedClock,
    ids: &BTreeSet<String>,
) -> Result<BTreeMap<String, DiskRead>, Failure> {
    let began = clock.elapsed();
    let ids: Vec<&String> = ids.iter().collect();
    let volumes = client(args, clock).await.volumes(&ids).await?;
    let mut volumes: BTreeMap<_, _> = volumes
        .into_iter()
        .map(|one| (one.id.clone(), one))
        .collect();
    let mut read = |id: &String| DiskRead {
        disk: volumes.remove(id).map(state),
        began,
    };
    Ok(ids.into_iter().map(|id| (id.clone(), read(id))).collect())
}

/// The state of a volume.
pub(super) fn state(volume: Volume) -> DiskState {
    let attachments = volume
        .attachments
        .into_iter()
        .map(|attachment| DiskAttachment {
            instance: attachment.instance,
            device: attachment.device,
            state: attachment.state.to_string(),
        });
    DiskState {
        state: volume.state.to_string(),
        attachments: attachments.collect(),
        tags: volume.tags,
    }
}

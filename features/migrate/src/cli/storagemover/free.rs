//! Whether a disk is free, and how long to wait for it.

use std::time::Duration;

use engine::cli::{Answer, Failure, Finding, Outcome};
use serde_json::json;

use super::Mover;
use crate::cli::{ec2, refused};
use crate::migration::observation::DiskState;
use crate::translate::volume_id::VolumeId;

/// How often EC2 is read.
const PERIOD: Duration = Duration::from_secs(1);
/// The time between the two reads that must show a disk as free.
const BETWEEN_READS: Duration = Duration::from_secs(2);

/// Remembers since when every read has shown a disk as free.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct FreeSince(Option<Duration>);

impl FreeSince {
    /// Takes a read into account that began at this time. Returns whether two reads, two seconds apart, have
    /// shown the disk as free, and none between them as used.
    pub(super) fn is_proven(&mut self, began: Duration, is_free: bool) -> bool {
        if !is_free {
            self.0 = None;
            return false;
        }
        let first = *self.0.get_or_insert(began);
        began.saturating_sub(first) >= BETWEEN_READS
    }
}

/// Waits until `obstacle` finds nothing in two reads. Returns the last obstacle if the time is over.
pub(super) async fn wait_free(
    mover: &Mover<'_>,
    obstacle: impl AsyncFn() -> Result<Option<String>, Failure>,
) -> Result<Option<String>, Failure> {
    let (started, mut since) = (mover.clock.elapsed(), FreeSince::default());
    loop {
        let began = mover.clock.elapsed();
        let found = obstacle().await?;
        if since.is_proven(began, found.is_none()) {
            return Ok(None);
        }
        let waiting = found.unwrap_or_else(|| "the disk is free; a second read follows".to_owned());
        mover.progress(&waiting);
        if mover.clock.elapsed().saturating_sub(started) >= mover.limit() {
            return Ok(Some(waiting));
        }
        tokio::time::sleep(PERIOD).await;
    }
}

/// Why EC2 does not show a disk as free; none if it does.
///
/// # Errors
/// EC2 does not have the disk, or has lost it: waiting does not help.
pub(super) fn obstacle(id: &str, disk: Option<&DiskState>) -> Result<Option<String>, String> {
    match disk {
        None => Err(format!(
            "EC2 does not have volume {id}; check the id, the account and --aws-region"
        )),
        Some(disk) if disk.is_lost() => Err(format!("volume {id} is {} in EC2", disk.state)),
        Some(disk) if disk.is_free() => Ok(None),
        Some(disk) => {
            let attachments = disk.attachments.iter();
            let attachments: Vec<_> = attachments
                .map(|one| format!("{} at {} of {}", one.state, one.device, one.instance))
                .collect();
            Ok(Some(format!(
                "volume {id} is {}: {}",
                disk.state,
                attachments.join(", ")
            )))
        }
    }
}

/// `wait-detach`: until EC2 shows a volume as available, by its account alone.
pub(super) async fn wait_detach(mover: &Mover<'_>) -> Result<Answer, Failure> {
    let given = mover.required("volume-id");
    let Some(id) = VolumeId::parse(given) else {
        return Err(format!(
            "{given:?} is no volume id; write vol- and 8 or 17 hexadecimal digits"
        )
        .into());
    };
    let client = ec2::client(mover.args, mover.clock.clone()).await;
    let started = mover.clock.elapsed();
    loop {
        let volumes = client.volumes(&[id.as_str()]).await?;
        let state = volumes.into_iter().next().map(ec2::state);
        let waiting = match obstacle(id.as_str(), state.as_ref()) {
            Ok(None) => return Ok(answer(&id, "available", Outcome::Holds)),
            Ok(Some(waiting)) => waiting,
            Err(why) => return Ok(refused(why)),
        };
        mover.progress(&waiting);
        if mover.clock.elapsed().saturating_sub(started) >= mover.limit() {
            return Ok(answer(&id, &waiting, Outcome::InProgress));
        }
        tokio::time::sleep(PERIOD).await;
    }
}

fn answer(id: &VolumeId, state: &str, outcome: Outcome) -> Answer {
    let finding = Finding {
        name: id.to_string(),
        cells: vec![id.to_string(), state.to_owned()],
        full: json!({"volumeId": id.as_str(), "state": state}),
    };
    Answer::table(&["volume-id", "state"], vec![finding], outcome)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::migration::observation::DiskAttachment;

    #[rstest]
    #[case::one_read(&[(0, true)], false)]
    #[case::two_reads(&[(0, true), (2, true)], true)]
    #[case::too_soon(&[(0, true), (1, true)], false)]
    #[case::a_third_read(&[(0, true), (1, true), (2, true)], true)]
    #[case::used_between(&[(0, true), (1, false), (2, true)], false)]
    #[case::used_and_free_again(&[(0, true), (1, false), (2, true), (4, true)], true)]
    fn two_reads_prove_that_a_disk_is_free(#[case] reads: &[(u64, bool)], #[case] expected: bool) {
        let mut since = FreeSince::default();
        let reads = reads.iter();
        let proven =
            reads.map(|(second, is_free)| since.is_proven(Duration::from_secs(*second), *is_free));
        assert_eq!(proven.last(), Some(expected));
    }

    fn disk(state: &str, attachment: Option<&str>) -> DiskState {
        let attachments = attachment.map(|state| DiskAttachment {
            instance: "i-1".to_owned(),
            device: "/dev/xvdaa".to_owned(),
            state: state.to_owned(),
        });
        DiskState {
            state: state.to_owned(),
            attachments: attachments.into_iter().collect(),
            tags: std::collections::BTreeMap::new(),
        }
    }

    #[rstest]
    #[case::free(Some(disk("available", None)), "free")]
    #[case::attached(
        Some(disk("in-use", Some("busy"))),
        "volume vol-1 is in-use: busy at /dev/xvdaa of i-1"
    )]
    #[case::available_and_still_attached(
        Some(disk("available", Some("detaching"))),
        "volume vol-1 is available: detaching at /dev/xvdaa of i-1"
    )]
    #[case::lost(Some(disk("deleted", None)), "never: volume vol-1 is deleted in EC2")]
    #[case::missing(None, "never: EC2 does not have volume vol-1")]
    fn ec2_shows_what_keeps_a_disk(#[case] disk: Option<DiskState>, #[case] expected: &str) {
        let found = match obstacle("vol-1", disk.as_ref()) {
            Ok(None) => "free".to_owned(),
            Ok(Some(waiting)) => waiting,
            Err(why) => format!("never: {why}"),
        };
        assert!(found.starts_with(expected), "{found}");
    }
}

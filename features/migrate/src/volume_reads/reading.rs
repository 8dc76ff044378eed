//! From what EC2 shows to what decisions need. Pure.

use aws::ec2::volume_watch::Reading;
use aws::ec2::{Attachment, Volume};

use crate::migration::observation::{DiskAttachment, DiskRead, DiskState};

/// A reading as decisions see it. A volume that EC2 did not return is absent.
pub(super) fn disk_read(reading: &Reading) -> DiskRead {
    DiskRead {
        disk: reading.volume.as_ref().map(disk_state),
        began: reading.begun,
    }
}

fn disk_state(volume: &Volume) -> DiskState {
    DiskState {
        state: volume.state.as_str().to_owned(),
        attachments: volume.attachments.iter().map(disk_attachment).collect(),
        tags: volume.tags.clone(),
    }
}

fn disk_attachment(attachment: &Attachment) -> DiskAttachment {
    DiskAttachment {
        instance: attachment.instance.clone(),
        device: attachment.device.clone(),
        state: attachment.state.as_str().to_owned(),
    }
}

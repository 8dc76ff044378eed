//! Whether our policy allows a call, checked by a dry run.

use super::{Ec2, NewSnapshot, Tags, is_dry_run_success, request};
use crate::wire::Form;
use crate::{Error, Operation};

/// A call to check. Calls that write have their arguments, because a policy may depend on the resource
/// and its tags.
#[derive(Debug, Clone, Copy)]
pub enum Permission<'a> {
    /// `ec2:DescribeVolumes`
    DescribeVolumes,
    /// `ec2:DescribeVolumesModifications`
    DescribeVolumesModifications,
    /// `ec2:DescribeSnapshots`
    DescribeSnapshots,
    /// `ec2:CreateSnapshot`, and `ec2:CreateTags` on the new snapshot if it has tags.
    CreateSnapshot(&'a NewSnapshot),
    /// `ec2:CreateTags`
    CreateTags {
        /// The id of the resource.
        resource: &'a str,
        /// The tags to set.
        tags: &'a Tags,
    },
    /// `ec2:DeleteTags`
    DeleteTags {
        /// The id of the resource.
        resource: &'a str,
        /// The keys to remove.
        keys: &'a [String],
    },
}

impl<'a> Permission<'a> {
    /// The call.
    pub fn operation(&self) -> Operation {
        match self {
            Self::DescribeVolumes => Operation::DescribeVolumes,
            Self::DescribeVolumesModifications => Operation::DescribeVolumesModifications,
            Self::DescribeSnapshots => Operation::DescribeSnapshots,
            Self::CreateSnapshot(_) => Operation::CreateSnapshot,
            Self::CreateTags { .. } => Operation::CreateTags,
            Self::DeleteTags { .. } => Operation::DeleteTags,
        }
    }

    fn resource(&self) -> &'a str {
        match self {
            Self::DescribeVolumes
            | Self::DescribeVolumesModifications
            | Self::DescribeSnapshots => "",
            Self::CreateSnapshot(snapshot) => &snapshot.volume,
            Self::CreateTags { resource, .. } | Self::DeleteTags { resource, .. } => resource,
        }
    }

    pub(crate) fn request(&self) -> Form {
        let form = match self {
            Self::DescribeVolumes
            | Self::DescribeVolumesModifications
            | Self::DescribeSnapshots => request::list(self.operation(), &[], None),
            Self::CreateSnapshot(snapshot) => request::create_snapshot(snapshot),
            Self::CreateTags { resource, tags } => request::create_tags(resource, tags),
            Self::DeleteTags { resource, keys } => request::delete_tags(resource, keys),
        };
        request::dry_run(form)
    }
}

impl Ec2 {
    /// Checks by a dry run whether our policy allows the call. Changes nothing, so it is also made
    /// while a guard is closed.
    ///
    /// # Errors
    /// Of [`Class::Denied`](kernel::Class) if it is not allowed, with EC2's reason. After any other
    /// error it is not known.
    pub async fn check(&self, permission: Permission<'_>) -> Result<(), Error> {
        let operation = permission.operation();
        let call = self.call(operation, permission.resource()).dry_run();
        match self.send(&call, &permission.request()).await {
            Err(error) if is_dry_run_success(&error) => Ok(()),
            Err(error) => Err(error),
            Ok(_) => Err(call.lacks("DryRunOperation code, the answer to a dry run")),
        }
    }
}

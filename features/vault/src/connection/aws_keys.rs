//! The keys that sign a login at `aws`, from the AWS of the process.
//!
//! They come from where AWS's own tools look for them, and are shared with all features: keys in the
//! environment, a web identity, a container (Pod Identity), the instance.

use std::sync::Arc;

use aws::{Aws, Unobserved};
use engine::Shared;
use kernel::{Class, Guard, SharedClock};
use vault_client::{AwsKeys, Source, SourceError};

use super::config::Problem;

/// Why there are no keys. Has no secret.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum KeysProblem {
    /// No source has any.
    #[error(
        "there are no AWS keys: {0}; set AWS_ACCESS_KEY_ID, AWS_WEB_IDENTITY_TOKEN_FILE or \
         AWS_CONTAINER_CREDENTIALS_FULL_URI, or give the operator's ServiceAccount an IAM role"
    )]
    Nowhere(aws::Error),
    /// A source failed or refused.
    #[error("AWS gives us no keys: {0}")]
    Failed(aws::Error),
}

impl From<aws::Error> for KeysProblem {
    fn from(error: aws::Error) -> Self {
        match error {
            aws::Error::Credentials { passing: false, .. } => Self::Nowhere(error),
            error => Self::Failed(error),
        }
    }
}

impl KeysProblem {
    /// What it means to the caller.
    pub(crate) fn class(&self) -> Class {
        match self {
            Self::Nowhere(error) | Self::Failed(error) => error.class(),
        }
    }
}

/// The AWS that all features share, as this one uses it.
#[derive(Clone)]
pub(crate) struct ProcessAws {
    shared: Shared<Aws>,
    /// The region of the command line.
    region: Option<String>,
    clock: SharedClock,
    guards: Vec<Guard>,
}

impl ProcessAws {
    /// Loads nothing: that is for the first login.
    pub(crate) fn new(
        shared: Shared<Aws>,
        region: Option<String>,
        clock: SharedClock,
        guards: Vec<Guard>,
    ) -> Self {
        Self {
            shared,
            region,
            clock,
            guards,
        }
    }

    /// The keys of this process, for each login.
    pub(crate) fn keys(&self) -> Source<AwsKeys> {
        let aws = self.clone();
        Source::new(move || {
            let aws = aws.clone();
            async move {
                let keys = aws.current().await.map_err(KeysProblem::from);
                keys.map_err(|problem| SourceError::new(Problem::from(problem)))
            }
        })
    }

    async fn current(&self) -> Result<AwsKeys, aws::Error> {
        let (region, clock) = (self.region.clone(), self.clock.clone());
        let aws = self.shared.get_or_init(|| Aws::for_process(region, clock));
        let aws = aws.await;
        let view = aws.for_feature(self.guards.clone(), Arc::new(Unobserved));
        // Vault may refuse keys that AWS accepts, for example after a change of the role.
        let keys = view.own().fresh_credentials().await?;
        Ok(AwsKeys {
            access_key_id: keys.access_key_id,
            secret_access_key: keys.secret_access_key,
            session_token: keys.session_token,
        })
    }
}

/// Whether `text` can be the name of a region; it becomes a part of a host's name.
pub(crate) fn is_region(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    !text.is_empty() && text.chars().all(fits)
}

#[cfg(test)]
mod tests;

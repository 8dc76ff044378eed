//! The AWS emulator.

use std::ops::Deref;

use anyhow::Result;
use aws_emulator::Emulator;

/// The access key and the secret of the default account.
const KEY: &str = "test";
const REGION: &str = "us-east-1";

/// The emulator with all its services, as an HTTP server on a free loopback port. It ends with this
/// value.
#[derive(Debug)]
pub struct Aws(Emulator);

impl Aws {
    /// Starts an empty one.
    ///
    /// # Errors
    /// If no port is free.
    pub async fn start() -> Result<Self> {
        Ok(Self(Emulator::builder().every_service().start().await?))
    }

    /// The environment variables with which AWS clients use it, as the account `000000000000`.
    pub fn env(&self) -> [(&'static str, String); 4] {
        [
            ("AWS_ENDPOINT_URL", self.url()),
            ("AWS_ACCESS_KEY_ID", KEY.to_owned()),
            ("AWS_SECRET_ACCESS_KEY", KEY.to_owned()),
            ("AWS_REGION", REGION.to_owned()),
        ]
    }
}

impl Deref for Aws {
    type Target = Emulator;

    fn deref(&self) -> &Emulator {
        &self.0
    }
}

//! Waiting until the operator has nothing left to write.

use anyhow::{Result, bail};

use crate::{
    audit::{Entry, Mark},
    cluster::Cluster,
};

impl Cluster {
    /// Repeats `round` until the operator writes nothing meanwhile: the passes and events that followed
    /// earlier writes have ended. Returns the mark at which that round began. Only writes that `is_meant`
    /// selects count.
    ///
    /// # Errors
    /// After `rounds` rounds, with the writes of the last one.
    pub async fn settle(
        &self,
        rounds: usize,
        mut round: impl AsyncFnMut() -> Result<()>,
        is_meant: impl Fn(&Entry) -> bool,
    ) -> Result<Mark> {
        let mut writes = Vec::new();
        for _ in 0..rounds {
            let mark = self.mark();
            round().await?;
            writes = self.writes_since(mark).await?;
            writes.retain(&is_meant);
            if writes.is_empty() {
                return Ok(mark);
            }
        }
        bail!("the operator still writes after {rounds} rounds: {writes:#?}")
    }
}

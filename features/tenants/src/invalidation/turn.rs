//! A turn to ask for an invalidation: those have a limit of their own, far below that of other
//! calls, and whoever waits for it holds no place among the passes that run.

use std::sync::Arc;
use std::time::Duration;

use aws::{Asker, Operation, Priority, Ticket};
use engine::Pass;

use crate::ctx::{Ctx, NotYet, Ours};

/// How long a pass that waits for its turn is left alone, at most: its ticket wakes it.
const TURN: Duration = Duration::from_secs(5 * 60);

/// Lets the pass ask for an invalidation, if it is its turn; else it is woken when it is.
pub(super) async fn admitted(ctx: &Arc<Ctx>, pass: &Pass) -> Result<Asker, NotYet> {
    let key = pass.key().clone();
    let namespace = key.namespace.clone().unwrap_or_default();
    let asker = Asker::new(Priority::Edit, namespace);
    // Named as `Ctx::withdraw` knows it; the queue must not keep the feature alive.
    let (name, waiting) = (format!("Invalidation/{key}"), Arc::downgrade(ctx));
    let ticket = Ticket::new(name, move || {
        if let Some(ctx) = waiting.upgrade() {
            ctx.wake_in(Ours::Invalidation, &key, Duration::ZERO);
        }
    });
    let operation = Operation::CreateInvalidationForDistributionTenant;
    let admitted = ctx.own().await.admit(operation, &asker, &ticket).await;
    admitted.map_err(|_| NotYet { after: TURN })
}

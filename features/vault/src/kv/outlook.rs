//! What a pass over a seed would do now, for those who only look.

use api::vault::VaultKVSecret;
use engine::Pass;

use super::gather;
use super::plan::{self, Step};
use crate::ctx::Ctx;
use crate::sync::Stop;

/// What a pass would do.
pub(crate) struct Outlook {
    /// Where.
    pub(crate) path: String,
    /// Something would be written.
    pub(crate) writes: bool,
    /// The path is not fit for a seed, or its seed is gone.
    pub(crate) wrong: bool,
    /// What would be done and why, for people.
    pub(crate) said: String,
}

/// The stages of a pass up to its plan.
pub(crate) async fn outlook(
    seed: &VaultKVSecret,
    ctx: &Ctx,
    pass: &mut Pass,
) -> Result<Outlook, Stop> {
    let ground = gather::ground(seed, ctx, pass)?;
    gather::allowed(seed, &ground, pass)?;
    let world = gather::world(seed, &ground, pass).await?;
    let step = plan::plan(&world);
    let (writes, wrong) = match &step {
        Step::Write { .. } | Step::Claim { .. } => (true, false),
        Step::Refuse { .. } | Step::Gone { .. } => (false, true),
        Step::Keep { .. } | Step::Doubt => (false, false),
    };
    Ok(Outlook {
        path: seed.spec.path.clone(),
        writes,
        wrong,
        said: step.to_string(),
    })
}

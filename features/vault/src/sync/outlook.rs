//! What a pass would do now, for those who only look.

use engine::Pass;
use kernel::Reason;
use serde_json::Map;
use vault_client::Client;

use api::vault::VaultConnection;

use super::gather::{self, Seen, Skip};
use super::plan::{self, Step};
use super::{Declared, Ground, Stop, Target, namesakes};
use crate::ctx::Ctx;
use crate::language::policy::Policy;
use crate::place::{Found, Place, Wanted};
use crate::role::payload::{self, Canonical};

/// What a pass would do.
pub(crate) struct Outlook {
    pub(crate) places: Vec<Ahead>,
    /// Places on record that the object has left: they go when nobody needs them.
    pub(crate) left: Vec<Place>,
    /// What keeps the object from being Ready whatever is written.
    pub(crate) lacks: Option<Reason>,
    /// Why the object's namespace may not take over what is unmarked.
    pub(crate) adoption_refused: Option<String>,
}

/// What is ahead at one place.
pub(crate) struct Ahead {
    pub(crate) place: Place,
    pub(crate) step: Step,
    /// All that differs from what is wanted; empty where nothing does or nobody looked.
    pub(crate) diff: String,
}

/// The stages of a pass up to its plan.
pub(crate) async fn outlook<K: Declared>(
    object: &K,
    ctx: &Ctx,
    pass: &mut Pass,
) -> Result<Outlook, Stop> {
    let ground = gather::ground(object, ctx, pass)?;
    let desired = object.desired(ctx, &ground)?;
    namesakes::refuse_reserved(object, &desired.targets, &ground)?;
    let recorded = ground.recorded(object, ctx);
    let seen = gather::found(&desired, &recorded, &ground, Skip::default(), pass).await?;
    namesakes::refuse_second(object, &desired.targets, &seen, ctx, &ground)?;
    let records = K::records(&object.status());
    let steps = plan::plan(&desired, &seen, &ground, &recorded);
    let places = steps
        .into_iter()
        .zip(&seen)
        .map(|((target, step), seen)| Ahead {
            place: target.place.clone(),
            step,
            diff: diff(target, seen),
        });
    let is_left = |place: &Place| !desired.targets.iter().any(|target| target.place.is(place));
    let left = records.into_iter().map(|record| record.place);
    Ok(Outlook {
        places: places.collect(),
        left: left.filter(is_left).collect(),
        adoption_refused: adoption_refused(&ground),
        lacks: desired.lacks,
    })
}

fn adoption_refused(ground: &Ground) -> Option<String> {
    let refusal = ground.guard()?.adoption().err()?;
    Some(refusal.to_string())
}

fn diff(target: &Target, seen: &Seen) -> String {
    match seen {
        Seen::Unasked => String::new(),
        Seen::Asked(Some(found)) => found.diff(&target.wanted, usize::MAX),
        Seen::Asked(None) => nothing(&target.wanted).diff(&target.wanted, usize::MAX),
    }
}

/// What says nothing at all, to compare with.
fn nothing(wanted: &Wanted) -> Found {
    match wanted {
        Wanted::Policy { .. } => Found::Policy {
            text: String::new(),
            canonical: Some(Policy::default()),
        },
        Wanted::Role(sent) => Found::Role {
            fields: Map::new(),
            canonical: Canonical::of_live(payload::family(&sent.fields()), &Map::new()),
        },
    }
}

/// The same Vault, but calls go to an object's own Vault namespace, if it has one.
pub(crate) fn own_vault(vault: &Client, connection: &VaultConnection, own: Option<&str>) -> Client {
    gather::in_own_namespace(vault, connection, own)
}

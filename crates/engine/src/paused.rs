//! `pontoon.io/paused: "true"`: the object is followed and says so, and nothing is done for it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kernel::{Conditions, PAUSED, Progress, Reason, is_true};
use serde::{Deserialize, Serialize};

use crate::{ApiError, Pass};

/// The condition every kind shows while it is paused.
pub const CONDITION: &str = "Paused";
/// Its reason.
pub const REASON: &str = "PausedByAnnotation";

#[derive(Deserialize, Default)]
#[serde(default)]
struct Object {
    metadata: Metadata,
    status: Status,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Metadata {
    generation: Option<i64>,
}

#[derive(Serialize, Deserialize, Default)]
#[serde(default)]
struct Status {
    conditions: Vec<Condition>,
}

/// Keeps the condition true to the annotation. Answers how the pass ends if it ends here.
pub(crate) async fn observe(pass: &mut Pass, paused: bool) -> Result<Option<Progress>, ApiError> {
    if !paused && !pass.object().json().contains(CONDITION) {
        return Ok(None); // the common case costs no parse
    }
    let object: Object = pass.object().parse(&pass.kind).unwrap_or_default();
    if !paused && !is_true(&object.status.conditions, CONDITION) {
        return Ok(None);
    }
    let now = pass.clock().now();
    let mut conditions =
        Conditions::new(&object.status.conditions, object.metadata.generation, now);
    let reason = Reason::new(
        REASON,
        format!("nothing is done for this object until the annotation {PAUSED} is removed"),
    );
    if paused {
        conditions.yes(CONDITION, &reason);
    } else {
        conditions.drop(CONDITION);
    }
    let (conditions, _) = conditions.into_parts();
    match pass.write_status(&Status { conditions }).await {
        Err(error) if error.is_not_found() => {} // a kind without status cannot say so
        other => drop(other?),
    }
    Ok(Some(if paused {
        Progress::Blocked { reason }
    } else {
        Progress::Again
    }))
}

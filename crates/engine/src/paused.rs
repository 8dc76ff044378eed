//! The annotation `pontoon.io/paused: "true"`: the object gets a condition and no other effect.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kernel::{Conditions, PAUSED, Progress, Reason};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{ApiError, Pass};

/// The condition of a paused object of any kind.
pub const CONDITION: &str = "Paused";
/// Its reason.
pub const REASON: &str = "PausedByAnnotation";

/// The part of a status that is written. Conditions of other controllers may have additional fields, so
/// all conditions are raw JSON.
#[derive(Serialize, Deserialize, Default)]
#[serde(default)]
struct Status {
    conditions: Vec<Value>,
}

/// Sets or removes the condition by the annotation. Returns the progress if the pass ends here.
pub(crate) async fn observe(pass: &mut Pass, paused: bool) -> Result<Option<Progress>, ApiError> {
    if !paused && !pass.object().json().contains(CONDITION) {
        return Ok(None); // avoids a parse in the common case
    }
    let object: Value = pass.object().parse(&pass.kind).unwrap_or_default();
    let reason = Reason::new(
        REASON,
        format!("nothing is done for this object until the annotation {PAUSED} is removed"),
    );
    let conditions = conditions(&object, paused, &reason, pass.clock().now());
    if !paused && conditions.is_none() {
        return Ok(None);
    }
    if let Some(conditions) = conditions {
        match pass.write_status(&Status { conditions }).await {
            Err(error) if error.is_not_found() => {} // the kind has no status
            other => drop(other?),
        }
    }
    Ok(Some(if paused {
        Progress::Blocked { reason }
    } else {
        Progress::Again
    }))
}

/// The conditions that `object` should have; none if it has them already, or if its conditions are no
/// list.
fn conditions(
    object: &Value,
    paused: bool,
    reason: &Reason,
    now: jiff::Timestamp,
) -> Option<Vec<Value>> {
    let mut all = match &object["status"]["conditions"] {
        Value::Null => Vec::new(),
        Value::Array(all) => all.clone(),
        _ => return None,
    };
    let at = all.iter().position(|one| one["type"] == CONDITION);
    let before = at.map(|at| all[at].clone());
    let condition = paused.then(|| {
        let current: Option<Condition> = before
            .clone()
            .and_then(|before| serde_json::from_value(before).ok());
        let generation = object["metadata"]["generation"].as_i64();
        let mut set = Conditions::new(current.as_slice(), generation, now);
        set.yes(CONDITION, reason);
        serde_json::json!(set.into_parts().0[0])
    });
    match (at, condition) {
        (Some(at), Some(condition)) => all[at] = condition,
        (None, Some(condition)) => all.push(condition),
        (Some(at), None) if before.is_some_and(|before| before["status"] == "True") => {
            all.remove(at);
        }
        (Some(_) | None, None) => return None,
    }
    (object["status"]["conditions"].as_array() != Some(&all)).then_some(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn after(conditions_before: Value, paused: bool) -> Option<Vec<Value>> {
        let object = json!({
            "metadata": {"generation": 3},
            "status": {"conditions": conditions_before},
        });
        let now = jiff::Timestamp::from_second(100).unwrap();
        conditions(&object, paused, &Reason::new(REASON, "why"), now)
    }

    fn paused_since(time: &str, generation: i64) -> Value {
        json!({"type": CONDITION, "status": "True", "reason": REASON, "message": "why",
            "lastTransitionTime": time, "observedGeneration": generation})
    }

    /// A condition as ACK writes it: it lacks fields of metav1 and has an additional one.
    fn foreign() -> Value {
        json!({"type": "ACK.ResourceSynced", "status": "False", "severity": "Info"})
    }

    #[test]
    fn foreign_conditions_keep_all_their_fields() {
        let paused = paused_since("1970-01-01T00:01:40Z", 3);
        let both = after(json!([foreign()]), true);
        assert_eq!(both, Some(vec![foreign(), paused.clone()]));
        let without = after(json!([paused, foreign()]), false);
        assert_eq!(without, Some(vec![foreign()]));
    }

    #[test]
    fn an_object_with_the_right_conditions_is_not_written() {
        let since = paused_since("1970-01-01T00:00:05Z", 3);
        assert_eq!(after(json!([since, foreign()]), true), None);
        assert_eq!(after(json!([foreign()]), false), None);
        assert_eq!(after(Value::Null, false), None);
    }

    #[test]
    fn a_new_generation_keeps_the_transition_time() {
        let before = paused_since("1970-01-01T00:00:05Z", 2);
        let expected = paused_since("1970-01-01T00:00:05Z", 3);
        assert_eq!(after(json!([before]), true), Some(vec![expected]));
    }

    #[test]
    fn conditions_that_are_no_list_are_not_written() {
        assert_eq!(after(json!({"Ready": "True"}), true), None);
    }
}

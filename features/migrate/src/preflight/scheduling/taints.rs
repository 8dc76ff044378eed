//! Whether a pod tolerates the taints of a node.

use k8s_openapi::api::core::v1::{PodSpec, Taint, Toleration};

/// The first taint that keeps the pod from being scheduled.
///
/// | effect            | keeps a pod away |
/// |-------------------|------------------|
/// | NoSchedule        | yes              |
/// | NoExecute         | yes              |
/// | PreferNoSchedule  | no               |
pub(super) fn untolerated<'a>(pod: &PodSpec, taints: &'a [Taint]) -> Option<&'a Taint> {
    let tolerations = pod.tolerations.as_deref().unwrap_or_default();
    taints
        .iter()
        .filter(|taint| taint.effect != "PreferNoSchedule")
        .find(|taint| !tolerations.iter().any(|one| tolerates(one, taint)))
}

fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let given = |field: &Option<String>| field.clone().filter(|text| !text.is_empty());
    if given(&toleration.effect).is_some_and(|effect| effect != taint.effect) {
        return false;
    }
    let key = given(&toleration.key);
    if key.as_ref().is_some_and(|key| *key != taint.key) {
        return false;
    }
    match toleration.operator.as_deref().unwrap_or("Equal") {
        "Exists" => true,
        "Equal" | "" => {
            let value = toleration.value.as_deref().unwrap_or_default();
            key.is_some() && value == taint.value.as_deref().unwrap_or_default()
        }
        // An operator of a later version: whether it tolerates the taint cannot be established.
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;
    use serde_json::{Value, json};

    fn dedicated(effect: &str) -> Value {
        json!({"key": "dedicated", "value": "db", "effect": effect})
    }

    #[rstest] //                  taint                          toleration           scheduled
    #[case::no_toleration(dedicated("NoSchedule"), json!([]), false)]
    #[case::a_preference_keeps_nobody_away(dedicated("PreferNoSchedule"), json!([]), true)]
    #[case::eviction_keeps_away(dedicated("NoExecute"), json!([]), false)]
    #[case::equal(dedicated("NoSchedule"), json!([{"key": "dedicated", "value": "db"}]), true)]
    #[case::another_value(dedicated("NoSchedule"), json!([{"key": "dedicated", "value": "web"}]), false)]
    #[case::another_key(dedicated("NoSchedule"), json!([{"key": "other", "value": "db"}]), false)]
    #[case::exists(dedicated("NoSchedule"), json!([{"key": "dedicated", "operator": "Exists"}]), true)]
    #[case::everything(dedicated("NoExecute"), json!([{"operator": "Exists"}]), true)]
    #[case::equal_without_key(dedicated("NoSchedule"), json!([{"value": "db"}]), false)]
    #[case::same_effect(dedicated("NoExecute"),
        json!([{"operator": "Exists", "effect": "NoExecute"}]), true)]
    #[case::another_effect(dedicated("NoSchedule"),
        json!([{"operator": "Exists", "effect": "NoExecute"}]), false)]
    #[case::unknown_operator(dedicated("NoSchedule"),
        json!([{"key": "dedicated", "operator": "Like", "value": "db"}]), false)]
    fn a_taint_keeps_pods_away(
        #[case] taint: Value,
        #[case] tolerations: Value,
        #[case] scheduled: bool,
    ) {
        let pod = json!({"containers": [], "tolerations": tolerations});
        let pod: PodSpec = serde_json::from_value(pod).unwrap();
        let taints: Vec<Taint> = serde_json::from_value(json!([taint])).unwrap();
        assert_eq!(untolerated(&pod, &taints).is_none(), scheduled);
    }
}

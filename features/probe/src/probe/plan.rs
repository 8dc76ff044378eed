//! What must be done, as data.

use super::gather::World;
use super::validate::Desired;
use crate::outside::Thing;

/// One effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// Have the finalizer and the outside name on record; the effects that follow need them.
    Record(String),
    /// Make the thing outside be so.
    Put(Thing),
    /// Remove the thing outside.
    Remove { name: String, marker: String },
    /// Have the ConfigMap hold this.
    Write(String),
    /// Let the object go.
    Release,
}

/// | wanted        | outside         | so                        |
/// |---------------|-----------------|---------------------------|
/// | there, a      | a               | nothing                   |
/// | there, a      | b or none       | record, put               |
/// | not there     | ours, on record | remove                    |
/// | gone          | ours            | remove, release           |
/// | gone, keep    | any             | release                   |
pub(super) fn plan(desired: &Desired, world: &World) -> Vec<Step> {
    let remove = || Step::Remove {
        name: world.outside_name.clone(),
        marker: world.marker.clone(),
    };
    match desired {
        Desired::Gone { keep_outside } => {
            let mut steps = Vec::new();
            if !keep_outside && world.thing.is_some() {
                steps.push(remove());
            }
            steps.push(Step::Release);
            steps
        }
        Desired::There { text, outside } => {
            let mut steps = Vec::new();
            match (outside, &world.thing) {
                (Some(value), Some(thing)) if thing.value == *value => {}
                (Some(value), _) => {
                    steps.push(Step::Record(world.outside_name.clone()));
                    let (name, marker) = (world.outside_name.clone(), Some(world.marker.clone()));
                    steps.push(Step::Put(Thing {
                        name,
                        value: value.clone(),
                        marker,
                    }));
                }
                (None, Some(_)) if world.recorded => steps.push(remove()),
                (None, _) => {}
            }
            steps.push(Step::Write(text.clone()));
            steps
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernel::ObjectKey;
    use rstest::rstest;

    fn world(thing: Option<&str>) -> World {
        World {
            deleting: false,
            uid: "u".into(),
            key: ObjectKey::namespaced("a", "b"),
            outside_name: "n".into(),
            marker: "m".into(),
            recorded: thing.is_some(),
            thing: thing.map(thing_with),
            config_map: None,
            secret: None,
        }
    }

    fn thing_with(value: &str) -> Thing {
        Thing {
            name: "n".into(),
            value: value.into(),
            marker: Some("m".into()),
        }
    }

    fn there(value: Option<&str>) -> Desired {
        Desired::There {
            text: "t".into(),
            outside: value.map(Into::into),
        }
    }

    fn remove() -> Step {
        Step::Remove {
            name: "n".into(),
            marker: "m".into(),
        }
    }

    #[rstest]
    #[case::true_is_left_alone(there(Some("a")), Some("a"), vec![Step::Write("t".into())])]
    #[case::missing_is_recorded_then_made(there(Some("a")), None, vec![Step::Record("n".into()), Step::Put(thing_with("a")), Step::Write("t".into())])]
    #[case::no_longer_wanted_is_removed(there(None), Some("a"), vec![remove(), Step::Write("t".into())])]
    #[case::deletion_removes_it(Desired::Gone { keep_outside: false }, Some("a"), vec![remove(), Step::Release])]
    #[case::retain_keeps_it(Desired::Gone { keep_outside: true }, Some("a"), vec![Step::Release])]
    fn rule(#[case] desired: Desired, #[case] outside: Option<&str>, #[case] steps: Vec<Step>) {
        assert_eq!(plan(&desired, &world(outside)), steps);
    }
}

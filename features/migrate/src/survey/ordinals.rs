//! Whether the servers have `spec.ordinals`, as dry runs show.

use k8s_openapi::api::apps::v1::StatefulSet;
use serde_json::{Value, json};

use super::classify::{Trial, reading, trial};
use super::reader::{Collection, Reader};
use crate::preflight::moved_claims::window;
use crate::preflight::reading::Reading;
use crate::preflight::survey::{OrdinalsSupport, Survey};
use crate::preflight::translated::arriving_set;

/// Tries to release the first ordinal of the source.
pub(super) async fn at_source(reader: &Reader, set: &StatefulSet) -> Reading<OrdinalsSupport> {
    let namespace = set.metadata.namespace.as_deref();
    let of = Collection::of::<StatefulSet>(namespace);
    let patch = release(set);
    let name = set.metadata.name.as_deref().unwrap_or_default();
    let answer = reader.try_patch(&of, name, &patch).await;
    reading(trial(answer).map(|answer| support(&patch, answer)))
}

/// The patch by which the source gives up its first ordinal.
fn release(set: &StatefulSet) -> Value {
    let window = window(set);
    let released = window.source_without(window.start).unwrap_or(window);
    // A server leaves out a start of 0, also one that has the field.
    let start = released.start.max(1);
    json!({"spec": {"ordinals": {"start": start}, "replicas": released.replicas}})
}

/// Tries to create the StatefulSet at the destination under another name. Not tried if its first ordinal is 0:
/// then it needs no such field.
pub(super) async fn at_destination(
    reader: &Reader,
    survey: &Survey,
    set: &StatefulSet,
) -> Reading<OrdinalsSupport> {
    let Some(body) = renamed(survey, set) else {
        return Reading::NotRead;
    };
    let of = Collection::of::<StatefulSet>(Some(&survey.spec.dest_namespace));
    let answer = reader.try_create(&of, &body).await;
    reading(trial(answer).map(|answer| support(&body, answer)))
}

/// The StatefulSet as it arrives, with a name that the server makes: one that exists must not be in its way.
fn renamed(survey: &Survey, set: &StatefulSet) -> Option<Value> {
    if window(set).start == 0 {
        return None;
    }
    let mut body = arriving_set(survey, set, 0)?.into_value();
    let metadata = body["metadata"].as_object_mut()?;
    let name = metadata.remove("name")?;
    let prefix = format!("{}-", name.as_str()?);
    metadata.insert("generateName".to_owned(), prefix.into());
    Some(body)
}

/// | answer                                  | support |
/// |-----------------------------------------|---------|
/// | accepted, with the start that was sent  | echoed  |
/// | accepted, without it                    | dropped |
/// | refused                                 | refused |
fn support(sent: &Value, answer: Trial<Value>) -> OrdinalsSupport {
    let start = |object: &Value| object.pointer("/spec/ordinals/start").cloned();
    match answer {
        Trial::Accepted(object) if start(&object) == start(sent) => OrdinalsSupport::Echoed,
        Trial::Accepted(_) => OrdinalsSupport::Dropped,
        Trial::Exists => OrdinalsSupport::Refused("an object of its name exists".to_owned()),
        Trial::Refused(message) => OrdinalsSupport::Refused(message),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn set(spec: Value) -> StatefulSet {
        serde_json::from_value(json!({"metadata": {"name": "web"}, "spec": spec})).unwrap()
    }

    #[rstest]
    #[case::from_zero(json!({"replicas": 3}), 1, 2)]
    #[case::from_five(json!({"replicas": 3, "ordinals": {"start": 5}}), 6, 2)]
    #[case::one_replica(json!({"replicas": 1}), 1, 0)]
    #[case::no_replica(json!({"replicas": 0}), 1, 0)]
    #[case::default_replicas(json!({}), 1, 0)]
    fn the_patch_releases_the_first_ordinal(
        #[case] spec: Value,
        #[case] start: i32,
        #[case] replicas: i32,
    ) {
        let expected = json!({"spec": {"ordinals": {"start": start}, "replicas": replicas}});
        assert_eq!(release(&set(spec)), expected);
    }

    #[rstest]
    #[case::echoed(Trial::Accepted(json!({"spec": {"ordinals": {"start": 1}}})), OrdinalsSupport::Echoed)]
    #[case::dropped(Trial::Accepted(json!({"spec": {"replicas": 2}})), OrdinalsSupport::Dropped)]
    #[case::changed(Trial::Accepted(json!({"spec": {"ordinals": {"start": 2}}})), OrdinalsSupport::Dropped)]
    #[case::refused(Trial::Refused("why".to_owned()), OrdinalsSupport::Refused("why".to_owned()))]
    fn the_answer_shows_whether_the_server_has_the_field(
        #[case] answer: Trial<Value>,
        #[case] expected: OrdinalsSupport,
    ) {
        let sent = json!({"spec": {"ordinals": {"start": 1}}});
        assert_eq!(support(&sent, answer), expected);
    }
}

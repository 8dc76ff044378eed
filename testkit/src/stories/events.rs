//! Events about the objects of a story.

use anyhow::{Result, bail};
use k8s_openapi::api::events::v1::Event;
use kube::api::{Api, ListParams};

use crate::{eventually::eventually, story::Story};

/// The events about the object `name`.
pub async fn events(story: &Story, name: &str) -> Result<Vec<Event>> {
    // Events about cluster-scoped objects are in `default`.
    let namespace = match story.name() {
        "" => "default",
        name => name,
    };
    let api = Api::<Event>::namespaced(story.client(), namespace);
    let all = api.list(&ListParams::default()).await?.items;
    let is_about = |event: &Event| {
        let about = event.regarding.as_ref();
        about.and_then(|about| about.name.as_deref()) == Some(name)
    };
    Ok(all.into_iter().filter(is_about).collect())
}

/// Waits for an event of this reason about the object `name`.
///
/// # Errors
/// After a minute, with the events about the object.
pub async fn event(story: &Story, name: &str, reason: &str) -> Result<Event> {
    let what = format!("event {reason} about {name}");
    let found = eventually(&what, async || {
        let mut events = events(story, name).await?.into_iter();
        Ok(events.find(|event| event.reason.as_deref() == Some(reason)))
    });
    match found.await {
        Ok(event) => Ok(event),
        Err(late) => {
            let events = event_lines(&events(story, name).await?);
            bail!("{late:#}\n--- its events ---\n{events}")
        }
    }
}

/// The text of an event.
pub fn note(event: &Event) -> &str {
    event.note.as_deref().unwrap_or_default()
}

/// One line for each event.
pub(crate) fn event_lines(events: &[Event]) -> String {
    let line = |event: &Event| {
        let (kind, reason) = (event.type_.as_deref(), event.reason.as_deref());
        let (kind, reason) = (kind.unwrap_or_default(), reason.unwrap_or_default());
        format!("{kind} {reason}: {}", note(event))
    };
    events.iter().map(line).collect::<Vec<_>>().join("\n")
}

//! The objects in `examples/`, and the state of each.

use std::collections::BTreeSet;

use kube::api::{Api, DynamicObject};
use kube::core::GroupVersionKind;
use kube::discovery::{self, Scope};
use kube::{Client, ResourceExt};
use serde_json::Value;
use testkit::manifests;

use super::app::App;
use super::moving_set::MovingSet;
use super::surroundings::deep;
use super::website::Website;
use crate::table::table;
use crate::verdict::{Error, While};

/// The namespace of objects without one.
const NAMESPACE: &str = "default";

/// A part of the examples: an applied object, or a user of the created resources.
pub(crate) struct Example {
    what: What,
    kind: String,
    name: String,
}

enum What {
    Object {
        api: Api<DynamicObject>,
        name: String,
        ours: bool,
    },
    /// An object that is not applied yet.
    Later,
    App(App),
    Website(Website),
    Set(Box<MovingSet>),
}

/// An example as the table shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) state: ExampleState,
}

impl Row {
    /// `Kind namespace/name`, for messages.
    pub(crate) fn label(&self) -> String {
        format!("{} {}", self.kind, self.name)
    }

    /// Whether the example is ready or exists.
    pub(crate) fn is_fine(&self) -> bool {
        self.state.is_fine()
    }
}

/// The state of an example.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ExampleState {
    Ready {
        reason: String,
    },
    NotReady {
        reason: String,
        message: String,
    },
    /// An object without a condition Ready, such as a Secret, exists.
    There,
    Gone,
}

impl ExampleState {
    /// Whether the example is ready or exists.
    pub(crate) fn is_fine(&self) -> bool {
        matches!(self, Self::Ready { .. } | Self::There)
    }

    fn later() -> Self {
        Self::NotReady {
            reason: "Later".to_owned(),
            message: "it is applied once the examples before it are Ready".to_owned(),
        }
    }

    fn of(object: Option<&Value>, ours: bool) -> Self {
        let Some(object) = object else {
            return Self::Gone;
        };
        if !ours {
            return Self::There;
        }
        let conditions = object["status"]["conditions"]
            .as_array()
            .into_iter()
            .flatten();
        let Some(ready) = conditions
            .into_iter()
            .find(|condition| condition["type"] == "Ready")
        else {
            let message = "it has no condition Ready yet".to_owned();
            return Self::NotReady {
                reason: "Unseen".to_owned(),
                message,
            };
        };
        let text = |field: &str| ready[field].as_str().unwrap_or_default().to_owned();
        // A Ready of an older generation does not count.
        let current = ready["observedGeneration"].is_null()
            || ready["observedGeneration"] == object["metadata"]["generation"];
        match ready["status"].as_str() {
            Some("True") if current => Self::Ready {
                reason: text("reason"),
            },
            _ => Self::NotReady {
                reason: text("reason"),
                message: text("message"),
            },
        }
    }

    fn cells(&self) -> [String; 3] {
        let cells = match self {
            Self::Ready { reason } => ["True", reason, ""],
            Self::NotReady { reason, message } => ["False", reason, message],
            Self::There => ["-", "", ""],
            Self::Gone => ["False", "Gone", "it was deleted"],
        };
        cells.map(str::to_owned)
    }
}

/// Applies the objects in `yaml`.
pub(crate) async fn apply(
    client: &Client,
    yaml: &str,
    ours: &BTreeSet<String>,
) -> Result<Vec<Example>, Error> {
    let applied = manifests::apply(client, Some(NAMESPACE), yaml).await;
    let mut examples = Vec::new();
    for object in applied.map_err(deep)? {
        examples.push(example(client, &object, ours).await?);
    }
    Ok(examples)
}

/// The objects in `yaml`, which are applied later.
pub(crate) fn later(yaml: &str) -> Result<Vec<Example>, Error> {
    let later = |object: DynamicObject| Example {
        what: What::Later,
        name: match object.namespace() {
            Some(namespace) => format!("{namespace}/{}", object.name_any()),
            None => object.name_any(),
        },
        kind: object.types.map(|types| types.kind).unwrap_or_default(),
    };
    let objects = manifests::parse(yaml).map_err(deep)?;
    Ok(objects.into_iter().map(later).collect())
}

async fn example(
    client: &Client,
    object: &DynamicObject,
    ours: &BTreeSet<String>,
) -> Result<Example, Error> {
    let types = object
        .types
        .as_ref()
        .ok_or_else(|| Error::new("an applied object came back without its kind"))?;
    let (group, version) = types
        .api_version
        .split_once('/')
        .unwrap_or(("", &types.api_version));
    let kind = GroupVersionKind::gvk(group, version, &types.kind);
    let (resource, served) = discovery::pinned_kind(client, &kind)
        .await
        .doing(&types.kind)?;
    let (api, name) = match (served.scope, object.namespace()) {
        (Scope::Namespaced, Some(namespace)) => (
            Api::namespaced_with(client.clone(), &namespace, &resource),
            format!("{namespace}/{}", object.name_any()),
        ),
        _ => (Api::all_with(client.clone(), &resource), object.name_any()),
    };
    let what = What::Object {
        api,
        name: object.name_any(),
        ours: ours.contains(group),
    };
    Ok(Example {
        what,
        kind: types.kind.clone(),
        name,
    })
}

impl Example {
    /// The app that uses the login of the examples.
    pub(crate) fn app(app: App) -> Self {
        Self {
            what: What::App(app),
            kind: "(app)".to_owned(),
            name: App::name(),
        }
    }

    /// A website of the examples, as a visitor sees it.
    pub(crate) fn website(website: Website) -> Self {
        Self {
            kind: "(site)".to_owned(),
            name: website.name().to_owned(),
            what: What::Website(website),
        }
    }

    /// The StatefulSet of the examples, as its users see it.
    pub(crate) fn set(set: MovingSet) -> Self {
        Self {
            what: What::Set(Box::new(set)),
            kind: "(set)".to_owned(),
            name: MovingSet::name(),
        }
    }

    /// The same with the name of its cluster, which is not the one of the other examples.
    pub(crate) fn of_cluster(self, cluster: &str) -> Self {
        Self {
            name: format!("{} ({cluster})", self.name),
            ..self
        }
    }

    /// The example as it is now.
    pub(crate) async fn row(&self) -> Result<Row, Error> {
        let (kind, name) = (self.kind.clone(), self.name.clone());
        let state = self.state().await.doing(format_args!("{kind} {name}"))?;
        Ok(Row { kind, name, state })
    }

    /// Reads the live object, or tries to use it.
    async fn state(&self) -> Result<ExampleState, Error> {
        let (api, name, ours) = match &self.what {
            What::Object { api, name, ours } => (api, name, *ours),
            What::Later => return Ok(ExampleState::later()),
            What::App(app) => return Ok(app.state().await),
            What::Website(website) => return Ok(website.state().await),
            What::Set(set) => return Ok(set.state().await),
        };
        let object = api.get_opt(name).await.doing("reading it")?;
        let object = object.map(serde_json::to_value).transpose();
        let object = object.doing("reading it")?;
        Ok(ExampleState::of(object.as_ref(), ours))
    }
}

/// The rows as a table.
pub(crate) fn listing(rows: &[Row]) -> String {
    let cells = rows.iter().map(|row| {
        let [ready, reason, message] = row.state.cells();
        [row.kind.clone(), row.name.clone(), ready, reason, message]
    });
    table(
        ["KIND", "NAME", "READY", "REASON", "MESSAGE"],
        cells.collect(),
    )
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{ExampleState, later};

    fn object(status: &str, observed: i64) -> Value {
        let ready = json!({
            "type": "Ready", "status": status, "reason": "R", "message": "m", "observedGeneration": observed,
        });
        json!({ "metadata": { "generation": 2 }, "status": { "conditions": [ready] } })
    }

    #[test]
    fn ready_counts_only_for_its_generation() {
        assert_eq!(
            ExampleState::of(Some(&object("True", 2)), true),
            ExampleState::Ready { reason: "R".into() }
        );
        assert!(!ExampleState::of(Some(&object("True", 1)), true).is_fine());
        assert!(!ExampleState::of(Some(&object("False", 2)), true).is_fine());
    }

    #[test]
    fn an_object_of_ours_without_a_condition_is_not_ready() {
        assert!(!ExampleState::of(Some(&json!({})), true).is_fine());
        assert!(!ExampleState::of(None, true).is_fine());
    }

    #[test]
    fn other_objects_only_need_to_exist() {
        assert_eq!(
            ExampleState::of(Some(&json!({})), false),
            ExampleState::There
        );
        assert_eq!(ExampleState::of(None, false), ExampleState::Gone);
    }

    #[tokio::test]
    async fn an_object_that_is_applied_later_is_not_ready() {
        let yaml = "apiVersion: a.io/v1\nkind: A\nmetadata: {name: b, namespace: c}\n";
        let examples = later(yaml).unwrap();
        let row = examples[0].row().await.unwrap();
        assert_eq!((row.label().as_str(), row.is_fine()), ("A c/b", false));
    }
}

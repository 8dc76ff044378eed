//! The objects in `examples/`, and the state of each.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use kube::api::{Api, DynamicObject};
use kube::core::GroupVersionKind;
use kube::discovery::{self, Scope};
use kube::{Client, ResourceExt};
use serde_json::Value;
use testkit::manifests;

use super::app::App;
use super::surroundings::deep;
use super::website::Website;
use crate::table::table;
use crate::verdict::{Error, While};

/// The namespace of objects without one.
const NAMESPACE: &str = "default";

/// The example files below `folder`, one folder per feature, in the order of application.
pub(crate) fn files(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut files = Vec::new();
    if folder.is_dir() {
        for feature in sorted(folder)?.into_iter().filter(|path| path.is_dir()) {
            let yaml = sorted(&feature)?.into_iter();
            files.extend(yaml.filter(|path| path.extension().is_some_and(|end| end == "yaml")));
        }
    }
    Ok(files)
}

fn sorted(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let entries = std::fs::read_dir(folder).doing(format_args!("listing {}", folder.display()))?;
    let mut paths = Vec::new();
    for entry in entries {
        paths.push(
            entry
                .doing(format_args!("listing {}", folder.display()))?
                .path(),
        );
    }
    paths.sort();
    Ok(paths)
}

/// The API groups of the CRDs in `crds`: an example of such a group must become Ready.
pub(crate) fn groups(crds: &str) -> Result<BTreeSet<String>, Error> {
    let crds = manifests::parse(crds).map_err(deep)?;
    Ok(crds
        .iter()
        .filter_map(|crd| Some(crd.data["spec"]["group"].as_str()?.to_owned()))
        .collect())
}

/// A part of the examples: an applied object, or a user of the created resources.
pub(crate) struct Example {
    what: What,
    kind: String,
    name: String,
}

enum What {
    Object { api: Api<DynamicObject>, ours: bool },
    App(App),
    Website(Website),
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

/// `yaml` with each `${NAME}` replaced by the world's setting of that name.
fn filled(yaml: &str, settings: &[(&str, String)]) -> Result<String, Error> {
    let mut parts = yaml.split("${");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (name, rest) = part.split_once('}').unwrap_or((part, ""));
        let Some((_, value)) = settings.iter().find(|(known, _)| *known == name) else {
            let known: Vec<_> = settings.iter().map(|(known, _)| *known).collect();
            return Err(Error::new(format!(
                "${{{name}}} stands for nothing; the world has {}",
                known.join(", ")
            )));
        };
        text.push_str(value);
        text.push_str(rest);
    }
    Ok(text)
}

/// Applies one file and returns its objects. `${VAULT_ADDR}` and similar texts are replaced by the
/// world's settings.
pub(crate) async fn apply(
    client: &Client,
    file: &Path,
    settings: &[(&str, String)],
    ours: &BTreeSet<String>,
) -> Result<Vec<Example>, Error> {
    let yaml = std::fs::read_to_string(file).doing(format_args!("reading {}", file.display()))?;
    let yaml = filled(&yaml, settings).doing(file.display())?;
    let applied = manifests::apply(client, Some(NAMESPACE), &yaml)
        .await
        .map_err(deep);
    let mut examples = Vec::new();
    for object in applied.doing(file.display())? {
        examples.push(example(client, &object, ours).await.doing(file.display())?);
    }
    Ok(examples)
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
    let ours = ours.contains(group);
    Ok(Example {
        what: What::Object { api, ours },
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

    /// `Kind namespace/name`, for messages.
    pub(crate) fn label(&self) -> String {
        format!("{} {}", self.kind, self.name)
    }

    /// Reads the live object, or tries to use it.
    pub(crate) async fn state(&self) -> Result<ExampleState, Error> {
        let (api, ours) = match &self.what {
            What::Object { api, ours } => (api, *ours),
            What::App(app) => return Ok(app.state().await),
            What::Website(website) => return Ok(website.state().await),
        };
        let name = self.name.rsplit('/').next().unwrap_or(&self.name);
        let object = api.get_opt(name).await.doing(self.label())?;
        let object = object
            .map(serde_json::to_value)
            .transpose()
            .doing(self.label())?;
        Ok(ExampleState::of(object.as_ref(), ours))
    }
}

/// All examples and their states, as a table.
pub(crate) fn listing(examples: &[Example], states: &[ExampleState]) -> String {
    let rows = examples.iter().zip(states).map(|(example, state)| {
        let [ready, reason, message] = state.cells();
        [
            example.kind.clone(),
            example.name.clone(),
            ready,
            reason,
            message,
        ]
    });
    table(
        ["KIND", "NAME", "READY", "REASON", "MESSAGE"],
        rows.collect(),
    )
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{ExampleState, files, filled, groups};

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

    #[test]
    fn settings_are_filled_in_and_unknown_names_are_reported() {
        let settings = [("VAULT_ADDR", "http://127.0.0.1:1".to_owned())];
        let text = filled("a: ${VAULT_ADDR}/x\nb: $c", &settings).unwrap();
        assert_eq!(text, "a: http://127.0.0.1:1/x\nb: $c");
        let error = filled("a: ${NOTHING}", &settings).unwrap_err();
        assert!(error.to_string().contains("VAULT_ADDR"), "{error}");
    }

    #[test]
    fn examples_are_sorted_by_feature_and_name() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(
            files(&folder.path().join("none")).unwrap(),
            Vec::<std::path::PathBuf>::new()
        );
        for name in [
            "vault/2.yaml",
            "vault/1.yaml",
            "ack/1.yaml",
            "ack/README.md",
            "loose.yaml",
        ] {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        let found = files(folder.path()).unwrap();
        let found: Vec<_> = found
            .iter()
            .map(|path| path.strip_prefix(folder.path()).unwrap())
            .collect();
        assert_eq!(
            found,
            ["ack/1.yaml", "vault/1.yaml", "vault/2.yaml"].map(std::path::Path::new)
        );
    }

    #[test]
    fn our_groups_are_those_of_our_crds() {
        let crd = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: a}\nspec: {group: a.io}\n";
        assert_eq!(
            groups(crd).unwrap().into_iter().collect::<Vec<_>>(),
            ["a.io"]
        );
        assert!(groups("").unwrap().is_empty());
    }
}

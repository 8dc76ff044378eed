//! How the API server merges the fields of a kind, from its OpenAPI v3 documents.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use crate::Kind;

/// References that lead to references. A document with longer chains is malformed.
const REFERENCES: usize = 8;

/// The schemas of one group-version.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Document {
    components: Components,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Components {
    schemas: HashMap<String, Schema>,
}

/// The parts of a schema that decide how fields are merged. Descriptions and rules are not stored.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Schema {
    #[serde(rename = "$ref")]
    reference: Option<Box<str>>,
    #[serde(rename = "allOf")]
    all_of: Vec<Schema>,
    properties: HashMap<Box<str>, Schema>,
    items: Option<Box<Schema>>,
    #[serde(rename = "additionalProperties", deserialize_with = "described")]
    additional: Option<Box<Schema>>,
    default: Option<Value>,
    #[serde(rename = "x-kubernetes-list-type")]
    list_type: Option<Box<str>>,
    #[serde(rename = "x-kubernetes-list-map-keys")]
    list_map_keys: Vec<Box<str>>,
    #[serde(rename = "x-kubernetes-patch-strategy")]
    patch_strategy: Option<Box<str>>,
    #[serde(rename = "x-kubernetes-patch-merge-key")]
    patch_merge_key: Option<Box<str>>,
    #[serde(rename = "x-kubernetes-map-type")]
    map_type: Option<Box<str>>,
    #[serde(rename = "x-kubernetes-group-version-kind")]
    kinds: Vec<GroupVersionKind>,
}

/// The schema of the values of a map; none if they are only allowed or not.
fn described<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Box<Schema>>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Additional {
        Schema(Box<Schema>),
        Allowed(bool),
    }
    Ok(match Additional::deserialize(deserializer)? {
        Additional::Schema(schema) => Some(schema),
        Additional::Allowed(_allowed) => None,
    })
}

#[derive(Debug, Deserialize)]
struct GroupVersionKind {
    group: String,
    version: String,
    kind: String,
}

impl Document {
    /// Parses the text of a document.
    pub(super) fn parse(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }

    /// The metadata that all kinds have in common, with the one kind that it names.
    pub(super) fn of_metadata() -> Arc<Self> {
        static METADATA: LazyLock<Arc<Document>> = LazyLock::new(|| {
            let metadata = json!({"properties": {
                "finalizers": {"x-kubernetes-list-type": "set"},
                "ownerReferences": {
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["uid"],
                },
            }});
            let any = json!({"properties": {"metadata": metadata}});
            let document = json!({"components": {"schemas": {ANY: any}}});
            Arc::new(serde_json::from_value(document).expect("the document has only known fields"))
        });
        METADATA.clone()
    }

    /// The shape of a kind; none if the document does not have it.
    pub(super) fn shape(&self, kind: &Kind) -> Option<Shape<'_>> {
        let names = |one: &GroupVersionKind| {
            one.group == kind.group && one.version == kind.version && one.kind == kind.kind
        };
        let mut schemas = self.components.schemas.iter();
        let (_, schema) =
            schemas.find(|(name, schema)| *name == ANY || schema.kinds.iter().any(names))?;
        self.resolve(schema)
    }

    fn resolve<'d>(&'d self, outer: &'d Schema) -> Option<Shape<'d>> {
        let mut schema = outer;
        for _ in 0..REFERENCES {
            let of_all = schema.all_of.first();
            let reference = of_all.map_or(&schema.reference, |first| &first.reference);
            let Some(reference) = reference else {
                return Some(Shape {
                    document: self,
                    outer,
                    schema,
                });
            };
            let name = reference.rsplit('/').next()?;
            schema = self.components.schemas.get(name)?;
        }
        None
    }
}

/// The name of the only schema of [`Document::of_metadata`].
const ANY: &str = "pontoon.any";

/// The shape of one field.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape<'d> {
    document: &'d Document,
    /// The schema at the field, which may refer to another one.
    outer: &'d Schema,
    /// The schema that it refers to.
    schema: &'d Schema,
}

/// How a list is merged.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ListType<'d> {
    /// As a whole.
    Atomic,
    /// Value by value.
    Set,
    /// Entry by entry. These fields identify an entry; a field may have a default.
    Map(Vec<(&'d str, Option<&'d Value>)>),
}

impl<'d> Shape<'d> {
    /// The shape of a field of a struct or of an entry of a map.
    pub(super) fn field(self, name: &str) -> Option<Self> {
        let named = self.schema.properties.get(name);
        let schema = named.or(self.schema.additional.as_deref())?;
        self.document.resolve(schema)
    }

    /// The shape of the elements of a list.
    pub(super) fn element(self) -> Option<Self> {
        self.document.resolve(self.schema.items.as_ref()?)
    }

    /// How the list is merged. Without a type, the strategy of strategic merge patches decides; without both,
    /// the list is merged as a whole.
    pub(super) fn list_type(self) -> ListType<'d> {
        let named = self.outer.list_type.as_ref();
        match named.or(self.schema.list_type.as_ref()).map(|name| &**name) {
            Some("set") => ListType::Set,
            Some("map") => {
                let keys = match &self.outer.list_map_keys[..] {
                    [] => &self.schema.list_map_keys,
                    _ => &self.outer.list_map_keys,
                };
                ListType::Map(keys.iter().map(|key| self.with_default(key)).collect())
            }
            Some(_) => ListType::Atomic,
            None => self.list_type_by_patch_strategy(),
        }
    }

    /// As the API server derives it: getListElementRelationship in
    /// <https://github.com/kubernetes/kube-openapi/blob/master/pkg/schemaconv/smd.go>.
    fn list_type_by_patch_strategy(self) -> ListType<'d> {
        let strategy = self.outer.patch_strategy.as_ref();
        match strategy.or(self.schema.patch_strategy.as_ref()) {
            Some(strategy) if matches!(&**strategy, "merge" | "merge,retainKeys") => {
                let key = self.outer.patch_merge_key.as_ref();
                match key.or(self.schema.patch_merge_key.as_ref()) {
                    Some(key) => ListType::Map(vec![self.with_default(key)]),
                    None => ListType::Set,
                }
            }
            Some(_) | None => ListType::Atomic,
        }
    }

    /// A key of the entries of a list, with its default.
    fn with_default(self, key: &'d str) -> (&'d str, Option<&'d Value>) {
        let field = self.element().and_then(|element| element.field(key));
        let default = field.and_then(|field| {
            let default = field.outer.default.as_ref();
            default.or(field.schema.default.as_ref())
        });
        (key, default)
    }

    /// Whether the schema names the fields of a map, or describes its values.
    pub(super) fn has_fields(self) -> bool {
        self.schema.additional.is_some() || !self.schema.properties.is_empty()
    }

    /// Whether a map is merged as a whole.
    pub(super) fn is_atomic_map(self) -> bool {
        let named = self.outer.map_type.as_ref();
        let map_type = named.or(self.schema.map_type.as_ref());
        map_type.is_some_and(|name| &**name == "atomic")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::Service;
    use rstest::rstest;

    /// What the API server serves for a Service, shortened.
    fn document() -> Document {
        let port = json!({
            "type": "object",
            "description": "not stored",
            "properties": {
                "port": {"type": "integer", "default": 0},
                "protocol": {"type": "string", "default": "TCP"},
            },
        });
        let spec = json!({"properties": {
            "ports": {
                "type": "array",
                "items": {"allOf": [{"$ref": "#/components/schemas/core.Port"}], "default": {}},
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["port", "protocol"],
            },
            "selector": {"additionalProperties": {"type": "string"}, "x-kubernetes-map-type": "atomic"},
            "externalIPs": {"items": {"type": "string"}, "x-kubernetes-list-type": "atomic"},
            "free": {"type": "object", "additionalProperties": true},
        }});
        let service = json!({
            "properties": {"spec": {"allOf": [{"$ref": "#/components/schemas/core.Spec"}]}},
            "x-kubernetes-group-version-kind": [{"group": "", "version": "v1", "kind": "Service"}],
        });
        let schemas = json!({"core.Service": service, "core.Spec": spec, "core.Port": port});
        let document = json!({"openapi": "3.0.0", "components": {"schemas": schemas}});
        Document::parse(&document.to_string()).unwrap()
    }

    #[test]
    fn list_types_and_keys_come_from_the_document() {
        let document = document();
        let shape = document.shape(&Kind::of::<Service>()).unwrap();
        let spec = shape.field("spec").unwrap();
        let ports = spec.field("ports").unwrap().list_type();
        let (zero, tcp) = (json!(0), json!("TCP"));
        let keys = vec![("port", Some(&zero)), ("protocol", Some(&tcp))];
        assert_eq!(ports, ListType::Map(keys));
        let ips = spec.field("externalIPs").unwrap();
        assert_eq!(ips.list_type(), ListType::Atomic);
        assert!(spec.field("selector").unwrap().is_atomic_map());
        assert!(!spec.is_atomic_map());
    }

    #[rstest]
    #[case::by_key(json!({"x-kubernetes-patch-strategy": "merge", "x-kubernetes-patch-merge-key": "name"}), ListType::Map(vec![("name", None)]))]
    #[case::by_value(json!({"x-kubernetes-patch-strategy": "merge"}), ListType::Set)]
    #[case::of_volumes(json!({"x-kubernetes-patch-strategy": "merge,retainKeys", "x-kubernetes-patch-merge-key": "name"}), ListType::Map(vec![("name", None)]))]
    #[case::as_a_whole(json!({"x-kubernetes-patch-strategy": "retainKeys"}), ListType::Atomic)]
    #[case::the_type_decides(json!({"x-kubernetes-patch-strategy": "merge", "x-kubernetes-list-type": "atomic"}), ListType::Atomic)]
    fn a_list_without_a_type_is_merged_by_patch_strategy(
        #[case] list: Value,
        #[case] expected: ListType<'_>,
    ) {
        let schema = json!({"properties": {"list": list}});
        let document = json!({"components": {"schemas": {ANY: schema}}}).to_string();
        let document = Document::parse(&document).unwrap();
        let shape = document.shape(&Kind::of::<Service>()).unwrap();
        assert_eq!(shape.field("list").unwrap().list_type(), expected);
    }

    #[test]
    fn an_unknown_field_or_kind_has_no_shape() {
        let document = document();
        let spec = document
            .shape(&Kind::of::<Service>())
            .unwrap()
            .field("spec");
        let spec = spec.unwrap();
        assert!(spec.field("missing").is_none());
        assert!(spec.field("free").unwrap().field("anything").is_none());
        assert!(spec.element().is_none());
        let pod = Kind::of::<k8s_openapi::api::core::v1::Pod>();
        assert!(document.shape(&pod).is_none());
    }

    #[test]
    fn a_reference_to_itself_ends() {
        let own = json!({"$ref": "#/components/schemas/a"});
        let document = json!({"components": {"schemas": {"a": own}}}).to_string();
        let document = Document::parse(&document).unwrap();
        let schema = &document.components.schemas["a"];
        assert!(document.resolve(schema).is_none());
    }

    #[test]
    fn metadata_has_a_shape_without_a_server() {
        let document = Document::of_metadata();
        let shape = document.shape(&Kind::of::<Service>()).unwrap();
        let metadata = shape.field("metadata").unwrap();
        let owners = metadata.field("ownerReferences").unwrap().list_type();
        assert_eq!(owners, ListType::Map(vec![("uid", None)]));
        let finalizers = metadata.field("finalizers").unwrap();
        assert_eq!(finalizers.list_type(), ListType::Set);
    }
}

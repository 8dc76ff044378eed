//! A field that is removed from JSON bodies, as if the server did not have it yet.

use bytes::Bytes;
use serde_json::Value;

/// The path of a field: `spec.ordinals`, or as a JSON pointer, `/metadata/annotations/a.b~1c`.
///
/// It goes through arrays without an index: `spec.containers.image` is the image of each container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FieldPath(Vec<String>);

impl FieldPath {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let segments: Vec<String> = match text.strip_prefix('/') {
            Some(pointer) => pointer.split('/').map(unescaped).collect(),
            None => text.split('.').map(str::to_owned).collect(),
        };
        if segments.iter().any(String::is_empty) {
            return Err(format!(
                "{text:?} is no field; write spec.ordinals, or a JSON pointer"
            ));
        }
        Ok(Self(segments))
    }

    /// The text without the field; `None` if it is not JSON.
    pub(super) fn strip(&self, text: &[u8]) -> Option<Bytes> {
        let mut body = serde_json::from_slice(text).ok()?;
        self.strip_body(&mut body);
        Some(body.to_string().into())
    }

    /// | body          | where the field is                      |
    /// |---------------|-----------------------------------------|
    /// | object, patch | at the path                             |
    /// | list          | at the path in each of `items`          |
    /// | watch event   | at the path in `object`                 |
    /// | JSON patch    | in operations at, below or above it     |
    fn strip_body(&self, body: &mut Value) {
        if let Value::Array(operations) = body {
            operations.retain_mut(|operation| self.strip_operation(operation));
            return;
        }
        remove(body, &self.0);
        if let Some(items) = body.get_mut("items") {
            remove(items, &self.0);
        }
        if body.get("type").is_some()
            && let Some(object) = body.get_mut("object")
        {
            self.strip_body(object);
        }
    }

    /// Whether the operation of a JSON patch remains.
    fn strip_operation(&self, operation: &mut Value) -> bool {
        let Some(pointer) = operation["path"].as_str() else {
            return true;
        };
        let is_index = |part: &String| part == "-" || part.bytes().all(|one| one.is_ascii_digit());
        let path: Vec<String> = pointer
            .split('/')
            .skip(1)
            .map(unescaped)
            .filter(|part| !is_index(part))
            .collect();
        if path.starts_with(&self.0) {
            return false;
        }
        if let Some(below) = self.0.strip_prefix(&*path)
            && let Some(value) = operation.get_mut("value")
        {
            remove(value, below);
        }
        true
    }
}

/// The part of a JSON pointer without its escapes (RFC 6901).
fn unescaped(part: &str) -> String {
    part.replace("~1", "/").replace("~0", "~")
}

fn remove(value: &mut Value, path: &[String]) {
    match (value, path) {
        (Value::Array(all), path) => all.iter_mut().for_each(|one| remove(one, path)),
        (Value::Object(fields), [last]) => drop(fields.remove(last)),
        (Value::Object(fields), [first, below @ ..]) => {
            if let Some(inner) = fields.get_mut(first) {
                remove(inner, below);
            }
        }
        (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_), _)
        | (Value::Object(_), []) => {}
    }
}

/// Strips the events of a watch, one per line, as they arrive in pieces.
#[derive(Debug)]
pub(super) struct WatchStrip {
    field: FieldPath,
    /// The beginning of an event whose end has not arrived.
    partial: Vec<u8>,
}

impl WatchStrip {
    pub(super) fn new(field: FieldPath) -> Self {
        Self {
            field,
            partial: Vec::new(),
        }
    }

    /// The events that are complete with this piece.
    pub(super) fn push(&mut self, piece: &[u8]) -> Bytes {
        self.partial.extend_from_slice(piece);
        let Some(end) = self.partial.iter().rposition(|byte| *byte == b'\n') else {
            return Bytes::new();
        };
        let next = self.partial.split_off(end + 1);
        let complete = std::mem::replace(&mut self.partial, next);
        let mut stripped = Vec::with_capacity(complete.len());
        for event in complete.split_inclusive(|byte| *byte == b'\n') {
            match self.field.strip(event) {
                Some(event) => {
                    stripped.extend_from_slice(&event);
                    stripped.push(b'\n');
                }
                None => stripped.extend_from_slice(event),
            }
        }
        stripped.into()
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn ordinals() -> FieldPath {
        FieldPath::parse("spec.ordinals").expect("it is a field")
    }

    #[rstest]
    #[case::object(json!({"spec": {"ordinals": 1, "replicas": 2}}), json!({"spec": {"replicas": 2}}))]
    #[case::absent(json!({"spec": {"replicas": 2}}), json!({"spec": {"replicas": 2}}))]
    #[case::no_object(json!({"spec": 1}), json!({"spec": 1}))]
    #[case::list(
        json!({"items": [{"spec": {"ordinals": 1}}, {"spec": {}}]}),
        json!({"items": [{"spec": {}}, {"spec": {}}]})
    )]
    #[case::watch_event(
        json!({"type": "ADDED", "object": {"spec": {"ordinals": 1}}}),
        json!({"type": "ADDED", "object": {"spec": {}}})
    )]
    #[case::operation_at_it(
        json!([{"op": "add", "path": "/spec/ordinals", "value": 1}, {"op": "remove", "path": "/spec/x"}]),
        json!([{"op": "remove", "path": "/spec/x"}])
    )]
    #[case::operation_below_it(json!([{"op": "add", "path": "/spec/ordinals/start", "value": 1}]), json!([]))]
    #[case::operation_above_it(
        json!([{"op": "replace", "path": "/spec", "value": {"ordinals": 1, "a": 2}}]),
        json!([{"op": "replace", "path": "/spec", "value": {"a": 2}}])
    )]
    fn a_field_is_removed(#[case] mut body: Value, #[case] without: Value) {
        ordinals().strip_body(&mut body);
        assert_eq!(body, without);
    }

    #[test]
    fn a_path_goes_through_arrays() {
        let image = FieldPath::parse("spec.containers.image").expect("it is a field");
        let mut pod = json!({"spec": {"containers": [{"image": "a"}, {"name": "b"}]}});
        image.strip_body(&mut pod);
        assert_eq!(pod, json!({"spec": {"containers": [{}, {"name": "b"}]}}));
    }

    #[test]
    fn a_pointer_names_a_key_with_dots() {
        let path = FieldPath::parse("/metadata/annotations/a.b~1c").expect("it is a field");
        let mut object = json!({"metadata": {"annotations": {"a.b/c": "1", "d": "2"}}});
        path.strip_body(&mut object);
        assert_eq!(object, json!({"metadata": {"annotations": {"d": "2"}}}));
    }

    #[test]
    fn an_empty_segment_is_refused() {
        for text in ["", "spec.", "spec..a", "/"] {
            assert!(FieldPath::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn events_are_stripped_wherever_the_pieces_end() {
        let events = concat!(
            r#"{"object":{"spec":{"ordinals":1}},"type":"ADDED"}"#,
            "\n",
            r#"{"object":{"spec":{"a":"ü"}},"type":"MODIFIED"}"#,
            "\n",
        );
        let without = events.replace(r#""ordinals":1"#, "");
        for size in 1..events.len() {
            let mut strip = WatchStrip::new(ordinals());
            let pieces = events
                .as_bytes()
                .chunks(size)
                .map(|piece| strip.push(piece));
            let all: Vec<u8> = pieces.collect::<Vec<_>>().concat();
            assert_eq!(String::from_utf8_lossy(&all), without, "pieces of {size}");
        }
    }
}

//! The schema of the chart's values, read from `values.yaml` itself.
//!
//! The type of a value is that of its default; a map with keys accepts no other keys; `null` and the
//! contents of an empty map or list may have any type. The comment right above a key describes it, and
//! its last line may add to the schema of that key: `schema: {"minimum": 1}`.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// The text of `values.schema.json` for the text of `values.yaml`.
pub(crate) fn schema(values: &str) -> Result<String, String> {
    let defaults: Value = serde_saphyr::from_str(values).map_err(|error| error.to_string())?;
    let mut schema = typed(&defaults, &comments(values), "")?;
    // Helm passes `global` to every subchart, so this chart must accept it.
    schema["properties"]["global"] = json!({ "type": "object" });
    schema["$schema"] = json!("http://json-schema.org/draft-07/schema#");
    let text = serde_json::to_string_pretty(&schema).map_err(|error| error.to_string())?;
    Ok(text + "\n")
}

fn typed(
    value: &Value,
    comments: &BTreeMap<String, Vec<String>>,
    path: &str,
) -> Result<Value, String> {
    let mut schema = match value {
        Value::Null => json!({}),
        Value::Bool(_) => json!({ "type": "boolean" }),
        Value::Number(number) if number.is_f64() => json!({ "type": "number" }),
        Value::Number(_) => json!({ "type": "integer" }),
        Value::String(_) => json!({ "type": "string" }),
        Value::Array(_) => json!({ "type": "array" }),
        Value::Object(map) if map.is_empty() => json!({ "type": "object" }),
        Value::Object(map) => {
            let mut properties = Map::new();
            for (key, value) in map {
                properties.insert(
                    key.clone(),
                    typed(value, comments, &format!("{path}/{key}"))?,
                );
            }
            json!({ "type": "object", "additionalProperties": false, "properties": properties })
        }
    };
    for line in comments.get(path).into_iter().flatten() {
        if let Some(more) = line.strip_prefix("schema:") {
            let more: Map<String, Value> = serde_json::from_str(more)
                .map_err(|error| format!("the schema comment above {path}: {error}"))?;
            schema
                .as_object_mut()
                .expect("a schema is an object")
                .extend(more);
        } else {
            let before = schema["description"]
                .as_str()
                .map(|text| format!("{text} "))
                .unwrap_or_default();
            schema["description"] = json!(before + line);
        }
    }
    Ok(schema)
}

/// The comment lines right above each key, by the key's path.
fn comments(values: &str) -> BTreeMap<String, Vec<String>> {
    let mut found = BTreeMap::new();
    let mut above: Vec<String> = Vec::new();
    let mut parents: Vec<(usize, String)> = Vec::new();
    for line in values.lines() {
        let text = line.trim_start();
        let depth = line.len() - text.len();
        if let Some(comment) = text.strip_prefix('#') {
            above.push(comment.trim().to_owned());
            continue;
        }
        let lines = std::mem::take(&mut above);
        let Some((key, _)) = text.split_once(':').filter(|(key, _)| is_key(key)) else {
            continue;
        };
        parents.retain(|(indent, _)| *indent < depth);
        parents.push((depth, key.to_owned()));
        let path = parents
            .iter()
            .flat_map(|(_, key)| ["/", key])
            .collect::<String>();
        let lines: Vec<_> = lines.into_iter().filter(|line| !line.is_empty()).collect();
        found.insert(path, lines);
    }
    found
}

fn is_key(text: &str) -> bool {
    !text.is_empty()
        && text
            .chars()
            .all(|c| c.is_alphanumeric() || "_-./".contains(c))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::schema;

    fn read(values: &str) -> Value {
        serde_json::from_str(&schema(values).unwrap()).unwrap()
    }

    #[test]
    fn a_value_has_the_type_of_its_default() {
        let schema = read("a: 1\nb: x\nc: true\nd: []\ne: {}\nf: null\ng: 0.5\n");
        let types = ["a", "b", "c", "d", "e", "f", "g"]
            .map(|key| schema["properties"][key]["type"].clone());
        let expected = [
            "integer", "string", "boolean", "array", "object", "", "number",
        ];
        assert_eq!(
            types,
            expected.map(|name| if name.is_empty() {
                Value::Null
            } else {
                json!(name)
            })
        );
    }

    #[test]
    fn an_unknown_key_is_refused_where_keys_are_known() {
        let schema = read("features:\n  vault: true\nlabels: {}\n");
        assert_eq!(
            schema["properties"]["features"]["additionalProperties"],
            json!(false)
        );
        assert_eq!(
            schema["properties"]["labels"].get("additionalProperties"),
            None
        );
    }

    #[test]
    fn the_comment_above_a_key_describes_it() {
        let schema = read(
            "# One leads,\n# the others wait.\n# schema: {\"minimum\": 1}\nreplicas: 2\n\nother: 1\n",
        );
        let replicas = &schema["properties"]["replicas"];
        assert_eq!(
            replicas["description"],
            json!("One leads, the others wait.")
        );
        assert_eq!(replicas["minimum"], json!(1));
        assert_eq!(schema["properties"]["other"].get("description"), None);
    }

    #[test]
    fn a_nested_key_does_not_get_the_comment_of_another() {
        let schema = read("a:\n  # of a\n  x: 1\nb:\n  x: 1\n");
        assert_eq!(
            schema["properties"]["a"]["properties"]["x"]["description"],
            json!("of a")
        );
        assert_eq!(
            schema["properties"]["b"]["properties"]["x"].get("description"),
            None
        );
    }

    #[test]
    fn a_broken_schema_comment_names_its_key() {
        let error = schema("# schema: {oops\na: 1\n").unwrap_err();
        assert!(error.contains("above /a"), "{error}");
    }
}

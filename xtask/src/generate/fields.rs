//! The fields of a kind as a table, read from its CRD.

use serde_json::Value;

/// One kind as a section of Markdown; `None` if the document is not a CRD.
pub(crate) fn section(crd: &Value) -> Option<String> {
    if crd["kind"] != "CustomResourceDefinition" {
        return None;
    }
    let spec = &crd["spec"];
    let kind = spec["names"]["kind"].as_str()?;
    let (group, scope) = (spec["group"].as_str()?, spec["scope"].as_str()?);
    let mut lines = vec![format!("## {kind}")];
    for version in spec["versions"].as_array()? {
        let schema = &version["schema"]["openAPIV3Schema"];
        let name = version["name"].as_str()?;
        let about = schema["description"]
            .as_str()
            .map(one_line)
            .unwrap_or_default();
        let about = format!("`{group}/{name}`, {}. {about}", scope.to_lowercase());
        lines.extend([String::new(), about.trim_end().to_owned(), String::new()]);
        lines.push("| field | type | required | meaning |\n|---|---|---|---|".to_owned());
        for part in ["spec", "status"] {
            if let Some(schema) = schema["properties"].get(part) {
                rows(part, schema, false, &mut lines);
            }
        }
    }
    Some(lines.join("\n") + "\n")
}

fn rows(path: &str, schema: &Value, required: bool, lines: &mut Vec<String>) {
    let meaning = schema["description"]
        .as_str()
        .map(one_line)
        .unwrap_or_default();
    let (name, required) = (type_name(schema), if required { "yes" } else { "" });
    lines.push(format!("| `{path}` | {name} | {required} | {meaning} |"));
    let needed = schema["required"].as_array();
    let is_needed = |name: &str| needed.is_some_and(|names| names.iter().any(|each| each == name));
    for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
        rows(&format!("{path}.{name}"), schema, is_needed(name), lines);
    }
    below(&format!("{path}[]"), &schema["items"], lines);
    below(&format!("{path}.*"), &schema["additionalProperties"], lines);
}

/// Rows for the elements of a list or a map, if they have fields.
fn below(path: &str, schema: &Value, lines: &mut Vec<String>) {
    for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
        rows(&format!("{path}.{name}"), schema, false, lines);
    }
}

fn type_name(schema: &Value) -> String {
    if schema["x-kubernetes-int-or-string"] == true {
        return "integer or string".to_owned();
    }
    let name = match schema["type"].as_str() {
        Some("array") => format!("list of {}", type_name(&schema["items"])),
        Some("object") if schema["additionalProperties"].is_object() => {
            format!("map of {}", type_name(&schema["additionalProperties"]))
        }
        Some(name) => name.to_owned(),
        None => "any".to_owned(),
    };
    let values = schema["enum"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str);
    let values: Vec<_> = values.map(|value| format!("`{value}`")).collect();
    if values.is_empty() {
        name
    } else {
        values.join(", ")
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
        .replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::section;

    #[test]
    fn every_field_has_a_row_with_type_and_need() {
        let crd = json!({
            "kind": "CustomResourceDefinition",
            "spec": {
                "group": "x.io", "scope": "Namespaced", "names": { "kind": "Thing" },
                "versions": [{ "name": "v1", "schema": { "openAPIV3Schema": {
                    "description": "A thing\nof ours.",
                    "properties": { "spec": { "type": "object", "required": ["size"], "properties": {
                        "size": { "type": "integer", "description": "How a|b big." },
                        "mode": { "type": "string", "enum": ["Keep", "Drop"] },
                        "tags": { "type": "object", "additionalProperties": { "type": "string" } },
                        "parts": { "type": "array", "items": { "type": "object",
                            "properties": { "name": { "type": "string" } } } },
                    }}},
                }}}],
            },
        });
        let text = section(&crd).unwrap();
        assert!(
            text.starts_with("## Thing\n\n`x.io/v1`, namespaced. A thing of ours.\n"),
            "{text}"
        );
        for row in [
            "| `spec.size` | integer | yes | How a\\|b big. |",
            "| `spec.mode` | `Keep`, `Drop` |  |  |",
            "| `spec.tags` | map of string |  |  |",
            "| `spec.parts` | list of object |  |  |",
            "| `spec.parts[].name` | string |  |  |",
        ] {
            assert!(text.lines().any(|line| line == row), "no {row} in\n{text}");
        }
    }

    #[test]
    fn a_document_that_is_not_a_crd_has_no_section() {
        assert_eq!(section(&json!({ "kind": "ClusterRole" })), None);
    }
}

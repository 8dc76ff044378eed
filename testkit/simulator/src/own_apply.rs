//! Server-side apply of the object itself, as far as kinds use it: maps, whole lists, finalizers one by one.
//!
//! What a manager applied is in its entry in managedFields, as its last body.

use kernel::{CallError, Class};
use serde_json::{Map, Value, json};

type Path = Vec<String>;

/// `object` after an apply of `body`.
///
/// # Errors
/// `Conflict` if others changed a field and `force` is false.
pub(crate) fn applied(
    object: &Value,
    manager: &str,
    body: &Value,
    force: bool,
) -> Result<Value, CallError> {
    let (mut ours, mut others) = (json!({}), Vec::new());
    let entries = object["metadata"]["managedFields"].as_array();
    for entry in entries.into_iter().flatten() {
        if entry["manager"] == manager {
            ours = entry["fieldsV1"].clone();
        } else {
            others.push(entry.clone());
        }
    }
    let (desired, before) = (fields(body), fields(&ours));
    let mut after = object.clone();
    for (path, value) in &desired {
        let owner = others.iter().find(|entry| {
            let theirs = fields(&entry["fieldsV1"]);
            theirs
                .iter()
                .any(|(other, theirs)| other == path && theirs != value)
        });
        let was_ours = before.iter().find(|(other, _)| other == path);
        let is_edited =
            was_ours.is_some_and(|(_, before)| at(object, path).as_ref() != Some(before));
        let differs = at(object, path).as_ref() != Some(value);
        if differs && !force && (owner.is_some() || is_edited) {
            let message = format!("another manager owns {}", path.join("."));
            return Err(CallError::new(Class::Conflict, message));
        }
        set(&mut after, path, Some(value.clone()));
    }
    for entry in &mut others {
        for (path, value) in &desired {
            let theirs = fields(&entry["fieldsV1"]);
            if theirs
                .iter()
                .any(|(other, theirs)| other == path && theirs != value)
            {
                set(&mut entry["fieldsV1"], path, None);
            }
        }
    }
    let is_desired = |path: &Path| desired.iter().any(|(other, _)| other == path);
    let is_theirs = |path: &Path| {
        let mut theirs = others.iter().flat_map(|entry| fields(&entry["fieldsV1"]));
        theirs.any(|(other, _)| other == *path)
    };
    for (path, _) in &before {
        if !is_desired(path) && !is_theirs(path) {
            set(&mut after, path, None);
        }
    }
    others.push(json!({"manager": manager, "operation": "Apply", "fieldsV1": body}));
    others.sort_by_key(|entry| entry["manager"].to_string());
    after["metadata"]["managedFields"] = others.into();
    Ok(after)
}

/// The smallest parts that a manager owns.
fn fields(body: &Value) -> Vec<(Path, Value)> {
    let mut found = Vec::new();
    collect(&mut Vec::new(), body, &mut found);
    found
}

fn collect(path: &mut Path, value: &Value, found: &mut Vec<(Path, Value)>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                path.push(name.clone());
                collect(path, value, found);
                path.pop();
            }
        }
        Value::Array(finalizers) if *path == ["metadata", "finalizers"] => {
            for finalizer in finalizers {
                let mut path = path.clone();
                path.extend(finalizer.as_str().map(str::to_owned));
                found.push((path, finalizer.clone()));
            }
        }
        Value::Array(_) | Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            found.push((path.clone(), value.clone()));
        }
    }
}

fn at(object: &Value, path: &[String]) -> Option<Value> {
    let mut value = object;
    for name in path {
        value = match value {
            Value::Array(finalizers) => finalizers.iter().find(|one| *one == name)?,
            value => value.get(name)?,
        };
    }
    Some(value.clone())
}

fn set(object: &mut Value, path: &[String], to: Option<Value>) {
    match path {
        [metadata, finalizers, finalizer]
            if metadata == "metadata" && finalizers == "finalizers" =>
        {
            let all = &mut object[metadata][finalizers];
            let mut list = all.as_array().cloned().unwrap_or_default();
            if to.is_none() {
                list.retain(|one| one != finalizer);
            } else if list.iter().all(|one| one != finalizer) {
                list.extend(to);
            }
            *all = list.into();
        }
        [name] => {
            let fields = object.as_object_mut();
            match (fields, to) {
                (Some(fields), Some(value)) => drop(fields.insert(name.clone(), value)),
                (Some(fields), None) => drop(fields.remove(name)),
                (None, Some(value)) => object[name] = value,
                (None, None) => {}
            }
        }
        [name, below @ ..] => {
            if object[name].is_null() {
                object[name] = Value::Object(Map::new());
            }
            set(&mut object[name], below, to);
        }
        [] => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(labels: Value) -> Value {
        json!({"metadata": {"labels": labels, "finalizers": ["f"]}})
    }

    fn object() -> Value {
        json!({"metadata": {"labels": {"theirs": "1"}, "finalizers": ["g"]}})
    }

    #[test]
    fn an_equal_apply_changes_nothing() {
        let once = applied(&object(), "us", &labels(json!({"a": "1"})), false).unwrap();
        let metadata = &once["metadata"];
        assert_eq!(metadata["labels"], json!({"theirs": "1", "a": "1"}));
        assert_eq!(metadata["finalizers"], json!(["g", "f"]));
        let twice = applied(&once, "us", &labels(json!({"a": "1"})), false).unwrap();
        assert_eq!(twice["metadata"]["labels"], metadata["labels"]);
        assert_eq!(
            applied(&twice, "us", &labels(json!({"a": "1"})), false),
            Ok(twice)
        );
    }

    #[test]
    fn a_field_that_is_no_longer_applied_goes() {
        let once = applied(&object(), "us", &labels(json!({"a": "1", "b": "1"})), false).unwrap();
        let shared = applied(&once, "them", &labels(json!({"b": "1"})), false).unwrap();
        let fewer = applied(&shared, "us", &json!({"metadata": {"labels": {}}}), false).unwrap();
        assert_eq!(
            fewer["metadata"]["labels"],
            json!({"theirs": "1", "b": "1"})
        );
        assert_eq!(fewer["metadata"]["finalizers"], json!(["g", "f"]));
    }

    #[test]
    fn a_field_of_another_manager_is_a_conflict_unless_forced() {
        let theirs = applied(&object(), "them", &labels(json!({"a": "1"})), false).unwrap();
        let ours = labels(json!({"a": "2"}));
        let error = applied(&theirs, "us", &ours, false).unwrap_err();
        assert_eq!(error.class, Class::Conflict);
        let forced = applied(&theirs, "us", &ours, true).unwrap();
        assert_eq!(forced["metadata"]["labels"]["a"], "2");
        let mut edited = forced;
        edited["metadata"]["labels"]["a"] = json!("3");
        assert!(applied(&edited, "us", &ours, false).is_err());
    }
}

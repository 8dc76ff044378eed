//! A mapping of the document that has only fields which may be there.

use serde_json::{Map, Value};

use super::fields::{Fields, allowed};
use crate::RefusedKubeconfig;

/// A mapping and its path, without fields that are refused.
#[derive(Clone)]
pub(super) struct Section<'d> {
    path: String,
    /// None if the mapping is missing.
    fields: Option<&'d Map<String, Value>>,
}

/// An entry of `clusters`, `contexts` or `users`.
pub(super) struct Named<'d> {
    name: &'d str,
    /// What has the name.
    pub(super) section: Section<'d>,
}

impl<'d> Section<'d> {
    /// The mapping `value` at `path`, which may have `fields`.
    pub(super) fn new(
        path: String,
        value: &'d Value,
        fields: Fields,
    ) -> Result<Self, RefusedKubeconfig> {
        let Value::Object(found) = value else {
            let field = if path.is_empty() {
                "the kubeconfig".to_owned()
            } else {
                path
            };
            return Err(RefusedKubeconfig::new(
                field,
                "is not a mapping",
                "write fields with values there",
            ));
        };
        let section = Self {
            path,
            fields: Some(found),
        };
        for (name, value) in found {
            allowed(fields, |name| section.path_of(name), name, value)?;
        }
        Ok(section)
    }

    /// The path of its field `name`; an empty name gives its own.
    pub(super) fn path_of(&self, name: &str) -> String {
        match (self.path.as_str(), name) {
            ("", name) => name.to_owned(),
            (path, "") => path.to_owned(),
            (path, name) => format!("{path}.{name}"),
        }
    }

    /// A refusal of its field `name`.
    pub(super) fn refused(
        &self,
        name: &str,
        why: &'static str,
        instead: &'static str,
    ) -> RefusedKubeconfig {
        RefusedKubeconfig::new(self.path_of(name), why, instead)
    }

    fn value(&self, name: &str) -> Option<&'d Value> {
        let value = self.fields?.get(name)?;
        Some(value).filter(|value| !value.is_null())
    }

    /// The text of a field. One that is empty is absent, as for kubectl.
    pub(super) fn text(&self, name: &str) -> Result<Option<&'d str>, RefusedKubeconfig> {
        match self.value(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.as_str()).filter(|text| !text.is_empty())),
            Some(_) => Err(self.refused(name, "is not text", "put the value into quotes")),
        }
    }

    /// The text of a field that must be there.
    pub(super) fn required(
        &self,
        name: &str,
        instead: &'static str,
    ) -> Result<&'d str, RefusedKubeconfig> {
        self.text(name)?
            .ok_or_else(|| self.refused(name, "is missing", instead))
    }

    /// The entries of the list `list`, of which each has a name and the mapping `inner`.
    pub(super) fn entries(
        &self,
        list: &str,
        entry: Fields,
        inner: &str,
        fields: Fields,
    ) -> Result<Vec<Named<'d>>, RefusedKubeconfig> {
        let values: &[Value] = match self.value(list) {
            None => &[],
            Some(Value::Array(values)) => values.as_slice(),
            Some(_) => {
                return Err(self.refused(list, "is not a list", "write a list of named entries"));
            }
        };
        let mut entries: Vec<Named<'d>> = Vec::with_capacity(values.len());
        for (at, value) in values.iter().enumerate() {
            let entry = Section::new(self.path_of(&format!("{list}[{at}]")), value, entry)?;
            let name = entry.required("name", "name the entry")?;
            if entries.iter().any(|earlier| earlier.name == name) {
                return Err(entry.refused(
                    "name",
                    "is the name of an earlier entry too",
                    "give each entry a name of its own",
                ));
            }
            let path = entry.path_of(inner);
            let section = match entry.value(inner) {
                Some(value) => Section::new(path, value, fields)?,
                None => Section { path, fields: None },
            };
            entries.push(Named { name, section });
        }
        Ok(entries)
    }

    /// The one of `entries` that the field `name` names.
    pub(super) fn named(
        &self,
        name: &str,
        entries: &[Named<'d>],
    ) -> Result<Section<'d>, RefusedKubeconfig> {
        const NAME: &str = "write the name of an entry of this document";
        let wanted = self.required(name, NAME)?;
        let found = entries.iter().find(|entry| entry.name == wanted);
        let found = found.map(|entry| entry.section.clone());
        found.ok_or_else(|| self.refused(name, "names no entry of this document", NAME))
    }
}

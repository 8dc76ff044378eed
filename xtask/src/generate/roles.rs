//! The documents of `pontoon rbac` as a template of the chart.

use std::collections::BTreeMap;

use serde_json::Value;

/// The text of a feature's documents with the names and lists of the release:
///
/// | document                                   | in the template                                |
/// |--------------------------------------------|------------------------------------------------|
/// | named `pontoon-<part>`                     | as printed: the chart renders roles from it    |
/// | a name that begins with `pontoon-<part>-`  | with the name of the release in place of both  |
/// | the namespace is a list among the values   | repeated for each namespace of the list        |
/// | named like such a one, for the cluster     | as printed, if the list is empty               |
///
/// # Errors
/// If a document has another name, or if `values` does not have its list.
pub(super) fn template(part: &str, documents: &[&str], values: &str) -> Result<String, String> {
    let values: Value = serde_saphyr::from_str(values).map_err(|error| error.to_string())?;
    let own = format!("pontoon-{part}");
    let prefix = format!("{own}-");
    let mut parts: Vec<String> = Vec::new();
    let mut lists = BTreeMap::new();
    for document in documents {
        let object: Value = serde_saphyr::from_str(document).map_err(|error| error.to_string())?;
        let field = |name: &str| object["metadata"][name].as_str().unwrap_or_default();
        let (name, namespace) = (field("name"), field("namespace"));
        if name != own && !name.starts_with(&prefix) {
            return Err(format!(
                "{name}: objects of {part} are named {own}, or begin with {prefix}"
            ));
        }
        let release = format!("{{{{ include \"pontoon.fullname\" . }}}}-{part}-");
        let document = document.replace(&prefix, &release);
        if let Some(list) = lists.get(name).filter(|_| namespace.is_empty()) {
            parts.push(format!(
                "\n{{{{- if not .Values.{list} }}}}\n---\n{document}\n{{{{- end }}}}"
            ));
            continue;
        }
        // The names of namespaces have no dots.
        if !namespace.contains('.') {
            let separator = if parts.is_empty() { "" } else { "\n---\n" };
            parts.push(format!("{separator}{document}"));
            continue;
        }
        let list = values.pointer(&format!("/{}", namespace.replace('.', "/")));
        if !list.is_some_and(Value::is_array) {
            return Err(format!(
                "{name}: values.yaml has no list {namespace}; add it"
            ));
        }
        lists.insert(name.to_owned(), namespace.to_owned());
        let line = |namespace: &str| format!("\n  namespace: {namespace}\n");
        let document = document.replacen(&line(namespace), &line("{{ $namespace | quote }}"), 1);
        // `range` changes the dot, and the document needs that of the chart.
        parts.push(format!(
            "\n{{{{- range $namespace := .Values.{namespace} | default list | uniq }}}}{{{{ with $ }}}}\n\
             ---\n{document}\n{{{{- end }}}}{{{{ end }}}}"
        ));
    }
    Ok(parts.concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::{documents, templated};

    /// What `pontoon rbac` prints for a feature with every kind of permission.
    const PRINTED: &str = include_str!("../../../pontoon/src/print/made_up.yaml");
    const TEMPLATE: &str = include_str!("made_up.yaml");
    const VALUES: &str = "harbour:\n  pilotNamespaces: []\n";

    #[test]
    fn roles_have_the_names_and_lists_of_the_release() {
        let text = template("harbour", &documents(PRINTED), VALUES).unwrap();
        assert_eq!(templated(&text), TEMPLATE.trim_end());
    }

    #[test]
    fn a_list_that_is_no_value_is_named() {
        let error = template("harbour", &documents(PRINTED), "harbour: {}").unwrap_err();
        let expected =
            "pontoon-harbour-pilots: values.yaml has no list harbour.pilotNamespaces; add it";
        assert_eq!(error, expected);
    }

    #[test]
    fn a_name_that_another_release_could_have_is_refused() {
        let document = "kind: ClusterRole\nmetadata:\n  name: pilots\n";
        let error = template("harbour", &[document], VALUES).unwrap_err();
        assert!(
            error.starts_with("pilots: objects of harbour are named"),
            "{error}"
        );
    }
}

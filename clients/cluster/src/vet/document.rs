//! From bytes to one JSON value.

use serde_json::Value;
use serde_saphyr::Error;
use serde_saphyr::options::{DuplicateKeyPolicy, MergeKeyPolicy};

use super::SIZE_LIMIT;
use crate::RefusedKubeconfig;

/// The path of a refusal that is about no field.
const WHOLE: &str = "the kubeconfig";
/// Extensions may nest; nothing else does below four levels.
const DEPTH: usize = 32;

/// The only document in `kubeconfig`.
///
/// Time and memory are bounded by [`SIZE_LIMIT`]: anchors, aliases and merge keys, with which a small
/// document becomes a large value, are refused. No text of the parser is passed on: it quotes the input.
pub(super) fn read(kubeconfig: &[u8]) -> Result<Value, RefusedKubeconfig> {
    if kubeconfig.len() > SIZE_LIMIT {
        return Err(RefusedKubeconfig::new(
            WHOLE,
            "has more than 64 KiB",
            "write only the cluster and the login that are needed",
        ));
    }
    let text = std::str::from_utf8(kubeconfig).map_err(|_| {
        RefusedKubeconfig::new(WHOLE, "is not UTF-8 text", "store the text of a kubeconfig")
    })?;
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_anchors: 0,
            max_aliases: 0,
            max_depth: DEPTH,
            flow_nesting_limit: DEPTH,
        },
        duplicate_keys: DuplicateKeyPolicy::Error,
        merge_keys: MergeKeyPolicy::Error,
        strict_booleans: true,
        reject_unsupported_tags: true,
        with_snippet: false,
    };
    match serde_saphyr::from_str_with_options(text, options) {
        Ok(Value::Null) => Err(empty()),
        Ok(document) => Ok(document),
        Err(error) => Err(refused(&error)),
    }
}

fn empty() -> RefusedKubeconfig {
    RefusedKubeconfig::new(WHOLE, "is empty", "store the text of a kubeconfig")
}

fn refused(error: &Error) -> RefusedKubeconfig {
    let (why, instead) = match error {
        Error::MultipleDocuments { .. } => (
            "begins a second document",
            "write one document with one current context",
        ),
        Error::DuplicateMappingKey { .. } => (
            "has a field for the second time",
            "write each field once, because readers do not agree which one counts",
        ),
        Error::Budget { .. } | Error::MergeKeyNotAllowed { .. } | Error::UnknownAnchor { .. } => (
            "has an anchor, an alias, a merge key or too many levels",
            "write each value where it belongs",
        ),
        Error::Eof { .. } => return empty(),
        _ => (
            "is not valid YAML",
            "write it as `kubectl config view --raw` prints it",
        ),
    };
    let location = error.location();
    let field = location.map_or_else(
        || WHOLE.to_owned(),
        |location| format!("line {}", location.line()),
    );
    RefusedKubeconfig::new(field, why, instead)
}

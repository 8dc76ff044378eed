//! Whether one value contains all of another.

use std::collections::BTreeMap;

use serde_json::{Map, Number, Value};

use super::path::Path;
use super::rules::{ListKey, ListKind, Rules};

/// Whether `found` contains all of `wanted` at `path`, by the rules there and below.
///
/// Fields that only `found` has do not matter. If it holds in both directions, the two are equal.
pub(super) fn agrees(rules: &Rules, path: &mut Path, wanted: &Value, found: &Value) -> bool {
    match (wanted, found) {
        (Value::Object(wanted), Value::Object(found)) => fields_agree(rules, path, wanted, found),
        (Value::Array(wanted), Value::Array(found)) => lists_agree(rules, path, wanted, found),
        (Value::Number(wanted), Value::Number(found)) => exact(wanted) == exact(found),
        _ => wanted == found,
    }
}

fn fields_agree(
    rules: &Rules,
    path: &mut Path,
    wanted: &Map<String, Value>,
    found: &Map<String, Value>,
) -> bool {
    wanted
        .iter()
        .filter(|(_, value)| !value.is_null())
        .all(|(name, value)| {
            below(path, name.clone(), |path| {
                rules.is_theirs(path)
                    || found
                        .get(name)
                        .is_some_and(|found| agrees(rules, path, value, found))
            })
        })
}

fn lists_agree(rules: &Rules, path: &mut Path, wanted: &[Value], found: &[Value]) -> bool {
    match rules.list(path) {
        Some(ListKind::Map { keys }) => match (by_keys(wanted, keys), by_keys(found, keys)) {
            (Some(wanted), Some(found)) => wanted.into_iter().all(|(identity, value)| {
                below(path, segment(keys, &identity), |path| {
                    rules.is_theirs(path)
                        || found
                            .get(&identity)
                            .is_some_and(|found| agrees(rules, path, value, found))
                })
            }),
            _ => unordered_agree(rules, path, wanted, found),
        },
        Some(ListKind::Set) => {
            let found: Vec<String> = found.iter().map(canonical).collect();
            wanted
                .iter()
                .all(|element| found.contains(&canonical(element)))
        }
        Some(ListKind::Unordered) => unordered_agree(rules, path, wanted, found),
        None => {
            wanted.len() == found.len()
                && wanted
                    .iter()
                    .zip(found)
                    .enumerate()
                    .all(|(index, (wanted, found))| {
                        below(path, index.to_string(), |path| {
                            agrees(rules, path, wanted, found)
                        })
                    })
        }
    }
}

/// Whether each wanted element can be paired with a found one that agrees, with none left over.
fn unordered_agree(rules: &Rules, path: &mut Path, wanted: &[Value], found: &[Value]) -> bool {
    if wanted.len() != found.len() {
        return false;
    }
    // Equal elements can always be paired first, which leaves few to search.
    let mut left: Vec<(String, &Value)> = found
        .iter()
        .map(|value| (canonical(value), value))
        .collect();
    let mut unpaired = Vec::new();
    for value in wanted {
        let text = canonical(value);
        match left.iter().position(|(other, _)| *other == text) {
            Some(index) => drop(left.swap_remove(index)),
            None => unpaired.push(value),
        }
    }
    let fits: Vec<Vec<usize>> = unpaired
        .iter()
        .map(|wanted| {
            let agrees = |found: &Value| {
                below(path, "*".to_owned(), |path| {
                    agrees(rules, path, wanted, found)
                })
            };
            indices(&left, agrees)
        })
        .collect();
    can_be_paired(&fits, left.len())
}

fn indices(left: &[(String, &Value)], mut fits: impl FnMut(&Value) -> bool) -> Vec<usize> {
    (0..left.len())
        .filter(|&index| fits(left[index].1))
        .collect()
}

/// Whether each row can be paired with a different column that it fits: augmenting paths, without
/// recursion so that long lists need no deep stack.
fn can_be_paired(fits: &[Vec<usize>], columns: usize) -> bool {
    let mut taken_by: Vec<Option<usize>> = vec![None; columns];
    for start in 0..fits.len() {
        let mut reached_from: Vec<Option<usize>> = vec![None; columns];
        let mut rows = vec![start];
        let mut free = None;
        while let (Some(row), None) = (rows.pop(), free) {
            for &column in &fits[row] {
                if reached_from[column].is_some() {
                    continue;
                }
                reached_from[column] = Some(row);
                match taken_by[column] {
                    Some(other) => rows.push(other),
                    None => free = Some(column),
                }
            }
        }
        let Some(mut column) = free else { return false };
        while let Some(row) = reached_from[column] {
            let gives_up = taken_by.iter().position(|taken| *taken == Some(row));
            taken_by[column] = Some(row);
            match gives_up {
                Some(previous) => column = previous,
                None => break,
            }
        }
    }
    true
}

/// The values of the keys of one element of a list map, as text.
pub(super) type Identity = Vec<String>;

/// The elements of a list map by their keys; none if one lacks a key or two share all keys.
pub(super) fn keyed<'v>(
    list: &'v Value,
    keys: &[ListKey],
) -> Option<BTreeMap<Identity, &'v Value>> {
    by_keys(list.as_array()?, keys)
}

/// The segment of an element in a path, such as `port=80,protocol=TCP`.
pub(super) fn segment(keys: &[ListKey], identity: &[String]) -> String {
    let pairs = keys.iter().zip(identity);
    let pairs: Vec<_> = pairs
        .map(|(key, value)| format!("{}={value}", key.field))
        .collect();
    pairs.join(",")
}

fn by_keys<'v>(list: &'v [Value], keys: &[ListKey]) -> Option<BTreeMap<Identity, &'v Value>> {
    let mut entries = BTreeMap::new();
    for element in list {
        let identity = keys.iter().map(|key| key_text(element, key));
        if entries
            .insert(identity.collect::<Option<_>>()?, element)
            .is_some()
        {
            return None;
        }
    }
    Some(entries)
}

fn key_text(element: &Value, key: &ListKey) -> Option<String> {
    let value = element.as_object()?.get(&key.field);
    match value.or(key.default.as_ref())? {
        Value::String(text) => Some(text.clone()),
        number @ Value::Number(_) => Some(canonical(number)),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

/// The same text for all notations of the same value.
pub(super) fn canonical(value: &Value) -> String {
    match value {
        Value::Null | Value::Bool(_) | Value::String(_) => value.to_string(),
        Value::Number(number) => match exact(number) {
            Exact::Whole(whole) => whole.to_string(),
            Exact::Fraction(bits) => f64::from_bits(bits).to_string(),
        },
        Value::Array(elements) => {
            let elements: Vec<String> = elements.iter().map(canonical).collect();
            format!("[{}]", elements.join(","))
        }
        Value::Object(fields) => {
            // Sorted here, because a cargo feature of serde_json decides whether the map is sorted.
            let fields: BTreeMap<&String, String> = fields
                .iter()
                .filter(|(_, value)| !value.is_null())
                .map(|(name, value)| (name, canonical(value)))
                .collect();
            let fields: Vec<String> = fields
                .into_iter()
                .map(|(name, value)| format!("{}:{value}", Value::from(name.as_str())))
                .collect();
            format!("{{{}}}", fields.join(","))
        }
    }
}

/// A number without loss: 1 and 1.0 are the same integer, and big integers keep their digits.
#[derive(PartialEq)]
enum Exact {
    Whole(i128),
    Fraction(u64),
}

fn exact(number: &Number) -> Exact {
    if let Some(whole) = number.as_i128() {
        return Exact::Whole(whole);
    }
    let float = number.as_f64().unwrap_or(f64::NAN);
    // Beyond 2^64 no integer of ours compares with it.
    if float.fract() == 0.0 && float.abs() <= 2_f64.powi(64) {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "a whole number well within i128"
        )]
        return Exact::Whole(float as i128);
    }
    Exact::Fraction(float.to_bits())
}

/// Runs `descend` one segment further down.
fn below<T>(path: &mut Path, segment: String, descend: impl FnOnce(&mut Path) -> T) -> T {
    path.push(segment);
    let seen = descend(path);
    path.pop();
    seen
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use serde_json::json;

    fn agree(rules: &Rules, wanted: &Value, found: &Value) -> bool {
        agrees(rules, &mut Path::default(), wanted, found)
    }

    #[test]
    fn numbers_are_compared_exactly_by_value() {
        let rules = Rules::new();
        assert!(agree(&rules, &json!(1), &json!(1.0)));
        assert!(agree(&rules, &json!(0), &json!(-0.0)));
        assert!(!agree(
            &rules,
            &json!(9_007_199_254_740_993_i64),
            &json!(9_007_199_254_740_992_i64)
        ));
        assert!(!agree(
            &rules,
            &json!(9_007_199_254_740_993_i64),
            &json!(9_007_199_254_740_992.0)
        ));
        assert!(!agree(&rules, &json!(u64::MAX), &json!(i64::MAX)));
        assert!(!agree(&rules, &json!(1), &json!("1")));
    }

    #[test]
    fn an_unordered_element_may_take_the_partner_of_another() {
        let rules = Rules::new().unordered("");
        let wanted = json!([{"a": 1}, {"a": 1, "b": 2}]);
        let found = json!([{"a": 1, "b": 2, "x": 0}, {"a": 1, "c": 3}]);
        assert!(agree(&rules, &wanted, &found));
        assert!(!agree(
            &rules,
            &wanted,
            &json!([{"a": 1, "c": 3}, {"a": 1, "c": 3}])
        ));
    }

    #[test]
    fn repeated_elements_are_counted() {
        let rules = Rules::new().unordered("");
        assert!(!agree(&rules, &json!([1, 1, 2]), &json!([1, 2, 2])));
        assert!(agree(&rules, &json!([1, 1, 2]), &json!([2, 1, 1])));
    }

    /// Tries every assignment.
    fn pairs_by_trying(fits: &[Vec<usize>], used: &mut Vec<usize>) -> bool {
        let Some((first, rest)) = fits.split_first() else {
            return true;
        };
        first.iter().any(|&column| {
            if used.contains(&column) {
                return false;
            }
            used.push(column);
            let paired = pairs_by_trying(rest, used);
            used.pop();
            paired
        })
    }

    proptest! {
        #[test]
        fn a_pairing_is_found_if_there_is_one(fits in vec(vec(0..5_usize, 0..4), 0..6)) {
            prop_assert_eq!(can_be_paired(&fits, 5), pairs_by_trying(&fits, &mut vec![]));
        }
    }
}

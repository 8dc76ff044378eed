//! Exact pairs: which roles in Vault admit just the service accounts that were named.
//!
//! A kubernetes role in Vault admits names × namespaces. Where the pairs asked for are no such
//! product, one role would admit strangers; so there is one role for each namespace instead.

use std::collections::{BTreeMap, BTreeSet};

use api::vault::ServiceAccountBinding;

/// A namespace and the name of a service account in it.
pub type Pair = (String, String);

/// Admits nobody: no namespace has this name.
const NOWHERE: &str = "_";

/// Names and namespaces of one role.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Product {
    /// Service accounts of these names
    pub names: BTreeSet<String>,
    /// in these namespaces.
    pub namespaces: BTreeSet<String>,
}

impl Product {
    /// The least product that admits all of `pairs`; one that admits nobody if there are none.
    pub fn over(pairs: &BTreeSet<Pair>) -> Self {
        if pairs.is_empty() {
            let nobody = BTreeSet::from([NOWHERE.to_owned()]);
            return Self {
                names: nobody.clone(),
                namespaces: nobody,
            };
        }
        let (namespaces, names) = pairs.iter().cloned().unzip();
        Self { names, namespaces }
    }

    /// All it admits.
    pub fn pairs(&self) -> BTreeSet<Pair> {
        let namespaces = self
            .namespaces
            .iter()
            .filter(|namespace| *namespace != NOWHERE);
        namespaces
            .flat_map(|ns| {
                self.names
                    .iter()
                    .map(move |name| (ns.clone(), name.clone()))
            })
            .collect()
    }

    /// The same, but only what `pairs` still name.
    fn shrunk(&self, pairs: &BTreeSet<Pair>) -> Option<Self> {
        let names: BTreeSet<_> = pairs.iter().map(|(_, name)| name.clone()).collect();
        let namespaces: BTreeSet<_> = pairs
            .iter()
            .map(|(namespace, _)| namespace.clone())
            .collect();
        let kept = Self {
            names: self.names.intersection(&names).cloned().collect(),
            namespaces: self.namespaces.intersection(&namespaces).cloned().collect(),
        };
        (!kept.names.is_empty() && !kept.namespaces.is_empty()).then_some(kept)
    }
}

/// What a status remembers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recorded {
    /// The role at the base name, if it was written.
    pub base: Option<Product>,
    /// Namespaces that have a role of their own.
    pub split: BTreeSet<String>,
}

/// The roles that are to be.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Roles {
    /// At the base name.
    pub base: Option<Product>,
    /// At `<base>__<namespace>`, with these names.
    pub split: BTreeMap<String, BTreeSet<String>>,
    /// Pairs that get in though nobody named them.
    pub beyond: BTreeSet<Pair>,
}

/// The roles for `pairs`.
///
/// Once split, a namespace keeps its role while it has a pair, and a base role that was recorded
/// stays: an edit elsewhere never breaks a login. `drop_legacy` is the consent to delete a base role
/// that admits more than was asked for.
pub fn roles(
    pairs: &BTreeSet<Pair>,
    recorded: &Recorded,
    binding: Option<ServiceAccountBinding>,
    drop_legacy: bool,
) -> Roles {
    let product = Product::over(pairs);
    if binding == Some(ServiceAccountBinding::Product) {
        let beyond = product.pairs().difference(pairs).cloned().collect();
        return Roles {
            base: Some(product),
            split: BTreeMap::new(),
            beyond,
        };
    }
    let is_product = product.pairs() == *pairs;
    let by_namespace = by_namespace(pairs);
    let split: BTreeMap<_, _> = by_namespace
        .into_iter()
        .filter(|(namespace, _)| !is_product || recorded.split.contains(namespace))
        .collect();
    let base = if is_product {
        Some(product)
    } else {
        let kept = recorded.base.as_ref().and_then(|base| base.shrunk(pairs));
        let exact = kept
            .as_ref()
            .is_none_or(|kept| kept.pairs().is_subset(pairs));
        let dropped = !exact && (drop_legacy || binding == Some(ServiceAccountBinding::Exact));
        kept.filter(|_| !dropped)
    };
    let admitted = base.as_ref().map(Product::pairs).unwrap_or_default();
    Roles {
        beyond: admitted.difference(pairs).cloned().collect(),
        base,
        split,
    }
}

fn by_namespace(pairs: &BTreeSet<Pair>) -> BTreeMap<String, BTreeSet<String>> {
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (namespace, name) in pairs {
        found
            .entry(namespace.clone())
            .or_default()
            .insert(name.clone());
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pairs(text: &str) -> BTreeSet<Pair> {
        let split = |pair: &str| {
            pair.split_once('/')
                .map(|(ns, name)| (ns.to_owned(), name.to_owned()))
        };
        text.split_whitespace().filter_map(split).collect()
    }

    fn product(text: &str) -> Product {
        Product::over(&pairs(text))
    }

    fn exact(text: &str, recorded: &Recorded) -> Roles {
        roles(&pairs(text), recorded, None, false)
    }

    #[test]
    fn a_product_is_one_role() {
        let roles = exact("a/x a/y b/x b/y", &Recorded::default());
        assert_eq!(
            (roles.base, roles.split.len()),
            (Some(product("a/x a/y b/x b/y")), 0)
        );
    }

    #[test]
    fn what_is_no_product_is_a_role_for_each_namespace_and_no_base() {
        let roles = exact("a/x b/y", &Recorded::default());
        assert_eq!(roles.base, None);
        assert_eq!(roles.split.keys().collect::<Vec<_>>(), ["a", "b"]);
        assert!(roles.beyond.is_empty());
    }

    #[test]
    fn a_split_role_stays_while_its_namespace_has_a_pair() {
        let recorded = Recorded {
            base: None,
            split: ["a".to_owned(), "b".to_owned()].into(),
        };
        let roles = exact("a/x", &recorded);
        assert_eq!(
            roles.base,
            Some(product("a/x")),
            "a product again: the base is written too"
        );
        assert_eq!(roles.split.keys().collect::<Vec<_>>(), ["a"]);
    }

    #[test]
    fn a_recorded_base_only_shrinks_and_tells_whom_it_admits_beyond() {
        let recorded = Recorded {
            base: Some(product("a/x a/y b/x b/y")),
            split: BTreeSet::new(),
        };
        let legacy = exact("a/x b/y", &recorded);
        assert_eq!(legacy.base, Some(product("a/x a/y b/x b/y")));
        assert_eq!(legacy.beyond, pairs("a/y b/x"));
        assert_eq!(legacy.split.len(), 2, "exact roles are there already");

        let wanted = pairs("a/x b/y");
        assert_eq!(
            roles(
                &wanted,
                &recorded,
                Some(ServiceAccountBinding::Exact),
                false
            )
            .base,
            None
        );
        assert_eq!(roles(&wanted, &recorded, None, true).base, None);
        let gone = Recorded {
            base: Some(product("c/z")),
            split: BTreeSet::new(),
        };
        assert_eq!(
            exact("a/x b/y", &gone).base,
            None,
            "nothing of it is named any more"
        );
    }

    #[test]
    fn who_accepts_the_product_gets_it_and_is_told() {
        let roles = roles(
            &pairs("a/x b/y"),
            &Recorded::default(),
            Some(ServiceAccountBinding::Product),
            false,
        );
        assert_eq!(roles.base, Some(product("a/x b/y")));
        assert_eq!(roles.beyond, pairs("a/y b/x"));
    }

    #[test]
    fn no_pairs_are_a_role_that_admits_nobody() {
        let base = exact("", &Recorded::default()).base.unwrap();
        assert_eq!(
            (
                base.namespaces.iter().next().map(String::as_str),
                base.pairs().len()
            ),
            (Some("_"), 0)
        );
    }

    fn any_pairs() -> impl Strategy<Value = BTreeSet<Pair>> {
        prop::collection::btree_set(("[a-d]", "[w-z]"), 0..10)
    }

    proptest! {
        #[test]
        fn everyone_named_gets_in_and_nobody_else_unless_told(
            before in any_pairs(), now in any_pairs(), split in prop::collection::btree_set("[a-d]", 0..4), consent in any::<bool>(),
        ) {
            let first = roles(&before, &Recorded::default(), None, false);
            let recorded = Recorded { base: first.base, split: first.split.into_keys().chain(split).collect() };
            let then = roles(&now, &recorded, None, consent);
            let mut admitted: BTreeSet<Pair> = then.base.as_ref().map(Product::pairs).unwrap_or_default();
            for (namespace, names) in &then.split {
                admitted.extend(names.iter().map(|name| (namespace.clone(), name.clone())));
            }
            prop_assert!(now.is_subset(&admitted));
            let strangers: BTreeSet<_> = admitted.difference(&now).cloned().collect();
            prop_assert_eq!(&strangers, &then.beyond);
            prop_assert!(!consent || strangers.is_empty());
        }
    }
}

//! Namespaces that the user lists for `rbac` and `doctor`, as in the values of the chart.

use std::collections::{BTreeMap, BTreeSet};

use clap::{Arg, ArgAction, ArgMatches};
use engine::{Feature, Rbac, Usage};

use crate::cli;

const NAMESPACES: &str = "namespaces-of";
const AS_VALUES: &str = "chart-lists";

/// The namespaces by the value of the chart that lists them.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct ListedByUser {
    namespaces: BTreeMap<String, BTreeSet<String>>,
    /// Each list has its own name as its namespace. `cargo xtask chart` replaces it with the value.
    as_values: bool,
}

/// The flag that lists namespaces.
pub(crate) fn namespaces() -> Arg {
    let help = "Namespaces of a list of the chart: tenants.sourceNamespaces=a,b; may be repeated";
    cli::flag(NAMESPACES, "LIST=NAMES", help).action(ArgAction::Append)
}

/// The flag with which `cargo xtask chart` prints roles.
pub(crate) fn as_values() -> Arg {
    Arg::new(AS_VALUES)
        .long(AS_VALUES)
        .action(ArgAction::SetTrue)
        .hide(true)
}

impl ListedByUser {
    /// Reads the flags. Refuses a list that no feature has.
    pub(crate) fn read(features: &[Box<dyn Feature>], args: &ArgMatches) -> Result<Self, Usage> {
        let roles = features.iter().map(|feature| feature.rbac());
        let valid: Vec<_> = roles
            .flat_map(|rbac| rbac.listed_namespaces)
            .map(|list| list.value)
            .collect();
        let lists = args.get_many::<String>(NAMESPACES).into_iter().flatten();
        let mut listed = Self::parse(lists.map(String::as_str), &valid)?;
        let as_values = args.try_get_one(AS_VALUES).ok().flatten();
        listed.as_values = as_values == Some(&true);
        Ok(listed)
    }

    fn parse<'a>(lists: impl Iterator<Item = &'a str>, valid: &[&str]) -> Result<Self, Usage> {
        let mut namespaces = BTreeMap::<String, BTreeSet<String>>::new();
        for text in lists {
            let (list, names) = text.split_once('=').unwrap_or((text, ""));
            let names: BTreeSet<_> = names.split(',').map(str::to_owned).collect();
            if !valid.contains(&list) || names.contains("") {
                return Err(Usage(format!(
                    "--{NAMESPACES}={text} is not <list>=<namespace>[,<namespace>]; the lists are: {}",
                    valid.join(", ")
                )));
            }
            namespaces.entry(list.to_owned()).or_default().extend(names);
        }
        Ok(Self {
            namespaces,
            as_values: false,
        })
    }

    /// These permissions in the listed namespaces too.
    pub(crate) fn added_to(&self, mut rbac: Rbac) -> Rbac {
        for list in &mut rbac.listed_namespaces {
            if self.as_values {
                list.namespaces = vec![list.value.to_owned()];
                continue;
            }
            let more = self.namespaces.get(list.value).into_iter().flatten();
            list.namespaces.extend(more.cloned());
            list.namespaces.sort();
            list.namespaces.dedup();
        }
        rbac
    }

    /// The flags that list the same.
    pub(crate) fn flags(&self) -> String {
        let lists = self.namespaces.iter().map(|(list, names)| {
            let names: Vec<_> = names.iter().map(String::as_str).collect();
            format!(" --{NAMESPACES}={list}={}", names.join(","))
        });
        lists.collect()
    }
}

#[cfg(test)]
mod tests {
    use engine::ListedNamespaces;
    use rstest::rstest;

    use super::*;

    const VALID: [&str; 2] = ["a.xNamespaces", "b.yNamespaces"];

    fn parse(lists: &[&str]) -> Result<ListedByUser, Usage> {
        ListedByUser::parse(lists.iter().copied(), &VALID)
    }

    fn rbac(namespaces: &[&str]) -> Rbac {
        let list = |value| ListedNamespaces {
            value,
            purpose: "x",
            namespaces: namespaces.iter().map(|&name| name.to_owned()).collect(),
            rules: Vec::new(),
            everywhere_if_empty: false,
        };
        Rbac {
            listed_namespaces: VALID.map(list).to_vec(),
            ..Rbac::default()
        }
    }

    #[test]
    fn listed_namespaces_are_added_to_their_list_once() {
        let listed = parse(&["a.xNamespaces=p,q", "a.xNamespaces=r,p"]).unwrap();
        let lists = listed.added_to(rbac(&["q", "known"])).listed_namespaces;
        assert_eq!(lists[0].namespaces, ["known", "p", "q", "r"]);
        assert_eq!(lists[1].namespaces, ["known", "q"]);
        assert_eq!(listed.flags(), " --namespaces-of=a.xNamespaces=p,q,r");
    }

    #[test]
    fn for_the_chart_a_list_has_its_own_name() {
        let listed = ListedByUser {
            as_values: true,
            ..ListedByUser::default()
        };
        let lists = listed.added_to(rbac(&["known"])).listed_namespaces;
        assert_eq!(lists[1].namespaces, ["b.yNamespaces"]);
    }

    #[rstest]
    #[case::an_unknown_list("c.zNamespaces=p")]
    #[case::no_namespace("a.xNamespaces")]
    #[case::an_empty_namespace("a.xNamespaces=p,,q")]
    fn a_wrong_list_is_refused_with_the_valid_ones(#[case] text: &str) {
        let Usage(message) = parse(&[text]).unwrap_err();
        assert!(message.contains(text), "{message}");
        assert!(
            message.ends_with("a.xNamespaces, b.yNamespaces"),
            "{message}"
        );
    }
}

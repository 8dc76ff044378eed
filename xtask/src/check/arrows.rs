//! Which crate may depend on which.
//!
//! ```text
//! crates/{api,kernel,cel} <- crates/engine, clients/* <- features/* <- pontoon
//! testkit, testkit/aws: only for tests, and for xtask
//! testkit/simulator: only for tests; runs the engine's loop, so it depends on the engine
//! ```

use std::path::Path;

use crate::cargo::Package;

/// One crate of ours depending on another, both named by folder.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Arrow {
    pub(crate) from: String,
    pub(crate) to: String,
    /// For tests alone.
    pub(crate) dev: bool,
}

/// Where a crate stands; an arrow may only point to a lower one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Layer {
    Ground,
    Deck,
    Feature,
    Binary,
}

/// What a folder holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Product(Layer),
    Testing,
    Simulator,
    Xtask,
}

fn place(folder: &str) -> Option<Place> {
    Some(match folder {
        "crates/api" | "crates/kernel" | "crates/cel" => Place::Product(Layer::Ground),
        "crates/engine" => Place::Product(Layer::Deck),
        "pontoon" => Place::Product(Layer::Binary),
        "testkit" | "testkit/aws" => Place::Testing,
        "testkit/simulator" => Place::Simulator,
        "xtask" => Place::Xtask,
        _ if folder.starts_with("clients/") => Place::Product(Layer::Deck),
        _ if folder.starts_with("features/") => Place::Product(Layer::Feature),
        _ => return None,
    })
}

/// The arrows between crates of the workspace at `root`.
pub(crate) fn arrows(packages: &[Package], root: &Path) -> Vec<Arrow> {
    let folder = |path: &Path| {
        path.strip_prefix(root)
            .ok()
            .map(|path| path.display().to_string())
    };
    let mut arrows: Vec<Arrow> = Vec::new();
    for package in packages.iter().filter(|package| package.source.is_none()) {
        let Some(from) = package.manifest_path.parent().and_then(folder) else {
            continue;
        };
        for dependency in &package.dependencies {
            let Some(to) = dependency.path.as_deref().and_then(folder) else {
                continue;
            };
            let dev = dependency.kind.as_deref() == Some("dev");
            arrows.push(Arrow {
                from: from.clone(),
                to,
                dev,
            });
        }
    }
    arrows.sort();
    arrows
}

/// What is wrong with `arrows`, one sentence each.
pub(crate) fn forbidden(arrows: &[Arrow]) -> Vec<String> {
    arrows.iter().filter_map(verdict).collect()
}

fn verdict(arrow: &Arrow) -> Option<String> {
    let Arrow { from, to, dev } = arrow;
    let (Some(source), Some(target)) = (place(from), place(to)) else {
        return Some(format!(
            "{from} -> {to}: one of the two has no place on the map; add it to xtask/src/check/arrows.rs \
             and to ARCHITECTURE.md"
        ));
    };
    let why = match (source, target) {
        (Place::Xtask, _) | (Place::Testing, Place::Testing | Place::Product(Layer::Ground)) => {
            return None;
        }
        (Place::Simulator, Place::Product(Layer::Ground | Layer::Deck)) => return None,
        (_, Place::Xtask) => "nothing depends on xtask",
        (Place::Product(_), Place::Testing | Place::Simulator) if *dev => return None,
        (Place::Product(_), Place::Testing | Place::Simulator) => {
            "it is for tests: make it a dev-dependency"
        }
        (Place::Testing | Place::Simulator, _) => "the testkit runs the product from outside",
        (Place::Product(Layer::Feature), Place::Product(Layer::Feature)) => {
            "features meet through Kubernetes objects, never through imports"
        }
        (Place::Product(upper), Place::Product(lower)) if lower < upper => return None,
        (Place::Product(_), Place::Product(_)) => "arrows point down the map in ARCHITECTURE.md",
    };
    Some(format!("{from} -> {to}: {why}"))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{Arrow, arrows, forbidden};
    use crate::cargo::{Dependency, Package};

    fn arrow(from: &str, to: &str) -> Arrow {
        Arrow {
            from: from.into(),
            to: to.into(),
            dev: false,
        }
    }

    fn dev(from: &str, to: &str) -> Arrow {
        Arrow {
            dev: true,
            ..arrow(from, to)
        }
    }

    #[test]
    fn a_feature_that_imports_a_feature_is_named() {
        let wrong = forbidden(&[arrow("features/a", "features/b")]);
        assert_eq!(wrong.len(), 1);
        assert!(
            wrong[0].starts_with("features/a -> features/b: "),
            "{}",
            wrong[0]
        );
        assert_eq!(forbidden(&[dev("features/a", "features/b")]).len(), 1);
    }

    #[test]
    fn arrows_down_the_map_are_free() {
        let down = [
            arrow("crates/engine", "crates/kernel"),
            arrow("clients/aws", "crates/kernel"),
            arrow("features/vault", "clients/vault"),
            arrow("features/vault", "crates/api"),
            arrow("pontoon", "features/vault"),
            arrow("pontoon", "crates/engine"),
            arrow("testkit", "testkit/aws"),
            arrow("xtask", "testkit"),
            dev("crates/engine", "testkit"),
            dev("pontoon", "testkit/aws"),
        ];
        assert_eq!(forbidden(&down), Vec::<String>::new());
    }

    #[test]
    fn arrows_up_or_across_the_map_are_named() {
        let wrong = [
            arrow("crates/kernel", "crates/engine"),
            arrow("crates/kernel", "crates/api"),
            arrow("crates/engine", "clients/aws"),
            arrow("clients/aws", "features/ack"),
            arrow("features/ack", "pontoon"),
            arrow("pontoon", "xtask"),
            arrow("testkit", "crates/engine"),
        ];
        assert_eq!(forbidden(&wrong).len(), wrong.len());
    }

    #[test]
    fn the_testkit_in_the_product_is_told_to_be_a_dev_dependency() {
        let wrong = forbidden(&[arrow("crates/engine", "testkit")]);
        assert!(
            wrong[0].contains("make it a dev-dependency"),
            "{}",
            wrong[0]
        );
    }

    #[test]
    fn a_folder_off_the_map_is_told_to_get_a_place() {
        let wrong = forbidden(&[arrow("misc/x", "crates/kernel")]);
        assert!(wrong[0].contains("no place on the map"), "{}", wrong[0]);
    }

    #[test]
    fn arrows_are_read_from_metadata() {
        let package = Package {
            name: "engine".into(),
            version: "0.1.0".into(),
            license: None,
            source: None,
            manifest_path: "/w/crates/engine/Cargo.toml".into(),
            dependencies: vec![
                Dependency {
                    kind: None,
                    path: Some("/w/crates/kernel".into()),
                },
                Dependency {
                    kind: Some("dev".into()),
                    path: Some("/w/testkit".into()),
                },
                Dependency {
                    kind: None,
                    path: None,
                },
            ],
        };
        let expected = vec![
            arrow("crates/engine", "crates/kernel"),
            dev("crates/engine", "testkit"),
        ];
        assert_eq!(arrows(&[package], Path::new("/w")), expected);
    }
}

//! Which crate may depend on which.
//!
//! ```text
//! crates/{api,kernel,cel} <- crates/engine, clients/* <- features/* <- pontoon
//! testkit, testkit/aws: only for tests, and for xtask
//! testkit/simulator: only for tests; runs the engine's loop, so it depends on the engine
//! ```

use std::path::Path;

use crate::cargo::Package;

/// A dependency between two crates of ours, both named by folder.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Arrow {
    pub(crate) from: String,
    pub(crate) to: String,
    /// Only for tests.
    pub(crate) dev: bool,
}

/// The layer of a crate; an arrow may only point to a lower one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Layer {
    Base,
    Deck,
    Feature,
    Binary,
}

/// The part of the repository that a folder belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Area {
    Product(Layer),
    Testing,
    Simulator,
    Xtask,
}

fn area(folder: &str) -> Option<Area> {
    Some(match folder {
        "crates/api" | "crates/kernel" | "crates/cel" => Area::Product(Layer::Base),
        "crates/engine" => Area::Product(Layer::Deck),
        "pontoon" => Area::Product(Layer::Binary),
        "testkit" | "testkit/aws" => Area::Testing,
        "testkit/simulator" => Area::Simulator,
        "xtask" => Area::Xtask,
        _ if folder.starts_with("clients/") => Area::Product(Layer::Deck),
        _ if folder.starts_with("features/") => Area::Product(Layer::Feature),
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
    let (Some(source), Some(target)) = (area(from), area(to)) else {
        return Some(format!(
            "{from} -> {to}: one of the two has no place on the map; add it to xtask/src/check/arrows.rs \
             and to ARCHITECTURE.md"
        ));
    };
    let why = match (source, target) {
        (Area::Xtask, _) | (Area::Testing, Area::Testing | Area::Product(Layer::Base)) => {
            return None;
        }
        (Area::Simulator, Area::Product(Layer::Base | Layer::Deck)) => return None,
        (_, Area::Xtask) => "nothing depends on xtask",
        (Area::Product(_), Area::Testing | Area::Simulator) if *dev => return None,
        (Area::Product(_), Area::Testing | Area::Simulator) => {
            "it is for tests: make it a dev-dependency"
        }
        (Area::Testing | Area::Simulator, _) => "the testkit runs the product from outside",
        (Area::Product(Layer::Feature), Area::Product(Layer::Feature)) => {
            "features meet through Kubernetes objects, never through imports"
        }
        (Area::Product(upper), Area::Product(lower)) if lower < upper => return None,
        (Area::Product(_), Area::Product(_)) => "arrows point down the map in ARCHITECTURE.md",
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
    fn the_testkit_in_the_product_must_be_a_dev_dependency() {
        let wrong = forbidden(&[arrow("crates/engine", "testkit")]);
        assert!(
            wrong[0].contains("make it a dev-dependency"),
            "{}",
            wrong[0]
        );
    }

    #[test]
    fn a_folder_that_is_not_on_the_map_is_refused() {
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

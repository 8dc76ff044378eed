//! The features of this binary.

use engine::{Feature, Usage};

/// All features, in the order of the manual.
pub(crate) fn all() -> Vec<Box<dyn Feature>> {
    let features: [Box<dyn Feature>; 3] = [
        Box::new(vault::VaultFeature),
        Box::new(tenants::TenantsFeature),
        Box::new(migrate::MigrateFeature),
    ];
    features.into_iter().chain(for_tests()).collect()
}

#[cfg(not(feature = "chaos"))]
fn for_tests() -> Option<Box<dyn Feature>> {
    None
}

/// The feature for tests, unless the test build should behave like the release build.
#[cfg(feature = "chaos")]
fn for_tests() -> Option<Box<dyn Feature>> {
    let is_hidden = std::env::var_os("PONTOON_TEST_HIDE_TEST_FEATURES").is_some();
    (!is_hidden).then(|| Box::new(probe::ProbeFeature) as Box<dyn Feature>)
}

/// Refuses unknown features and names the valid ones.
pub(crate) fn check(features: &[Box<dyn Feature>], names: &[String]) -> Result<(), Usage> {
    let valid: Vec<_> = features.iter().map(|feature| feature.name()).collect();
    match names.iter().find(|name| !valid.contains(&name.as_str())) {
        None => Ok(()),
        Some(unknown) => {
            let valid = if valid.is_empty() {
                "none in this build".to_owned()
            } else {
                valid.join(", ")
            };
            Err(Usage(format!(
                "there is no feature {unknown:?}; the features are: {valid}"
            )))
        }
    }
}

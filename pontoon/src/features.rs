//! The features this binary has.

use engine::{Feature, Usage};

/// All of them, in the order of the manual.
pub(crate) fn all() -> Vec<Box<dyn Feature>> {
    vec![
        Box::new(vault::VaultFeature),
        Box::new(tenants::TenantsFeature),
        #[cfg(feature = "chaos")]
        Box::new(probe::ProbeFeature),
    ]
}

/// Refuses names that are no feature, and says which are.
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

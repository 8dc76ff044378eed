//! Measurements, each under a name: `cargo xtask bench <name>`.

use crate::verdict::{Error, Verdict};

/// A measurement that prints its bars and says whether all are met.
pub(crate) struct Bench {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) run: fn() -> Result<Verdict, Error>,
}

/// Every bench there is.
const BENCHES: &[Bench] = &[];

/// Runs the bench of this name.
pub(crate) fn bench(name: &str) -> Result<Verdict, Error> {
    let found = find(BENCHES, name)?;
    (found.run)()
}

fn find<'a>(benches: &'a [Bench], name: &str) -> Result<&'a Bench, Error> {
    benches
        .iter()
        .find(|bench| bench.name == name)
        .ok_or_else(|| {
            let list: Vec<String> = benches
                .iter()
                .map(|bench| format!("\n  {}  {}", bench.name, bench.about))
                .collect();
            let list = if list.is_empty() {
                " none yet".to_owned()
            } else {
                list.concat()
            };
            Error::new(format!("no bench is named {name}; the benches are:{list}"))
        })
}

#[cfg(test)]
mod tests {
    use super::{Bench, find};
    use crate::verdict::Verdict;

    #[test]
    fn an_unknown_bench_is_answered_with_the_list() {
        let benches = [Bench {
            name: "engine",
            about: "the deck",
            run: || Ok(Verdict::Holds),
        }];
        let error = find(&benches, "nope").err().unwrap().to_string();
        assert_eq!(
            error,
            "no bench is named nope; the benches are:\n  engine  the deck"
        );
        assert!(find(&benches, "engine").is_ok());
        assert!(
            find(&[], "engine")
                .err()
                .unwrap()
                .to_string()
                .ends_with("none yet")
        );
    }
}

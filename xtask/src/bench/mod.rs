//! Measurements, each under a name: `cargo xtask bench <name>`.

mod bar;
mod build;
mod cluster;
mod engine;
mod found;
mod machine;
mod migrate;
mod tenants;
mod vault;

use crate::cargo;
use crate::verdict::{Error, Verdict, While};

/// A measurement that prints its bars and returns whether all are met.
pub(crate) struct Bench {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) run: fn() -> Result<Verdict, Error>,
}

/// All benches.
const BENCHES: &[Bench] = &[
    Bench {
        name: "engine",
        about: "the engine's throughput, quiet, memory, latency and succession, beside a bare loop",
        run: engine::run,
    },
    Bench {
        name: "migrate",
        about: "the migrate feature's share of a downtime, its writes, reads and memory, with up to 20 runs",
        run: migrate::run,
    },
    Bench {
        name: "tenants",
        about: "the tenants feature's calls, writes, memory and latency, with up to 10,000 objects",
        run: tenants::run,
    },
    Bench {
        name: "vault",
        about: "the vault feature's calls, writes, memory and latency, with 10,000 objects",
        run: vault::run,
    },
    Bench {
        name: "vault-bulk",
        about: "the part of bench vault with 300 policies and 300 roles made and deleted at once",
        run: vault::run_bulk,
    },
];

/// Runs the bench of this name.
pub(crate) fn bench(name: &str) -> Result<Verdict, Error> {
    let found = find(BENCHES, name)?;
    if cfg!(debug_assertions) {
        return optimised(name);
    }
    (found.run)()
}

/// Runs the bench in a release build of this program, so that the bare loops are not slow.
fn optimised(name: &str) -> Result<Verdict, Error> {
    eprintln!("building the bench in release");
    let run = ["run", "--release", "--quiet", "--package", "xtask", "--"];
    let status = cargo::cargo()
        .args(run)
        .args(["bench", name])
        .status()
        .doing("running the bench's release build")?;
    match status.code() {
        Some(0) => Ok(Verdict::Holds),
        Some(1) => Ok(Verdict::DoesNot),
        _ => Err(Error::new(format!(
            "the bench ended with {status}; its reason is above"
        ))),
    }
}

fn find<'a>(benches: &'a [Bench], name: &str) -> Result<&'a Bench, Error> {
    benches
        .iter()
        .find(|bench| bench.name == name)
        .ok_or_else(|| {
            let list: Vec<String> = benches
                .iter()
                .map(|bench| format!("\n  {:7}  {}", bench.name, bench.about))
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
            "no bench is named nope; the benches are:\n  engine   the deck"
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

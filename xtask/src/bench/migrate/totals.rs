//! What is counted over all runs: ordinals that were down together, and writes.

use super::super::bar::Bar;
use super::largest;
use super::moved::{Run, Writes, most_at_once};

/// The largest numbers of all runs.
#[derive(Default)]
pub(super) struct Totals {
    down: Vec<f64>,
    object: Vec<f64>,
    mirrors: Vec<f64>,
}

impl Totals {
    pub(super) fn add(&mut self, run: &Run<'_>) {
        self.down.push(number(most_at_once(&run.downtimes())));
        for Writes { object, mirrors } in run.writes() {
            self.object.push(number(object));
            self.mirrors.push(number(mirrors));
        }
    }

    pub(super) fn down(&self) -> Bar {
        Bar::at_most(
            "ordinals of a run that were down at once",
            largest(&self.down),
            1.0,
            "",
        )
        .whole()
    }

    pub(super) fn writes(&self) -> [Bar; 2] {
        let bar = |what, all: &[f64], most| Bar::at_most(what, largest(all), most, "").whole();
        [
            bar(
                "writes of the object for an ordinal, most",
                &self.object,
                14.0,
            ),
            bar(
                "writes of the mirrors for an ordinal, most",
                &self.mirrors,
                8.0,
            ),
        ]
    }

    /// Of how many runs and ordinals they are.
    pub(super) fn note(&self) -> String {
        format!(
            "{} runs and {} ordinals were counted",
            self.down.len(),
            self.object.len()
        )
    }
}

fn number(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

//! The result of a bench, and its output.

use testkit::tools::Tool;

use super::bar::{Bar, table};
use super::machine;
use crate::verdict::Verdict;

/// The result of a bench, or of a stage of it.
#[derive(Default)]
pub(super) struct Found {
    pub(super) bars: Vec<Bar>,
    /// Notes for the reader: what the bars were computed from.
    pub(super) notes: Vec<String>,
}

impl Found {
    /// An empty result with the load of the machine before the start.
    pub(super) fn begun() -> Self {
        let load = format!(
            "load before the start: {}; ratios mean little beside other work\n",
            machine::load()
        );
        Self {
            bars: Vec::new(),
            notes: vec![load],
        }
    }

    pub(super) fn add(&mut self, more: Self) {
        self.bars.extend(more.bars);
        self.notes.extend(more.notes);
    }

    /// Prints the result, measured against these servers; returns whether all bars are met.
    pub(super) fn print(&self, bench: &str, servers: &[Tool]) -> Verdict {
        println!("{}\n", machine::description(servers));
        println!("{}\n", table(&self.bars));
        println!("{}\n", self.notes.join("\n"));
        let met = self.bars.iter().filter(|bar| bar.is_met()).count();
        println!("bench {bench}: {met} of {} bars met", self.bars.len());
        Verdict::of(met == self.bars.len())
    }
}

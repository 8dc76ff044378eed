//! What a bench has found out, and how it says so.

use testkit::tools::Tool;

use super::bar::{Bar, table};
use super::machine;
use crate::verdict::Verdict;

/// What a bench, or a stage of it, found out.
#[derive(Default)]
pub(super) struct Found {
    pub(super) bars: Vec<Bar>,
    /// What the bars were computed from, for the reader.
    pub(super) notes: Vec<String>,
}

impl Found {
    /// Nothing yet but how busy the machine was before.
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

    /// Prints all of it, measured against these servers, and whether all bars are met.
    pub(super) fn print(&self, bench: &str, servers: &[Tool]) -> Verdict {
        println!("{}\n", machine::description(servers));
        println!("{}\n", table(&self.bars));
        println!("{}\n", self.notes.join("\n"));
        let met = self.bars.iter().filter(|bar| bar.is_met()).count();
        println!("bench {bench}: {met} of {} bars met", self.bars.len());
        Verdict::of(met == self.bars.len())
    }
}

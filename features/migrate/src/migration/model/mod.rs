//! Whole runs over a model of two clusters and EC2. The objects are JSON, so everything that a run reads and
//! writes goes the way that it goes in production.
//!
//! Controllers act one at a time and in any order, by the rules of the real ones, also where these are unkind:
//! a missing claim is made anew, with an empty disk.

mod api_server;
mod controllers;
mod run;
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use crate::migration::observation::{
    DiskAttachment, DiskRead, DiskState, Side, SnapshotRead, SnapshotState,
};
use crate::translate::window::Window;
use api_server::ApiServer;

const SET: &str = "web";
/// The namespaces differ, so that a mistaken one shows.
const NAMESPACES: [&str; 2] = ["shop", "shop-new"];

/// A small generator of random numbers: schedules are the same on every machine.
#[derive(Debug, Clone)]
struct Random(u64);

impl Random {
    fn seeded(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).expect("31 bits fit") % limit
    }

    fn one_in(&mut self, chance: usize) -> bool {
        self.below(chance) == 0
    }

    fn side(&mut self) -> Side {
        Side::BOTH[self.below(2)]
    }
}

/// Where a disk is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Disk {
    Free,
    Attached(Side),
    Detaching(Side),
}

/// A snapshot, which a search shows after some time.
#[derive(Debug, Clone)]
struct Snapshot {
    disk: String,
    tags: BTreeMap<String, String>,
    shows_at: Duration,
}

/// Both clusters and EC2.
#[derive(Debug, Clone)]
struct World {
    clusters: [ApiServer; 2],
    /// Secrets beside the migration.
    management: ApiServer,
    disks: BTreeMap<String, Disk>,
    snapshots: Vec<Snapshot>,
    /// All ordinals with claims: those of the window, then a dormant one.
    ordinals: Window,
    elapsed: Duration,
    /// The first law that was broken.
    broken_law: Option<String>,
    /// Somebody has widened the window of the source.
    is_widened: bool,
    /// The migration is in the namespace of the source: both copies of its capture are one Secret.
    is_in_source: bool,
}

fn index(side: Side) -> usize {
    match side {
        Side::Source => 0,
        Side::Destination => 1,
    }
}

impl World {
    fn cluster(&self, side: Side) -> &ApiServer {
        &self.clusters[index(side)]
    }

    fn cluster_mut(&mut self, side: Side) -> &mut ApiServer {
        &mut self.clusters[index(side)]
    }

    fn breaks(&mut self, law: String) {
        self.broken_law.get_or_insert(law);
    }

    /// Snapshots with these tags, as far as they show already.
    fn read_snapshots(&self, tags: &BTreeMap<String, String>) -> SnapshotRead {
        let shown = self.snapshots.iter().enumerate().filter(|(_, one)| {
            let has = |(key, value)| one.tags.get(key) == Some(value);
            one.shows_at <= self.elapsed && tags.iter().all(has)
        });
        let found = shown.map(|(index, one)| SnapshotState {
            id: format!("snap-{index}"),
            tags: one.tags.clone(),
        });
        SnapshotRead {
            found: found.collect(),
            began: self.elapsed,
        }
    }

    fn read_disk(&self, id: &str) -> DiskRead {
        let attachment = |side: Side, state: &str| DiskAttachment {
            instance: format!("i-{side}"),
            device: "/dev/xvda".to_owned(),
            state: state.to_owned(),
        };
        let disk = self.disks.get(id).map(|disk| {
            let attachments = match disk {
                Disk::Free => vec![],
                Disk::Attached(side) => vec![attachment(*side, "attached")],
                Disk::Detaching(side) => vec![attachment(*side, "detaching")],
            };
            let state = if attachments.is_empty() {
                "available"
            } else {
                "in-use"
            };
            DiskState {
                state: state.to_owned(),
                attachments,
                tags: BTreeMap::new(),
            }
        });
        DiskRead {
            disk,
            began: self.elapsed,
        }
    }
}

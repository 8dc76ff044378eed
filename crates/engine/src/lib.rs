//! Runs controllers: queue, watch hub, applier, leases, events, metrics, health, shutdown.
//!
//! ```text
//! API server ──▶ hub ──▶ queue ──▶ pass ──▶ status
//!                 │                  │
//!              (cache) ◀── own writes ┘
//! ```
//! # Owns
//! Every task, every call to the Kubernetes API, the Lease. It does not depend on any feature.
//! # Promises
//! - An object has one pass at a time. No object is dropped after any number of failures.
//! - No pass starts from an object that is older than our last write of it.
//! - A process that does not lead writes nothing.
//! - A bad object does not affect others: it gets its own condition or event.

mod applier;
mod check;
pub mod cli;
mod client;
mod connection;
mod controller;
mod cpu;
mod deck;
mod echo;
mod engine;
mod error;
mod events;
mod feature;
pub mod flags;
mod hub;
mod kill;
mod kind;
mod kind_core;
mod lease;
pub mod leftovers;
pub mod metrics;
mod other_cluster;
mod pass;
mod patch;
pub mod paused;
mod queue;
mod review;
mod server;
mod shared;
mod slot;
mod stored;
mod tasks;
mod tls;
mod versioned;

pub use applier::{Applied, Applier, Deletion, Onto, Propagation};
pub use check::{Check, State};
pub use client::Clients;
pub use controller::{ControllerSpec, FollowSpec, Following, Reconcile};
pub use cpu::CpuPool;
pub use deck::{Deck, Running, RunningTask};
pub use engine::{Engine, Settings, StartError};
pub use error::{ApiError, Classified};
pub use events::{EventSender, Events, Note};
pub use feature::{
    AggregatedRole, Feature, LegacyLease, ListedNamespaces, OWN_ACCOUNT, Rbac, Usage, engine_rbac,
    rule,
};
pub use hub::{Cache, Change, Followed, Health, Hub, Index, Store, WatchKey};
pub use kill::{kill_point, reach_kill_point};
pub use kind::{InNamespace, Kind};
pub use kind_core::{
    AnswerOf, Call, CallContext, Effect, Effects, Ended, FactsOf, KillPoint, KindCore, KindIo,
    Learned, Mode, Never, Next, Object, ObjectWrite, OutcomeOf, PassFacts, ReadOf, Remembered,
    Report, StepOf, Stop, Truth, World, preview, run_pass,
};
pub use lease::LeaseSettings;
pub use metrics::Metrics;
pub use other_cluster::{OtherCluster, OtherClusterOptions};
pub use pass::{PASS_SPAN, Pass, Recorded};
pub use patch::merged;
pub use server::{ListenError, Readiness, ServerCertificate, parse_address};
pub use shared::{Shared, SharedValues};
pub use stored::{Malformed, Projection, Stored};
pub use tasks::Tasks;
pub use tls::{Certificate, CertificateError};

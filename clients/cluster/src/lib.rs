//! Other clusters: from a kubeconfig that somebody else wrote to a connection that writes only to the
//! cluster it is meant for.
//!
//! ```text
//! bytes ──▶ vet ──▶ VettedKubeconfig ──▶ config() ──▶ a kube client
//!                        │                                 │ reads the UID of kube-system
//!                        └─ connection_key() ──▶ Pool       └──▶ IdentityPin ──▶ kernel::Guard
//! ```
//! # Promises
//! - [`vet`] executes nothing, opens no file and no connection, and reads no variable of the
//!   environment; neither does the [`kube::Config`] that a vetted kubeconfig gives.
//! - A refusal names the field and contains no value of the kubeconfig.
//! - The [guard](kernel::Guard) of an [`IdentityPin`] is open only while the cluster was recently
//!   verified to be the one that was pinned.
//! - A [`Pool`] has one connection for all users of a cluster, and drops it with its last user.
//!
//! # When not to use it
//! For the operator's own cluster, and for the kubeconfig of the person who calls a verb: they may log
//! in by a program or a file.

mod identity;
mod login_source;
mod pin;
mod pool;
mod refused;
mod vet;
mod vetted;

pub use identity::{ClusterIdentity, Verdict, observed, read_identity};
pub use login_source::{LoginSource, VersionedLogin};
pub use pin::{IdentityPin, NotOffered};
pub use pool::{Pool, PoolCounts, PoolFull, Pooled};
pub use refused::RefusedKubeconfig;
pub use vet::{SIZE_LIMIT, VettingRules, vet};
pub use vetted::{ConnectionKey, Login, VettedKubeconfig};

//! Vault and OpenBao over HTTP: one connection, one login, many callers.
//!
//! ```text
//! Client ──▶ session (one token for all) ──▶ limit (rate, slots) ──▶ breaker ──▶ transport
//!   │                                                                  guards ─┘
//!   └─ health · policies · auth mounts · roles · KV · the token itself
//! ```
//! # Promises
//! - One login is in flight at a time; all callers that wait for it share its result.
//! - Nothing is written while one of the [guards](kernel::Guard) is closed.
//! - A request ends within its time-out. While a server does not answer, later calls fail at once.
//! - `VAULT_*` variables and proxies of the environment are ignored.
//! - Every error has a [class](Error::class) and contains no secret. Only this crate classifies
//!   Vault's errors.
//!
//! # When not to use it
//! For anything about Kubernetes: the caller provides JWTs and Secrets through a [`Source`].

mod auth_mounts;
mod breaker;
mod call;
mod client;
mod connection;
mod error;
mod health;
mod kv;
mod limit;
mod login;
mod mount;
mod observer;
mod policies;
mod roles;
mod session;
mod settings;
mod token;
mod transport;

pub use auth_mounts::AuthMountEntry;
pub use call::Written;
pub use client::{Client, Parts};
pub use error::{Error, NoNamespaces};
pub use health::{Health, ServerState};
pub use kv::{KvMetadata, KvVersion, SecretEngine, SecretValues};
pub use login::{AwsKeys, GCE_METADATA, Login, Source, SourceError};
pub use mount::AuthMount;
pub use observer::{Observer, Unobserved};
pub use session::SessionView;
pub use settings::{CALL_TIMEOUT, Config, Limits, Renewal, Secret, Settings, Tls};
pub use token::TokenLookup;

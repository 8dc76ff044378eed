//! The client against the real Vault, with the fault proxy in between.
// Tests run in real time; nothing here is part of the product.
#![allow(clippy::disallowed_methods, missing_docs)]

mod calls;
mod environment;
mod faults;
mod logins;
mod openbao;
mod redirects;
mod session;
mod tls;
mod world;

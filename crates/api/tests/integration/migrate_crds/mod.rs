//! The kind of migration.aqua.io as a real API server takes it: what it accepts, what it refuses and with which
//! message, what it fills in, which edits it refuses after a start, and what it forgives to stored objects.

mod accepted;
mod edits;
mod refused;
mod server;
mod stored;

//! xtask: all tests of the tier unit, as one executable.

mod readme;
mod usage;

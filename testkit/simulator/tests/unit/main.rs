//! testkit/simulator: all tests of the tier unit, as one executable.

mod bucket;
mod mistakes;
mod own_writes;

//! xtask: all tests of the tier start, as one executable.

mod up;

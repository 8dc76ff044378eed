//! testkit: all tests of the tier integration, as one executable.

mod disks;

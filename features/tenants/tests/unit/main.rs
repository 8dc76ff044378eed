//! features/tenants: all tests of the tier unit, as one executable.

mod iam;

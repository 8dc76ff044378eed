//! features/tenants: all tests of the tier contract, as one executable.

mod postgres;

//! pontoon: all tests of the tier start, as one executable.

#[path = "../chart_files/mod.rs"]
mod chart_files;

mod alerts;
mod chart;
mod network;
mod pod;

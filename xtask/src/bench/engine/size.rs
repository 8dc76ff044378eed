//! The size of the program for users.

use std::path::Path;

use super::super::bar::Bar;
use crate::verdict::{Error, While};

pub(super) fn size(plain: &Path) -> Result<Bar, Error> {
    let bytes = std::fs::metadata(plain)
        .doing(format_args!("looking at {}", plain.display()))?
        .len();
    let megabytes = f64::from(u32::try_from(bytes / 1000).unwrap_or(u32::MAX)) / 1000.0;
    Ok(Bar::at_most("release binary", megabytes, 60.0, " MB"))
}

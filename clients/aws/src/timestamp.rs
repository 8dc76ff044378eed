//! Conversion of the SDK's time.

use aws_smithy_types::DateTime;
use jiff::Timestamp;

/// The SDK's time as a `Timestamp`; `None` after the year 9999.
pub(crate) fn timestamp(time: &DateTime) -> Option<Timestamp> {
    let nanos = i32::try_from(time.subsec_nanos()).ok()?;
    Timestamp::new(time.secs(), nanos).ok()
}

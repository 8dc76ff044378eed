//! AWS's time as ours.

use aws_smithy_types::DateTime;
use jiff::Timestamp;

/// The SDK's time as ours; `None` beyond the year 9999.
pub(crate) fn moment(time: &DateTime) -> Option<Timestamp> {
    let nanos = i32::try_from(time.subsec_nanos()).ok()?;
    Timestamp::new(time.secs(), nanos).ok()
}

//! Route 53: zones and their records.
//!
//! Names have one form: lower case, no final dot, `*` where Route 53 stores `\052` (see
//! [`domain`]). Ids are without `/hostedzone/` or `/change/`.

mod change;
mod name;
mod operations;
mod record;
mod txt;
mod zone;
pub mod zone_writer;

pub use change::{Action, Change, ChangeStatus};
pub use name::domain;
pub(crate) use operations::OPERATIONS;
pub use record::{Alias, Answer, Record, Start};
pub use txt::{txt_text, txt_value};
pub use zone::Zone;

use crate::{Account, Caller};

/// Route 53, used by one caller; see [`Account::route53`].
#[derive(Debug, Clone)]
pub struct Route53 {
    account: Account,
    caller: Caller,
}

impl Route53 {
    pub(crate) fn new(account: Account, caller: Caller) -> Self {
        Self { account, caller }
    }

    fn client(&self) -> &aws_sdk_route53::Client {
        self.account.route53_client()
    }
}

/// An id without the prefix that answers put before it.
fn bare(id: &str) -> &str {
    id.rsplit('/').next().unwrap_or(id)
}

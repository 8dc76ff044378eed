//! Route 53: zones and their records.
//!
//! Names come and go in one form: lower case, no final dot, `*` for what Route 53 keeps as `\052`
//! (see [`domain`]). Ids are bare, without `/hostedzone/` or `/change/`.

mod change;
mod name;
mod record;
mod txt;
mod zone;

pub use change::{Action, Change, ChangeStatus};
pub use name::domain;
pub use record::{Alias, Answer, Record, Start};
pub use txt::{txt_text, txt_value};
pub use zone::Zone;

use crate::{Account, Asker};

/// Route 53 as one asker uses it; see [`Account::route53`].
#[derive(Debug, Clone)]
pub struct Route53 {
    account: Account,
    asker: Asker,
}

impl Route53 {
    pub(crate) fn new(account: Account, asker: Asker) -> Self {
        Self { account, asker }
    }

    fn client(&self) -> &aws_sdk_route53::Client {
        self.account.route53_client()
    }
}

/// An id without the kind that answers put before it.
fn bare(id: &str) -> &str {
    id.rsplit('/').next().unwrap_or(id)
}

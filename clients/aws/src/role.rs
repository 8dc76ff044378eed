//! An IAM role to assume.

use std::fmt;

/// An IAM role, and the external ID that its owner may require.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Role {
    arn: String,
    external_id: Option<String>,
}

/// A text that is not the ARN of a role.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{arn:?} is no IAM role; write arn:aws:iam::<account of 12 digits>:role/<name>")]
pub struct InvalidRole {
    arn: String,
}

impl Role {
    /// The role with this ARN, assumed with this external ID if there is one.
    pub fn new(
        arn: impl Into<String>,
        external_id: Option<impl Into<String>>,
    ) -> Result<Self, InvalidRole> {
        let arn = arn.into();
        if account(&arn).is_none() {
            return Err(InvalidRole { arn });
        }
        Ok(Self {
            arn,
            external_id: external_id.map(Into::into),
        })
    }

    /// Its ARN.
    pub fn arn(&self) -> &str {
        &self.arn
    }

    /// The external ID that is sent to STS.
    pub fn external_id(&self) -> Option<&str> {
        self.external_id.as_deref()
    }

    /// The account of the role.
    pub fn account(&self) -> &str {
        account(&self.arn).expect("only well-formed ARNs become roles")
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.arn)
    }
}

/// The account in a role's ARN, of any partition.
fn account(arn: &str) -> Option<&str> {
    let rest = arn.strip_prefix("arn:aws")?;
    let (partition, rest) = rest.split_once(":iam::")?;
    let (account, name) = rest.split_once(":role/")?;
    let is_partition = partition.is_empty() || partition.starts_with('-');
    let is_account = account.len() == 12 && account.bytes().all(|byte| byte.is_ascii_digit());
    let is_name = !name.is_empty() && !name.ends_with('/');
    (is_partition && is_account && is_name).then_some(account)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::plain("arn:aws:iam::222222222222:role/dns", Some("222222222222"))]
    #[case::with_a_path("arn:aws:iam::222222222222:role/a/b/dns", Some("222222222222"))]
    #[case::china("arn:aws-cn:iam::222222222222:role/dns", Some("222222222222"))]
    #[case::a_user("arn:aws:iam::222222222222:user/dns", None)]
    #[case::no_name("arn:aws:iam::222222222222:role/", None)]
    #[case::short_account("arn:aws:iam::22:role/dns", None)]
    #[case::another_cloud("arn:awsome:iam::222222222222:role/dns", None)]
    fn a_role_names_its_account(#[case] arn: &str, #[case] account: Option<&str>) {
        let role = Role::new(arn, None::<String>);
        assert_eq!(role.as_ref().ok().map(Role::account), account);
    }
}

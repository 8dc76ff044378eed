//! Policies: `sys/policies/acl`.

use serde::Deserialize;
use serde_json::json;

use crate::call::{Call, Written, gone, keys, present};
use crate::{Client, Error};

const PATH: &str = "sys/policies/acl";

impl Client {
    /// The text of a policy, or `None` if there is none of that name.
    pub async fn read_policy(&self, name: &str) -> Result<Option<String>, Error> {
        #[derive(Deserialize)]
        struct Policy {
            policy: String,
        }
        let call = Call::get("policy_read", &[PATH, name])?;
        match present(self.call(&call).await)? {
            Some(answer) => Ok(Some(answer.payload::<Policy>(&call.name())?.policy)),
            None => Ok(None),
        }
    }

    /// Creates or replaces the policy `name`.
    pub async fn write_policy(&self, name: &str, text: &str) -> Result<Written, Error> {
        let call = Call::put("policy_write", &[PATH, name])?.body(json!({ "policy": text }));
        Ok(self.call(&call).await?.written())
    }

    /// Deletes a policy; succeeds if it is already gone.
    pub async fn delete_policy(&self, name: &str) -> Result<(), Error> {
        let call = Call::delete("policy_delete", &[PATH, name])?;
        gone(self.call(&call).await)
    }

    /// The names of all policies, `root` and `default` included.
    pub async fn list_policies(&self) -> Result<Vec<String>, Error> {
        let call = Call::list("policy_list", &[PATH])?;
        keys(&call.name(), self.call(&call).await)
    }
}

//! Roles of an auth method: `auth/<mount>/role`.

use serde_json::{Map, Value};

use crate::call::{Call, Written, gone, keys, present};
use crate::{AuthMount, Client, Error};

impl Client {
    /// The fields of a role, or `None` if there is none of that name.
    ///
    /// # Errors
    /// [`Error::NotFound`] when there is no such mount.
    pub async fn read_role(
        &self,
        mount: &AuthMount,
        name: &str,
    ) -> Result<Option<Map<String, Value>>, Error> {
        let call = Call::get("role_read", &["auth", mount.as_str(), "role", name])?;
        match present(self.call(&call).await)? {
            Some(answer) => answer.payload(&call.name()).map(Some),
            None => Ok(None),
        }
    }

    /// Writes these fields of a role. Omitted fields keep their values, so pass all that matter.
    pub async fn write_role(
        &self,
        mount: &AuthMount,
        name: &str,
        fields: Map<String, Value>,
    ) -> Result<Written, Error> {
        let call = Call::post("role_write", &["auth", mount.as_str(), "role", name])?
            .body(Value::Object(fields));
        Ok(self.call(&call).await?.written())
    }

    /// Deletes a role; succeeds if it is already gone, also together with its mount.
    pub async fn delete_role(&self, mount: &AuthMount, name: &str) -> Result<(), Error> {
        let call = Call::delete("role_delete", &["auth", mount.as_str(), "role", name])?;
        gone(self.call(&call).await)
    }

    /// The names of all roles of a mount.
    pub async fn list_roles(&self, mount: &AuthMount) -> Result<Vec<String>, Error> {
        let call = Call::list("role_list", &["auth", mount.as_str(), "role"])?;
        keys(&call.name(), self.call(&call).await)
    }
}

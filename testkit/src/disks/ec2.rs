//! EC2 as a CSI driver calls it, and the emulator's control as nodes and seeds use it.

use anyhow::{Context, Result, bail};
use http::{Method, StatusCode};
use reqwest::Response;
use serde_json::{Value, json};

/// The region of all calls.
const REGION: &str = "us-east-1";
/// The emulator reads the day and does not compare it with its clock.
const SIGNED_AT: &str = "20260101T000000Z";

/// Calls of one role.
#[derive(Debug, Clone)]
pub(super) struct Ec2 {
    http: reqwest::Client,
    url: String,
    role: String,
}

/// Why EC2 did not do what was requested.
#[derive(Debug, thiserror::Error)]
pub(super) enum CallError {
    #[error("EC2 refused {action}: {code}: {message}")]
    Refused {
        action: String,
        code: String,
        message: String,
    },
    #[error("EC2 did not answer")]
    Unanswered(#[from] reqwest::Error),
}

impl CallError {
    /// Whether the volume or its attachment does not exist.
    pub(super) fn is_absence(&self) -> bool {
        let absences = [
            "InvalidVolume.NotFound",
            "InvalidAttachment.NotFound",
            "IncorrectState",
        ];
        matches!(self, Self::Refused { code, .. } if absences.contains(&code.as_str()))
    }
}

/// A volume as DescribeVolumes shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DescribedVolume {
    pub(super) state: String,
    pub(super) attachments: Vec<DescribedAttachment>,
}

/// An attachment as DescribeVolumes shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DescribedAttachment {
    pub(super) instance: String,
    pub(super) device: String,
    pub(super) state: String,
}

/// An empty volume to create.
#[derive(Debug)]
pub(super) struct NewVolume<'a> {
    pub(super) zone: &'a str,
    pub(super) gibibytes: u64,
    pub(super) kind: &'a str,
    /// Requests with the same token create one volume.
    pub(super) token: &'a str,
    pub(super) tags: &'a [(&'a str, &'a str)],
}

impl Ec2 {
    /// The access key and the role have the same name. [`Self::register`] makes it known.
    pub(super) fn new(url: &str, role: &str) -> Self {
        Self {
            http: reqwest::Client::new(),
            url: url.trim_end_matches('/').to_owned(),
            role: role.to_owned(),
        }
    }

    pub(super) fn role(&self) -> &str {
        &self.role
    }

    /// Makes the access key valid.
    pub(super) async fn register(&self) -> Result<()> {
        let keys = json!({ "service": "sts", "keys": { &self.role: "000000000000" } });
        self.control(Method::POST, "mutate", keys).await.map(drop)
    }

    pub(super) async fn attach(
        &self,
        volume: &str,
        instance: &str,
        device: &str,
    ) -> Result<(), CallError> {
        let parameters = [
            ("VolumeId", volume),
            ("InstanceId", instance),
            ("Device", device),
        ];
        self.call("AttachVolume", &parameters).await.map(drop)
    }

    pub(super) async fn detach(&self, volume: &str, instance: &str) -> Result<(), CallError> {
        let parameters = [("VolumeId", volume), ("InstanceId", instance)];
        self.call("DetachVolume", &parameters).await.map(drop)
    }

    pub(super) async fn describe(&self, volume: &str) -> Result<DescribedVolume, CallError> {
        let answer = self
            .call("DescribeVolumes", &[("VolumeId.1", volume)])
            .await?;
        Ok(described(&answer))
    }

    /// Returns the id of the volume.
    pub(super) async fn create(&self, new: NewVolume<'_>) -> Result<String> {
        let size = new.gibibytes.to_string();
        let mut parameters = vec![
            ("AvailabilityZone".to_owned(), new.zone),
            ("Size".to_owned(), size.as_str()),
            ("VolumeType".to_owned(), new.kind),
            ("ClientToken".to_owned(), new.token),
            ("TagSpecification.1.ResourceType".to_owned(), "volume"),
        ];
        for (n, &(key, value)) in (1_u32..).zip(new.tags) {
            let tag = format!("TagSpecification.1.Tag.{n}");
            parameters.push((format!("{tag}.Key"), key));
            parameters.push((format!("{tag}.Value"), value));
        }
        let parameters: Vec<_> = parameters
            .iter()
            .map(|(name, value)| (name.as_str(), *value))
            .collect();
        let answer = self.call("CreateVolume", &parameters).await?;
        let id = element(&answer, "volumeId");
        Ok(id.context("CreateVolume returned no id")?.to_owned())
    }

    pub(super) async fn delete(&self, volume: &str) -> Result<(), CallError> {
        let answer = self.call("DeleteVolume", &[("VolumeId", volume)]).await;
        answer.map(drop)
    }

    async fn call(&self, action: &str, parameters: &[(&str, &str)]) -> Result<String, CallError> {
        let fixed = [("Action", action), ("Version", "2016-11-15")];
        let pairs = fixed.iter().chain(parameters);
        let body: Vec<_> = pairs
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let (role, day) = (&self.role, &SIGNED_AT[..8]);
        let credential = format!("{role}/{day}/{REGION}/ec2/aws4_request");
        let signature =
            format!("AWS4-HMAC-SHA256 Credential={credential}, SignedHeaders=host, Signature=none");
        let request = self
            .http
            .post(&self.url)
            .header("authorization", signature)
            .header("x-amz-date", SIGNED_AT)
            .header("content-type", "application/x-www-form-urlencoded");
        let answer = request.body(body.join("&")).send().await?;
        let is_success = answer.status().is_success();
        let answer = answer.text().await?;
        if is_success {
            return Ok(answer);
        }
        let text = |name| element(&answer, name).unwrap_or_default().to_owned();
        Err(CallError::Refused {
            action: action.to_owned(),
            code: text("Code"),
            message: text("Message"),
        })
    }

    /// A request of a node: `mount`, `unmount` or `log`. Without effect if the volume is gone.
    pub(super) async fn report(&self, volume: &str, verb: &str, body: Value) -> Result<()> {
        let path = format!("ec2/volumes/{volume}/{verb}");
        let answer = self.send(Method::POST, &path, &body).await?;
        if answer.status() == StatusCode::NOT_FOUND {
            return Ok(());
        }
        read(&path, answer).await.map(drop)
    }

    /// A control request; `path` is below `/_emu/`.
    pub(super) async fn control(&self, method: Method, path: &str, body: Value) -> Result<Value> {
        read(path, self.send(method, path, &body).await?).await
    }

    async fn send(&self, method: Method, path: &str, body: &Value) -> reqwest::Result<Response> {
        let url = format!("{}/_emu/{path}", self.url);
        self.http.request(method, url).json(body).send().await
    }
}

async fn read(path: &str, answer: Response) -> Result<Value> {
    let status = answer.status();
    let text = answer.text().await?;
    if !status.is_success() {
        bail!("the emulator refused {path} ({status}): {text}");
    }
    serde_json::from_str(&text).with_context(|| format!("the emulator answered {path} badly"))
}

fn described(answer: &str) -> DescribedVolume {
    // The volume's own status follows its zone; those of attachments come later.
    let own = answer.split_once("</availabilityZone>");
    let own = own.map_or(answer, |(_, after)| after);
    let attachments = element(answer, "attachmentSet").unwrap_or_default();
    let text = |part: &str, name: &str| element(part, name).unwrap_or_default().to_owned();
    let attachment = |part: &str| DescribedAttachment {
        instance: text(part, "instanceId"),
        device: text(part, "device"),
        state: text(part, "status"),
    };
    DescribedVolume {
        state: text(own, "status"),
        attachments: attachments
            .split("</item>")
            .filter(|part| part.contains("<item>"))
            .map(attachment)
            .collect(),
    }
}

/// The content of the first element of this name.
fn element<'a>(document: &'a str, name: &str) -> Option<&'a str> {
    let (_, after) = document.split_once(&format!("<{name}>"))?;
    let (content, _) = after.split_once(&format!("</{name}>"))?;
    Some(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_and_attachments_of_a_volume_are_read() {
        let answer = "<DescribeVolumesResponse><volumeSet><item><volumeId>vol-0000000a</volumeId>\
            <availabilityZone>us-east-1a</availabilityZone><status>in-use</status><attachmentSet>\
            <item><instanceId>i-0000000a</instanceId><device>/dev/xvdaa</device>\
            <status>attaching</status></item></attachmentSet></item></volumeSet>\
            </DescribeVolumesResponse>";
        let expected = DescribedVolume {
            state: "in-use".into(),
            attachments: vec![DescribedAttachment {
                instance: "i-0000000a".into(),
                device: "/dev/xvdaa".into(),
                state: "attaching".into(),
            }],
        };
        assert_eq!(described(answer), expected);
    }

    #[test]
    fn a_free_volume_has_no_attachments() {
        let answer = "<item><availabilityZone>us-east-1a</availabilityZone>\
            <status>available</status><attachmentSet/></item>";
        let volume = described(answer);
        assert_eq!(
            (volume.state.as_str(), volume.attachments.len()),
            ("available", 0)
        );
    }
}

//! A capture as the bytes of a Secret.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{Read as _, Write as _};

use flate2::read::GzDecoder;
use flate2::{Compression, GzBuilder};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use serde_json::Value;

use super::super::{RECORD_LIMIT, hashes, marker, names};
use super::{Capture, CaptureTooLarge, Damage, DamagedCapture, VERSION, key};

/// The key of the compressed JSON.
pub(super) const CONTENT: &str = "capture.json.gz";
/// The key of its hash.
pub(super) const HASH: &str = "sha256";
/// Most bytes of the JSON: a small Secret of somebody else must not fill our memory.
pub(super) const JSON_LIMIT: usize = 64 * 1024 * 1024;
/// The field `OS` of the gzip header, for `unknown`: the same bytes on every machine.
const UNKNOWN_SYSTEM: u8 = 255;

/// A capture with its compressed bytes, either packed by us or verified.
#[derive(Clone, PartialEq)]
pub struct PackedCapture {
    capture: Capture,
    bytes: Vec<u8>,
    sha256: String,
}

impl PackedCapture {
    pub(super) fn of(capture: &Capture) -> Result<Self, CaptureTooLarge> {
        let json = hashes::canonical(&capture.as_value());
        let bytes = compress(json.as_bytes());
        if bytes.len() > RECORD_LIMIT || json.len() > JSON_LIMIT {
            return Err(CaptureTooLarge {
                stateful_set: capture.set_key(),
                bytes: bytes.len(),
                largest: capture.largest_part(),
            });
        }
        Ok(Self {
            capture: capture.clone(),
            sha256: hashes::sha256(&bytes),
            bytes,
        })
    }

    /// The content of a Secret, if its hash is right and it is of this run.
    pub fn from_secret(secret: &Secret, run_id: &str) -> Result<Self, DamagedCapture> {
        Self::verify(secret, run_id).map_err(|damage| DamagedCapture {
            secret: secret_key(secret),
            damage,
        })
    }

    fn verify(secret: &Secret, run_id: &str) -> Result<Self, Damage> {
        let empty = BTreeMap::new();
        let keys = secret.data.as_ref().unwrap_or(&empty);
        let bytes = &keys.get(CONTENT).ok_or(Damage::NoKey(CONTENT))?.0;
        let stored = &keys.get(HASH).ok_or(Damage::NoKey(HASH))?.0;
        let sha256 = hashes::sha256(bytes);
        if *stored != sha256.as_bytes() {
            return Err(Damage::HashDiffers);
        }
        let json = decompress(bytes).ok_or(Damage::Unreadable)?;
        let value: Value = serde_json::from_slice(&json).map_err(|_| Damage::Unreadable)?;
        let version = value.get("version").and_then(Value::as_u64);
        if version != Some(u64::from(VERSION)) {
            return Err(Damage::Version(version));
        }
        let capture: Capture = serde_json::from_value(value).map_err(|_| Damage::Unreadable)?;
        if capture.run_id != run_id {
            return Err(Damage::OtherRun(capture.run_id));
        }
        Ok(Self {
            capture,
            bytes: bytes.clone(),
            sha256,
        })
    }

    /// The capture.
    pub fn capture(&self) -> &Capture {
        &self.capture
    }

    /// The capture, without the bytes.
    pub fn into_capture(self) -> Capture {
        self.capture
    }

    /// The hash of the compressed bytes, for `status.capture.sha256`.
    pub fn sha256(&self) -> &str {
        &self.sha256
    }

    /// The number of compressed bytes.
    pub fn size(&self) -> usize {
        self.bytes.len()
    }

    /// The name of the Secret, for `status.capture.secret`.
    pub fn name(&self) -> String {
        names::capture_name(key(&self.capture.stateful_set).1, &self.capture.run_id)
    }

    /// The immutable Secret with exactly these bytes.
    ///
    /// `owner` is the migration, for the copy in its namespace alone: that copy is deleted with it.
    /// Pass none for the copy in the namespace of the source, also if both are the same Secret:
    /// the capture must outlive a migration that is deleted by mistake.
    pub fn secret(&self, namespace: &str, owner: Option<OwnerReference>) -> Secret {
        let keys = [
            (CONTENT, self.bytes.clone()),
            (HASH, self.sha256.clone().into_bytes()),
        ];
        Secret {
            metadata: ObjectMeta {
                name: Some(self.name()),
                namespace: Some(namespace.to_owned()),
                annotations: Some(BTreeMap::from([marker::annotation(&self.capture.run_id)])),
                owner_references: owner.map(|owner| vec![owner]),
                ..ObjectMeta::default()
            },
            immutable: Some(true),
            type_: Some("Opaque".to_owned()),
            data: Some(
                keys.map(|(key, bytes)| (key.to_owned(), ByteString(bytes)))
                    .into(),
            ),
            ..Secret::default()
        }
    }
}

/// Without the bytes: pod templates may contain secrets.
impl fmt::Debug for PackedCapture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PackedCapture")
            .field("capture", &self.capture)
            .field("size", &self.size())
            .field("sha256", &self.sha256)
            .finish_non_exhaustive()
    }
}

pub(super) fn secret_key(secret: &Secret) -> String {
    let ObjectMeta {
        namespace, name, ..
    } = &secret.metadata;
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    format!("{}/{}", text(namespace), text(name))
}

/// Without time and system, so that the same input gives the same bytes.
pub(super) fn compress(json: &[u8]) -> Vec<u8> {
    let header = GzBuilder::new().mtime(0).operating_system(UNKNOWN_SYSTEM);
    let mut encoder = header.write(Vec::new(), Compression::best());
    encoder
        .write_all(json)
        .expect("writing to memory cannot fail");
    encoder.finish().expect("writing to memory cannot fail")
}

/// None if the bytes are not gzip, or expand beyond the limit.
pub(super) fn decompress(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut json = Vec::new();
    let limit = u64::try_from(JSON_LIMIT).expect("64 MiB fit") + 1;
    let mut content = GzDecoder::new(bytes).take(limit);
    content.read_to_end(&mut json).ok()?;
    (json.len() <= JSON_LIMIT).then_some(json)
}

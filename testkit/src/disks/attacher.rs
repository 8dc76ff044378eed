//! VolumeAttachments: AttachVolume and DetachVolume, as the CSI attacher and the EBS driver make them.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::api::{core::v1::PersistentVolume, storage::v1::VolumeAttachment};
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams},
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use super::{
    DRIVER, Simulation, done_if_gone,
    finalizers::{with_finalizer, without_finalizer},
    nodes::instance_of,
    objects::ByUid,
    volume_id,
};

const FINALIZER: &str = "external-attacher/ebs-csi-aws-com";
/// The attacher remembers here which instance has the volume, for a node that is gone.
const NODE_ID: &str = "csi.alpha.kubernetes.io/node-id";
/// The pause between two reads of a change of EC2.
const POLL: Duration = Duration::from_millis(250);
/// How many reads may be older than our request.
const STALE_READS: u32 = 40;
/// The pause after a failed attempt.
const BACKOFF: Duration = Duration::from_secs(1);

/// The names of devices in use, by instance and volume.
#[derive(Default)]
pub(super) struct Devices(Mutex<BTreeMap<String, BTreeMap<String, String>>>);

impl Devices {
    /// The device of a volume, always the same until it is freed.
    fn allot(&self, instance: &str, volume: &str) -> String {
        let mut all = self.0.lock();
        let used = all.entry(instance.to_owned()).or_default();
        if let Some(device) = used.get(volume) {
            return device.clone();
        }
        let names = ('a'..='d').flat_map(|first| ('a'..='z').map(move |last| (first, last)));
        let mut names = names.map(|(first, last)| format!("/dev/xvd{first}{last}"));
        let unused = names.find(|name| !used.values().any(|device| device == name));
        let device = unused.unwrap_or_else(|| "/dev/xvdzz".to_owned());
        used.insert(volume.to_owned(), device.clone());
        device
    }

    fn free(&self, instance: &str, volume: &str) {
        if let Some(used) = self.0.lock().get_mut(instance) {
            used.remove(volume);
        }
    }
}

/// What a VolumeAttachment connects.
struct Connection {
    simulation: Arc<Simulation>,
    uid: String,
    name: String,
    volume: String,
    instance: String,
}

/// Attaches, and after the object's deletion detaches.
pub(super) async fn run(simulation: Arc<Simulation>, object: Arc<VolumeAttachment>) {
    if object.spec.attacher != DRIVER {
        return;
    }
    let uid = object.uid().unwrap_or_default();
    let connected = |all: &ByUid<PersistentVolume>| {
        let name = object.spec.source.persistent_volume_name.as_deref();
        let found = all
            .values()
            .find(|one| Some(one.name_any().as_str()) == name);
        found.and_then(|one| volume_id(one))
    };
    let deleted = |one: &VolumeAttachment| one.metadata.deletion_timestamp.is_some().then_some(());
    let volume = tokio::select! {
        volume = simulation.volumes.until(connected) => volume,
        // Without our finalizer it needs nothing.
        _ = simulation.attachments.until_one(&uid, deleted), if !has_finalizer(&object) => return,
    };
    let node = simulation.node(&object.spec.node_name);
    let recorded = || object.annotations().get(NODE_ID).cloned();
    let instance = node.as_deref().and_then(instance_of).or_else(recorded);
    let connection = Connection {
        uid: uid.clone(),
        name: object.name_any(),
        volume,
        instance: instance.unwrap_or_default(),
        simulation: Arc::clone(&simulation),
    };
    connection.attach().await;
    if connection.deleted().await {
        connection.detach().await;
    }
}

impl Connection {
    /// Attaches the volume, or returns when the object is deleted. Then the detach undoes what was begun.
    async fn attach(&self) {
        let claimed = async || self.add_finalizer().await;
        self.retried("adding a finalizer", claimed).await;
        let device = self.simulation.devices.allot(&self.instance, &self.volume);
        while !self.is_deleted() {
            match self.attach_once(&device).await {
                Ok(device) => {
                    let metadata = json!({ "devicePath": device });
                    let status = json!({
                        "attached": true, "attachmentMetadata": metadata, "attachError": null,
                    });
                    return self.write_status(status).await;
                }
                Err(error) => {
                    self.write_status(failure("attachError", &error)).await;
                    self.record("attaching", error);
                }
            }
            self.pause(BACKOFF).await;
        }
    }

    /// Returns the device, which is another if the volume was attached before.
    async fn attach_once(&self, device: &str) -> Result<String> {
        let ec2 = &self.simulation.ec2;
        let mut reads_since_request = None;
        loop {
            ensure!(!self.is_deleted(), "the VolumeAttachment is deleted");
            let volume = ec2.describe(&self.volume).await?;
            let mut attachments = volume.attachments.iter();
            let own = attachments.find(|one| one.instance == self.instance);
            match own.map(|one| (one.state.as_str(), &one.device)) {
                Some(("attached", device)) => return Ok(device.clone()),
                Some(("attaching", _)) => {}
                Some((state, _)) => bail!("{} is {state} there", self.volume),
                None => match &mut reads_since_request {
                    Some(STALE_READS) => bail!("{} is not attached any more", self.volume),
                    Some(reads) => *reads += 1,
                    None => {
                        ec2.attach(&self.volume, &self.instance, device).await?;
                        reads_since_request = Some(0);
                    }
                },
            }
            self.pause(POLL).await;
        }
    }

    async fn detach(&self) {
        loop {
            match self.detach_once().await {
                Ok(()) => break,
                Err(error) => {
                    self.write_status(failure("detachError", &error)).await;
                    self.record("detaching", error);
                }
            }
            sleep(self.simulation.span(BACKOFF)).await;
        }
        self.simulation.devices.free(&self.instance, &self.volume);
        let freed = async || self.remove_finalizer().await;
        self.retried("removing a finalizer", freed).await;
    }

    async fn detach_once(&self) -> Result<()> {
        let ec2 = &self.simulation.ec2;
        match ec2.detach(&self.volume, &self.instance).await {
            Err(error) if error.is_absence() => return Ok(()),
            outcome => outcome?,
        }
        loop {
            let volume = match ec2.describe(&self.volume).await {
                Err(error) if error.is_absence() => return Ok(()),
                volume => volume?,
            };
            let mut attachments = volume.attachments.iter();
            if !attachments.any(|one| one.instance == self.instance) {
                return Ok(());
            }
            sleep(self.simulation.span(POLL)).await;
        }
    }

    async fn add_finalizer(&self) -> Result<()> {
        let api = self.api();
        let annotations = json!({ NODE_ID: self.instance });
        let metadata = json!({ "uid": self.uid, "annotations": annotations });
        let annotation = Patch::Merge(json!({ "metadata": metadata }));
        let params = PatchParams::default();
        done_if_gone(api.patch(&self.name, &params, &annotation).await)?;
        with_finalizer(&api, &self.name, FINALIZER).await?;
        let volume = self
            .object()
            .and_then(|one| one.spec.source.persistent_volume_name.clone());
        let volumes = Api::<PersistentVolume>::all(self.simulation.client.clone());
        let volume = volume.context("the VolumeAttachment has no PersistentVolume")?;
        with_finalizer(&volumes, &volume, FINALIZER).await
    }

    async fn remove_finalizer(&self) -> Result<()> {
        without_finalizer(&self.api(), &self.name, FINALIZER).await
    }

    async fn write_status(&self, status: Value) {
        let api = self.api();
        // The next object may have the same name.
        let metadata = json!({ "uid": self.uid });
        let patch = Patch::Merge(json!({ "metadata": metadata, "status": status }));
        let write = async || {
            let params = PatchParams::default();
            done_if_gone(api.patch_status(&self.name, &params, &patch).await)
        };
        self.retried("writing the status", write).await;
    }

    /// Waits until the object is deleted; `false` if it is gone already.
    async fn deleted(&self) -> bool {
        let deleted =
            |one: &VolumeAttachment| one.metadata.deletion_timestamp.is_some().then_some(());
        let attachments = &self.simulation.attachments;
        attachments.until_one(&self.uid, deleted).await.is_some()
    }

    fn is_deleted(&self) -> bool {
        let object = self.object();
        object.is_none_or(|object| object.metadata.deletion_timestamp.is_some())
    }

    /// A pause that the deletion of the object ends.
    async fn pause(&self, real: Duration) {
        let longest = self.simulation.span(real);
        // Elapsed is the usual end.
        let _ = timeout(longest, self.deleted()).await;
    }

    async fn retried<T>(&self, action: &str, attempt: impl AsyncFn() -> Result<T>) -> T {
        let action = format!("VolumeAttachment {}: {action}", self.name);
        self.simulation.errors.retried(&action, attempt).await
    }

    fn record(&self, action: &str, error: anyhow::Error) {
        let action = format!("{action} {} on {}", self.volume, self.instance);
        self.simulation.errors.record(&action, &Err(error));
    }

    fn object(&self) -> Option<Arc<VolumeAttachment>> {
        let attachments = &self.simulation.attachments;
        attachments.find(|one| one.uid().as_ref() == Some(&self.uid))
    }

    fn api(&self) -> Api<VolumeAttachment> {
        Api::all(self.simulation.client.clone())
    }
}

/// Removes the attacher's finalizer from a deleted PersistentVolume that nothing attaches.
pub(super) async fn free_volume(simulation: Arc<Simulation>, volume: Arc<PersistentVolume>) {
    let uid = volume.uid().unwrap_or_default();
    let name = volume.name_any();
    let deleted = |one: &PersistentVolume| one.metadata.deletion_timestamp.is_some().then_some(());
    if simulation.volumes.until_one(&uid, deleted).await.is_none() {
        return;
    }
    let unused = |all: &ByUid<VolumeAttachment>| {
        let uses = |one: &Arc<VolumeAttachment>| {
            one.spec.source.persistent_volume_name.as_ref() == Some(&name)
        };
        (!all.values().any(uses)).then_some(())
    };
    simulation.attachments.until(unused).await;
    let volumes = Api::<PersistentVolume>::all(simulation.client.clone());
    let free = async || without_finalizer(&volumes, &name, FINALIZER).await;
    simulation
        .errors
        .retried("removing a finalizer", free)
        .await;
}

fn has_finalizer(object: &VolumeAttachment) -> bool {
    object.finalizers().iter().any(|one| one == FINALIZER)
}

fn failure(field: &str, error: &anyhow::Error) -> Value {
    let now = jiff::Timestamp::now().to_string();
    json!({ field: { "message": format!("{error:#}"), "time": now } })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_free_again_after_a_detach() {
        let devices = Devices::default();
        assert_eq!(devices.allot("i-1", "vol-1"), "/dev/xvdaa");
        assert_eq!(devices.allot("i-1", "vol-2"), "/dev/xvdab");
        assert_eq!(devices.allot("i-1", "vol-1"), "/dev/xvdaa");
        devices.free("i-1", "vol-1");
        assert_eq!(devices.allot("i-1", "vol-3"), "/dev/xvdaa");
        assert_eq!(devices.allot("i-2", "vol-4"), "/dev/xvdaa");
    }
}

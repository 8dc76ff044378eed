//! The rules of EC2, one by one, and what its oracle sees.

mod access;
mod attachments;
mod control;
mod describe;
mod in_memory;
mod oracle;
mod snapshots;
mod tagging;
mod volumes;

use http::Method;
use serde_json::{Value, json};

use crate::desk::{Answer, Desk};

const VOLUME: &str = "vol-0000000a";
const OTHER: &str = "vol-0000000b";
const MISSING: &str = "vol-0000000f";
const NODE: &str = "i-0000000a";
const NEXT: &str = "i-0000000b";
/// A node in another zone.
const FAR: &str = "i-0000000c";
const ZONE: &str = "us-east-1a";
/// The callers: a driver of a cluster, and the operator under test.
const ATTACHER: &str = "attacher-src";
const PONTOON: &str = "pontoon";

/// Two volumes and two nodes in one zone, one node in another, and known callers.
fn desk() -> Desk {
    let mut desk = Desk::new();
    let account = "000000000000";
    let keys = json!({ ATTACHER: account, "attacher-dst": account, PONTOON: account });
    desk.mutate("sts", json!({ "keys": keys }));
    desk.declare(json!({ "operators": [PONTOON] }));
    for (id, az) in [(NODE, ZONE), (NEXT, ZONE), (FAR, "us-east-1b")] {
        put(&mut desk, &format!("instances/{id}"), json!({ "az": az }));
    }
    for id in [VOLUME, OTHER] {
        put(&mut desk, &format!("volumes/{id}"), json!({ "az": ZONE }));
    }
    desk
}

/// A call with these parameters.
fn call(desk: &mut Desk, caller: &str, action: &str, parameters: &[(&str, &str)]) -> Answer {
    let fixed = [("Action", action), ("Version", "2016-11-15")];
    let pairs = fixed.iter().chain(parameters);
    let body: Vec<_> = pairs
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    let form = [(
        "content-type",
        "application/x-www-form-urlencoded; charset=utf-8",
    )];
    desk.as_key(caller, "ec2", Method::POST, "/", &form, &body.join("&"))
}

fn attach(desk: &mut Desk, volume: &str, instance: &str) -> Answer {
    let device = format!("/dev/xvdb{}", &volume[11..]);
    let parameters = [
        ("VolumeId", volume),
        ("InstanceId", instance),
        ("Device", &device),
    ];
    call(desk, ATTACHER, "AttachVolume", &parameters)
}

fn detach(desk: &mut Desk, volume: &str, instance: &str) -> Answer {
    let parameters = [("VolumeId", volume), ("InstanceId", instance)];
    call(desk, ATTACHER, "DetachVolume", &parameters)
}

/// DescribeVolumes by the filter `volume-id`.
fn seen(desk: &mut Desk, volume: &str) -> Answer {
    let filter = [("Filter.1.Name", "volume-id"), ("Filter.1.Value.1", volume)];
    call(desk, ATTACHER, "DescribeVolumes", &filter).ok()
}

/// The states of a volume and of its attachments, as DescribeVolumes answers them.
fn states(desk: &mut Desk, volume: &str) -> Vec<String> {
    seen(desk, volume).texts("status")
}

fn put(desk: &mut Desk, path: &str, body: Value) -> Value {
    desk.control(Method::PUT, &format!("ec2/{path}"), body)
}

/// A verb of a volume.
fn act(desk: &mut Desk, volume: &str, action: &str, body: Value) -> Value {
    desk.control(
        Method::POST,
        &format!("ec2/volumes/{volume}/{action}"),
        body,
    )
}

fn shown(desk: &mut Desk, volume: &str) -> Value {
    desk.control(Method::GET, &format!("ec2/volumes/{volume}"), Value::Null)
}

fn log(desk: &mut Desk, volume: &str, instance: &str, pod: (&str, &str), event: &str) -> Value {
    let (uid, name) = pod;
    let entry = json!({ "instance": instance, "podUid": uid, "podName": name, "event": event });
    act(desk, volume, "log", entry)
}

//! What a pass over a Probe must know, read once.

use api::probe::{Probe, reasons};
use base64::Engine as _;
use engine::{Cache, Kind, Pass};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kernel::{Marker, ObjectKey, Reason, Redacted, label};
use serde_json::Value;

use super::{Error, Stop};
use crate::Ctx;
use crate::outside::Thing;

/// Everything the decision needs.
pub(super) struct World {
    pub(super) deleting: bool,
    pub(super) uid: String,
    pub(super) key: ObjectKey,
    /// The name of our thing outside, and the marker it carries.
    pub(super) outside_name: String,
    pub(super) marker: String,
    /// Recorded before: it may exist.
    pub(super) recorded: bool,
    pub(super) thing: Option<Thing>,
    pub(super) config_map: Option<Value>,
    pub(super) secret: Option<Redacted<String>>,
}

pub(super) async fn gather(
    probe: &Probe,
    ctx: &Ctx,
    owned: &Cache,
    pass: &Pass,
) -> Result<World, Stop> {
    let key = pass.key().clone();
    let recorded = probe
        .status
        .as_ref()
        .and_then(|status| status.outside_name.clone());
    let cluster = ctx.deck.cluster.to_string();
    let derived = label(&[
        &cluster,
        key.namespace.as_deref().unwrap_or_default(),
        &key.name,
    ]);
    let outside_name = recorded.clone().unwrap_or(derived);
    let marker = Marker::new(&ctx.deck.cluster, &key);
    let thing = match (&ctx.outside, &probe.spec.outside, &recorded) {
        (_, None, None) => None,
        (Some(outside), ..) => outside.find(&outside_name).await.map_err(Error::from)?,
        (None, ..) => return Err(Error::NoOutside.into()),
    };
    let kind = Kind::of::<ConfigMap>();
    let config_map = match owned.store().get(&key) {
        Some(held) => held.parse(&kind).ok(),
        // Not in our cache: absent, or not ours. The applier must not guess.
        None => ctx.applier.read(&kind, &key).await.map_err(Error::from)?,
    };
    Ok(World {
        deleting: pass.object().is_deleting(),
        uid: pass.object().uid().to_owned(),
        outside_name,
        marker: format!("{}|{}", marker.cluster, marker.object),
        recorded: recorded.is_some(),
        thing,
        config_map,
        // What goes needs no value; the Secret may have gone first.
        secret: if pass.object().is_deleting() {
            None
        } else {
            secret(probe, ctx, &key).await?
        },
        key,
    })
}

async fn secret(
    probe: &Probe,
    ctx: &Ctx,
    key: &ObjectKey,
) -> Result<Option<Redacted<String>>, Stop> {
    let Some(named) = probe
        .spec
        .outside
        .as_ref()
        .and_then(|outside| outside.secret.as_ref())
    else {
        return Ok(None);
    };
    let at = ObjectKey::of(key.namespace.as_deref(), &named.name);
    let secret = ctx
        .applier
        .read(&Kind::of::<Secret>(), &at)
        .await
        .map_err(Error::from)?;
    let value = secret
        .as_ref()
        .and_then(|secret| secret["data"][&named.key].as_str());
    let value = value.and_then(|text| {
        String::from_utf8(
            base64::engine::general_purpose::STANDARD
                .decode(text)
                .ok()?,
        )
        .ok()
    });
    let Some(value) = value else {
        let message = format!(
            "Secret {at} has no readable key {}; create it and the Probe goes on",
            named.key
        );
        return Err(Stop::waiting(
            Reason::new(reasons::SECRET_NOT_READABLE, message),
            std::time::Duration::from_secs(30),
        ));
    };
    Ok(Some(Redacted::new(value)))
}

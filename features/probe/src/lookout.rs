//! A Lookout starts a controller over a kind known only at run time, and ends it when it goes.

use std::collections::HashMap;
use std::sync::Arc;

use api::probe::{Lookout, OWNED_LABEL, ProbeStatus, READY, reasons};
use engine::{ApiError, ControllerSpec, Kind, Pass, Reconcile, Running, WatchKey};
use k8s_openapi::api::core::v1::ConfigMap;
use kernel::{Conditions, ObjectKey, Progress, Reason};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::Ctx;

pub(crate) struct Lookouts {
    ctx: Arc<Ctx>,
    running: Mutex<HashMap<ObjectKey, (Kind, Running)>>,
}

impl Lookouts {
    pub(crate) fn new(ctx: Arc<Ctx>) -> Self {
        Self {
            ctx,
            running: Mutex::default(),
        }
    }
}

impl Reconcile for Lookouts {
    type Object = Lookout;
    type Error = ApiError;

    async fn reconcile(&self, lookout: &Lookout, pass: &mut Pass) -> Result<Progress, ApiError> {
        let spec = &lookout.spec;
        let kind = Kind {
            group: spec.group.clone(),
            version: spec.version.clone(),
            kind: spec.kind.clone(),
            plural: spec.plural.clone(),
            namespaced: true,
        };
        let other = {
            let mut running = self.running.lock();
            match running.get(pass.key()) {
                Some((held, _)) if *held == kind => None,
                _ => {
                    let seen = Sightings {
                        ctx: self.ctx.clone(),
                    };
                    let started = self
                        .ctx
                        .deck
                        .control(ControllerSpec::new(WatchKey::all(kind.clone()), seen));
                    running.insert(pass.key().clone(), (kind, started))
                }
            }
        };
        if let Some((_, before)) = other {
            before.stop().await;
        }
        let mut status = lookout.status.clone().unwrap_or_default();
        let mut set = Conditions::new(
            &status.conditions,
            lookout.metadata.generation,
            pass.clock().now(),
        );
        set.yes(
            READY,
            &Reason::new(reasons::SUCCEEDED, "a controller looks out for this kind"),
        );
        status = ProbeStatus {
            conditions: set.into_parts().0,
            ..status
        };
        pass.write_status(&status).await?;
        Ok(Progress::done())
    }

    fn gone(&self, key: &ObjectKey) {
        if let Some((_, running)) = self.running.lock().remove(key) {
            running.end();
        }
    }
}

/// Reconciles objects of a kind no Rust type stands for.
struct Sightings {
    ctx: Arc<Ctx>,
}

impl Reconcile for Sightings {
    type Object = Value;
    type Error = ApiError;

    async fn reconcile(&self, object: &Value, pass: &mut Pass) -> Result<Progress, ApiError> {
        let metadata = json!({
            "name": format!("seen-{}", pass.key().name),
            "namespace": pass.key().namespace.as_deref(),
            "labels": {OWNED_LABEL: "true"},
        });
        let desired = json!({"metadata": metadata, "data": {"spec": object["spec"].to_string()}});
        self.ctx
            .applier
            .read_and_apply(&Kind::of::<ConfigMap>(), desired)
            .await?;
        Ok(Progress::done())
    }
}

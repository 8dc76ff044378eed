//! For `pontoon doctor`: whether the Vault behind each connection answers from here.

use std::sync::Arc;

use api::vault::VaultConnection;
use engine::cli::Failure;
use engine::{Check, SharedValues};
use futures::future::join_all;
use kernel::RealClock;
use kube::api::{Api, ListParams};
use kube::{Client, ResourceExt};
use vault_client::{Parts, Unobserved};

use super::session::without_login;
use crate::connection::{ProcessAws, ServiceAccountRef, prepare};
use crate::settings::Settings;

/// Asks every connection's Vault for its health, which needs no login.
pub(crate) async fn doctor_checks(
    kube: &Client,
    settings: Settings,
    shared: &SharedValues,
) -> Vec<Check> {
    let clock = Arc::new(RealClock::new());
    let reader = Reader {
        kube,
        account: &settings.service_account,
        aws: ProcessAws::new(shared.of(), settings.aws_region, clock, Vec::new()),
    };
    let api = Api::<VaultConnection>::all(kube.clone());
    match api.list(&ListParams::default()).await {
        Ok(all) => join_all(all.iter().map(|one| check(one, &reader))).await,
        Err(kube::Error::Api(status)) if status.code == 404 => Vec::new(), // its CRD is missing
        Err(error) => vec![Check::wrong("vault: connections", error.to_string())],
    }
}

/// What connections are read with.
struct Reader<'a> {
    kube: &'a Client,
    account: &'a ServiceAccountRef,
    aws: ProcessAws,
}

async fn check(connection: &VaultConnection, reader: &Reader<'_>) -> Check {
    let what = format!("vault: connection {}", connection.name_any());
    match version(connection, reader).await {
        Ok(version) => Check::fine(what, format!("Vault {version} answers")),
        Err(error) => Check::wrong(
            what,
            format!("{error}; if only the operator's Pod can reach it, ask from there"),
        ),
    }
}

async fn version(connection: &VaultConnection, reader: &Reader<'_>) -> Result<String, Failure> {
    let Reader { kube, account, aws } = reader;
    let config = prepare(&without_login(connection), kube, account, aws).await?;
    let parts = Parts {
        clock: Arc::new(RealClock::new()),
        guards: Vec::new(),
        observer: Arc::new(Unobserved),
    };
    let vault = vault_client::Client::new(config, parts)?;
    let health = vault.health().await?;
    health.usable(&connection.spec.address)?;
    Ok(health.version)
}

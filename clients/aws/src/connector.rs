//! The HTTP connections of all AWS clients: the SDK's connector with the leader's guard.

use std::time::Duration;

use aws_smithy_http_client::proxy::ProxyConfig;
use aws_smithy_http_client::tls::{Provider, rustls_provider::CryptoMode};
use aws_smithy_http_client::{Builder, ConnectorBuilder};
use aws_smithy_runtime_api::box_error::BoxError;
use aws_smithy_runtime_api::client::connector_metadata::ConnectorMetadata;
use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpClient,
    SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::client::runtime_components::{
    RuntimeComponents, RuntimeComponentsBuilder,
};
use aws_smithy_types::body::SdkBody;
use aws_smithy_types::config_bag::ConfigBag;
use kernel::{Guard, GuardedBody};

/// Idle connections are closed after this long. The SDK cannot turn on TCP keep-alive, so a dead
/// connection would go unnoticed (docs/decisions/aws-connections.md).
const IDLE: Duration = Duration::from_secs(20);

tokio::task_local! {
    static GUARDS: Vec<Guard>;
}

/// Runs `call`; its requests are sent only while all `guards` are open.
pub(crate) async fn under<F: Future>(guards: &[Guard], call: F) -> F::Output {
    GUARDS.scope(guards.to_vec(), call).await
}

/// The SDK's default client. It honours `HTTPS_PROXY` and the system's certificates.
pub(crate) fn http_client() -> SharedHttpClient {
    let plain = Builder::new().build_with_connector_fn(|settings, components| {
        let mut builder = ConnectorBuilder::default()
            .tls_provider(Provider::Rustls(CryptoMode::AwsLc))
            .pool_idle_timeout(IDLE);
        builder.set_connector_settings(settings.cloned());
        if let Some(components) = components {
            builder.set_sleep_impl(components.sleep_impl());
        }
        builder.set_proxy_config(Some(ProxyConfig::from_env()));
        builder.build()
    });
    SharedHttpClient::new(GuardedClient(plain))
}

#[derive(Debug)]
struct GuardedClient(SharedHttpClient);

impl HttpClient for GuardedClient {
    fn http_connector(
        &self,
        settings: &HttpConnectorSettings,
        components: &RuntimeComponents,
    ) -> SharedHttpConnector {
        let plain = self.0.http_connector(settings, components);
        SharedHttpConnector::new(GuardedConnector(plain))
    }

    fn validate_base_client_config(
        &self,
        components: &RuntimeComponentsBuilder,
        config: &ConfigBag,
    ) -> Result<(), BoxError> {
        self.0.validate_base_client_config(components, config)
    }

    fn connector_metadata(&self) -> Option<ConnectorMetadata> {
        self.0.connector_metadata()
    }
}

#[derive(Debug)]
struct GuardedConnector(SharedHttpConnector);

impl HttpConnector for GuardedConnector {
    fn call(&self, mut request: HttpRequest) -> HttpConnectorFuture {
        let guards = GUARDS.try_with(Clone::clone).unwrap_or_default();
        if !guards.is_empty() {
            // With HTTP/2 the head of a request is sent before its body is read.
            if let Err(deposed) = guards.iter().try_for_each(Guard::check) {
                let refused = ConnectorError::other(deposed.into(), None).never_connected();
                return HttpConnectorFuture::ready(Err(refused));
            }
            let body = std::mem::replace(request.body_mut(), SdkBody::taken());
            *request.body_mut() = SdkBody::from_body_1_x(GuardedBody::wrap(body, guards));
        }
        self.0.call(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// Counts requests and answers none.
    #[derive(Debug, Default, Clone)]
    struct Wire(Arc<AtomicU32>);

    impl HttpConnector for Wire {
        fn call(&self, _: HttpRequest) -> HttpConnectorFuture {
            self.0.fetch_add(1, Ordering::SeqCst);
            HttpConnectorFuture::ready(Err(ConnectorError::io("no answer".into())))
        }
    }

    #[tokio::test]
    async fn a_closed_guard_stops_a_request_before_its_head() {
        let wire = Wire::default();
        let connector = GuardedConnector(SharedHttpConnector::new(wire.clone()));
        let guard = Guard::always();
        let call = || {
            under(std::slice::from_ref(&guard), async {
                connector.call(HttpRequest::empty()).await.unwrap_err()
            })
        };
        assert_eq!(GuardedBody::refused(&call().await), None);
        guard.revoke();
        assert_eq!(GuardedBody::refused(&call().await), Some(kernel::Deposed));
        assert_eq!(wire.0.load(Ordering::SeqCst), 1);
    }
}

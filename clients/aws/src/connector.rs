//! The HTTP connections of all AWS clients: the SDK's connector with the leader's guard.

use std::net::IpAddr;
use std::time::Duration;

use aws_smithy_http_client::proxy::ProxyConfig;
use aws_smithy_http_client::tls::{Provider, rustls_provider::CryptoMode};
use aws_smithy_http_client::{Builder, Connector, ConnectorBuilder};
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

/// The connections of our own calls, through the SDK and without it; and the SDK's default client,
/// whose calls with the same time-outs use them too. Both honour the system's certificates and, but
/// for [nearby](is_nearby) hosts, `HTTPS_PROXY` and `HTTP_PROXY`.
pub(crate) fn connections(connect_timeout: Duration) -> (SharedHttpConnector, SharedHttpClient) {
    let settings = HttpConnectorSettings::builder().connect_timeout(connect_timeout);
    let settings = Some(settings.build());
    let [proxied, direct] = PROXIES.map(|proxy| connector(proxy, settings.clone(), None));
    let own = guarded(
        SharedHttpConnector::new(proxied),
        SharedHttpConnector::new(direct),
    );
    let others = PROXIES.map(|proxy| {
        Builder::new().build_with_connector_fn(move |settings, components| {
            connector(proxy, settings.cloned(), components)
        })
    });
    let client = GuardedClient {
        own: own.clone(),
        connect_timeout,
        others,
    };
    (own, SharedHttpClient::new(client))
}

/// The connections through the proxies of the environment, and those without.
const PROXIES: [fn() -> ProxyConfig; 2] = [ProxyConfig::from_env, ProxyConfig::disabled];

fn guarded(proxied: SharedHttpConnector, direct: SharedHttpConnector) -> SharedHttpConnector {
    let chosen = ByHost { proxied, direct };
    SharedHttpConnector::new(GuardedConnector(SharedHttpConnector::new(chosen)))
}

fn connector(
    proxy: fn() -> ProxyConfig,
    settings: Option<HttpConnectorSettings>,
    components: Option<&RuntimeComponents>,
) -> Connector {
    let mut builder = ConnectorBuilder::default()
        .tls_provider(Provider::Rustls(CryptoMode::AwsLc))
        .pool_idle_timeout(IDLE);
    builder.set_connector_settings(settings);
    if let Some(components) = components {
        builder.set_sleep_impl(components.sleep_impl());
    }
    builder.set_proxy_config(Some(proxy()));
    builder.build()
}

#[derive(Debug)]
struct GuardedClient {
    own: SharedHttpConnector,
    /// How long connecting may take in `own`.
    connect_timeout: Duration,
    /// For calls with other time-outs, for example those to the instance's metadata.
    others: [SharedHttpClient; 2],
}

impl HttpClient for GuardedClient {
    fn http_connector(
        &self,
        settings: &HttpConnectorSettings,
        components: &RuntimeComponents,
    ) -> SharedHttpConnector {
        let timeouts = (settings.connect_timeout(), settings.read_timeout());
        if timeouts == (Some(self.connect_timeout), None) {
            return self.own.clone();
        }
        let others = self.others.each_ref();
        let [proxied, direct] = others.map(|one| one.http_connector(settings, components));
        guarded(proxied, direct)
    }

    fn validate_base_client_config(
        &self,
        components: &RuntimeComponentsBuilder,
        config: &ConfigBag,
    ) -> Result<(), BoxError> {
        let mut others = self.others.iter();
        others.try_for_each(|one| one.validate_base_client_config(components, config))
    }

    fn connector_metadata(&self) -> Option<ConnectorMetadata> {
        self.others[0].connector_metadata()
    }
}

/// Sends requests to nearby hosts without a proxy: it could not reach them, and must not see the keys
/// that they give.
#[derive(Debug)]
struct ByHost {
    proxied: SharedHttpConnector,
    direct: SharedHttpConnector,
}

impl HttpConnector for ByHost {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        if is_nearby(request.uri()) {
            self.direct.call(request)
        } else {
            self.proxied.call(request)
        }
    }
}

/// Whether the host of an address is this machine or one that only this machine can reach.
///
/// | host | |
/// |---|---|
/// | `localhost`, 127.0.0.0/8, `::1` | this machine |
/// | 169.254.169.254, `fd00:ec2::254` | the instance's metadata |
/// | 169.254.170.2 | keys of a task in ECS |
/// | 169.254.170.23, `fd00:ec2::23` | keys of a pod (EKS Pod Identity) |
/// | 169.254.0.0/16, `fe80::/10` | all link-local addresses |
/// | `fd00:ec2::/32` | all addresses of AWS's local services |
fn is_nearby(address: &str) -> bool {
    let after = address
        .split_once("://")
        .map_or(address, |(_, after)| after);
    let end = after.find(['/', '?', '#']).unwrap_or(after.len());
    let authority = &after[..end];
    let host = authority
        .rsplit_once('@')
        .map_or(authority, |(_, host)| host);
    let host = match host.strip_prefix('[') {
        Some(host) => host.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    match host.parse() {
        Ok(IpAddr::V4(ip)) => ip.is_loopback() || ip.is_link_local(),
        Ok(IpAddr::V6(ip)) => {
            let is_of_aws = ip.segments().starts_with(&[0xfd00, 0x0ec2]);
            ip.is_loopback() || ip.is_unicast_link_local() || is_of_aws
        }
        Err(_) => host.eq_ignore_ascii_case("localhost"),
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
    use rstest::rstest;
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

    #[rstest]
    #[case::instance("http://169.254.169.254/latest/api/token", true)]
    #[case::instance_v6("http://[fd00:ec2::254]/latest/api/token", true)]
    #[case::task("http://169.254.170.2/v2/credentials?a=b", true)]
    #[case::pod("http://169.254.170.23/v1/credentials", true)]
    #[case::pod_v6("http://[fd00:ec2::23]:80/v1/credentials", true)]
    #[case::loopback("http://127.0.0.1:4566", true)]
    #[case::loopback_v6("https://[::1]:4566/", true)]
    #[case::link_local_v6("http://[fe80::1]/", true)]
    #[case::name("http://LocalHost:4566/path", true)]
    #[case::user("http://user:169.254.169.254@example.com/", false)]
    #[case::path("http://example.com/@127.0.0.1", false)]
    #[case::private("http://10.0.0.1/", false)]
    #[case::unique_local_v6("http://[fd00:1::254]/", false)]
    #[case::aws("https://sts.eu-west-1.amazonaws.com/", false)]
    #[case::name_within("http://localhost.example.com/", false)]
    #[tokio::test]
    async fn nearby_hosts_are_called_without_a_proxy(#[case] uri: &str, #[case] is_direct: bool) {
        let (proxied, direct) = (Wire::default(), Wire::default());
        let connector = guarded(
            SharedHttpConnector::new(proxied.clone()),
            SharedHttpConnector::new(direct.clone()),
        );
        let mut request = HttpRequest::empty();
        request.set_uri(uri).unwrap();
        connector.call(request).await.unwrap_err();
        let calls = [&proxied, &direct].map(|wire| wire.0.load(Ordering::SeqCst));
        assert_eq!(calls, [u32::from(!is_direct), u32::from(is_direct)]);
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

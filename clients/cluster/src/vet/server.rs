//! The address of an API server.

use http::Uri;
use http::uri::Scheme;
use rustls::pki_types::ServerName;

use super::section::Section;
use crate::RefusedKubeconfig;

const FIELD: &str = "server";
const TLS_NAME: &str = "tls-server-name";
const INSTEAD: &str = "write the address as https://host:port";

/// The address in `cluster`, if it has one: lower case, without the default port and a last slash, so
/// that equal addresses are equal texts.
pub(super) fn server(cluster: &Section<'_>) -> Result<Option<Uri>, RefusedKubeconfig> {
    let Some(text) = cluster.text(FIELD)? else {
        return Ok(None);
    };
    let refused = |why| cluster.refused(FIELD, why, INSTEAD);
    let uri: Uri = text.parse().map_err(|_| refused("is not an address"))?;
    if uri.scheme() != Some(&Scheme::HTTPS) {
        return Err(refused("is not an https address"));
    }
    // A URI drops its fragment.
    if uri.query().is_some() || text.contains('#') {
        return Err(refused("has a query or a fragment"));
    }
    let Some(authority) = uri.authority() else {
        return Err(refused("has no host"));
    };
    if authority.as_str().contains('@') {
        return Err(refused("contains a user or a password"));
    }
    let host = authority.host().to_ascii_lowercase();
    if !is_host(&host) {
        return Err(refused("has no valid host"));
    }
    let authority = match (authority.port_u16(), &authority.as_str()[host.len()..]) {
        (None, "") | (Some(443), _) => host,
        (Some(port), _) if port > 0 => format!("{host}:{port}"),
        _ => return Err(refused("has no valid port")),
    };
    let path = uri.path().trim_end_matches('/');
    let address = Uri::builder().scheme(Scheme::HTTPS).authority(authority);
    let address = address.path_and_query(if path.is_empty() { "/" } else { path });
    let address = address.build().map(Some);
    address.map_err(|_| refused("is not an address"))
}

/// The name that the certificate of the server must have, if it is not the host.
pub(super) fn tls_server_name(cluster: &Section<'_>) -> Result<Option<String>, RefusedKubeconfig> {
    let Some(name) = cluster.text(TLS_NAME)? else {
        return Ok(None);
    };
    let name = name.to_ascii_lowercase();
    if ServerName::try_from(name.as_str()).is_err() {
        let why = "is neither a host name nor an IP address";
        let instead = "write a name of the server's certificate";
        return Err(cluster.refused(TLS_NAME, why, instead));
    }
    Ok(Some(name))
}

fn is_host(host: &str) -> bool {
    let address = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'));
    match address {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => ServerName::try_from(host).is_ok(),
    }
}

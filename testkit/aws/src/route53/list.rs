//! Lists of zones and records, page by page.

use super::name;
use super::record::{RecordSet, invalid_input, key};
use super::zones::{NAME_SERVERS, Zone, Zones};
use crate::protocol::ApiError;
use crate::shelf::View;
use crate::wire::Request;
use crate::xml::Element;

/// How many things a page holds: what was asked for, but never more than a full page.
fn asked(request: &Request, page: usize) -> Result<usize, ApiError> {
    let Some(sent) = request.query_value("maxitems") else {
        return Ok(page);
    };
    match sent.parse() {
        Ok(0) | Err(_) => Err(invalid_input(&format!("Invalid MaxItems '{sent}'."))),
        Ok(most) => Ok(page.min(most)),
    }
}

/// The caller's zones from `marker` on.
pub(super) fn zones(
    zones: &Zones,
    account: &str,
    request: &Request,
    page: usize,
) -> Result<Element, ApiError> {
    // Route 53 itself gives 100 zones at most.
    let most = asked(request, page.min(100))?;
    let marker = request.query_value("marker");
    let own = zones
        .all()
        .filter(|zone| zone.account == account)
        .skip_while(|zone| marker.is_some_and(|marker| zone.id.as_str() < marker));
    let mut found: Vec<_> = own.take(most + 1).collect();
    let next = (found.len() > most).then(|| found.pop()).flatten();
    let listed = Element::new("HostedZones").children(found.into_iter().map(element));
    Ok(Element::new("ListHostedZonesResponse")
        .child(listed)
        .leaf_if("Marker", marker)
        .leaf("IsTruncated", &next.is_some().to_string())
        .leaf_if("NextMarker", next.map(|zone| zone.id.as_str()))
        .leaf("MaxItems", &most.to_string()))
}

/// One zone with its name servers.
pub(super) fn zone(zone: &Zone) -> Element {
    let servers = NAME_SERVERS
        .iter()
        .fold(Element::new("NameServers"), |servers, server| {
            servers.leaf("NameServer", server.trim_end_matches('.'))
        });
    Element::new("GetHostedZoneResponse")
        .child(element(zone))
        .child(Element::new("DelegationSet").child(servers))
}

fn element(zone: &Zone) -> Element {
    let count = zone.records.list(View::Live).count();
    let config = Element::new("Config").leaf("PrivateZone", &zone.private.to_string());
    Element::new("HostedZone")
        .leaf("Id", &format!("/hostedzone/{}", zone.id))
        .leaf("Name", &zone.name)
        .leaf("CallerReference", &format!("seed-{}", zone.id))
        .child(config)
        .leaf("ResourceRecordSetCount", &count.to_string())
}

/// The zone's record sets from a name and type on.
pub(super) fn records(
    zone: &Zone,
    request: &Request,
    view: View,
    page: usize,
) -> Result<Element, ApiError> {
    let most = asked(request, page)?;
    let start = start(request)?;
    let listed = zone.records.list_from(&start, view);
    let mut found: Vec<_> = listed.take(most + 1).map(|(_, record)| record).collect();
    let next = (found.len() > most).then(|| found.pop()).flatten();
    let sets = found.into_iter().map(RecordSet::element);
    let answer = Element::new("ListResourceRecordSetsResponse")
        .child(Element::new("ResourceRecordSets").children(sets))
        .leaf("IsTruncated", &next.is_some().to_string())
        .leaf("MaxItems", &most.to_string());
    Ok(match next {
        None => answer,
        Some(next) => answer
            .leaf("NextRecordName", &next.name)
            .leaf("NextRecordType", &next.kind)
            .leaf_if("NextRecordIdentifier", next.set.as_deref()),
    })
}

fn start(request: &Request) -> Result<String, ApiError> {
    let (kind, set) = (
        request.query_value("type"),
        request.query_value("identifier"),
    );
    match (request.query_value("name"), kind) {
        (None, Some(_)) => Err(invalid_input(
            "StartRecordType cannot be specified without StartRecordName.",
        )),
        (None, None) => Ok(String::new()),
        (Some(name), kind) => {
            let name = name::kept(name).map_err(|wrong| invalid_input(&wrong))?;
            Ok(key(&name, kind.unwrap_or_default(), set))
        }
    }
}

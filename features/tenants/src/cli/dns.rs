//! `dns`: the records that lead to a tenant, for whoever has to make them.

use std::collections::BTreeSet;

use api::tenants::{DistributionTenant, DnsProvider, RequiredRecord};
use clap::{Arg, ArgMatches};
use engine::cli::flags::{OBJECT, OUTPUT, value};
use engine::cli::{Answer, Failure, Finding, Outcome};
use kernel::ObjectKey;
use serde_json::json;

use super::advice::DOCTOR;
use super::session::TenantsSession;
use crate::body::domain;
use crate::dns::required::{required, zone_file};
use crate::tenant::endpoint;

/// The form that only this verb has.
const ZONE: &str = "zone";
/// How long resolvers keep a record where the object does not say.
const TTL: i64 = 300;

/// `-o` of this verb.
pub(super) fn output() -> Arg {
    Arg::new(OUTPUT)
        .short('o')
        .long(OUTPUT)
        .value_name("FORMAT")
        .help("How to print; zone: as lines of a zone file")
        .value_parser(["table", "json", "yaml", "name", ZONE])
}

pub(super) async fn dns(session: &TenantsSession, args: &ArgMatches) -> Result<Answer, Failure> {
    let mut chosen = session.tenants(args)?;
    if value(args, OBJECT).is_none() {
        chosen.retain(|(_, tenant)| is_by_hand(tenant));
    }
    let as_zone = value(args, OUTPUT) == Some(ZONE);
    let (mut findings, mut untold) = (Vec::new(), Vec::new());
    for (key, tenant) in &chosen {
        match records(session, key, tenant).await {
            Ok(records) if as_zone => findings.extend(lines(tenant, &records)),
            Ok(records) => findings.extend(records.iter().map(|one| finding(key, one))),
            Err(why) => untold.push(format!("{key}: {why}")),
        }
    }
    let outcome = if untold.is_empty() {
        Outcome::Holds
    } else {
        Outcome::Unknown
    };
    let remark = match (untold.is_empty(), chosen.is_empty()) {
        (false, _) => Some(format!(
            "It could not be told of {}. {DOCTOR} from here.",
            untold.join("; ")
        )),
        (true, true) => Some("There is no tenant whose records are made by hand.".to_owned()),
        (true, false) => None,
    };
    let columns = &["tenant", "name", "type", "value"];
    Ok(Answer::table(columns, findings, outcome).with_remark(remark))
}

/// Whether Pontoon makes no records for it.
fn is_by_hand(tenant: &DistributionTenant) -> bool {
    let dns = tenant.spec.settings.dns.as_ref();
    dns.is_none_or(|dns| dns.provider == DnsProvider::None)
}

/// What the status says, or what it will say.
async fn records(
    session: &TenantsSession,
    key: &ObjectKey,
    tenant: &DistributionTenant,
) -> Result<Vec<RequiredRecord>, String> {
    let wanted: BTreeSet<_> = tenant
        .spec
        .domains
        .iter()
        .map(|one| domain(&one.domain))
        .collect();
    let told = tenant.status.as_ref().map(|one| &one.required_records);
    let names = told.map(|told| told.iter().map(|one| one.name.clone()));
    if let (Some(told), Some(names)) = (told, names)
        && names.collect::<BTreeSet<_>>() == wanted
    {
        return Ok(told.clone());
    }
    let target = endpoint(tenant, key, &session.ctx).await?;
    let target = target
        .ok_or("the account has no default connection group yet; it comes with the first tenant")?;
    let domains = wanted.iter().map(String::as_str);
    Ok(required(domains, &target, &BTreeSet::new()))
}

fn finding(key: &ObjectKey, record: &RequiredRecord) -> Finding {
    let RequiredRecord { name, kind, value } = record;
    Finding {
        name: name.clone(),
        cells: vec![
            key.to_string(),
            name.clone(),
            kind.as_str().to_owned(),
            value.clone(),
        ],
        full: json!({
            "namespace": key.namespace.as_deref(),
            "tenant": &*key.name,
            "name": name,
            "type": kind.as_str(),
            "value": value,
        }),
    }
}

/// The records as lines of a zone file.
fn lines(tenant: &DistributionTenant, records: &[RequiredRecord]) -> Vec<Finding> {
    let dns = tenant.spec.settings.dns.as_ref();
    let file = zone_file(records, dns.map_or(TTL, |dns| dns.ttl));
    let line = |line: &str| Finding {
        name: line.to_owned(),
        cells: Vec::new(),
        full: json!(line),
    };
    file.lines().map(line).collect()
}

//! Whether a migration may begin: a list of small named checks on one value, the [`Survey`].
//!
//! ```text
//! Survey ─▶ CHECKS: rules ─▶ problems ─▶ CheckOutcome ─▶ verdict: Passed | Blocked | Stalled
//! ```
//! The list is the specification. A check has one rule or several; each rule judges one thing and either lists
//! problems or names what it could not read. What follows from an unread part is the same for all:
//!
//! | reading      | a rule that needs it                                                       |
//! |--------------|----------------------------------------------------------------------------|
//! | Read         | is judged                                                                  |
//! | Denied       | counts as failed, with the severity of its check                           |
//! | Unreachable  | stalls the preflight until the cluster or EC2 answers                      |
//! | NotRead      | counts as failed, and is not reported beside a blocker that explains it    |
//!
//! Pure: the reads are the caller's part, and so are the lists of what to read: [`access`], [`dependencies`],
//! [`admission::rendered_pod`].

pub mod access;
mod account;
pub mod admission;
pub mod budget;
mod budgets;
mod claims;
mod clusters;
pub mod dependencies;
mod destination;
pub mod finding;
mod information;
pub(crate) mod moved_claims;
mod owners;
mod quotas;
pub mod reading;
mod remedies;
mod scheduling;
mod source;
pub mod survey;
#[cfg(test)]
mod tests;
pub(crate) mod translated;
pub mod verdict;
pub(crate) mod volumes;

use api::migrate::CheckId;

use crate::migration::observation::Side;
use finding::{CheckOutcome, Problems};
use reading::Obstacle;
use remedies::remedy;

pub use source::{chosen_strategy, has_ordinals};
pub use survey::Survey;
pub use verdict::{Verdict, verdict};

/// A part of a check.
enum Rule {
    /// Judged once.
    Once(fn(&Survey) -> Problems),
    /// Judged for each cluster.
    Sides(fn(&Survey, Side) -> Problems),
}

use CheckId::{
    Admission, AppSpan, AttachLimit, Autoscaler, Backups, ClaimSet, ClusterIdentity, Dependencies,
    DestAccount, DestClaims, DestDriver, DestPdb, DestStatefulSet, DisruptionBudget, DormantClaims,
    Ec2Access, ExtraVolumes, ForeignConsumer, HeadlessService, Health, KmsKey, Kubeconfig, Lock,
    Names, Namespaces, Ordinals, Owner, Permissions, Policies, Resize, Rollout, SlowStart,
    SourceStatefulSet, StorageClass, VolumeState, VolumeTags, VolumeType, Zone,
};
use Rule::{Once, Sides};

/// Every check with its rules, in the order in which they are reported.
#[rustfmt::skip]
const CHECKS: &[(CheckId, &[Rule])] = &[
    (Kubeconfig, &[Sides(clusters::kubeconfig)]),
    (Permissions, &[Sides(clusters::permissions)]),
    (ClusterIdentity, &[Once(clusters::different_clusters), Sides(clusters::pinned_cluster)]),
    (Lock, &[Sides(clusters::lock), Once(clusters::markers)]),
    (SourceStatefulSet, &[Once(source::stateful_set)]),
    (Namespaces, &[Sides(clusters::namespace)]),
    (Ordinals, &[Once(source::ordinals_at_source), Once(source::ordinals_at_destination)]),
    (Rollout, &[Once(source::rollout)]),
    (Health, &[Once(source::health)]),
    (ClaimSet, &[Once(claims::claim_set)]),
    (ForeignConsumer, &[Once(claims::foreign_consumer)]),
    (ExtraVolumes, &[Once(claims::extra_volumes)]),
    (VolumeType, &[Once(volumes::volume_type), Once(volumes::multi_attach)]),
    (VolumeState, &[Once(volumes::volume_state)]),
    (Ec2Access, &[Once(account::ec2_access)]),
    (DestAccount, &[Once(account::same_account)]),
    (Zone, &[Once(scheduling::zones_agree), Once(scheduling::node_in_zone)]),
    (AttachLimit, &[Once(scheduling::attach_limit)]),
    (DestDriver, &[Once(scheduling::driver), Once(scheduling::driver_in_zones)]),
    (DestStatefulSet, &[Once(destination::dest_stateful_set)]),
    (DestClaims, &[Once(destination::dest_claims), Once(destination::dest_volumes)]),
    (Names, &[Once(destination::names), Once(destination::records)]),
    (Dependencies, &[Once(dependencies::dependencies)]),
    (Admission, &[Once(admission::dry_runs), Once(quotas::quotas)]),
    (Owner, &[Once(owners::owners)]),
    (Autoscaler, &[Sides(owners::autoscalers)]),
    (Resize, &[Once(volumes::claim_resize), Once(volumes::modification), Once(volumes::size)]),
    (DormantClaims, &[Once(claims::dormant_claims)]),
    (HeadlessService, &[Once(destination::headless_service)]),
    (StorageClass, &[Once(destination::storage_classes), Once(destination::attributes_classes)]),
    (KmsKey, &[Once(volumes::kms_key)]),
    (VolumeTags, &[Once(volumes::volume_tags)]),
    (DisruptionBudget, &[Once(budgets::one_down)]),
    (Policies, &[Once(information::retention_policy), Once(information::reclaim_policies)]),
    (Backups, &[Once(information::backups)]),
    (DestPdb, &[Once(budgets::at_destination)]),
    (AppSpan, &[Once(information::peers)]),
    (SlowStart, &[Once(information::slow_start)]),
];

/// Runs every check. The result is empty if there is nothing to report.
pub fn check(survey: &Survey) -> Vec<CheckOutcome> {
    let mut results = Vec::new();
    for (id, rules) in CHECKS {
        results.extend(run(*id, rules, survey));
    }
    let is_explained = results.iter().any(|result| {
        let was_judged = !matches!(result.obstacle, Some(Obstacle::NotRead));
        was_judged && verdict::is_final(result)
    });
    if is_explained {
        results.retain(|result| result.obstacle != Some(Obstacle::NotRead));
    }
    results
}

fn run(id: CheckId, rules: &[Rule], survey: &Survey) -> Vec<CheckOutcome> {
    let remedy = remedy(id, survey);
    let mut problems = Vec::new();
    let mut unread = Vec::new();
    let mut collect = |found: Problems| match found {
        Ok(found) => problems.extend(found),
        Err(missing) if unread.contains(&missing) => {}
        Err(missing) => unread.push(missing),
    };
    for rule in rules {
        match rule {
            Once(rule) => collect(rule(survey)),
            Sides(rule) => Side::BOTH
                .into_iter()
                .for_each(|side| collect(rule(survey, side))),
        }
    }
    let mut results = finding::results(id, problems, &remedy);
    let unread = unread.into_iter();
    results.extend(unread.map(|missing| finding::unread(id, missing, &remedy)));
    results
}

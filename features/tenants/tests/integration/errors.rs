//! AWS refuses or fails: what the object says, how it is counted, and when it is tried again.

use std::ops::Range;

use crate::stories::calls::are_apart;
use crate::stories::cloud::{ACCOUNT, BROKEN, D0, DENIED, Fault, OTHER_ACCOUNT, THROTTLED};
use crate::stories::objects::{acme, requesting, said, serving, with, word, words};
use crate::stories::{Plan, Site, USUAL, tell};
use api::tenants::DistributionTenant;
use rstest::rstest;
use serde_json::{Value, json};
use testkit::{Result, eventually, is};

/// What the contract calls slow, in seconds, at its quickest.
const SLOW: i64 = 240;

#[test]
fn a_domain_of_another_account_is_told_in_aws_words_and_rarely_asked_for() -> Result<()> {
    tell(USUAL, async |site| {
        let theirs = json!({"name": "theirs", "distribution": "E5", "domains": ["a.example.com"]});
        let change = json!({"tenant": theirs, "account": OTHER_ACCOUNT});
        site.console("cloudfront", change)?;
        site.declare("acme", acme()).await?;
        let status = site.sees("acme", is("Ready", "DomainConflict")).await?;
        assert_eq!(word(&status.conditions, "Ready"), "False/DomainConflict");
        assert_eq!(word(&status.conditions, "Synced"), "False/DomainConflict");
        let message = said(&status.conditions, "Ready");
        let words = "already associated with a different resource";
        assert!(message.contains(words), "{message}");
        site.event("acme", "DomainConflict").await?;

        let creates = site.called("CreateDistributionTenant", 2).await?;
        let wait = creates[1].after(&creates[0]);
        assert!(wait >= SLOW, "again after {wait} s");
        // Who has it is asked once for a generation.
        assert_eq!(site.count("ListDomainConflicts")?, 1);
        let counted = eventually("each answer is counted", async || {
            let refused = u64::try_from(site.count("CreateDistributionTenant")?)?;
            let counted = site.errors("domain_conflict").await?;
            Ok((counted == refused).then_some(counted))
        });
        assert!(counted.await? >= 2);
        Ok(())
    })
}

#[test]
fn what_is_denied_comes_true_when_it_is_allowed_without_an_edit() -> Result<()> {
    tell(USUAL, async |site| {
        site.breaks("CreateDistributionTenant", DENIED)?;
        site.declare("acme", acme()).await?;
        let status = site.sees("acme", is("Ready", "AccessDenied")).await?;
        assert_eq!(word(&status.conditions, "Synced"), "False/AccessDenied");
        let message = said(&status.conditions, "Ready");
        let action = "cloudfront:CreateDistributionTenant";
        assert!(message.contains(action), "{message}");
        assert!(message.contains("not authorized"), "{message}");
        site.event("acme", "AccessDenied").await?;
        site.counts_each("CreateDistributionTenant", "access_denied")
            .await?;
        are_apart(&site.calls("CreateDistributionTenant")?, SLOW);

        site.mends()?;
        site.ready("acme").await?;
        assert_eq!(site.tenant("acme").await?.metadata.generation, Some(1));
        Ok(())
    })
}

/// Time runs as it does.
const REAL: Plan = Plan { pace: 1, args: &[] };

#[test]
fn an_edit_is_tried_at_once_whatever_was_refused_before() -> Result<()> {
    tell(REAL, async |site| {
        site.breaks_once("CreateDistributionTenant", DENIED)?;
        site.declare("acme", acme()).await?;
        site.sees("acme", is("Ready", "AccessDenied")).await?;
        site.edit("acme", serving(&["b.example.com"])).await?;
        // Nobody waits here as long as what is slow.
        site.made("acme").await?;
        let creates = site.calls("CreateDistributionTenant")?;
        let domains = creates.iter().map(|call| call.texts("Domain"));
        assert!(domains.eq([["a.example.com"], ["b.example.com"]]));
        Ok(())
    })
}

/// CloudFront's words for a domain that is not proved yet, and for something else.
const UNPROVED: &str = "Could not verify Domain Name ownership for a.example.com.";
const WRONG: &str = "The parameter Customizations is not valid.";

// Where nobody waits for CloudFront to find the domain, words for that change nothing.
#[rstest]
#[case::without_a_request(None, WRONG)]
#[case::served_by_ourselves(Some("self-hosted"), WRONG)]
#[case::served_by_cloudfront(Some("cloudfront"), WRONG)]
#[case::unproved_without_a_request(None, UNPROVED)]
#[case::unproved_served_by_ourselves(Some("self-hosted"), UNPROVED)]
fn what_aws_finds_invalid_is_an_invalid_spec(
    #[case] host: Option<&'static str>,
    #[case] words: &'static str,
) -> Result<()> {
    tell(USUAL, async |site| {
        let refused = Fault::Told(400, "InvalidArgument", words);
        site.breaks("CreateDistributionTenant", refused)?;
        let request = host.map_or(json!({}), requesting);
        site.declare("acme", with(acme(), request)).await?;
        let status = site.sees("acme", is("Ready", "InvalidSpec")).await?;
        assert_eq!(word(&status.conditions, "Ready"), "False/InvalidSpec");
        assert_eq!(word(&status.conditions, "Synced"), "False/InvalidSpec");
        let message = said(&status.conditions, "Ready");
        assert!(message.contains(words), "{message}");
        site.counts_each("CreateDistributionTenant", "invalid_spec")
            .await?;
        are_apart(&site.calls("CreateDistributionTenant")?, SLOW);
        assert_eq!(site.errors("domain_validation_pending").await?, 0);
        site.event("acme", "InvalidSpec").await?;
        Ok(())
    })
}

#[test]
fn a_domain_that_does_not_lead_to_cloudfront_yet_is_waited_for() -> Result<()> {
    tell(USUAL, async |site| {
        site.console("cloudfront", json!({"distribution": {"id": "E3"}}))?;
        let spec = with(acme(), requesting("cloudfront"));
        site.declare("acme", with(spec, json!({"distributionId": "E3"})))
            .await?;
        let status = site.sees("acme", is("Ready", "DomainValidationPending"));
        let status = status.await?;
        let ready = word(&status.conditions, "Ready");
        assert_eq!(ready, "False/DomainValidationPending");
        site.counts_each("CreateDistributionTenant", "domain_validation_pending")
            .await?;
        site.event("acme", "DomainValidationPending").await?;

        site.puts_cname("Z1", "a.example.com", 300, D0)?;
        site.ready("acme").await?;
        // Every five minutes, and no more often.
        let creates = site.calls("CreateDistributionTenant")?;
        assert!(creates.len() >= 2, "{creates:#?}");
        are_apart(&creates, 300);
        Ok(())
    })
}

/// Ten seconds pass in a second: what is measured is long against what a machine is late.
const SLOWLY: Plan = Plan {
    pace: 10,
    args: &[],
};
/// When the throttled come back, in seconds: after 60 to 90, and on a busy machine later, but not as
/// late as what is slow. The choice between 60 and 90 itself is exact in the tests of `failure`.
const THROTTLED_AGAIN: Range<i64> = 60..SLOW;

#[rstest]
#[case::making("CreateDistributionTenant")]
#[case::looking("GetDistributionTenant")]
#[case::deleting("DeleteDistributionTenant")]
fn throttling_changes_no_condition_and_is_waited_out(
    #[case] operation: &'static str,
) -> Result<()> {
    tell(SLOWLY, async |site| {
        if operation != "CreateDistributionTenant" {
            site.makes("acme", acme()).await?;
        }
        let mark = site.mark()?;
        site.breaks_once(operation, THROTTLED)?;
        match operation {
            "CreateDistributionTenant" => drop(site.makes("acme", acme()).await?),
            "DeleteDistributionTenant" => site.removes("acme").await?,
            // What others changed is found by the list at the start, and then looked at.
            _ => {
                site.stop().await?;
                site.edits_tenant("acme", json!({"enabled": false}))?;
                site.start().await?;
                let restored = |live: &Value| live["enabled"] == true;
                site.until_live("acme", restored).await?;
                site.ready("acme").await?;
            }
        }

        let mut calls = site.since(mark)?;
        calls.retain(|call| call.operation() == operation);
        let wait = calls[1].after(&calls[0]);
        assert!(THROTTLED_AGAIN.contains(&wait), "again after {wait} s");
        assert_eq!(site.errors("throttling").await?, 1);
        let past = site.past("acme").await?;
        let ready = ["Creating", "Deploying", "Deployed", "Disabling", "Deleting"];
        for (condition, usual) in [
            ("Ready", &ready[..]),
            ("Synced", &["InSync", "UpdatePending"]),
        ] {
            let told = words(&past, condition);
            let is_usual = |word: &String| usual.iter().any(|one| word.ends_with(one));
            assert!(told.iter().all(is_usual), "{condition}: {told:?}");
        }
        Ok(())
    })
}

/// How often a tenant's condition Ready told of AWS's errors.
async fn complaints(site: &Site, name: &str) -> Result<usize> {
    let past = words(&site.past(name).await?, "Ready");
    Ok(past.iter().filter(|word| *word == "False/AWSError").count())
}

#[test]
fn two_failures_of_aws_are_not_worth_a_word() -> Result<()> {
    tell(USUAL, async |site| {
        let rule = json!({"operation": "CreateDistributionTenant", "times": 2});
        site.fault(rule, BROKEN)?;
        site.makes("acme", acme()).await?;
        assert_eq!(complaints(site, "acme").await?, 0);
        assert_eq!(site.errors("retryable").await?, 2);
        assert_eq!(site.notes("acme", "AWSError").await?, [""; 0]);
        Ok(())
    })
}

#[test]
fn three_failures_of_aws_are_told_and_end_with_the_cause() -> Result<()> {
    tell(USUAL, async |site| {
        site.breaks("CreateDistributionTenant", BROKEN)?;
        site.declare("acme", acme()).await?;
        let status = site.sees("acme", is("Ready", "AWSError")).await?;
        let message = said(&status.conditions, "Ready");
        assert!(message.contains("We are broken"), "{message}");
        assert!(site.count("CreateDistributionTenant")? >= 3);
        site.event("acme", "AWSError").await?;
        site.mends()?;
        site.ready("acme").await?;
        Ok(())
    })
}

/// What AWS can answer to a write of a tenant, and what is told of it.
const REFUSALS: [(u16, &str, &str, &str); 5] = [
    (
        400,
        "EntityLimitExceeded",
        "LimitExceeded",
        "limit_exceeded",
    ),
    (409, "InvalidAssociation", "InvalidSpec", "invalid_spec"),
    (400, "InvalidTagging", "InvalidSpec", "invalid_spec"),
    (403, "AccessDenied", "AccessDenied", "access_denied"),
    (418, "Teapot", "AWSError", "unknown"),
];

#[rstest]
#[case::making(false)]
#[case::editing(true)]
fn a_refusal_is_told_by_its_meaning_on_every_way(#[case] edited: bool) -> Result<()> {
    tell(USUAL, async |site| {
        let names: Vec<_> = (0..REFUSALS.len()).map(|n| format!("acme-{n}")).collect();
        let spec = |n: usize| serving(&[&format!("a{n}.example.com")]);
        let breaks = |n: usize, operation: &str, resource: &str| {
            let (status, code, ..) = REFUSALS[n];
            let rule = json!({"operation": operation, "resource": resource});
            site.fault(rule, Fault::Refused(status, code))
        };
        for (n, name) in names.iter().enumerate() {
            if edited {
                let status = site.makes(name, spec(n)).await?;
                let id = status.id.unwrap_or_default();
                breaks(n, "UpdateDistributionTenant", &id)?;
                site.edit(name, json!({"enabled": false})).await?;
            } else {
                breaks(n, "CreateDistributionTenant", name)?;
                site.declare(name, spec(n)).await?;
            }
        }
        for (name, (_, code, reason, error_type)) in names.iter().zip(REFUSALS) {
            let status = site.sees(name, is("Ready", reason)).await?;
            let ready = word(&status.conditions, "Ready");
            assert_eq!(ready, format!("False/{reason}"), "{code}");
            let synced = word(&status.conditions, "Synced");
            assert_eq!(synced, format!("False/{reason}"), "{code}");
            let message = said(&status.conditions, "Ready");
            assert!(message.contains(code), "{message}");
            assert!(site.errors(error_type).await? >= 1, "{error_type}");
            site.event(name, reason).await?;
        }
        Ok(())
    })
}

#[test]
fn every_refusal_of_a_delete_is_counted_and_the_last_one_is_done() -> Result<()> {
    tell(USUAL, async |site| {
        site.makes("acme", acme()).await?;
        let rule = json!({"operation": "DeleteDistributionTenant", "times": 2});
        site.fault(rule, DENIED)?;
        site.delete::<DistributionTenant>("acme").await?;
        site.called("DeleteDistributionTenant", 2).await?;
        site.gone::<DistributionTenant>("acme").await?;
        assert_eq!(site.errors("access_denied").await?, 2);
        Ok(())
    })
}

#[test]
fn a_group_that_does_not_exist_is_an_invalid_spec() -> Result<()> {
    tell(USUAL, async |site| {
        let lost = json!({"connectionGroupId": "cg_lost"});
        site.declare("acme", with(acme(), lost)).await?;
        let status = site.sees("acme", is("Ready", "InvalidSpec")).await?;
        let message = said(&status.conditions, "Ready");
        assert!(message.contains("cg_lost"), "{message}");
        assert!(site.errors("connection_group_not_found").await? >= 1);
        assert!(site.live("acme")?.is_null());
        Ok(())
    })
}

#[test]
fn keys_that_aws_does_not_know_are_denied_and_tried_again() -> Result<()> {
    tell(USUAL, async |site| {
        let stranger = ("AWS_ACCESS_KEY_ID".to_owned(), "stranger".to_owned());
        site.start_with(|options| options.env.push(stranger))
            .await?;
        site.declare("acme", acme()).await?;
        let status = site.sees("acme", is("Ready", "AccessDenied")).await?;
        assert_eq!(word(&status.conditions, "Synced"), "False/AccessDenied");
        // From now on the key is somebody's.
        site.console("sts", json!({"keys": {"stranger": ACCOUNT}}))?;
        site.ready("acme").await?;
        Ok(())
    })
}

#[test]
fn an_update_that_fails_is_read_back_and_tried_ever_more_slowly() -> Result<()> {
    tell(USUAL, async |site| {
        site.makes("acme", acme()).await?;
        site.breaks("UpdateDistributionTenant", BROKEN)?;
        site.edit("acme", json!({"enabled": false})).await?;
        let calls = site.called("UpdateDistributionTenant", 4).await?;
        let pauses: Vec<i64> = calls.windows(2).map(|two| two[1].after(&two[0])).collect();
        assert!(pauses.iter().all(|pause| *pause >= 1), "{pauses:?}");
        site.sees("acme", is("Ready", "AWSError")).await?;
        site.mends()?;
        site.accepted("acme", 2).await?;
        site.ready("acme").await?;
        assert_eq!(site.live("acme")?["enabled"], false);
        Ok(())
    })
}

#[test]
fn what_is_refused_is_left_alone_by_sweeps_and_polls_too() -> Result<()> {
    tell(USUAL, async |site| {
        site.makes("acme", acme()).await?;
        site.breaks("UpdateDistributionTenant", DENIED)?;
        site.edits_tenant("acme", json!({"enabled": false}))?;
        site.sees("acme", is("Ready", "AccessDenied")).await?;
        let mark = site.mark()?;
        let refused = site.calls("UpdateDistributionTenant")?.remove(0);
        // Two minutes of sweeps: it is looked at again after four at the earliest, and a slow
        // machine may come to that meanwhile.
        site.sweeps(4).await?;
        let mut calls = site.since(mark)?;
        calls.retain(|call| call.after(&refused) < SLOW);
        let about_it = calls.iter().filter(|call| call.resource() != "E1");
        let about_it: Vec<_> = about_it
            .map(crate::stories::calls::Call::operation)
            .collect();
        assert!(!about_it.contains(&"GetDistributionTenant"), "{about_it:?}");
        assert!(
            !about_it.contains(&"UpdateDistributionTenant"),
            "{about_it:?}"
        );
        site.mends()?;
        site.ready("acme").await?;
        assert_eq!(site.live("acme")?["enabled"], true);
        Ok(())
    })
}

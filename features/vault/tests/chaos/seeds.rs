//! The operator dies, or Vault's answer is lost, while it sows: a seed is sown once, and nothing of it
//! is left at the end.

use crate::crashes::front::{
    self,
    When::{self, After, Before},
};
use crate::stories::{Plan, annotate, tell};
use api::vault::{VaultKVSecret, names};
use reqwest::Method;
use rstest::rstest;
use serde_json::json;
use testkit::Result;
use testkit::fault_proxy::Rule;

/// Ten seconds pass in one, so that back-off is short.
const WORLD: Plan = Plan {
    pace: 10,
    args: &["--vault-deletion-deadline=never"],
};

#[rstest]
#[case::before_the_values("seed.write.before")]
#[case::after_the_values("seed.write.after")]
#[case::before_the_marker("seed.mark.before")]
#[case::after_the_marker("seed.mark.after")]
fn a_crash_while_sowing_sows_once(#[case] point: &str) -> Result<()> {
    tell(WORLD, async |site| {
        crate::crashes::ensure_living_operator(site).await?;
        let crew = crate::seed_fixtures::crew(site, json!({})).await?;
        site.doom(point).await?;
        crew.sow("a", json!({})).await?;
        site.revive().await?;

        let status = crew.grown("a").await?;
        assert_eq!(
            (status.seeded, status.seeded_version),
            (Some(true), Some(1))
        );
        assert!(status.sync.intent.is_none());
        assert_eq!(crew.sowings("a"), 1);
        let metadata = crew.metadata("a").await?.unwrap();
        assert_eq!(metadata["current_version"], 1);
        let marker = &metadata["custom_metadata"];
        assert_eq!(marker["managed-by"], "vault-access-operator");
        assert_eq!(marker["k8s-resource"], format!("{}/a", crew.name()));

        crew.uproot("a").await?;
        assert_eq!(crew.metadata("a").await?, None);
        crew.leave().await
    })
}

#[rstest]
#[case::before_the_intent(Before, 1, 0)]
#[case::after_the_intent(After, 1, 0)]
#[case::before_the_record(Before, 2, 1)]
#[case::after_the_record(After, 2, 1)]
fn a_crash_around_a_word_of_it_sows_once(
    #[case] when: When,
    #[case] nth: u64,
    #[case] sown: usize,
) -> Result<()> {
    tell(WORLD, async |site| {
        crate::crashes::ensure_living_operator(site).await?;
        let crew = crate::seed_fixtures::crew(site, json!({})).await?;
        let path = front::path::<VaultKVSecret>(crew.name(), "a");
        site.doom_at(when, &format!("{path}/status"), nth).await?;
        crew.sow("a", json!({})).await?;
        site.died().await?;
        assert_eq!(crew.sowings("a"), sown);
        site.revive().await?;

        let status = crew.grown("a").await?;
        assert_eq!(status.seeded_version, Some(1));
        assert!(status.sync.intent.is_none());
        assert_eq!(crew.sowings("a"), 1);
        crew.uproot("a").await?;
        assert_eq!(crew.metadata("a").await?, None);
        crew.leave().await
    })
}

#[rstest]
#[case::before_the_delete("seed.delete.before")]
#[case::after_the_delete("seed.delete.after")]
fn a_crash_at_the_end_leaves_nothing(#[case] point: &str) -> Result<()> {
    tell(WORLD, async |site| {
        crate::crashes::ensure_living_operator(site).await?;
        let crew = crate::seed_fixtures::crew(site, json!({})).await?;
        crew.sow("a", json!({})).await?;
        crew.grown("a").await?;
        site.doom(point).await?;
        crew.delete::<VaultKVSecret>("a").await?;
        site.revive().await?;

        crew.gone::<VaultKVSecret>("a").await?;
        assert_eq!(crew.metadata("a").await?, None);
        let path = format!("secret/metadata/{}", crew.plot("a"));
        assert_eq!(crew.calls(Method::DELETE, &path), 1);
        crew.leave().await
    })
}

#[test]
fn a_crash_while_sowing_again_sows_again_once() -> Result<()> {
    tell(WORLD, async |site| {
        crate::crashes::ensure_living_operator(site).await?;
        let crew = crate::seed_fixtures::crew(site, json!({})).await?;
        crew.sow("a", json!({"reseedDeleted": true})).await?;
        crew.grown("a").await?;
        site.doom("seed.write.after").await?;
        let path = format!("secret/data/{}", crew.plot("a"));
        site.remove(&path).await?;
        annotate::<VaultKVSecret>(&crew, "a", names::RECONCILE_NOW, Some("1")).await?;
        site.revive().await?;

        let second = |seed: &VaultKVSecret| {
            let status = seed.status.as_ref();
            status.and_then(|status| status.seeded_version) == Some(2)
        };
        let seed = crew.until::<VaultKVSecret>("a", second).await?;
        assert!(seed.status.unwrap().sync.intent.is_none());
        assert_eq!(crew.sowings("a"), 2);
        assert_eq!(crew.metadata("a").await?.unwrap()["current_version"], 2);

        crew.uproot("a").await?;
        assert_eq!(crew.metadata("a").await?, None);
        crew.leave().await
    })
}

#[rstest]
#[case::values(Method::POST, "secret/data")]
#[case::marker(Method::PATCH, "secret/metadata")]
fn a_sowing_whose_answer_is_lost_is_not_repeated(
    #[case] method: Method,
    #[case] place: &str,
) -> Result<()> {
    tell(WORLD, async |site| {
        crate::crashes::ensure_living_operator(site).await?;
        let crew = crate::seed_fixtures::crew(site, json!({})).await?;
        let path = format!("/v1/{place}/{}", crew.plot("a"));
        crew.proxy
            .rule(Rule::on(method, &path).times(1).cut_after());
        crew.sow("a", json!({})).await?;

        let status = crew.grown("a").await?;
        assert_eq!(status.seeded_version, Some(1));
        assert!(status.sync.intent.is_none());
        assert_eq!(crew.sowings("a"), 1);
        let metadata = crew.metadata("a").await?.unwrap();
        assert_eq!(metadata["current_version"], 1);
        let marker = &metadata["custom_metadata"];
        assert_eq!(marker["managed-by"], "vault-access-operator");
        crew.uproot("a").await?;
        assert_eq!(crew.metadata("a").await?, None);
        crew.leave().await
    })
}

#[test]
fn a_delete_whose_answer_is_lost_is_not_repeated() -> Result<()> {
    tell(WORLD, async |site| {
        crate::crashes::ensure_living_operator(site).await?;
        let crew = crate::seed_fixtures::crew(site, json!({})).await?;
        crew.sow("a", json!({})).await?;
        crew.grown("a").await?;
        let path = format!("secret/metadata/{}", crew.plot("a"));
        let lost = Rule::on(Method::DELETE, &format!("/v1/{path}"));
        crew.proxy.rule(lost.times(1).cut_after());
        crew.uproot("a").await?;
        assert_eq!(crew.metadata("a").await?, None);
        assert_eq!(crew.calls(Method::DELETE, &path), 1);
        crew.leave().await
    })
}

//! The operator dies, or Vault's answer is lost, at the worst moment: policies and roles are
//! written once, and nothing of them is left at the end.

mod crashes;
mod stories;

use api::vault::{VaultPolicy, VaultRole};
use reqwest::Method;
use rstest::rstest;
use serde_json::Value;
use stories::{Crew, Plan, Site, admits, reader, rule, tell};
use testkit::fault_proxy::Rule;
use testkit::{Result, is};

/// Ten seconds pass in one, so that back-off is short.
const WORLD: Plan = Plan {
    pace: 10,
    args: &["--vault-deletion-deadline=never"],
};

impl Crew {
    /// Where the policy `app` is in Vault.
    fn policy_path(&self) -> String {
        format!("sys/policies/acl/{}", self.vault_name("app"))
    }

    /// Where the role `r` is in Vault.
    fn role_path(&self) -> String {
        format!("auth/kubernetes/role/{}", self.vault_name("r"))
    }

    /// Declares both.
    async fn declare_both(&self) -> Result<()> {
        let policy = self.manifest::<VaultPolicy>("app", reader());
        let role = self.manifest::<VaultRole>("r", admits(&["sa1"]));
        self.apply(&(policy + &role)).await.map(drop)
    }

    /// Waits until both are ready, and have no intent open.
    async fn both_ready(&self) -> Result<()> {
        let ready = || is("Ready", "Succeeded");
        let policy = self.until::<VaultPolicy>("app", ready()).await?;
        let role = self.until::<VaultRole>("r", ready()).await?;
        let (policy, role) = (policy.status.unwrap(), role.status.unwrap());
        assert_eq!(policy.vault_name, Some(self.vault_name("app")));
        assert_eq!(role.vault_role_name, Some(self.vault_name("r")));
        assert!(policy.sync.intent.is_none() && role.sync.intent.is_none());
        Ok(())
    }

    async fn delete_both(&self) -> Result<()> {
        self.delete::<VaultRole>("r").await?;
        self.delete::<VaultPolicy>("app").await
    }

    async fn both_gone(&self) -> Result<()> {
        self.gone::<VaultRole>("r").await?;
        self.gone::<VaultPolicy>("app").await
    }

    /// How often the operator wrote, or tried to write, the policy and the role.
    fn puts(&self) -> (usize, usize) {
        let (policy, role) = (self.policy_path(), self.role_path());
        (
            self.calls(Method::PUT, &policy),
            self.calls(Method::POST, &role),
        )
    }

    /// How often it deleted them, or tried to.
    fn deletes(&self) -> (usize, usize) {
        let (policy, role) = (self.policy_path(), self.role_path());
        (
            self.calls(Method::DELETE, &policy),
            self.calls(Method::DELETE, &role),
        )
    }

    /// What Vault has of this namespace's: names of policies, then of roles.
    async fn in_vault(&self, site: &Site) -> Result<Vec<String>> {
        let mut found = Vec::new();
        for path in ["sys/policies/acl", "auth/kubernetes/role"] {
            let listed = site.read(&format!("{path}?list=true")).await?;
            let keys = listed.as_ref().and_then(|one| one["keys"].as_array());
            let keys = keys.into_iter().flatten().filter_map(Value::as_str);
            let own = format!(".{}.", self.name());
            found.extend(keys.filter(|key| key.contains(&own)).map(str::to_owned));
        }
        Ok(found)
    }
}

#[rstest]
#[case::before_the_policy("vault-before-write#1", (1, 1))]
#[case::after_the_policy("vault-after-write#1", (1, 1))]
#[case::before_the_role("vault-before-write#2", (1, 1))]
#[case::after_the_role("vault-after-write#2", (1, 1))]
fn a_crash_around_a_write_to_vault_repeats_nothing(
    #[case] point: &str,
    #[case] puts: (usize, usize),
) -> Result<()> {
    tell(WORLD, async |site| {
        let _turn = crashes::turn().await;
        let crew = site.crew().await?;
        site.doom(point).await?;
        crew.declare::<VaultPolicy>("app", reader()).await?;
        crew.declare::<VaultRole>("r", admits(&["sa1"])).await?;
        site.revive().await?;

        crew.both_ready().await?;
        let names = [crew.vault_name("app"), crew.vault_name("r")];
        assert_eq!(crew.in_vault(site).await?, names);
        assert_eq!(crew.puts(), puts);
        crew.delete_both().await?;
        crew.both_gone().await?;
        assert_eq!(crew.in_vault(site).await?, [""; 0]);
        Ok(())
    })
}

#[rstest]
#[case::before_the_first("vault-before-delete#1")]
#[case::after_the_first("vault-after-delete#1")]
#[case::before_the_second("vault-before-delete#2")]
#[case::after_the_second("vault-after-delete#2")]
fn a_crash_around_a_delete_in_vault_leaves_nothing(#[case] point: &str) -> Result<()> {
    tell(WORLD, async |site| {
        let _turn = crashes::turn().await;
        let crew = site.crew().await?;
        crew.declare_both().await?;
        crew.both_ready().await?;
        site.doom(point).await?;
        crew.delete_both().await?;
        site.revive().await?;

        crew.both_gone().await?;
        assert_eq!(crew.in_vault(site).await?, [""; 0]);
        assert_eq!(crew.deletes(), (1, 1));
        Ok(())
    })
}

#[rstest]
#[case::before_the_1st("before-write#1")]
#[case::after_the_1st("after-write#1")]
#[case::before_the_2nd("before-write#2")]
#[case::after_the_2nd("after-write#2")]
#[case::before_the_3rd("before-write#3")]
#[case::after_the_3rd("after-write#3")]
#[case::before_the_4th("before-write#4")]
#[case::after_the_4th("after-write#4")]
#[case::before_the_5th("before-write#5")]
#[case::after_the_5th("after-write#5")]
fn a_crash_around_a_write_to_the_cluster_writes_to_vault_once(#[case] point: &str) -> Result<()> {
    tell(WORLD, async |site| {
        let _turn = crashes::turn().await;
        let crew = site.crew().await?;
        // Finalizer and status of the policy; finalizer, intent and status of the role.
        site.doom(point).await?;
        crew.declare_both().await?;
        site.revive().await?;

        crew.both_ready().await?;
        assert_eq!(crew.puts(), (1, 1));
        crew.delete_both().await?;
        crew.both_gone().await?;
        assert_eq!(crew.in_vault(site).await?, [""; 0]);
        assert_eq!(crew.deletes(), (1, 1));
        Ok(())
    })
}

#[rstest]
#[case::of_a_policy("vault-after-write#1")]
#[case::of_a_role("vault-after-write#2")]
fn what_was_created_and_not_recorded_goes_with_its_object(#[case] point: &str) -> Result<()> {
    tell(WORLD, async |site| {
        let _turn = crashes::turn().await;
        let crew = site.crew().await?;
        site.doom(point).await?;
        crew.declare::<VaultPolicy>("app", reader()).await?;
        crew.declare::<VaultRole>("r", admits(&["sa1"])).await?;
        site.world
            .operator()
            .ended(std::time::Duration::from_secs(60))
            .await?;
        // They are deleted before the next operator has seen them alive.
        crew.delete_both().await?;
        site.revive().await?;

        crew.both_gone().await?;
        assert_eq!(crew.in_vault(site).await?, [""; 0]);
        Ok(())
    })
}

#[test]
fn an_edit_that_a_crash_left_unrecorded_is_found_in_vault() -> Result<()> {
    tell(WORLD, async |site| {
        let _turn = crashes::turn().await;
        let crew = site.crew().await?;
        crew.declare_both().await?;
        crew.both_ready().await?;
        site.doom("vault-after-write").await?;
        let more = serde_json::json!({"rules": [rule("secret/data/more", &["list"])]});
        crew.declare::<VaultPolicy>("app", more).await?;
        site.revive().await?;

        crew.both_ready().await?;
        let text = site.policy(&crew.vault_name("app")).await?.unwrap();
        assert!(text.contains("secret/data/more"), "{text}");
        assert_eq!(crew.puts(), (2, 1));
        let policy = crew
            .until::<VaultPolicy>("app", is("Drifted", "NoDrift"))
            .await?;
        assert_ne!(policy.status.unwrap().sync.drift_detected, Some(true));
        Ok(())
    })
}

#[test]
fn a_write_whose_answer_is_lost_is_recorded_without_a_second() -> Result<()> {
    tell(WORLD, async |site| {
        let _turn = crashes::turn().await;
        let crew = site.crew().await?;
        for (method, path) in [
            (Method::PUT, crew.policy_path()),
            (Method::POST, crew.role_path()),
        ] {
            let lost = Rule::on(method, &format!("/v1/{path}"));
            crew.proxy.rule(lost.times(1).cut_after());
        }
        crew.declare_both().await?;
        crew.both_ready().await?;
        assert_eq!(crew.puts(), (1, 1));
        let names = [crew.vault_name("app"), crew.vault_name("r")];
        assert_eq!(crew.in_vault(site).await?, names);
        Ok(())
    })
}

#[test]
fn a_delete_whose_answer_is_lost_is_not_repeated() -> Result<()> {
    tell(WORLD, async |site| {
        let _turn = crashes::turn().await;
        let crew = site.crew().await?;
        crew.declare_both().await?;
        crew.both_ready().await?;
        for path in [crew.policy_path(), crew.role_path()] {
            let lost = Rule::on(Method::DELETE, &format!("/v1/{path}"));
            crew.proxy.rule(lost.times(1).cut_after());
        }
        crew.delete_both().await?;
        crew.both_gone().await?;
        assert_eq!(crew.in_vault(site).await?, [""; 0]);
        assert_eq!(crew.deletes(), (1, 1));
        Ok(())
    })
}

//! Vault is sealed and unsealed while much is going on: all comes true in the end, and nothing is
//! done twice.

use std::collections::BTreeMap;

use crate::stories::{Crew, Plan, Site, event, rule, tell};
use api::vault::{VaultConnection, VaultPolicy, VaultRole};
use futures::future::try_join_all;
use reqwest::Method;
use serde_json::{Value, json};
use testkit::{Result, eventually, is};

/// Ten seconds pass in one.
const WORLD: Plan = Plan {
    pace: 10,
    args: &["--vault-deletion-deadline=never"],
};

/// How many of each there are: some stay as they are, some are edited, some deleted, some made.
const EACH: usize = 32;

/// What becomes of the n-th of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Stays,
    Edited,
    Deleted,
    Made,
}

impl Fate {
    fn of(n: usize) -> Self {
        match n % 4 {
            0 => Self::Stays,
            1 => Self::Edited,
            2 => Self::Deleted,
            _ => Self::Made,
        }
    }

    /// How often it is written, and how often deleted.
    fn effects(self) -> (usize, usize) {
        match self {
            Self::Stays | Self::Made => (1, 0),
            Self::Edited => (2, 0),
            Self::Deleted => (1, 1),
        }
    }
}

fn policy(n: usize) -> String {
    format!("p{n}")
}

fn role(n: usize) -> String {
    format!("r{n}")
}

async fn declare_policy(crew: &Crew, n: usize, word: &str) -> Result<()> {
    let rules = json!([rule(&format!("secret/data/{word}"), &["read"])]);
    let spec = json!({"rules": rules});
    crew.declare::<VaultPolicy>(&policy(n), spec).await
}

/// Declares the n-th of each. All roles are bound to the first policy, which stays as it is.
async fn declare(crew: &Crew, n: usize, word: &str) -> Result<()> {
    declare_policy(crew, n, word).await?;
    let first = json!([{"kind": "VaultPolicy", "name": policy(0)}]);
    let spec = json!({"serviceAccounts": [word], "policies": first});
    crew.declare::<VaultRole>(&role(n), spec).await
}

async fn ready(crew: &Crew, n: usize) -> Result<()> {
    let ready = || is("Ready", "Succeeded");
    crew.until::<VaultPolicy>(&policy(n), ready()).await?;
    crew.until::<VaultRole>(&role(n), ready()).await?;
    Ok(())
}

/// Does to the n-th of each what becomes of it.
async fn decide(crew: &Crew, n: usize) -> Result<()> {
    match Fate::of(n) {
        Fate::Stays => Ok(()),
        Fate::Edited => declare(crew, n, "second").await,
        Fate::Made => declare(crew, n, "first").await,
        Fate::Deleted => {
            crew.delete::<VaultRole>(&role(n)).await?;
            crew.delete::<VaultPolicy>(&policy(n)).await
        }
    }
}

/// Where the n-th of each is in Vault.
fn paths(crew: &Crew, n: usize) -> [String; 2] {
    [
        format!("sys/policies/acl/{}", crew.vault_name(&policy(n))),
        format!("auth/kubernetes/role/{}", crew.vault_name(&role(n))),
    ]
}

/// What came of the operator's writes of a path and of its deletions: done, and refused.
#[derive(Debug, Default, Clone, Copy)]
struct Asked {
    written: usize,
    deleted: usize,
    refused: usize,
}

fn asked(crew: &Crew) -> BTreeMap<String, Asked> {
    let mut all = BTreeMap::<String, Asked>::new();
    for one in crew.proxy.requests() {
        if ![Method::PUT, Method::POST, Method::DELETE].contains(&one.method) {
            continue;
        }
        let path = one.path.trim_start_matches("/v1/").to_owned();
        let asked = all.entry(path).or_default();
        let done = one.status.is_some_and(|status| status.is_success());
        match (done, one.method == Method::DELETE) {
            (true, false) => asked.written += 1,
            (true, true) => asked.deleted += 1,
            (false, _) => asked.refused += 1,
        }
    }
    all
}

/// What is not the operator's.
async fn foreign(site: &Site) -> Result<[Option<Value>; 2]> {
    Ok([
        site.read("sys/policies/acl/foreign").await?,
        site.read("auth/kubernetes/role/foreign").await?,
    ])
}

#[test]
fn what_was_under_way_when_vault_was_sealed_comes_true_when_it_is_unsealed() -> Result<()> {
    tell(WORLD, async |site| {
        crate::crashes::ensure_living_operator(site).await?;
        let text = r#"path "secret/x" { capabilities = ["read"] }"#;
        site.write_policy("foreign", text).await?;
        let theirs = json!({
            "bound_service_account_names": ["a"], "bound_service_account_namespaces": ["b"],
        });
        site.put("auth/kubernetes/role/foreign", theirs).await?;
        let before = foreign(site).await?;
        let owner = site.crew_with(json!({"healthCheckInterval": "5s"})).await?;
        let crew = &owner;
        let there = || (0..EACH).filter(|n| Fate::of(*n) != Fate::Made);
        declare_policy(crew, 0, "first").await?;
        crew.until::<VaultPolicy>(&policy(0), is("Ready", "Succeeded"))
            .await?;
        try_join_all(there().map(|n| declare(crew, n, "first"))).await?;
        try_join_all(there().map(|n| ready(crew, n))).await?;

        // Half of it is asked for before the seal, and the rest while Vault is sealed.
        let (early, late): (Vec<_>, Vec<_>) = (0..EACH).partition(|n| n % 8 < 4);
        let writes = crew.writes();
        let busy = async {
            eventually("the work has begun", async || {
                Ok((crew.writes() > writes).then_some(()))
            })
            .await?;
            site.world.vault().seal().await
        };
        let asks = try_join_all(early.into_iter().map(|n| decide(crew, n)));
        let (asks, sealed) = tokio::join!(asks, busy);
        asks?;
        sealed?;
        let (cluster, name) = (crew.cluster(), &crew.connection);
        cluster
            .until::<VaultConnection>(name, is("Ready", "VaultSealed"))
            .await?;
        let logins = || crew.calls(Method::POST, "auth/*/login");
        let (login, asked_for) = (logins(), crew.writes());
        try_join_all(late.into_iter().map(|n| decide(crew, n))).await?;
        crew.rereads("sys/health", 2).await?;
        assert_eq!(
            crew.writes(),
            asked_for,
            "nothing is asked of a sealed Vault"
        );
        assert_eq!(logins(), login, "nobody logs in to a sealed Vault");

        site.world.vault().unseal().await?;
        event(&cluster, name, "VaultUnsealed").await?;
        for n in 0..EACH {
            match Fate::of(n) {
                Fate::Stays | Fate::Edited | Fate::Made => ready(crew, n).await?,
                Fate::Deleted => {
                    crew.gone::<VaultRole>(&role(n)).await?;
                    crew.gone::<VaultPolicy>(&policy(n)).await?;
                }
            }
        }
        assert_eq!(logins(), 1, "the token outlives the seal");
        assert_eq!(foreign(site).await?, before);
        let asked = asked(crew);
        for n in 0..EACH {
            let fate = Fate::of(n);
            let word = match fate {
                Fate::Edited => "second",
                Fate::Stays | Fate::Made | Fate::Deleted => "first",
            };
            for path in paths(crew, n) {
                let found = site.read(&path).await?;
                assert_eq!(found.is_none(), fate == Fate::Deleted, "{path}");
                if let Some(found) = found {
                    assert!(found.to_string().contains(word), "{path}: {found}");
                }
                let asked = asked.get(&path).copied().unwrap_or_default();
                // What the seal cut off may have been done all the same, and is not done again.
                let (writes, deletes) = fate.effects();
                assert!(asked.written <= writes, "{path}: {asked:?}");
                assert!(asked.deleted <= deletes, "{path}: {asked:?}");
                let open = writes + deletes - asked.written - asked.deleted;
                assert!(open <= asked.refused, "{path}: {asked:?}");
            }
        }
        // The next story of this world finds nothing of it.
        let left = || (0..EACH).filter(|n| Fate::of(*n) != Fate::Deleted);
        for n in left() {
            crew.delete::<VaultRole>(&role(n)).await?;
        }
        for n in left() {
            crew.gone::<VaultRole>(&role(n)).await?;
            crew.delete::<VaultPolicy>(&policy(n)).await?;
        }
        for n in left() {
            crew.gone::<VaultPolicy>(&policy(n)).await?;
        }
        owner.leave().await
    })
}

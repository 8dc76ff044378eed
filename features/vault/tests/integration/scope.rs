//! What the operator watches, and what it reads by name: the one does not widen the other.

use std::time::Duration;

use crate::connection_fixtures::{by_token, keep, mint};
use crate::stories::{Crew, Plan, Site, admits, reader, tell};
use api::vault::{VaultPolicy, VaultRole};
use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use kube::api::{Api, PostParams};
use reqwest::Method;
use serde_json::json;
use testkit::{Entry, Mark, Result, is};
use tokio::sync::Mutex;

/// The one namespace whose objects count.
const WATCHED: &str = "watched";

const WORLD: Plan = Plan {
    pace: 1,
    args: &["--watch-namespaces=watched"],
};

/// Only connections and policies are looked after.
const POLICIES_ALONE: Plan = Plan {
    pace: 1,
    args: &["--vault-controllers=policy"],
};

/// A story here restarts the operator.
static TURN: Mutex<()> = Mutex::const_new(());

/// What the operator asked of the API server since `mark`.
async fn asked_since(site: &Site, mark: Mark) -> Result<Vec<Entry>> {
    let home = site.world.operator_namespace();
    let operator = format!("system:serviceaccount:{home}:pontoon");
    let mut entries = site.world.control_plane().entries_since(mark).await?;
    entries.retain(|entry| entry.user == operator);
    Ok(entries)
}

/// Whether the operator may do this to `what`: a resource, or `resource/name/subresource`.
async fn may(site: &Site, verb: &str, what: &str, namespace: &str) -> Result<bool> {
    let mut parts = what.split('/');
    let [resource, name, subresource] = [(); 3].map(|()| parts.next().unwrap_or_default());
    let home = site.world.operator_namespace();
    let review: SubjectAccessReview = serde_json::from_value(json!({"metadata": {}, "spec": {
        "user": format!("system:serviceaccount:{home}:pontoon"),
        "groups": ["system:serviceaccounts", format!("system:serviceaccounts:{home}")],
        "resourceAttributes": {
            "verb": verb, "resource": resource, "name": name, "subresource": subresource,
            "namespace": namespace,
        },
    }}))?;
    let reviews = Api::<SubjectAccessReview>::all(site.world.control_plane().admin());
    let answer = reviews.create(&PostParams::default(), &review).await?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}

/// A crew that logs in by a token of a Secret in a namespace that nobody watches.
async fn by_a_secret(site: &'static Site) -> Result<Crew> {
    let token = mint(site.world.vault(), json!({"policies": ["pontoon"]})).await?;
    keep(site, "scope", &[("token", &token.token)]).await?;
    site.crew_with(json!({"auth": by_token(site, "scope"), "healthCheckInterval": "5s"}))
        .await
}

#[test]
fn secrets_are_read_wherever_they_are_whatever_namespaces_are_watched() -> Result<()> {
    tell(WORLD, async |site| {
        let _turn = TURN.lock().await;
        site.world.control_plane().ensure_namespace(WATCHED).await?;
        let (crew, watched) = (by_a_secret(site).await?, site.in_namespace(WATCHED));
        crew.declare::<VaultPolicy>("app", reader()).await?;
        watched
            .apply(&crew.manifest::<VaultPolicy>("app", reader()))
            .await?;
        watched
            .until::<VaultPolicy>("app", is("Ready", "Succeeded"))
            .await?;
        assert!(site.policy("vao._.watched.app").await?.is_some());

        // A namespace that is not watched is not served, as long as one cares to look.
        crate::connection_fixtures::looks(&[crew.proxy], 2).await?;
        let policies = Api::<VaultPolicy>::namespaced(crew.client(), crew.name());
        assert_eq!(policies.get("app").await?.status, None);
        let path = format!("sys/policies/acl/vao._.{}.app", crew.name());
        assert_eq!(crew.calls(Method::GET, &path), 0);
        watched.delete::<VaultPolicy>("app").await?;
        watched.gone::<VaultPolicy>("app").await
    })
}

#[test]
fn a_controller_left_out_at_start_touches_nothing() -> Result<()> {
    tell(POLICIES_ALONE, async |site| {
        let crew = site.crew().await?;
        crew.declare::<VaultRole>("r", admits(&["sa1"])).await?;
        crew.declare::<VaultPolicy>("app", reader()).await?;
        crew.until::<VaultPolicy>("app", is("Ready", "Succeeded"))
            .await?;
        let roles = Api::<VaultRole>::namespaced(crew.client(), crew.name());
        let role = roles.get("r").await?;
        assert_eq!((role.status, role.metadata.finalizers), (None, None));
        assert_eq!(crew.calls(Method::GET, "auth/*/role/*"), 0);
        let list = Method::from_bytes(b"LIST")?;
        assert_eq!(
            crew.calls(list, "*"),
            0,
            "discovery and orphans are left out"
        );
        Ok(())
    })
}

#[test]
fn secrets_are_got_by_name_and_tokens_asked_for_nobody_else() -> Result<()> {
    tell(WORLD, async |site| {
        let _turn = TURN.lock().await;
        let (home, mark) = (site.world.operator_namespace(), site.world.mark());
        // A whole life of the operator, with a login of each kind.
        let operator = site.world.operator();
        operator.terminate(Duration::from_secs(25)).await?;
        operator.restart(|_| {}).await?;
        by_a_secret(site).await?;
        let crew = site.crew().await?;
        site.world.control_plane().ensure_namespace(WATCHED).await?;
        let watched = site.in_namespace(WATCHED);
        watched
            .apply(&crew.manifest::<VaultPolicy>("app", reader()))
            .await?;
        watched
            .apply(&crew.manifest::<VaultRole>("r", admits(&["sa1"])))
            .await?;
        watched
            .until::<VaultRole>("r", is("Ready", "Succeeded"))
            .await?;

        let asked = asked_since(site, mark).await?;
        let about = |resource: &str, subresource: &str| -> Vec<(String, String, String)> {
            let about = asked.iter().filter(|one| {
                (one.resource.as_str(), one.subresource.as_str()) == (resource, subresource)
            });
            let told = |one: &Entry| (one.verb.clone(), one.namespace.clone(), one.name.clone());
            let mut told: Vec<_> = about.map(told).collect();
            told.sort();
            told.dedup();
            told
        };
        let one = |verb: &str, name: &str| (verb.to_owned(), home.to_owned(), name.to_owned());
        assert_eq!(about("secrets", ""), [one("get", "scope")]);
        assert_eq!(
            about("serviceaccounts", "token"),
            [one("create", "pontoon")]
        );

        // Nor could it: no list of Secrets anywhere, no Secret of other namespaces, no token of
        // another account.
        for (verb, what, namespace, allowed) in [
            ("get", "secrets", home, true),
            ("list", "secrets", home, false),
            ("watch", "secrets", home, false),
            ("get", "secrets", crew.name(), false),
            ("list", "secrets", crew.name(), false),
            ("list", "secrets", "", false),
            ("create", "serviceaccounts/pontoon/token", home, true),
            ("create", "serviceaccounts/default/token", home, false),
            (
                "create",
                "serviceaccounts/pontoon/token",
                crew.name(),
                false,
            ),
        ] {
            let found = may(site, verb, what, namespace).await?;
            assert_eq!(found, allowed, "{verb} {what} in {namespace:?}");
        }
        Ok(())
    })
}

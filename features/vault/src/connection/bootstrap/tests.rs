//! The machine as a whole, on a Vault made of four values, with crashes and lost answers.

use proptest::prelude::*;
use serde_json::json;

use super::*;

const HOST: &str = "https://api";
const CA: &str = "CA";

/// What may happen in one pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// All goes well.
    Fine,
    /// We die, or the call does not reach Vault.
    Lost,
    /// Vault does it, and we die or hear nothing.
    Unheard,
    /// The API server is away, or Vault's way to it.
    NoLogin,
    /// People take something away.
    Removed(Part),
}

fn turn() -> impl Strategy<Value = Turn> {
    prop_oneof![
        4 => Just(Turn::Fine),
        1 => Just(Turn::Lost),
        1 => Just(Turn::Unheard),
        1 => Just(Turn::NoLogin),
        1 => Just(Turn::Removed(Part::Mount)),
        1 => Just(Turn::Removed(Part::Policy)),
        1 => Just(Turn::Removed(Part::Role)),
    ]
}

/// How the mount stands before bootstrap.
fn mount() -> impl Strategy<Value = Option<SeenMount>> {
    let configured = |host: &str| {
        let config = json!({"kubernetes_host": host, "kubernetes_ca_cert": CA, "issuer": "theirs"});
        Some(serde_json::from_value(config).unwrap())
    };
    let theirs = |config| {
        Some(SeenMount {
            kind: KUBERNETES.into(),
            description: "theirs".into(),
            config,
        })
    };
    prop_oneof![
        Just(None),
        Just(theirs(None)),
        Just(theirs(configured(HOST))),
        Just(theirs(configured("https://other"))),
    ]
}

struct Model {
    seen: Seen,
    token_lives: bool,
}

impl Model {
    /// Does what the step says, as Vault would.
    fn carry_out(&mut self, step: &Step, wish: &Wish<'_>, works: bool) -> Advance {
        let refused = || Error::AuthFailed {
            login: "test".into(),
            message: String::new(),
        };
        match step {
            Step::Look => panic!("looked already"),
            Step::Refuse(refusal) => Advance::Refused(refusal.reason(wish)),
            Step::Make(part) => {
                self.make(*part, wish);
                let reviewer = (*part == Part::Config).then_some(Timestamp::MAX);
                Advance::Made {
                    part: *part,
                    reviewer,
                }
            }
            Step::Note(part) => Advance::Made {
                part: *part,
                reviewer: None,
            },
            Step::Test if works => Advance::Complete,
            Step::Test => Advance::TestFailed(refused()),
            Step::Revoke => {
                self.token_lives = false;
                Advance::Revoked
            }
            Step::Done => Advance::Done,
        }
    }

    fn make(&mut self, part: Part, wish: &Wish<'_>) {
        let jwt = Jwt {
            secret: "a.b.c".to_owned().into(),
            expires: Timestamp::MAX,
        };
        let config = config(wish, Some(self.seen.clone()), &jwt);
        let Seen {
            mount,
            policy,
            role,
        } = &mut self.seen;
        match part {
            Part::Mount => {
                assert_eq!(*mount, None, "a mount is enabled where none is");
                *mount = Some(SeenMount {
                    kind: KUBERNETES.into(),
                    description: wish.marker.to_string(),
                    config: None,
                });
            }
            Part::Config => mount.as_mut().expect("a mount to configure").config = Some(config),
            Part::Policy => assert!(
                !std::mem::replace(policy, true),
                "a policy is never changed"
            ),
            Part::Role => {
                assert!(mount.is_some(), "a role needs a mount");
                assert!(!std::mem::replace(role, true), "a role is never changed");
            }
        }
    }

    fn remove(&mut self, part: Part) {
        match part {
            Part::Mount | Part::Config => {
                self.seen.mount = None;
                self.seen.role = false;
            }
            Part::Policy => self.seen.policy = false,
            Part::Role => self.seen.role = false,
        }
    }

    /// Which parts Vault has, in their order.
    fn has(&self) -> [bool; 4] {
        let Seen {
            mount,
            policy,
            role,
        } = &self.seen;
        let configured = mount.as_ref().is_some_and(|mount| mount.config.is_some());
        [mount.is_some(), configured, *policy, *role]
    }
}

fn bootstrap(auto_revoke: bool, adopt_mount: bool) -> Bootstrap {
    serde_json::from_value(json!({
        "secretRef": {"name": "n", "namespace": "m", "key": "k"},
        "autoRevoke": auto_revoke, "adoptMount": adopt_mount,
    }))
    .unwrap()
}

proptest! {
    #[test]
    fn nothing_is_skipped_done_twice_or_revoked_too_early(
        mount in mount(),
        (policy, auto_revoke, adopt) in any::<(bool, bool, bool)>(),
        turns in proptest::collection::vec(turn(), 0..40),
    ) {
        let auth = serde_json::from_value(json!({"role": "r", "kubernetesHost": HOST})).unwrap();
        let marker = MountMarker { identity: "prod".into(), connection: "c".into() };
        let bootstrap = bootstrap(auto_revoke, adopt);
        let wish = Wish {
            auth: &auth, bootstrap: &bootstrap, marker: &marker, ca_pem: CA, now: Timestamp::UNIX_EPOCH,
        };
        let seen = Seen { mount: mount.clone(), policy, role: false };
        let mut vault = Model { seen, token_lives: true };
        let mut status = AuthStatus::default();

        // In the end all goes well, and often enough.
        let turns = turns.into_iter().chain([Turn::Fine; 8]);
        for turn in turns {
            if let Turn::Removed(part) = turn {
                vault.remove(part);
                continue;
            }
            let before = vault.seen.clone();
            let complete = status.bootstrap_complete == Some(true);
            let step = plan::next(&wish, &status, Some(&before));
            let owed = is_owed(&bootstrap, &status);
            prop_assert_eq!(owed, step != Step::Done);
            match &step {
                Step::Make(part) => prop_assert!(vault.has()[..*part as usize].iter().all(|has| *has)),
                Step::Test => prop_assert_eq!(vault.has(), [true; 4]),
                Step::Revoke => prop_assert!(complete && auto_revoke),
                Step::Refuse(_) => prop_assert!(!adopt),
                Step::Note(_) | Step::Done => {}
                Step::Look => prop_assert!(false, "there is something to decide on"),
            }
            prop_assert!(!complete || matches!(step, Step::Revoke | Step::Done));
            if turn == Turn::Lost {
                continue;
            }
            let advance = vault.carry_out(&step, &wish, turn != Turn::NoLogin);
            if matches!(step, Step::Refuse(_)) {
                prop_assert_eq!(&vault.seen, &before);
            }
            if turn != Turn::Unheard {
                record(&mut status, &advance, Timestamp::UNIX_EPOCH);
            }
            prop_assert!(vault.token_lives || status.bootstrap_complete == Some(true));
            let enabled = is_recorded(&status, Part::Mount.name());
            let theirs = vault.seen.mount.as_ref().is_some_and(|at| at.description == "theirs");
            prop_assert!(!(enabled && theirs), "what others enabled is not recorded as ours");
        }
        let last = plan::next(&wish, &status, Some(&vault.seen));
        if matches!(last, Step::Refuse(_)) {
            prop_assert_eq!(&vault.seen.mount, &mount);
        } else {
            prop_assert_eq!(last, Step::Done);
            prop_assert_eq!(vault.token_lives, !auto_revoke);
            prop_assert!(!status.bootstrap_steps.contains_key(TEST_FAILED));
        }
    }
}

fn now() -> Timestamp {
    "2026-01-02T03:04:05.678Z".parse().unwrap()
}

fn refused() -> Error {
    Error::AuthFailed {
        login: "kubernetes login".into(),
        message: "no".into(),
    }
}

#[test]
fn a_record_is_times_without_fractions() {
    let mut status = AuthStatus::default();
    let reviewer = Some("2026-01-03T03:04:05.9Z".parse().unwrap());
    let part = Part::Config;
    record(&mut status, &Advance::Made { part, reviewer }, now());
    record(&mut status, &Advance::TestFailed(refused()), now());
    assert_eq!(
        serde_json::to_value(&status).unwrap(),
        json!({
            "bootstrapSteps": {
                "AuthMountConfigured": "2026-01-02T03:04:05Z",
                "K8sAuthTestFailed": "2026-01-02T03:04:05Z",
            },
            "tokenReviewerExpiration": "2026-01-03T03:04:05Z",
            "tokenReviewerLastRefresh": "2026-01-02T03:04:05Z",
        })
    );

    record(&mut status, &Advance::Complete, now());
    record(&mut status, &Advance::RevokeFailed(refused()), now());
    record(&mut status, &Advance::Revoked, now());
    assert_eq!(
        serde_json::to_value(&status).unwrap(),
        json!({
            "bootstrapComplete": true,
            "bootstrapCompletedAt": "2026-01-02T03:04:05Z",
            "bootstrapSteps": {
                "AuthMountConfigured": "2026-01-02T03:04:05Z",
                "BootstrapTokenRevoked": "2026-01-02T03:04:05Z",
            },
            "tokenReviewerExpiration": "2026-01-03T03:04:05Z",
            "tokenReviewerLastRefresh": "2026-01-02T03:04:05Z",
        })
    );
}

#[test]
fn a_failure_that_repeats_changes_no_record() {
    for failure in [Advance::TestFailed, Advance::RevokeFailed] {
        let mut status = AuthStatus::default();
        record(&mut status, &failure(refused()), now());
        let first = status.clone();
        let later = "2027-01-02T03:04:05Z".parse().unwrap();
        record(&mut status, &failure(refused()), later);
        assert_eq!(status, first);
    }
}

#[test]
fn an_adopted_mount_is_looked_after_once_we_configured_it() {
    let status = |steps: Value| -> AuthStatus {
        serde_json::from_value(json!({ "bootstrapSteps": steps })).unwrap()
    };
    let enabled = status(json!({"AuthMountEnabled": "t"}));
    let configured = status(json!({"AuthMountConfigured": "t"}));
    assert!(is_our_mount(None, &enabled));
    assert!(is_our_mount(Some(&bootstrap(true, true)), &configured));
    assert!(!is_our_mount(Some(&bootstrap(true, false)), &configured));
    assert!(!is_our_mount(
        Some(&bootstrap(true, true)),
        &status(json!({}))
    ));
}

fn told(advance: &Advance) -> Option<(String, String)> {
    let mut set = Conditions::new(&[], None, now());
    tell(advance, &mut set);
    let (conditions, _) = set.into_parts();
    let found = kernel::find(&conditions, "Bootstrapped")?;
    Some((found.status.clone(), found.reason.clone()))
}

#[test]
fn the_condition_says_how_it_ended() {
    let says = |status: &str, reason: &str| Some((status.to_owned(), reason.to_owned()));
    let reason = Reason::new(reasons::MOUNT_NOT_OURS, "theirs");
    let part = Part::Mount;
    let reviewer = None;
    assert_eq!(told(&Advance::Made { part, reviewer }), None);
    assert_eq!(told(&Advance::Complete), says("True", "Succeeded"));
    assert_eq!(
        told(&Advance::RevokeFailed(refused())),
        says("True", "Succeeded")
    );
    assert_eq!(
        told(&Advance::TestFailed(refused())),
        says("False", "K8sAuthTestFailed")
    );
    assert_eq!(
        told(&Advance::Refused(reason)),
        says("False", "MountNotOurs")
    );
}

//! Who may read metrics: those the cluster itself says may.

use std::collections::HashMap;
use std::time::Duration;

use axum::http::StatusCode;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec};
use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kernel::SharedClock;
use kube::Client;
use kube::api::{Api, PostParams};
use parking_lot::Mutex;
use sha2::{Digest, Sha256};

/// An answer of the cluster holds this long.
const FRESH: Duration = Duration::from_secs(60);
/// Answers remembered at most.
const REMEMBERED: usize = 1000;

/// Asks the API server by TokenReview and SubjectAccessReview, and remembers its answer for a minute.
pub(crate) struct Reviewer {
    client: Client,
    clock: SharedClock,
    answers: Mutex<HashMap<[u8; 32], (Result<(), StatusCode>, Duration)>>,
}

impl Reviewer {
    pub(crate) fn new(client: Client, clock: SharedClock) -> Self {
        Self {
            client,
            clock,
            answers: Mutex::default(),
        }
    }

    pub(crate) async fn may_read_metrics(&self, token: Option<&str>) -> Result<(), StatusCode> {
        let token = token.ok_or(StatusCode::UNAUTHORIZED)?;
        let key: [u8; 32] = Sha256::digest(token.as_bytes()).into();
        let now = self.clock.elapsed();
        if let Some((answer, at)) = self.answers.lock().get(&key)
            && now.saturating_sub(*at) < FRESH
        {
            return *answer;
        }
        let answer = self.ask(token).await.map_err(|error| {
            tracing::warn!(%error, "cannot ask who may read metrics");
            StatusCode::INTERNAL_SERVER_ERROR
        })?;
        let mut answers = self.answers.lock();
        if answers.len() >= REMEMBERED {
            answers.clear();
        }
        answers.insert(key, (answer, now));
        answer
    }

    async fn ask(&self, token: &str) -> Result<Result<(), StatusCode>, kube::Error> {
        let review = TokenReview {
            spec: TokenReviewSpec {
                token: Some(token.to_owned()),
                ..TokenReviewSpec::default()
            },
            ..TokenReview::default()
        };
        let review = Api::<TokenReview>::all(self.client.clone())
            .create(&PostParams::default(), &review)
            .await?;
        let status = review.status.unwrap_or_default();
        let Some(user) = status.user.filter(|_| status.authenticated == Some(true)) else {
            return Ok(Err(StatusCode::UNAUTHORIZED));
        };
        let review = SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                user: user.username,
                groups: user.groups,
                uid: user.uid,
                extra: user.extra,
                non_resource_attributes: Some(NonResourceAttributes {
                    path: Some("/metrics".to_owned()),
                    verb: Some("get".to_owned()),
                }),
                ..SubjectAccessReviewSpec::default()
            },
            ..SubjectAccessReview::default()
        };
        let review = Api::<SubjectAccessReview>::all(self.client.clone())
            .create(&PostParams::default(), &review)
            .await?;
        let allowed = review.status.is_some_and(|status| status.allowed);
        Ok(if allowed {
            Ok(())
        } else {
            Err(StatusCode::FORBIDDEN)
        })
    }
}

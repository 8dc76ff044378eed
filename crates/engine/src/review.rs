//! Access control for metrics: the API server decides who may read them.

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

/// How long an answer of the API server is valid.
const VALIDITY: Duration = Duration::from_secs(60);
/// How many answers are cached at most.
const MAX_ANSWERS: usize = 1000;

/// Checks access with TokenReview and SubjectAccessReview. Caches the answers.
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
            && now.saturating_sub(*at) < VALIDITY
        {
            return *answer;
        }
        let answer = self.review(token).await.map_err(|error| {
            tracing::warn!(%error, "the API server cannot review access to metrics");
            StatusCode::INTERNAL_SERVER_ERROR
        })?;
        let mut answers = self.answers.lock();
        if answers.len() >= MAX_ANSWERS {
            answers.clear();
        }
        answers.insert(key, (answer, now));
        answer
    }

    async fn review(&self, token: &str) -> Result<Result<(), StatusCode>, kube::Error> {
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

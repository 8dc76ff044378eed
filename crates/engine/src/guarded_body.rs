//! A write's body that leaves only while this process may write.

use std::error::Error;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::{Body, Frame, SizeHint};
use kernel::{Deposed, Guard};
use tower::BoxError;

/// The body of a write. Its guards are asked when the connection takes the bytes, so that a
/// process frozen after it decided to write sends nothing once it thaws.
///
/// # When not to use it
/// Alone: a check before the call is still due. It spares the connection, and covers calls
/// without a body.
#[derive(Debug)]
pub struct GuardedBody<B = Full<Bytes>> {
    body: B,
    guards: Vec<Guard>,
}

impl GuardedBody {
    /// `bytes`, for as long as all `guards` hold.
    pub fn new(bytes: impl Into<Bytes>, guards: Vec<Guard>) -> Self {
        Self::wrap(Full::new(bytes.into()), guards)
    }

    /// The guard's word, if that is why a call failed.
    pub fn refused(error: &(dyn Error + 'static)) -> Option<Deposed> {
        let mut causes = std::iter::successors(Some(error), |&error| error.source());
        causes.find_map(|cause| cause.downcast_ref().copied())
    }
}

impl<B> GuardedBody<B> {
    /// `body`, for as long as all `guards` hold.
    pub fn wrap(body: B, guards: Vec<Guard>) -> Self {
        Self { body, guards }
    }
}

impl<B> Body for GuardedBody<B>
where
    B: Body<Error: Into<BoxError>> + Unpin,
{
    type Data = B::Data;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, BoxError>>> {
        if !self.body.is_end_stream()
            && let Err(deposed) = self.guards.iter().try_for_each(Guard::check)
        {
            return Poll::Ready(Some(Err(deposed.into())));
        }
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        frame.map(|frame| frame.map(|frame| frame.map_err(Into::into)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt;

    #[tokio::test]
    async fn bytes_leave_only_while_the_guard_holds() {
        let guard = Guard::always();
        let body = || GuardedBody::new("text", vec![guard.clone()]);
        assert_eq!(body().collect().await.unwrap().to_bytes(), "text");
        let late = body();
        guard.revoke();
        let error = late.collect().await.unwrap_err();
        assert_eq!(GuardedBody::refused(&*error), Some(Deposed));
    }
}

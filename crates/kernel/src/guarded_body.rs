//! The body of a write that is sent only while this process may write.

use std::error::Error;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::Full;

use crate::{Deposed, Guard};

type BoxError = Box<dyn Error + Send + Sync>;

/// The body of a write. Its guards are checked when the connection reads the body, so a process that
/// was frozen after its decision to write sends nothing when it continues.
///
/// An empty body is guarded too. HTTP clients call [`Body::is_end_stream`] just before they write
/// the head of a request. If a guard is closed by then, the body claims that bytes follow, and then
/// fails before any byte is sent.
///
/// # When not to use it
/// Alone: check the guards before the call as well, so that no connection is opened for it.
#[derive(Debug)]
pub struct GuardedBody<B = Full<Bytes>> {
    body: B,
    guards: Vec<Guard>,
    /// Whether a frame has been given to the connection.
    begun: bool,
}

impl GuardedBody {
    /// `bytes`, sent only while all `guards` are open.
    pub fn new(bytes: impl Into<Bytes>, guards: Vec<Guard>) -> Self {
        Self::wrap(Full::new(bytes.into()), guards)
    }

    /// Whether a closed guard is the reason why a call failed.
    pub fn refused(error: &(dyn Error + 'static)) -> Option<Deposed> {
        let mut causes = std::iter::successors(Some(error), |&error| error.source());
        causes.find_map(|cause| cause.downcast_ref().copied())
    }
}

impl<B> GuardedBody<B> {
    /// `body`, sent only while all `guards` are open.
    pub fn wrap(body: B, guards: Vec<Guard>) -> Self {
        Self {
            body,
            guards,
            begun: false,
        }
    }

    fn check(&self) -> Result<(), Deposed> {
        self.guards.iter().try_for_each(Guard::check)
    }
}

impl<B: Body> GuardedBody<B> {
    /// An empty body that must not be sent.
    fn is_refused_empty(&self) -> bool {
        !self.begun && self.body.is_end_stream() && self.check().is_err()
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
        if !(self.begun && self.body.is_end_stream())
            && let Err(deposed) = self.check()
        {
            return Poll::Ready(Some(Err(deposed.into())));
        }
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        self.begun |= frame.is_ready();
        frame.map(|frame| frame.map(|frame| frame.map_err(Into::into)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream() && !self.is_refused_empty()
    }

    fn size_hint(&self) -> SizeHint {
        if self.is_refused_empty() {
            return SizeHint::default(); // a length of zero would not be polled
        }
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt;
    use std::pin::pin;

    /// Polls a body that is always ready to its end.
    fn sent(body: GuardedBody) -> Result<Bytes, BoxError> {
        let mut context = Context::from_waker(std::task::Waker::noop());
        match pin!(body.collect()).poll(&mut context) {
            Poll::Ready(all) => all.map(http_body_util::Collected::to_bytes),
            Poll::Pending => panic!("a body in memory is always ready"),
        }
    }

    #[test]
    fn bytes_are_sent_only_while_the_guard_is_open() {
        let guard = Guard::always();
        let body = || GuardedBody::new("text", vec![guard.clone()]);
        assert_eq!(sent(body()).unwrap(), "text");
        let late = body();
        guard.revoke();
        let error = sent(late).unwrap_err();
        assert_eq!(GuardedBody::refused(&*error), Some(Deposed));
    }

    #[test]
    fn an_empty_body_is_refused_by_a_closed_guard() {
        let guard = Guard::always();
        let body = GuardedBody::new("", vec![guard.clone()]);
        assert!(body.is_end_stream());
        assert_eq!(body.size_hint().exact(), Some(0));
        guard.revoke();
        assert!(!body.is_end_stream());
        assert_eq!(body.size_hint().exact(), None);
        let error = sent(body).unwrap_err();
        assert_eq!(GuardedBody::refused(&*error), Some(Deposed));
    }

    #[test]
    fn a_sent_body_ends_normally() {
        let guard = Guard::always();
        let mut body = GuardedBody::new("text", vec![guard.clone()]);
        let mut context = Context::from_waker(std::task::Waker::noop());
        let first = Pin::new(&mut body).poll_frame(&mut context);
        assert!(matches!(first, Poll::Ready(Some(Ok(_)))));
        guard.revoke();
        assert!(body.is_end_stream());
        assert_eq!(sent(body).unwrap(), "");
    }
}

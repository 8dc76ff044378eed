//! A write's body that leaves only while this process may write.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use kernel::{Deposed, Guard};

/// The body of a write to the outside. Its guards are asked when the connection takes the bytes,
/// so that a process frozen after it decided to write sends nothing once it thaws.
///
/// A check before the call is still due: it spares the connection, and covers calls without a body.
pub struct GuardedBody {
    bytes: Option<Bytes>,
    guards: Vec<Guard>,
}

impl GuardedBody {
    /// `bytes`, for as long as all `guards` hold.
    pub fn new(bytes: impl Into<Bytes>, guards: Vec<Guard>) -> Self {
        Self {
            bytes: Some(bytes.into()),
            guards,
        }
    }
}

impl Body for GuardedBody {
    type Data = Bytes;
    type Error = Deposed;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Deposed>>> {
        let held = self.guards.iter().try_for_each(Guard::check);
        let bytes = self.bytes.take();
        Poll::Ready(bytes.map(|bytes| held.map(|()| Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        let left = self.bytes.as_ref().map_or(0, Bytes::len);
        SizeHint::with_exact(u64::try_from(left).unwrap_or(u64::MAX))
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
        assert_eq!(late.collect().await.unwrap_err(), Deposed);
    }
}

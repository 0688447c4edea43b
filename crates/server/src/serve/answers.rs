//! The memory of answers that wait to be read.
//!
//! An answer that is whole is counted before it is written, and one that does not fit into the budget becomes a refusal. An answer
//! that is streamed cannot be refused any more: its pieces are counted as they are made, and others are refused until the client has
//! read them. The next piece is made when there is room for it in the connection's buffer.

use super::written::Written;
use crate::{
    api::Problem,
    bodies::{Bodies, Owner, UNCOUNTED_BYTES},
};
use axum::{
    body::Body,
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use hyper::body::{Body as _, Frame, SizeHint};
use mundi_model::Code;
use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

/// The answer, counted; or a refusal in its place, and whether it is one.
pub(super) fn counted(
    response: Response,
    answers: &Arc<Bodies>,
    owner: impl FnOnce() -> Owner,
    written: &Arc<Written>,
) -> (Response, bool) {
    match response.body().size_hint().exact() {
        Some(bytes) if bytes <= UNCOUNTED_BYTES as u64 => (response, false),
        Some(bytes) => {
            let mut held = answers.hold(owner());
            let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
            // One alone is always answered.
            match held.grow_to(bytes.min(answers.budgets().body_bytes_max())) {
                Ok(()) => {
                    written.hold(held);
                    (response, false)
                }
                Err(full) => (Problem::new(Code::AnswersFull, full.to_string()).into_response(), true),
            }
        }
        None => {
            let (answers, owner, written) = (answers.clone(), owner(), written.clone());
            (response.map(|inner| Body::new(CountedPieces { inner, answers, owner, written })), false)
        }
    }
}

/// A streamed body whose pieces are counted until they are written.
struct CountedPieces {
    inner: Body,
    answers: Arc<Bodies>,
    owner: Owner,
    written: Arc<Written>,
}

impl hyper::body::Body for CountedPieces {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let polled = Pin::new(&mut self.inner).poll_frame(cx);
        if let Poll::Ready(Some(Ok(frame))) = &polled
            && let Some(piece) = frame.data_ref().filter(|piece| piece.len() > UNCOUNTED_BYTES)
        {
            let mut held = self.answers.hold(self.owner);
            held.add(piece.len());
            self.written.hold(held);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

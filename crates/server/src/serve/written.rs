//! Writes on a connection: how much the client has read, and how many answers wait.
//!
//! A client that reads nothing fills the buffers on the way; then a write waits. Whatever waits has to move on by a number of
//! bytes in each window of time, or the connection ends. Meanwhile no more than a few answers are made for it.

use crate::bodies::HeldBody;
use parking_lot::Mutex;
use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    task::{Context, Poll},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    sync::Notify,
    time::Instant,
};

/// How fast a client has to read what waits for it.
#[derive(Debug, Clone, Copy)]
pub(super) struct WriteRate {
    /// The window of time.
    pub(super) timeout: Duration,
    /// Bytes that must be accepted in each window, unless less is left.
    pub(super) bytes_min: u64,
}

/// The state of a connection's writes: shared by its stream, its requests and its timer, which all run in one task.
#[derive(Default)]
pub(super) struct Written {
    /// Answers since everything was written the last time.
    unwritten: AtomicUsize,
    /// Whether there is a window: all else is looked at only then.
    is_waiting: AtomicBool,
    window: Mutex<Option<Window>>,
    all_written: Notify,
    /// The memory of what was not written yet.
    held: Mutex<Vec<HeldBody>>,
    holds: AtomicBool,
}

#[derive(Clone, Copy)]
struct Window {
    begun: Instant,
    bytes: u64,
}

impl Written {
    /// One more answer is about to be written.
    pub(super) fn answered(&self) {
        self.unwritten.fetch_add(1, Relaxed);
    }

    /// Something takes memory until everything is written.
    pub(super) fn hold(&self, held: HeldBody) {
        self.held.lock().push(held);
        self.holds.store(true, Relaxed);
    }

    /// Completes when fewer than `max` answers wait to be written.
    pub(super) async fn has_room(&self, max: usize) {
        while self.unwritten.load(Relaxed) >= max {
            self.all_written.notified().await;
        }
    }

    /// Completes when the client has taken too little in a window.
    pub(super) async fn is_late(&self, rate: WriteRate) {
        loop {
            let (window, now) = (*self.window.lock(), Instant::now());
            let due = window.map_or(now, |window| window.begun) + rate.timeout;
            if due <= now {
                return;
            }
            tokio::time::sleep_until(due).await;
        }
    }

    fn waits(&self) {
        if !self.is_waiting.swap(true, Relaxed) {
            *self.window.lock() = Some(Window { begun: Instant::now(), bytes: 0 });
        }
    }

    fn took(&self, bytes: usize, rate: WriteRate) {
        if !self.is_waiting.load(Relaxed) {
            return;
        }
        if let Some(window) = &mut *self.window.lock() {
            window.bytes += bytes as u64;
            if window.bytes >= rate.bytes_min {
                *window = Window { begun: Instant::now(), bytes: 0 };
            }
        }
    }

    fn took_all(&self) {
        if self.unwritten.swap(0, Relaxed) > 0 {
            self.all_written.notify_one();
        }
        if self.is_waiting.swap(false, Relaxed) {
            *self.window.lock() = None;
        }
        if self.holds.swap(false, Relaxed) {
            self.held.lock().clear();
        }
    }
}

/// A stream whose writes are followed.
pub(super) struct Followed<S> {
    pub(super) stream: S,
    pub(super) written: Arc<Written>,
    pub(super) rate: WriteRate,
}

impl<S> Followed<S> {
    fn follow(&self, poll: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        match &poll {
            Poll::Pending => self.written.waits(),
            Poll::Ready(Ok(bytes)) => self.written.took(*bytes, self.rate),
            Poll::Ready(Err(_)) => {}
        }
        poll
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Followed<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Followed<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.follow(poll)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.stream).poll_write_vectored(cx, bytes);
        self.follow(poll)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// Asked for when everything was handed to the stream; done when the stream has handed it on, too.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let poll = Pin::new(&mut self.stream).poll_flush(cx);
        match poll.is_ready() {
            true => self.written.took_all(),
            false => self.written.waits(),
        }
        poll
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let poll = Pin::new(&mut self.stream).poll_shutdown(cx);
        if poll.is_pending() {
            self.written.waits();
        }
        poll
    }
}

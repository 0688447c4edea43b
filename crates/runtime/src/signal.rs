//! A counter that tasks of one process can wait for.

use parking_lot::Mutex;
use std::{
    collections::BTreeMap,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

/// Clones are the same signal.
#[derive(Clone, Default)]
pub(crate) struct Signal(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    version: u64,
    next: u64,
    waiting: BTreeMap<u64, Waker>,
}

impl Signal {
    /// Take it before looking at what the signal is about: what changes afterwards changes it.
    pub(crate) fn version(&self) -> u64 {
        self.0.lock().version
    }

    pub(crate) fn notify(&self) {
        let mut state = self.0.lock();
        state.version += 1;
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        waiting.into_values().for_each(Waker::wake);
    }

    /// As [`Self::notify`], but of those who wait already only one is woken.
    pub(crate) fn notify_one(&self) {
        let mut state = self.0.lock();
        state.version += 1;
        let first = state.waiting.pop_first();
        drop(state);
        if let Some((_, waker)) = first {
            waker.wake();
        }
    }

    /// Completes once the version is another one.
    pub(crate) fn changed(&self, seen: u64) -> Changed {
        let mut state = self.0.lock();
        state.next += 1;
        Changed { signal: self.clone(), seen, id: state.next }
    }
}

/// See [`Signal::changed`].
pub(crate) struct Changed {
    signal: Signal,
    seen: u64,
    id: u64,
}

impl Future for Changed {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.signal.0.lock();
        if state.version != self.seen {
            return Poll::Ready(());
        }
        state.waiting.insert(self.id, context.waker().clone());
        Poll::Pending
    }
}

impl Drop for Changed {
    fn drop(&mut self) {
        self.signal.0.lock().waiting.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[test]
    fn a_change_after_the_look_is_not_missed_and_nothing_is_left_behind() {
        let signal = Signal::default();
        let seen = signal.version();
        let mut waiting = signal.changed(seen);
        assert!((&mut waiting).now_or_never().is_none());
        signal.notify();
        assert!((&mut waiting).now_or_never().is_some());
        let mut again = signal.changed(signal.version());
        assert!((&mut again).now_or_never().is_none());
        drop(again);
        assert!(signal.0.lock().waiting.is_empty());
    }
}

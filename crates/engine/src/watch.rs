//! Watchers by key. Engines that decide commits in this process share it.

use crate::{EngineError, overlay::check_key};
use bytes::Bytes;
use futures_channel::oneshot;
use parking_lot::Mutex;
use std::{collections::BTreeMap, sync::Arc};

/// One watch costs about 200 bytes; a million of them is more than any worker holds worlds.
const WATCHES_MAX: usize = 1_000_000;

#[derive(Clone, Default)]
pub(crate) struct Watches(Arc<Mutex<Waiting>>);

#[derive(Default)]
struct Waiting {
    /// Keyed by the watched key and a number, so that a key's watches lie side by side.
    by_key: BTreeMap<(Bytes, u64), oneshot::Sender<()>>,
    next: u64,
    closed: bool,
}

impl Watches {
    /// Waits until `differs` is true of the value under `key`, asking again after each commit that wrote it.
    ///
    /// `differs` is asked after the watch is in place, so no commit falls between the two.
    pub(crate) async fn until(
        self,
        key: Bytes,
        mut differs: impl FnMut(&Bytes) -> Result<bool, EngineError> + Send,
    ) -> Result<(), EngineError> {
        check_key(&key)?;
        loop {
            let (watch, woken) = self.place(&key)?;
            if differs(&key)? {
                return Ok(());
            }
            if woken.await.is_err() {
                return Err(EngineError::Closed);
            }
            drop(watch);
        }
    }

    /// A place in the table, and what completes when the key is written.
    pub(crate) fn place(&self, key: &Bytes) -> Result<(Watch, oneshot::Receiver<()>), EngineError> {
        let mut waiting = self.0.lock();
        if waiting.closed {
            return Err(EngineError::Closed);
        }
        if waiting.by_key.len() >= WATCHES_MAX {
            return Err(EngineError::Busy { what: "the table of watches", max: WATCHES_MAX });
        }
        let (sender, woken) = oneshot::channel();
        let number = waiting.next;
        waiting.next += 1;
        let place = (key.clone(), number);
        waiting.by_key.insert(place.clone(), sender);
        Ok((Watch { watches: self.clone(), place }, woken))
    }

    /// Wakes who watches one of these keys.
    pub(crate) fn wake<'a>(&self, keys: impl Iterator<Item = &'a Bytes>) {
        let mut waiting = self.0.lock();
        if waiting.by_key.is_empty() {
            return;
        }
        for key in keys {
            while let Some(place) = waiting.first_of(key) {
                if let Some(sender) = waiting.by_key.remove(&place) {
                    let _gone = sender.send(());
                }
            }
        }
    }

    /// Wakes everybody.
    #[cfg(feature = "postgres")]
    pub(crate) fn wake_all(&self) {
        for (_, sender) in std::mem::take(&mut self.0.lock().by_key) {
            let _gone = sender.send(());
        }
    }

    /// Ends every watch with [`EngineError::Closed`].
    pub(crate) fn close(&self) {
        let mut waiting = self.0.lock();
        waiting.closed = true;
        waiting.by_key.clear();
    }
}

impl Waiting {
    fn first_of(&self, key: &Bytes) -> Option<(Bytes, u64)> {
        let (place, _) = self.by_key.range((key.clone(), 0)..).next()?;
        (place.0 == *key).then(|| place.clone())
    }
}

/// A place in the table; dropping it gives the place back.
pub(crate) struct Watch {
    watches: Watches,
    place: (Bytes, u64),
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.watches.0.lock().by_key.remove(&self.place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[test]
    fn a_dropped_watch_leaves_nothing_behind() {
        let watches = Watches::default();
        let mut watch = Box::pin(watches.clone().until(Bytes::from_static(b"k"), |_| Ok(false)));
        assert!((&mut watch).now_or_never().is_none());
        assert_eq!(watches.0.lock().by_key.len(), 1);
        drop(watch);
        assert_eq!(watches.0.lock().by_key.len(), 0);
    }

    #[test]
    fn closing_ends_every_watch() {
        let watches = Watches::default();
        let mut watch = Box::pin(watches.clone().until(Bytes::from_static(b"k"), |_| Ok(false)));
        assert!((&mut watch).now_or_never().is_none());
        watches.close();
        assert!(matches!((&mut watch).now_or_never(), Some(Err(EngineError::Closed))));
    }
}

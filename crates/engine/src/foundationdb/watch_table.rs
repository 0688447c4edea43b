//! One watch of the cluster for each key, however many of this process wait for it.
//!
//! The client of FoundationDB takes 10,000 watches. A process has more calls that wait than that, but not for more keys: a watch is shared by all
//! that wait for its key, and is given back with the last of them. Keys beyond [`ENGINE_WATCHES_MAX`](mundi_model::limits::ENGINE_WATCHES_MAX)
//! are polled.
//!
//! A change is not missed: a waiter reads its key after the watch is armed. A change before that reading is read; one after it fires the watch
//! that was armed before, and all waiters that were there when it fired are woken. A watch that has fired is taken out of the table before they
//! are woken, so that whoever comes later arms another one.

use bytes::Bytes;
use futures_channel::oneshot;
use std::collections::BTreeMap;

/// `W` is what carries a watch, and ends it when it is dropped.
pub(super) struct WatchTable<W> {
    entries: BTreeMap<Bytes, Entry<W>>,
    next: u64,
    max: usize,
}

struct Entry<W> {
    number: u64,
    waiters: usize,
    /// Tasks that wait for the watch to be armed; `None` once it is.
    arming: Option<Vec<oneshot::Sender<()>>>,
    _watch: W,
}

/// How a waiter takes part. The number is given back by [`WatchTable::leave`].
#[derive(Debug)]
pub(super) enum Joined {
    Armed(u64),
    /// Completes when the watch is armed; an error means that it could not be, and the key is polled.
    Arming(u64, oneshot::Receiver<()>),
    /// There are too many watches: the key is polled.
    Full,
}

impl<W> WatchTable<W> {
    pub(super) fn new(max: usize) -> Self {
        Self { entries: BTreeMap::new(), next: 0, max }
    }

    /// Takes part in the watch of a key, which `start` begins if there is none.
    pub(super) fn join(&mut self, key: &Bytes, start: impl FnOnce(u64) -> W) -> Joined {
        if !self.entries.contains_key(key) {
            if self.entries.len() >= self.max {
                return Joined::Full;
            }
            let number = self.next;
            self.next += 1;
            let entry = Entry { number, waiters: 0, arming: Some(Vec::new()), _watch: start(number) };
            self.entries.insert(key.clone(), entry);
        }
        let Some(entry) = self.entries.get_mut(key) else { return Joined::Full };
        entry.waiters += 1;
        match &mut entry.arming {
            None => Joined::Armed(entry.number),
            Some(waiting) => {
                let (sender, armed) = oneshot::channel();
                waiting.push(sender);
                Joined::Arming(entry.number, armed)
            }
        }
    }

    /// The watch is in place: whatever is read from now on is read after it.
    pub(super) fn armed(&mut self, key: &Bytes, number: u64) {
        let Some(entry) = self.entries.get_mut(key).filter(|entry| entry.number == number) else { return };
        for waiting in entry.arming.take().into_iter().flatten() {
            let _gone = waiting.send(());
        }
    }

    /// The watch fired, or failed, or could not be armed. Its waiters are to be woken afterwards.
    pub(super) fn ended(&mut self, key: &Bytes, number: u64) {
        if self.entries.get(key).is_some_and(|entry| entry.number == number) {
            self.entries.remove(key);
        }
    }

    /// A waiter is gone; the last one takes the watch along.
    pub(super) fn leave(&mut self, key: &Bytes, number: u64) {
        let Some(entry) = self.entries.get_mut(key).filter(|entry| entry.number == number) else { return };
        entry.waiters -= 1;
        if entry.waiters == 0 {
            self.entries.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn key(name: &'static str) -> Bytes {
        Bytes::from_static(name.as_bytes())
    }

    fn number(joined: &Joined) -> u64 {
        match joined {
            Joined::Armed(number) | Joined::Arming(number, _) => *number,
            Joined::Full => panic!("it is full"),
        }
    }

    #[test]
    fn waiters_for_one_key_share_one_watch_and_the_last_takes_it_along() {
        let (watch, mut table) = (Arc::new(()), WatchTable::new(2));
        let first = table.join(&key("k"), |_| watch.clone());
        let second = table.join(&key("k"), |_| panic!("there is one"));
        assert_eq!(Arc::strong_count(&watch), 2);
        table.leave(&key("k"), number(&first));
        assert_eq!(Arc::strong_count(&watch), 2);
        table.leave(&key("k"), number(&second));
        assert_eq!(Arc::strong_count(&watch), 1);
    }

    #[test]
    fn waiters_go_on_when_the_watch_is_armed_and_later_ones_at_once() {
        let mut table = WatchTable::new(1);
        let Joined::Arming(number, mut armed) = table.join(&key("k"), |_| ()) else { panic!("not armed yet") };
        assert_eq!(armed.try_recv(), Ok(None));
        table.armed(&key("k"), number);
        assert_eq!(armed.try_recv(), Ok(Some(())));
        assert!(matches!(table.join(&key("k"), |_| ()), Joined::Armed(_)));
    }

    #[test]
    fn who_comes_after_a_watch_has_fired_gets_another_one() {
        let mut table = WatchTable::new(1);
        let first = number(&table.join(&key("k"), |_| ()));
        table.armed(&key("k"), first);
        table.ended(&key("k"), first);
        let later = table.join(&key("k"), |_| ());
        assert!(matches!(later, Joined::Arming(..)), "it has to wait until its own is armed");
        table.leave(&key("k"), first); // the waiter of the first one must not end the second
        table.armed(&key("k"), first);
        let Joined::Arming(_, mut armed) = later else { unreachable!() };
        assert_eq!(armed.try_recv(), Ok(None));
    }

    #[test]
    fn who_waits_for_a_watch_that_cannot_be_armed_is_released() {
        let mut table = WatchTable::new(1);
        let Joined::Arming(number, mut armed) = table.join(&key("k"), |_| ()) else { panic!("not armed yet") };
        table.ended(&key("k"), number);
        assert!(armed.try_recv().is_err());
    }

    #[test]
    fn keys_beyond_the_bound_are_polled_until_there_is_room() {
        let mut table = WatchTable::new(1);
        let first = number(&table.join(&key("a"), |_| ()));
        assert!(matches!(table.join(&key("b"), |_| ()), Joined::Full));
        table.leave(&key("a"), first);
        assert!(matches!(table.join(&key("b"), |_| ()), Joined::Arming(..)));
    }
}

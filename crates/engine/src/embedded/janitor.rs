//! The janitor: background work that no commit waits for.
//!
//! One thread writes full memory tables to files, frees their log segments, merges runs in memory, keeps a spare
//! segment ready and syncs the watermark. Another merges files. Both sleep until there is work.

use super::{Shared, tree::Tree};
use crate::EngineError;
use parking_lot::{Condvar, Mutex};
use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

/// Memory tables that may wait to be written before commits wait for them: each takes more than its size in memory.
const SEALED_MEMTABLES_MAX: usize = 2;
/// Sorted runs that may pile up before commits wait: each slows every read that misses.
const UNSORTED_RUNS_MAX: usize = 32;
/// How old the synced watermark may get, and how soon after a failure the disk is tried again.
const PAUSE: Duration = Duration::from_millis(100);

pub(super) struct Janitor {
    memtable_bytes: u64,
    /// Whether the files are too far behind for another group, as of the last change of theirs. To ask the tree takes longer than all
    /// else that a group of a few commits asks for.
    lags: AtomicBool,
    state: Mutex<State>,
    /// Something to do, or an end.
    work: Condvar,
    /// Something was done.
    done: Condvar,
}

#[derive(Default)]
struct State {
    committed: bool,
    sealed: bool,
    many: bool,
    merge: bool,
    /// Space was asked for: what is in memory is written first.
    reclaim: bool,
    /// All that had been deleted then is in files, which are to be merged until its space is free.
    reclaim_files: bool,
    /// The files were merged for their space. The tree removes what they were merged from when it next takes a file in, if nobody
    /// reads a state below this number any more.
    release_at: Option<u64>,
    stopped: bool,
    /// Why the last attempt to write a memory table failed; cleared by one that succeeds.
    flush_failure: Option<EngineError>,
    /// The same for merging.
    merge_failure: Option<EngineError>,
}

impl State {
    fn is_idle(&self) -> bool {
        !self.committed && !self.sealed && !self.stopped
    }

    fn is_urgent(&self) -> bool {
        self.sealed || self.many || self.stopped
    }
}

impl Janitor {
    pub(super) fn new(memtable_bytes: u64, tree: &Tree) -> Self {
        // The last process may have left files to merge, and commits may have to wait for it.
        let state = Mutex::new(State { merge: true, ..State::default() });
        Self { memtable_bytes, lags: AtomicBool::new(lags(tree)), state, work: Condvar::new(), done: Condvar::new() }
    }

    /// A group is in memory: is there too much of it now, or are there too many?
    pub(super) fn note_group(&self, tree: &Tree) {
        let (sealed, many) = (tree.seal_if_large(self.memtable_bytes), tree.has_many());
        let mut state = self.state.lock();
        let news = sealed || many && !state.many || !state.committed;
        state.committed = true; // so the watermark is to be synced soon
        state.sealed |= sealed;
        state.many |= many;
        if sealed {
            self.lags.store(lags(tree), Ordering::Release);
        }
        drop(state);
        if news {
            self.work.notify_all();
        }
    }

    /// Asks for the space of what was deleted so far.
    pub(super) fn reclaim(&self, tree: &Tree) {
        tree.seal_if_large(1);
        let mut state = self.state.lock();
        (state.reclaim, state.sealed) = (true, true);
        self.lags.store(lags(tree), Ordering::Release);
        drop(state);
        self.work.notify_all();
    }

    pub(super) fn lags(&self) -> bool {
        self.lags.load(Ordering::Acquire)
    }

    /// Waits while the files lag too far behind. If they cannot be written at all, says why.
    pub(super) fn wait_for_room(&self, tree: &Tree) -> Result<(), EngineError> {
        let mut state = self.state.lock();
        while lags(tree) {
            if let Some(error) = state.flush_failure.as_ref().or(state.merge_failure.as_ref()) {
                return Err(error.clone());
            }
            if state.stopped {
                return Err(EngineError::Closed);
            }
            self.done.wait_for(&mut state, PAUSE);
        }
        Ok(())
    }

    pub(super) fn stop(&self) {
        self.state.lock().stopped = true;
        self.work.notify_all();
        self.done.notify_all();
    }

    /// The first thread: files, log segments, watermark.
    #[expect(clippy::disallowed_methods, reason = "an engine is at the edge; it decides how often a disk is asked")]
    pub(super) fn run(&self, shared: &Shared) {
        let mut due = None;
        loop {
            let mut state = self.state.lock();
            while state.is_idle() && state.release_at.is_none() && !shared.tree.keeps_written() {
                self.work.wait(&mut state);
            }
            // Let commits gather, unless there is something to write or to merge.
            let until = *due.get_or_insert_with(|| Instant::now() + PAUSE);
            while !state.is_urgent() && !self.work.wait_until(&mut state, until).timed_out() {}
            if state.release_at.is_some_and(|at| shared.oldest_snapshot().seqno >= at) {
                shared.tree.seal_if_large(0);
                (state.release_at, state.sealed) = (None, true);
            }
            let (stopped, sealed, many) = (state.stopped, state.sealed, std::mem::take(&mut state.many));
            let early = !sealed && !stopped && Instant::now() < until;
            if !early {
                (state.committed, state.sealed, due) = (false, false, None);
            }
            drop(state);
            if many && !sealed {
                shared.tree.merge_many(shared.oldest_snapshot().seqno);
            }
            if early {
                continue;
            }
            if let Err(error) = shared.watermark.sync() {
                tracing::warn!(%error, "syncing the watermark failed");
            }
            if stopped {
                return;
            }
            if sealed {
                let outcome = self.write_files(shared);
                self.report(&shared.tree, outcome, |state| (&mut state.sealed, &mut state.flush_failure));
            }
            shared.snapshots.publish_if_unchanged(&shared.tree);
            shared.tree.let_go(shared.oldest_snapshot().seqno);
            // The log continues without a spare, it only has to make one itself. So none is made of the room that files need.
            let room = shared.tree.require_room(4 * self.memtable_bytes);
            if room.is_ok()
                && let Err(error) = shared.log.prepare_spare()
            {
                tracing::debug!(%error, "no spare segment of the log could be made");
            }
        }
    }

    fn write_files(&self, shared: &Shared) -> Result<(), EngineError> {
        // A write that fails halfway leaves a file that is only removed when the folder is next opened.
        shared.tree.require_room(2 * self.memtable_bytes)?;
        let persisted = shared.tree.flush(shared.oldest_snapshot().seqno)?;
        let tidy = persisted.map_or(Ok(()), |persisted| shared.log.retire(persisted));
        let mut state = self.state.lock();
        state.reclaim_files |= std::mem::take(&mut state.reclaim);
        state.merge = true;
        drop(state);
        self.work.notify_all();
        // A segment that could not be retired is retired later.
        if let Err(error) = tidy {
            tracing::warn!(%error, "the log could not be cleaned up");
        }
        Ok(())
    }

    /// The second thread: merges files until they are in order.
    pub(super) fn merge(&self, shared: &Shared) {
        yield_to_commits();
        loop {
            let mut state = self.state.lock();
            while !state.merge && !state.stopped {
                self.work.wait(&mut state);
            }
            if state.stopped {
                return;
            }
            state.merge = false;
            drop(state);
            let outcome = self.merge_once(shared);
            self.report(&shared.tree, outcome, |state| (&mut state.merge, &mut state.merge_failure));
        }
    }

    fn merge_once(&self, shared: &Shared) -> Result<(), EngineError> {
        let merged = shared.tree.merged_bytes_max(self.memtable_bytes);
        shared.tree.require_room(merged.max(4 * self.memtable_bytes))?;
        let shape = shared.tree.shape();
        shared.tree.compact(shared.oldest_snapshot().seqno)?;
        let mut more = shared.tree.shape() != shape;
        // Space comes after order: commits may wait for merges, and never for this.
        let reclaims = !more && self.state.lock().reclaim_files;
        if reclaims {
            more = shared.tree.reclaim(shared.oldest_snapshot().seqno)?;
        }
        shared.snapshots.publish_if_unchanged(&shared.tree);
        let mut state = self.state.lock();
        if reclaims && !more {
            (state.reclaim_files, state.release_at) = (false, Some(shared.tree.newest().seqno));
            self.work.notify_all();
        }
        state.merge |= more;
        Ok(())
    }

    /// Says how far behind the files are now, keeps a failure for those who wait, and comes back to the work after a pause.
    fn report(
        &self,
        tree: &Tree,
        outcome: Result<(), EngineError>,
        of: impl Fn(&mut State) -> (&mut bool, &mut Option<EngineError>),
    ) {
        let mut state = self.state.lock();
        self.lags.store(lags(tree), Ordering::Release); // under the lock: who looks last has seen the last
        let (work, failure) = of(&mut state);
        *failure = outcome.err();
        let failed = failure.is_some();
        if let Some(error) = failure {
            tracing::warn!(%error, "writing files of the tree failed");
            *work = true;
        }
        self.done.notify_all();
        if failed && !state.stopped {
            self.done.wait_for(&mut state, PAUSE);
        }
    }
}

/// Whether the files are too far behind for another group.
fn lags(tree: &Tree) -> bool {
    tree.sealed_memtables() >= SEALED_MEMTABLES_MAX || tree.unsorted_runs() >= UNSORTED_RUNS_MAX
}

/// Gives this thread a smaller share of a busy processor. Merging may lag: commits wait for it before it lags too far. Writing
/// memory tables may not: what waits to be written is memory, and log segments that cannot be reused.
fn yield_to_commits() {
    const NICE: i32 = 10;
    // On Linux a process of its own for this purpose is a thread, and everybody may ask for less.
    let _as_before = rustix::process::setpriority_process(None, NICE);
}

#[cfg(test)]
mod tests {
    use super::{
        super::{
            Embedded, Options,
            log::frame::{FrameBuilder, FramePlace},
        },
        *,
    };
    use crate::{Engine, Transaction};

    #[test]
    fn commits_wait_while_memory_tables_wait_to_be_written() {
        let folder = tempfile::tempdir().unwrap();
        let tree = Tree::open(folder.path(), 1 << 20).unwrap();
        let janitor = Janitor::new(1, &tree);
        for version in 1..=SEALED_MEMTABLES_MAX as u64 {
            assert!(!janitor.lags());
            let mut frame = FrameBuilder::with_capacity(0);
            frame.write(b"key", Some(b"value"));
            tree.apply(version, &frame.finish(FramePlace { version, chain: 0, salt: 0 }).0);
            janitor.note_group(&tree);
        }
        assert!(janitor.lags());
        let flushed = |outcome| janitor.report(&tree, outcome, |state| (&mut state.sealed, &mut state.flush_failure));
        flushed(Err(EngineError::Closed));
        assert!(janitor.lags() && janitor.wait_for_room(&tree).is_err());
        tree.flush(tree.newest().seqno).unwrap();
        flushed(Ok(()));
        assert!(!janitor.lags() && janitor.wait_for_room(&tree).is_ok());
    }

    /// Nothing is written after the deletion, so that no merge would come by itself.
    #[test]
    fn the_space_of_deleted_keys_comes_back_when_it_is_asked_for() {
        let folder = tempfile::tempdir().unwrap();
        let options = Options { memtable_bytes: 1 << 20, segment_bytes: 1 << 20, ..Options::default() };
        let engine = Embedded::open_with(folder.path(), &options).unwrap();
        let key = |number: u32| [b"key".as_slice(), &number.to_be_bytes()].concat();
        // Values that no compression makes smaller.
        let value = |number: u32| {
            let mut state = u64::from(number) + 1;
            let step = |_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (state >> 56) as u8
            };
            (0..20_000).map(step).collect::<Vec<u8>>()
        };
        const KEYS: u32 = 600;
        pollster::block_on(async {
            for first in (0..KEYS).step_by(100) {
                let mut tx = engine.begin().await.unwrap();
                (first..first + 100).for_each(|number| tx.put(&key(number), value(number)).unwrap());
                tx.commit().await.unwrap();
            }
            engine.reclaim();
            let full = settled(&engine).await;
            assert!(full > u64::from(KEYS) * 20_000, "{full} bytes");
            let mut tx = engine.begin().await.unwrap();
            (0..KEYS - 10).for_each(|number| tx.delete(&key(number)).unwrap());
            tx.commit().await.unwrap();
            engine.reclaim();
            while settled(&engine).await > full / 3 {} // for ever, if it does not come back
            let mut tx = engine.begin().await.unwrap();
            for number in 0..KEYS {
                let kept = (number >= KEYS - 10).then(|| value(number));
                assert_eq!(tx.get(&key(number)).await.unwrap().map(|value| value.to_vec()), kept);
            }
        });
    }

    /// The bytes on disk, once nothing is left to do.
    async fn settled(engine: &Embedded) -> u64 {
        let shared = &engine.0.shared;
        let rests = |state: &State| {
            !state.reclaim && !state.reclaim_files && state.release_at.is_none() && !state.merge && !state.sealed
        };
        loop {
            let rests = rests(&shared.janitor.state.lock());
            if rests && shared.tree.sealed_memtables() == 0 {
                return engine.disk_bytes().await.unwrap().unwrap();
            }
            std::thread::yield_now();
        }
    }

    /// A reader held what was written to files; nothing else happens after it has gone.
    #[test]
    fn an_idle_engine_lets_go_of_what_files_answer_for() {
        let folder = tempfile::tempdir().unwrap();
        let engine = Embedded::open_with(folder.path(), &Options { memtable_bytes: 1, ..Options::default() }).unwrap();
        let shared = &engine.0.shared;
        pollster::block_on(async {
            let mut reader = engine.begin().await.unwrap();
            reader.version().await.unwrap();
            let mut writer = engine.begin().await.unwrap();
            writer.put(b"key", "value").unwrap();
            writer.commit().await.unwrap();
            while !shared.tree.keeps_written() {
                std::thread::yield_now();
            }
            std::thread::park_timeout(3 * PAUSE); // the janitor comes to rest
            assert!(shared.tree.keeps_written(), "the reader's state is not in files");
        });
        while shared.tree.keeps_written() {
            std::thread::yield_now(); // for ever, if the janitor sleeps
        }
    }
}

//! The turn, the unit of progress: read, execute, commit in one fenced transaction, answer.

use super::{
    WorldHost,
    commit::{NotCommitted, Prepared, prepare},
    execute::{Execution, fetch_payloads},
    failures, is_pool, logs,
    pending::Pending,
    pool_results::pool_results,
};
use crate::{
    Plane, RuntimeError,
    delivery::local::Taken,
    metrics::{Metric, Metrics, Times, Timing},
    trace::TraceContext,
};
use mundi_kernel::turn::{TurnBudget, TurnOutput};
use mundi_model::{
    Height, InboxSeq, limits,
    record::{Held, Reply},
};
use mundi_store::{
    keyspace::{journal_head::JournalHead, notify::Seen},
    protocol::{
        Ahead, CommitCursor, Consumed, InboxEnd, PeekInbox, ReadAhead, ReadTurn, TurnCommitted, TurnInput, TurnItem,
    },
};
use std::pin::pin;
use tracing::{Instrument, field::Empty};

/// The budget of a world before another one gets its turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CycleBudget {
    /// Inbox items of one turn.
    pub items_max: usize,
    /// Host calls of all steps of one turn.
    pub steps_max: u64,
    /// Effects and timers that one turn publishes.
    pub effects_max: usize,
    /// How long a cycle of several turns may take. What the journal says never depends on it.
    pub wall_ms_max: u64,
}

impl Default for CycleBudget {
    fn default() -> Self {
        Self { items_max: 1_024, steps_max: limits::STEP_CALLS_MAX, effects_max: 1_024, wall_ms_max: 50 }
    }
}

impl CycleBudget {
    /// A turn's records must fit one append, together with what the step that crosses the line still adds.
    const RECORDS_MAX: usize = limits::BATCH_RECORDS_MAX / 2;

    pub(super) fn of_turn(&self) -> TurnBudget {
        TurnBudget {
            records_max: Self::RECORDS_MAX,
            calls_max: self.steps_max,
            effects_max: self.effects_max,
            ..TurnBudget::default()
        }
    }
}
const _: () =
    assert!(CycleBudget::RECORDS_MAX as u64 + limits::STEP_OUTPUTS_MAX + 2 <= limits::BATCH_RECORDS_MAX as u64);

/// The result of a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// There is nothing that the world could take.
    Idle,
    Moved {
        /// How many inbox items are behind the cursor now.
        items: usize,
        records: usize,
        /// Replies that the turn made durable, for callers that wait in this process.
        replies: Vec<Reply>,
        /// There is more to do.
        more: bool,
        /// How long the items had waited.
        waited: Waited,
    },
}

/// How long items waited in an inbox, as far as their senders said when they sent them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Waited {
    pub ns: u64,
    pub ns_max: u64,
}

impl Waited {
    fn of(taken: &[Pending], now_ns: u64, metrics: Option<&Metrics>) -> Self {
        let sent = taken.iter().map(|pending| pending.item.item.origin.enqueued_at_ns).filter(|sent_ns| *sent_ns > 0);
        let each = sent.map(|sent_ns| now_ns.saturating_sub(sent_ns));
        if let Some(metrics) = metrics {
            let mut times = Times::default();
            each.clone().for_each(|waited_ns| times.add(waited_ns / 1_000));
            metrics.observe(Timing::InboxToJournal, &times);
        }
        each.fold(Self::default(), |sum, ns| sum.and(Self { ns, ns_max: ns }))
    }

    fn and(self, other: Self) -> Self {
        Self { ns: self.ns.saturating_add(other.ns), ns_max: self.ns_max.max(other.ns_max) }
    }
}

/// The state that a turn starts from.
pub(super) struct Input {
    /// In the order of the inbox; those that bypass it come last.
    pub(super) pending: Vec<Pending>,
    /// Commands behind what waits, for a world that is paused or whose turns failed.
    ahead: Vec<TurnItem>,
    pub(super) cursor: Option<InboxSeq>,
    pub(super) end: Option<InboxEnd>,
    notify: Seen,
    /// Whether the inbox was read; if not, the commit checks that nothing was enqueued.
    pub(super) is_read: bool,
    /// Why turns of the world failed: this one takes nothing but commands.
    held: Option<Held>,
}

/// The result of an attempt at a turn.
enum Attempt {
    Done(Progress),
    /// Nothing happened, and another attempt with this budget goes differently.
    Again(CycleBudget),
}

impl<P: Plane> WorldHost<P> {
    /// One turn, in a span of its own. After an error the host must be dropped: what the journal says is not known any more.
    pub async fn turn(&mut self, budget: &CycleBudget) -> Result<Progress, RuntimeError> {
        let (world, head) = (self.fence.world, self.head());
        let span = tracing::info_span!("turn", %world, name = self.name(), %head, trace = Empty);
        let attempts = pin!(async {
            let mut budget = *budget;
            loop {
                match self.attempt(&budget).await? {
                    Attempt::Done(progress) => return Ok(progress),
                    Attempt::Again(again) => budget = again,
                }
            }
        });
        attempts.instrument(span).await // pinned: to instrument it would move it otherwise
    }

    /// Read, execute, commit, answer. What not every turn needs is a future in a box, so that this one, which is made for every turn,
    /// stays small.
    async fn attempt(&mut self, budget: &CycleBudget) -> Result<Attempt, RuntimeError> {
        let Some(mut input) = self.read(budget.items_max).await? else { return Ok(Attempt::Again(*budget)) };
        if input.pending.is_empty() {
            return Ok(Attempt::Done(self.rest(input)));
        }
        let Self { plane, fence, world, at_hand, recording, slots, log_page, .. } = self;
        let items = input.pending.iter().map(|pending| &pending.item).chain(&input.ahead);
        let was_paused = world.is_paused();
        let mut execution = Execution::new(plane, world, items, budget);
        let payloads = execution.payloads_to_fetch(world, at_hand, input.held.is_some());
        if !payloads.is_empty() {
            Box::pin(fetch_payloads(plane, fence.universe, at_hand, payloads)).await?;
        }
        let mut turn = loop {
            let held = input.held.clone();
            let stopped = match world.turn_or_hold(at_hand, &execution.arrivals, execution.budget, held) {
                Ok(turn) => break turn,
                Err(stopped) => stopped,
            };
            Box::pin(execution.supply(plane, *fence, (world, at_hand), stopped)).await?;
        };
        if turn.held_at().is_some_and(|seq| seq.is_direct()) {
            // What a world is held at must wait in the inbox: all items that bypassed it go there, and are tried again.
            drop((turn, input));
            self.local.clear();
            return Ok(Attempt::Again(*budget));
        }
        let consumed = turn.output().consumed;
        // A paused world that took a command looks for the next one until it finds none: a turn looks at one page of them.
        let more = turn.is_paused() || input.end.is_none() || consumed < input.pending.len();
        if turn.output().records.is_empty() {
            turn.keep();
            return Box::pin(self.pass(input, consumed, more)).await.map(Attempt::Done);
        }
        let prepared =
            prepare((&*plane, *fence), recording, log_page.as_ref(), slots, (&input, was_paused, more), &mut turn)
                .await;
        let mut prepared = match prepared {
            // What comes before the difference is taken all the same: once more, item by item.
            Err(RuntimeError::ForkDiverged(_)) if consumed > 1 => {
                drop(turn);
                self.keep_waiting(input.pending);
                return Ok(Attempt::Again(CycleBudget { items_max: 1, ..*budget }));
            }
            prepared => prepared?,
        };
        match prepared.commit(plane, &mut input.pending[..consumed]).await {
            Ok(committed) => {
                let output = turn.keep();
                Ok(Attempt::Done(self.answer(input, prepared, output, (&committed, more))))
            }
            Err(NotCommitted::Failed(error)) => Err(error),
            Err(NotCommitted::Again(refusal)) => {
                drop(turn); // the world is as it was
                input.pending.retain(|pending| !refusal.leaves_out(pending));
                self.keep_waiting(input.pending);
                Ok(Attempt::Again(*budget))
            }
        }
    }

    /// The input of the turn: the items in the inbox and, if those are all, the items that wait in memory. `None` if a world whose turns failed
    /// has no command to take first: then it must be read again, because the look for commands leaves items out.
    async fn read(&mut self, items_max: usize) -> Result<Option<Input>, RuntimeError> {
        let (mut input, is_read) = self.read_inbox(items_max).await?;
        let held = self.failed.take().filter(|_| !self.world.is_paused());
        let mut ahead = Vec::new();
        if self.world.is_paused() {
            self.local.clear(); // it takes no event: the inbox keeps those
        }
        if (self.world.is_paused() || held.is_some()) && input.end.is_none() {
            ahead = Box::pin(self.look_ahead(&mut input, items_max)).await?;
        }
        let mut seen = input.items.iter().chain(&ahead);
        if held.is_some() && !seen.any(|item| self.world.takes_ahead(item.seq, &item.item)) {
            return Ok(None);
        }
        let TurnInput { cursor, items, end, notify, .. } = input;
        let mut pending: Vec<_> = items.into_iter().map(Pending::from_inbox).collect();
        if let Some(end) = end.as_ref().filter(|_| held.is_none()) {
            self.append_local(&mut pending, end, items_max);
        }
        Ok(Some(Input { pending, ahead, cursor, end, notify, is_read, held }))
    }

    /// Appends what waits in memory to what was read from the inbox, which was all of it.
    fn append_local(&mut self, pending: &mut Vec<Pending>, end: &InboxEnd, items_max: usize) {
        // A receipt that the world does not wait for any more: its sender is notified that no turn takes it.
        let Self { local, world, .. } = self;
        local.retain(|item| item.ticket.awaits.answers().is_none_or(|answered| world.waits_for(answered.claim.intent)));
        let room = items_max.saturating_sub(pending.len()).min(local.len());
        pending.extend((0u16..).zip(local.drain(..room)).map(|(index, item)| Pending::behind(end, index, item)));
    }

    /// Items that waited in memory and were not taken are the first ones of the next turn.
    fn keep_waiting(&mut self, pending: Vec<Pending>) {
        pending.into_iter().rev().filter_map(Pending::into_local).for_each(|item| self.local.push_front(item));
    }

    /// There is nothing to take.
    fn rest(&mut self, input: Input) -> Progress {
        self.idle_at = Some(input.notify);
        self.drained = input.end.and_then(|end| end.after(input.cursor));
        Progress::Idle
    }

    /// The turn found nothing but commands that were taken ahead: they are journaled, and only the cursor moves.
    async fn pass(&mut self, input: Input, items: usize, more: bool) -> Result<Progress, RuntimeError> {
        let Some(consumed) = Consumed::of(input.pending[..items].iter().map(|pending| &pending.item), None) else {
            self.idle_at = Some(input.notify);
            return Ok(Progress::Idle);
        };
        let (fence, old, new) = (self.fence, input.cursor, consumed.through());
        self.plane.run(&CommitCursor { fence, old, new }).await?;
        Ok(Progress::Moved { items, records: 0, replies: Vec::new(), more, waited: Waited::default() })
    }

    /// The turn is durable: memory follows, and the senders of its items are told.
    fn answer(
        &mut self,
        Input { mut pending, end, .. }: Input,
        prepared: Prepared,
        mut output: TurnOutput,
        (committed, more): (&TurnCommitted, bool),
    ) -> Progress {
        let Prepared { mut commit, failed, records, bytes, .. } = prepared;
        let now_ns = self.plane.now_ns();
        if !failed.is_empty() {
            failures::tell(
                (self.fence.world, self.name()),
                self.manifest().manifest.program,
                &failed,
                self.metrics.as_deref(),
            );
        }
        if let Some(page) = commit.logs.pop() {
            self.log_page = Some(page);
            logs::say((self.fence.world, self.name()), &output.logs);
        }
        self.tail.grow(records as u64, bytes, now_ns);
        self.at_hand.trim();
        self.drained = end.and_then(|end| end.after(committed.cursor));
        self.callers.extend(&committed.callers);
        if let Some(metrics) = self.metrics.as_ref().filter(|_| !commit.receipts.is_empty()) {
            metrics.add(Metric::EffectsSuppressed, commit.receipts.len() as u64);
        }
        if let Some(metrics) = self.metrics.as_ref().filter(|_| is_pool(self.manifest())) {
            pool_results(commit.records.replies().iter().map(|(_, reply)| &reply.outcome), metrics);
        }
        if output.consumed < pending.len() {
            self.keep_waiting(pending.split_off(output.consumed));
        }
        note_traces(&pending);
        let waited = Waited::of(&pending, now_ns, self.metrics.as_deref());
        acknowledge(pending, commit.records.replies(), &mut output.replies);
        let more = more || !self.local.is_empty();
        Progress::Moved { items: output.consumed, records, replies: output.replies, more, waited }
    }

    /// Turns until there is no work or the budget is spent; `replies` learns of each turn's answers. Items that wait in memory and
    /// that none of them took go back to their senders: nobody waits for a world that rests.
    pub async fn cycle(
        &mut self,
        budget: &CycleBudget,
        mut replies: impl FnMut(Vec<Reply>) + Send,
    ) -> Result<Cycled, RuntimeError> {
        let started_ns = self.plane.now_ns();
        let mut cycled = Cycled::default();
        loop {
            let Progress::Moved { items, records, replies: answers, more, waited } = self.turn(budget).await? else {
                cycled.more = false;
                self.local.clear();
                return Ok(cycled);
            };
            replies(answers);
            cycled.turns += 1;
            cycled.items += items;
            cycled.records += records;
            cycled.waited = cycled.waited.and(waited);
            cycled.more = more;
            let spent_ns = || self.plane.now_ns().saturating_sub(started_ns);
            if !more || spent_ns() >= budget.wall_ms_max.saturating_mul(1_000_000) {
                self.local.clear();
                return Ok(cycled);
            }
        }
    }

    /// The state that the turn starts from. If nothing was enqueued since the inbox was drained, one key says so; head and cursor are as
    /// this host left them, or the commit will find out. For items that wait in memory the value of that key in the engine's cache is
    /// enough: then the inbox is not read (`false`), and the commit checks the key again. (A world that was woken without such an item must
    /// read the inbox: the item that it was woken for may be newer than the cache.)
    async fn read_inbox(&mut self, items_max: usize) -> Result<(TurnInput, bool), RuntimeError> {
        let (fence, bytes_max) = (self.fence, limits::TURN_BYTES_MAX);
        let mut cursor_seen = None;
        if let Some(drained) = self.drained.take() {
            let peek = PeekInbox { universe: fence.universe, world: fence.world };
            let head = JournalHead { height: self.world.head(), chain: self.world.chain() };
            let unread = |end: InboxEnd, notify| {
                let (cursor, items) = (end.last(), Vec::new());
                TurnInput { head, cursor, items, end: Some(end), notify }
            };
            if !self.local.is_empty()
                && self.world.recording().is_none()
                && let Ok(Some(cached)) = peek.run_cached(self.plane.engine()).await
                && cached.version > drained.version()
                && let Some(end) = drained.at(&cached)
            {
                return Ok((unread(end, cached.notify), false));
            }
            // Where nobody answers, the read of the whole says so.
            if let Ok(peeked) = peek.run(self.plane.engine()).await
                && let Some(end) = drained.at(&peeked)
            {
                return Ok((unread(end, peeked.notify), true));
            }
            cursor_seen = drained.last();
        }
        let input = Box::pin(self.plane.run(&ReadTurn { fence, cursor_seen, items_max, bytes_max })).await?.output;
        self.check_head(&input)?;
        Ok((input, true))
    }

    fn check_head(&self, input: &TurnInput) -> Result<(), RuntimeError> {
        if (input.head.height, input.head.chain) == (self.world.head(), self.world.chain()) {
            return Ok(());
        }
        let (journal, memory) = (input.head.height, self.world.head());
        Err(RuntimeError::MemoryStale { world: self.fence.world, journal, memory })
    }

    /// A paused world takes only control commands: they are looked for beyond the items that wait, and the first page of them
    /// is returned. Those that it has taken ahead stay where they are until their turn comes, and must not hide the ones behind
    /// them. What was read here says nothing about the inbox' end: the turn leaves out what lies between.
    async fn look_ahead(&mut self, input: &mut TurnInput, items_max: usize) -> Result<Vec<TurnItem>, RuntimeError> {
        if input.items.first().is_some_and(|item| !self.world.expects(item.seq)) {
            return Ok(Vec::new()); // on record already: the cursor passes it first, so that nothing that waits is passed with it
        }
        if input.items.iter().any(|item| self.world.takes_ahead(item.seq, &item.item)) {
            return Ok(Vec::new());
        }
        let mut last = input.items.last().map(|item| item.seq);
        // One item that waits is enough to tell the kernel that the commands come out of order.
        input.items.truncate(1);
        while let Some(after) = last {
            let ahead = ReadAhead { fence: self.fence, after, items_max, bytes_max: limits::TURN_BYTES_MAX };
            let Ahead { mut items, more } = self.plane.run(&ahead).await?.output;
            last = items.last().map(|item| item.seq).filter(|_| more);
            items.retain(|item| self.world.takes_ahead(item.seq, &item.item));
            if !items.is_empty() {
                return Ok(items);
            }
        }
        Ok(Vec::new())
    }
}

/// The result of a cycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cycled {
    pub turns: u64,
    pub items: usize,
    pub records: usize,
    pub more: bool,
    pub waited: Waited,
}

/// Tells the senders that wait for an item that it is journaled, with the reply if the turn gave one. `replies` keeps those for others.
fn acknowledge(mut taken: Vec<Pending>, given: &[(Height, Reply)], replies: &mut Vec<Reply>) {
    if taken.iter().all(|pending| pending.ticket.is_none()) {
        return;
    }
    let at = |taken: &[Pending], to: &InboxSeq| taken.binary_search_by_key(to, Pending::seq).ok();
    replies.retain(|reply| at(&taken, &reply.to).is_none_or(|index| taken[index].ticket.is_none()));
    for (height, Reply { to, outcome }) in given {
        if let Some(ticket) = at(&taken, to).and_then(|index| taken[index].ticket.take()) {
            ticket.taken(Taken { seq: *to, reply: Some((*height, outcome.clone())) });
        }
    }
    for Pending { item, ticket } in taken {
        ticket.into_iter().for_each(|ticket| ticket.taken(Taken { seq: item.seq, reply: None }));
    }
}

/// A turn is told in the trace of every item that it took. As a span it can be part of one only: the first that is recorded.
fn note_traces(taken: &[Pending]) {
    if !tracing::enabled!(tracing::Level::DEBUG) {
        return;
    }
    let traces = || taken.iter().filter_map(|pending| pending.item.item.origin.trace.as_deref());
    let recorded = |trace: &&str| trace.parse::<TraceContext>().is_ok_and(|context| context.is_sampled());
    tracing::Span::current().record("trace", traces().find(recorded).or_else(|| traces().next()));
    for Pending { item, .. } in taken {
        tracing::debug!(seq = %item.seq, trace = item.item.origin.trace, "taken in");
    }
}

//! The turn, the unit of progress: read, run the kernel, commit in one fenced transaction, keep.

use super::{
    WorldHost,
    failures::{self, FailedStep},
    logs,
};
use crate::{
    Plane, RuntimeError,
    delivery::local::{Direct, Taken, Ticket},
    effects::dispatch::{self, Announced, Decided},
    effects::slots::{Employed, Reserved},
    error::NamesMissing,
    metrics::{Metric, Metrics, Times, Timing},
    objects::{AtHand, Patience, fetch},
    trace::TraceContext,
};
use mundi_kernel::{
    World,
    turn::{Arrival, Arrived, Turn, TurnBudget, TurnError, TurnOutput},
};
use mundi_model::{
    Code, Hash, Height, cbor, limits,
    mutants::{Mutant, planted},
    record::{InboxItem, Input, Payload, Reply, Sealed},
};
use mundi_store::{
    Fence, Refused, StoreError,
    blob::Blobs,
    journal::Batch,
    keyspace::{effect_pending::EffectItem, journal_head::JournalHead},
    protocol::{
        Ahead, CommitCursor, CommitTurn, CommitUnread, Consumed, EffectError, InHands, InboxEnd, InboxError, PeekInbox,
        ReadAhead, ReadTurn, TurnInput, TurnItem,
    },
    run_or_tell,
};
use std::pin::pin;
use tracing::{Instrument, field::Empty};

/// What a world may do before another one gets its turn.
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

    fn of_turn(&self) -> TurnBudget {
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

/// What came of a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// There is nothing that the world could take.
    Idle,
    Moved {
        /// How many inbox items are behind the cursor now.
        items: usize,
        records: usize,
        /// Answers that the turn made durable, for those who wait in this process.
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
    fn of(items: &[TurnItem], now_ns: u64, metrics: Option<&Metrics>) -> Self {
        let sent = items.iter().map(|item| item.item.origin.enqueued_at_ns).filter(|sent_ns| *sent_ns > 0);
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

impl<P: Plane> WorldHost<P> {
    /// One turn, in a span of its own. After an error the host must be dropped: what the journal says is not known any more.
    pub async fn turn(&mut self, budget: &CycleBudget) -> Result<Progress, RuntimeError> {
        let (world, head) = (self.fence.world, self.head());
        let span = tracing::info_span!("turn", %world, %head, trace = Empty);
        pin!(self.take_turn(budget)).instrument(span).await // pinned: to instrument it would move it otherwise
    }

    /// What not every turn needs is a future in a box, so that this one, which is made for every turn, stays small.
    async fn take_turn(&mut self, budget: &CycleBudget) -> Result<Progress, RuntimeError> {
        let items_max = budget.items_max;
        let (mut input, is_read) = self.read(items_max).await?;
        let held = self.failed.take().filter(|_| !self.world.is_paused());
        let mut ahead = Vec::new();
        if self.world.is_paused() {
            self.direct.clear(); // it takes no event: the inbox keeps those
        }
        if (self.world.is_paused() || held.is_some()) && input.end.is_none() {
            ahead = Box::pin(self.look_ahead(&mut input, items_max)).await?;
        }
        let mut seen = input.items.iter().chain(&ahead);
        if held.is_some() && !seen.any(|item| self.world.takes_ahead(item.seq, &item.item)) {
            return Box::pin(self.take_turn(budget)).await; // there is none, and the look ahead has left items out
        }
        let waiting = input.items.len();
        let mut tickets = if held.is_none() { self.take_direct(&mut input, items_max) } else { Vec::new() };
        if input.items.is_empty() {
            self.idle_at = Some(input.notify);
            self.drained = input.end.and_then(|end| end.after(input.cursor));
            return Ok(Progress::Idle);
        }
        let mut arrivals = self.arrivals(input.items.iter().chain(&ahead));
        let Self { plane, fence, world, at_hand, recording, hands, log_page, .. } = self;
        let (whole, mut budget) = (budget, budget.of_turn());
        if world.recording().is_some() {
            budget.effects_max = budget.effects_max.min(limits::RECORDING_TURN_INTENTS_MAX);
        }
        let mut patience = Patience::default();
        let mut turn = loop {
            let stopped = match world.turn_or_hold(at_hand, &arrivals, budget, held.clone()) {
                Ok(turn) => break turn,
                Err(stopped) => stopped,
            };
            if stopped.missing().is_none() {
                Box::pin(patience.wait(plane, stopped.into())).await?;
                continue;
            }
            Box::pin(supply(plane, *fence, (world, at_hand), &mut arrivals, budget, stopped)).await?;
        };
        if turn.held_at().is_some_and(|seq| seq.is_direct()) {
            // What a world is held at must wait in the inbox: all that was handed to it goes there, and is tried again.
            drop((turn, tickets));
            self.direct.clear();
            return Box::pin(self.take_turn(whole)).await;
        }
        // A paused world that took a command looks for the next one until it finds none: a turn looks at one page of them.
        let more = turn.is_paused() || input.end.is_none() || turn.output().consumed < input.items.len();
        let direct = turn.output().consumed.saturating_sub(waiting);
        if turn.output().records.is_empty() {
            // Nothing but commands that were taken ahead: they are on record, and only the cursor moves.
            let items = turn.keep().consumed;
            let Some(consumed) = Consumed::of(&input.items[..items], None) else {
                self.idle_at = Some(input.notify);
                return Ok(Progress::Idle);
            };
            let (old, new) = (input.cursor, consumed.through());
            Box::pin(plane.run(&CommitCursor { fence: *fence, old, new })).await?;
            return Ok(Progress::Moved { items, records: 0, replies: Vec::new(), more, waited: Waited::default() });
        }
        if !turn.output().objects.is_empty() {
            Box::pin(store_objects(plane, *fence, turn.output())).await?;
        }
        let decided = match Decided::unbound(turn.recording()) {
            Ok(decided) => Ok(decided),
            Err(bound) => {
                let policy = (bound, turn.confined());
                Box::pin(dispatch::decide(plane, *fence, recording, policy, turn.output())).await
            }
        };
        let decided = match decided {
            // What comes before the difference is taken all the same: once more, item by item.
            Err(RuntimeError::ForkDiverged(_)) if turn.output().consumed > 1 => {
                drop(turn);
                self.wait_on(input.items.split_off(waiting).into_iter().zip(tickets).collect());
                return Box::pin(self.take_turn(&CycleBudget { items_max: 1, ..*whole })).await;
            }
            decided => decided?,
        };
        if let Some(intent) = decided.ended_by {
            tracing::info!(world = %fence.world, %intent, "a fork goes its own way");
            turn.end_recording(intent);
        }
        let logs = match turn.output().logs.as_slice() {
            [] => Vec::new(),
            lines => Box::pin(logs::pages(plane, *fence, log_page.clone(), lines)).await?,
        };
        let records = turn.take_records();
        let failed = FailedStep::all(&records);
        let (count, bytes) = (records.len(), records.iter().map(|record| record.len() as u64).sum());
        let mut commit = commit(plane, *fence, &input, (&turn, records), decided, more)?;
        commit.logs = logs;
        let reserved = reserve(plane, hands, &commit);
        commit.in_hands.claims = reserved.iter().map(|reserved| reserved.as_ref().map(Reserved::claim)).collect();
        commit.in_hands.answered = tickets[..direct].iter().filter_map(Ticket::answers).collect();
        let handed = input.items[waiting..].iter().zip(&tickets[..direct]);
        commit.in_hands.calls = handed.filter(|(_, ticket)| ticket.is_call()).map(|(item, _)| item.seq).collect();
        let apart = if planted(Mutant::TurnSplit) { commit.consumed.take() } else { None };
        tickets[..direct].iter_mut().for_each(|ticket| ticket.set_tried(true));
        let (engine, clock) = (plane.engine(), &**plane.clock());
        let committed = match input.end.as_ref().filter(|_| !is_read) {
            None => run_or_tell(engine, clock, &commit).await,
            Some(end) => run_or_tell(engine, clock, &CommitUnread { turn: &commit, end }).await,
        };
        let committed = match committed {
            Ok(committed) => committed,
            Err(Refused { error, perhaps_applied }) => {
                tickets[..direct].iter_mut().for_each(|ticket| ticket.set_tried(perhaps_applied));
                if perhaps_applied {
                    leave_in_doubt(reserved, &commit.effects);
                    return Err(error.into());
                }
                let Some(refusal) = Refusal::of(&error) else { return Err(error.into()) };
                drop((turn, reserved)); // the world is as it was
                let direct = input.items.split_off(waiting).into_iter().zip(tickets);
                self.wait_on(direct.filter(|(_, ticket)| !refusal.leaves_out(ticket)).collect());
                return Box::pin(self.take_turn(whole)).await; // with what was enqueued, or without what was not held
            }
        };
        match committed.stamp {
            Some(stamp) => {
                for (index, (item, hand)) in (0u16..).zip(commit.effects.into_iter().zip(reserved)) {
                    if let Some(hand) = hand.filter(|_| committed.output.claimed.binary_search(&index).is_ok()) {
                        hand.give(fence.universe, (stamp, index), item);
                    }
                }
            }
            None => leave_in_doubt(reserved, &commit.effects), // an earlier try was applied, and its place is not known
        }
        if let Some(apart) = apart {
            let (old, new) = (commit.cursor, apart.through());
            Box::pin(plane.run(&CommitCursor { fence: *fence, old, new })).await?;
        }
        let (mut output, now_ns) = (turn.keep(), self.plane.now_ns());
        if !failed.is_empty() {
            failures::tell(fence.world, self.world.manifest().manifest.program, &failed, self.metrics.as_deref());
        }
        if let Some(page) = commit.logs.pop() {
            self.log_page = Some(page);
            logs::say(self.fence.world, &output.logs);
        }
        self.tail.grow(count as u64, bytes, now_ns);
        self.at_hand.trim();
        let (items, records) = (output.consumed, count);
        let cursor = committed.output.cursor;
        self.drained = input.end.and_then(|end| end.after(cursor));
        let taken = &input.items[..items];
        note_traces(taken);
        if let Some(metrics) = self.metrics.as_ref().filter(|_| !commit.receipts.is_empty()) {
            metrics.add(Metric::EffectsKeptInside, commit.receipts.len() as u64);
        }
        let waited = Waited::of(taken, now_ns, self.metrics.as_deref());
        if !tickets.is_empty() {
            let (given, others) = (commit.records.replies(), &mut output.replies);
            self.answer_direct(input.items.split_off(waiting), tickets, direct, given, others);
        }
        let more = more || !self.direct.is_empty();
        Ok(Progress::Moved { items, records, replies: output.replies, more, waited })
    }

    /// Turns until there is nothing to do or the budget is spent; `replies` hears of each turn's answers. What was handed to it and
    /// taken by none of them goes through the inbox: nobody waits for a world that rests.
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
                self.direct.clear();
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
                self.direct.clear();
                return Ok(cycled);
            }
        }
    }

    /// Appends what waits in memory to what was read from the inbox, if that was all of it.
    fn take_direct(&mut self, input: &mut TurnInput, items_max: usize) -> Vec<Ticket> {
        let Some(end) = &input.end else { return Vec::new() };
        // A receipt that the world does not wait for any more: who brought it hears that no turn takes it.
        let Self { direct, world, .. } = self;
        direct.retain(|Direct { ticket, .. }| {
            ticket.answers().is_none_or(|answered| world.waits_for(answered.claim.intent))
        });
        let room = items_max.saturating_sub(input.items.len()).min(self.direct.len());
        let direct = self.direct.drain(..room);
        let place = |(index, Direct { item, ticket })| {
            input.items.push(end.direct(index, item));
            ticket
        };
        (0u16..).zip(direct).map(place).collect()
    }

    /// Items that the turn did not take are the first ones of the next.
    fn wait_on(&mut self, items: Vec<(TurnItem, Ticket)>) {
        let items = items.into_iter().rev();
        items.for_each(|(TurnItem { item, .. }, ticket)| self.direct.push_front(Direct { item, ticket }));
    }

    /// Tells those whose items were taken, with the reply if there is one on record; the others wait on, and have `others`.
    fn answer_direct(
        &mut self,
        items: Vec<TurnItem>,
        tickets: Vec<Ticket>,
        taken: usize,
        given: &[(Height, Reply)],
        others: &mut Vec<Reply>,
    ) {
        let mut direct: Vec<_> = items.into_iter().zip(tickets).collect();
        self.wait_on(direct.split_off(taken));
        let mut waiting: Vec<_> = direct.into_iter().map(|(item, ticket)| (item.seq, Some(ticket))).collect(); // in order
        others.retain(|reply| waiting.binary_search_by_key(&reply.to, |(seq, _)| *seq).is_err());
        for (height, Reply { to, outcome }) in given {
            let place = waiting.binary_search_by_key(to, |(seq, _)| *seq);
            if let Some(ticket) = place.ok().and_then(|place| waiting[place].1.take()) {
                ticket.taken(Taken { seq: *to, reply: Some((*height, outcome.clone())) });
            }
        }
        for (seq, ticket) in waiting {
            ticket.into_iter().for_each(|ticket| ticket.taken(Taken { seq, reply: None }));
        }
    }

    /// What the turn starts from. If nothing was enqueued since the inbox was drained, one key says so; head and cursor are what
    /// this host has made them, or the commit will find out. For items that wait in memory it is enough if the process remembers
    /// that key: then the inbox is not read, and the commit asks again. (Who was woken without such an item must look: what it was
    /// woken for may be newer than what is remembered.)
    async fn read(&mut self, items_max: usize) -> Result<(TurnInput, bool), RuntimeError> {
        let (fence, bytes_max) = (self.fence, limits::TURN_BYTES_MAX);
        let mut cursor_seen = None;
        if let Some(drained) = self.drained.take() {
            let peek = PeekInbox { universe: fence.universe, world: fence.world };
            let head = JournalHead { height: self.world.head(), chain: self.world.chain() };
            let unread = |end: InboxEnd, notify| {
                let (cursor, items) = (end.last(), Vec::new());
                TurnInput { head, cursor, items, end: Some(end), notify }
            };
            if !self.direct.is_empty()
                && self.world.recording().is_none()
                && let Some(recalled) = peek.recall(self.plane.engine())
                && recalled.version > drained.version()
                && let Some(end) = drained.at(&recalled)
            {
                return Ok((unread(end, recalled.notify), false));
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

    fn arrivals<'a>(&self, items: impl Iterator<Item = &'a TurnItem>) -> Vec<Arrival> {
        let now_ns = self.plane.now_ns();
        let arrival = |item: &TurnItem| Arrival {
            seq: item.seq,
            item: Arrived::Item(item.item.clone()),
            now_ns,
            entropy: self.plane.random(),
        };
        items.map(arrival).collect()
    }
}

/// What a cycle did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cycled {
    pub turns: u64,
    pub items: usize,
    pub records: usize,
    pub more: bool,
    pub waited: Waited,
}

/// Brings the object to hand that a turn stopped for. An item that refers to what does not exist is marked as unusable.
async fn supply<P: Plane>(
    plane: &P,
    fence: Fence,
    (world, at_hand): (&mut World, &mut AtHand),
    arrivals: &mut [Arrival],
    budget: TurnBudget,
    stopped: TurnError,
) -> Result<(), RuntimeError> {
    let Some(hash) = stopped.missing() else { return Err(stopped.into()) };
    if fetch(plane, fence.universe, at_hand, hash).await? {
        return Ok(());
    }
    let Some(place) = culprit(world, at_hand, arrivals, budget, hash) else {
        return Err(RuntimeError::ObjectLost { world: fence.world, hash });
    };
    arrivals[place].item = unusable(&arrivals[place].item, hash);
    Ok(())
}

/// The item that cannot be taken because it, and not the world, refers to a missing object.
fn culprit(world: &mut World, at_hand: &AtHand, arrivals: &[Arrival], budget: TurnBudget, hash: Hash) -> Option<usize> {
    let mut stops =
        |items: &[Arrival]| world.turn(at_hand, items, budget).err().and_then(|error| error.missing()) == Some(hash);
    let place = (0..arrivals.len()).find(|place| stops(&arrivals[..=*place]))?;
    match &arrivals[place].item {
        Arrived::Item(item) if refers_to(item, hash) => Some(place),
        _ => None,
    }
}

/// Whether it is the item that names the object. A command may name it through a manifest, which only the
/// kernel reads, so commands are always suspected.
fn refers_to(item: &InboxItem, hash: Hash) -> bool {
    let payload = match &item.input {
        Input::Control { .. } => return true,
        Input::Event { value: payload, .. } | Input::Message { payload, .. } | Input::TimerFired { payload, .. } => {
            payload
        }
        Input::Receipt(receipt) => &receipt.payload,
    };
    matches!(payload, Payload::Blob(named, _) if *named == hash)
}

fn unusable(arrived: &Arrived, missing: Hash) -> Arrived {
    let item = match arrived {
        Arrived::Item(item) => Hash::of(&cbor::encode(&**item)),
        Arrived::Unusable { item, .. } => *item,
    };
    let reason = format!("it refers to {missing}, which is not in the content store");
    Arrived::Unusable { item, code: Code::ObjectMissing, reason }
}

/// What the records refer to is stored before they are.
async fn store_objects<P: Plane>(plane: &P, fence: Fence, output: &TurnOutput) -> Result<(), RuntimeError> {
    for (_, bytes) in &output.objects {
        plane.blobs().put(fence.universe, bytes::Bytes::from_owner(bytes.clone()), &[]).await?;
    }
    Ok(())
}

fn commit<P: Plane>(
    plane: &P,
    fence: Fence,
    input: &TurnInput,
    (turn, records): (&Turn<'_>, Vec<Sealed>),
    decided: Decided,
    more: bool,
) -> Result<CommitTurn, RuntimeError> {
    let output = turn.output();
    let traces = Announced::of(&records);
    let now_ns = plane.now_ns();
    let (effects, receipts) = decided.split(fence, &output.publish, &traces, now_ns);
    let timers = output.timers.iter().filter_map(|timer| traces.timer(fence, timer, now_ns)).collect();
    let taken = if planted(Mutant::CursorEarly) { input.items.len() } else { output.consumed };
    let consumed = Consumed::of(&input.items[..taken], input.end.as_ref());
    let records = Batch::from_sealed(records)?;
    debug_assert_eq!((records.end().height, records.end().chain), (turn.head(), turn.chain()));
    let (cursor, in_hands) = (input.cursor, InHands::default());
    let (logs, ready) = (Vec::new(), more);
    Ok(CommitTurn { fence, cursor, consumed, records, effects, timers, receipts, in_hands, logs, ready, now_ns })
}

/// Hands for the effects of a turn, as far as any are free.
fn reserve<P: Plane>(plane: &P, hands: &Employed, commit: &CommitTurn) -> Vec<Option<Reserved>> {
    if commit.effects.is_empty() {
        return Vec::new();
    }
    let Some(hands) = hands.lock().clone() else { return Vec::new() };
    commit.effects.iter().map(|item| hands.reserve(item, commit.now_ns, || plane.random())).collect()
}

/// The effects of a turn that was perhaps applied, or was applied without an answer, are perhaps claimed for these hands.
fn leave_in_doubt(reserved: Vec<Option<Reserved>>, effects: &[EffectItem]) {
    for (item, hand) in effects.iter().zip(reserved) {
        hand.into_iter().for_each(|hand| hand.doubt(item));
    }
}

/// Why a turn was refused that can be made again at once.
enum Refusal {
    /// Something was enqueued meanwhile.
    Grown,
    /// A receipt came from a hand that does not hold its effect any more.
    NotHeld,
}

impl Refusal {
    fn of(error: &StoreError) -> Option<Self> {
        match error {
            StoreError::Inbox(InboxError::Grown { .. }) => Some(Self::Grown),
            StoreError::Effect(EffectError::ClaimLost { .. }) => Some(Self::NotHeld),
            _ => None,
        }
    }

    /// Whether the turn is made again without this item. Who brought it hears that no turn takes it, and goes another way. All
    /// receipts do, not only the one: there may be more like it.
    fn leaves_out(&self, ticket: &Ticket) -> bool {
        matches!(self, Self::NotHeld) && ticket.answers().is_some()
    }
}

/// A turn is told in the trace of every item that it took. As a span it can be part of one only: the first that is recorded.
fn note_traces(taken: &[TurnItem]) {
    if !tracing::enabled!(tracing::Level::DEBUG) {
        return;
    }
    let traces = || taken.iter().filter_map(|item| item.item.origin.trace.as_deref());
    let recorded = |trace: &&str| trace.parse::<TraceContext>().is_ok_and(|context| context.is_sampled());
    tracing::Span::current().record("trace", traces().find(recorded).or_else(|| traces().next()));
    for item in taken {
        tracing::debug!(seq = %item.seq, trace = item.item.origin.trace, "taken in");
    }
}

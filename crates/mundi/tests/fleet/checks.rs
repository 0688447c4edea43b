//! Invariants that must hold afterwards, read from the database itself.

use crate::{
    load::Acknowledged,
    member::{Fleet, Member},
};
use mundi_engine::{Engine, EngineError, Read, Transaction};
use mundi_kernel::{
    MemoryObjects,
    intents::{self, TimerSet},
    replay::Replay,
};
use mundi_model::{
    Epoch, Height, Value, WorkerId, WorldId, cbor,
    record::{Body, Input, Payload, Record},
};
use mundi_runtime::world::WorldHost;
use mundi_server::{
    config::Config,
    node::{Node, NodeConfig, Universe},
    programs::Programs,
};
use mundi_store::{
    Fence,
    journal::History,
    keyspace::{
        lease::{self, Lease},
        ready,
    },
    protocol::WorldDescription,
};
use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// Everything has been taken in by then, also after the last trouble.
const SETTLED: Duration = Duration::from_secs(150);
/// Clocks agree with the database's within this.
const CLOCK_TOLERANCE_NS: u64 = 500_000_000;

/// A node without roles that looks at the database, and remembers who crashed when.
pub(crate) struct Witness {
    node: Node,
    universe: Arc<Universe>,
    lease_ns: u64,
    began_ns: u64,
    /// When a worker was killed, and which worlds it held.
    deaths: Vec<(u64, Vec<WorldId>)>,
    /// From a kill to the next turn of a world that the killed one held.
    gaps_ns: Vec<u64>,
    events: usize,
}

/// This machine's clock, which is also the database's.
#[expect(clippy::disallowed_methods, reason = "times are compared with those in the journals")]
fn now_ns() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos()).unwrap()
}

impl Witness {
    pub(crate) async fn new(fleet: &Fleet, lease: Duration) -> Self {
        let settings = [("MUNDI_ENGINE__URL", fleet.database.url()), ("MUNDI_OBJECTS__URL", fleet.objects_url())];
        let settings = settings.map(|(name, value)| (name.to_owned(), value));
        let config = Config::load(None, settings, &[]).unwrap();
        let roles = NodeConfig { roles: [].into(), worker: WorkerId::new(99), ..NodeConfig::default() };
        let node = Node::open_configured_as(&config, Programs::builtin(), roles).await.unwrap();
        let universe = node.universe("default").unwrap();
        let lease_ns = u64::try_from(lease.as_nanos()).unwrap();
        Self { node, universe, lease_ns, began_ns: now_ns(), deaths: Vec::new(), gaps_ns: Vec::new(), events: 0 }
    }

    /// Waits until worlds have come to each of them: before that, a death proves nothing.
    pub(crate) async fn sees_worlds_on(&self, workers: &[Member], ids: &BTreeMap<String, WorldId>) {
        for worker in workers {
            while self.held_by(worker, ids).await.is_empty() {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }

    pub(crate) async fn sees_the_death_of(&mut self, worker: &Member, ids: &BTreeMap<String, WorldId>) {
        let held = self.held_by(worker, ids).await;
        eprintln!("{} it held {} worlds", self.age(), held.len());
        self.deaths.push((now_ns(), held));
    }

    /// Also while the database is away, or the machine too busy to answer in time.
    async fn held_by(&self, worker: &Member, ids: &BTreeMap<String, WorldId>) -> Vec<WorldId> {
        loop {
            match self.leases_of(worker, ids).await {
                Ok(held) => return held,
                Err(error) => eprintln!("the witness looks again: {error}"),
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// All at once: a list that takes seconds would tell of worlds that have moved meanwhile.
    async fn leases_of(&self, worker: &Member, ids: &BTreeMap<String, WorldId>) -> Result<Vec<WorldId>, EngineError> {
        let mut tx = self.node.plane().engine.begin().await?;
        let key = |world: &WorldId| lease::key(self.universe.id(), *world);
        tx.prefetch(|| ids.values().map(|world| Read::get(key(world).as_bytes())));
        let mut held = Vec::new();
        for world in ids.values() {
            let lease = tx.get_snapshot(key(world).as_bytes()).await?;
            let holder = lease.and_then(|bytes| cbor::decode::<Lease>(&bytes).unwrap().holder);
            held.extend((holder == WorkerId::new(worker.worker)).then_some(*world));
        }
        Ok(held)
    }

    /// Waits until all is taken in, world by world, then holds the journals against what clients were told.
    pub(crate) async fn settle(&mut self, ids: &BTreeMap<String, WorldId>, acknowledged: &Acknowledged) {
        let waited = tokio::time::timeout(SETTLED, async {
            for (name, world) in ids {
                self.until_settled(async || self.journal(name, *world, acknowledged).await.map(drop)).await;
            }
        });
        assert!(waited.await.is_ok(), "it does not settle");
        eprintln!("{} all is taken in", self.age());
        for (name, world) in ids {
            self.until_settled(async || self.replays(name, *world).await).await;
            let journal = match self.journal(name, *world, acknowledged).await {
                Ok(journal) => journal,
                Err(open) => panic!("it was settled: {open:?}"),
            };
            self.events += journal.puts.len();
            for (died_ns, _) in self.deaths.iter().filter(|(_, held)| held.contains(world)) {
                self.gaps_ns.extend(journal.gap_ns(*died_ns, died_ns + self.lease_ns));
            }
        }
    }

    async fn until_settled(&self, look: impl AsyncFn() -> Result<(), Open>) {
        loop {
            match look().await {
                Ok(()) => return,
                Err(Open::NotYet(why)) => {
                    eprintln!("{} {why}", self.age());
                    tokio::time::sleep(Duration::from_secs(2)).await;
                }
                Err(Open::Wrong(story)) => panic!("{story}"),
            }
        }
    }

    /// A journal that holds all that it must.
    async fn journal(&self, name: &str, world: WorldId, acknowledged: &Acknowledged) -> Result<Journal, Open> {
        let journal = Journal::read(&self.records(world).await);
        let told = acknowledged.iter().filter(|((of, _), _)| of == name);
        let told = journal.holds_what_was_told(name, told.map(|((_, client), counts)| (client, *counts)));
        match told.and_then(|()| journal.answers_every_intent_once(name)) {
            Err(Open::NotYet(why)) => return Err(Open::NotYet(format!("{why}; {}", self.stands(world).await))),
            other => other?,
        }
        journal.goes_by_one_clock(name, self.began_ns, now_ns())?;
        Ok(journal)
    }

    /// How long it lasts by now.
    pub(crate) fn age(&self) -> String {
        format!("{:>6.1} s", (now_ns() - self.began_ns) as f64 / 1e9)
    }

    /// The process that should have continued a world, and whether any could know that it waits.
    async fn stands(&self, world: WorldId) -> String {
        let described = self.universe.ops().describe_world(world).await;
        let Ok(WorldDescription { lease, assignment, inbox, cursor, .. }) = described else {
            return format!("{described:?}");
        };
        let left_ms = lease.map(|lease| (i128::from(lease.expires_at_ns) - i128::from(now_ns())) / 1_000_000);
        let hint = ready::key(self.universe.id(), ready::PRIORITY_NORMAL, world);
        let hinted = async { self.node.plane().engine.begin().await?.get(hint.as_bytes()).await };
        let hinted = hinted.await.map(|hint| hint.is_some());
        format!(
            "{} wait behind {cursor:?}; {lease:?}, {left_ms:?} ms left; {assignment:?}; hint {hinted:?}",
            inbox.items
        )
    }

    async fn records(&self, world: WorldId) -> Vec<Vec<u8>> {
        let plane = self.node.plane();
        let (engine, segments) = (&plane.engine, plane.segments.clone());
        let history = History::open(engine, segments, self.universe.id(), world, Height::GENESIS).await.unwrap();
        history.collect().await.unwrap().into_iter().map(|record| record.bytes.to_vec()).collect()
    }

    /// From its first record on it comes to the same outcomes, byte for byte, and where a restored host stands.
    async fn replays(&self, name: &str, world: WorldId) -> Result<(), Open> {
        let records = self.records(world).await;
        let mut objects = MemoryObjects::new();
        for program in self.node.programs().values() {
            objects.put(program.manifest.clone());
            objects.put(program.program.clone());
        }
        let wrong = |error: String| Open::Wrong(format!("{name} does not replay: {error}"));
        let registry = self.node.plane().registry.clone();
        let replay = Replay::from_genesis(&objects, registry, &records[0]);
        let mut replay = replay.map_err(|error| wrong(error.to_string()))?;
        replay.run(&objects, &records[1..], None).map_err(|error| wrong(error.to_string()))?;
        let replayed = replay.finish().map_err(|error| wrong(error.to_string()))?;
        let fence = Fence { universe: self.universe.id(), world, epoch: Epoch::INITIAL };
        let host = WorldHost::restore(self.node.plane().clone(), fence).await.unwrap();
        if host.head() != replayed.head() {
            return Err(Open::NotYet(format!("{name} still grows")));
        }
        if host.chain() != replayed.chain() {
            return Err(wrong("a restored host stands elsewhere".to_owned()));
        }
        Ok(())
    }

    pub(crate) fn report(mut self) {
        self.gaps_ns.sort_unstable();
        let (gaps, deaths) = (&self.gaps_ns, self.deaths.len());
        let at = |share: usize| gaps.get(gaps.len().saturating_sub(1) * share / 100).map_or(0, |gap| gap / 1_000_000);
        eprintln!(
            "{} events, {deaths} kills of world workers; {} worlds of theirs were asked for",
            self.events,
            gaps.len()
        );
        eprintln!(
            "from kill to next turn: p50 {} ms, p99 {} ms; the lease is {} ms",
            at(50),
            at(99),
            self.lease_ns / 1_000_000
        );
        assert!(self.events > 100 && !gaps.is_empty(), "this proves nothing");
    }
}

/// Why it is not over.
#[derive(Debug)]
enum Open {
    NotYet(String),
    Wrong(String),
}

/// The outcome of an intent.
#[derive(Default)]
struct Asked {
    kind: String,
    due_ns: Option<u64>,
    answers: u32,
}

/// The contents of a journal, in its order.
#[derive(Default)]
struct Journal {
    /// Client and number of each `put`.
    puts: Vec<(String, u64)>,
    /// Effects and timers, with when they are due, and how often they were answered.
    intents: BTreeMap<String, Asked>,
    early: Vec<String>,
    times_ns: Vec<u64>,
    /// When each of these was sent.
    sent_ns: Vec<u64>,
}

impl Journal {
    fn read(records: &[Vec<u8>]) -> Self {
        let mut journal = Self::default();
        for bytes in records {
            match cbor::decode::<Record>(bytes).unwrap().body {
                Body::Ingress(ingress) => {
                    journal.times_ns.push(ingress.stamps.now_ns);
                    journal.sent_ns.push(ingress.item.origin.enqueued_at_ns);
                    journal.take(&ingress.item.input, ingress.item.origin.enqueued_at_ns);
                }
                Body::Intent(intent) => {
                    let due_ns = (intent.kind == intents::TIMER_SET).then(|| due_ns(&intent.params));
                    let asked = Asked { kind: intent.kind, due_ns, answers: 0 };
                    journal.intents.insert(intent.hash.to_string(), asked);
                }
                _ => {}
            }
        }
        journal
    }

    fn take(&mut self, input: &Input, enqueued_at_ns: u64) {
        match input {
            Input::Event { schema, value, .. } if schema == "put" => {
                let Value::Map(fields) = cbor::decode(inline(value)).unwrap() else { panic!("a put is an object") };
                match (&fields["key"], &fields["value"]) {
                    (Value::Text(client), Value::Integer(number)) => {
                        self.puts.push((client.clone(), u64::try_from(*number).unwrap()));
                    }
                    other => panic!("{other:?}"),
                }
            }
            Input::Receipt(receipt) => self.answer(receipt.intent.to_string(), None),
            Input::TimerFired { timer, .. } => self.answer(timer.to_string(), Some(enqueued_at_ns)),
            _ => {}
        }
    }

    fn answer(&mut self, intent: String, fired_ns: Option<u64>) {
        let entry = self.intents.entry(intent.clone()).or_default();
        entry.answers += 1;
        if entry.due_ns.zip(fired_ns).is_some_and(|(due_ns, fired_ns)| fired_ns < due_ns) {
            self.early.push(intent);
        }
    }

    /// How long a world did not run, if something was sent to it before the lease of its dead holder expired. What nobody asks for
    /// takes no turn.
    fn gap_ns(&self, died_ns: u64, lease_over_ns: u64) -> Option<u64> {
        let (at_ns, sent_ns) = self.times_ns.iter().zip(&self.sent_ns).find(|(at_ns, _)| **at_ns > died_ns)?;
        (*sent_ns <= lease_over_ns).then_some(at_ns - died_ns)
    }

    fn holds_what_was_told<'a>(
        &self,
        world: &str,
        told: impl Iterator<Item = (&'a String, (u64, u64))>,
    ) -> Result<(), Open> {
        for (client, (acknowledged, unheard)) in told {
            let numbers: Vec<u64> =
                self.puts.iter().filter(|(of, _)| of == client).map(|(_, number)| *number).collect();
            let count = numbers.len() as u64;
            let expected: Vec<u64> = (0..count).collect();
            if numbers != expected || count > acknowledged + unheard {
                return Err(Open::Wrong(format!(
                    "{world}: {client} sent 0 to {acknowledged}, and journaled are {numbers:?}"
                )));
            }
            if count < acknowledged {
                return Err(Open::NotYet(format!(
                    "{world}: of {client}'s {acknowledged} events {count} are journaled"
                )));
            }
        }
        Ok(())
    }

    fn answers_every_intent_once(&self, world: &str) -> Result<(), Open> {
        if let Some(intent) = self.early.first() {
            return Err(Open::Wrong(format!("{world}: timer {intent} fired early")));
        }
        let mut open = BTreeMap::<&str, usize>::new();
        for (intent, Asked { kind, answers, .. }) in &self.intents {
            match answers {
                0 => *open.entry(kind).or_default() += 1,
                1 => {}
                more => return Err(Open::Wrong(format!("{world}: {intent} was answered {more} times"))),
            }
        }
        let all = self.intents.len();
        if open.is_empty() { Ok(()) } else { Err(Open::NotYet(format!("{world}: of {all} intents {open:?} wait"))) }
    }

    /// Workers whose clocks are a minute off stamp with the database's.
    fn goes_by_one_clock(&self, world: &str, began_ns: u64, now_ns: u64) -> Result<(), Open> {
        let stands = began_ns - CLOCK_TOLERANCE_NS..now_ns + CLOCK_TOLERANCE_NS;
        match self.times_ns.iter().find(|at_ns| !stands.contains(at_ns)) {
            None => Ok(()),
            Some(at_ns) => Err(Open::Wrong(format!("{world}: a record of {at_ns}, between {began_ns} and {now_ns}"))),
        }
    }
}

fn inline(payload: &Payload) -> &[u8] {
    let Payload::Inline(bytes) = payload else { panic!("they are small") };
    bytes
}

fn due_ns(params: &Payload) -> u64 {
    cbor::decode::<TimerSet>(inline(params)).unwrap().due_ns
}

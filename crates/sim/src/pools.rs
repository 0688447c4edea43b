//! A pool under faults: clients that crash, retry and act on stale epochs. Either operators revoke and reclaim at random, or watchers do
//! by a policy, with clocks that jump. In some runs the holders are worlds, which ask for effects under their leases.

use crate::{
    checkers::{leased_effects, pools, watches},
    faults::Faults,
    leased_effects::{BEGIN, Holder, Worker, declare, params},
    run::Failure,
    simulation::{Simulated, Simulation},
};
use mundi_kernel::{
    lease_kernel::{
        self, LeaseKernel,
        command::{COMMAND, Command, NewResource, Request},
        config::PoolConfig,
        result::Outcome,
    },
    manifest::Manifest,
};
use mundi_model::{
    Code, Coded, InboxSeq, Value, WorldId, WorldName, cbor,
    pool::{ClientId, HolderId, LeaseAuthority, LeaseId, OperationId, ResourceId},
    record::{Payload, Record, ReplyOutcome},
    watch::WatchPolicy,
};
use mundi_runtime::{Plane, RuntimeError, calls::Calls, control::Ops};
use mundi_store::{
    StoreError,
    protocol::{BeatLease, ReleaseHold},
    testing::Rng,
};
use std::time::Duration;

const COMMANDS: u64 = 160;
const CLIENTS: u64 = 5;
const RESOURCES: u64 = 5;
/// Worlds that hold leases.
const HOLDERS: usize = 2;
/// The leases that are known last may still be held.
const RECENT: usize = 4;
const POOL: &str = "pool";
/// Shorter than most jumps of a clock.
const RECLAIM_AFTER_MS: u64 = 2_500;

/// The counts of a run of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolTally {
    pub commands: u64,
    pub reservations: u64,
    /// By watchers, each no earlier than its policy says.
    pub reclaims: u64,
}

/// The counts of a run of effects under leases.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LeasedTally {
    /// Attempts, each under a lease that its world held.
    pub begun: u64,
    /// Effects that ended as stale.
    pub refused: u64,
    /// Of these, effects that were begun before and lost their lease between two attempts.
    pub refused_later: u64,
}

/// The parts of a run beside a pool and its clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cast {
    Operators,
    /// They run, and no operator takes anything back.
    Watchers,
    /// Operators, and worlds that hold the leases.
    Holders,
}

fn config() -> PoolConfig {
    PoolConfig {
        slot_ms: 100,
        ttl_slots_max: 40,
        history_slots: 60,
        operation_slots: 80,
        bundle_max: 3,
        queue_max: 3,
        ..PoolConfig::default()
    }
}

/// A pool with a name; watchers look at it if they run.
fn named_pool(universe: &Simulated, manifest: &Manifest, is_watched: bool) -> Result<WorldId, RuntimeError> {
    let manifest = universe.register(manifest)?;
    universe.retry(move |plane| async move {
        let name: WorldName = POOL.parse().map_err(|_| RuntimeError::Cancelled("no name"))?;
        let ops = Ops::new(plane, Simulated::UNIVERSE, Calls::default());
        ops.pool_create(name.clone(), (1, config()), manifest).await?;
        let pool = ops.pool(&name).await?;
        let policy = WatchPolicy {
            silent_after_ms: Some(900),
            reclaim_after_ms: Some(RECLAIM_AFTER_MS),
            ..WatchPolicy::default()
        };
        if is_watched {
            ops.pool_set_watch(&pool, Some(policy)).await?;
        }
        ops.pool_world(&pool, 0)
    })
}

fn id(number: u64) -> [u8; 16] {
    u128::from(number).to_be_bytes()
}

/// A lease as the clients know it; they do not forget it when it ends.
#[derive(Debug, Clone, Copy)]
struct Known {
    lease: LeaseId,
    holder: u64,
}

struct Sent {
    seq: InboxSeq,
    holder: u64,
}

struct Run {
    universe: Simulated,
    world: WorldId,
    rng: Rng,
    known: Vec<Known>,
    /// Operations that a client may send again, because it heard nothing, or forgot that it did.
    again: Vec<(u64, u64, Command)>,
    /// Sent, and not yet asked for the answer.
    open: Vec<Sent>,
    operations: Vec<u64>,
    /// An operator's clock, which jumps.
    looked_until: u64,
    cast: Cast,
    /// The worlds that hold leases, if any do.
    holders: Vec<WorldId>,
    /// Carries their effects out.
    worker: Worker,
}

/// Runs a pool under about half of these faults, those that the seed chooses, and checks every promise.
pub fn run_pool_seed(seed: u64, allowed: &Faults) -> Result<PoolTally, Failure> {
    let (run, journal) = Run::new(seed, allowed, Cast::Operators).and_then(Run::played)?;
    let reservations = run.reservations(&journal)?;
    run.universe.finish()?;
    Ok(PoolTally { commands: COMMANDS, reservations, reclaims: 0 })
}

/// The same with two watchers, which crash, stand still and have clocks that jump.
pub fn run_watched_pool_seed(seed: u64, allowed: &Faults) -> Result<PoolTally, Failure> {
    let (run, journal) = Run::new(seed, allowed, Cast::Watchers).and_then(Run::played)?;
    let reservations = run.reservations(&journal)?;
    let reclaims =
        watches::check(&journal, &run.universe.commits()).map_err(|what| Failure { checker: "watches", what })?;
    run.universe.finish()?;
    Ok(PoolTally { commands: COMMANDS, reservations, reclaims })
}

/// Holders that are worlds: the effects that they ask for begin only under leases that they hold.
pub fn run_leased_effects_seed(seed: u64, allowed: &Faults) -> Result<LeasedTally, Failure> {
    let (run, journal) = Run::new(seed, allowed, Cast::Holders).and_then(Run::played)?;
    run.reservations(&journal)?;
    let checked = leased_effects::check(run.world, &run.universe.commits(), &run.worker.attempts());
    let tally = checked.map_err(|what| Failure { checker: "leased_effects", what })?;
    run.universe.finish()?;
    Ok(tally)
}

#[expect(clippy::needless_pass_by_value, reason = "it maps errors")]
fn failed(error: RuntimeError) -> Failure {
    Failure { checker: "pools", what: error.to_string() }
}

impl Run {
    fn new(seed: u64, allowed: &Faults, cast: Cast) -> Result<Self, Failure> {
        let (worker, is_watched) = (Worker::default(), cast == Cast::Watchers);
        let simulation = Simulation::new(seed).faults(allowed.swarm(seed)).adapter(worker.clone());
        let mut simulation = simulation.watchers(if is_watched { 2 } else { 0 });
        let mut manifest = simulation.program(lease_kernel::NAME, lease_kernel::VERSION, LeaseKernel);
        lease_kernel::declare(&mut manifest);
        let mut holder = simulation.program("holder", 1, Holder);
        declare(&mut holder);
        let mut universe = simulation.start().map_err(failed)?;
        let world = match cast {
            Cast::Operators => universe.create(&manifest),
            Cast::Watchers | Cast::Holders => named_pool(&universe, &manifest, is_watched),
        };
        let (world, rng, operations) = (world.map_err(failed)?, Rng::new(seed), (0..CLIENTS).map(|_| 0).collect());
        let count = if cast == Cast::Holders { HOLDERS } else { 0 };
        let holders = (0..count).map(|_| universe.create(&holder)).collect::<Result<_, _>>().map_err(failed)?;
        let (known, again, open) = (Vec::new(), Vec::new(), Vec::new());
        Ok(Self { universe, world, rng, known, again, open, operations, looked_until: 0, cast, holders, worker })
    }

    /// The name under which a client holds leases.
    fn holder(&self, client: u64) -> HolderId {
        match self.holder_world(client) {
            Some(world) => world.into(),
            None => HolderId::from_bytes(id(client)),
        }
    }

    fn holder_world(&self, client: u64) -> Option<WorldId> {
        self.holders.get(usize::try_from(client).unwrap_or(0) % HOLDERS).copied()
    }

    fn reservations(&self, journal: &[Record]) -> Result<u64, Failure> {
        let checked = pools::check(journal, &config(), self.world, &self.universe.commits());
        checked.map_err(|what| Failure { checker: "pools", what })
    }

    /// Plays to the end; gives the pool's journal.
    fn played(mut self) -> Result<(Self, Vec<Record>), Failure> {
        self.play().map_err(failed)?;
        if self.cast == Cast::Watchers {
            self.universe.run_for(Duration::from_secs(20)); // all holders are silent now
        }
        self.universe.rest()?;
        let journal = self.universe.journal(self.world).map_err(failed)?;
        Ok((self, journal))
    }

    fn play(&mut self) -> Result<(), RuntimeError> {
        if self.cast == Cast::Operators {
            self.send(0, Command::Configure { shard: 0, config: config() })?;
        }
        let new = |n| NewResource { resource_id: ResourceId::from_bytes(id(n)), name: None, labels: Vec::new() };
        self.send(0, Command::CreateResource { resources: (0..RESOURCES).map(new).collect() })?;
        for step in 0..COMMANDS {
            match self.rng.below(8) {
                0 if self.cast == Cast::Watchers => self.beat()?,
                0 => self.take_back(step)?,
                1 => self.send_again()?,
                2..5 if self.cast == Cast::Holders => self.work()?,
                _ => {
                    let client = self.rng.below(CLIENTS);
                    let command = self.command(client);
                    self.send(client, command)?;
                }
            }
            match self.rng.below(4) {
                0 => self.universe.run_for(Duration::from_millis(self.rng.below(1_500))),
                1 => self.crash(),
                _ => self.listen()?,
            }
        }
        Ok(())
    }

    /// A holder says that it is there; it may have lost its authority.
    fn beat(&mut self) -> Result<(), RuntimeError> {
        let Known { lease, holder } = self.some_lease();
        let authority = LeaseAuthority { epoch: 1, holder: self.holder(holder) };
        let beat = BeatLease { universe: Simulated::UNIVERSE, pool: self.world, lease, authority };
        self.universe.retry(move |plane| async move {
            match plane.run(&beat).await {
                Err(StoreError::Pool(_)) => Ok(()),
                beaten => beaten.map(drop).map_err(RuntimeError::from),
            }
        })
    }

    /// A world asks for an effect under a lease that it holds, or held, or another holds; perhaps the lease ends at the same time.
    fn work(&mut self) -> Result<(), RuntimeError> {
        let Known { lease, holder } = self.some_lease();
        let asks = if self.rng.below(6) == 0 { holder + 1 } else { holder };
        let lease_epoch = if self.rng.below(6) == 0 { 2 } else { 1 };
        let (Some(world), holder_id) = (self.holder_world(asks), Some(self.holder(holder))) else { return Ok(()) };
        if self.rng.below(3) > 0 {
            self.send(holder, Command::Activate { lease_id: lease, holder_id, lease_epoch: 1 })?;
            self.universe.run_for(Duration::from_millis(self.rng.below(300)));
        }
        self.send_event(world, BEGIN, &params(POOL, lease, lease_epoch))?;
        match self.rng.below(4) {
            0 => self.send(CLIENTS - 1, Command::revoke(lease)),
            1 => self.send(holder, Command::Release { lease_id: lease, holder_id, lease_epoch: 1 }),
            _ => Ok(()),
        }
    }

    fn some_lease(&mut self) -> Known {
        let nobody = Known { lease: LeaseId::from_bytes(id(1)), holder: 0 };
        let recent = if self.cast == Cast::Holders && self.rng.below(4) > 0 { RECENT } else { usize::MAX };
        let known = &self.known[self.known.len().saturating_sub(recent)..];
        match known.len() {
            0 => nobody,
            len => known[usize::try_from(self.rng.below(len as u64)).unwrap_or(0)],
        }
    }

    fn command(&mut self, client: u64) -> Command {
        let holder_id = Some(self.holder(client));
        let resource = |rng: &mut Rng| ResourceId::from_bytes(id(rng.below(RESOURCES)));
        let Known { lease: lease_id, holder } = self.some_lease();
        let its = Some(self.holder(holder));
        // What a holder learned once is what it believes, whatever happened since.
        let lease_epoch = if self.rng.below(6) == 0 { 1 + self.rng.below(3) } else { 1 };
        let ttl_slots = 1 + self.rng.below(40);
        match self.rng.below(10) {
            0 => Command::Reserve { resource_id: resource(&mut self.rng), holder_id, ttl_slots },
            1 | 2 => {
                let resource_ids = (0..1 + self.rng.below(3)).map(|_| resource(&mut self.rng)).collect();
                Command::ReserveBundle { resource_ids, holder_id, ttl_slots }
            }
            3 => Command::ReserveAny { label: String::new(), count: 2, holder_id, ttl_slots },
            4 => Command::EnqueueReserve { label: String::new(), count: 2, holder_id, ttl_slots, wait: true },
            5..8 => Command::Activate { lease_id, holder_id: its, lease_epoch },
            _ => Command::Release { lease_id, holder_id: its, lease_epoch },
        }
    }

    /// An operator that believes its clock: it revokes whoever is silent for long by it, and reclaims a while later. Both may be done
    /// by two of them at once.
    fn take_back(&mut self, step: u64) -> Result<(), RuntimeError> {
        let jump = if self.rng.below(3) == 0 { self.rng.below(200) } else { 0 };
        if step + jump < self.looked_until {
            return Ok(());
        }
        self.looked_until = step + self.rng.below(10);
        let Known { lease: lease_id, .. } = self.some_lease();
        for _ in 0..=self.rng.below(2) {
            let command = match self.rng.below(3) {
                0 => Command::Reclaim { lease_id },
                _ => Command::revoke(lease_id),
            };
            self.send(CLIENTS - 1, command)?;
        }
        Ok(())
    }

    /// Each client counts its operations from 1: two clients share ids, and never an operation.
    fn send(&mut self, client: u64, command: Command) -> Result<(), RuntimeError> {
        let number = &mut self.operations[usize::try_from(client).unwrap_or(0)];
        *number += 1;
        let number = *number;
        self.again.push((client, number, command.clone()));
        if self.again.len() > 8 {
            self.again.remove(0);
        }
        self.send_as(client, number, command)
    }

    fn send_again(&mut self) -> Result<(), RuntimeError> {
        if self.again.is_empty() {
            return Ok(());
        }
        let at = usize::try_from(self.rng.below(self.again.len() as u64)).unwrap_or(0);
        let (client, number, command) = self.again[at].clone();
        self.send_as(client, number, command)
    }

    fn send_as(&mut self, client: u64, number: u64, command: Command) -> Result<(), RuntimeError> {
        let request = Request {
            operation_id: Some(OperationId::from_bytes(id(number))),
            client_id: Some(ClientId::from_bytes(id(client))),
            command,
        };
        let seq = self.send_event(self.world, COMMAND, &request.to_value())?;
        self.open.push(Sent { seq, holder: client });
        Ok(())
    }

    fn send_event(&mut self, world: WorldId, schema: &str, value: &Value) -> Result<InboxSeq, RuntimeError> {
        match self.universe.send(world, schema, value) {
            // Processes that crash one after another may put a world on hold that has done nothing wrong.
            Err(error) if error.code() == Code::WorldOnHold => {
                self.release_hold(world)?;
                self.universe.send(world, schema, value)
            }
            sent => sent,
        }
    }

    fn release_hold(&self, world: WorldId) -> Result<(), RuntimeError> {
        let universe = Simulated::UNIVERSE;
        self.universe.retry(move |plane| async move {
            let now_ns = plane.now_ns();
            plane.run(&ReleaseHold { universe, world, now_ns }).await?;
            Ok(())
        })
    }

    /// A client that crashes never gets the answers to its commands.
    fn crash(&mut self) {
        self.open.clear();
    }

    /// Asks for the answers that are there by now.
    fn listen(&mut self) -> Result<(), RuntimeError> {
        for Sent { seq, holder } in std::mem::take(&mut self.open) {
            let Some(ReplyOutcome::Ok(Payload::Inline(bytes))) = self.universe.reply(self.world, seq)? else {
                continue;
            };
            let json = cbor::decode::<Value>(&bytes).ok().and_then(|value| value.to_json().ok());
            let outcome: Option<Outcome> = json.and_then(|json| serde_json::from_value(json).ok());
            let lease = outcome.filter(|outcome| !outcome.resource_ids.is_empty()).and_then(|outcome| outcome.lease_id);
            self.known.extend(lease.map(|lease| Known { lease, holder }));
        }
        Ok(())
    }
}

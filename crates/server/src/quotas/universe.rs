//! The quotas of one universe in this process.

use super::{
    Quota, QuotaExceeded, Scope,
    account::{Account, Begun},
    bucket::Bucket,
    claims::{ClaimRoom, ExternalClaims},
    counts::{self, Amounts, Counts, Reservation},
};
use crate::node::NodePlane;
use mundi_engine::{AnyEngine, EngineError};
use mundi_model::{IntentHash, UniverseId};
use mundi_runtime::{
    Plane,
    control::{SpentBudget, quotas_changed, seen_quotas},
    effects::EffectPace,
    worker::Pace,
};
use mundi_store::{StoreError, reachability, values::Quotas};
use parking_lot::{Mutex, RwLock};
use std::{
    sync::{
        Arc, LazyLock, Weak,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::time::Instant;

/// After a look that failed.
const PAUSE: Duration = Duration::from_millis(250);

/// From when all universes of the process count their time: a token may be used in several of them.
static BEGUN: LazyLock<Instant> = LazyLock::new(Instant::now);

/// The limits of the quotas, and the use that counts against them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct QuotaUse {
    pub(crate) quota: Quota,
    pub(crate) limit: Option<u64>,
    /// `None` where it is not counted, because nothing limits it.
    pub(crate) current: Option<u64>,
}

pub(crate) struct UniverseQuotas {
    id: UniverseId,
    /// Programs that every universe has.
    built_in: u64,
    configured: Quotas,
    /// The limits in force: those that were set, and the configured ones for the rest.
    limits: RwLock<Quotas>,
    /// A time that only goes forward.
    clock: Box<dyn Fn() -> u64 + Send + Sync>,
    account: Arc<Account>,
    counts: Arc<Counts>,
    /// Counted where programs run.
    fuel_used: Arc<AtomicU64>,
    fuel: Mutex<Fuel>,
    effects: Mutex<Bucket>,
    /// Those of the adapters of this process.
    effects_running: AtomicU64,
    /// Calls of children in this process.
    calls_running: AtomicU64,
    /// Those that external workers claimed here.
    claims: Arc<ExternalClaims>,
}

#[derive(Default)]
struct Fuel {
    bucket: Bucket,
    /// The part of the used fuel that the bucket was charged for.
    charged: u64,
}

impl UniverseQuotas {
    pub(crate) fn new(id: UniverseId, configured: Quotas, built_in: u64) -> Arc<Self> {
        let clock = || u64::try_from(BEGUN.elapsed().as_nanos()).unwrap_or(u64::MAX);
        Self::by(Box::new(clock), id, configured, built_in)
    }

    fn by(clock: Box<dyn Fn() -> u64 + Send + Sync>, id: UniverseId, configured: Quotas, built_in: u64) -> Arc<Self> {
        Arc::new(Self {
            id,
            built_in,
            configured,
            limits: RwLock::new(configured),
            clock,
            account: Arc::default(),
            counts: Arc::default(),
            fuel_used: Arc::default(),
            fuel: Mutex::default(),
            effects: Mutex::default(),
            effects_running: AtomicU64::new(0),
            calls_running: AtomicU64::new(0),
            claims: Arc::default(),
        })
    }

    pub(crate) fn id(&self) -> UniverseId {
        self.id
    }

    pub(crate) fn limits(&self) -> Quotas {
        *self.limits.read()
    }

    pub(crate) fn configured(&self) -> Quotas {
        self.configured
    }

    /// Where the fuel of its programs is counted.
    pub(crate) fn fuel_meter(&self) -> Arc<AtomicU64> {
        self.fuel_used.clone()
    }

    /// A time that only goes forward.
    pub(crate) fn now_ns(&self) -> u64 {
        (self.clock)()
    }

    /// Room for effects that an external worker asks for: at most so many. Adapters find it taken until they are claimed, or not.
    pub(crate) fn claim(&self, wanted: usize) -> ClaimRoom {
        let limits = self.limits();
        let (now_ns, running) = (self.now_ns(), self.running_here());
        let rate = limits.effects_per_second_max.map_or(u64::MAX, |max| self.effects.lock().room(now_ns, max));
        let at_a_time = limits.effects_max.map_or(u64::MAX, |max| max.saturating_sub(running));
        ExternalClaims::room(&self.claims, wanted.min(usize::try_from(rate).unwrap_or(usize::MAX)), at_a_time, now_ns)
    }

    /// Effects were claimed, for so long unless they are kept.
    pub(crate) fn claimed(&self, room: ClaimRoom, intents: impl ExactSizeIterator<Item = IntentHash>, ttl: Duration) {
        self.began(intents.len());
        room.used(intents, self.until(ttl));
    }

    /// A heartbeat came for these.
    pub(crate) fn kept(&self, intents: impl Iterator<Item = IntentHash>, ttl: Duration) {
        self.claims.keep(intents, self.until(ttl));
    }

    /// The claim is over: answered, failed or lost.
    pub(crate) fn claim_over(&self, intent: IntentHash) {
        self.claims.end(intent);
    }

    /// Effects of the adapters of this process, and calls of its children.
    fn running_here(&self) -> u64 {
        self.effects_running.load(Relaxed).saturating_add(self.calls_running.load(Relaxed))
    }

    fn until(&self, ttl: Duration) -> u64 {
        self.now_ns().saturating_add(u64::try_from(ttl.as_nanos()).unwrap_or(u64::MAX))
    }

    /// Replaces the limits that were set before.
    pub(crate) fn set(&self, set: Option<Quotas>) {
        let mut limits = self.limits.write();
        if limits.fuel_per_second_max.is_none() {
            // What was used without a limit is not held against the universe.
            self.fuel.lock().charged = self.fuel_used.load(Relaxed);
        }
        *limits = set.unwrap_or_default().or(&self.configured);
    }

    /// Reads what was set, and follows it as long as someone has these quotas.
    pub(crate) async fn follow(self: &Arc<Self>, plane: &NodePlane) -> Result<(), StoreError> {
        self.set(seen_quotas(&plane.engine, self.id).await?.quotas);
        let (engine, own) = (plane.engine.clone(), Arc::downgrade(self));
        plane.spawner().spawn(Box::pin(async move {
            while own.strong_count() > 0 {
                if let Err(error) = changes(&engine, &own).await {
                    tracing::debug!(%error, "the quotas of a universe could not be read");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }));
        Ok(())
    }

    pub(crate) fn events(&self, count: u64) -> Result<(), QuotaExceeded> {
        let limits = self.limits();
        self.account.events(Scope::Universe, &limits, self.now_ns(), count)
    }

    pub(crate) fn more_events(&self, count: u64) {
        self.account.more_events(&self.limits(), self.now_ns(), count);
    }

    pub(crate) fn begin(&self, quota: Quota) -> Result<Begun, QuotaExceeded> {
        self.account.begin(Scope::Universe, quota, quota.of(&self.limits()))
    }

    /// Room for what is about to be made; `None` if nothing of it is limited.
    pub(crate) async fn reserve(
        &self,
        plane: &NodePlane,
        more: Amounts,
    ) -> Result<Result<Option<Reservation>, QuotaExceeded>, StoreError> {
        let limits = self.limits();
        if !counts::is_limited(&limits) {
            return Ok(Ok(None));
        }
        self.counted(plane).await?;
        Ok(self.counts.add(more, &limits).map(Some))
    }

    /// The same for what turned out larger.
    pub(crate) fn grow(&self, reservation: &mut Reservation, more: Amounts) -> Result<(), QuotaExceeded> {
        reservation.grow(more, &self.limits())
    }

    pub(crate) async fn counted(&self, plane: &NodePlane) -> Result<Amounts, StoreError> {
        self.counts.current(|| self.now_ns(), self.built_in, || reachability::usage(&plane.blobs, self.id)).await
    }

    /// All quotas, with what counts against them; what the universe holds as it was counted last.
    pub(crate) fn uses(&self) -> Vec<QuotaUse> {
        let (limits, now_ns) = (self.limits(), self.now_ns());
        let counted = self.counts.known(now_ns).map(|(amounts, _)| amounts);
        let of = |quota: Quota| match quota {
            Quota::FuelPerSecond => Some(self.fuel_level(limits.fuel_per_second_max?, now_ns)),
            Quota::EffectsPerSecond => Some(self.effects.lock().used(now_ns, limits.effects_per_second_max?)),
            Quota::Effects => Some(self.running_here() + self.claims.count(now_ns)),
            Quota::EventsPerSecond | Quota::Calls | Quota::Streams => self.account.used(quota, &limits, now_ns),
            Quota::Worlds | Quota::StoredBytes | Quota::Blobs | Quota::Programs => counted?.of(quota),
        };
        let one = |quota: &Quota| QuotaUse { quota: *quota, limit: quota.of(&limits), current: of(*quota) };
        Quota::ALL.iter().map(one).collect()
    }

    /// The budget that turns wait for.
    pub(crate) fn spent_by_turns(&self) -> Option<SpentBudget> {
        let (limit, wait) = (self.limits().fuel_per_second_max?, self.wait()?);
        Some(SpentBudget { quota: Quota::FuelPerSecond.as_str(), limit, wait: Some(wait) })
    }

    /// The budget that effects wait for.
    pub(crate) fn spent_by_effects(&self) -> Option<SpentBudget> {
        let (limits, now_ns) = (self.limits(), self.now_ns());
        let running = self.running_here() + self.claims.count(now_ns);
        if let Some(limit) = limits.effects_max.filter(|max| running >= *max) {
            return Some(SpentBudget { quota: Quota::Effects.as_str(), limit, wait: None });
        }
        let limit = limits.effects_per_second_max?;
        let wait = Some(self.effects.lock().wait(now_ns, limit)?);
        Some(SpentBudget { quota: Quota::EffectsPerSecond.as_str(), limit, wait })
    }

    /// Whether a query may run. Unlike a step it has a client that can come again.
    pub(crate) fn fuel(&self) -> Result<(), QuotaExceeded> {
        let (Some(retry_after), Some(limit)) = (self.wait(), self.limits().fuel_per_second_max) else { return Ok(()) };
        let (scope, quota, current) = (Scope::Universe, Quota::FuelPerSecond, self.fuel_level(limit, self.now_ns()));
        Err(QuotaExceeded { scope, quota, limit, current, retry_after })
    }

    fn fuel_level(&self, limit: u64, now_ns: u64) -> u64 {
        let mut fuel = self.fuel.lock();
        fuel.charge(self.fuel_used.load(Relaxed), limit, now_ns);
        fuel.bucket.used(now_ns, limit)
    }
}

impl Fuel {
    /// Puts into the bucket what was used since.
    fn charge(&mut self, used: u64, limit: u64, now_ns: u64) {
        let more = used.saturating_sub(std::mem::replace(&mut self.charged, used));
        self.bucket.charge(now_ns, limit, more);
    }
}

/// Steps cannot be refused: the worlds of a universe that has used more than its fuel wait until it has worn off.
impl Pace for UniverseQuotas {
    fn wait(&self) -> Option<Duration> {
        let limit = self.limits.read().fuel_per_second_max?;
        let (mut fuel, now_ns) = (self.fuel.lock(), self.now_ns());
        fuel.charge(self.fuel_used.load(Relaxed), limit, now_ns);
        fuel.bucket.wait(now_ns, limit)
    }
}

impl EffectPace for UniverseQuotas {
    fn is_limited(&self) -> bool {
        let limits = self.limits.read();
        limits.effects_max.is_some() || limits.effects_per_second_max.is_some()
    }

    fn room(&self, running: usize) -> usize {
        let (limits, now_ns) = (self.limits(), self.now_ns());
        let others = self.calls_running.load(Relaxed).saturating_add(self.claims.count(now_ns));
        let taken = |max: u64| max.saturating_sub(running as u64).saturating_sub(others);
        let at_a_time = limits.effects_max.map_or(u64::MAX, taken);
        let rate = limits.effects_per_second_max.map_or(u64::MAX, |max| self.effects.lock().room(now_ns, max));
        usize::try_from(at_a_time.min(rate)).unwrap_or(usize::MAX)
    }

    fn began(&self, count: usize) {
        if let Some(limit) = self.limits.read().effects_per_second_max {
            self.effects.lock().charge(self.now_ns(), limit, count as u64);
        }
    }

    fn running(&self, count: usize) {
        self.effects_running.store(count as u64, Relaxed);
    }

    fn begin_call(&self) -> bool {
        // It counts before it is asked for: of calls that begin together none finds the place of another one free.
        self.calls_running.fetch_add(1, Relaxed);
        let (limits, now_ns) = (self.limits(), self.now_ns());
        let all = self.running_here().saturating_add(self.claims.count(now_ns));
        let rate = |max| self.effects.lock().room(now_ns, max) > 0;
        let may = limits.effects_max.is_none_or(|max| all <= max) && limits.effects_per_second_max.is_none_or(rate);
        if !may {
            self.end_call();
        }
        may
    }

    fn end_call(&self) {
        self.calls_running.fetch_sub(1, Relaxed);
    }
}

/// Takes over what is set, again and again, until the engine fails or nobody is left who goes by it.
async fn changes(engine: &AnyEngine, own: &Weak<UniverseQuotas>) -> Result<(), StoreError> {
    loop {
        let Some(quotas) = own.upgrade() else { return Ok(()) };
        let (id, seen) = (quotas.id, seen_quotas(engine, quotas.id).await?);
        quotas.set(seen.quotas);
        drop(quotas);
        match quotas_changed(engine, id, seen).await {
            Err(EngineError::Closed) => {
                std::future::pending::<()>().await; // ended with the node
            }
            watched => watched?,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn universe(limits: Quotas) -> Arc<UniverseQuotas> {
        UniverseQuotas::new(UniverseId::from_bytes([1; 16]), limits, 0)
    }

    /// With an injected clock.
    fn clocked(limits: Quotas) -> (Arc<UniverseQuotas>, Arc<AtomicU64>) {
        let now_ns = Arc::<AtomicU64>::default();
        let clock = now_ns.clone();
        let clock = Box::new(move || clock.load(Relaxed));
        (UniverseQuotas::by(clock, UniverseId::from_bytes([1; 16]), limits, 0), now_ns)
    }

    #[test]
    fn a_universe_that_was_opened_later_has_the_same_time() {
        let first = universe(Quotas::default());
        let later_ns = first.now_ns() + 1_000_000;
        while first.now_ns() < later_ns {}
        assert!(universe(Quotas::default()).now_ns() >= later_ns);
    }

    #[test]
    fn worlds_wait_until_the_fuel_that_was_used_has_worn_off() {
        let (quotas, now_ns) = clocked(Quotas { fuel_per_second_max: Some(1_000), ..Quotas::default() });
        assert_eq!(quotas.wait(), None);
        quotas.fuel_meter().fetch_add(5_000, Relaxed);
        let wait = quotas.wait().unwrap();
        assert!((Duration::from_secs(4)..Duration::from_millis(4_010)).contains(&wait), "{wait:?}");
        let refused = quotas.fuel().unwrap_err();
        assert_eq!((refused.quota, refused.limit, refused.current), (Quota::FuelPerSecond, 1_000, 5_000));
        assert_eq!(refused.retry_after, wait, "a query is refused for as long");
        now_ns.fetch_add(u64::try_from(wait.as_nanos()).unwrap(), Relaxed);
        assert_eq!((quotas.wait(), quotas.fuel()), (None, Ok(())));
        quotas.set(Some(Quotas { fuel_per_second_max: Some(1), ..Quotas::default() }));
        quotas.fuel_meter().fetch_add(1, Relaxed);
        assert!(quotas.wait().is_some(), "what is set holds at once");
        let quotas = universe(Quotas::default());
        quotas.fuel_meter().fetch_add(1_000_000, Relaxed);
        assert_eq!(quotas.wait(), None);
        quotas.set(Some(Quotas { fuel_per_second_max: Some(10), ..Quotas::default() }));
        assert_eq!(quotas.wait(), None, "what was used before there was a quota is not held against anyone");
    }

    #[test]
    fn effects_begin_as_their_number_and_their_rate_allow() {
        let limits = Quotas { effects_max: Some(4), effects_per_second_max: Some(3), ..Quotas::default() };
        let (quotas, now_ns) = clocked(limits);
        assert!(quotas.is_limited());
        assert_eq!((quotas.room(0), quotas.room(2), quotas.room(9)), (3, 2, 0));
        quotas.began(3);
        assert_eq!(quotas.room(0), 0);
        now_ns.fetch_add(400_000_000, Relaxed);
        assert_eq!(quotas.room(0), 1);
        quotas.set(Some(Quotas::default()));
        assert_eq!(quotas.room(0), 1, "what is not set is as it was configured");
        assert!(!universe(Quotas::default()).is_limited());
        assert_eq!(universe(Quotas::default()).room(1_000), usize::MAX);
    }

    #[test]
    fn effects_of_adapters_and_of_external_workers_share_one_quota() {
        let (quotas, now_ns) = clocked(Quotas { effects_max: Some(4), ..Quotas::default() });
        let (ttl, intent) = (Duration::from_secs(30), |n: u8| IntentHash::from_bytes([n; 32]));
        let left = || quotas.claim(10).count();
        quotas.running(1);
        let room = quotas.claim(10);
        assert_eq!((room.count(), left(), quotas.room(1)), (3, 0, 0), "it is taken while it is looked for");
        quotas.claimed(room, [intent(1), intent(2)].into_iter(), ttl);
        assert_eq!((left(), quotas.room(1)), (1, 1), "what was not found is free again");
        quotas.claim_over(intent(1));
        quotas.claim_over(intent(1));
        assert_eq!(left(), 2);
        now_ns.fetch_add(20_000_000_000, Relaxed);
        quotas.kept([intent(2), intent(9)].into_iter(), ttl);
        now_ns.fetch_add(20_000_000_000, Relaxed);
        assert_eq!(left(), 2, "it was kept, and what is not known here is not");
        now_ns.fetch_add(10_000_000_000, Relaxed);
        assert_eq!((left(), quotas.room(1)), (3, 3), "a claim that nobody keeps is over");
        assert_eq!(universe(Quotas::default()).claim(256).count(), 256);
    }

    #[test]
    fn calls_of_children_share_the_quotas_of_effects() {
        let limits = Quotas { effects_max: Some(3), effects_per_second_max: Some(5), ..Quotas::default() };
        let (quotas, now_ns) = clocked(limits);
        quotas.running(1);
        assert!(quotas.begin_call() && quotas.begin_call() && !quotas.begin_call());
        assert_eq!((quotas.room(1), quotas.claim(9).count()), (0, 0));
        let current = quotas.uses().into_iter().find(|one| one.quota == Quota::Effects).unwrap().current;
        assert_eq!(current, Some(3));
        quotas.end_call();
        assert_eq!((quotas.room(1), quotas.claim(9).count()), (1, 1));
        quotas.running(0);
        quotas.end_call();
        quotas.began(5);
        assert!(!quotas.begin_call(), "as many as in a second have begun");
        now_ns.fetch_add(200_000_000, Relaxed);
        assert!(quotas.begin_call());
        quotas.end_call();
        assert!(universe(Quotas::default()).begin_call());
    }

    #[test]
    fn what_is_not_limited_is_told_as_far_as_it_is_counted() {
        let quotas = universe(Quotas { events_per_second_max: Some(2), ..Quotas::default() });
        quotas.events(1).unwrap();
        let held = quotas.begin(Quota::Calls).unwrap();
        let uses = quotas.uses();
        let of = |quota| uses.iter().find(|one| one.quota == quota).map(|one| (one.limit, one.current)).unwrap();
        assert_eq!((of(Quota::EventsPerSecond), of(Quota::Calls)), ((Some(2), Some(1)), (None, Some(1))));
        assert_eq!(of(Quota::Worlds), (None, None));
        drop(held);
    }

    #[test]
    fn budgets_that_are_used_up_are_named() {
        let limits = Quotas { effects_max: Some(2), effects_per_second_max: Some(3), ..Quotas::default() };
        let (quotas, now_ns) = clocked(Quotas { fuel_per_second_max: Some(10), ..limits });
        assert_eq!((quotas.spent_by_turns(), quotas.spent_by_effects()), (None, None));
        quotas.fuel_meter().store(30, Relaxed);
        let spent = quotas.spent_by_turns().unwrap();
        assert_eq!((spent.quota, spent.limit), ("fuel_per_second_max", 10));
        assert!(spent.wait.is_some_and(|wait| wait > Duration::from_secs(2)), "{spent:?}");
        quotas.began(3);
        let of_rate = quotas.spent_by_effects().unwrap();
        assert_eq!((of_rate.quota, of_rate.limit), ("effects_per_second_max", 3));
        assert!(of_rate.to_string().contains("there is room in "), "{of_rate}");
        quotas.running(2);
        let at_a_time = quotas.spent_by_effects().unwrap();
        assert_eq!((at_a_time.quota, at_a_time.wait), ("effects_max", None));
        quotas.running(0);
        now_ns.store(10_000_000_000, Relaxed);
        assert_eq!((quotas.spent_by_turns(), quotas.spent_by_effects()), (None, None), "it has worn off");
    }
}

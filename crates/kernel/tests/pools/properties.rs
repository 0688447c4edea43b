//! Long random sequences of commands, retries and timers, beside the model.

use crate::{
    model::{Answer, Model},
    rig::{Pool, START_SLOT, client, holder, new_resource, operation, resource},
};
use mundi_kernel::lease_kernel::{
    command::Command,
    config::PoolConfig,
    records::{LeaseState, ResourceState},
    result::Outcome,
};
use mundi_model::{pool::LeaseId, watch::EvidenceKind};
use serde_json::json;

/// A small generator: the sequence of a seed is the same on every machine.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % end
    }

    fn of<T: Clone>(&mut self, items: &[T]) -> Option<T> {
        if items.is_empty() { None } else { Some(items[self.below(items.len() as u64) as usize].clone()) }
    }
}

/// The knowledge of clients: leases and tickets that they were given, and operations that they may send again.
#[derive(Default)]
struct Known {
    leases: Vec<(LeaseId, u128, u64)>,
    tickets: Vec<(LeaseId, u128)>,
    sent: Vec<(u128, u128, Command)>,
}

fn bounded_by(bound: u64) -> PoolConfig {
    PoolConfig {
        slot_ms: 1,
        resources_max: bound,
        leases_max: bound,
        members_max: bound,
        bundle_max: bound,
        operations_max: bound,
        expirations_max: bound,
        ttl_slots_max: bound,
        history_slots: bound,
        operation_slots: bound,
        queue_max: bound,
    }
}

fn small() -> PoolConfig {
    PoolConfig {
        ttl_slots_max: 6,
        history_slots: 8,
        bundle_max: 4,
        leases_max: 12,
        operations_max: 24,
        ..bounded_by(16)
    }
}

/// Times that end beyond the last slot: of some reservations from the beginning on, and of all history after a while.
fn near_the_last_slot(seed: u64) -> PoolConfig {
    let history_slots = u64::MAX - START_SLOT - 3 * (seed % 16);
    PoolConfig { slot_ms: 1, ttl_slots_max: u64::MAX, history_slots, operation_slots: 20, ..PoolConfig::default() }
}

fn ids(dice: &mut Dice) -> Vec<u128> {
    (0..dice.below(4)).map(|_| u128::from(1 + dice.below(7))).collect()
}

fn command(dice: &mut Dice, known: &Known) -> Command {
    let by = u128::from(dice.below(3));
    let long = dice.below(30) == 0;
    let ttl_slots = if long { u64::MAX - dice.below(START_SLOT + 200) } else { dice.below(8) };
    let holder_id = Some(holder(by));
    let label = ["", "gpu", "eu", "none"][dice.below(4) as usize].to_owned();
    let (lease, of, epoch) = dice.of(&known.leases).unwrap_or((LeaseId::from_bytes([0xff; 16]), 0, 1));
    let (lease_id, lease_epoch) = (lease, if dice.below(5) == 0 { dice.below(4) } else { epoch });
    let its_holder = if dice.below(6) == 0 { holder_id } else { Some(holder(of)) };
    match dice.below(20) {
        0 => {
            let labels = [&["gpu"][..], &["eu", "gpu"], &[]];
            let new = |n: &u128| new_resource(*n, labels[(*n % 3) as usize]);
            let mut resources: Vec<_> = ids(dice).iter().map(new).collect();
            resources.push(new_resource(u128::from(1 + dice.below(7)), &["eu"]));
            Command::CreateResource { resources }
        }
        1 | 2 => Command::Reserve { resource_id: resource(u128::from(1 + dice.below(7))), holder_id, ttl_slots },
        3 => {
            let resource_ids = ids(dice).into_iter().map(resource).collect();
            Command::ReserveBundle { resource_ids, holder_id, ttl_slots }
        }
        4 => Command::ReserveAny { label, count: dice.below(4) as u32, holder_id, ttl_slots },
        5 | 18 => Command::EnqueueReserve { label, count: dice.below(4) as u32, holder_id, ttl_slots, wait: false },
        6 => {
            let (ticket, of) = dice.of(&known.tickets).unwrap_or((lease, 0));
            Command::CancelEnqueue { ticket, holder_id: Some(holder(if dice.below(4) == 0 { by } else { of })) }
        }
        7 | 8 => Command::Activate { lease_id, holder_id: its_holder, lease_epoch },
        9 | 10 => Command::Release { lease_id, holder_id: its_holder, lease_epoch },
        11 => Command::revoke(lease_id),
        12 => Command::Revoke { lease_id, reclaim_after_ms: Some(dice.below(5_000)) },
        13 | 14 => Command::Evidence { lease_id, kind: EvidenceKind::Silent, detail: "no word".to_owned() },
        15 | 16 => Command::Reclaim { lease_id },
        17 => Command::Close {},
        _ => Command::Open {},
    }
}

fn answer(outcome: &Outcome) -> Answer {
    Answer {
        result: outcome.result,
        lease: outcome.lease_id.zip(outcome.lease_epoch),
        resources: outcome.resource_ids.clone(),
        ticket: outcome.ticket,
    }
}

fn learn(known: &mut Known, command: &Command, outcome: &Outcome) {
    let by = match command {
        Command::Reserve { holder_id: Some(by), .. }
        | Command::ReserveBundle { holder_id: Some(by), .. }
        | Command::ReserveAny { holder_id: Some(by), .. }
        | Command::EnqueueReserve { holder_id: Some(by), .. } => u128::from_be_bytes(*by.as_bytes()),
        _ => return,
    };
    known.leases.extend(outcome.lease_id.map(|lease| (lease, by, 1)));
    known.tickets.extend(outcome.ticket.map(|ticket| (ticket, by)));
}

/// The lists that the pool answers are what the model holds.
fn compare(pool: &Pool, model: &Model, known: &mut Known) {
    let resources = pool.query("resources", json!({ "limit": 1_000 }));
    let of_pool: Vec<_> = resources["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| {
            (
                it["resource_id"].clone(),
                it["current_state"].clone(),
                it["current_lease_id"].clone(),
                it["version"].clone(),
            )
        })
        .collect();
    let of_model: Vec<_> = model
        .resources
        .iter()
        .map(|(id, it)| (json!(id), json!(it.state), json!(it.lease), json!(it.version)))
        .collect();
    assert_eq!(of_pool, of_model);
    let leases = pool.query("leases", json!({ "limit": 1_000 }));
    let of_pool: Vec<_> = leases["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| {
            let of_holder = ["lease_id", "holder_id", "state", "lease_epoch", "resource_ids"];
            let of_time = ["created_lsn", "deadline_slot", "released_lsn", "retire_after_slot", "member_count"];
            [of_holder, of_time].map(|fields| fields.map(|field| it[field].clone()))
        })
        .collect();
    let answering = model.leases.iter().filter(|(_, it)| it.retire_after.is_none_or(|after| after > pool.slot()));
    let of_model: Vec<_> = answering
        .map(|(id, it)| {
            let of_holder = [json!(id), json!(it.holder), json!(it.state), json!(it.epoch), json!(it.members)];
            let retire_after = json!(it.retire_after.unwrap_or(0));
            let of_time = [json!(id.lsn()), json!(it.deadline), json!(it.released), retire_after];
            [of_holder, [&of_time[..], &[json!(it.members.len())]].concat().try_into().unwrap()]
        })
        .collect();
    assert_eq!(of_pool, of_model);
    // Grants of the queue are learned by looking, as a client would.
    for (id, lease) in &model.leases {
        if known.leases.iter().all(|(other, ..)| other != id) {
            known.leases.push((*id, u128::from_be_bytes(*lease.holder.as_bytes()), lease.epoch));
        }
    }
    let counts = pool.query("pool", json!(null))["counts"].clone();
    assert_eq!(counts["leases"], model.leases.len());
    assert_eq!(counts["waiting"], model.waiting());
    let leases = |state| model.leases.values().filter(|it| it.state == state).count();
    let resources = |state| model.resources.values().filter(|it| it.state == state).count();
    let expected = json!({
        "leases_reserved": leases(LeaseState::Reserved),
        "leases_active": leases(LeaseState::Active),
        "leases_revoking": leases(LeaseState::Revoking),
        "resources_reserved": resources(ResourceState::Reserved),
        "resources_active": resources(ResourceState::Active),
        "resources_revoking": resources(ResourceState::Revoking),
    });
    assert_eq!(counts["by_state"], expected);
}

fn run(config: PoolConfig, seed: u64, commands: u64) {
    let mut dice = Dice(seed);
    let (mut pool, mut model, mut known) = (Pool::new(config), Model::new(config), Known::default());
    for number in 0..commands {
        if dice.below(3) == 0 {
            pool.pass_slots(dice.below(3));
        }
        // A timer may be late, and is never early.
        while dice.below(4) > 0 {
            let Some((label, lsn)) = pool.fire_due() else { break };
            model.timer(pool.slot(), lsn, &label);
        }
        let (by, op, sent) = match dice.of(&known.sent) {
            Some(again) if dice.below(6) == 0 => again,
            Some((by, op, _)) if dice.below(20) == 0 => (by, op, command(&mut dice, &known)),
            _ => (u128::from(dice.below(3)), u128::from(1_000 + number), command(&mut dice, &known)),
        };
        let lsn = pool.world.head();
        let outcome = pool.operate(by, op, sent.clone());
        let expected = model.command((pool.slot(), lsn), (client(by), operation(op)), &sent);
        assert_eq!(answer(&outcome), expected, "seed {seed}, command {number}: {sent:?}");
        learn(&mut known, &sent, &outcome);
        known.sent.push((by, op, sent));
        if known.sent.len() > 12 {
            known.sent.remove(0);
        }
        if number % 16 == 0 {
            compare(&pool, &model, &mut known);
        }
    }
    compare(&pool, &model, &mut known);
    replays_byte_for_byte(&mut pool, seed);
}

fn replays_byte_for_byte(pool: &mut Pool, seed: u64) {
    let mut replayed = pool.replayed();
    assert_eq!((replayed.digest(), replayed.chain()), (pool.world.digest(), pool.world.chain()), "seed {seed}");
    let snapshot = |world: &mut mundi_kernel::World| world.snapshot(&pool.objects).unwrap().bytes;
    assert_eq!(snapshot(&mut replayed), snapshot(&mut pool.world), "seed {seed}: the same state, byte for byte");
}

/// More with `MUNDI_POOL_SEEDS`.
fn seeds() -> u64 {
    std::env::var("MUNDI_POOL_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(24)
}

#[test]
fn random_commands_have_the_results_and_the_state_of_the_model() {
    (0..seeds()).for_each(|seed| run(small(), seed, 400));
}

#[test]
fn with_every_bound_at_one_or_two_as_well() {
    (0..seeds()).for_each(|seed| run(bounded_by(1 + seed % 2), seed, 250));
}

#[test]
fn with_room_for_everything_as_well() {
    let config = PoolConfig { history_slots: 30, operation_slots: 20, ..PoolConfig::default() };
    (0..seeds() / 2).for_each(|seed| run(config, seed, 300));
}

#[test]
fn with_times_near_the_last_slot_as_well() {
    (0..seeds() / 2).for_each(|seed| run(near_the_last_slot(seed), seed, 300));
}

//! Each checker is proven by a mutant: a planted bug that it must find.

use futures_util::FutureExt;
use mundi_engine::Memory;
use mundi_model::{
    Hash, Height, WorkerId, limits,
    mutants::{Mutant, plant},
    record::{Input, Payload, ReceiptStatus, Sender},
};
use mundi_sim::{Faults, run_seed};
use mundi_store::{
    Clock,
    keyspace::{effect_pending::EffectTerms, queue::Claim, quotas::Quotas, token_usage::TokenUsage},
    protocol::{
        Answer, ChargeToken, Charged, EffectClaim, FabricMessage, MessageId, ReadTurn, WokenBy, complete_effect,
        expire_dedupe, fabric_send,
    },
    testing::{Fixture, ask_in_process, event},
};
use std::{collections::BTreeMap, time::Duration};

/// How many seeds a planted bug may survive. Most are found within ten; an answer under a lost claim is rare where adapters hand
/// theirs over in memory.
const SEEDS_MAX: u64 = 240;

/// The checker that is proven by each.
fn meant_for(mutant: Mutant) -> &'static str {
    match mutant {
        Mutant::FenceDropped => "fences",
        Mutant::OrphansKept | Mutant::IdleKept => "liveness",
        Mutant::PublishApart | Mutant::AnswerUnasked | Mutant::NameExpired | Mutant::SharedNameForgotten => "receipts",
        Mutant::DedupeSkipped
        | Mutant::CursorEarly
        | Mutant::DirectAhead
        | Mutant::EndAssumed
        | Mutant::RepliesMixed => "ingress",
        Mutant::ReplyUnpublished => "calls",
        Mutant::IndexStale | Mutant::ActivityStale | Mutant::NameTwice => "index",
        Mutant::LabelUnjournaled => "labels",
        Mutant::AckWithoutToken | Mutant::ClaimsStolen => "claims",
        Mutant::EpochReset => "leases",
        Mutant::TimerEarly => "timers",
        Mutant::BaselineRegressed => "baselines",
        Mutant::SegmentUnindexed => "segments",
        Mutant::HeadLeftBehind => "journals",
        Mutant::TimeForgotten => "replay",
        Mutant::ForkRepeats => "forks",
        Mutant::SandboxLeaks => "sandboxes",
        Mutant::UniverseCrossed => "universes",
        Mutant::SweepUnwalked => "replay",
        // Asked of the store itself.
        Mutant::ChargeRepeated => "quotas",
        // Found by the simulation of pools (`tests/pools.rs`).
        Mutant::RevokeFrees
        | Mutant::LeaseEpochKept
        | Mutant::BundleHalf
        | Mutant::DedupeWithoutClient
        | Mutant::RetiredRevived
        | Mutant::LeaseAuthorityKept => "pools",
        Mutant::EffectLeaseUnread | Mutant::EffectLeaseReadOnce | Mutant::EffectLeaseReadApart => "leased_effects",
        Mutant::WatcherTrustsClock => "watches",
        // Found by the simulation of children (`tests/children.rs`).
        Mutant::StartUnrecorded
        | Mutant::ChildLeaseUnchecked
        | Mutant::DispatchBeforeRecovery
        | Mutant::RecoveryUnordered
        | Mutant::CancelLineageLost
        | Mutant::BudgetUnchecked
        | Mutant::ReportRepeated
        | Mutant::CallKeyShared
        | Mutant::ChildWorldMissing
        | Mutant::ChildWorldRecovered
        | Mutant::ChildWorldUntold
        | Mutant::PhaseLowered => "children",
        // The kernel refuses to take an item twice, so its world is put on hold, although its turns could be taken.
        Mutant::HoldSkipped
        | Mutant::TurnSplit
        | Mutant::HeldConsumed
        | Mutant::SkipTakesTwo
        | Mutant::ProbationKept => "holds",
    }
}

/// Whether a read of a part of an inbox says that it found the end. Planted, that loses items once a world is paused, resumed with more
/// than a page behind it, and sent to directly: too rare for a few hundred seeds, so it is asked of the store itself.
fn is_end_assumed() -> Option<bool> {
    let read = async {
        let store = Fixture::new(Memory::new(), 1).await.ok()?;
        let fence = store.live(1).await.ok()?;
        store.send(fence.world, vec![event("a"), event("b"), event("c")]).await.ok()?;
        let page = ReadTurn { fence, cursor_seen: None, items_max: 2, bytes_max: limits::TURN_BYTES_MAX };
        Some(store.run(&page).await.ok()?.output.end.is_some())
    };
    read.now_or_never().flatten()
}

/// How many messages arrive of two effects that share a chosen name, if the second one sends again hours after the first one was answered. No
/// seed has such names: the store is asked itself. `a_chosen_name_stays_for_as_long_as_one_of_the_effects_that_send_under_it_is_open` is the
/// whole story.
fn arrived_under_a_shared_name() -> Option<usize> {
    let sent = async {
        let store = Fixture::new(Memory::new(), 1).await.ok()?;
        let (from, to) = (store.live(1).await.ok()?, store.live(2).await.ok()?);
        let deadline_ns = store.clock.now_ns() + 1;
        let held = Claim { token: [7; 16], worker: WorkerId::new(7)?, deadline_ns, attempt: 1 };
        let kinds = ["fabric.send", "fabric.send"];
        let effects = ask_in_process(&store, from, &kinds, EffectTerms::default(), held).await.ok()?;
        let send = async |claim: EffectClaim| {
            let (inbox, payload, headers) = ("mail".to_owned(), Payload::Inline(Vec::new()), BTreeMap::new());
            let message = FabricMessage {
                id: MessageId::Chosen(Hash::of(b"invoice 7")),
                claim,
                from: Sender { world: from.world, height: Height::GENESIS },
                to: to.world,
                input: Input::Message { inbox, payload, headers },
                correlation_id: None,
                trace: None,
                headers: BTreeMap::new(),
                dedupe_window_ns: 1,
            };
            let (engine, clock, blobs) = (&store.engine, &store.clock, &store.blobs);
            fabric_send(engine, clock, blobs, store.universe, message, WokenBy::ReadyQueue).await.ok()
        };
        let [first, second] = &effects[..] else { return None };
        send(first.proof).await?;
        send(second.proof).await?;
        let answer = Answer::new(ReceiptStatus::Ok, Payload::Inline(vec![0xf6]), "fabric");
        let woken_by = WokenBy::ReadyQueue;
        complete_effect(&store.engine, &store.clock, &store.blobs, first, answer, woken_by).await.ok()?;
        for _ in 0..2 {
            store.clock.advance(Duration::from_secs(3 * 3_600));
            expire_dedupe(&store.engine, &store.clock, store.universe).await.ok()?;
        }
        send(second.proof).await?;
        Some(store.read_turn(to).await.ok()?.items.len())
    };
    sent.now_or_never().flatten()
}

/// How often a charge counts that is made again, because its commit got no answer. Quotas are the server's, which no seed runs: the store
/// is asked itself. `repeated_charges_count_once_and_stay_within_the_bounds` is the property.
fn charged_by_repetition() -> Option<u64> {
    let repeat = async {
        let store = Fixture::new(Memory::new(), 1).await.ok()?;
        let amount = TokenUsage { worlds: 1, ..TokenUsage::default() };
        let charge = ChargeToken { id: 1, amount, quotas: Quotas::default(), give_back: false, change: 7 };
        store.run(&charge).await.ok()?;
        store.run(&charge).await.ok()?;
        let full = Quotas { worlds_max: Some(0), ..Quotas::default() };
        match store.run(&ChargeToken { quotas: full, change: 8, ..charge }).await.ok()?.output {
            Charged::No(before) => Some(before.worlds),
            Charged::Yes => None,
        }
    };
    repeat.now_or_never().flatten()
}

#[test]
fn every_planted_bug_is_found_by_the_checker_that_is_meant_for_it() {
    let mut survivors = Vec::new();
    // Names with commas between them, for who works on one.
    let chosen = std::env::var("MUNDI_MUTANTS").ok();
    let is_chosen = |mutant: &Mutant| {
        chosen.as_ref().is_none_or(|names| names.split(',').any(|name| name == format!("{mutant:?}")))
    };
    for mutant in Mutant::ALL.into_iter().filter(is_chosen) {
        plant(Some(mutant));
        if mutant == Mutant::EndAssumed {
            assert_eq!(is_end_assumed(), Some(true));
            continue;
        }
        if mutant == Mutant::ChargeRepeated {
            assert_eq!(charged_by_repetition(), Some(2));
            continue;
        }
        if mutant == Mutant::SharedNameForgotten {
            assert_eq!(arrived_under_a_shared_name(), Some(2));
            continue;
        }
        let failures =
            (0..SEEDS_MAX).filter_map(|seed| run_seed(seed, &Faults::all(), false).failure.map(|it| (seed, it)));
        match failures.into_iter().find(|(_, failure)| failure.checker == meant_for(mutant)) {
            Some((seed, failure)) => eprintln!("{mutant:?}: seed {seed}, {failure}"),
            None => survivors.push(mutant),
        }
    }
    plant(None);
    assert_eq!((is_end_assumed(), arrived_under_a_shared_name()), (Some(false), Some(1)));
    assert!(survivors.is_empty(), "{SEEDS_MAX} seeds did not find {survivors:?}");
}

#[test]
fn every_checker_has_a_mutant() {
    let meant: Vec<_> = Mutant::ALL.into_iter().map(meant_for).collect();
    assert!(mundi_sim::checkers().all(|checker| meant.contains(&checker)));
}

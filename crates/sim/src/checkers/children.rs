//! Children: phases only rise, a child is started at most once, its events belong to its phase, a cancel is named by all that it caused, no
//! budget is passed, and what is reported counts once. A child that is a world has its world from its start on, ends only by its own word or a cancel,
//! and is told of that. Calls of agents have keys of their own.

use mundi_model::{
    Code, IntentHash, WorldId,
    child::{ChildEvent, ChildId, DispatchToken, EventKind, KIND_WORLD, Lane, Phase},
    record::{Body, Input, Record},
};
use mundi_store::protocol::BudgetLines;
use std::collections::{BTreeMap, BTreeSet};

/// A child as it was read.
pub(crate) struct Observed {
    pub(crate) token: DispatchToken,
    pub(crate) events: Vec<ChildEvent>,
}

/// The known state of a parent's children.
#[derive(Default)]
pub(crate) struct Watched {
    children: BTreeMap<ChildId, DispatchToken>,
    starts: BTreeMap<ChildId, BTreeSet<[u8; 16]>>,
    /// The most tokens that an executor said a child used.
    said: BTreeMap<ChildId, u64>,
    calls: BTreeSet<IntentHash>,
}

impl Watched {
    /// An executor was told that it may begin.
    pub(crate) fn started(&mut self, child: ChildId, lease: [u8; 16]) -> Result<(), String> {
        let leases = self.starts.entry(child).or_default();
        leases.insert(lease);
        if leases.len() > 1 {
            return Err(format!("{child} was started under two leases"));
        }
        Ok(())
    }

    /// An executor is about to say how many tokens a child used so far.
    pub(crate) fn says(&mut self, child: ChildId, tokens: u64) {
        let said = self.said.entry(child).or_default();
        *said = tokens.max(*said);
    }

    /// An agent calls the outside under a key.
    pub(crate) fn calls(&mut self, child: ChildId, key: IntentHash) -> Result<(), String> {
        match self.calls.insert(key) {
            true => Ok(()),
            false => Err(format!("a call of {child} has the key of another call")),
        }
    }

    /// Those of kind `world`.
    pub(crate) fn world_children(&self) -> Vec<ChildId> {
        let of_kind = self.children.values().filter(|token| token.kind == KIND_WORLD);
        of_kind.map(|token| token.child).collect()
    }

    /// Of children that are worlds: which of these worlds exist.
    pub(crate) fn worlds(&self, exist: &BTreeSet<WorldId>) -> Result<(), String> {
        for (child, token) in self.children.iter().filter(|(_, token)| token.kind == KIND_WORLD) {
            if token.world().is_some() != exist.contains(&child.world()) {
                let exists = exist.contains(&child.world());
                return Err(format!("{child} is {}, and that its world exists is {exists}", token.phase.as_str()));
            }
            let code = token.end.as_ref().and_then(|end| end.code.as_deref());
            if token.world().is_some() && code == Some(Code::UrmChildTerminatedOnRestart.as_str()) {
                return Err(format!("{child} is a world, and recovery ended it"));
            }
        }
        Ok(())
    }

    /// The worlds that were started as children and cancelled: each is to be told.
    pub(crate) fn cancelled_worlds(&self) -> Vec<WorldId> {
        let cancelled = |token: &&DispatchToken| token.cancel_request_id.is_some() && token.events == 3;
        self.children.values().filter(cancelled).filter_map(DispatchToken::world).collect()
    }

    pub(crate) fn child(&mut self, Observed { token, events }: Observed) -> Result<(), String> {
        let child = token.child;
        if let Some(before) = self.children.get(&child) {
            if token.phase < before.phase {
                return Err(format!("{child} went from {} back to {}", before.phase.as_str(), token.phase.as_str()));
            }
            let drawn = |token: &DispatchToken| (token.queue_seq, token.dispatch_seq, token.run);
            if before.dispatch_seq.is_some() && drawn(before) != drawn(&token) {
                return Err(format!("the numbers of {child} changed"));
            }
        }
        for (of, other) in &self.children {
            let same = other.queue_seq == token.queue_seq
                || token.dispatch_seq.is_some() && other.dispatch_seq == token.dispatch_seq;
            if *of != child && same {
                return Err(format!("{child} and {of} share a number"));
            }
        }
        check_events(&token, &events)?;
        let (tokens, said) = (token.spent.get(Lane::Tokens).unwrap_or(0), self.said.get(&child).copied().unwrap_or(0));
        if tokens > said {
            return Err(format!("{child} was debited {tokens} tokens, and its executor said at most {said}"));
        }
        self.children.insert(child, token);
        Ok(())
    }

    pub(crate) fn budget(&self, lines: &BudgetLines) -> Result<(), String> {
        for (lane, budget) in lines {
            if budget.limit.is_some_and(|limit| budget.total > limit) {
                return Err(format!("{} of {} were spent of {:?}", budget.total, lane.as_str(), budget.limit));
            }
            let spent: u64 = self.children.values().map(|token| token.spent.get(*lane).unwrap_or(0)).sum();
            if spent != budget.total {
                return Err(format!("the children spent {spent} {}, and the total is {}", lane.as_str(), budget.total));
            }
        }
        Ok(())
    }

    /// Each is terminal, and the journal has one receipt of it.
    pub(crate) fn all_ended(&self, journal: &[Record]) -> Result<(), String> {
        let mut receipts = BTreeMap::<_, u32>::new();
        for record in journal {
            if let Body::Ingress(ingress) = &record.body
                && let Input::Receipt(receipt) = &ingress.item.input
            {
                *receipts.entry(receipt.intent).or_default() += 1;
            }
        }
        for (child, token) in &self.children {
            // A child that started and was never finished nor orphaned would be active still.
            if token.phase != Phase::Terminal {
                return Err(format!("{child} is {} in the end", token.phase.as_str()));
            }
            match receipts.get(&token.intent) {
                Some(1) => {}
                count => return Err(format!("{child} ended, and its parent has {count:?} receipts of it")),
            }
        }
        Ok(())
    }
}

fn check_events(token: &DispatchToken, events: &[ChildEvent]) -> Result<(), String> {
    let child = token.child;
    if events.len() as u64 != token.events || events.iter().zip(0..).any(|(event, seq)| event.seq != seq) {
        return Err(format!("{child} says that it has {} events, and has {}", token.events, events.len()));
    }
    let count = |kind| events.iter().filter(|event| event.kind == kind).count();
    if count(EventKind::Start) > 1 {
        return Err(format!("{child} has several starts"));
    }
    let last = events.last().map(|event| event.phase);
    let expected = Some(token.phase).filter(|phase| phase.is_start_observed());
    if last != expected {
        return Err(format!("{child} is {}, and its last event says {last:?}", token.phase.as_str()));
    }
    // A cancel comes before what it caused, and all of its lineage names it.
    let Some(cancel) = events.iter().position(|event| event.kind == EventKind::Cancel) else { return Ok(()) };
    let request = events[cancel].cancel_request_id.as_ref();
    if request.is_none() || events[..cancel].iter().any(|event| event.cancel_request_id.is_some()) {
        return Err(format!("the cancel of {child} does not begin its lineage"));
    }
    match events.last() {
        Some(end) if end.kind == EventKind::Fail && end.phase == Phase::Terminal => {
            if end.cancel_request_id.as_ref() != request {
                return Err(format!("{child} was cancelled, and its end does not name the request"));
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

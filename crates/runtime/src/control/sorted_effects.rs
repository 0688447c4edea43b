//! Open effects in an order that no key has: by age, or by attempts.

use super::Ops;
use crate::{Plane, RuntimeError};
use mundi_model::{IntentHash, ParseIdError, WorldId, limits};
use mundi_store::{keyspace::effect_place::EffectStage, protocol::QueuedEffect};
use std::{collections::BTreeMap, fmt, str::FromStr};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EffectOrder {
    Oldest,
    Newest,
    /// The oldest first, among those with equally many.
    MostAttempts,
}

/// Where an effect stands in an order. It changes only if the effect is tried in between.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SortPlace {
    first: u64,
    second: u64,
    intent: IntentHash,
}

impl SortPlace {
    fn of(effect: &QueuedEffect, order: EffectOrder) -> Self {
        let QueuedEffect { item, attempts, claim, .. } = effect;
        let made = attempts.attempts.max(claim.map_or(0, |claim| claim.attempt));
        let (first, second) = match order {
            EffectOrder::Oldest => (item.published_at_ns, 0),
            EffectOrder::Newest => (u64::MAX - item.published_at_ns, 0),
            EffectOrder::MostAttempts => (u64::MAX - u64::from(made), item.published_at_ns),
        };
        Self { first, second, intent: item.intent }
    }
}

impl fmt::Display for SortPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.first, self.second, self.intent)
    }
}

impl FromStr for SortPlace {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<Self, ParseIdError> {
        let parse = || {
            let (first, rest) = text.split_once('.')?;
            let (second, intent) = rest.split_once('.')?;
            Some(Self { first: first.parse().ok()?, second: second.parse().ok()?, intent: intent.parse().ok()? })
        };
        parse().ok_or_else(|| ParseIdError::new("place in a sorted list", "the `next` of a page", text))
    }
}

/// A page of open effects in an order.
#[derive(Debug)]
pub struct SortedEffects {
    pub items: Vec<QueuedEffect>,
    pub next: Option<SortPlace>,
    /// More effects are open than were looked at: the order is that of the first ones of the queue.
    pub is_partial: bool,
}

impl<P: Plane> Ops<P> {
    /// The open effects in an order, in pages; of a stage, a world or a kind, if they are given. Each page looks at the queue anew, and keeps
    /// no more than it returns.
    pub async fn sort_effects(
        &self,
        order: EffectOrder,
        (stage, world, kind): (Option<EffectStage>, Option<WorldId>, Option<&str>),
        after: Option<SortPlace>,
        items_max: usize,
    ) -> Result<SortedEffects, RuntimeError> {
        let (mut first, mut dropped, mut looks, mut place) = (BTreeMap::new(), false, 0, None);
        loop {
            let page = self.list_effects_at(stage, world, kind, place, limits::LIST_ITEMS_MAX).await?;
            looks += limits::LIST_LOOKS_MAX; // those that a filter leaves out cost as much
            for effect in page.items {
                let at = SortPlace::of(&effect, order);
                if after.is_none_or(|after| at > after) {
                    first.insert(at, effect);
                }
                if first.len() > items_max {
                    first.pop_last();
                    dropped = true;
                }
            }
            place = page.next;
            if place.is_none() || looks >= limits::EFFECT_SORT_ITEMS_MAX {
                break;
            }
        }
        let next = first.last_key_value().map(|(at, _)| *at).filter(|_| dropped);
        Ok(SortedEffects { items: first.into_values().collect(), next, is_partial: place.is_some() })
    }
}

//! The script of steps that a seed determines.

use super::oracle::Write;
use crate::{
    RangeRead, Read,
    conformance::{Seeded, tools::shown},
};
use bytes::Bytes;
use std::{collections::BTreeMap, fmt};

/// How many transactions are open at once.
pub(super) const SLOTS: usize = 4;

const STEPS: usize = 40;

/// Few keys, so that transactions meet; among them a prefix of others and direct successors.
const KEYS: [&[u8]; 8] = [b"a", b"a\0", b"aa", b"b", b"c", b"c\xff", b"d", b"t"];

/// Those of them that hold counters and nothing else: an add to another value is unspecified.
const COUNTERS: [&[u8]; 4] = [b"a\0", b"b", b"d", b"t"];

/// Where ranges begin and end: keys, gaps, and the ends of the world.
const BOUNDS: [&[u8]; 8] = [b"", b"a", b"a\0", b"b", b"bb", b"d", b"s", b"\xff"];

/// Stamped keys lie here, inside the widest ranges.
pub(super) const STAMPED: &[u8] = b"s/";

/// A step of the transaction in a slot. It begins one if the slot is empty, so that any sequence of steps is a
/// script, and any part of a script is one.
#[derive(Debug, Clone)]
pub(super) struct Step {
    pub(super) slot: usize,
    pub(super) act: Act,
}

#[derive(Debug, Clone)]
pub(super) enum Act {
    Begin,
    Prefetch(Read),
    Get { key: Bytes, snapshot: bool },
    Range { start: Bytes, end: Bytes, limit: usize, reverse: bool, snapshot: bool },
    Write(Write),
    Commit,
    Drop,
}

/// How many steps before a read it may be prefetched.
const AHEAD: usize = 12;

pub(super) fn script(seed: u64) -> Vec<Step> {
    let mut seeded = Seeded::new(seed);
    let steps: Vec<_> = (0..STEPS).map(|_| Step { slot: seeded.index(SLOTS), act: act(&mut seeded) }).collect();
    let mut prefetches: BTreeMap<usize, Vec<Step>> = BTreeMap::new();
    for (place, step) in steps.iter().enumerate() {
        if let Some(read) = step.act.read().filter(|_| seeded.one_in(3)) {
            let ahead = seeded.index(AHEAD);
            let prefetch = Step { slot: step.slot, act: Act::Prefetch(read) };
            prefetches.entry(place.saturating_sub(ahead)).or_default().push(prefetch);
        }
    }
    let with_prefetches = |(place, step)| prefetches.remove(&place).into_iter().flatten().chain([step]);
    steps.into_iter().enumerate().flat_map(with_prefetches).collect()
}

impl Act {
    fn read(&self) -> Option<Read> {
        match self {
            Self::Get { key, .. } => Some(Read::Get(key.clone())),
            Self::Range { start, end, limit, reverse, .. } => {
                let range = RangeRead::new(start.clone(), end.clone(), *limit);
                Some(Read::Range(RangeRead { reverse: *reverse, ..range }))
            }
            _ => None,
        }
    }
}

fn act(seeded: &mut Seeded) -> Act {
    match seeded.below(22) {
        0 => Act::Begin,
        1..=4 => Act::Get { key: key(seeded), snapshot: seeded.one_in(4) },
        5..=8 => range(seeded),
        9..=17 => Act::Write(write(seeded)),
        18..=20 => Act::Commit,
        _ => Act::Drop,
    }
}

fn write(seeded: &mut Seeded) -> Write {
    match seeded.below(9) {
        0..=3 => {
            let key = key(seeded);
            let value = if COUNTERS.contains(&&key[..]) { counter(seeded) } else { value(seeded) };
            Write::Put(key, value)
        }
        4 => Write::PutStamped(Bytes::from_static(STAMPED), value(seeded)),
        5 | 6 => Write::Add(Bytes::from_static(COUNTERS[seeded.index(COUNTERS.len())]), delta(seeded)),
        7 => Write::Delete(key(seeded)),
        _ => {
            let (start, end) = bounds(seeded);
            Write::DeleteRange(start, end)
        }
    }
}

/// The writes of a blind transaction.
pub(super) fn some_writes(seeded: &mut Seeded) -> Vec<Write> {
    let mut writes: Vec<Write> = (0..=seeded.below(4)).map(|_| write(seeded)).collect();
    if writes.iter().any(Write::takes_stamped) {
        writes.retain(|write| !matches!(write, Write::PutStamped(..)));
    }
    writes
}

fn range(seeded: &mut Seeded) -> Act {
    let (start, end) = bounds(seeded);
    let limit = 1 + seeded.index(6);
    Act::Range { start, end, limit, reverse: seeded.one_in(2), snapshot: seeded.one_in(5) }
}

fn key(seeded: &mut Seeded) -> Bytes {
    Bytes::from_static(KEYS[seeded.index(KEYS.len())])
}

/// Sometimes a counter, mostly short text, sometimes nothing.
fn value(seeded: &mut Seeded) -> Bytes {
    match seeded.below(6) {
        0 => counter(seeded),
        1 => Bytes::new(),
        _ => format!("v{}", seeded.below(4)).into(),
    }
}

fn counter(seeded: &mut Seeded) -> Bytes {
    Bytes::copy_from_slice(&delta(seeded).to_le_bytes())
}

fn delta(seeded: &mut Seeded) -> i64 {
    [0, 1, -1, 1_000, i64::MAX][seeded.index(5)]
}

/// Never empty and never inverted.
fn bounds(seeded: &mut Seeded) -> (Bytes, Bytes) {
    let start = seeded.index(BOUNDS.len() - 1);
    let end = start + 1 + seeded.index(BOUNDS.len() - 1 - start);
    (Bytes::from_static(BOUNDS[start]), Bytes::from_static(BOUNDS[end]))
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.slot)?;
        match &self.act {
            Act::Begin => write!(f, "begin"),
            Act::Prefetch(Read::Get(key)) => write!(f, "prefetch get {}", shown(key)),
            Act::Prefetch(Read::Range(RangeRead { start, end, limit, reverse, .. })) => {
                let direction = if *reverse { "last" } else { "first" };
                write!(f, "prefetch range {direction} {limit} of {}..{}", shown(start), shown(end))
            }
            Act::Get { key, snapshot } => write!(f, "get{} {}", mark(*snapshot), shown(key)),
            Act::Range { start, end, limit, reverse, snapshot } => {
                let direction = if *reverse { "last" } else { "first" };
                write!(f, "range{} {direction} {limit} of {}..{}", mark(*snapshot), shown(start), shown(end))
            }
            Act::Write(write) => write!(f, "{write}"),
            Act::Commit => write!(f, "commit"),
            Act::Drop => write!(f, "drop"),
        }
    }
}

impl fmt::Display for Write {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Put(key, value) => write!(f, "put {} = {}", shown(key), shown(value)),
            Self::PutStamped(prefix, value) => write!(f, "put_stamped {} = {}", shown(prefix), shown(value)),
            Self::Add(key, delta) => write!(f, "add {delta} to {}", shown(key)),
            Self::Delete(key) => write!(f, "delete {}", shown(key)),
            Self::DeleteRange(start, end) => write!(f, "delete_range {}..{}", shown(start), shown(end)),
        }
    }
}

fn mark(snapshot: bool) -> &'static str {
    if snapshot { " (snapshot)" } else { "" }
}

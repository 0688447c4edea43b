//! What a seed does.

use crate::conformance::Seeded;
use crate::conformance::tools::shown;
use std::fmt;

/// How many transactions are open at once.
pub(super) const SLOTS: usize = 4;

const STEPS: usize = 40;

/// Few keys, so that transactions meet; among them a prefix of others and direct successors.
const KEYS: [&[u8]; 8] = [b"a", b"a\0", b"aa", b"b", b"c", b"c\xff", b"d", b"t"];

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
    Get { key: &'static [u8], snapshot: bool },
    Range { start: &'static [u8], end: &'static [u8], limit: usize, reverse: bool, snapshot: bool },
    Put { key: &'static [u8], value: Vec<u8> },
    PutStamped { value: Vec<u8> },
    Add { key: &'static [u8], delta: i64 },
    Delete { key: &'static [u8] },
    DeleteRange { start: &'static [u8], end: &'static [u8] },
    Commit,
    Drop,
}

pub(super) fn script(seed: u64) -> Vec<Step> {
    let mut seeded = Seeded::new(seed);
    (0..STEPS).map(|_| Step { slot: seeded.index(SLOTS), act: act(&mut seeded) }).collect()
}

fn act(seeded: &mut Seeded) -> Act {
    match seeded.below(22) {
        0 => Act::Begin,
        1..=4 => Act::Get { key: key(seeded), snapshot: seeded.one_in(4) },
        5..=8 => range(seeded),
        9..=12 => Act::Put { key: key(seeded), value: value(seeded) },
        13 => Act::PutStamped { value: value(seeded) },
        14 | 15 => Act::Add { key: key(seeded), delta: delta(seeded) },
        16 => Act::Delete { key: key(seeded) },
        17 => {
            let (start, end) = bounds(seeded);
            Act::DeleteRange { start, end }
        }
        18..=20 => Act::Commit,
        _ => Act::Drop,
    }
}

fn range(seeded: &mut Seeded) -> Act {
    let (start, end) = bounds(seeded);
    let limit = 1 + seeded.index(6);
    Act::Range { start, end, limit, reverse: seeded.one_in(2), snapshot: seeded.one_in(5) }
}

fn key(seeded: &mut Seeded) -> &'static [u8] {
    KEYS[seeded.index(KEYS.len())]
}

/// Sometimes a counter, mostly short text, sometimes nothing.
fn value(seeded: &mut Seeded) -> Vec<u8> {
    match seeded.below(6) {
        0 => delta(seeded).to_le_bytes().to_vec(),
        1 => Vec::new(),
        _ => format!("v{}", seeded.below(4)).into_bytes(),
    }
}

fn delta(seeded: &mut Seeded) -> i64 {
    [0, 1, -1, 1_000, i64::MAX][seeded.index(5)]
}

/// Never empty and never inverted.
fn bounds(seeded: &mut Seeded) -> (&'static [u8], &'static [u8]) {
    let start = seeded.index(BOUNDS.len() - 1);
    let end = start + 1 + seeded.index(BOUNDS.len() - 1 - start);
    (BOUNDS[start], BOUNDS[end])
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.slot)?;
        match &self.act {
            Act::Begin => write!(f, "begin"),
            Act::Get { key, snapshot } => write!(f, "get{} {}", mark(*snapshot), shown(key)),
            Act::Range { start, end, limit, reverse, snapshot } => {
                let direction = if *reverse { "last" } else { "first" };
                write!(f, "range{} {direction} {limit} of {}..{}", mark(*snapshot), shown(start), shown(end))
            }
            Act::Put { key, value } => write!(f, "put {} = {}", shown(key), shown(value)),
            Act::PutStamped { value } => write!(f, "put_stamped {} = {}", shown(STAMPED), shown(value)),
            Act::Add { key, delta } => write!(f, "add {delta} to {}", shown(key)),
            Act::Delete { key } => write!(f, "delete {}", shown(key)),
            Act::DeleteRange { start, end } => write!(f, "delete_range {}..{}", shown(start), shown(end)),
            Act::Commit => write!(f, "commit"),
            Act::Drop => write!(f, "drop"),
        }
    }
}

fn mark(snapshot: bool) -> &'static str {
    if snapshot { " (snapshot)" } else { "" }
}

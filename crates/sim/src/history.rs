//! The history of each world from the log: every write as a typed fact, in the order of commits.

use crate::{
    log::{Commit, Write},
    protocol::Protocol,
};
use bytes::Bytes;
use mundi_model::{
    Code, Height, InboxSeq, IntentHash, UniverseId, WorldId, cbor,
    child::{DispatchToken, Phase},
    record,
};
use mundi_store::keyspace::{
    Family, Parts,
    effect_inflight::EffectInflight,
    effect_pending::EffectItem,
    journal_entry::{self, StoredRecord},
    journal_head::{self, Position},
    lease::Lease,
    lease_term::LeaseTerm,
    open_call::OpenCall,
    segment::SegmentRecord,
    timer_due::TimerItem,
    world_meta::{WorldMeta, WorldState},
};
use std::collections::BTreeMap;

pub(crate) type WorldAddress = (UniverseId, WorldId);

/// A fact about one world in a commit.
#[derive(Debug, Clone)]
pub(crate) enum Fact {
    Meta(WorldMeta),
    Lease(Lease),
    Term(LeaseTerm),
    Head(Position),
    Record(Height, Bytes),
    /// Entries left the engine whose last record stands from the first height up to the second.
    RecordsGone(Height, Height),
    Item(InboxSeq, record::InboxItem),
    Baseline(record::SnapshotNote),
    Snapshot,
    Segment(SegmentRecord),
    Effect(EffectItem),
    Timer(TimerItem),
    /// The child of an intent was queued.
    Child(IntentHash),
    /// Another world waits for the reply to what stands there.
    Call(InboxSeq, OpenCall),
}

/// The facts of one world, each with the number of its commit.
#[derive(Debug, Default)]
pub(crate) struct WorldHistory {
    pub(crate) facts: Vec<(usize, Fact)>,
}

impl WorldHistory {
    /// Its state in the end.
    pub(crate) fn state(&self) -> Option<WorldState> {
        self.metas().last().map(|meta| meta.state)
    }

    /// Whether it still can be asked for and continues, so that nothing of it may be missing.
    pub(crate) fn lives(&self) -> bool {
        self.exists() && !self.has_diverged()
    }

    /// Whether it still can be asked for.
    pub(crate) fn exists(&self) -> bool {
        matches!(self.state(), Some(WorldState::Live | WorldState::Archived))
    }

    /// Whether it stopped where it asked for something else than its parent, as a recorded fork does.
    fn has_diverged(&self) -> bool {
        let hold = self.metas().last().and_then(|meta| meta.hold.as_ref());
        hold.is_some_and(|hold| hold.code == Code::ForkDiverged.as_str())
    }

    /// How it was forked, if it was.
    pub(crate) fn fork(&self) -> Option<record::ForkGenesis> {
        self.journal().find_map(|(_, body)| match body {
            record::Body::ForkGenesis(genesis) => Some(genesis),
            _ => None,
        })
    }

    pub(crate) fn metas(&self) -> impl Iterator<Item = &WorldMeta> {
        self.facts.iter().filter_map(|(_, fact)| match fact {
            Fact::Meta(meta) => Some(meta),
            _ => None,
        })
    }

    /// Its own records: those of a fork begin where it was forked.
    pub(crate) fn records(&self) -> BTreeMap<Height, &Bytes> {
        self.facts
            .iter()
            .filter_map(|(_, fact)| match fact {
                Fact::Record(height, bytes) => Some((*height, bytes)),
                _ => None,
            })
            .collect()
    }

    /// The same, understood.
    pub(crate) fn journal(&self) -> impl Iterator<Item = (Height, record::Body)> {
        let records = self.records();
        let decode =
            |(height, bytes): (Height, &Bytes)| Some((height, cbor::decode::<record::Record>(bytes).ok()?.body));
        records.into_iter().filter_map(decode).collect::<Vec<_>>().into_iter()
    }

    /// The items that entered its inbox.
    pub(crate) fn items(&self) -> impl Iterator<Item = (usize, InboxSeq, &record::InboxItem)> {
        self.facts.iter().filter_map(|(commit, fact)| match fact {
            Fact::Item(seq, item) => Some((*commit, *seq, item)),
            _ => None,
        })
    }
}

/// All worlds.
#[derive(Debug, Default)]
pub(crate) struct Histories {
    pub(crate) worlds: BTreeMap<WorldAddress, WorldHistory>,
}

impl Histories {
    /// Retells a log. What cannot be understood is an error: only the store writes there.
    pub(crate) fn of(commits: &[Commit]) -> Result<Self, String> {
        let mut history = Self::default();
        for (number, commit) in commits.iter().enumerate() {
            for write in &commit.writes {
                let told = tell(commit.protocol, write)
                    .map_err(|why| format!("commit {number} ({}): {why}", commit.protocol))?;
                for (place, fact) in told {
                    history.worlds.entry(place).or_default().facts.push((number, fact));
                }
            }
        }
        Ok(history)
    }

    /// The whole history of a world, its ancestors' included, as bytes.
    pub(crate) fn lineage(&self, (universe, world): WorldAddress) -> Vec<Bytes> {
        let Some(history) = self.worlds.get(&(universe, world)) else { return Vec::new() };
        let parent = history.metas().find_map(|meta| meta.lineage.clone());
        let mut records = parent.map_or_else(Vec::new, |lineage| {
            let mut records = self.lineage((universe, lineage.parent));
            records.truncate(usize::try_from(lineage.forked_at.get()).unwrap_or(usize::MAX));
            records
        });
        records.extend(history.records().into_values().cloned());
        records
    }
}

fn tell(protocol: Protocol, write: &Write) -> Result<Vec<(WorldAddress, Fact)>, String> {
    let parts = Parts::of(write.key()).ok_or_else(|| format!("a key of no family: {:?}", write.key()))?;
    let place = parts.world.map(|world| (parts.universe, world));
    let fact = match (write, place) {
        (Write::Put(key, value), Some(place)) if parts.family == Family::JournalEntry => {
            let records = journal_entry::records(place.0, place.1, key, value).map_err(|error| error.to_string())?;
            let told = |record: StoredRecord| (place, Fact::Record(record.height, record.bytes));
            return Ok(records.into_iter().map(told).collect());
        }
        (Write::Put(key, value), Some(place)) => of_world(&parts, key, value)?.map(|fact| (place, fact)),
        (Write::Put(_, value), None) => of_universe(protocol, &parts, value)?,
        (Write::Clear(_, end), Some(place)) if parts.family == Family::JournalEntry => {
            let until = Parts::of(end).map(|end| height(end.rest)).transpose()?;
            let until = until.ok_or("a range of records without an end")?;
            Some((place, Fact::RecordsGone(height(parts.rest)?, until)))
        }
        (Write::Delete(_), Some(place)) if parts.family == Family::JournalEntry => {
            let at = height(parts.rest)?;
            Some((place, Fact::RecordsGone(at, at.next())))
        }
        _ => None,
    };
    Ok(fact.into_iter().collect())
}

fn of_world(parts: &Parts<'_>, key: &[u8], value: &Bytes) -> Result<Option<Fact>, String> {
    Ok(Some(match parts.family {
        Family::WorldMeta => Fact::Meta(decode(value)?),
        Family::Lease => Fact::Lease(decode(value)?),
        Family::LeaseTerm => Fact::Term(decode(value)?),
        Family::JournalHead => Fact::Head(journal_head::decode(key, value).map_err(|error| error.to_string())?),
        Family::InboxEntry => Fact::Item(InboxSeq::from_bytes(array(parts.rest)?), decode(value)?),
        Family::Baseline => Fact::Baseline(decode(value)?),
        Family::Snapshot => Fact::Snapshot,
        Family::ChildToken => match decode::<DispatchToken>(value)? {
            token if token.phase == Phase::Queued => Fact::Child(token.intent),
            _ => return Ok(None),
        },
        Family::OpenCall => Fact::Call(InboxSeq::from_bytes(array(parts.rest)?), decode(value)?),
        _ => return Ok(None),
    }))
}

fn of_universe(protocol: Protocol, parts: &Parts<'_>, value: &[u8]) -> Result<Option<(WorldAddress, Fact)>, String> {
    let (world, fact) = match parts.family {
        Family::Segment => {
            let world = parts.rest.first_chunk::<16>().ok_or("a short key")?;
            (WorldId::from_bytes(*world), Fact::Segment(decode(value)?))
        }
        Family::EffectPending => {
            let item: EffectItem = decode(value)?;
            (item.world, Fact::Effect(item))
        }
        // Published into a slot.
        Family::EffectInflight if protocol == Protocol::CommitTurn => {
            let EffectInflight { item, .. } = decode(value)?;
            (item.world, Fact::Effect(item))
        }
        Family::TimerDue => {
            let item: TimerItem = decode(value)?;
            (item.world, Fact::Timer(item))
        }
        _ => return Ok(None),
    };
    Ok(Some(((parts.universe, world), fact)))
}

fn decode<V: for<'b> minicbor::Decode<'b, ()> + minicbor::Encode<()>>(value: &[u8]) -> Result<V, String> {
    cbor::decode(value).map_err(|error| error.to_string())
}

fn height(rest: &[u8]) -> Result<Height, String> {
    array(rest).map(u64::from_be_bytes).map(Height::new)
}

fn array<const N: usize>(rest: &[u8]) -> Result<[u8; N], String> {
    rest.try_into().map_err(|_| format!("a key of {} bytes instead of {N}", rest.len()))
}

/// The name that a client or a world gave to what it sent: the script's first line.
pub(crate) fn id_of(item: &record::InboxItem) -> Option<String> {
    let inline = |payload: &record::Payload| match payload {
        record::Payload::Inline(bytes) => Some(bytes.clone()),
        record::Payload::Blob(..) => None,
    };
    let text = match &item.input {
        record::Input::Event { value, .. } => match cbor::decode(&inline(value)?).ok()? {
            mundi_model::Value::Text(text) => text,
            _ => return None,
        },
        record::Input::Message { payload, .. } => String::from_utf8(inline(payload)?).ok()?,
        _ => return None,
    };
    text.lines().next()?.strip_prefix("# ").map(str::to_owned)
}

/// The intents that a history closes by itself: those that it withdrew.
pub(crate) fn cancelled(history: &WorldHistory) -> Vec<IntentHash> {
    let cancel = |(_, body)| match body {
        record::Body::Cancel(intent) => Some(intent),
        _ => None,
    };
    history.journal().filter_map(cancel).collect()
}

//! Find worlds by what people know of them: name, labels, program, state, times, dead letters, open effects.
//!
//! Guarantees: each page is one consistent moment. One filter chooses what is read: the parent, a label, the manifests, the beginning of the name or
//! the state, in this order, by their indexes, so a page costs what it returns; the others are checked for each world found so. Without any of them all worlds are
//! read. Pages come in the order of ids, whatever several entries of an index are read (the versions of a program, the states of live worlds), unless another order is
//! asked for; those of one name prefix or one label without a value come in the order of names or values. A world is on one page only, unless it changes meanwhile. A page ends after a bounded number of
//! looks, or where its transaction has grown too old.
//! Dead letters and open effects lie in queues that know no order of worlds. They are read a part at a time, and the worlds of one part are listed before the next part is
//! read: the order holds within a part, and a world with items in two parts is listed twice.
//! Unknown commit: cannot be; it writes nothing.

use crate::protocol::{
    WorldError, WorldFilter, WorldSummary,
    page::{Page, Room},
    worlds::list_worlds::first_of,
};
use crate::{
    OnUnknown, Protocol, StoreError,
    keyspace::{
        Family, Span,
        dead_letter::DeadLetter,
        decode_value, effect_inflight, effect_pending,
        effect_place::EffectStage,
        forked_world,
        named_world::{self, NamedWorld},
        world_index::{self, Indexed},
        world_meta::{self, ListedState, WorldMeta},
    },
};
use mundi_engine::{EngineError, Transaction};
use mundi_model::{Hash, UniverseId, WorldId, hex, limits, parse_hex_bytes};
use std::{collections::BTreeSet, fmt, str::FromStr};

/// Entries of one value that are read at least, where several values are merged.
const MERGED_ENTRIES_MIN: usize = 16;

/// Which worlds are wanted. What is `None` or empty is not asked for.
#[derive(Debug, Clone, Default)]
pub struct WorldQuery {
    pub filter: WorldFilter,
    /// Only this one.
    pub world: Option<WorldId>,
    /// `Live` takes those, too, that are paused or on hold.
    pub state: Option<ListedState>,
    pub name_prefix: Option<String>,
    /// Only names from this one on, byte by byte.
    pub name_from: Option<String>,
    /// Only names before this one.
    pub name_before: Option<String>,
    /// In small or large letters.
    pub name_contains: Option<String>,
    /// All of these labels; without a value, with any.
    pub labels: Vec<(String, Option<String>)>,
    /// Any of these.
    pub manifests: Option<BTreeSet<Hash>>,
    pub created_from_ns: Option<u64>,
    pub created_before_ns: Option<u64>,
    pub active_from_ns: Option<u64>,
    /// Those that were never active are taken, too.
    pub active_before_ns: Option<u64>,
    /// Only worlds that have one.
    pub has_dead_letters: bool,
    /// Only worlds with an open effect that was published before this time.
    pub effects_before_ns: Option<u64>,
    pub order: WorldOrder,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WorldOrder {
    /// By id; of a name prefix by name, of a label without a value by value.
    #[default]
    Id,
    /// Only worlds that have a name.
    Name,
    Created,
    /// By time of creation, the newest first.
    Newest,
    /// By last activity, the latest first; those that were never opened last.
    Active,
}

impl WorldOrder {
    /// An index is read from its end.
    const fn is_reversed(self) -> bool {
        matches!(self, Self::Newest | Self::Active)
    }
}

/// Where a page ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorldCursor {
    World(WorldId),
    /// At this entry of an index, without its universe.
    Entry(Vec<u8>),
    /// Among the worlds that a later part of the queues names.
    Part(Part, Option<Box<Self>>),
}

/// Which parts of the queues name the wanted worlds: those behind these keys, each without its universe; `None` for the first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Part {
    letters: Option<Vec<u8>>,
    effects: Option<Vec<u8>>,
}

impl fmt::Display for WorldCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::World(world) => world.fmt(f),
            Self::Entry(entry) => write!(f, "i_{}", hex(entry)),
            Self::Part(Part { letters, effects }, after) => {
                let key = |key: &Option<Vec<u8>>| key.as_deref().map(hex).unwrap_or_default();
                write!(f, "q_{}.{}.", key(letters), key(effects))?;
                after.iter().try_for_each(|after| after.fmt(f))
            }
        }
    }
}

impl FromStr for WorldCursor {
    type Err = StoreError;

    fn from_str(text: &str) -> Result<Self, StoreError> {
        let invalid = || StoreError::from(WorldError::CursorInvalid);
        let key = |hex: &str| match hex.len() <= 2 * limits::KEY_BYTES_MAX {
            true => parse_hex_bytes(hex).ok_or_else(invalid),
            false => Err(invalid()),
        };
        if let Some(entry) = text.strip_prefix("i_") {
            return key(entry).map(Self::Entry);
        }
        let Some(part) = text.strip_prefix("q_") else { return text.parse().map(Self::World).map_err(|_| invalid()) };
        let mut fields = part.splitn(3, '.');
        let mut place = || match fields.next() {
            Some("") => Ok(None),
            Some(hex) => key(hex).map(Some),
            None => Err(invalid()),
        };
        let part = Part { letters: place()?, effects: place()? };
        match fields.next() {
            Some("") => Ok(Self::Part(part, None)),
            Some(after) if !after.starts_with("q_") => Ok(Self::Part(part, Some(Box::new(after.parse()?)))),
            _ => Err(invalid()),
        }
    }
}

#[derive(Debug, Clone)]
pub struct FindWorlds {
    pub universe: UniverseId,
    pub query: WorldQuery,
    pub after: Option<WorldCursor>,
    pub items_max: usize,
}

/// The index that they are read from.
#[derive(Debug, PartialEq, Eq)]
enum Source {
    /// All worlds.
    Worlds,
    /// These.
    Listed(BTreeSet<WorldId>),
    /// Entries of these indexes, in ascending order.
    Entries(Vec<Span>),
}

/// A part of an answer, and what was read for it.
type Found = Page<WorldSummary, WorldCursor>;

impl WorldQuery {
    fn source(&self, universe: UniverseId, listed: Option<&BTreeSet<WorldId>>) -> Source {
        let index = |what| world_index::span(universe, what);
        let names = || vec![self.names(universe)];
        // A world without a name has the empty prefix, too.
        let has_prefix = self.name_prefix.as_ref().is_some_and(|prefix| !prefix.is_empty());
        let is_named = has_prefix || self.name_from.is_some() || self.name_before.is_some();
        if let Some(world) = self.world {
            return Source::Listed([world].into());
        }
        match (self.order, listed, self.filter.parent, self.labels.first(), &self.manifests) {
            (WorldOrder::Name, ..) => Source::Entries(names()),
            (WorldOrder::Created | WorldOrder::Newest, ..) => {
                let from_ns = self.created_from_ns.unwrap_or(0);
                Source::Entries(vec![world_index::created(universe, from_ns, self.created_before_ns)])
            }
            (WorldOrder::Active, ..) => {
                let from_ns = self.active_from_ns.unwrap_or(0);
                Source::Entries(vec![world_index::active(universe, from_ns, self.active_before_ns)])
            }
            (_, Some(listed), ..) => Source::Listed(listed.clone()),
            (_, _, Some(parent), ..) => Source::Entries(vec![forked_world::prefix(universe, parent).span()]),
            (_, _, _, Some((name, Some(value))), _) => Source::Entries(vec![index(Indexed::Label(name, value))]),
            (_, _, _, Some((name, None)), _) => Source::Entries(vec![world_index::with_label(universe, name)]),
            (.., Some(manifests)) => {
                Source::Entries(manifests.iter().map(|manifest| index(Indexed::Manifest(*manifest))).collect())
            }
            _ if is_named => Source::Entries(names()),
            _ => match self.state {
                Some(state) => {
                    Source::Entries(states(state).iter().map(|state| index(Indexed::State(*state))).collect())
                }
                None => Source::Worlds,
            },
        }
    }

    /// The entries of the names that are wanted.
    fn names(&self, universe: UniverseId) -> Span {
        let (from, before) = (self.name_from.as_deref(), self.name_before.as_deref());
        named_world::between(universe, self.name_prefix.as_deref().unwrap_or_default(), from, before)
    }

    fn takes(&self, found: &WorldSummary, listed: Option<&BTreeSet<WorldId>>) -> bool {
        let WorldSummary { world, meta, manifest, active_at_ns, .. } = found;
        let within = |at_ns: u64, from_ns: Option<u64>, before_ns: Option<u64>| {
            from_ns.is_none_or(|from_ns| at_ns >= from_ns) && before_ns.is_none_or(|before_ns| at_ns < before_ns)
        };
        let state = match self.state {
            Some(state) => states(state).contains(&meta.listed_state()),
            None => true,
        };
        state
            && self.filter_of(meta).takes(found)
            && listed.is_none_or(|listed| listed.contains(world))
            && self.takes_name(meta.name.as_deref())
            && self.takes_labels(meta)
            && self.manifests.as_ref().is_none_or(|wanted| manifest.is_some_and(|manifest| wanted.contains(&manifest)))
            && within(meta.created_at_ns, self.created_from_ns, self.created_before_ns)
            && within(active_at_ns.unwrap_or(0), self.active_from_ns, self.active_before_ns)
    }

    /// A state that is asked for takes deleted worlds, too.
    fn filter_of(&self, meta: &WorldMeta) -> WorldFilter {
        let state = self.filter.state.or(self.state.map(|_| meta.state));
        WorldFilter { state, ..self.filter }
    }

    fn takes_name(&self, name: Option<&str>) -> bool {
        if name.is_none() && (self.name_from.is_some() || self.name_before.is_some()) {
            return false;
        }
        let name = name.unwrap_or_default();
        self.name_prefix.as_deref().is_none_or(|prefix| name.starts_with(prefix))
            && self.name_from.as_deref().is_none_or(|from| name >= from)
            && self.name_before.as_deref().is_none_or(|before| name < before)
            && self.name_contains.as_deref().is_none_or(|part| contains(name, part))
    }

    fn takes_labels(&self, meta: &WorldMeta) -> bool {
        self.labels.iter().all(|(name, wanted)| match (meta.label(name), wanted) {
            (Some(value), Some(wanted)) => value == wanted,
            (value, None) => value.is_some(),
            (None, Some(_)) => false,
        })
    }
}

/// Whether a name contains a part, in small or large letters: names are ASCII.
fn contains(name: &str, part: &str) -> bool {
    part.is_empty() || name.as_bytes().windows(part.len()).any(|window| window.eq_ignore_ascii_case(part.as_bytes()))
}

/// Those that a wanted state stands for.
fn states(wanted: ListedState) -> &'static [ListedState] {
    match wanted {
        ListedState::Live => &[ListedState::Live, ListedState::Paused, ListedState::OnHold],
        ListedState::Paused => &[ListedState::Paused],
        ListedState::OnHold => &[ListedState::OnHold],
        ListedState::Archived => &[ListedState::Archived],
        ListedState::Deleting => &[ListedState::Deleting],
        ListedState::Deleted => &[ListedState::Deleted],
    }
}

impl Protocol for FindWorlds {
    type Output = Page<WorldSummary, WorldCursor>;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<Found, StoreError> {
        let (part, after) = match &self.after {
            Some(WorldCursor::Part(part, after)) => (part.clone(), after.as_deref().cloned()),
            after => (Part::default(), after.clone()),
        };
        let Listed { worlds: listed, next } = self.listed(tx, &part).await?;
        let found = Self { after, ..self.clone() }.of_part(tx, listed).await?;
        let next = match (found.next, next) {
            (Some(after), _) if part == Part::default() => Some(after),
            (Some(after), _) => Some(WorldCursor::Part(part, Some(Box::new(after)))),
            (None, next) => next.map(|part| WorldCursor::Part(part, None)),
        };
        Ok(Page { next, ..found })
    }
}

/// The worlds that a part of the queues names, if the queues are asked, and the next part.
struct Listed {
    worlds: Option<BTreeSet<WorldId>>,
    next: Option<Part>,
}

impl FindWorlds {
    async fn of_part<T: Transaction>(
        &self,
        tx: &mut T,
        listed: Option<BTreeSet<WorldId>>,
    ) -> Result<Found, StoreError> {
        match self.query.source(self.universe, listed.as_ref()) {
            Source::Worlds => self.of_all(tx).await,
            Source::Listed(worlds) => self.of_listed(tx, &worlds).await,
            Source::Entries(spans) if spans.len() > 1 => self.of_merged(tx, spans, listed.as_ref()).await,
            Source::Entries(spans) => self.of_entries(tx, spans, listed.as_ref()).await,
        }
    }

    fn after_world(&self) -> Result<Option<WorldId>, StoreError> {
        match &self.after {
            None => Ok(None),
            Some(WorldCursor::World(world)) => Ok(Some(*world)),
            Some(WorldCursor::Entry(_) | WorldCursor::Part(..)) => Err(WorldError::CursorInvalid.into()),
        }
    }

    async fn of_all<T: Transaction>(&self, tx: &mut T) -> Result<Found, StoreError> {
        let universe = self.universe;
        let end_of = |world| world_meta::world_prefix(universe, world).span().end;
        let mut span = world_meta::worlds_prefix(universe).span();
        let mut last = self.after_world()?;
        let (mut page, mut room) = (Found::new(), Room::new(self.items_max));
        loop {
            if let Some(last) = last {
                span.start = end_of(last);
            }
            let found = match first_of(tx, universe, &span).await {
                Err(StoreError::Engine(EngineError::TooOld)) if last != self.after_world()? => {
                    page.next = last.map(WorldCursor::World);
                    return Ok(page);
                }
                found => found?,
            };
            let Some((world, summary)) = found else { return Ok(page) };
            let summary = summary.filter(|found| self.query.takes(found, None));
            room.spend(summary.is_some());
            page.items.extend(summary);
            last = Some(world);
            if room.is_spent() {
                page.next = Some(WorldCursor::World(world));
                return Ok(page);
            }
        }
    }

    async fn of_listed<T: Transaction>(&self, tx: &mut T, worlds: &BTreeSet<WorldId>) -> Result<Found, StoreError> {
        let (mut page, mut room, after) = (Found::new(), Room::new(self.items_max), self.after_world()?);
        for world in worlds.iter().filter(|world| after.is_none_or(|after| **world > after)) {
            if room.is_spent() {
                return Ok(page);
            }
            page.next = Some(WorldCursor::World(*world));
            let summary = WorldSummary::fetch(tx, self.universe, *world).await?;
            let summary = summary.filter(|found| self.query.takes(found, None));
            room.spend(summary.is_some());
            page.items.extend(summary);
        }
        page.next = None;
        Ok(page)
    }

    /// Entries of several values of an index, whose keys end with the world: in the order of worlds. Of each value as much is read as may be needed;
    /// the page ends where one of them was not read on.
    async fn of_merged<T: Transaction>(
        &self,
        tx: &mut T,
        spans: Vec<Span>,
        listed: Option<&BTreeSet<WorldId>>,
    ) -> Result<Found, StoreError> {
        let (mut page, mut room, after) = (Found::new(), Room::new(self.items_max), self.after_world()?);
        let each = room.looks().div_ceil(spans.len()).max(MERGED_ENTRIES_MIN);
        let (mut worlds, mut until) = (BTreeSet::new(), None::<WorldId>);
        for span in spans {
            let prefix = span.start.as_bytes().to_vec();
            let span = match after {
                Some(after) => span.after_bytes(&[&prefix[..], after.as_bytes()].concat()),
                None => span,
            };
            let read = tx.range(span.read(each).snapshot()).await?;
            let found = read.items.iter().map(|(key, value)| world_at(key, value)).collect::<Result<Vec<_>, _>>()?;
            if read.more {
                until = found.last().copied().into_iter().chain(until).min();
            }
            worlds.extend(found);
        }
        for world in worlds.into_iter().take_while(|world| until.is_none_or(|until| *world <= until)) {
            let summary = match WorldSummary::fetch(tx, self.universe, world).await {
                // The next page begins behind the world before.
                Err(StoreError::Engine(EngineError::TooOld)) if page.next.is_some() => return Ok(page),
                summary => summary?,
            };
            let summary = summary.filter(|found| self.query.takes(found, listed));
            room.spend(summary.is_some());
            page.items.extend(summary);
            page.next = Some(WorldCursor::World(world));
            if room.is_spent() {
                return Ok(page);
            }
        }
        page.next = until.map(WorldCursor::World);
        Ok(page)
    }

    async fn of_entries<T: Transaction>(
        &self,
        tx: &mut T,
        spans: Vec<Span>,
        listed: Option<&BTreeSet<WorldId>>,
    ) -> Result<Found, StoreError> {
        let (mut page, mut room) = (Found::new(), Room::new(self.items_max));
        for mut span in self.rest_of(spans)? {
            loop {
                let read = span.read(room.chunk()).snapshot();
                let is_reversed = self.query.order.is_reversed();
                let read = match tx.range(if is_reversed { read.reverse() } else { read }).await {
                    // The next page begins behind the entry before.
                    Err(EngineError::TooOld) if page.next.is_some() => return Ok(page),
                    read => read?,
                };
                for (key, value) in &read.items {
                    let summary = match WorldSummary::fetch(tx, self.universe, world_at(key, value)?).await {
                        Err(StoreError::Engine(EngineError::TooOld)) if page.next.is_some() => return Ok(page),
                        summary => summary?,
                    };
                    let summary = summary.filter(|found| self.query.takes(found, listed));
                    room.spend(summary.is_some());
                    page.items.extend(summary);
                    page.next = Some(WorldCursor::Entry(key.get(UniverseId::LEN..).unwrap_or_default().to_vec()));
                    if room.is_spent() {
                        return Ok(page);
                    }
                }
                match read.items.last() {
                    Some((last, _)) if read.more => span = self.behind(span, last),
                    _ => break,
                }
            }
        }
        page.next = None;
        Ok(page)
    }

    /// The part of a span behind an entry, in the order that is asked for.
    fn behind(&self, span: Span, entry: &[u8]) -> Span {
        match self.query.order.is_reversed() {
            true => span.before_bytes(entry),
            false => span.after_bytes(entry),
        }
    }

    /// The spans behind the page before.
    fn rest_of(&self, spans: Vec<Span>) -> Result<Vec<Span>, StoreError> {
        let entry = match &self.after {
            None => return Ok(spans),
            Some(WorldCursor::World(_) | WorldCursor::Part(..)) => return Err(WorldError::CursorInvalid.into()),
            Some(WorldCursor::Entry(entry)) => [&self.universe.as_bytes()[..], entry].concat(),
        };
        let holds = |span: &Span| span.start.as_bytes() <= &entry[..] && &entry[..] < span.end.as_bytes();
        let at = spans.iter().position(holds).ok_or(WorldError::CursorInvalid)?;
        let mut rest: Vec<Span> = spans.into_iter().skip(at).collect();
        if let Some(first) = rest.first_mut() {
            *first = self.behind(first.clone(), &entry);
        }
        Ok(rest)
    }

    /// Worlds with dead letters or old effects, of one part of each queue. Both parts together are one part: effects are read to their end for each part of the letters.
    async fn listed<T: Transaction>(&self, tx: &mut T, part: &Part) -> Result<Listed, StoreError> {
        let letters = match self.query.has_dead_letters {
            true => Some(self.with_letters(tx, part.letters.as_deref()).await?),
            false => None,
        };
        let effects = match self.query.effects_before_ns {
            Some(before_ns) => Some(self.with_effects(tx, before_ns, part.effects.as_deref()).await?),
            None => None,
        };
        let (letters, next_letters) = letters.unzip();
        let (effects, next_effects) = effects.unzip();
        let next = match (next_effects.flatten(), next_letters.flatten()) {
            (Some(effects), _) => Some(Part { effects: Some(effects), ..part.clone() }),
            (None, Some(letters)) => Some(Part { letters: Some(letters), effects: None }),
            (None, None) => None,
        };
        let worlds = match (letters, effects) {
            (Some(letters), Some(effects)) => Some(letters.intersection(&effects).copied().collect()),
            (letters, effects) => letters.or(effects),
        };
        Ok(Listed { worlds, next })
    }

    async fn with_letters<T: Transaction>(&self, tx: &mut T, behind: Option<&[u8]>) -> Result<Looked, StoreError> {
        let mut worlds = BTreeSet::new();
        let mut look = |_: usize, key: &[u8], bytes: &[u8]| {
            worlds.extend(decode_value::<DeadLetter>(Family::DeadLetter, key, bytes)?.world);
            Ok(())
        };
        let next = self.look_at_part(tx, &[Family::DeadLetter.prefix(self.universe).span()], behind, &mut look).await?;
        Ok((worlds, next))
    }

    async fn with_effects<T: Transaction>(
        &self,
        tx: &mut T,
        before_ns: u64,
        behind: Option<&[u8]>,
    ) -> Result<Looked, StoreError> {
        let mut worlds = BTreeSet::new();
        let mut look = |stage: usize, key: &[u8], bytes: &[u8]| {
            let item = match EffectStage::ALL[stage] {
                EffectStage::Claimed => effect_inflight::decode(key, bytes)?.item,
                EffectStage::Pending | EffectStage::Waiting => effect_pending::decode(key, bytes)?,
            };
            worlds.extend((item.published_at_ns < before_ns).then_some(item.world));
            Ok(())
        };
        let spans = EffectStage::ALL.map(|stage| stage.family().prefix(self.universe).span());
        let next = self.look_at_part(tx, &spans, behind, &mut look).await?;
        Ok((worlds, next))
    }

    /// Looks at a bounded number of the items of a queue behind a key, page by page: what they carry can be large. Returns the key behind which the next part
    /// begins, if there is one.
    async fn look_at_part<T: Transaction, L: FnMut(usize, &[u8], &[u8]) -> Result<(), StoreError> + Send>(
        &self,
        tx: &mut T,
        spans: &[Span],
        behind: Option<&[u8]>,
        look: &mut L,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        let behind = behind.map(|key| [&self.universe.as_bytes()[..], key].concat());
        let first = match &behind {
            None => 0,
            Some(key) => {
                let holds = |span: &Span| span.start.as_bytes() <= &key[..] && &key[..] < span.end.as_bytes();
                spans.iter().position(holds).ok_or(WorldError::CursorInvalid)?
            }
        };
        let mut left = limits::QUEUE_ITEMS_LOOKED_AT_MAX;
        for (at, span) in spans.iter().enumerate().skip(first) {
            let mut span = match &behind {
                Some(key) if at == first => span.clone().after_bytes(key),
                _ => span.clone(),
            };
            loop {
                let page = tx.range(span.read(left.min(limits::LIST_LOOKS_MAX)).snapshot()).await?;
                page.items.iter().try_for_each(|(key, bytes)| look(at, key, bytes))?;
                left -= page.items.len();
                let Some((last, _)) = page.items.last() else { break };
                if left == 0 {
                    return Ok(Some(last.get(UniverseId::LEN..).unwrap_or_default().to_vec()));
                }
                if !page.more {
                    break;
                }
                span = span.after_bytes(last);
            }
        }
        Ok(None)
    }
}

/// Worlds that a part of a queue names, and the key behind which the next part begins.
type Looked = (BTreeSet<WorldId>, Option<Vec<u8>>);

/// The world that an entry stands for.
fn world_at(key: &[u8], value: &[u8]) -> Result<WorldId, StoreError> {
    if key.get(UniverseId::LEN) == Some(&(Family::NamedWorld as u8)) {
        return decode_value::<NamedWorld>(Family::NamedWorld, key, value).map(|named| named.world);
    }
    Ok(world_index::world_of(key).ok_or(WorldError::CursorInvalid)?)
}

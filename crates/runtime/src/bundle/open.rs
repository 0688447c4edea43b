//! Reading a bundle from any place that can be read twice: once to check every byte, then what is asked for.

use super::{
    BundleError,
    format::{Ancestor, End, FORMAT, FORMAT_CHILDREN, Header, Kind, Large, Packed, Sealed},
    frames::{Frame, FrameReader, Mark},
};
use mundi_kernel::{
    LoadError, Objects,
    manifest::{Manifest, ManifestError},
};
use mundi_model::{
    Hash, Hasher, Height, cbor, limits,
    record::{Body, Record, SnapshotNote},
};
use mundi_store::{protocol::CarriedChildren, reachability::refs_of_record};
use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, BTreeSet},
    io::{Read, Seek, SeekFrom},
    sync::Arc,
};

/// A bundle of which every frame, every object and every link of the chain was checked. Whether the history replays is
/// another question: [`Bundle::verify`].
pub struct Bundle<R> {
    source: Mutex<Source<R>>,
    header: Header,
    notes: Vec<SnapshotNote>,
    objects: BTreeMap<Hash, ObjectPosition>,
    object_bytes: u64,
    /// An object to which neither a record nor a snapshot nor another object refers.
    unreferred: Option<Hash>,
    /// From which height on which manifest holds.
    manifests: Vec<(Height, Hash)>,
    children: Option<CarriedChildren>,
    /// Where the first object is, and where the first record.
    first_object: Mark,
    first_record: Mark,
}

struct Source<R> {
    read: R,
    /// The frame of small objects that was read last: neighbours are asked for together.
    last: Option<(u64, Vec<Packed>)>,
}

/// The position of an object.
#[derive(Debug, Clone, Copy)]
struct ObjectPosition {
    frame: Mark,
    /// Its place in the frame; `None` for a large one, whose parts follow.
    index: Option<u32>,
}

/// Records of one frame, as their canonical bytes.
pub(super) type Page = Vec<(Height, Vec<u8>)>;

/// An object as it is read from the front.
pub(super) enum Item {
    Small(Packed),
    Large(Large),
    Part(Vec<u8>),
}

impl<R: Read + Seek> Bundle<R> {
    /// Reads all of it once.
    pub fn open(mut source: R) -> Result<Self, BundleError> {
        let unreadable = |error: std::io::Error| BundleError::Unreadable { offset: 0, cause: error.to_string() };
        source.seek(SeekFrom::Start(0)).map_err(unreadable)?;
        let mut reader = FrameReader::new(std::io::BufReader::with_capacity(1 << 16, &mut source))?;
        let frame = reader.next()?;
        let header: Header = one(&frame, Kind::Header)?;
        if ![FORMAT, FORMAT_CHILDREN].contains(&header.format) {
            return Err(BundleError::Format { found: header.format, known: FORMAT_CHILDREN });
        }
        let first_object = reader.mark();
        let (mut objects, snapshots) = read_objects(&mut reader)?;
        let notes: Vec<SnapshotNote> = many(&snapshots, Kind::Snapshots)?;
        notes.iter().chain([&header.baseline]).for_each(|note| objects.refer(&note.snapshot));
        let first_record = reader.mark();
        let (records, behind) = read_records(&mut reader, &header, &mut objects)?;
        let (children, end) = read_children(&mut reader, &header, behind)?;
        let said: End = one(&end, Kind::End)?;
        let is = End { objects: objects.places.len() as u64, object_bytes: objects.bytes, records: records.count };
        let wrong = |what: &str| BundleError::Frame { offset: end.offset, what: what.to_owned() };
        if said != is {
            return Err(wrong("it counts other things than there are"));
        }
        if !reader.at_end()? {
            return Err(wrong("something follows it"));
        }
        if !notes.is_sorted_by(|a, b| a.height < b.height) || notes.len() > limits::BUNDLE_SNAPSHOTS_MAX {
            return Err(BundleError::Frame { offset: snapshots.offset, what: "its snapshots are out of order".into() });
        }
        drop(reader);
        Ok(Self {
            source: Mutex::new(Source { read: source, last: None }),
            header,
            notes,
            object_bytes: objects.bytes,
            objects: objects.places,
            unreferred: objects.unreferred.first().copied(),
            manifests: records.manifests,
            children,
            first_object,
            first_record,
        })
    }

    pub fn header(&self) -> &Header {
        &self.header
    }

    pub fn snapshots(&self) -> &[SnapshotNote] {
        &self.notes
    }

    pub fn objects(&self) -> u64 {
        self.objects.len() as u64
    }

    pub fn object_bytes(&self) -> u64 {
        self.object_bytes
    }

    pub(super) fn unreferred(&self) -> Option<Hash> {
        self.unreferred
    }

    /// The children that travel with the world.
    pub fn children(&self) -> Option<&CarriedChildren> {
        self.children.as_ref()
    }

    /// The programs of all heights.
    pub fn programs(&self) -> Result<BTreeSet<Hash>, ManifestError> {
        let program = |(_, manifest): &(Height, Hash)| Ok(Manifest::from_bytes(&self.load(manifest)?)?.program);
        self.manifests.iter().map(program).collect()
    }

    pub(super) fn manifests(&self) -> &[(Height, Hash)] {
        &self.manifests
    }

    /// The records from a height on, frame by frame. They were checked; they are checked again, because a file may change.
    pub(crate) fn for_each_record<E: From<BundleError>>(
        &self,
        mut each: impl FnMut(Height, Vec<u8>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut mark = self.first_record;
        while let Some((records, next)) = self.records_at(mark)? {
            mark = next;
            records.into_iter().try_for_each(|(height, bytes)| each(height, bytes))?;
        }
        Ok(())
    }

    /// The mark of the first frame of records.
    pub(super) fn first_record(&self) -> Mark {
        self.first_record
    }

    /// The records of one frame, and where the next frame begins; `None` at the end.
    pub(super) fn records_at(&self, mark: Mark) -> Result<Option<(Page, Mark)>, BundleError> {
        let (frame, next) = self.frame_at(mark)?;
        if frame.kind != Kind::Records {
            return Ok(None);
        }
        let sealed: Vec<Sealed> = decode(&frame, Kind::Records)?;
        let heights = (frame.first..).map(Height::new);
        Ok(Some((heights.zip(sealed).map(|(height, Sealed(bytes))| (height, bytes)).collect(), next)))
    }

    pub(super) fn first_object(&self) -> Mark {
        self.first_object
    }

    /// The contents of one frame of objects, and where the next frame begins; `None` when there are no more.
    pub(super) fn objects_at(&self, mark: Mark) -> Result<Option<(Vec<Item>, Mark)>, BundleError> {
        let (frame, next) = self.frame_at(mark)?;
        let items = match frame.kind {
            Kind::Objects => decode::<Vec<Packed>>(&frame, Kind::Objects)?.into_iter().map(Item::Small).collect(),
            Kind::Large => vec![Item::Large(decode(&frame, Kind::Large)?)],
            Kind::Part => vec![Item::Part(frame.raw)],
            _ => return Ok(None),
        };
        Ok(Some((items, next)))
    }

    fn frame_at(&self, mark: Mark) -> Result<(Frame, Mark), BundleError> {
        let source = &mut self.source.lock().read;
        let unreadable =
            |error: std::io::Error| BundleError::Unreadable { offset: mark.offset, cause: error.to_string() };
        source.seek(SeekFrom::Start(mark.offset)).map_err(unreadable)?;
        let mut reader = FrameReader::resume(source, mark);
        let frame = reader.next()?;
        let next = reader.mark();
        Ok((frame, next))
    }

    /// The references of an object; none for one that is not here.
    pub(super) fn refs(&self, hash: &Hash) -> Result<Vec<Hash>, BundleError> {
        match self.objects.get(hash) {
            Some(ObjectPosition { frame, index: Some(index) }) => {
                self.small(*frame, *index, |object| object.refs.clone())
            }
            Some(ObjectPosition { frame, index: None }) => {
                Ok(decode::<Large>(&self.frame_at(*frame)?.0, Kind::Large)?.refs)
            }
            None => Ok(Vec::new()),
        }
    }

    fn small<V: Default>(&self, mark: Mark, index: u32, of: impl Fn(&Packed) -> V) -> Result<V, BundleError> {
        let index = index as usize;
        let of = |objects: &[Packed]| objects.get(index).map(&of).unwrap_or_default();
        if let Some((offset, objects)) = &self.source.lock().last
            && *offset == mark.offset
        {
            return Ok(of(objects));
        }
        let (frame, _) = self.frame_at(mark)?;
        let objects: Vec<Packed> = decode(&frame, Kind::Objects)?;
        let value = of(&objects);
        self.source.lock().last = Some((mark.offset, objects));
        Ok(value)
    }

    fn load_large(&self, mark: Mark) -> Result<Option<Vec<u8>>, BundleError> {
        let (frame, mut next) = self.frame_at(mark)?;
        let Large { size, .. } = decode(&frame, Kind::Large)?;
        if size > limits::BLOB_WHOLE_BYTES_MAX {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        while (bytes.len() as u64) < size {
            let (part, after) = self.frame_at(next)?;
            bytes.extend_from_slice(&part.raw);
            next = after;
        }
        Ok(Some(bytes))
    }
}

impl<R: Read + Seek> Objects for Bundle<R> {
    fn load(&self, hash: &Hash) -> Result<Arc<[u8]>, LoadError> {
        let place = self.objects.get(hash).ok_or(LoadError::Missing(*hash))?;
        let bytes = match place.index {
            Some(index) => self.small(place.frame, index, |object| Some(object.bytes.clone())),
            None => self.load_large(place.frame),
        };
        let bytes = bytes.map_err(|error| LoadError::Corrupt { hash: *hash, why: error.to_string() })?;
        bytes.map(Arc::from).ok_or(LoadError::Missing(*hash))
    }

    fn contains(&self, hash: &Hash) -> Result<bool, LoadError> {
        Ok(self.objects.contains_key(hash))
    }
}

fn decode<T: for<'b> minicbor::Decode<'b, ()> + minicbor::Encode<()>>(
    frame: &Frame,
    kind: Kind,
) -> Result<T, BundleError> {
    if frame.kind != kind {
        return Err(frame.wrong(format!("it holds {:?} where {kind:?} belong", frame.kind)));
    }
    cbor::decode(&frame.raw).map_err(|error| frame.wrong(error.to_string()))
}

/// A frame with one object.
fn one<T: for<'b> minicbor::Decode<'b, ()> + minicbor::Encode<()>>(
    frame: &Frame,
    kind: Kind,
) -> Result<T, BundleError> {
    let value = decode(frame, kind)?;
    frame.states(0, 1).map(|()| value)
}

/// A frame that holds a list, and says how long it is.
fn many<T: for<'b> minicbor::Decode<'b, ()> + minicbor::Encode<()>>(
    frame: &Frame,
    kind: Kind,
) -> Result<Vec<T>, BundleError> {
    let values: Vec<T> = decode(frame, kind)?;
    frame.states(0, values.len()).map(|()| values)
}

/// All objects of a bundle.
#[derive(Default)]
struct Found {
    places: BTreeMap<Hash, ObjectPosition>,
    bytes: u64,
    /// Those to which nothing refers that was read so far.
    unreferred: BTreeSet<Hash>,
}

impl Found {
    /// A bundle contains an object once, after the objects that it refers to.
    fn add(&mut self, frame: &Frame, hash: Hash, place: ObjectPosition, refs: &[Hash]) -> Result<(), BundleError> {
        if let Some(missing) = refs.iter().find(|hash| !self.places.contains_key(hash)) {
            return Err(frame.wrong(format!("an object refers to {missing}, which does not stand before it")));
        }
        refs.iter().for_each(|hash| self.refer(hash));
        self.unreferred.insert(hash);
        match self.places.insert(hash, place) {
            Some(_) => Err(frame.wrong(format!("{hash} stands in it twice"))),
            None => Ok(()),
        }
    }

    fn refer(&mut self, hash: &Hash) {
        self.unreferred.remove(hash);
    }
}

/// Checks all objects; returns where each is, and the frame that follows them.
fn read_objects<R: Read>(reader: &mut FrameReader<R>) -> Result<(Found, Frame), BundleError> {
    let mut found = Found::default();
    loop {
        let mark = reader.mark();
        let frame = reader.next()?;
        match frame.kind {
            Kind::Objects => {
                for (index, object) in (0u32..).zip(many::<Packed>(&frame, Kind::Objects)?) {
                    found.bytes += object.bytes.len() as u64;
                    let place = ObjectPosition { frame: mark, index: Some(index) };
                    found.add(&frame, Hash::of(&object.bytes), place, &object.refs)?;
                }
            }
            Kind::Large => {
                let large: Large = one(&frame, Kind::Large)?;
                let (mut hasher, mut read) = (Hasher::new(), 0u64);
                while read < large.size {
                    let part = reader.next()?;
                    if part.kind != Kind::Part || part.raw.is_empty() {
                        return Err(frame.wrong(format!("a part of {} is missing", large.hash)));
                    }
                    part.states(0, 1)?;
                    hasher.update(&part.raw);
                    read += part.raw.len() as u64;
                }
                if hasher.finish() != large.hash || read != large.size {
                    return Err(frame.wrong(format!("the bytes of {} are others", large.hash)));
                }
                found.bytes += large.size;
                found.add(&frame, large.hash, ObjectPosition { frame: mark, index: None }, &large.refs)?;
            }
            _ => return Ok((found, frame)),
        }
    }
}

/// The children, if they stand behind the records, and the frame that follows.
fn read_children<R: Read>(
    reader: &mut FrameReader<R>,
    header: &Header,
    frame: Frame,
) -> Result<(Option<CarriedChildren>, Frame), BundleError> {
    if header.format != FORMAT_CHILDREN {
        return Ok((None, frame));
    }
    let children: CarriedChildren = one(&frame, Kind::Children)?;
    children.check(header.world).map_err(|what| frame.wrong(what))?;
    Ok((Some(children), reader.next()?))
}

struct Records {
    count: u64,
    manifests: Vec<(Height, Hash)>,
}

/// Checks that the records are contiguous, chained up to the head, and of the worlds that the header names; notes which objects
/// they refer to. Returns the frame that follows them.
fn read_records<R: Read>(
    reader: &mut FrameReader<R>,
    header: &Header,
    objects: &mut Found,
) -> Result<(Records, Frame), BundleError> {
    let mut records = Records { count: 0, manifests: Vec::new() };
    let (mut next, mut chain) = (Height::GENESIS, Record::CHAIN_START);
    let (mut lineage, mut lives) = (header.lineage.iter(), None);
    loop {
        let frame = reader.next()?;
        let wrong = |height: Height, what: &str| BundleError::Record { height, what: what.to_owned() };
        if frame.kind != Kind::Records {
            if (next, chain) != (header.head, header.chain) {
                let what = format!("the records end before it with {chain}, and the header says {}", header.chain);
                return Err(BundleError::Record { height: next.min(header.head), what });
            }
            if lineage.next().is_some() || lives != Some((header.universe, header.world)) {
                return Err(wrong(header.head, "the header names another world than the records end with"));
            }
            return Ok((records, frame));
        }
        let sealed: Vec<Sealed> = decode(&frame, Kind::Records)?;
        if frame.first != next.get() || sealed.len() != frame.count as usize {
            let what = format!("the frame says {} records from {} on", frame.count, frame.first);
            return Err(BundleError::Record { height: next, what });
        }
        for Sealed(bytes) in sealed {
            let record: Record = cbor::decode(&bytes).map_err(|error| wrong(next, &error.to_string()))?;
            if (record.height, record.prev) != (next, chain) {
                return Err(wrong(next, &format!("it does not follow {chain} at {next}")));
            }
            let begins = match &record.body {
                Body::Genesis(genesis) => {
                    records.manifests.push((next, genesis.manifest));
                    Some((genesis.universe, genesis.world))
                }
                Body::ForkGenesis(fork) => Some((fork.universe, fork.world)),
                Body::ManifestChange(change) => {
                    records.manifests.push((next.next(), change.to));
                    None
                }
                _ => None,
            };
            if let Some((universe, world)) = begins {
                if lineage.next() != Some(&Ancestor { world, from: next }) {
                    return Err(wrong(next, "the header tells of another lineage"));
                }
                lives = Some((universe, world));
            }
            refs_of_record(&record, &mut |hash| objects.refer(&hash));
            (next, chain) = (next.next(), Hash::of(&bytes));
            records.count += 1;
        }
    }
}

//! Writing a bundle of a world, while the world runs: everything up to the head that it had when the export began.

use super::{
    format::{Ancestor, End, FORMAT, FORMAT_CHILDREN, Header, Kind, Large, Packed, Sealed},
    frames::{FrameWriter, MAGIC},
};
use crate::{Plane, RuntimeError, Services, control::snapshots_of, yielding::ReplayPace};
use bytes::Bytes;
use futures_util::TryStreamExt;
use mundi_engine::Engine;
use mundi_model::{
    Hash, Height, UniverseId, WorldId, cbor, limits,
    record::{Body, Record, SnapshotNote},
};
use mundi_store::{
    blobs::{BlobError, Cas, Verify},
    journal::{History, JournalError},
    keyspace::{blob_edge, world_meta::WorldMeta},
    protocol::{CarriedChildren, DescribeWorld, ReadCarried, ReadEnded, WorldError},
    reachability::{hashes_in, refs_of_record},
    segments::SegmentStore,
};
use std::{collections::BTreeSet, future::Future};

/// The plane of a node: large objects are streamed, which only the content store itself can do.
pub(super) type NodePlane<E> = Services<E, Cas<E>, SegmentStore<E>>;

/// Where frames go. The export waits for a slow reader.
pub trait FrameSink: Send {
    fn write(&mut self, frame: Bytes) -> impl Future<Output = Result<(), RuntimeError>> + Send;
}

/// The bundle that was written.
#[derive(Debug, Clone)]
pub struct ExportedBundle {
    pub header: Header,
    pub objects: u64,
    pub bytes: u64,
}

/// Writes the bundle of a world.
pub async fn export<E: Engine, S: FrameSink>(
    plane: &NodePlane<E>,
    universe: UniverseId,
    world: WorldId,
    sink: S,
) -> Result<ExportedBundle, RuntimeError> {
    let plan = plan(plane, universe, world).await?;
    let mut export = Export { plane, universe, writer: FrameWriter::new(), sink, end: End::default(), bytes: 0 };
    export.send(Bytes::from_static(MAGIC)).await?;
    export.frame(Kind::Header, 0, 1, &cbor::encode(&plan.header)).await?;
    export.objects(&plan).await?;
    export.frame(Kind::Snapshots, 0, plan.notes.len(), &cbor::encode(&plan.notes)).await?;
    export.records(world, plan.header.head).await?;
    if let Some(children) = &plan.children {
        export.frame(Kind::Children, 0, 1, &cbor::encode(children)).await?;
    }
    let end = export.end;
    export.frame(Kind::End, 0, 1, &cbor::encode(&end)).await?;
    Ok(ExportedBundle { header: plan.header, objects: end.objects, bytes: export.bytes })
}

/// The objects and records of a bundle.
struct Plan {
    header: Header,
    notes: Vec<SnapshotNote>,
    /// The hashes that records and snapshots refer to. Some may only look like a hash.
    refs: BTreeSet<Hash>,
    /// These name programs and schemas in their text.
    manifests: BTreeSet<Hash>,
    children: Option<CarriedChildren>,
}

/// Reads the history once, for what it refers to.
async fn plan<E: Engine>(plane: &NodePlane<E>, universe: UniverseId, world: WorldId) -> Result<Plan, RuntimeError> {
    let missing = || WorldError::NotFound { universe, world };
    // The baseline first: it moves up, and the head that is read after it is never below.
    let described = plane.run(&DescribeWorld { universe, world }).await?.output;
    let baseline = described.baseline.ok_or_else(missing)?;
    let WorldMeta { name, labels, .. } = described.meta;
    let mut history = open(plane, universe, world).await?;
    let head = history.head();
    let notes = snapshots_of(plane, universe, world, head, limits::BUNDLE_SNAPSHOTS_MAX).await?;
    let (mut refs, mut manifests, mut lineage) = (BTreeSet::new(), BTreeSet::new(), Vec::new());
    let mut chain = Record::CHAIN_START;
    let mut pace = ReplayPace::default();
    while let Some(page) = history.next_page().await? {
        for stored in page {
            pace.step().await;
            let (height, cause) = (stored.height, |error: cbor::CborError| error.to_string());
            let damaged = |cause| JournalError::RecordDamaged { world, height, cause };
            let record = stored.decode().map_err(|error| damaged(cause(error)))?;
            refs_of_record(&record, &mut |hash| {
                refs.insert(hash);
            });
            match &record.body {
                Body::Genesis(genesis) => {
                    manifests.insert(genesis.manifest);
                    lineage.push(Ancestor { world: genesis.world, from: height });
                }
                Body::ForkGenesis(fork) => lineage.push(Ancestor { world: fork.world, from: height }),
                Body::ManifestChange(change) => drop(manifests.insert(change.to)),
                _ => {}
            }
            chain = stored.hash;
        }
    }
    for note in notes.iter().chain([&baseline]) {
        refs.insert(note.snapshot);
    }
    refs.extend(&manifests);
    let children = children_of(plane, universe, world).await?;
    let format = if children.is_some() { FORMAT_CHILDREN } else { FORMAT };
    let header = Header { format, universe, world, head, chain, lineage, baseline, name, labels };
    Ok(Plan { header, notes, refs, manifests, children })
}

/// The world's children that travel with it.
async fn children_of<E: Engine>(
    plane: &NodePlane<E>,
    universe: UniverseId,
    world: WorldId,
) -> Result<Option<CarriedChildren>, RuntimeError> {
    let Some((mut carried, ended)) = plane.run(&ReadCarried { universe, parent: world }).await?.output else {
        return Ok(None);
    };
    let mut page = ReadEnded { universe, parent: world, from: ended.start, end: ended.end };
    while page.from < page.end {
        carried.ended.extend(plane.run(&page).await?.output);
        page.from = page.through();
    }
    Ok(Some(carried.bounded()))
}

async fn open<E: Engine>(
    plane: &NodePlane<E>,
    universe: UniverseId,
    world: WorldId,
) -> Result<History<E, SegmentStore<E>>, RuntimeError> {
    Ok(History::open(&plane.engine, plane.segments.clone(), universe, world, Height::GENESIS).await?)
}

struct Export<'a, E, S> {
    plane: &'a NodePlane<E>,
    universe: UniverseId,
    writer: FrameWriter,
    sink: S,
    end: End,
    bytes: u64,
}

/// Small objects that share a frame.
#[derive(Default)]
struct Frame {
    objects: Vec<Packed>,
    bytes: usize,
}

impl<E: Engine, S: FrameSink> Export<'_, E, S> {
    async fn send(&mut self, bytes: Bytes) -> Result<(), RuntimeError> {
        self.bytes += bytes.len() as u64;
        self.sink.write(bytes).await
    }

    async fn frame(&mut self, kind: Kind, first: u64, count: usize, raw: &[u8]) -> Result<(), RuntimeError> {
        let frame = self.writer.frame(kind, first, count, raw);
        let frame = frame.map_err(|what| super::BundleError::Frame { offset: self.bytes, what })?;
        self.send(frame).await
    }

    /// Objects behind what they refer to. Holds one hash per object in memory, and one path through them.
    async fn objects(&mut self, plan: &Plan) -> Result<(), RuntimeError> {
        let (mut entered, mut frame) = (BTreeSet::new(), Frame::default());
        for &root in &plan.refs {
            let mut path: Vec<(Hash, Option<Vec<Hash>>)> = vec![(root, None)];
            while let Some((hash, refs)) = path.pop() {
                if let Some(refs) = refs {
                    self.object(hash, refs, &mut frame).await?;
                } else if entered.insert(hash)
                    && let Some(refs) = self.refs(hash, plan.manifests.contains(&hash)).await?
                {
                    let next: Vec<_> =
                        refs.iter().filter(|hash| !entered.contains(hash)).map(|hash| (*hash, None)).collect();
                    path.push((hash, Some(refs)));
                    path.extend(next);
                }
            }
        }
        self.close(&mut frame).await
    }

    /// The references of an object, as far as it exists; `None` for bytes that only looked like a hash.
    async fn refs(&self, hash: Hash, is_manifest: bool) -> Result<Option<Vec<Hash>>, RuntimeError> {
        let (cas, universe) = (&self.plane.blobs, self.universe);
        if !cas.has(universe, hash).await? {
            return Ok(None);
        }
        let mut refs = blob_edge::read(&mut self.plane.engine.begin().await?, universe, hash).await?.refs;
        if is_manifest {
            // A manifest may have been put without saying what it names.
            let mut named = BTreeSet::new();
            hashes_in(&cas.get(universe, hash, Verify::Always).await?, &mut |hash| {
                named.insert(hash);
            });
            for hash in named {
                if cas.has(universe, hash).await? {
                    refs.insert(hash);
                }
            }
        }
        Ok(Some(refs.into_iter().collect()))
    }

    async fn object(&mut self, hash: Hash, refs: Vec<Hash>, frame: &mut Frame) -> Result<(), RuntimeError> {
        let (cas, universe) = (&self.plane.blobs, self.universe);
        let size = cas.size(universe, hash).await?.ok_or(mundi_store::StoreError::from(BlobError::NotFound(hash)))?;
        self.end.objects += 1;
        self.end.object_bytes += size;
        if size < limits::BUNDLE_PART_BYTES as u64 {
            let bytes = cas.get(universe, hash, Verify::Always).await?.to_vec();
            frame.bytes += bytes.len() + refs.len() * Hash::LEN;
            frame.objects.push(Packed { refs, bytes });
            return if frame.bytes < limits::BUNDLE_FRAME_BYTES { Ok(()) } else { self.close(frame).await };
        }
        self.close(frame).await?;
        self.frame(Kind::Large, 0, 1, &cbor::encode(&Large { hash, size, refs })).await?;
        let mut pieces = cas.stream(universe, hash, Verify::Always).await?;
        while let Some(piece) = pieces.try_next().await? {
            for part in piece.chunks(limits::BUNDLE_PART_BYTES) {
                self.frame(Kind::Part, 0, 1, part).await?;
            }
        }
        Ok(())
    }

    async fn close(&mut self, frame: &mut Frame) -> Result<(), RuntimeError> {
        let Frame { objects, .. } = std::mem::take(frame);
        if objects.is_empty() {
            Ok(())
        } else {
            self.frame(Kind::Objects, 0, objects.len(), &cbor::encode(&objects)).await
        }
    }

    async fn records(&mut self, world: WorldId, head: Height) -> Result<(), RuntimeError> {
        let mut history = open(self.plane, self.universe, world).await?.until(head);
        let (mut first, mut records, mut bytes) = (Height::GENESIS, Vec::new(), 0);
        let mut pace = ReplayPace::default();
        while let Some(page) = history.next_page().await? {
            for stored in page {
                pace.step().await;
                bytes += stored.bytes.len();
                records.push(Sealed(stored.bytes.to_vec()));
                if records.len() == limits::BUNDLE_RECORDS_MAX || bytes >= limits::BUNDLE_FRAME_BYTES {
                    self.close_records(first, &mut records).await?;
                    (first, bytes) = (stored.height.next(), 0);
                }
            }
        }
        self.close_records(first, &mut records).await
    }

    async fn close_records(&mut self, first: Height, records: &mut Vec<Sealed>) -> Result<(), RuntimeError> {
        let records = std::mem::take(records);
        if records.is_empty() {
            return Ok(());
        }
        self.end.records += records.len() as u64;
        self.frame(Kind::Records, first.get(), records.len(), &cbor::encode(&records)).await
    }
}

//! The cost of the content store and of segments, on any engine and object store: for the bench command.

use crate::{
    Clock, StoreError,
    blobs::{Cas, CasConfig, NO_REFS, Verify},
    objects::Objects,
    protocol::ExportPolicy,
    segments::{Exported, SegmentStore, export_segment},
    testing::{CountingEntropy, HandmadeWorld, Rng},
};
use bytes::Bytes;
use mundi_engine::Engine;
use mundi_model::{Height, UniverseId, WorldId, record::Payload};
use std::{fmt, sync::Arc, time::Duration};

/// One measurement.
#[derive(Debug, Clone)]
pub struct Figure {
    pub name: String,
    pub operations: u64,
    pub bytes: u64,
    pub took: Duration,
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = self.took.as_nanos().max(1);
        let per_second = u128::from(self.operations) * 1_000_000_000 / ns;
        let mib_per_second = u128::from(self.bytes) * 1_000_000_000 / ns / (1024 * 1024);
        write!(f, "{:<28} {per_second:>10}/s {mib_per_second:>6} MiB/s", self.name)
    }
}

const UNIVERSE: UniverseId = UniverseId::from_bytes([0xbe; 16]);
const WORLD: WorldId = WorldId::from_bytes([0xbe; 16]);

/// Put and get at 1 KiB, 64 KiB and 4 MiB; export and replay of 50,000 records.
pub async fn content_and_segments<E: Engine>(
    engine: &E,
    objects: &Objects,
    clock: Arc<dyn Clock>,
) -> Result<Vec<Figure>, StoreError> {
    let config = CasConfig { verify_one_in: 0, ..CasConfig::default() };
    let entropy = Arc::new(CountingEntropy::default());
    let cas = Cas::new(engine.clone(), objects.clone(), clock.clone(), entropy, config);
    let mut figures = Vec::new();
    for (name, size, count) in [("1 KiB", 1 << 10, 2_000), ("64 KiB", 1 << 16, 500), ("4 MiB", 1 << 22, 32)] {
        figures.extend(put_and_get(&cas, &*clock, name, size, count).await?);
    }
    figures.extend(export_and_replay(engine, objects, &*clock).await?);
    Ok(figures)
}

async fn put_and_get<E: Engine>(
    cas: &Cas<E>,
    clock: &dyn Clock,
    name: &str,
    size: usize,
    count: u64,
) -> Result<Vec<Figure>, StoreError> {
    let noise = Rng::new(size as u64).bytes(size);
    let bodies: Vec<Bytes> =
        (0..count).map(|number| [&number.to_le_bytes()[..], &noise[8..]].concat().into()).collect();
    let began = clock.now_ns();
    let mut hashes = Vec::new();
    for body in &bodies {
        hashes.push(cas.put(UNIVERSE, body.clone(), NO_REFS).await?);
    }
    let put = clock.now_ns();
    for hash in &hashes {
        cas.get(UNIVERSE, *hash, Verify::Sampled).await?;
    }
    let got = clock.now_ns();
    for hash in &hashes {
        cas.get(UNIVERSE, *hash, Verify::Always).await?;
    }
    let verified = clock.now_ns();
    let figure = |what: &str, from: u64, to: u64| Figure {
        name: format!("cas {what} {name}"),
        operations: count,
        bytes: count * size as u64,
        took: Duration::from_nanos(to - from),
    };
    Ok(vec![figure("put", began, put), figure("get", put, got), figure("get verified", got, verified)])
}

async fn export_and_replay<E: Engine>(
    engine: &E,
    objects: &Objects,
    clock: &dyn Clock,
) -> Result<Vec<Figure>, StoreError> {
    const RECORDS: u64 = 50_000;
    const PAYLOAD: usize = 300;
    let mut world = HandmadeWorld::create(engine, UNIVERSE, WORLD).await?;
    let mut rng = Rng::new(5);
    for _ in 0..RECORDS / 1_000 {
        // Half of it compresses: journals are neither noise nor zeros.
        let payload = |_| Payload::Inline([rng.bytes(PAYLOAD / 2), vec![b'a'; PAYLOAD / 2]].concat());
        world.append(engine, (0..1_000).map(payload).collect::<Vec<_>>()).await?;
    }
    world.promote(engine, Height::new(RECORDS)).await?;
    let policy = ExportPolicy { margin: 0, records_min: 1, ..ExportPolicy::DEFAULT };
    let (began, mut stored) = (clock.now_ns(), 0);
    while let Exported::Segment(segment) =
        export_segment(engine, objects, clock, world.fence, policy, Duration::ZERO).await?
    {
        stored += segment.size_bytes;
    }
    let exported = clock.now_ns();
    let records = world.read_all(engine, &SegmentStore::new(engine.clone(), objects.clone())).await?;
    let replayed = clock.now_ns();
    let bytes = records.iter().map(|(_, bytes)| bytes.len() as u64).sum();
    let figure = |name: String, from: u64, to: u64| Figure {
        name,
        operations: RECORDS,
        bytes,
        took: Duration::from_nanos(to - from),
    };
    let export = format!("segment export ({}% stored)", stored * 100 / bytes);
    Ok(vec![figure(export, began, exported), figure("segment read".into(), exported, replayed)])
}

//! Case 6: a journal reads the same before an export, after it, and at every moment between.

use crate::{
    StoreError,
    objects::Objects,
    protocol::segment_export::ExportPolicy,
    segments::{Exported, SegmentStore, export_segment},
    testing::{HandmadeWorld, ManualClock, Rng},
};
use mundi_engine::Engine;
use mundi_model::{Height, UniverseId, WorldId, record::Payload};
use std::time::Duration;

const UNIVERSE: UniverseId = UniverseId::from_bytes([0xc6; 16]);
const WORLD: WorldId = WorldId::from_bytes([6; 16]);

/// Exports a journal in several segments, and compares it with itself, byte for byte.
pub async fn segment_export_and_restore<E: Engine>(engine: &E, objects: &Objects) {
    run(engine, objects).await.expect("the export runs");
}

async fn run<E: Engine>(engine: &E, objects: &Objects) -> Result<(), StoreError> {
    let mut world = HandmadeWorld::create(engine, UNIVERSE, WORLD).await?;
    let mut rng = Rng::new(6);
    for _ in 0..30 {
        let payloads: Vec<_> = (0..100).map(|_| payload(&mut rng)).collect();
        world.append(engine, payloads).await?;
    }
    let segments = SegmentStore::new(engine.clone(), objects.clone());
    let before = world.read_all(engine, &segments).await?;
    assert_eq!(before.len(), 3_000);

    let clock = ManualClock::default();
    for (baseline, hot) in [(500, 2_600), (1_700, 1_400), (3_000, 100)] {
        world.promote(engine, Height::new(baseline)).await?;
        let policy = ExportPolicy { margin: 100, records_min: 1 };
        let exported = export_segment(engine, objects, &clock, world.fence, policy, Duration::ZERO).await?;
        assert!(matches!(exported, Exported::Segment(_)));
        assert_eq!(world.hot(engine).await?, hot, "what was exported has left the engine");
        assert_eq!(world.read_all(engine, &segments).await?, before, "and is read as before");
        let again = export_segment(engine, objects, &clock, world.fence, policy, Duration::ZERO).await?;
        assert_eq!(again, Exported::Idle);
    }
    Ok(())
}

/// Half of it compresses, half does not.
fn payload(rng: &mut Rng) -> Payload {
    let len = usize::try_from(rng.below(300)).unwrap_or(0);
    Payload::Inline([rng.bytes(len), vec![b'a'; len]].concat())
}

//! Segments under crashes, damage and lies.

use super::{
    Block, BuiltSegment, Compacted, Compactor, CompactorConfig, Exported, Footer, SegmentBuilder, SegmentReader,
    SegmentStore, decode_block, decode_footer, export_segment, format, object_path,
};
use crate::{
    Clock, DamagedObject, Fence, StoreError,
    blob::Blobs,
    blobs::{Cas, CasConfig},
    journal::Segments,
    keyspace::segment::SegmentRecord,
    objects::Objects,
    protocol::{BeginExport, ExportPolicy},
    run,
    testing::{
        CountingEntropy, CrashSwitch, CrashingEngine, FaultyObjects, HandmadeWorld, ManualClock, Rng, Side,
        engine_contents, object_contents,
    },
};
use bytes::Bytes;
use mundi_engine::{Engine, Memory};
use mundi_model::{
    Code, Coded, Hash, Height, UniverseId, WorldId, limits,
    record::{Body, Custom, Payload, Record},
};
use object_store::{ObjectStoreExt, memory::InMemory};
use pollster::block_on;
use proptest::prelude::*;
use std::{sync::Arc, time::Duration};

const UNIVERSE: UniverseId = UniverseId::from_bytes([1; 16]);
const WORLD: WorldId = WorldId::from_bytes([2; 16]);
const ALL: ExportPolicy = ExportPolicy { margin: 0, records_min: 1, ..ExportPolicy::DEFAULT };

fn record(height: u64, payload: Payload) -> Vec<u8> {
    let body = Body::Custom(Custom { kind: "test".into(), payload });
    Record { height: Height::new(height), prev: Record::CHAIN_START, body }.seal().0
}

/// Records that do not compress, so that blocks have their full size.
fn built(records: u64, payload_bytes: usize) -> (Vec<Vec<u8>>, BuiltSegment) {
    let mut rng = Rng::new(records);
    let records: Vec<_> =
        (0..records).map(|height| record(height, Payload::Inline(rng.bytes(payload_bytes)))).collect();
    let mut builder = SegmentBuilder::new(UNIVERSE, WORLD, Height::GENESIS);
    records.iter().for_each(|record| builder.push(record).unwrap());
    (records, builder.finish().unwrap())
}

async fn stored(built: &BuiltSegment, object: Vec<u8>) -> Objects {
    let store = InMemory::new();
    let path = object_path(UNIVERSE, WORLD, built.record.start, built.record.end);
    store.put(&path, object.into()).await.unwrap();
    Objects::new(Arc::new(store))
}

/// Everything that a reader finds, or the error that stopped it.
async fn read_all(objects: &Objects, record: &SegmentRecord) -> Result<Vec<Bytes>, super::SegmentError> {
    let reader = SegmentReader::open(objects, UNIVERSE, WORLD, record).await?;
    let mut records = Vec::new();
    let mut next = record.start;
    loop {
        let page = reader.read(next).await?;
        let Some((last, _)) = page.last() else { return Ok(records) };
        next = last.next();
        records.extend(page.into_iter().map(|(_, bytes)| bytes));
    }
}

#[test]
fn what_is_built_is_read_from_any_height() {
    block_on(async {
        let (records, built) = built(300, 1_000);
        let objects = stored(&built, built.object.to_vec()).await;
        assert_eq!(read_all(&objects, &built.record).await.unwrap(), records);
        let reader = SegmentReader::open(&objects, UNIVERSE, WORLD, &built.record).await.unwrap();
        for height in [0, 1, 64, 65, 150, 299] {
            let page = reader.read(Height::new(height)).await.unwrap();
            assert_eq!(page[0].0, Height::new(height));
            assert_eq!(page[0].1, records[usize::try_from(height).unwrap()]);
        }
        assert!(reader.read(Height::new(300)).await.unwrap().is_empty());
        reader.verify().await.unwrap();
    });
}

#[test]
fn a_read_fetches_the_footer_and_the_blocks_it_needs() {
    block_on(async {
        let (_, built) = built(4_000, 1_000);
        let faulty = FaultyObjects::in_memory();
        let path = object_path(UNIVERSE, WORLD, built.record.start, built.record.end);
        faulty.inner().put(&path, built.object.clone().into()).await.unwrap();
        let objects = Objects::new(Arc::new(faulty.clone()));
        let reader = SegmentReader::open(&objects, UNIVERSE, WORLD, &built.record).await.unwrap();
        reader.read(Height::new(3_990)).await.unwrap();
        let (size, read) = (built.object.len() as u64, faulty.bytes_read());
        assert_eq!(faulty.operations(), 2, "one request for the footer, one for the block");
        assert!(read < size / 20, "{read} of {size} bytes were read");
    });
}

#[test]
fn the_references_of_all_records_stand_in_the_footer() {
    block_on(async {
        let (plain, nested) = (Hash::of(b"plain"), Hash::of(b"nested"));
        let mut builder = SegmentBuilder::new(UNIVERSE, WORLD, Height::GENESIS);
        builder.push(&record(0, Payload::Blob(plain, 9))).unwrap();
        builder.push(&record(1, Payload::Inline(nested.to_string().into_bytes()))).unwrap();
        let built = builder.finish().unwrap();
        let objects = stored(&built, built.object.to_vec()).await;
        let reader = SegmentReader::open(&objects, UNIVERSE, WORLD, &built.record).await.unwrap();
        let mut expected = vec![plain, nested];
        expected.sort();
        assert_eq!(reader.refs(), expected);
    });
}

#[test]
fn every_flipped_byte_is_an_error() {
    block_on(async {
        let (_, built) = built(12, 40);
        for place in 0..built.object.len() {
            let mut damaged = built.object.to_vec();
            damaged[place] ^= 0x10;
            let error = read_all(&stored(&built, damaged).await, &built.record).await.expect_err("damage is found");
            assert_eq!(error.code(), Code::SegmentCorrupt, "byte {place}: {error}");
        }
    });
}

#[test]
fn every_truncation_is_an_error() {
    block_on(async {
        let (_, built) = built(12, 40);
        for len in 0..built.object.len() {
            let damaged = built.object[..len].to_vec();
            let error = read_all(&stored(&built, damaged).await, &built.record).await.expect_err("damage is found");
            assert_eq!(error.code(), Code::SegmentCorrupt, "{len} bytes: {error}");
        }
        let missing = Objects::new(Arc::new(InMemory::new()));
        assert_eq!(read_all(&missing, &built.record).await.unwrap_err().code(), Code::SegmentCorrupt);
    });
}

#[test]
fn a_segment_of_another_world_is_refused() {
    block_on(async {
        let (_, built) = built(3, 10);
        let store = InMemory::new();
        let other = WorldId::from_bytes([9; 16]);
        let path = object_path(UNIVERSE, other, built.record.start, built.record.end);
        store.put(&path, built.object.clone().into()).await.unwrap();
        let opened = SegmentReader::open(&Objects::new(Arc::new(store)), UNIVERSE, other, &built.record).await;
        assert_eq!(opened.err().unwrap().code(), Code::SegmentCorrupt);
    });
}

/// A footer whose checksums are right and whose claims may be anything.
fn forged(footer: &Footer, blocks_bytes: u64) -> (SegmentRecord, Vec<u8>) {
    let (tail, checksum) = format::encode_tail(footer);
    let footer_bytes = u32::try_from(tail.len() - format::TRAILER_BYTES).unwrap();
    let size_bytes = blocks_bytes + tail.len() as u64;
    (SegmentRecord { start: footer.start, end: footer.end, size_bytes, footer_bytes, checksum }, tail)
}

#[test]
fn a_footer_that_lies_is_refused_before_anything_is_allocated() {
    let block = |records, stored_bytes, raw_bytes| Block { records, stored_bytes, raw_bytes, checksum: Hash::of(b"") };
    let footer = |end, blocks| Footer {
        universe: UNIVERSE,
        world: WORLD,
        start: Height::GENESIS,
        end: Height::new(end),
        blocks,
        refs: vec![],
    };
    let lies = [
        footer(0, vec![]),
        footer(1, vec![]),
        footer(1, vec![block(1, 10, u32::MAX)]),
        footer(u64::from(u32::MAX), vec![block(u32::MAX, 10, 100)]),
        footer(2, vec![block(1, 10, 100)]),
        footer(1, vec![block(1, 11, 100)]),
        footer(40, vec![block(1, 0, 256 * 1024); 40]),
    ];
    for lie in &lies {
        let (record, tail) = forged(lie, 10);
        decode_footer(&record, &tail).expect_err("a lie is refused");
    }
}

#[test]
fn a_block_that_expands_to_more_than_it_says_is_refused() {
    let bomb = zstd::bulk::compress(&vec![0; 200 * 1024], 3).unwrap();
    for (records, raw_bytes) in [(1, 100), (1, 200 * 1024), (1, u32::MAX), (51_200, 200 * 1024)] {
        let stored_bytes = u32::try_from(bomb.len()).unwrap();
        let block = Block { records, stored_bytes, raw_bytes, checksum: Hash::of(&bomb) };
        let decoded = decode_block(&block, &bomb);
        // Fifty-one thousand empty records are what the zeros spell; the footer check refuses such a block.
        assert!(decoded.is_err() || records == 51_200);
    }
}

proptest! {
    #[test]
    fn arbitrary_tails_are_refused(tail: Vec<u8>, footer_bytes: u32, checksum: [u8; 32]) {
        let (start, end) = (Height::GENESIS, Height::new(1));
        let checksum = Hash::from_bytes(checksum);
        let record = SegmentRecord { start, end, size_bytes: tail.len() as u64, footer_bytes, checksum };
        prop_assert!(decode_footer(&record, &tail).is_err());
    }

    #[test]
    fn arbitrary_footers_under_a_right_checksum_never_panic(footer: Vec<u8>) {
        let checksum = Hash::of(&footer);
        let footer_bytes = u32::try_from(footer.len()).unwrap();
        let tail = [&footer[..], checksum.as_bytes(), &footer_bytes.to_le_bytes(), b"MUNDSEG1"].concat();
        let (start, end) = (Height::GENESIS, Height::new(1));
        let record = SegmentRecord { start, end, size_bytes: tail.len() as u64, footer_bytes, checksum };
        prop_assert!(decode_footer(&record, &tail).is_err());
    }

    #[test]
    fn arbitrary_blocks_under_a_right_checksum_never_panic(raw: Vec<u8>, records: u32, raw_bytes: u32, packed: bool) {
        let stored = if packed { zstd::bulk::compress(&raw, 1).unwrap() } else { raw.clone() };
        let stored_bytes = u32::try_from(stored.len()).unwrap();
        let raw_bytes = if packed { u32::try_from(raw.len()).unwrap() } else { raw_bytes };
        let block = Block { records, stored_bytes, raw_bytes, checksum: Hash::of(&stored) };
        if let Ok(decoded) = decode_block(&block, &stored) {
            prop_assert_eq!(decoded.len() as u64, u64::from(records));
            prop_assert_eq!(decoded.iter().map(|record| record.len() + 4).sum::<usize>(), raw.len());
        }
    }

    #[test]
    fn any_records_survive(payloads in prop::collection::vec(any::<Vec<u8>>(), 1..50)) {
        block_on(async {
            let records: Vec<_> = payloads.iter().zip(0..)
                .map(|(payload, height)| record(height, Payload::Inline(payload.clone()))).collect();
            let mut builder = SegmentBuilder::new(UNIVERSE, WORLD, Height::GENESIS);
            records.iter().for_each(|record| builder.push(record).unwrap());
            let built = builder.finish().unwrap();
            let objects = stored(&built, built.object.to_vec()).await;
            prop_assert_eq!(read_all(&objects, &built.record).await.unwrap(), records);
            Ok(())
        })?;
    }
}

#[test]
fn a_record_that_is_none_or_at_another_height_is_not_exported() {
    let mut builder = SegmentBuilder::new(UNIVERSE, WORLD, Height::new(5));
    assert_eq!(builder.push(b"not a record").unwrap_err().code(), Code::SegmentCorrupt);
    let elsewhere = record(6, Payload::Inline(vec![]));
    assert_eq!(builder.push(&elsewhere).unwrap_err().code(), Code::SegmentCorrupt);
    assert_eq!(builder.finish().unwrap_err().code(), Code::SegmentUnsafe);
}

/// An exporter that is replaced by another version must write the same object: its upload may arrive late.
/// If this fails after an update of zstd, give the format a new magic and the objects another extension.
#[test]
fn the_bytes_of_a_segment_are_pinned() {
    let mut builder = SegmentBuilder::new(UNIVERSE, WORLD, Height::GENESIS);
    for height in 0..2_000 {
        builder.push(&record(height, Payload::Inline(height.to_string().into_bytes()))).unwrap();
    }
    assert_eq!(Hash::of(&builder.finish().unwrap().object).to_string(), PINNED);
}

const PINNED: &str = "h_e9c5b845daec74bcccbcdf7739e0b47fc12a43c66f7f37b7200c037e59f78c86";

async fn world(engine: &impl Engine, records: u64) -> HandmadeWorld {
    let mut world = HandmadeWorld::create(engine, UNIVERSE, WORLD).await.unwrap();
    let mut rng = Rng::new(records);
    let payloads: Vec<_> = (0..records).map(|_| Payload::Inline(rng.bytes(50))).collect();
    for payloads in payloads.chunks(1_000) {
        world.append(engine, payloads.to_vec()).await.unwrap();
    }
    world.promote(engine, world.head).await.unwrap();
    world
}

async fn export<E: Engine>(engine: &E, objects: &Objects, fence: Fence) -> Result<Exported, StoreError> {
    export_segment(engine, objects, &ManualClock::default(), fence, ALL, Duration::ZERO).await
}

#[test]
fn an_export_that_crashes_at_any_step_and_is_retried_leaves_the_same_bytes() {
    block_on(async {
        const RECORDS: u64 = 2_500; // three transactions that delete
        let calm_engine = Memory::new();
        let calm_world = world(&calm_engine, RECORDS).await;
        let before = calm_world.read_all(&calm_engine, &crate::journal::NoSegments).await.unwrap();
        let calm_objects = FaultyObjects::in_memory();
        let switch = CrashSwitch::default();
        let engine = CrashingEngine::new(calm_engine.clone(), switch.clone());
        let objects = Objects::new(Arc::new(calm_objects.clone().with_crashes(switch.clone())));
        export(&engine, &objects, calm_world.fence).await.unwrap();
        let expected_keys = engine_contents(&calm_engine).await.unwrap();
        let expected_objects = object_contents(&*calm_objects.inner()).await.unwrap();
        assert_eq!(switch.steps(), 6, "begin, object, index, three deletions");
        for (step, side) in (0..6).flat_map(|step| [(step, Side::Before), (step, Side::After)]) {
            let memory = Memory::new();
            let world = world(&memory, RECORDS).await;
            let (switch, faulty) = (CrashSwitch::default(), FaultyObjects::in_memory());
            let engine = CrashingEngine::new(memory.clone(), switch.clone());
            let objects = Objects::new(Arc::new(faulty.clone().with_crashes(switch.clone())));
            switch.arm(step, side);
            export(&engine, &objects, world.fence).await.expect_err("the process died");
            switch.revive();
            let segments = SegmentStore::new(engine.clone(), objects.clone());
            let between = world.read_all(&engine, &segments).await.unwrap();
            assert_eq!(between, before, "every record is found after a crash at {step} {side:?}");
            while export(&engine, &objects, world.fence).await.unwrap() != Exported::Idle {}
            assert_eq!(engine_contents(&memory).await.unwrap(), expected_keys, "{step} {side:?}");
            assert_eq!(object_contents(&*faulty.inner()).await.unwrap(), expected_objects, "{step} {side:?}");
            assert_eq!(world.read_all(&engine, &segments).await.unwrap(), before);
        }
    });
}

#[test]
fn an_interrupted_export_keeps_its_range_when_the_baseline_moves_on() {
    block_on(async {
        let memory = Memory::new();
        let mut world = world(&memory, 100).await;
        let (switch, faulty) = (CrashSwitch::default(), FaultyObjects::in_memory());
        let engine = CrashingEngine::new(memory.clone(), switch.clone());
        let objects = Objects::new(Arc::new(faulty.clone().with_crashes(switch.clone())));
        switch.arm(1, Side::After); // the object is written, its index is not
        export(&engine, &objects, world.fence).await.unwrap_err();
        switch.revive();
        world.append(&engine, vec![Payload::Inline(vec![1]); 50]).await.unwrap();
        world.promote(&engine, world.head).await.unwrap();
        let Exported::Segment(first) = export(&engine, &objects, world.fence).await.unwrap() else { panic!() };
        assert_eq!(first.end, Height::new(100), "no object is left behind that no index names");
        let Exported::Segment(second) = export(&engine, &objects, world.fence).await.unwrap() else { panic!() };
        assert_eq!((second.start, second.end), (Height::new(100), Height::new(150)));
        assert_eq!(object_contents(&*faulty.inner()).await.unwrap().len(), 2);
    });
}

#[test]
fn who_lost_the_lease_exports_nothing() {
    block_on(async {
        let engine = Memory::new();
        let world = world(&engine, 100).await;
        world.pass_lease(&engine).await.unwrap();
        let (contents, faulty) = (engine_contents(&engine).await.unwrap(), FaultyObjects::in_memory());
        let objects = Objects::new(Arc::new(faulty.clone()));
        let refused = export(&engine, &objects, world.fence).await.unwrap_err();
        assert_eq!(refused.code(), Code::LeaseFenced);
        assert_eq!(engine_contents(&engine).await.unwrap(), contents);
        assert_eq!(faulty.operations(), 0);
    });
}

#[test]
fn a_range_that_is_not_old_enough_is_refused() {
    block_on(async {
        let engine = Memory::new();
        let world = world(&engine, 100).await;
        world.promote(&engine, Height::new(50)).await.unwrap();
        let contents = engine_contents(&engine).await.unwrap();
        for (start, end) in [(0, 51), (10, 20), (5, 5), (0, 0)] {
            let begin = BeginExport { fence: world.fence, start: Height::new(start), end: Height::new(end) };
            let refused = run(&engine, &ManualClock::default(), &begin).await.unwrap_err();
            assert_eq!(refused.code(), Code::SegmentUnsafe, "{start}..{end}");
        }
        assert_eq!(engine_contents(&engine).await.unwrap(), contents);
    });
}

#[test]
fn a_gap_in_the_journal_stops_the_export() {
    block_on(async {
        let engine = Memory::new();
        let mut world = HandmadeWorld::create(&engine, UNIVERSE, WORLD).await.unwrap();
        for count in [42, 8, 50] {
            world.append(&engine, vec![Payload::Inline(vec![1]); count]).await.unwrap();
        }
        world.promote(&engine, world.head).await.unwrap();
        let mut tx = engine.begin().await.unwrap();
        let key = crate::keyspace::journal_entry::key(UNIVERSE, WORLD, Height::new(49));
        mundi_engine::Transaction::delete(&mut tx, key.as_bytes()).unwrap();
        mundi_engine::Transaction::commit(tx).await.unwrap();
        let objects = Objects::new(Arc::new(InMemory::new()));
        let refused = export(&engine, &objects, world.fence).await.unwrap_err();
        assert_eq!(refused.code(), Code::JournalGap);
        assert!(refused.to_string().contains("42"), "{refused}");
    });
}

#[test]
fn large_journals_are_cut_into_segments_of_bounded_size() {
    block_on(async {
        let engine = Memory::new();
        let mut world = HandmadeWorld::create(&engine, UNIVERSE, WORLD).await.unwrap();
        let mut rng = Rng::new(3);
        for _ in 0..10 {
            let payloads = vec![Payload::Inline(rng.bytes(90_000)); 20];
            world.append(&engine, payloads).await.unwrap();
        }
        world.promote(&engine, world.head).await.unwrap();
        let objects = Objects::new(Arc::new(InMemory::new()));
        let segments = SegmentStore::new(engine.clone(), objects.clone());
        let before = world.read_all(&engine, &segments).await.unwrap();
        let mut ends = Vec::new();
        while let Exported::Segment(segment) = export(&engine, &objects, world.fence).await.unwrap() {
            assert!(segment.size_bytes <= (limits::SEGMENT_BYTES_MAX + limits::VALUE_BYTES_MAX) as u64);
            ends.push(segment.end.get());
        }
        assert_eq!(ends.len(), 3, "{ends:?}");
        assert_eq!(world.hot(&engine).await.unwrap(), 0);
        assert_eq!(world.read_all(&engine, &segments).await.unwrap(), before);
    });
}

/// The objects of a universe may be segments alone: small bodies are in the engine.
#[test]
fn a_store_without_the_segments_that_it_should_have_is_another_one() {
    block_on(async {
        let (engine, objects) = (Memory::new(), Objects::new(Arc::new(InMemory::new())));
        let world = world(&engine, 100).await;
        export(&engine, &objects, world.fence).await.unwrap();
        let content = |objects: &Objects| {
            let (clock, entropy) = (Arc::new(ManualClock::default()), Arc::new(CountingEntropy::default()));
            Cas::new(engine.clone(), objects.clone(), clock, entropy, CasConfig::default())
        };
        assert!(content(&objects).has_objects(UNIVERSE).await.unwrap());
        let other = Objects::new(Arc::new(InMemory::new()));
        assert!(!content(&other).has_objects(UNIVERSE).await.unwrap());
    });
}

#[test]
fn a_segment_that_an_error_names_is_checked_byte_by_byte() {
    block_on(async {
        let (engine, store) = (Memory::new(), Arc::new(InMemory::new()));
        let objects = Objects::new(store.clone());
        let world = world(&engine, 100).await;
        let Exported::Segment(record) = export(&engine, &objects, world.fence).await.unwrap() else {
            panic!("there is something to export")
        };
        let path = object_path(UNIVERSE, WORLD, record.start, record.end);
        let segments = SegmentStore::new(engine.clone(), objects.clone());
        segments.check(UNIVERSE, path.as_ref()).await.unwrap();
        let mut bytes = store.get(&path).await.unwrap().bytes().await.unwrap().to_vec();
        bytes[7] ^= 1;
        store.put(&path, bytes.into()).await.unwrap();
        let damaged = segments.check(UNIVERSE, path.as_ref()).await.unwrap_err();
        assert_eq!(damaged.damaged_object(), Some(DamagedObject::Segment(path.to_string())));
        store.delete(&path).await.unwrap();
        let missing = segments.check(UNIVERSE, path.as_ref()).await.unwrap_err();
        assert_eq!(missing.damaged_object(), Some(DamagedObject::Segment(path.to_string())));
    });
}

#[test]
fn the_compactor_keeps_its_rate_and_its_switch() {
    block_on(async {
        let (engine, clock) = (Memory::new(), ManualClock::default());
        let world = world(&engine, 3_000).await;
        let objects = Objects::new(Arc::new(InMemory::new()));
        let compactor = |enabled| {
            let config = CompactorConfig { enabled, policy: ALL, bytes_per_second_max: 1_000, ..Default::default() };
            let segments = SegmentStore::new(engine.clone(), objects.clone());
            Compactor::new(segments, Arc::new(clock.clone()), config)
        };
        assert_eq!(compactor(false).turn(world.fence).await.unwrap(), Compacted::Disabled);
        assert_eq!(world.hot(&engine).await.unwrap(), 3_000);
        let Compacted::Exported { records, bytes } = compactor(true).turn(world.fence).await.unwrap() else { panic!() };
        assert_eq!(records, 3_000);
        assert!(clock.now_ns() >= bytes * 1_000_000, "{bytes} bytes at 1000 a second took {} ns", clock.now_ns());
        assert_eq!(compactor(true).turn(world.fence).await.unwrap(), Compacted::Idle);
    });
}

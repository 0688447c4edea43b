//! The content store under crashes, faults and damage.

use super::{Cas, CasConfig, NO_REFS, PutStream, Verify, body_path};
use crate::{
    StoreError,
    keyspace::{blob_edge, cas_meta::Generation},
    objects::Objects,
    testing::{
        CountingEntropy, CrashSwitch, CrashingEngine, Fault, FaultyObjects, ManualClock, Rates, Rng, Side,
        engine_contents, object_contents,
    },
};
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use mundi_engine::{Engine, Memory, Transaction};
use mundi_model::{Code, Coded, Hash, UniverseId, limits};
use object_store::{ObjectStore, ObjectStoreExt};
use pollster::block_on;
use std::{collections::BTreeSet, convert::Infallible, sync::Arc, time::Duration};

const UNIVERSE: UniverseId = UniverseId::from_bytes([1; 16]);

struct Bench {
    memory: Memory,
    faulty: FaultyObjects,
    switch: CrashSwitch,
    cas: Cas<CrashingEngine<Memory>>,
}

fn bench() -> Bench {
    let switch = CrashSwitch::default();
    let (memory, faulty) = (Memory::new(), FaultyObjects::in_memory().with_crashes(switch.clone()));
    let engine = CrashingEngine::new(memory.clone(), switch.clone());
    let cas = content_store(engine, &faulty);
    Bench { memory, faulty, switch, cas }
}

fn content_store<E: Engine>(engine: E, objects: &FaultyObjects) -> Cas<E> {
    let (clock, entropy) = (Arc::new(ManualClock::at_ns(7)), Arc::new(CountingEntropy::default()));
    let config = CasConfig { verify_one_in: 0, ..CasConfig::default() };
    Cas::new(engine, Objects::new(Arc::new(objects.clone())), clock, entropy, config)
}

fn code<T>(result: Result<T, StoreError>) -> Code {
    result.err().expect("an error").code()
}

fn bytes(size: usize) -> Bytes {
    Rng::new(size as u64).bytes(size).into()
}

/// The form of a put; each takes a different path.
#[derive(Debug, Clone, Copy)]
enum Shape {
    Inline,
    Object,
    WithRefs,
    Stream,
    StatedStream,
}

const SHAPES: [Shape; 5] = [Shape::Inline, Shape::Object, Shape::WithRefs, Shape::Stream, Shape::StatedStream];

async fn put(cas: &Cas<CrashingEngine<Memory>>, shape: Shape) -> Result<Hash, StoreError> {
    match shape {
        Shape::Inline => cas.put(UNIVERSE, bytes(100), NO_REFS).await,
        Shape::Object => cas.put(UNIVERSE, bytes(20_000), NO_REFS).await,
        Shape::WithRefs => {
            let child = cas.put(UNIVERSE, bytes(20_001), NO_REFS).await?;
            cas.put(UNIVERSE, bytes(20_002), &[child].into()).await
        }
        Shape::Stream => put_stream(cas, None).await,
        Shape::StatedStream => put_stream(cas, Some(Hash::of(&bytes(STREAM_BYTES)))).await,
    }
}

/// Two parts, the second short.
const STREAM_BYTES: usize = limits::BLOB_PART_BYTES + 1_000;

async fn put_stream<E: Engine>(cas: &Cas<E>, stated: Option<Hash>) -> Result<Hash, StoreError> {
    let source = pieces(&bytes(STREAM_BYTES));
    Ok(cas.put_stream(UNIVERSE, source, PutStream { stated, refs: BTreeSet::new() }).await?.0)
}

fn pieces(bytes: &Bytes) -> impl futures_util::Stream<Item = Result<Bytes, Infallible>> + Send + Unpin + use<> {
    let pieces: Vec<_> = bytes.chunks(1 << 20).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
    stream::iter(pieces)
}

#[test]
fn a_put_that_crashes_at_any_step_and_is_retried_leaves_the_same_bytes() {
    for shape in SHAPES {
        block_on(async {
            let calm = bench();
            let hash = put(&calm.cas, shape).await.unwrap();
            let steps = calm.switch.steps();
            let expected_keys = engine_contents(&calm.memory).await.unwrap();
            let expected_objects = object_contents(&*calm.faulty.inner()).await.unwrap();
            for (step, side) in (0..steps).flat_map(|step| [(step, Side::Before), (step, Side::After)]) {
                let bench = bench();
                bench.switch.arm(step, side);
                let crashed = put(&bench.cas, shape).await;
                assert!(bench.switch.is_dead(), "{shape:?} did not come to step {step}");
                bench.switch.revive();
                // The last step of a stream is the removal of its incoming body, which a put survives.
                assert!(crashed.is_err() || matches!(shape, Shape::Stream), "{shape:?} {step} {side:?}");
                assert_eq!(put(&bench.cas, shape).await.unwrap(), hash);
                assert_eq!(engine_contents(&bench.memory).await.unwrap(), expected_keys, "{shape:?} {step} {side:?}");
                // What the header of cas_put declares: a body may stay at an incoming key.
                let mut objects = object_contents(&*bench.faulty.inner()).await.unwrap();
                objects.retain(|path, _| !path.contains("/incoming/"));
                assert_eq!(objects, expected_objects, "{shape:?} {step} {side:?}");
                bench.cas.get(UNIVERSE, hash, Verify::Always).await.unwrap();
            }
        });
    }
}

#[test]
fn nothing_is_visible_while_only_the_body_is_written() {
    block_on(async {
        let bench = bench();
        bench.switch.arm(1, Side::Before); // step 0 is the body, step 1 the metadata
        code(put(&bench.cas, Shape::Object).await);
        bench.switch.revive();
        let hash = Hash::of(&bytes(20_000));
        assert_eq!(object_contents(&*bench.faulty.inner()).await.unwrap().len(), 1);
        assert!(!bench.cas.has(UNIVERSE, hash).await.unwrap());
        assert_eq!(code(bench.cas.get(UNIVERSE, hash, Verify::Sampled).await), Code::BlobNotFound);
        put(&bench.cas, Shape::Object).await.unwrap();
        assert_eq!(bench.cas.get(UNIVERSE, hash, Verify::Always).await.unwrap(), bytes(20_000));
    });
}

#[test]
fn a_missing_body_is_a_hard_error_that_names_the_hash_and_no_read_heals_it() {
    block_on(async {
        let bench = bench();
        let hash = put(&bench.cas, Shape::Object).await.unwrap();
        bench.faulty.inner().delete(&body_path(UNIVERSE, hash, Generation::FIRST)).await.unwrap();
        for _ in 0..2 {
            let error = bench.cas.get(UNIVERSE, hash, Verify::Sampled).await.unwrap_err();
            assert_eq!(error.code(), Code::BlobCorrupt);
            assert!(error.to_string().contains(&hash.to_string()), "{error}");
            assert_eq!(code(bench.cas.range(UNIVERSE, hash, 5..6).await), Code::BlobCorrupt);
            let mut stream = bench.cas.stream(UNIVERSE, hash, Verify::Sampled).await.unwrap();
            assert_eq!(code(stream.next().await.unwrap()), Code::BlobCorrupt);
        }
        assert!(object_contents(&*bench.faulty.inner()).await.unwrap().is_empty());
    });
}

#[test]
fn a_wrong_body_is_found_by_its_length_always_and_by_its_hash_on_request() {
    block_on(async {
        let bench = bench();
        let hash = put(&bench.cas, Shape::Object).await.unwrap();
        let (path, inner) = (body_path(UNIVERSE, hash, Generation::FIRST), bench.faulty.inner());
        let mut wrong = bytes(20_000).to_vec();
        wrong[12_345] ^= 1;
        inner.put(&path, wrong.clone().into()).await.unwrap();
        assert_eq!(bench.cas.get(UNIVERSE, hash, Verify::Sampled).await.unwrap(), wrong, "sampling is off here");
        assert_eq!(code(bench.cas.get(UNIVERSE, hash, Verify::Always).await), Code::BlobCorrupt);
        wrong.pop();
        inner.put(&path, wrong.into()).await.unwrap();
        assert_eq!(code(bench.cas.get(UNIVERSE, hash, Verify::Sampled).await), Code::BlobCorrupt);
        inner.put(&path, Bytes::new().into()).await.unwrap();
        assert_eq!(code(bench.cas.get(UNIVERSE, hash, Verify::Sampled).await), Code::BlobCorrupt);
        assert_eq!(code(bench.cas.range(UNIVERSE, hash, 19_999..20_000).await), Code::BlobCorrupt);
    });
}

#[test]
fn a_verified_stream_never_hands_out_a_whole_wrong_body() {
    block_on(async {
        let bench = bench();
        let hash = put_stream(&bench.cas, None).await.unwrap();
        let mut wrong = bytes(STREAM_BYTES).to_vec();
        wrong[0] ^= 1;
        bench.faulty.inner().put(&body_path(UNIVERSE, hash, Generation::FIRST), wrong.into()).await.unwrap();
        let pieces: Vec<_> = bench.cas.stream(UNIVERSE, hash, Verify::Always).await.unwrap().collect().await;
        assert_eq!(pieces.len(), 2);
        assert_eq!(pieces[0].as_ref().unwrap().len(), limits::BLOB_PART_BYTES);
        assert_eq!(pieces[1].as_ref().unwrap_err().code(), Code::BlobCorrupt);
    });
}

#[test]
fn sampled_reads_are_verified_as_often_as_configured() {
    block_on(async {
        let bench = bench();
        let config = CasConfig { verify_one_in: 4, ..CasConfig::default() };
        let cas = Cas { config, ..bench.cas.clone() };
        let hash = put(&cas, Shape::Object).await.unwrap();
        let mut wrong = bytes(20_000).to_vec();
        wrong[0] ^= 1;
        bench.faulty.inner().put(&body_path(UNIVERSE, hash, Generation::FIRST), wrong.into()).await.unwrap();
        let mut found = 0;
        for _ in 0..400 {
            found += u32::from(cas.get(UNIVERSE, hash, Verify::Sampled).await.is_err());
        }
        assert!((40..200).contains(&found), "{found} of 400 reads were verified");
    });
}

#[test]
fn a_stream_with_a_wrong_statement_leaves_nothing_visible() {
    block_on(async {
        let bench = bench();
        let refused = put_stream(&bench.cas, Some(Hash::of(b"another"))).await;
        assert_eq!(code(refused), Code::BlobHashMismatch);
        assert!(engine_contents(&bench.memory).await.unwrap().is_empty());
        assert!(object_contents(&*bench.faulty.inner()).await.unwrap().is_empty());
        // Also when the stated object is there, and when the stream is short enough to be put whole.
        let there = put(&bench.cas, Shape::Inline).await.unwrap();
        assert_eq!(code(put_stream(&bench.cas, Some(there)).await), Code::BlobHashMismatch);
        let short = PutStream { stated: Some(there), ..PutStream::default() };
        assert_eq!(code(bench.cas.put_stream(UNIVERSE, pieces(&bytes(5)), short).await), Code::BlobHashMismatch);
    });
}

#[test]
fn a_source_that_breaks_off_leaves_nothing_visible() {
    block_on(async {
        let bench = bench();
        let whole = Ok(bytes(STREAM_BYTES));
        let source = stream::iter(vec![whole, Err("the client went away")]);
        let refused = bench.cas.put_stream(UNIVERSE, source, PutStream::default()).await;
        assert_eq!(code(refused), Code::BlobSourceFailed);
        assert!(engine_contents(&bench.memory).await.unwrap().is_empty());
        assert!(object_contents(&*bench.faulty.inner()).await.unwrap().is_empty());
    });
}

#[test]
fn references_are_recorded_once_and_only_grow() {
    block_on(async {
        let bench = bench();
        let a = bench.cas.put(UNIVERSE, bytes(1), NO_REFS).await.unwrap();
        let b = bench.cas.put(UNIVERSE, bytes(2), NO_REFS).await.unwrap();
        let parent = bench.cas.put(UNIVERSE, bytes(3), &[a].into()).await.unwrap();
        for refs in [BTreeSet::from([a]), BTreeSet::from([b]), BTreeSet::new()] {
            bench.cas.put(UNIVERSE, bytes(3), &refs).await.unwrap();
        }
        let mut tx = bench.memory.begin().await.unwrap();
        assert_eq!(blob_edge::read(&mut tx, UNIVERSE, parent).await.unwrap().refs, BTreeSet::from([a, b]));
        let many = (0..=limits::BLOB_REFS_MAX).map(|number| Hash::of(&number.to_be_bytes())).collect();
        assert_eq!(code(bench.cas.put(UNIVERSE, bytes(3), &many).await), Code::BlobRefsTooMany);
    });
}

#[test]
fn a_whole_read_is_bounded_and_says_so() {
    block_on(async {
        let bench = bench();
        let hash = put(&bench.cas, Shape::Inline).await.unwrap();
        let mut meta = bench.cas.find(UNIVERSE, hash).await.unwrap().unwrap();
        meta.size = limits::BLOB_WHOLE_BYTES_MAX + 1;
        let mut tx = bench.memory.begin().await.unwrap();
        crate::keyspace::cas_meta::write(&mut tx, UNIVERSE, hash, &meta).unwrap();
        tx.commit().await.unwrap();
        assert_eq!(code(bench.cas.get(UNIVERSE, hash, Verify::Sampled).await), Code::BlobTooLarge);
        // And a size that lies about an inline body is damage.
        assert_eq!(code(bench.cas.range(UNIVERSE, hash, 0..10).await), Code::BlobCorrupt);
    });
}

#[test]
fn over_a_faulty_store_puts_converge_and_reads_are_right_or_errors() {
    block_on(async {
        let rates = Rates {
            write_refused: 150,
            reply_lost: 150,
            read_missing: 100,
            read_flipped: 100,
            slow: 100,
            ..Rates::default()
        };
        for seed in 0..20 {
            let clock = ManualClock::default();
            let faulty = FaultyObjects::in_memory().with_clock(Arc::new(clock)).with_seed(seed, rates);
            let cas = content_store(Memory::new(), &faulty);
            for size in [10, 20_000, 30_000] {
                let hash = retry(async || cas.put(UNIVERSE, bytes(size), NO_REFS).await).await;
                let read = retry(async || cas.get(UNIVERSE, hash, Verify::Always).await).await;
                assert_eq!(read, bytes(size));
            }
        }
    });
}

async fn retry<T>(attempt: impl AsyncFn() -> Result<T, StoreError>) -> T {
    for _ in 0..100 {
        if let Ok(done) = attempt().await {
            return done;
        }
    }
    panic!("no attempt of 100 came through");
}

#[test]
fn a_store_that_loses_an_acknowledged_write_is_found_out_and_never_believed() {
    block_on(async {
        let bench = bench();
        bench.faulty.script(0, Fault::WriteLost);
        let hash = put(&bench.cas, Shape::Object).await.unwrap();
        assert_eq!(code(bench.cas.get(UNIVERSE, hash, Verify::Sampled).await), Code::BlobCorrupt);
    });
}

#[test]
fn a_slow_store_waits_on_the_injected_clock() {
    block_on(async {
        let clock = ManualClock::default();
        let faulty = FaultyObjects::in_memory().with_clock(Arc::new(clock.clone()));
        let faulty = faulty.with_fault(0, Fault::Slow(Duration::from_secs(9)));
        faulty.put(&"a".into(), Bytes::new().into()).await.unwrap();
        assert_eq!(crate::Clock::now_ns(&clock), 9_000_000_000);
    });
}

#[test]
fn the_folder_behaves_as_memory_does() {
    block_on(async {
        let folder = tempfile::tempdir().unwrap();
        let faulty = FaultyObjects::in_folder(folder.path()).unwrap().with_fault(0, Fault::ReplyLost);
        let cas = content_store(Memory::new(), &faulty);
        assert_eq!(code(cas.put(UNIVERSE, bytes(20_000), NO_REFS).await), Code::ObjectsFailed);
        let hash = cas.put(UNIVERSE, bytes(20_000), NO_REFS).await.unwrap();
        let file = folder.path().join(body_path(UNIVERSE, hash, Generation::FIRST).as_ref());
        assert_eq!(std::fs::read(&file).unwrap(), bytes(20_000));
        std::fs::write(&file, b"short").unwrap();
        assert_eq!(code(cas.get(UNIVERSE, hash, Verify::Sampled).await), Code::BlobCorrupt);
        std::fs::remove_file(&file).unwrap();
        assert_eq!(code(cas.get(UNIVERSE, hash, Verify::Sampled).await), Code::BlobCorrupt);
        let listed: Vec<_> = faulty.list(None).try_collect().await.unwrap();
        assert!(listed.is_empty());
    });
}

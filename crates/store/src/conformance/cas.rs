//! Case 1: the content store names what it is given correctly, gives it back, and takes it only once.

use super::content_store;
use crate::{
    StoreError,
    blobs::{Cas, NO_REFS, PutStream, Verify},
    objects::Objects,
    testing::{Rng, engine_contents},
};
use bytes::Bytes;
use futures_util::{TryStreamExt, stream};
use mundi_engine::Engine;
use mundi_model::{Code, Coded, Hash, UniverseId, limits};
use std::convert::Infallible;

const UNIVERSE: UniverseId = UniverseId::from_bytes([0xc1; 16]);
const OTHER: UniverseId = UniverseId::from_bytes([0xc2; 16]);

/// Put, get, has, range and stream over sizes on both sides of every bound.
pub async fn cas_put_get_has<E: Engine>(engine: &E, objects: &Objects) {
    let cas = content_store(engine, objects);
    let mut rng = Rng::new(1);
    let inline = limits::BLOB_INLINE_BYTES_MAX;
    for size in [0, 1, inline - 1, inline, inline + 1, 100_000, limits::BLOB_PART_BYTES + 1] {
        let bytes = Bytes::from(rng.bytes(size));
        one_object(engine, &cas, &bytes).await.expect("an object is put and read");
    }
    bad_requests(engine, &cas).await;
}

async fn one_object<E: Engine>(engine: &E, cas: &Cas<E>, bytes: &Bytes) -> Result<(), StoreError> {
    let hash = Hash::of(bytes);
    assert!(!cas.has(UNIVERSE, hash).await?, "{hash} is not there before it is put");
    assert_eq!(code(cas.get(UNIVERSE, hash, Verify::Always).await), Some(Code::BlobNotFound));
    assert_eq!(cas.put(UNIVERSE, bytes.clone(), NO_REFS).await?, hash, "the hash is the SHA-256 of the bytes");

    let contents = engine_contents(engine).await?;
    assert_eq!(cas.put(UNIVERSE, bytes.clone(), NO_REFS).await?, hash);
    assert_eq!(engine_contents(engine).await?, contents, "a second put changes nothing");

    assert!(cas.has(UNIVERSE, hash).await?);
    assert!(!cas.has(OTHER, hash).await?, "universes share nothing");
    assert_eq!(cas.size(UNIVERSE, hash).await?, Some(bytes.len() as u64));
    assert_eq!(cas.get(UNIVERSE, hash, Verify::Always).await?, *bytes);
    let streamed: Vec<Bytes> = cas.stream(UNIVERSE, hash, Verify::Always).await?.try_collect().await?;
    assert_eq!(streamed.concat(), *bytes);
    let (size, middle) = (bytes.len() as u64, bytes.len() / 2);
    assert_eq!(cas.range(UNIVERSE, hash, middle as u64..size).await?, bytes[middle..]);
    assert_eq!(code(cas.range(UNIVERSE, hash, 0..size + 1).await), Some(Code::BlobRangeInvalid));

    for stated in [None, Some(hash)] {
        let pieces = bytes.chunks(1_000_003).map(|piece| Ok::<_, Infallible>(Bytes::copy_from_slice(piece)));
        let source = stream::iter(pieces.collect::<Vec<_>>());
        let put = PutStream { stated, ..PutStream::default() };
        assert_eq!(cas.put_stream(OTHER, source, put).await?, (hash, size), "a stream gives the same hash");
    }
    assert_eq!(cas.get(OTHER, hash, Verify::Always).await?, *bytes);
    Ok(())
}

async fn bad_requests<E: Engine>(engine: &E, cas: &Cas<E>) {
    let contents = engine_contents(engine).await.expect("the engine reads");
    let (bytes, wrong) = (Bytes::from_static(b"never stored"), Hash::of(b"something else"));
    let refused = cas.put_expecting(UNIVERSE, wrong, bytes.clone(), NO_REFS).await;
    assert_eq!(code(refused), Some(Code::BlobHashMismatch));
    let refused = cas.put(UNIVERSE, bytes, &[wrong].into()).await;
    assert_eq!(code(refused), Some(Code::BlobRefMissing));
    assert_eq!(engine_contents(engine).await.expect("the engine reads"), contents, "what is refused changes nothing");
}

fn code<T>(result: Result<T, StoreError>) -> Option<Code> {
    result.err().map(|error| error.code())
}

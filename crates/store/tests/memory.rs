//! How much memory large bodies and lying lengths cost, measured by counting every allocation.
//!
//! The streamed object has 96 MiB, which is enough to tell a stream from a buffer. For a full gigabyte:
//! `MUNDI_LARGE_BLOB_MIB=1024 cargo test --release -p mundi-store --test memory -- --nocapture`

#![allow(unsafe_code, reason = "a counting allocator can only be written so")]

use bytes::Bytes;
use futures_util::{TryStreamExt, stream};
use mundi_engine::Memory;
use mundi_model::{Hash, Hasher, Height, UniverseId};
use mundi_store::{
    blobs::{Cas, CasConfig, PutStream, Verify},
    keyspace::segment::SegmentRecord,
    objects,
    segments::{Block, decode_block, decode_footer},
    testing::{CountingEntropy, ManualClock, Rng},
};
use std::{
    alloc::{GlobalAlloc, Layout, System},
    convert::Infallible,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

fn grow(bytes: usize) {
    let now = NOW.fetch_add(bytes, Ordering::SeqCst) + bytes;
    PEAK.fetch_max(now, Ordering::SeqCst);
}

// SAFETY: every call is passed on unchanged to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        grow(layout.size());
        // SAFETY: the caller's promise about the layout is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Ordering::SeqCst);
        // SAFETY: the pointer came from `alloc` above, with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The counter is one for the process: measurements take turns.
static TURN: Mutex<()> = Mutex::new(());

/// How far memory rose above where it was, while `work` ran.
fn peak_of<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = NOW.load(Ordering::SeqCst);
    PEAK.store(before, Ordering::SeqCst);
    let done = work();
    (done, PEAK.load(Ordering::SeqCst).saturating_sub(before))
}

const MIB: usize = 1024 * 1024;

/// Pieces of 64 KiB that differ, made as they are asked for.
fn source(mib: usize) -> impl futures_util::Stream<Item = Result<Bytes, Infallible>> + Send + Unpin {
    let mut rng = Rng::new(1);
    let noise = rng.bytes(MIB / 16);
    stream::iter((0..mib * 16).map(move |number| {
        let mut piece = noise.clone();
        piece[..8].copy_from_slice(&number.to_le_bytes());
        Ok(Bytes::from(piece))
    }))
}

#[test]
fn a_large_object_goes_in_and_out_in_little_memory() {
    let _turn = TURN.lock().unwrap();
    let mib = std::env::var("MUNDI_LARGE_BLOB_MIB").map_or(96, |mib| mib.parse().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let objects = objects::open(&folder.path().display().to_string()).unwrap();
    let clock = Arc::new(ManualClock::at_ns(1));
    let entropy = Arc::new(CountingEntropy::default());
    let cas = Cas::new(Memory::new(), objects, clock, entropy, CasConfig::default());
    let universe = UniverseId::from_bytes([1; 16]);
    let size = (mib * MIB) as u64;

    let put =
        |stated| pollster::block_on(cas.put_stream(universe, source(mib), PutStream { stated, ..Default::default() }));
    let ((hash, put_size), unstated) = peak_of(|| put(None).unwrap());
    assert_eq!(put_size, size);
    let (_, again) = peak_of(|| put(Some(hash)).unwrap());
    let (read, got) = peak_of(|| {
        pollster::block_on(async {
            let mut stream = cas.stream(universe, hash, Verify::Always).await.unwrap();
            let mut hasher = Hasher::new();
            while let Some(piece) = stream.try_next().await.unwrap() {
                hasher.update(&piece);
            }
            hasher.finish()
        })
    });
    assert_eq!(read, hash);
    let mib_of = |bytes: usize| bytes / MIB;
    println!("{mib} MiB: put {} MiB, put again {} MiB, get {} MiB", mib_of(unstated), mib_of(again), mib_of(got));
    for peak in [unstated, again, got] {
        assert!(peak < 40 * MIB, "{peak} bytes for an object of {mib} MiB");
    }
}

#[test]
fn a_length_that_lies_allocates_no_more_than_the_input_justifies() {
    let _turn = TURN.lock().unwrap();
    let mut rng = Rng::new(2);
    for round in 0..2_000u32 {
        let noise_len = usize::try_from(rng.below(200)).unwrap();
        // A footer that is right up to its list of blocks, which claims up to 2^64 items or bytes and has none.
        let head = [0x9b, 0x5b, 0xbb, 0x7b][usize::try_from(rng.below(4)).unwrap()];
        let start = [&[0x86, 0x50][..], &[1; 16], &[0x50], &[2; 16], &[0x00, 0x01]].concat();
        let claim = [head, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff];
        let footer = [&start[..], &claim, &rng.bytes(noise_len)].concat();
        let (checksum, footer_bytes) = (Hash::of(&footer), u32::try_from(footer.len()).unwrap());
        let tail = [&footer[..], checksum.as_bytes(), &footer_bytes.to_le_bytes(), b"MUNDSEG1"].concat();
        let (start, end) = (Height::GENESIS, Height::new(1));
        let record = SegmentRecord { start, end, size_bytes: tail.len() as u64, footer_bytes, checksum };
        let (refused, peak) = peak_of(|| decode_footer(&record, &tail).is_err());
        assert!(refused && peak < 16 * 1024, "round {round}: {peak} bytes for {}", tail.len());

        let stored = rng.bytes(noise_len);
        let block = Block { records: u32::MAX, stored_bytes: 1, raw_bytes: u32::MAX, checksum: Hash::of(&stored) };
        let (refused, peak) = peak_of(|| decode_block(&block, &stored).is_err());
        assert!(refused && peak < 16 * 1024, "round {round}: {peak} bytes");
    }
}

//! The content store, segments, and the cells of a large world.

use mundi_engine::Embedded;
use mundi_kernel::{MemoryObjects, cells::Cells};
use mundi_store::{
    bench::{Figure, content_and_segments},
    objects,
};
use std::{
    error::Error,
    path::Path,
    pin::Pin,
    sync::Arc,
    time::{Duration, Instant},
};

/// Real time since now, and real sleep.
struct WallClock(Instant);

impl mundi_store::Clock for WallClock {
    fn now_ns(&self) -> u64 {
        u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        std::thread::sleep(duration);
        Box::pin(std::future::ready(()))
    }
}

/// Content store and segments on the embedded engine and a folder.
pub(crate) fn measure_content(folder: &Path) -> Result<Vec<Figure>, Box<dyn Error>> {
    let engine = Embedded::open(folder.join("engine"))?;
    let objects = objects::open(&folder.join("objects").display().to_string())?;
    Ok(pollster::block_on(content_and_segments(&engine, &objects, Arc::new(WallClock(Instant::now()))))?)
}

/// The bytes that a snapshot of a large world writes.
pub(crate) struct CellBytes {
    pub(crate) full: usize,
    /// After this many cells were changed.
    pub(crate) changed: usize,
    pub(crate) increment: usize,
}

/// Fills a world's cells, then changes a few of them, far apart.
pub(crate) fn measure_cells(cells_count: usize, changed: usize) -> Result<CellBytes, Box<dyn Error>> {
    let mut stored = MemoryObjects::new();
    let mut cells = Cells::open(None);
    let key = |number: usize| format!("accounts/{number:09}/balance");
    for number in 0..cells_count {
        cells.put(&key(number), format!("value of cell {number}, about fifty bytes in all ....").into_bytes());
        if number % 50_000 == 49_999 || number + 1 == cells_count {
            cells.flush(&stored)?;
        }
    }
    let full = save(&mut cells, &mut stored);
    for index in 0..changed {
        cells.put(&key(index * (cells_count / changed)), b"changed".to_vec());
    }
    cells.flush(&stored)?;
    let increment = save(&mut cells, &mut stored);
    Ok(CellBytes { full, changed, increment })
}

/// Stores the new objects and says how many bytes they have.
fn save(cells: &mut Cells, stored: &mut MemoryObjects) -> usize {
    let unsaved: Vec<_> = cells.unsaved().collect();
    let bytes = unsaved.iter().map(|(_, bytes)| bytes.len()).sum();
    cells.saved(unsaved.iter().map(|(hash, _)| hash));
    stored.extend(unsaved);
    bytes
}

//! The raw limit: records appended to one file by one thread, with one fdatasync per group.
//!
//! It has the clients, the queue and the answers of a database, and nothing else: no index, no
//! checksum, no conflict. One thread does everything in turn, which is the least work per record.

use crate::clients::{Done, Kind, measure};
use futures_channel::oneshot;
use std::{
    error::Error,
    fs::{File, OpenOptions},
    io,
    os::unix::fs::FileExt,
    path::Path,
    sync::{Arc, Condvar, Mutex},
    thread::JoinHandle,
    time::Duration,
};
use tokio::runtime::Runtime;

/// Appends records of this size by so many clients, and says how many a second came through.
pub(crate) fn measure_raw(
    runtime: &Runtime,
    path: &Path,
    room: Room,
    kind: Kind,
    clients: usize,
    time: Duration,
    record_bytes: usize,
) -> Result<Done, Box<dyn Error>> {
    let (log, writer) = RawLog::open(path, room)?;
    let client_log = log.clone();
    let done = measure(runtime, kind, clients, time, move |_, _| {
        let log = client_log.clone();
        async move {
            log.append(vec![7; record_bytes]).await;
            1
        }
    });
    log.close();
    writer.join().map_err(|_| "the raw log's writer died")??;
    std::fs::remove_file(path)?;
    Ok(done)
}

/// How much room a preallocated file has before it is written from the start again.
const FILE_BYTES: u64 = 256 << 20;

/// The file grows, or its room was filled with zeros before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Room {
    Growing,
    Preallocated,
}

#[derive(Clone)]
pub(crate) struct RawLog(Arc<Shared>);

struct Shared {
    queue: Mutex<Queue>,
    filled: Condvar,
}

#[derive(Default)]
struct Queue {
    waiting: Vec<(Vec<u8>, oneshot::Sender<()>)>,
    closed: bool,
}

impl RawLog {
    pub(crate) fn open(path: &Path, room: Room) -> io::Result<(Self, JoinHandle<io::Result<()>>)> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path)?;
        if room == Room::Preallocated {
            (0..FILE_BYTES / 4096).try_for_each(|page| file.write_all_at(&[0; 4096], page * 4096))?;
            file.sync_all()?;
        }
        let log = Self(Arc::new(Shared { queue: Mutex::default(), filled: Condvar::new() }));
        let writer = log.clone();
        Ok((log, std::thread::spawn(move || writer.write(&file, room))))
    }

    pub(crate) async fn append(&self, record: Vec<u8>) {
        let (answer, answered) = oneshot::channel();
        if let Ok(mut queue) = self.0.queue.lock() {
            queue.waiting.push((record, answer));
            if queue.waiting.len() == 1 {
                self.0.filled.notify_one();
            }
        }
        let _closed = answered.await;
    }

    pub(crate) fn close(&self) {
        if let Ok(mut queue) = self.0.queue.lock() {
            queue.closed = true;
        }
        self.0.filled.notify_all();
    }

    fn write(&self, file: &File, room: Room) -> io::Result<()> {
        let mut offset = 0;
        let mut buffer = Vec::new();
        loop {
            let Some(group) = self.take() else { return Ok(()) };
            buffer.clear();
            group.iter().for_each(|(record, _)| buffer.extend_from_slice(record));
            if room == Room::Preallocated && offset + buffer.len() as u64 > FILE_BYTES {
                offset = 0;
            }
            file.write_all_at(&buffer, offset)?;
            file.sync_data()?;
            offset += buffer.len() as u64;
            for (_, answer) in group {
                let _gone = answer.send(());
            }
        }
    }

    fn take(&self) -> Option<Vec<(Vec<u8>, oneshot::Sender<()>)>> {
        let queue = self.0.queue.lock().ok()?;
        let mut queue = self.0.filled.wait_while(queue, |queue| queue.waiting.is_empty() && !queue.closed).ok()?;
        if queue.waiting.is_empty() { None } else { Some(std::mem::take(&mut queue.waiting)) }
    }
}

//! The replay log: a line of JSON for each step of the worker shells, for postmortem analysis (R-SHELL-11).
//!
//! Shells report in the middle of their work, so a thread of its own writes the file. Records that it cannot keep up with are dropped and
//! counted. The file is bounded: a full one is renamed to `….1`, in place of the one before.

use mundi_model::{Code, hex};
use mundi_runtime::{
    metrics::{Metric, Metrics},
    shell::ReplayEvent,
};
use parking_lot::Mutex;
use serde::Serialize;
use std::{
    fs::{File, OpenOptions},
    io::{self, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    sync::{
        Arc,
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread::JoinHandle,
};

/// Records that wait for the disk: a few batches of all shells of a process.
const RECORDS_WAITING_MAX: usize = 4_096;

pub(super) struct ReplayLog {
    records: Mutex<Option<SyncSender<Line>>>,
    writer: Mutex<Option<JoinHandle<()>>>,
    metrics: Arc<Metrics>,
}

/// A record as it is written.
#[derive(Serialize)]
struct Line {
    at_ns: u64,
    kind: &'static str,
    worker: String,
    sequence: String,
    attempt: u32,
    /// `OK`, or the code of the failure; absent in a record that is no result.
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<&'static str>,
    /// The whole frame, in hexadecimal digits.
    frame: String,
}

impl ReplayLog {
    pub(super) fn open(path: &Path, bytes_max: u64, metrics: Arc<Metrics>) -> io::Result<Self> {
        let file = LogFile::open(path, bytes_max)?;
        let (records, arriving) = sync_channel(RECORDS_WAITING_MAX);
        let counting = metrics.clone();
        let write = move || write_all(file, arriving, &counting);
        let writer = std::thread::Builder::new().name("replay-log".to_owned()).spawn(write)?;
        Ok(Self { records: Mutex::new(Some(records)), writer: Mutex::new(Some(writer)), metrics })
    }

    /// Takes a record; never waits.
    pub(super) fn record(&self, at_ns: u64, event: &ReplayEvent) {
        let is_result = event.kind.as_str().ends_with("_result");
        let line = Line {
            at_ns,
            kind: event.kind.as_str(),
            worker: event.worker.to_string(),
            sequence: event.place.seq.to_string(),
            attempt: event.attempt,
            status: is_result.then(|| event.code.map_or("OK", Code::as_str)),
            frame: hex(&event.frame),
        };
        let records = self.records.lock();
        if records.as_ref().is_none_or(|records| records.try_send(line).is_err()) {
            self.metrics.add(Metric::ReplayRecordsDropped, 1);
        }
    }

    /// Completes when everything that was taken is in the file. What comes later is dropped.
    pub(super) fn close(&self) {
        drop(self.records.lock().take());
        let writer = self.writer.lock().take();
        if writer.is_some_and(|writer| writer.join().is_err()) {
            tracing::error!("the replay log's thread panicked");
        }
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it ends when the last sender is gone, and belongs to the thread")]
fn write_all(mut file: LogFile, arriving: Receiver<Line>, metrics: &Metrics) {
    for line in &arriving {
        if let Err(error) = file.append(&line) {
            metrics.add(Metric::ReplayRecordsDropped, 1);
            tracing::warn!(%error, "a record of the replay log was not written");
        }
    }
}

struct LogFile {
    path: PathBuf,
    file: File,
    bytes: u64,
    bytes_max: u64,
}

impl LogFile {
    /// Goes on behind the last whole line: what a crash left of another one is cut.
    fn open(path: &Path, bytes_max: u64) -> io::Result<Self> {
        let mut file = OpenOptions::new().read(true).append(true).create(true).open(path)?;
        let bytes = whole_lines(&mut file)?;
        file.set_len(bytes)?;
        Ok(Self { path: path.to_owned(), file, bytes, bytes_max })
    }

    fn append(&mut self, line: &Line) -> io::Result<()> {
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        if self.bytes > 0 && self.bytes + text.len() as u64 > self.bytes_max {
            self.rotate()?;
        }
        self.file.write_all(&text)?;
        self.bytes += text.len() as u64;
        Ok(())
    }

    fn rotate(&mut self) -> io::Result<()> {
        let mut older = self.path.clone().into_os_string();
        older.push(".1");
        std::fs::rename(&self.path, older)?;
        self.file = OpenOptions::new().append(true).create_new(true).open(&self.path)?;
        self.bytes = 0;
        Ok(())
    }
}

/// Where the last whole line of a file ends.
fn whole_lines(file: &mut File) -> io::Result<u64> {
    let len = file.metadata()?.len();
    let mut end = len;
    while end > 0 {
        let start = end.saturating_sub(64 * 1024);
        let mut block = vec![0; usize::try_from(end - start).unwrap_or(0)];
        file.seek(SeekFrom::Start(start))?;
        file.read_exact(&mut block)?;
        if let Some(at) = block.iter().rposition(|byte| *byte == b'\n') {
            return Ok(start + at as u64 + 1);
        }
        end = start;
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mundi_model::{Stamp, WorkerId};
    use mundi_runtime::shell::ReplayKind;
    use mundi_store::values::{MailPlace, QueueSeq};

    fn event(kind: ReplayKind, code: Option<Code>) -> ReplayEvent {
        let place = MailPlace { due_ns: 1, seq: QueueSeq::new(Stamp::new(9, 1), 4) };
        ReplayEvent { kind, worker: WorkerId::new(7).unwrap(), place, code, attempt: 2, frame: vec![0xab, 1] }
    }

    fn lines(path: &Path) -> Vec<serde_json::Value> {
        std::fs::read_to_string(path).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[test]
    fn every_record_is_a_line_and_a_torn_one_is_cut() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("replay.ndjson");
        std::fs::write(&path, "{\"at_ns\":1}\n{\"at_ns\":2,\"ki").unwrap();
        let log = ReplayLog::open(&path, 1 << 20, Arc::default()).unwrap();
        log.record(5, &event(ReplayKind::InboxAttempt, None));
        log.record(6, &event(ReplayKind::TimerResult, Some(Code::EngineBusy)));
        log.record(7, &event(ReplayKind::InboxResult, None));
        log.close();
        log.record(8, &event(ReplayKind::Requeued, None));
        assert_eq!(log.metrics.get(Metric::ReplayRecordsDropped), 1);
        let found = lines(&path);
        assert_eq!(found.len(), 4);
        let sequence = event(ReplayKind::Requeued, None).place.seq.to_string();
        let worker = WorkerId::new(7).unwrap().to_string();
        let expected = serde_json::json!({
            "at_ns": 6, "kind": "timer_result", "worker": worker, "sequence": sequence, "attempt": 2,
            "status": "ENGINE_BUSY", "frame": "ab01",
        });
        assert_eq!(found[2], expected);
        assert_eq!((&found[1]["status"], &found[3]["status"]), (&serde_json::Value::Null, &"OK".into()));
    }

    #[test]
    fn a_full_file_makes_room_and_the_one_before_it_goes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("replay.ndjson");
        let log = ReplayLog::open(&path, 400, Arc::default()).unwrap();
        (0..50).for_each(|at_ns| log.record(at_ns, &event(ReplayKind::InboxAttempt, None)));
        log.close();
        let (new, old) = (lines(&path), lines(&folder.path().join("replay.ndjson.1")));
        assert_eq!(new.last().unwrap()["at_ns"], 49);
        assert_eq!(old.last().unwrap()["at_ns"].as_u64().unwrap() + 1, new[0]["at_ns"].as_u64().unwrap());
        assert!(std::fs::metadata(&path).unwrap().len() <= 400);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
    }
}

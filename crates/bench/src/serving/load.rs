//! The load: connections in a closed loop, each with one request at a time.
//!
//! It shares the machine with what it measures, so it does no more than it must: requests are written as they are,
//! of an answer only the status and the length are read, and an answer that arrives takes the processor from nobody: clients on
//! machines of their own would not, either.

use crate::{latency::Latencies, machine::Polite};
use std::{
    cell::{Cell, RefCell},
    error::Error,
    io,
    net::SocketAddr,
    rc::Rc,
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::LocalSet,
};

/// One connection that is kept.
pub(crate) struct Connection {
    stream: TcpStream,
    request: Vec<u8>,
    answer: Vec<u8>,
}

/// The status of an answer, and where its body begins and ends.
struct Head {
    status: u16,
    body: usize,
    end: usize,
}

impl Connection {
    pub(crate) async fn open(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, request: Vec::new(), answer: Vec::new() })
    }

    /// Posts a body, and gives back the body of the answer. Anything but success is an error.
    pub(crate) async fn post(&mut self, path: std::fmt::Arguments<'_>, body: &[u8]) -> Result<&[u8], Box<dyn Error>> {
        match self.ask("POST", path, body).await? {
            (200..300, body) => Ok(body),
            (status, body) => Err(format!("{status}: {}", String::from_utf8_lossy(body)).into()),
        }
    }

    /// Sends a body, and gives back the status and the body of the answer.
    pub(crate) async fn ask(
        &mut self,
        method: &str,
        path: std::fmt::Arguments<'_>,
        body: &[u8],
    ) -> Result<(u16, &[u8]), Box<dyn Error>> {
        self.request.clear();
        let length = body.len();
        let head = format_args!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
        );
        io::Write::write_fmt(&mut self.request, head)?;
        self.request.extend_from_slice(body);
        self.stream.write_all(&self.request).await?;
        self.answer.clear();
        let Head { status, body, end } = loop {
            if self.stream.read_buf(&mut self.answer).await? == 0 {
                return Err("the server closed the connection".into());
            }
            match head_of(&self.answer)? {
                Some(head) if head.end <= self.answer.len() => break head,
                _ => {}
            }
        };
        Ok((status, &self.answer[body..end]))
    }
}

fn head_of(answer: &[u8]) -> Result<Option<Head>, httparse::Error> {
    let mut headers = [httparse::EMPTY_HEADER; 32];
    let mut response = httparse::Response::new(&mut headers);
    let httparse::Status::Complete(body) = response.parse(answer)? else { return Ok(None) };
    let length = response.headers.iter().find(|header| header.name.eq_ignore_ascii_case("content-length"));
    let length = length.and_then(|header| str::from_utf8(header.value).ok()?.parse::<usize>().ok()).unwrap_or(0);
    Ok(Some(Head { status: response.code.unwrap_or(0), body, end: body + length }))
}

/// How long what was asked last is waited for when a measurement is over.
const LAST_ANSWERS_TIMEOUT: Duration = Duration::from_secs(10);

/// The state that the clients of one measurement share.
#[derive(Default)]
struct Progress {
    warm: Cell<bool>,
    stop: Cell<bool>,
    events: Cell<u64>,
    events_in_all: Cell<u64>,
    latencies: Latencies,
    failed: RefCell<Option<String>>,
}

/// The work of the clients while it was measured.
pub(crate) struct Driven<T> {
    pub(crate) events: u64,
    /// With those before the measurement began and those that ended after it.
    pub(crate) events_in_all: u64,
    pub(crate) seconds: f64,
    pub(crate) latencies: Latencies,
    /// The notes at the beginning and at the end of the measurement.
    pub(crate) noted: [T; 2],
}

/// Runs `clients` connections for some time. `operation` gets its connection and the number of its turn among all, and
/// says how many events it got done.
pub(crate) fn drive<F, T>(
    address: SocketAddr,
    clients: usize,
    time: Duration,
    note: impl Fn() -> T,
    operation: F,
) -> Result<Driven<T>, Box<dyn Error>>
where
    F: AsyncFn(&mut Connection, u64) -> Result<u64, Box<dyn Error>> + 'static,
{
    drive_all(&[address], clients, time, note, operation)
}

/// The same with several servers: the connections take turns among them, so `turn % clients % servers` is the server of a turn.
pub(crate) fn drive_all<F, T>(
    addresses: &[SocketAddr],
    clients: usize,
    time: Duration,
    note: impl Fn() -> T,
    operation: F,
) -> Result<Driven<T>, Box<dyn Error>>
where
    F: AsyncFn(&mut Connection, u64) -> Result<u64, Box<dyn Error>> + 'static,
{
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (progress, operation) = (Rc::new(Progress::default()), Rc::new(operation));
    let load = async {
        let opening = addresses.iter().cycle().take(clients).map(|address| Connection::open(*address));
        let connections = futures_util::future::try_join_all(opening).await?;
        let mut running = Vec::new();
        for (client, mut connection) in connections.into_iter().enumerate() {
            let (progress, operation) = (progress.clone(), operation.clone());
            running.push(tokio::task::spawn_local(async move {
                let mut turn = client as u64;
                while !progress.stop.get() {
                    let begun = Instant::now();
                    let events = match operation(&mut connection, turn).await {
                        Ok(events) => events,
                        Err(error) => {
                            progress.stop.set(true);
                            progress.failed.borrow_mut().get_or_insert(error.to_string());
                            return;
                        }
                    };
                    progress.events_in_all.set(progress.events_in_all.get() + events);
                    if progress.warm.get() {
                        progress.events.set(progress.events.get() + events);
                        progress.latencies.note(begun.elapsed());
                    }
                    turn += clients as u64;
                }
            }));
        }
        tokio::time::sleep((time / 4).max(Duration::from_millis(500))).await;
        let (begun, before) = (Instant::now(), note());
        progress.warm.set(true);
        tokio::time::sleep(time).await;
        progress.warm.set(false);
        let (seconds, after) = (begun.elapsed().as_secs_f64(), note());
        progress.stop.set(true);
        let ending = futures_util::future::join_all(running);
        let _unanswered = tokio::time::timeout(LAST_ANSWERS_TIMEOUT, ending).await;
        Ok::<_, io::Error>((seconds, [before, after]))
    };
    let polite = Polite::begin();
    let (seconds, noted) = LocalSet::new().block_on(&runtime, load)?;
    drop((runtime, polite));
    let Some(Progress { events, events_in_all, latencies, failed, .. }) = Rc::into_inner(progress) else {
        return Err("a client outlived its runtime".into());
    };
    match failed.into_inner() {
        Some(error) => Err(error.into()),
        None => Ok(Driven { events: events.get(), events_in_all: events_in_all.get(), seconds, latencies, noted }),
    }
}

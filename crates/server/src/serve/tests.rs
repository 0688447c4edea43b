use super::*;
use crate::bodies::BodyBudgets;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::DuplexStream;
use tokio::time::Instant;

const TIMEOUT: Duration = Duration::from_millis(100);

/// Takes so long for each answer, and counts them.
#[derive(Clone, Default)]
struct Done {
    takes: Duration,
    bytes: usize,
    answers: Arc<AtomicUsize>,
    budget: Option<Arc<Bodies>>,
}

impl App for Done {
    async fn answer<'a>(&'a self, _: &'a Connection, _: Request<Incoming>) -> Response {
        tokio::time::sleep(self.takes).await;
        self.answers.fetch_add(1, Ordering::Relaxed);
        Response::new(axum::body::Body::from("done".repeat(self.bytes.max(4) / 4)))
    }

    fn answers(&self) -> Option<&Arc<Bodies>> {
        self.budget.as_ref()
    }
}

#[tokio::test]
async fn answers_that_nobody_reads_take_no_more_than_they_may_and_give_it_back() {
    const BYTES: usize = 1 << 20;
    let bytes_max = 3 * BYTES;
    let budgets = BodyBudgets { bytes_max, per_universe_bytes_max: bytes_max, per_token_bytes_max: bytes_max };
    let budget = Bodies::of_answers(budgets);
    let app = Done { bytes: BYTES, budget: Some(budget.clone()), ..Done::default() };
    let get = b"GET / HTTP/1.1\r\nhost: here\r\n\r\n";
    let mut held = Vec::new();
    for _ in 0..3 {
        let (mut client, stop) = connect_to(app.clone(), ServeLimits::default());
        client.write_all(get).await.unwrap();
        client.read_exact(&mut [0; 15]).await.unwrap(); // it is being written
        held.push((client, stop));
    }
    assert_eq!(budget.bytes(), bytes_max as u64);
    let (mut refused, _stop) = connect_to(app.clone(), ServeLimits::default());
    refused.write_all(get).await.unwrap();
    let mut answer = vec![0; 4_096];
    let length = refused.read(&mut answer).await.unwrap();
    let answer = String::from_utf8_lossy(&answer[..length]).into_owned();
    assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("ANSWERS_FULL"), "{answer}");
    assert!(answer.contains("retry-after"), "{answer}");
    drop(held.pop());
    let (mut reader, _stop) = connect_to(app, ServeLimits::default());
    while budget.bytes() > 2 * BYTES as u64 {
        tokio::task::yield_now().await; // until the connection that is gone has given it back
    }
    reader.write_all(get).await.unwrap();
    let mut read = 0;
    while read < BYTES {
        read += reader.read(&mut [0; 65_536]).await.unwrap();
    }
    while budget.bytes() > 2 * BYTES as u64 {
        tokio::task::yield_now().await;
    }
}

fn connect_to(app: Done, limits: ServeLimits) -> (DuplexStream, watch::Sender<bool>) {
    let (client, server) = tokio::io::duplex(4_096);
    let (stop, stopped) = watch::channel(false);
    let connection = Connection(Clients::new(limits.clients).connect([127, 0, 0, 1].into()).unwrap());
    tokio::spawn(async move { talk(server, app, connection, &limits, stopped).await });
    (client, stop)
}

/// A connection to a server that takes so long for each answer.
fn connect(takes: Duration, head_timeout: Duration) -> (DuplexStream, watch::Sender<bool>) {
    let limits = ServeLimits { head_timeout, ..ServeLimits::default() };
    connect_to(Done { takes, ..Done::default() }, limits)
}

async fn ask(client: &mut DuplexStream) {
    client.write_all(b"GET / HTTP/1.1\r\nhost: here\r\n\r\n").await.unwrap();
    let mut answer = [0; 1_024];
    let length = client.read(&mut answer).await.unwrap();
    assert!(answer[..length].starts_with(b"HTTP/1.1 200 OK") && answer[..length].ends_with(b"done"));
}

async fn ends(client: &mut DuplexStream) {
    assert_eq!(client.read(&mut [0; 16]).await.unwrap(), 0);
}

#[tokio::test]
async fn an_idle_connection_is_kept_for_a_while_after_an_answer() {
    let (mut client, _stop) = connect(2 * TIMEOUT, TIMEOUT);
    let begun = Instant::now();
    ask(&mut client).await; // longer than a head may take
    ends(&mut client).await;
    assert!(begun.elapsed() >= 3 * TIMEOUT);
}

#[tokio::test]
async fn a_head_that_comes_byte_by_byte_ends_its_connection() {
    let (mut client, _stop) = connect(Duration::ZERO, TIMEOUT);
    for byte in b"GET / HTTP/1.1\r\nslow: ".iter().chain([b's'; 200].iter()) {
        if client.write_all(&[*byte]).await.is_err() {
            return;
        }
        tokio::time::sleep(TIMEOUT / 20).await;
    }
    panic!("it was waited for ten times as long as it may take");
}

#[tokio::test]
async fn a_server_that_stops_ends_an_idle_connection() {
    let (mut client, stop) = connect(Duration::ZERO, ServeLimits::default().head_timeout);
    ask(&mut client).await;
    stop.send_replace(true);
    ends(&mut client).await;
}

/// Sends requests until the server closes the connection, and reads nothing.
async fn send_and_never_read(client: &mut DuplexStream, request: &[u8]) {
    for _ in 0..100_000 {
        if client.write_all(request).await.is_err() {
            return;
        }
    }
    panic!("the server takes whatever comes");
}

#[tokio::test]
async fn a_client_that_never_reads_loses_its_connection_and_few_answers_were_made_for_it() {
    // Answers without a body, of which hyper would keep any number.
    let limits = ServeLimits { write_timeout: TIMEOUT, pipelined_max: 5, ..ServeLimits::default() };
    let app = Done::default();
    let (mut client, _stop) = connect_to(app.clone(), limits);
    send_and_never_read(&mut client, b"HEAD / HTTP/1.1\r\nhost: here\r\n\r\n").await;
    // Some 40 fill what is between the two; none of the others was begun before there was room.
    let answers = app.answers.load(Ordering::Relaxed);
    assert!((5..100).contains(&answers), "{answers}");
}

#[tokio::test]
async fn a_client_that_reads_drop_by_drop_loses_its_connection() {
    let limits = ServeLimits { write_timeout: TIMEOUT, write_bytes_per_second_min: 100_000, ..ServeLimits::default() };
    let (mut client, _stop) = connect_to(Done { bytes: 1 << 20, ..Done::default() }, limits);
    client.write_all(b"GET / HTTP/1.1\r\nhost: here\r\n\r\n").await.unwrap();
    let mut taken = 0;
    // 1 kB in each window, where 10 kB are asked for: each drop alone would be in time.
    while client.read_exact(&mut [0; 1_024]).await.is_ok() {
        taken += 1_024;
        assert!(taken < 1 << 20, "it was waited for");
        tokio::time::sleep(TIMEOUT).await;
    }
}

#[tokio::test]
async fn a_client_that_reads_slowly_but_fast_enough_gets_all_of_its_answer() {
    let limits =
        ServeLimits { write_timeout: 2 * TIMEOUT, write_bytes_per_second_min: 1_024, ..ServeLimits::default() };
    let (mut client, _stop) = connect_to(Done { bytes: 64 << 10, ..Done::default() }, limits);
    client.write_all(b"GET / HTTP/1.1\r\nhost: here\r\nconnection: close\r\n\r\n").await.unwrap();
    let mut taken = 0;
    loop {
        match client.read(&mut [0; 4_096]).await.unwrap() {
            0 => break,
            length => taken += length,
        }
        tokio::time::sleep(TIMEOUT / 2).await;
    }
    assert!(taken > 64 << 10, "{taken}");
}

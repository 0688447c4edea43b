//! The connections of the HTTP client: used again, replaced, closed.

use bytes::Bytes;
use futures_util::future::join_all;
use http::Request;
use http_body_util::Full;
use mundi_adapters::http::client::{Client, ClientConfig, ClientError};
use parking_lot::Mutex;
use std::{sync::Arc, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::watch,
};
use url::Url;

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello";

const PAUSE: Duration = Duration::from_millis(100);

/// The behaviour of the server at a request.
#[derive(Clone, Copy)]
enum Does {
    Answer,
    AnswerAndClose,
    Close,
    BreakOff,
}

/// A server that counts its connections, what it is asked, and the connections that ended.
struct Server {
    url: Url,
    connected: Arc<Mutex<usize>>,
    asked: Arc<Mutex<usize>>,
    ended: watch::Receiver<usize>,
}

impl Server {
    /// Starts a server that follows the script: one entry per request; after its end it answers.
    async fn start(script: &'static [Does]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap()).parse().unwrap();
        let (end, ended) = watch::channel(0);
        let server = Self { url, connected: Arc::default(), asked: Arc::default(), ended };
        let (connected, asked, end) = (server.connected.clone(), server.asked.clone(), Arc::new(end));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                *connected.lock() += 1;
                let (asked, end) = (asked.clone(), end.clone());
                tokio::spawn(async move {
                    talk(stream, script, &asked).await;
                    end.send_modify(|ended| *ended += 1);
                });
            }
        });
        server
    }

    async fn until_ended(&mut self, connections: usize) {
        let ended = self.ended.wait_for(|ended| *ended >= connections);
        tokio::time::timeout(Duration::from_secs(30), ended).await.expect("a connection stays").unwrap();
    }
}

async fn talk(mut stream: TcpStream, script: &[Does], asked: &Mutex<usize>) {
    let (mut heard, mut room) = (Vec::new(), [0; 1_024]);
    while let Ok(read @ 1..) = stream.read(&mut room).await {
        heard.extend_from_slice(&room[..read]);
        if !heard.ends_with(b"\r\n\r\n") {
            continue;
        }
        heard.clear();
        let number = {
            let mut asked = asked.lock();
            *asked += 1;
            *asked - 1
        };
        match script.get(number).unwrap_or(&Does::Answer) {
            Does::Answer => stream.write_all(ANSWER).await.unwrap(),
            Does::AnswerAndClose => {
                stream.write_all(ANSWER).await.unwrap();
                return tokio::time::sleep(PAUSE).await; // the answer is read before the end is there
            }
            Does::Close => return,
            Does::BreakOff => return stream.write_all(&ANSWER[..ANSWER.len() - 2]).await.unwrap(),
        }
    }
}

fn client() -> Client {
    keeping(Duration::from_secs(60))
}

fn keeping(idle_timeout: Duration) -> Client {
    let connect_timeout = Duration::from_secs(10);
    let config = ClientConfig { connect_timeout, read_timeout: Some(Duration::from_secs(10)), idle_timeout };
    Client::new(config, |_, _| true).unwrap()
}

async fn get(client: &Client, server: &Server) -> Result<Vec<u8>, ClientError> {
    client.send(&server.url, Request::new(Full::new(Bytes::new()))).await?.body(5).await
}

#[tokio::test]
async fn a_connection_is_used_again_once_its_answer_was_read() {
    let (server, client) = (Server::start(&[]).await, client());
    for _ in 0..5 {
        assert_eq!(get(&client, &server).await.unwrap(), b"hello");
    }
    assert_eq!((*server.connected.lock(), *server.asked.lock()), (1, 5));
    let (one, two) = tokio::join!(get(&client, &server), get(&client, &server));
    assert!(one.is_ok() && two.is_ok());
    get(&client, &server).await.unwrap();
    assert_eq!((*server.connected.lock(), *server.asked.lock()), (2, 8));
}

#[tokio::test]
async fn one_that_was_closed_while_it_lay_idle_is_replaced() {
    let (mut server, client) = (Server::start(&[Does::AnswerAndClose]).await, client());
    get(&client, &server).await.unwrap();
    server.until_ended(1).await;
    tokio::time::sleep(PAUSE).await; // the end is there before the connection is taken
    assert_eq!(get(&client, &server).await.unwrap(), b"hello");
    assert_eq!((*server.connected.lock(), *server.asked.lock()), (2, 2));
}

/// In one task, as an adapter worker makes them: it may be told to stop reading before it has seen that a connection has ended.
#[tokio::test]
async fn many_that_were_closed_while_they_lay_idle_are_replaced_at_once() {
    let (mut server, client) = (Server::start(&[Does::AnswerAndClose; 200]).await, client());
    for round in 1..=2 {
        let answers = join_all((0..100).map(|_| get(&client, &server))).await;
        assert!(answers.iter().all(Result::is_ok), "{round}: {answers:?}");
        server.until_ended(round * 100).await;
        tokio::time::sleep(PAUSE).await;
    }
    assert_eq!((*server.connected.lock(), *server.asked.lock()), (200, 200));
}

/// As one that is no HTTP server, or that has too much to do.
#[tokio::test]
async fn a_server_that_hangs_up_at_once_is_not_called_again_and_again() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap()).parse().unwrap();
    let accepted = Arc::new(Mutex::new(0));
    let count = accepted.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            *count.lock() += 1;
            drop(stream);
        }
    });
    client().send(&url, Request::new(Full::new(Bytes::new()))).await.map(drop).unwrap_err();
    assert_eq!(*accepted.lock(), 1);
}

#[tokio::test]
async fn a_short_answer_that_nobody_wants_leaves_its_connection() {
    let (server, client) = (Server::start(&[]).await, client());
    for _ in 0..3 {
        client.send(&server.url, Request::new(Full::new(Bytes::new()))).await.unwrap().let_go().await;
    }
    assert_eq!((*server.connected.lock(), *server.asked.lock()), (1, 3));
}

#[tokio::test]
async fn what_was_sent_and_not_answered_is_not_sent_again() {
    let (server, client) = (Server::start(&[Does::Answer, Does::Close]).await, client());
    get(&client, &server).await.unwrap();
    let error = get(&client, &server).await.unwrap_err();
    assert!(matches!(error, ClientError::Broken(_)) && !error.is_unsent(), "{error:?}");
    assert_eq!((*server.connected.lock(), *server.asked.lock()), (1, 2));
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_none_and_a_closed_port_was_told_nothing() {
    let (server, client) = (Server::start(&[Does::BreakOff]).await, client());
    let error = get(&client, &server).await.unwrap_err();
    assert!(matches!(error, ClientError::Broken(_)), "{error:?}");
    let nobody = Server { url: "http://127.0.0.1:1/".parse().unwrap(), ..server };
    let error = get(&client, &nobody).await.unwrap_err();
    assert!(matches!(error, ClientError::Connect(_)) && error.is_unsent(), "{error:?}");
}

#[tokio::test]
async fn one_that_lies_too_long_is_closed() {
    let (mut server, client) = (Server::start(&[]).await, keeping(Duration::from_millis(50)));
    get(&client, &server).await.unwrap();
    server.until_ended(1).await;
    get(&client, &server).await.unwrap();
    server.until_ended(2).await; // by a second sweep: the first had nothing left to do
    assert_eq!(*server.connected.lock(), 2);
}

#[tokio::test]
async fn one_whose_answer_nobody_wants_is_closed() {
    let (mut server, client) = (Server::start(&[]).await, client());
    let request = || Request::new(Full::new(Bytes::new()));
    drop(client.send(&server.url, request()).await.unwrap());
    server.until_ended(1).await;
    let refused = client.send(&server.url, request()).await.unwrap().body(4).await;
    assert!(matches!(refused, Err(ClientError::TooLarge(4))), "{refused:?}");
    server.until_ended(2).await;
}

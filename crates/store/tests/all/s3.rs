//! The object store on a real S3 server: moto, which the tests start, or any other that `MUNDI_TEST_S3_URL` names, with
//! the usual variables `AWS_*` (`cargo xtask s3-garage` does that).

#![cfg(feature = "s3")]
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test")]

use bytes::Bytes;
use futures_util::{TryStreamExt, stream};
use mundi_engine::Memory;
use mundi_model::{Code, Coded, Hash, UniverseId, limits};
use mundi_store::{
    blobs::{Cas, CasConfig, PutStream, Verify},
    objects::{self, Objects, ReadError},
    testing::{CountingEntropy, ManualClock, Rng},
};
use std::{
    collections::BTreeSet,
    convert::Infallible,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::Arc,
    time::Duration,
};

const UNIVERSE: UniverseId = UniverseId::from_bytes([1; 16]);

/// A server that ends with the test; none if one is given.
struct S3 {
    moto: Option<Moto>,
    url: String,
    settings: Vec<(String, String)>,
}

struct Moto {
    child: Child,
    port: u16,
}

impl Drop for Moto {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}

impl Moto {
    /// `open_calls` many are answered without a poll at who calls; all of them, if it is not given.
    fn start(open_calls: Option<u32>) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
        let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cache");
        let mut command = Command::new(cache.unwrap_or_else(home).join("mundi/moto/bin/moto_server"));
        command.args(["--host", "127.0.0.1", "--port", &port.to_string()]).stdout(Stdio::null()).stderr(Stdio::null());
        if let Some(calls) = open_calls {
            command.env("INITIAL_NO_AUTH_ACTION_COUNT", calls.to_string());
        }
        let child = command.spawn().expect("moto is not installed: `cargo xtask services` installs it");
        let moto = Self { child, port };
        for _ in 0..600 {
            if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                return moto;
            }
            #[expect(clippy::disallowed_methods, reason = "a process takes its time to start")]
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("moto does not answer");
    }

    fn make_bucket(&self, name: &str) {
        let mut line = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        let host = format!("127.0.0.1:{}", self.port);
        write!(line, "PUT /{name} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        line.read_to_string(&mut answer).unwrap();
        assert!(answer.contains(" 200 "), "{answer}");
    }

    fn settings(&self, key: &str) -> Vec<(String, String)> {
        let endpoint = format!("http://127.0.0.1:{}", self.port);
        let settings = [
            ("aws_endpoint", endpoint.as_str()),
            ("aws_allow_http", "true"),
            ("aws_region", "us-east-1"),
            ("aws_access_key_id", key),
            ("aws_secret_access_key", "secret"),
        ];
        settings.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
    }
}

impl S3 {
    /// A place of its own on the given server, or on one of our own.
    fn start(place: &str) -> Self {
        if let Ok(given) = std::env::var("MUNDI_TEST_S3_URL") {
            let variables = std::env::vars().filter(|(name, _)| name.starts_with("AWS_"));
            let settings = variables.map(|(name, value)| (name.to_lowercase(), value)).collect();
            return Self { moto: None, url: format!("{given}/{place}-{}", std::process::id()), settings };
        }
        let moto = Moto::start(None);
        moto.make_bucket("bucket");
        let settings = moto.settings("anyone");
        Self { moto: Some(moto), url: format!("s3://bucket/{place}"), settings }
    }

    fn open(&self) -> Objects {
        objects::open_with(&self.url, self.settings.clone()).unwrap()
    }
}

fn cas(objects: Objects) -> Cas<Memory> {
    let (clock, entropy) = (Arc::new(ManualClock::at_ns(1)), Arc::new(CountingEntropy::default()));
    Cas::new(Memory::new(), objects, clock, entropy, CasConfig::default())
}

#[tokio::test]
async fn objects_are_written_read_listed_copied_and_removed() {
    let s3 = S3::start("plain");
    let objects = s3.open();
    objects::try_out(&objects, &s3.url).await.unwrap();
    let body = Bytes::from(Rng::new(1).bytes(100_000));
    for _ in 0..2 {
        objects.put(&"a/one".into(), body.clone()).await.expect("the same bytes again are nothing");
    }
    assert_eq!(objects.range(&"a/one".into(), 5..50_000, 100_000).await.unwrap(), body.slice(5..50_000));
    assert_eq!(objects.size(&"a/one".into()).await.unwrap(), Some(100_000));
    objects.copy(&"a/one".into(), &"a/two".into()).await.unwrap();
    assert_eq!(objects.range(&"a/two".into(), 0..100_000, 100_000).await.unwrap(), body);
    let mut listed = BTreeSet::new();
    objects
        .list(&"a".into(), |meta| {
            listed.insert((meta.location.to_string(), meta.size));
        })
        .await
        .unwrap();
    assert_eq!(listed, [("a/one".to_owned(), 100_000), ("a/two".to_owned(), 100_000)].into());
    for _ in 0..2 {
        objects.delete(&"a/one".into()).await.expect("what is gone is gone");
    }
    assert_eq!(objects.size(&"a/one".into()).await.unwrap(), None);
    assert!(matches!(objects.range(&"a/one".into(), 0..1, 1).await, Err(ReadError::Missing { .. })));
    let short = objects.range(&"a/two".into(), 0..200_000, 200_000).await;
    assert!(matches!(short, Err(ReadError::WrongSize { actual: 100_000, .. })), "{short:?}");
}

#[tokio::test]
async fn a_large_body_arrives_in_parts_and_is_what_was_sent() {
    let s3 = S3::start("large");
    let cas = cas(s3.open());
    let mut rng = Rng::new(2);
    let pieces: Vec<Bytes> = (0..9).map(|_| Bytes::from(rng.bytes(limits::BLOB_PART_BYTES / 4 + 17))).collect();
    let whole = pieces.concat();
    let (hash, size) = (Hash::of(&whole), whole.len() as u64);
    assert!(whole.len() > 2 * limits::BLOB_PART_BYTES, "more than two parts");
    for stated in [None, Some(hash)] {
        let universe = if stated.is_some() { UniverseId::from_bytes([2; 16]) } else { UNIVERSE };
        let source = stream::iter(pieces.clone().into_iter().map(Ok::<_, Infallible>));
        let put = PutStream { stated, ..PutStream::default() };
        assert_eq!(cas.put_stream(universe, source, put).await.unwrap(), (hash, size));
        let mut read = cas.stream(universe, hash, Verify::Always).await.unwrap();
        let mut found = Vec::new();
        while let Some(piece) = read.try_next().await.unwrap() {
            found.extend_from_slice(&piece);
        }
        assert!(found == whole, "{} bytes came back as {}", whole.len(), found.len());
    }
    let wrong = PutStream { stated: Some(Hash::of(b"another")), ..PutStream::default() };
    let source = stream::iter(pieces.into_iter().map(Ok::<_, Infallible>));
    cas.put_stream(UNIVERSE, source, wrong).await.expect_err("a wrong statement leaves nothing");
    assert!(!cas.has(UNIVERSE, Hash::of(b"another")).await.unwrap());
}

#[tokio::test]
async fn wrong_credentials_and_missing_buckets_are_told_at_once() {
    let s3 = S3::start("denied");
    let nowhere = "s3://no-such-bucket/x";
    let objects = objects::open_with(nowhere, s3.settings.clone()).unwrap();
    let missing = objects::try_out(&objects, nowhere).await.unwrap_err();
    assert_eq!(missing.code(), Code::ObjectsDenied, "{missing}");
    let (settings, url) = match &s3.moto {
        // One call is free: the one that makes the bucket.
        Some(_) => {
            let guarded = Moto::start(Some(1));
            guarded.make_bucket("bucket");
            let settings = guarded.settings("nobody");
            let objects = objects::open_with("s3://bucket/x", settings).unwrap();
            let denied = objects::try_out(&objects, "s3://bucket/x").await.unwrap_err();
            assert_eq!(denied.code(), Code::ObjectsDenied, "{denied}");
            return;
        }
        None => {
            let mut settings = s3.settings.clone();
            settings.push(("aws_secret_access_key".to_owned(), "wrong".to_owned()));
            (settings, s3.url.clone())
        }
    };
    let objects = objects::open_with(&url, settings).unwrap();
    let denied = objects::try_out(&objects, &url).await.unwrap_err();
    assert_eq!(denied.code(), Code::ObjectsDenied, "{denied}");
}

//! The journal of a world as a stream: in pages up to its end, or live, taken up again wherever it broke off.

use crate::{
    error::Error,
    http::{Backoff, Http, escape},
};
use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream, stream::BoxStream};
use reqwest::Method;
use serde_json::Value;
use std::{collections::VecDeque, time::Duration};
use tokio::time::Instant;

fn path(http: &Http, world: &str, from: u64) -> String {
    http.of(&format!("worlds/{}/journal?from={from}", escape(world)))
}

/// The records from a height to the head.
pub(crate) fn records(http: &Http, world: &str, from: u64) -> impl Stream<Item = Result<Value, Error>> + use<> {
    let (http, world) = (http.clone(), world.to_owned());
    let pages = stream::try_unfold(Some(from), move |next| {
        let (http, world) = (http.clone(), world.clone());
        async move {
            let Some(from) = next else { return Ok(None) };
            let page = http.get(&path(&http, &world, from)).await?;
            let items = page["items"].as_array().cloned().unwrap_or_default();
            Ok::<_, Error>(Some((stream::iter(items.into_iter().map(Ok)), height(&page["next"]))))
        }
    });
    futures_util::TryStreamExt::try_flatten(pages)
}

/// Where the next page begins.
fn height(next: &Value) -> Option<u64> {
    next.as_u64().or_else(|| next.as_str()?.parse().ok())
}

/// A live stream, and where it is.
struct Following {
    http: Http,
    world: String,
    /// The next height.
    from: u64,
    body: Option<BoxStream<'static, Result<Bytes, reqwest::Error>>>,
    /// What arrived of an event that is not complete.
    rest: Vec<u8>,
    records: VecDeque<Value>,
    backoff: Backoff,
    /// When it is given up, since the server went away.
    until: Option<Instant>,
}

/// The records from a height on, and each that is appended. Ends only with an error: a refusal, or a server that stays away.
pub(crate) fn follow(http: &Http, world: &str, from: u64) -> impl Stream<Item = Result<Value, Error>> + use<> {
    let following = Following {
        http: http.clone(),
        world: world.to_owned(),
        from,
        body: None,
        rest: Vec::new(),
        records: VecDeque::new(),
        backoff: Backoff::new(),
        until: None,
    };
    stream::try_unfold(following, |mut following| async move {
        let record = following.next().await?;
        Ok(Some((record, following)))
    })
}

impl Following {
    async fn next(&mut self) -> Result<Value, Error> {
        loop {
            if let Some(record) = self.records.pop_front() {
                self.from = record["height"].as_u64().map_or(self.from, |height| height + 1);
                self.backoff.reset();
                return Ok(record);
            }
            match &mut self.body {
                None => self.open().await?,
                Some(body) => match body.next().await {
                    Some(Ok(bytes)) => self.take(&bytes)?,
                    // The server ends a stream after a while, or was restarted: the next one begins after the last record that was seen.
                    Some(Err(_)) | None => {
                        (self.body, self.rest) = (None, Vec::new());
                        self.backoff.wait(Duration::ZERO).await;
                    }
                },
            }
        }
    }

    async fn open(&mut self) -> Result<(), Error> {
        let until = *self.until.get_or_insert(Instant::now() + self.http.retry_for);
        let request = self.http.request(Method::GET, &path(&self.http, &self.world, self.from));
        match self.http.send(request.header("accept", "text/event-stream")).await {
            Ok(response) => (self.body, self.until) = (Some(response.bytes_stream().boxed()), None),
            Err(error) if error.is_transient() && Instant::now() < until => self.backoff.wait(Duration::ZERO).await,
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// The records of the events that are complete now.
    fn take(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.rest.extend_from_slice(bytes);
        while let Some(end) = self.rest.windows(2).position(|two| two == b"\n\n") {
            let event: Vec<u8> = self.rest.drain(..end + 2).collect();
            let lines = event.split(|byte| *byte == b'\n').filter_map(|line| line.strip_prefix(b"data:"));
            let data: Vec<u8> = lines.flatten().copied().collect();
            if !data.is_empty() {
                self.records.push_back(serde_json::from_slice(&data).map_err(|error| Error::unexpected(&error))?);
            }
        }
        Ok(())
    }
}

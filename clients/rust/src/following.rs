//! Streams of numbered events that are taken up again wherever they broke off.

use crate::{
    error::Error,
    http::{Backoff, Http},
};
use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream, stream::BoxStream};
use reqwest::Method;
use serde_json::Value;
use std::{collections::VecDeque, future::Future, time::Duration};
use tokio::time::Instant;

/// A live stream, and where it is.
struct Following<O> {
    http: Http,
    path: String,
    /// The field that numbers the events.
    number: &'static str,
    /// The next number.
    from: u64,
    /// Asked when a stream ends: whether there will be no other event.
    is_over: O,
    body: Option<BoxStream<'static, Result<Bytes, reqwest::Error>>>,
    /// The bytes of an event that is not complete.
    rest: Vec<u8>,
    events: VecDeque<Value>,
    backoff: Backoff,
    /// When it is given up, since the server went away.
    until: Option<Instant>,
}

/// The events from a number on, and each that follows. Ends when `is_over` says so, or with an error: a refusal, or a server that stays away.
pub(crate) fn follow<O, F>(
    http: &Http,
    path: String,
    number: &'static str,
    from: u64,
    is_over: O,
) -> impl Stream<Item = Result<Value, Error>> + use<O, F>
where
    O: Fn() -> F + Send + 'static,
    F: Future<Output = Result<bool, Error>> + Send,
{
    let following = Following {
        http: http.clone(),
        path,
        number,
        from,
        is_over,
        body: None,
        rest: Vec::new(),
        events: VecDeque::new(),
        backoff: Backoff::new(),
        until: None,
    };
    stream::try_unfold(following, |mut following| async move {
        let event = following.next().await?;
        Ok(event.map(|event| (event, following)))
    })
}

impl<O, F> Following<O>
where
    O: Fn() -> F,
    F: Future<Output = Result<bool, Error>>,
{
    async fn next(&mut self) -> Result<Option<Value>, Error> {
        loop {
            if let Some(event) = self.events.pop_front() {
                self.from = event[self.number].as_u64().map_or(self.from, |number| number + 1);
                self.backoff.reset();
                return Ok(Some(event));
            }
            let Some(body) = &mut self.body else {
                self.open().await?;
                continue;
            };
            // The server ends a stream after a while, or was restarted: the next one begins after the last event that was seen.
            match body.next().await {
                Some(Ok(bytes)) => self.take(&bytes)?,
                None if (self.is_over)().await? => return Ok(None),
                Some(Err(_)) | None => {
                    (self.body, self.rest) = (None, Vec::new());
                    self.backoff.wait(Duration::ZERO).await;
                }
            }
        }
    }

    async fn open(&mut self) -> Result<(), Error> {
        let until = *self.until.get_or_insert(Instant::now() + self.http.retry_for);
        let request = self.http.request(Method::GET, &format!("{}?from={}", self.path, self.from));
        match self.http.send(request.header("accept", "text/event-stream")).await {
            Ok(response) => (self.body, self.until) = (Some(response.bytes_stream().boxed()), None),
            Err(error) if error.is_transient() && Instant::now() < until => self.backoff.wait(Duration::ZERO).await,
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// The events that are complete now.
    fn take(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.rest.extend_from_slice(bytes);
        while let Some(end) = self.rest.windows(2).position(|two| two == b"\n\n") {
            let event: Vec<u8> = self.rest.drain(..end + 2).collect();
            let lines = event.split(|byte| *byte == b'\n').filter_map(|line| line.strip_prefix(b"data:"));
            let data: Vec<u8> = lines.flatten().copied().collect();
            if !data.is_empty() {
                self.events.push_back(serde_json::from_slice(&data).map_err(|error| Error::unexpected(&error))?);
            }
        }
        Ok(())
    }
}

//! The journal of a world as a stream: in pages up to its end, or live, taken up again wherever it broke off.

use crate::{
    error::Error,
    following,
    http::{Http, escape},
};
use futures_util::{Stream, stream};
use serde_json::Value;

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

/// The records from a height on, and each that is appended. Ends only with an error: a refusal, or a server that stays away.
pub(crate) fn follow(http: &Http, world: &str, from: u64) -> impl Stream<Item = Result<Value, Error>> + use<> {
    let path = http.of(&format!("worlds/{}/journal", escape(world)));
    following::follow(http, path, "height", from, || async { Ok(false) })
}

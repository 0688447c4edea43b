//! Which process of a fleet holds a world, as answers say: calls and events go there directly.

use reqwest::{RequestBuilder, Response, Url};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Worlds whose holder is remembered. When there are more, all are forgotten and learnt again.
const WORLDS_MAX: usize = 10_000;

/// Clones share what they know.
#[derive(Debug, Clone, Default)]
pub(crate) struct Holders(Arc<Mutex<BTreeMap<String, Url>>>);

impl Holders {
    /// Sends a request: a call or an event to the process that holds its world, if that is known, and anything else as it is.
    pub(crate) async fn send(&self, request: RequestBuilder) -> Result<Response, reqwest::Error> {
        let (client, request) = request.build_split();
        let mut request = request?;
        let Some(world) = world_of(request.url().path()).map(str::to_owned) else {
            return client.execute(request).await;
        };
        let scheme = request.url().scheme().to_owned();
        let holder = self.known().get(&world).cloned();
        if let Some(holder) = &holder {
            let mut url = holder.clone();
            url.set_path(request.url().path());
            url.set_query(request.url().query());
            *request.url_mut() = url;
        }
        let answer = client.execute(request).await;
        match &answer {
            Ok(answer) => {
                let named =
                    answer.headers().get("mundi-holder").and_then(|address| address.to_str().ok()?.parse().ok());
                match named.filter(|named| is_allowed(named, &scheme)) {
                    Some(named) => self.learn(world, named),
                    // Perhaps another service has the address now: the next request goes to the server's own.
                    None if holder.is_some() && !answer.status().is_success() => drop(self.known().remove(&world)),
                    None => {}
                }
            }
            Err(_) if holder.is_some() => drop(self.known().remove(&world)),
            Err(_) => {}
        }
        answer
    }

    fn learn(&self, world: String, holder: Url) {
        let mut known = self.known();
        if known.len() >= WORLDS_MAX {
            known.clear();
        }
        known.insert(world, holder);
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<String, Url>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The part of a path that names the world, if it is that of a call or an event.
fn world_of(path: &str) -> Option<&str> {
    let (world, rest) = path.rsplit_once('/').and_then(|(before, _event)| before.rsplit_once('/'))?;
    let is_world = world.split('/').collect::<Vec<_>>();
    matches!((rest, is_world.as_slice()), ("call" | "send", ["", "v1", "u", _, "worlds", _])).then_some(world)
}

/// A token that was sent encrypted is not sent in the clear.
fn is_allowed(holder: &Url, scheme: &str) -> bool {
    holder.scheme() == "https" || (holder.scheme() == "http" && scheme == "http")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_and_events_have_a_world_and_other_requests_have_none() {
        assert_eq!(world_of("/v1/u/default/worlds/alice/call/add"), Some("/v1/u/default/worlds/alice"));
        assert_eq!(world_of("/v1/u/default/worlds/alice/send/a%2Fb"), Some("/v1/u/default/worlds/alice"));
        for other in [
            "/v1/u/default/worlds/alice",
            "/v1/u/default/worlds/alice/calls/c_1",
            "/v1/u/default/blobs/call/x",
            "/livez",
        ] {
            assert_eq!(world_of(other), None, "{other}");
        }
    }

    #[test]
    fn a_token_never_goes_from_an_encrypted_address_to_one_in_the_clear() {
        let [plain, encrypted] = ["http://a:1", "https://a:1"].map(|url| url.parse().unwrap());
        assert!(is_allowed(&encrypted, "http") && is_allowed(&encrypted, "https") && is_allowed(&plain, "http"));
        assert!(!is_allowed(&plain, "https"));
        assert!(!is_allowed(&"file:///etc/passwd".parse().unwrap(), "http"));
    }

    #[test]
    fn no_more_worlds_are_remembered_than_allowed() {
        let holders = Holders::default();
        for world in 0..=WORLDS_MAX {
            holders.learn(world.to_string(), "http://a:1".parse().unwrap());
        }
        assert_eq!(holders.known().len(), 1);
    }
}

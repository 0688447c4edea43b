//! Requests of clients that are recognized when they come again.

use super::ChildError;
use crate::protocol::require_live;
use crate::{
    OnUnknown, Protocol, StoreError,
    keyspace::{
        child_request::{self, ChildRequest},
        dedupe_bucket::{self, DedupeKind, Ending},
    },
};
use mundi_engine::Transaction;
use mundi_model::{Hash, UniverseId, WorldId, limits};

/// Notes that a request is about to be carried out. Under the same name with another payload it is refused.
///
/// Unknown commit: run again; the second run finds the note of the first.
#[derive(Debug, Clone)]
pub struct NoteRequest {
    pub universe: UniverseId,
    pub parent: WorldId,
    pub request: RequestName,
    pub now_ns: u64,
}

impl Protocol for NoteRequest {
    /// Whether it was noted before.
    type Output = bool;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<bool, StoreError> {
        let place = (self.universe, self.parent);
        require_live(tx, self.universe, self.parent).await?;
        if self.request.answered(tx, place, self.now_ns).await?.is_some() {
            return Ok(true);
        }
        self.request.remember(tx, place, "", self.now_ns)?;
        Ok(false)
    }
}

/// The name of a request, and the hash of its payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestName {
    pub endpoint: &'static str,
    pub client_request_id: String,
    pub payload: Hash,
}

impl RequestName {
    fn key(&self) -> Hash {
        Hash::of_parts([self.endpoint.as_bytes(), b"\0", self.client_request_id.as_bytes()])
    }

    /// The earlier answer, if there was one. Another payload is refused.
    pub(super) async fn answered<T: Transaction>(
        &self,
        tx: &mut T,
        (universe, parent): (UniverseId, WorldId),
        now_ns: u64,
    ) -> Result<Option<String>, StoreError> {
        let known = child_request::read(tx, universe, parent, self.key()).await?;
        match known.filter(|known| known.expires_at_ns > now_ns) {
            None => Ok(None),
            Some(known) if known.payload == self.payload => Ok(Some(known.answer)),
            Some(_) => Err(ChildError::RequestConflict(self.client_request_id.clone()).into()),
        }
    }

    pub(super) fn remember<T: Transaction>(
        &self,
        tx: &mut T,
        (universe, parent): (UniverseId, WorldId),
        answer: &str,
        now_ns: u64,
    ) -> Result<(), StoreError> {
        let expires_at_ns = now_ns.saturating_add(limits::DEDUPE_WINDOW_NS);
        let request = ChildRequest { payload: self.payload, expires_at_ns, answer: answer.to_owned() };
        child_request::write(tx, universe, parent, self.key(), &request)?;
        let ending = Ending::new(DedupeKind::ChildRequest, parent, self.key(), expires_at_ns);
        dedupe_bucket::write(tx, universe, &ending)
    }
}

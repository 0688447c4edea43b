//! Putting an object that never is in memory as a whole.
//!
//! The key of a body is its hash, which is known only at the end. A caller who states the hash beforehand has the
//! parts uploaded straight to their place; the upload is completed only if the hash turns out right, and nothing is
//! visible before. Without a stated hash the parts go to a key of their own and are copied to their place, which costs
//! the store a copy but asks nothing of the source: a request body can be read only once, so hashing it in a first
//! pass would need a second copy of it somewhere too. A body that a crash leaves at such a key is removed by a sweep.

use super::{BlobError, Cas, body_path, incoming_prefix, parts::Parts, put::Source};
use crate::{
    StoreError,
    keyspace::cas_meta::Body,
    objects::Upload,
    protocol::cas_put::{Known, Outcome},
};
use bytes::Bytes;
use futures_util::{Stream, future};
use mundi_engine::Engine;
use mundi_model::{Hash, UniverseId};
use object_store::path::Path;
use std::{collections::BTreeSet, fmt::Display};

/// The declaration of a streamed put about its object.
#[derive(Debug, Clone, Default)]
pub struct PutStream {
    /// Refuse bytes that do not have this hash.
    pub stated: Option<Hash>,
    pub refs: BTreeSet<Hash>,
}

impl<E: Engine> Cas<E> {
    /// Stores what a source gives, in little memory, and returns its hash and size.
    pub async fn put_stream<S, X>(
        &self,
        universe: UniverseId,
        source: S,
        put: PutStream,
    ) -> Result<(Hash, u64), StoreError>
    where
        S: Stream<Item = Result<Bytes, X>> + Send + Unpin,
        X: Display + Send,
    {
        let mut parts = Parts::new(source);
        let first = parts.next().await?;
        if parts.ended() {
            let (hash, size) = parts.finish();
            check(put.stated, hash)?;
            self.put_hashed(universe, hash, first, &put.refs).await?;
            return Ok((hash, size));
        }
        match put.stated {
            Some(stated) => self.stream_to_place(universe, stated, first, parts, &put.refs).await,
            None => self.stream_through_incoming(universe, first, parts, &put.refs).await,
        }
    }

    async fn stream_to_place<S, X>(
        &self,
        universe: UniverseId,
        stated: Hash,
        first: Bytes,
        mut parts: Parts<S>,
        refs: &BTreeSet<Hash>,
    ) -> Result<(Hash, u64), StoreError>
    where
        S: Stream<Item = Result<Bytes, X>> + Send + Unpin,
        X: Display + Send,
    {
        let (body, (hash, size)) = match self.look_up(universe, stated).await? {
            Known::Stored(meta) => {
                // Nothing to upload, but a wrong statement is refused all the same.
                while !parts.ended() {
                    parts.next().await?;
                }
                let done = parts.finish();
                check(Some(stated), done.0)?;
                (meta.body, done)
            }
            Known::Absent(generation) => {
                let path = body_path(universe, stated, generation);
                (Body::Object(generation), self.upload(&path, first, parts, Some(stated)).await?)
            }
        };
        match self.register(universe, hash, size, body, refs).await? {
            Outcome::Stored | Outcome::AlreadyThere => Ok((hash, size)),
            Outcome::Superseded => Err(BlobError::PutRaced(hash).into()),
        }
    }

    async fn stream_through_incoming<S, X>(
        &self,
        universe: UniverseId,
        first: Bytes,
        parts: Parts<S>,
        refs: &BTreeSet<Hash>,
    ) -> Result<(Hash, u64), StoreError>
    where
        S: Stream<Item = Result<Bytes, X>> + Send + Unpin,
        X: Display + Send,
    {
        let incoming = self.incoming_path(universe);
        let (hash, size) = self.upload(&incoming, first, parts, None).await?;
        let source = Source::Incoming(incoming.clone());
        let stored = self.place_and_register(universe, hash, size, refs, &source).await;
        if let Err(error) = self.objects.delete(&incoming).await {
            tracing::warn!(%error, "a temporary body could not be removed; a sweep will");
        }
        stored.map(|()| (hash, size))
    }

    /// Uploads all parts, reading the next one while one is on its way, and completes the upload if the hash is right.
    async fn upload<S, X>(
        &self,
        path: &Path,
        first: Bytes,
        mut parts: Parts<S>,
        stated: Option<Hash>,
    ) -> Result<(Hash, u64), BlobError>
    where
        S: Stream<Item = Result<Bytes, X>> + Send + Unpin,
        X: Display + Send,
    {
        let mut upload = self.objects.upload(path).await?;
        if let Err(error) = send_parts(&mut upload, first, &mut parts).await {
            upload.abort().await;
            return Err(error);
        }
        let (hash, size) = parts.finish();
        if let Err(error) = check(stated, hash) {
            upload.abort().await;
            return Err(error);
        }
        upload.complete().await?;
        Ok((hash, size))
    }

    fn incoming_path(&self, universe: UniverseId) -> Path {
        let mut name = [0; 16];
        self.entropy.fill(&mut name);
        incoming_prefix(universe).join(format!("{:032x}", u128::from_be_bytes(name)))
    }
}

async fn send_parts<S, X>(upload: &mut Upload, first: Bytes, parts: &mut Parts<S>) -> Result<(), BlobError>
where
    S: Stream<Item = Result<Bytes, X>> + Send + Unpin,
    X: Display + Send,
{
    let mut part = first;
    while !parts.ended() {
        let sent = async { Ok(upload.part(part).await?) };
        ((), part) = future::try_join(sent, parts.next()).await?;
    }
    Ok(upload.part(part).await?)
}

fn check(stated: Option<Hash>, actual: Hash) -> Result<(), BlobError> {
    match stated {
        Some(stated) if stated != actual => Err(BlobError::HashMismatch { stated, actual }),
        _ => Ok(()),
    }
}

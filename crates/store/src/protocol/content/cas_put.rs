//! Put an object into the content store.
//!
//! Guarantees: an object's metadata never exists before its body; a second put of the same bytes changes nothing; what
//! an object refers to is there, and stays at least as long as the object; a put that returns after a sweep has
//! condemned the object takes the condemnation back, so that the caller has a whole grace period to refer to it.
//!
//! The body of a large object is uploaded before this transaction, to the generation that [`CasLookup`] gives. If a
//! sweep doomed that generation meanwhile, nothing is written and the caller uploads again as the next one.
//!
//! Unknown commit: run again; the second run finds the metadata and writes nothing.
//!
//! May differ after a crash: `put_at_ns`, which is when the retry ran. A put that is never retried leaves a body
//! without metadata, or at an incoming key; nobody sees it, and a sweep removes it.

use crate::{
    OnUnknown, Protocol, StoreError,
    blobs::BlobError,
    keyspace::{
        blob_edge,
        cas_doomed::{self, Doomed},
        cas_meta::{self, Body, CasMeta, Generation},
    },
};
use mundi_engine::{ReadPlan, Source, Transaction};
use mundi_model::{Hash, UniverseId, limits};
use std::collections::BTreeSet;

/// The known state of a hash before a put: read only.
pub(crate) struct CasLookup {
    pub(crate) universe: UniverseId,
    pub(crate) hash: Hash,
}

pub(crate) enum Known {
    Stored(CasMeta),
    /// Not there; an upload has this generation.
    Absent(Generation),
}

impl Protocol for CasLookup {
    type Output = Known;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    fn source(&self) -> Source {
        Source::SharedSnapshot
    }

    fn read_plan(&self) -> ReadPlan {
        ReadPlan::reads([cas_meta::key, cas_doomed::key].map(|key| key(self.universe, self.hash).planned()))
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<Known, StoreError> {
        if let Some(meta) = cas_meta::read(tx, self.universe, self.hash).await? {
            return Ok(Known::Stored(meta));
        }
        let doomed = cas_doomed::read(tx, self.universe, self.hash).await?;
        Ok(Known::Absent(doomed.map_or(Generation::FIRST, |doomed| doomed.generation.next())))
    }
}

/// The registration of an object whose body is in place.
pub(crate) struct CasPut<'a> {
    pub(crate) universe: UniverseId,
    /// Computed by this process from the bytes.
    pub(crate) hash: Hash,
    pub(crate) size: u64,
    pub(crate) body: Body,
    pub(crate) refs: &'a BTreeSet<Hash>,
    pub(crate) now_ns: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Stored,
    AlreadyThere,
    /// The uploaded body is about to be deleted; upload it again.
    Superseded,
}

impl Protocol for CasPut<'_> {
    type Output = Outcome;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    fn source(&self) -> Source {
        Source::SharedSnapshot
    }

    fn read_plan(&self) -> ReadPlan {
        let of_refs = self.refs.iter().map(|hash| cas_meta::key(self.universe, *hash));
        let keys = [cas_meta::key, cas_doomed::key].map(|key| key(self.universe, self.hash)).into_iter();
        let edge = (!self.refs.is_empty()).then(|| blob_edge::key(self.universe, self.hash));
        ReadPlan::reads(keys.chain(edge).chain(of_refs).map(|key| key.planned()))
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<Outcome, StoreError> {
        let existing = cas_meta::read(tx, self.universe, self.hash).await?;
        let doomed = cas_doomed::read(tx, self.universe, self.hash).await?;
        let outcome = match self.plan(existing, doomed)? {
            Plan::Superseded => return Ok(Outcome::Superseded),
            Plan::Keep => Outcome::AlreadyThere,
            Plan::Write(meta, outcome) => {
                cas_meta::write(tx, self.universe, self.hash, &meta)?;
                outcome
            }
        };
        self.add_refs(tx).await?;
        Ok(outcome)
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Plan {
    Keep,
    Write(CasMeta, Outcome),
    Superseded,
}

impl CasPut<'_> {
    fn plan(&self, existing: Option<CasMeta>, doomed: Option<Doomed>) -> Result<Plan, BlobError> {
        match existing {
            Some(meta) if meta.size != self.size => {
                let what = format!("its metadata says {} bytes, and {} were put", meta.size, self.size);
                Err(BlobError::Corrupt { hash: self.hash, what })
            }
            Some(meta) => Ok(match meta.reprieved(self.now_ns) {
                Some(meta) => Plan::Write(meta, Outcome::AlreadyThere),
                None => Plan::Keep,
            }),
            None if self.is_doomed(doomed) => Ok(Plan::Superseded),
            None => {
                let (size, body) = (self.size, self.body.clone());
                Ok(Plan::Write(CasMeta { size, body, put_at_ns: self.now_ns, condemned_at_ns: None }, Outcome::Stored))
            }
        }
    }

    fn is_doomed(&self, doomed: Option<Doomed>) -> bool {
        match (&self.body, doomed) {
            (Body::Object(generation), Some(doomed)) => *generation <= doomed.generation,
            _ => false,
        }
    }

    /// Adds references that are not yet recorded. Each must be there, and starts its grace period again.
    async fn add_refs<T: Transaction>(&self, tx: &mut T) -> Result<(), StoreError> {
        if self.refs.is_empty() {
            return Ok(());
        }
        let mut edge = blob_edge::read(tx, self.universe, self.hash).await?;
        let new: Vec<Hash> = self.refs.difference(&edge.refs).copied().collect();
        if new.is_empty() {
            return Ok(());
        }
        edge.refs.extend(&new);
        if edge.refs.len() > limits::BLOB_REFS_MAX {
            return Err(BlobError::RefsTooMany { hash: self.hash, refs: edge.refs.len() }.into());
        }
        for missing in new {
            let meta = cas_meta::read(tx, self.universe, missing).await?;
            let meta = meta.ok_or(BlobError::RefMissing { hash: self.hash, missing })?;
            if let Some(meta) = meta.reprieved(self.now_ns) {
                cas_meta::write(tx, self.universe, missing, &meta)?;
            }
        }
        blob_edge::write(tx, self.universe, self.hash, &edge)
    }
}

impl CasMeta {
    /// The metadata without its condemnation; `None` if it was not condemned.
    pub(crate) fn reprieved(&self, now_ns: u64) -> Option<Self> {
        self.condemned_at_ns?;
        Some(Self { put_at_ns: now_ns, condemned_at_ns: None, ..self.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blobs::NO_REFS;
    use mundi_model::{Code, Coded};

    fn put(body: Body) -> CasPut<'static> {
        let universe = UniverseId::from_bytes([1; 16]);
        CasPut { universe, hash: Hash::of(b"x"), size: 7, body, refs: NO_REFS, now_ns: 100 }
    }

    fn meta(size: u64, condemned_at_ns: Option<u64>) -> CasMeta {
        CasMeta { size, body: Body::Object(Generation::FIRST), put_at_ns: 1, condemned_at_ns }
    }

    fn doomed(number: u32) -> Option<Doomed> {
        Some(Doomed { generation: Generation::new(number), doomed_at_ns: 0 })
    }

    #[test]
    fn what_is_there_is_kept_and_a_condemned_object_is_reprieved() {
        let put = put(Body::Object(Generation::FIRST));
        assert_eq!(put.plan(Some(meta(7, None)), None).unwrap(), Plan::Keep);
        let reprieved = CasMeta { put_at_ns: 100, ..meta(7, None) };
        assert_eq!(put.plan(Some(meta(7, Some(50))), None).unwrap(), Plan::Write(reprieved, Outcome::AlreadyThere));
    }

    #[test]
    fn metadata_of_another_size_is_damage() {
        let refused = put(Body::Object(Generation::FIRST)).plan(Some(meta(8, None)), None).unwrap_err();
        assert_eq!(refused.code(), Code::BlobCorrupt);
    }

    #[test]
    fn a_body_that_a_sweep_will_delete_is_not_registered() {
        let first = put(Body::Object(Generation::FIRST));
        assert_eq!(first.plan(None, doomed(0)).unwrap(), Plan::Superseded);
        let second = put(Body::Object(Generation::new(1)));
        assert!(matches!(second.plan(None, doomed(0)).unwrap(), Plan::Write(_, Outcome::Stored)));
        let inline = put(Body::Inline(vec![0; 7]));
        assert!(matches!(inline.plan(None, doomed(0)).unwrap(), Plan::Write(_, Outcome::Stored)));
    }
}

//! Remove objects that nothing refers to, in several small transactions.
//!
//! Guarantees: an object is removed only in a transaction that has read its metadata and found it condemned exactly when
//! the caller believes; every put and every protocol that refers to a condemned object takes the condemnation back, so
//! one of the two commits conflicts and runs again. The metadata goes first, and leaves a doomed record that makes later
//! puts of the same bytes use another key; the body goes after the commit.
//!
//! Unknown commit: run again; what is done is recognized and not done twice.
//!
//! May differ after a crash: a body whose deletion was not sent stays until the next sweep finds its doomed record.

use crate::{
    OnUnknown, Protocol, StoreError,
    keyspace::{
        blob_edge,
        cas_doomed::{self, Doomed},
        cas_meta::{self, Body, CasMeta, Generation},
    },
};
use mundi_engine::Transaction;
use mundi_model::{Hash, UniverseId};

/// Notes that a walk found no reference to these objects. Gives how many were not condemned before.
pub(crate) struct Condemn<'a> {
    pub(crate) universe: UniverseId,
    pub(crate) hashes: &'a [Hash],
    pub(crate) now_ns: u64,
}

impl Protocol for Condemn<'_> {
    type Output = usize;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<usize, StoreError> {
        let mut condemned = 0;
        for &hash in self.hashes {
            let Some(meta) = cas_meta::read(tx, self.universe, hash).await? else { continue };
            if meta.condemned_at_ns.is_none() {
                let meta = CasMeta { condemned_at_ns: Some(self.now_ns), ..meta };
                cas_meta::write(tx, self.universe, hash, &meta)?;
                condemned += 1;
            }
        }
        Ok(condemned)
    }
}

/// Takes condemnations back, because a walk found a reference.
pub(crate) struct Reprieve<'a> {
    pub(crate) universe: UniverseId,
    pub(crate) hashes: &'a [Hash],
}

impl Protocol for Reprieve<'_> {
    type Output = ();

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<(), StoreError> {
        for &hash in self.hashes {
            let Some(meta) = cas_meta::read(tx, self.universe, hash).await? else { continue };
            if let Some(meta) = meta.reprieved(meta.put_at_ns) {
                cas_meta::write(tx, self.universe, hash, &meta)?;
            }
        }
        Ok(())
    }
}

/// Removes the metadata of one object, if it is condemned since the moment that the caller knows.
pub(crate) struct Remove {
    pub(crate) universe: UniverseId,
    pub(crate) hash: Hash,
    pub(crate) condemned_at_ns: u64,
    pub(crate) now_ns: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Removed {
    Gone,
    /// Someone put it or referred to it since it was condemned.
    Spared,
    /// It was not there any more.
    Absent,
}

impl Protocol for Remove {
    /// The result for the metadata, and the body that is to be deleted.
    type Output = (Removed, Option<Generation>);

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<Self::Output, StoreError> {
        let Some(meta) = cas_meta::read(tx, self.universe, self.hash).await? else {
            return Ok((Removed::Absent, None));
        };
        if meta.condemned_at_ns != Some(self.condemned_at_ns) {
            return Ok((Removed::Spared, None));
        }
        tx.delete(cas_meta::key(self.universe, self.hash).as_bytes())?;
        tx.delete(blob_edge::key(self.universe, self.hash).as_bytes())?;
        let Body::Object(generation) = meta.body else { return Ok((Removed::Gone, None)) };
        let doomed = Doomed { generation, doomed_at_ns: self.now_ns };
        cas_doomed::write(tx, self.universe, self.hash, &doomed)?;
        Ok((Removed::Gone, Some(generation)))
    }
}

/// Dooms a body that no metadata names, and all before it. Gives whether it may be deleted.
pub(crate) struct DoomOrphan {
    pub(crate) universe: UniverseId,
    pub(crate) hash: Hash,
    pub(crate) generation: Generation,
    pub(crate) now_ns: u64,
}

impl Protocol for DoomOrphan {
    type Output = bool;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<bool, StoreError> {
        let meta = cas_meta::read(tx, self.universe, self.hash).await?;
        if meta.is_some_and(|meta| meta.body == Body::Object(self.generation)) {
            return Ok(false);
        }
        let doomed = cas_doomed::read(tx, self.universe, self.hash).await?;
        let newest = doomed.map_or(self.generation, |doomed| doomed.generation.max(self.generation));
        let doomed = Doomed { generation: newest, doomed_at_ns: self.now_ns };
        cas_doomed::write(tx, self.universe, self.hash, &doomed)?;
        Ok(true)
    }
}

/// Notes that a deletion is sent again now. Gives whether the record is still the one that the caller saw.
pub(crate) struct Postpone {
    pub(crate) universe: UniverseId,
    pub(crate) hash: Hash,
    pub(crate) doomed: Doomed,
    pub(crate) now_ns: u64,
}

impl Protocol for Postpone {
    type Output = bool;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<bool, StoreError> {
        let postponed = Doomed { doomed_at_ns: self.now_ns, ..self.doomed };
        match cas_doomed::read(tx, self.universe, self.hash).await? {
            Some(doomed) if doomed == postponed => Ok(true),
            Some(doomed) if doomed == self.doomed => {
                cas_doomed::write(tx, self.universe, self.hash, &postponed)?;
                Ok(true)
            }
            _ => Ok(false),
        }
    }
}

/// Forgets a deletion that is long over.
pub(crate) struct ForgetDoomed {
    pub(crate) universe: UniverseId,
    pub(crate) hash: Hash,
    pub(crate) doomed: Doomed,
}

impl Protocol for ForgetDoomed {
    type Output = ();

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<(), StoreError> {
        if cas_doomed::read(tx, self.universe, self.hash).await? == Some(self.doomed) {
            tx.delete(cas_doomed::key(self.universe, self.hash).as_bytes())?;
        }
        Ok(())
    }
}

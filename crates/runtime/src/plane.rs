//! The surroundings of every role: engine, blobs, segments, time, randomness, programs, tasks.

use mundi_engine::Engine;
use mundi_kernel::{Registry, manifest::Retry};
use mundi_store::{Clock, Done, Entropy, Protocol, StoreError, blob::Blobs, journal::Segments};
use std::{future::Future, pin::Pin, sync::Arc};

/// A future that a role wants to run beside itself.
pub type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Starts tasks. Dropping a node's tasks at any await is a crash, and must be survived.
pub trait Spawn: Send + Sync {
    fn spawn(&self, task: Task);
}

/// The persistence plane and what a role needs beside it, as one parameter.
pub trait Plane: Clone + Send + Sync + 'static {
    type Engine: Engine;
    type Blobs: Blobs;
    type Segments: Segments + Clone;

    fn engine(&self) -> &Self::Engine;
    fn blobs(&self) -> &Self::Blobs;
    fn segments(&self) -> &Self::Segments;
    fn clock(&self) -> &Arc<dyn Clock>;
    fn entropy(&self) -> &dyn Entropy;
    fn registry(&self) -> &Arc<Registry>;
    fn spawner(&self) -> &dyn Spawn;
    /// How effects are tried again whose manifest does not say it.
    fn retry(&self) -> Retry;

    fn now_ns(&self) -> u64 {
        self.clock().now_ns()
    }

    /// Random bytes, for ids, attempt tokens and the stamps of records.
    fn random<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0; N];
        self.entropy().fill(&mut bytes);
        bytes
    }

    /// Runs a protocol until it is committed or refused.
    fn run<P: Protocol>(&self, protocol: &P) -> impl Future<Output = Result<Done<P::Output>, StoreError>> + Send {
        async move { mundi_store::run(self.engine(), &**self.clock(), protocol).await }
    }
}

/// The plane as its parts. Cheap to clone if its parts are.
#[derive(Clone)]
pub struct Services<E, B, S> {
    pub engine: E,
    pub blobs: B,
    pub segments: S,
    pub clock: Arc<dyn Clock>,
    pub entropy: Arc<dyn Entropy>,
    pub registry: Arc<Registry>,
    pub spawner: Arc<dyn Spawn>,
    pub retry: Retry,
}

impl<E: Engine, B: Blobs + Clone + 'static, S: Segments + Clone + 'static> Plane for Services<E, B, S> {
    type Engine = E;
    type Blobs = B;
    type Segments = S;

    fn engine(&self) -> &E {
        &self.engine
    }

    fn blobs(&self) -> &B {
        &self.blobs
    }

    fn segments(&self) -> &S {
        &self.segments
    }

    fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    fn entropy(&self) -> &dyn Entropy {
        &*self.entropy
    }

    fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }

    fn spawner(&self) -> &dyn Spawn {
        &*self.spawner
    }

    fn retry(&self) -> Retry {
        self.retry
    }
}

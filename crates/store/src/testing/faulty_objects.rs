//! An object store that misbehaves on purpose, over any that does not.
//!
//! In memory or over a folder, scripted ("the third operation loses its reply") or from a seed. What it
//! does depends only on the plan and on the order of the calls, so that a failing run can be repeated.

use crate::{
    Clock,
    testing::{CrashSwitch, Rng, Side},
};
use async_trait::async_trait;
use bytes::Bytes;
use futures_util::{FutureExt, StreamExt, TryStreamExt, stream, stream::BoxStream};
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions, Result, UploadPart, memory::InMemory,
    path::Path,
};
use parking_lot::Mutex;
use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

/// One misbehaviour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// A write does nothing, and the caller learns of a failure.
    WriteRefused,
    /// A write does nothing, and the caller learns of success.
    WriteLost,
    /// A write is done, and the caller learns of a failure.
    ReplyLost,
    /// A read does not find an object that is there.
    ReadMissing,
    /// A read returns the bytes with one bit flipped.
    ReadFlipped,
    /// The operation is done after a pause.
    Slow(Duration),
}

/// How often, in a thousand operations, each fault of a seeded plan strikes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rates {
    pub write_refused: u32,
    pub write_lost: u32,
    pub reply_lost: u32,
    pub read_missing: u32,
    pub read_flipped: u32,
    pub slow: u32,
}

#[derive(Clone)]
pub struct FaultyObjects {
    inner: Arc<dyn ObjectStore>,
    state: Arc<Mutex<State>>,
    /// The clock that makes the pauses; without one they take no time.
    clock: Option<Arc<dyn Clock>>,
    switch: Option<CrashSwitch>,
    observer: Option<Observer>,
}

/// Hears of each fault that strikes.
type Observer = Arc<dyn Fn(Fault) + Send + Sync>;

#[derive(Debug, Default)]
struct State {
    scripted: BTreeMap<u64, Fault>,
    seeded: Option<(Rng, Rates)>,
    /// Operations so far, reads and writes.
    operations: u64,
    /// Of all reads so far.
    bytes_read: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Access {
    Read,
    Write,
}

impl FaultyObjects {
    /// Over any store, and without faults for now.
    pub fn over(inner: Arc<dyn ObjectStore>) -> Self {
        Self { inner, state: Arc::default(), clock: None, switch: None, observer: None }
    }

    pub fn in_memory() -> Self {
        Self::over(Arc::new(InMemory::new()))
    }

    /// Over a folder that exists.
    pub fn in_folder(folder: &std::path::Path) -> Result<Self> {
        Ok(Self::over(Arc::new(object_store::local::LocalFileSystem::new_with_prefix(folder)?)))
    }

    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// In a process that may die: each write is a step of the switch.
    #[must_use]
    pub fn with_crashes(mut self, switch: CrashSwitch) -> Self {
        self.switch = Some(switch);
        self
    }

    #[must_use]
    pub fn with_observer(mut self, observer: impl Fn(Fault) + Send + Sync + 'static) -> Self {
        self.observer = Some(Arc::new(observer));
        self
    }

    /// The operation with this number, counted from 0 at the last [`Self::behave`], meets this fault.
    #[must_use]
    pub fn with_fault(self, operation: u64, fault: Fault) -> Self {
        self.script(operation, fault);
        self
    }

    #[must_use]
    pub fn with_seed(self, seed: u64, rates: Rates) -> Self {
        self.state.lock().seeded = Some((Rng::new(seed), rates));
        self
    }

    pub fn script(&self, operation: u64, fault: Fault) {
        self.state.lock().scripted.insert(operation, fault);
    }

    /// Ends all misbehaviour, and counts operations from 0 again.
    pub fn behave(&self) {
        *self.state.lock() = State::default();
    }

    pub fn operations(&self) -> u64 {
        self.state.lock().operations
    }

    /// How many bytes all reads asked for.
    pub fn bytes_read(&self) -> u64 {
        self.state.lock().bytes_read
    }

    /// The store underneath, which behaves.
    pub fn inner(&self) -> Arc<dyn ObjectStore> {
        self.inner.clone()
    }

    async fn fate(&self, access: Access) -> Result<Option<Fault>> {
        let died = match (&self.switch, access) {
            (Some(switch), Access::Write) => switch.step(),
            (Some(switch), Access::Read) => switch.is_dead().then_some(Side::Before),
            (None, _) => None,
        };
        match died {
            Some(Side::Before) => return Err(injected("the process is dead")),
            Some(Side::After) => return Ok(Some(Fault::ReplyLost)),
            None => {}
        }
        let fault = self.state.lock().next(access);
        if let (Some(fault), Some(observer)) = (fault, &self.observer) {
            observer(fault);
        }
        match fault {
            Some(Fault::Slow(pause)) => {
                if let Some(clock) = &self.clock {
                    clock.sleep(pause).await;
                }
                Ok(None)
            }
            Some(Fault::WriteRefused) => Err(injected("the operation was refused")),
            other => Ok(other),
        }
    }

    /// A write that meets its fate: `lost` is the success that a lost write pretends.
    async fn write<T>(&self, lost: T, write: impl Future<Output = Result<T>>) -> Result<T> {
        match self.fate(Access::Write).await? {
            Some(Fault::WriteLost) => Ok(lost),
            Some(Fault::ReplyLost) => {
                write.await?;
                Err(injected("the reply was lost"))
            }
            _ => write.await,
        }
    }
}

impl State {
    fn next(&mut self, access: Access) -> Option<Fault> {
        let number = self.operations;
        self.operations += 1;
        match self.scripted.remove(&number) {
            Some(fault) => Some(fault),
            None => self.seeded.as_mut().and_then(|(rng, rates)| rates.draw(rng.below(1000), access)),
        }
    }
}

impl Rates {
    fn draw(&self, mut number: u64, access: Access) -> Option<Fault> {
        let faults = [
            (self.write_refused, Fault::WriteRefused, Some(Access::Write)),
            (self.write_lost, Fault::WriteLost, Some(Access::Write)),
            (self.reply_lost, Fault::ReplyLost, Some(Access::Write)),
            (self.read_missing, Fault::ReadMissing, Some(Access::Read)),
            (self.read_flipped, Fault::ReadFlipped, Some(Access::Read)),
            (self.slow, Fault::Slow(Duration::from_millis(50)), None),
        ];
        for (rate, fault, only) in faults {
            if number < u64::from(rate) {
                return only.is_none_or(|only| only == access).then_some(fault);
            }
            number -= u64::from(rate);
        }
        None
    }
}

fn injected(what: &'static str) -> Error {
    Error::Generic { store: "FaultyObjects", source: what.into() }
}

fn missing(path: &Path) -> Error {
    Error::NotFound { path: path.to_string(), source: "the object is hidden".into() }
}

fn nothing_put() -> PutResult {
    PutResult { e_tag: None, version: None, extensions: Default::default() }
}

impl fmt::Debug for FaultyObjects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultyObjects").field("inner", &self.inner).finish_non_exhaustive()
    }
}

impl fmt::Display for FaultyObjects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FaultyObjects({})", self.inner)
    }
}

#[async_trait]
impl ObjectStore for FaultyObjects {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.write(nothing_put(), self.inner.put_opts(location, payload, options)).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        if let Some(Fault::ReplyLost | Fault::WriteLost) = self.fate(Access::Write).await? {
            return Err(injected("the upload's name was lost"));
        }
        let inner = self.inner.put_multipart_opts(location, options).await?;
        Ok(Box::new(FaultyUpload { inner, objects: self.clone() }))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        match self.fate(Access::Read).await? {
            Some(Fault::ReadMissing) => Err(missing(location)),
            Some(Fault::ReadFlipped) => flipped(self.inner.get_opts(location, options).await?).await,
            _ => {
                let (head, result) = (options.head, self.inner.get_opts(location, options).await?);
                let bytes = if head { 0 } else { result.range.end - result.range.start };
                self.state.lock().bytes_read += bytes;
                Ok(result)
            }
        }
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let objects = self.clone();
        let delete = move |location: Path| {
            let objects = objects.clone();
            async move {
                let one = stream::once(futures_util::future::ready(Ok(location.clone()))).boxed();
                let deleted = objects.inner.delete_stream(one).try_collect::<Vec<_>>();
                objects.write(Vec::new(), deleted).await.map(|_| location)
            }
        };
        locations.and_then(delete).boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let listed = self.inner.list(prefix);
        let objects = self.clone();
        let list = async move { objects.fate(Access::Read).await.map(|_| listed) };
        stream::once(list).try_flatten().boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.fate(Access::Read).await?;
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.write((), self.inner.copy_opts(from, to, options)).await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        self.write((), self.inner.rename_opts(from, to, options)).await
    }
}

/// The same result with the middle byte changed.
async fn flipped(result: GetResult) -> Result<GetResult> {
    let (meta, range, attributes) = (result.meta.clone(), result.range.clone(), result.attributes.clone());
    let mut bytes = result.bytes().await?.to_vec();
    let middle = bytes.len() / 2;
    if let Some(byte) = bytes.get_mut(middle) {
        *byte ^= 1;
    }
    let payload = GetResultPayload::Stream(stream::once(async move { Ok(Bytes::from(bytes)) }).boxed());
    Ok(GetResult { payload, meta, range, attributes, extensions: Default::default() })
}

#[derive(Debug)]
struct FaultyUpload {
    inner: Box<dyn MultipartUpload>,
    objects: FaultyObjects,
}

#[async_trait]
impl MultipartUpload for FaultyUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let part = self.inner.put_part(data);
        let objects = self.objects.clone();
        // A lost part would make another object; stores answer that with a failed completion, so here it fails.
        async move {
            match objects.fate(Access::Write).await? {
                Some(Fault::WriteLost | Fault::ReplyLost) => Err(injected("the part was lost")),
                _ => part.await,
            }
        }
        .boxed()
    }

    async fn complete(&mut self) -> Result<PutResult> {
        let Self { inner, objects } = self;
        objects.write(nothing_put(), inner.complete()).await
    }

    async fn abort(&mut self) -> Result<()> {
        if self.objects.switch.as_ref().is_some_and(CrashSwitch::is_dead) {
            return Err(injected("the process is dead"));
        }
        self.inner.abort().await
    }
}

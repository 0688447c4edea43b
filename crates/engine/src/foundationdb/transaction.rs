//! A transaction: reads through a transaction of the client, without conflict ranges; all the rest is told to the client at commit.

use super::{
    FoundationDb,
    client_error::{refused, unavailable},
    codes::{CommitFailure, ReadFailure, commit_failure, read_failure},
    commit_plan::{CommitPlan, Mutation},
    engine::{COMMIT_WAIT_MS, Shared},
    keys::Keyspace,
};
use crate::{
    CommitError, Committed, EngineError, Page, RangeRead, Read, ReadPlan, Transaction,
    overlay::Overlay,
    planned_reads::{Found, Items, PlannedReads, after},
};
use bytes::Bytes;
use foundationdb::{
    FdbError, FdbResult, RangeOption, Transaction as ClientTransaction, TransactionCommitError,
    options::{ConflictRangeType, MutationType, StreamingMode, TransactionOption},
};
use futures_util::future::{try_join, try_join_all};
use mundi_model::{Stamp, limits};

pub struct FoundationDbTransaction {
    engine: FoundationDb,
    begun_ms: u64,
    overlay: Overlay,
    snapshot: Snapshot,
    planned: PlannedReads,
}

enum Snapshot {
    /// Nothing was read.
    None,
    Taken {
        client: ClientTransaction,
        version: i64,
    },
    /// A read failed, or was dropped halfway: what was read cannot be relied on, and no more can be.
    Lost,
}

impl FoundationDbTransaction {
    pub(super) fn new(engine: FoundationDb, plan: ReadPlan) -> Self {
        let begun_ms = (engine.shared().clock_ms)();
        let mut planned = PlannedReads::default();
        planned.add(plan.reads);
        Self { engine, begun_ms, overlay: Overlay::default(), snapshot: Snapshot::None, planned }
    }

    fn shared(&self) -> &Shared {
        self.engine.shared()
    }

    fn check_age(&self) -> Result<(), EngineError> {
        check_age(self.shared(), self.begun_ms)
    }

    /// Reads the snapshot; all that was planned is fetched with it.
    async fn fetch(&mut self, read: Read) -> Result<Found, EngineError> {
        let reads = self.planned.with(read);
        let mut found = self.ask(&reads).await?.into_iter();
        let first = found.next().unwrap_or(Found::Value(None)); // as many answers as questions
        self.planned.keep(reads.into_iter().skip(1).zip(found));
        Ok(first)
    }

    /// Reads of the snapshot, which the first of them takes. As long as nothing was read, a failure that passes is waited for as the client says.
    async fn ask(&mut self, reads: &[Read]) -> Result<Vec<Found>, EngineError> {
        self.check_age()?;
        // Lost until it has gone well.
        let (mut client, is_first) = match std::mem::replace(&mut self.snapshot, Snapshot::Lost) {
            Snapshot::Lost => return Err(EngineError::TooOld),
            Snapshot::Taken { client, .. } => (client, false),
            Snapshot::None => (self.shared().begin().map_err(|error| refused("beginning to read", error))?, true),
        };
        loop {
            let error = match read_all(&client, &self.shared().keys, reads).await {
                Ok((version, found)) => {
                    self.snapshot = Snapshot::Taken { client, version };
                    return Ok(found);
                }
                Err(error) => error,
            };
            let passes = matches!(read_failure(error.code()), ReadFailure::Passes | ReadFailure::TooOld);
            match passes {
                true if is_first && self.check_age().is_ok() => {
                    client = paused(client, error).await.map_err(|error| refused("reading", error))?;
                }
                true => return Err(EngineError::TooOld),
                false => return Err(refused("reading", error)),
            }
        }
    }

    async fn read(&mut self, key: &[u8], depends: bool) -> Result<Option<Bytes>, EngineError> {
        self.check_age()?;
        if self.overlay.decides(key)? {
            return self.overlay.get(key, depends, |_| Ok(None));
        }
        let key = Bytes::copy_from_slice(key);
        let stored = match self.planned.value(&key) {
            Some(value) => value,
            None => self.fetch(Read::Get(key.clone())).await?.value(),
        };
        self.overlay.get(&key, depends, |_| Ok(stored))
    }

    /// The stored items of a range, until they make up a page together with what the transaction has written.
    async fn stored(&mut self, read: &RangeRead) -> Result<Items, EngineError> {
        let (mut rest, mut items) = (read.clone(), Vec::new());
        loop {
            let page = match self.planned.page(&rest) {
                Some(page) => page,
                None => self.fetch(Read::Range(rest.clone())).await?.items(),
            };
            let is_cut = page.len() >= rest.limit || bytes_of(&page) >= limits::RANGE_BYTES_MAX;
            let last = page.last().map(|(key, _)| key.clone());
            items.extend(page);
            let Some(last) = last.filter(|_| is_cut && !self.overlay.fills_page(read, &items)) else {
                return Ok(items);
            };
            rest = after(rest, last);
        }
    }
}

impl Transaction for FoundationDbTransaction {
    async fn version(&mut self) -> Result<u64, EngineError> {
        if matches!(self.snapshot, Snapshot::None) {
            self.ask(&[]).await?;
        }
        match self.snapshot {
            Snapshot::Taken { version, .. } => Ok(version.unsigned_abs()),
            Snapshot::None | Snapshot::Lost => Err(EngineError::TooOld),
        }
    }

    fn prefetch<R: IntoIterator<Item = Read>>(&mut self, reads: impl FnOnce() -> R) {
        self.planned.add(reads());
    }

    async fn get(&mut self, key: &[u8]) -> Result<Option<Bytes>, EngineError> {
        self.read(key, true).await
    }

    async fn get_snapshot(&mut self, key: &[u8]) -> Result<Option<Bytes>, EngineError> {
        self.read(key, false).await
    }

    async fn range(&mut self, read: RangeRead) -> Result<Page, EngineError> {
        self.check_age()?;
        let stored = if Overlay::is_empty_range(&read)? { Items::new() } else { self.stored(&read).await? };
        self.overlay.range(&read, stored.into_iter().map(Ok))
    }

    crate::forward_writes!(overlay);

    async fn commit(self) -> Result<Committed, CommitError> {
        if self.overlay.is_read_only() {
            return Ok(Committed::ReadOnly);
        }
        if self.check_age().is_err() {
            return Err(CommitError::Conflict);
        }
        let Self { engine, begun_ms, overlay, snapshot, planned: _ } = self;
        let shared = engine.shared();
        let (mut client, version) = match snapshot {
            Snapshot::Lost => return Err(CommitError::Conflict),
            Snapshot::Taken { client, version } => (client, Some(version)),
            Snapshot::None => (shared.begin().map_err(|error| refused("beginning a commit", error))?, None),
        };
        let plan = CommitPlan::of(&shared.keys, overlay);
        loop {
            let error = match send(client, &plan).await? {
                Ok(stamp) => return Ok(Committed::At(stamp)),
                Err(error) => error,
            };
            let may_send_again = check_age(shared, begun_ms).is_ok();
            client = match commit_failure(error.code()) {
                CommitFailure::Refused if may_send_again => again(error, version).await?,
                failure => return Err(failed(failure, *error)),
            };
        }
    }
}

fn check_age(shared: &Shared, begun_ms: u64) -> Result<(), EngineError> {
    let age_ms = (shared.clock_ms)().saturating_sub(begun_ms);
    if age_ms > limits::TRANSACTION_AGE_MS_MAX { Err(EngineError::TooOld) } else { Ok(()) }
}

fn bytes_of(items: &Items) -> usize {
    items.iter().map(|(key, value)| key.len() + value.len()).sum()
}

/// All at once: the client sends them together.
async fn read_all(client: &ClientTransaction, keys: &Keyspace, reads: &[Read]) -> FdbResult<(i64, Vec<Found>)> {
    let each = reads.iter().map(async |read| match read {
        Read::Get(key) => {
            let value = client.get(&keys.stored(key), true).await?;
            Ok(Found::Value(value.map(|value| Bytes::copy_from_slice(&value))))
        }
        Read::Range(range) => read_range(client, keys, range).await.map(Found::Items),
    });
    try_join(client.get_read_version(), try_join_all(each)).await
}

async fn read_range(client: &ClientTransaction, keys: &Keyspace, range: &RangeRead) -> FdbResult<Items> {
    let bounds = (keys.stored(&range.start).to_vec(), keys.stored(&range.end).to_vec());
    let mut option = RangeOption {
        limit: Some(range.limit),
        target_bytes: limits::RANGE_BYTES_MAX,
        mode: StreamingMode::WantAll,
        reverse: range.reverse,
        ..RangeOption::from(bounds)
    };
    let (mut items, mut iteration) = (Items::new(), 1);
    loop {
        let values = client.get_range(&option, iteration, true).await?;
        // Both bounds are the deployment's, so all keys between them are.
        let of_layers =
            values.iter().filter_map(|item| Some((keys.key(item.key())?, Bytes::copy_from_slice(item.value()))));
        items.extend(of_layers);
        if bytes_of(&items) >= limits::RANGE_BYTES_MAX {
            return Ok(items);
        }
        match option.next_range(&values) {
            None => return Ok(items),
            Some(next) => (option, iteration) = (next, iteration + 1),
        }
    }
}

/// After the pause that the client prescribes, the transaction begins anew.
async fn paused(client: ClientTransaction, error: FdbError) -> FdbResult<ClientTransaction> {
    let client = client.on_error(error).await?;
    client.set_option(TransactionOption::ReadYourWritesDisable)?;
    Ok(client)
}

/// Tells the client the whole commit, and waits for its fate. The outer error is one of ours: the client refused a call, and nothing was sent.
async fn send(
    client: ClientTransaction,
    plan: &CommitPlan,
) -> Result<Result<Stamp, TransactionCommitError>, CommitError> {
    tell(&client, plan).map_err(|error| refused("preparing a commit", error))?;
    let stamp = client.get_versionstamp(); // asked for before the commit, and answered after it
    if let Err(error) = client.commit().await {
        return Ok(Err(error));
    }
    let stamp = stamp.await.ok().and_then(|stamp| <[u8; Stamp::LEN]>::try_from(&stamp[..]).ok());
    // It was applied, and nobody knows where: the protocol recognizes its own commit.
    stamp.map(|stamp| Ok(Stamp::from_bytes(stamp))).ok_or(CommitError::Unknown(EngineError::Closed))
}

fn tell(client: &ClientTransaction, plan: &CommitPlan) -> FdbResult<()> {
    client.set_option(TransactionOption::Timeout(COMMIT_WAIT_MS))?;
    for (start, end) in &plan.depends {
        client.add_conflict_range(start, end, ConflictRangeType::Read)?;
    }
    for mutation in &plan.mutations {
        match mutation {
            Mutation::ClearRange(start, end) => client.clear_range(start, end),
            Mutation::Clear(key) => client.clear(key),
            Mutation::Set(key, value) => client.set(key, value),
            Mutation::Add(key, delta) => client.atomic_op(key, delta, MutationType::Add),
            Mutation::SetStamped(key, value) => client.atomic_op(key, value, MutationType::SetVersionstampedKey),
        }
    }
    Ok(())
}

/// A transaction for the very same commit, at the same version, after the pause that the client prescribes.
async fn again(error: TransactionCommitError, version: Option<i64>) -> Result<ClientTransaction, CommitError> {
    let prepared = async {
        let client = error.on_error().await?;
        client.set_option(TransactionOption::ReadYourWritesDisable)?;
        if let Some(version) = version {
            client.set_read_version(version);
        }
        Ok(client)
    };
    prepared.await.map_err(|error| refused("sending a commit again", error).into())
}

fn failed(failure: CommitFailure, error: FdbError) -> CommitError {
    match failure {
        CommitFailure::Conflict => CommitError::Conflict,
        CommitFailure::Unknown => CommitError::Unknown(unavailable("committing", error)),
        CommitFailure::TooLarge => EngineError::TransactionTooLarge.into(),
        CommitFailure::Refused | CommitFailure::Locked => unavailable("committing", error).into(),
        CommitFailure::Fault => refused("committing", error).into(),
    }
}

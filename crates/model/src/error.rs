//! Error codes: the stable part of every error.
//!
//! Hundreds of private causes fold into few public codes, and codes into seven kinds that tell a caller
//! what to do. Each code has a page in `docs/reference/errors/`, and a test keeps the two in step.

use std::{fmt, io};

/// The class of an error, by the caller's next step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Someone else came first. Read again and retry.
    Conflict,
    /// The thing that was named does not exist.
    NotFound,
    /// The request itself is wrong. The same request fails again.
    Invalid,
    /// The right to do this was lost. Stop.
    Fenced,
    /// A bound was reached. Back off, or make room.
    Full,
    /// It cannot be done now. Retry later.
    Unavailable,
    /// Stored data differs from the data that was written. Nothing heals this silently.
    Corrupt,
}

impl Kind {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Conflict => "conflict",
            Self::NotFound => "not_found",
            Self::Invalid => "invalid",
            Self::Fenced => "fenced",
            Self::Full => "full",
            Self::Unavailable => "unavailable",
            Self::Corrupt => "corrupt",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An error with a stable code.
pub trait Coded {
    fn code(&self) -> Code;
}

macro_rules! codes {
    ($($variant:ident = $text:literal, $kind:ident, $meaning:literal;)*) => {
        /// The stable name of what went wrong. Codes are never renamed or reused.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Code {
            $(#[doc = $meaning] $variant,)*
        }

        impl Code {
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }

            pub const fn kind(self) -> Kind {
                match self { $(Self::$variant => Kind::$kind,)* }
            }

            /// The code of this name, if there is one.
            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|code| code.as_str() == name)
            }

            /// One sentence, as it stands at the head of the code's page.
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$variant => $meaning,)* }
            }
        }
    };
}

codes! {
    // Encodings and ids.
    IdInvalid = "ID_INVALID", Invalid, "A text is not an id of the expected kind.";
    CborMalformed = "CBOR_MALFORMED", Invalid, "Bytes are not CBOR of the expected type.";
    CborNotCanonical = "CBOR_NOT_CANONICAL", Invalid, "CBOR bytes are valid, but not in canonical form.";
    JsonMalformed = "JSON_MALFORMED", Invalid, "A text is not JSON.";
    JsonNotCanonical = "JSON_NOT_CANONICAL", Invalid, "JSON is valid, but not in canonical form.";
    JsonKeyRepeated = "JSON_KEY_REPEATED", Invalid, "An object in JSON has the same key twice.";
    IntegerTooLarge = "INTEGER_TOO_LARGE", Invalid, "An integer in JSON has more than 64 bits.";
    ValueNotJson = "VALUE_NOT_JSON", Invalid, "A value has no JSON form.";

    // Transactions.
    TransactionConflict = "TRANSACTION_CONFLICT", Conflict, "Another transaction wrote a key that this one had read.";
    TransactionTooOld = "TRANSACTION_TOO_OLD", Conflict, "A transaction was open longer than the engine keeps history.";
    CommitUnknown = "COMMIT_UNKNOWN", Unavailable, "It is unknown whether a commit was applied.";
    KeyInvalid = "KEY_INVALID", Invalid, "A key is empty, too long, or in the reserved range.";
    ValueTooLarge = "VALUE_TOO_LARGE", Invalid, "A value is larger than an engine stores under one key.";
    TransactionTooLarge = "TRANSACTION_TOO_LARGE", Invalid, "A transaction writes or reads more than the bound.";
    RangeInvalid = "RANGE_INVALID", Invalid, "A range read requests no items, or more than the bound.";
    TransactionClosed = "TRANSACTION_CLOSED", Invalid, "A transaction was used after its engine closed.";

    // Bundles.
    BundleInvalid = "BUNDLE_INVALID", Invalid, "A bundle is damaged or truncated, or its verification fails.";
    BundleTooLarge = "BUNDLE_TOO_LARGE", Invalid, "A bundle expands to more than the bound for its size.";

    // Engines.
    EngineBusy = "ENGINE_BUSY", Full, "The engine's commit queue is full.";
    EngineFailed = "ENGINE_FAILED", Unavailable, "The engine could not read or write its storage.";
    DiskFull = "DISK_FULL", Unavailable, "The disk has no space for another commit.";
    FolderInUse = "FOLDER_IN_USE", Unavailable, "Another process has the data folder open.";
    FolderInvalid = "FOLDER_INVALID", Invalid, "A path is not a data folder, and cannot become one.";
    FolderVersion = "FOLDER_VERSION", Invalid, "A data folder was written in a format that this version does not read.";
    FolderDenied = "FOLDER_DENIED", Unavailable, "The process may not read or write the data folder.";
    EngineCorrupt = "ENGINE_CORRUPT", Corrupt, "Stored bytes differ from those that were written.";
    DatabaseInvalid = "DATABASE_INVALID", Invalid, "The database cannot be used: its URL, the password or the permissions are wrong.";
    DatabaseUnavailable = "DATABASE_UNAVAILABLE", Unavailable, "The database does not answer.";
    DatabaseVersion = "DATABASE_VERSION", Invalid, "The tables in the database were made by a newer version of Mundi.";
    DatabaseVersionBehind = "DATABASE_VERSION_BEHIND", Invalid, "The cluster gives versions below those that its data has seen.";
    BackupInvalid = "BACKUP_INVALID", Corrupt, "A backup is incomplete or damaged.";
    BackupFailed = "BACKUP_FAILED", Unavailable, "A backup could not be written or read.";

    // Store.
    UniverseNotFound = "UNIVERSE_NOT_FOUND", NotFound, "There is no universe with that id.";
    WorldNotFound = "WORLD_NOT_FOUND", NotFound, "There is no world with that id in the universe.";
    WorldExists = "WORLD_EXISTS", Conflict, "A world with that id exists already, with another first record.";
    WorldDeleted = "WORLD_DELETED", NotFound, "The world was deleted, or is being deleted.";
    WorldHasForks = "WORLD_HAS_FORKS", Conflict, "A world cannot be deleted while its forks share its history.";
    WorldBeginningInvalid = "WORLD_BEGINNING_INVALID", Invalid, "A world's first record and its first snapshot contradict each other.";
    LeaseFenced = "LEASE_FENCED", Fenced, "The lease under which a world was written is no longer held.";
    LeaseHeld = "LEASE_HELD", Conflict, "Another worker holds the world's lease, and it has not expired.";
    LeaseAssignedElsewhere = "LEASE_ASSIGNED_ELSEWHERE", Conflict, "The world is assigned to another worker.";
    WorldElsewhere = "WORLD_ELSEWHERE", Conflict, "A request was forwarded to a process that does not hold its world.";
    HeadAdvanced = "HEAD_ADVANCED", Conflict, "A journal has grown since its head was read.";
    ChainInvalid = "CHAIN_INVALID", Invalid, "Records do not continue the journal: a height or a predecessor's hash is wrong.";
    RecordTooLarge = "RECORD_TOO_LARGE", Invalid, "A record has more bytes than one key may hold.";
    RecordReserved = "RECORD_RESERVED", Invalid, "A record of this kind is written only by its own protocol.";
    BatchInvalid = "BATCH_INVALID", Invalid, "A batch is empty, or has more items or bytes than the bound.";
    JournalGap = "JOURNAL_GAP", Corrupt, "A record below the head is neither in the engine nor in a segment.";
    JournalCorrupt = "JOURNAL_CORRUPT", Corrupt, "A stored record differs from the one that was appended.";
    HeightOutOfRange = "HEIGHT_OUT_OF_RANGE", Invalid, "The journal does not have this height.";
    InboxFull = "INBOX_FULL", Full, "The world's inbox is full.";
    MessageSendersFull = "MESSAGE_SENDERS_FULL", Full, "Too many effects that are open send under one message id that they chose.";
    InboxItemTooLarge = "INBOX_ITEM_TOO_LARGE", Invalid, "An inbox item has more bytes than the bound, and they cannot be moved to the content store.";
    CursorRegressed = "CURSOR_REGRESSED", Invalid, "An inbox cursor would move backwards.";
    CursorMoved = "CURSOR_MOVED", Conflict, "An inbox cursor has moved since the caller read it.";
    SnapshotInvalid = "SNAPSHOT_INVALID", Invalid, "A snapshot contradicts itself, or is not the one that the journal gives at its height.";
    SnapshotBeyondHead = "SNAPSHOT_BEYOND_HEAD", Invalid, "A snapshot claims to cover records that do not exist.";
    SnapshotExists = "SNAPSHOT_EXISTS", Conflict, "There is already another snapshot at that height.";
    SnapshotIncomplete = "SNAPSHOT_INCOMPLETE", Invalid, "A snapshot needs blobs that do not exist, or does not list what it needs.";
    SnapshotManifest = "SNAPSHOT_MANIFEST", Invalid, "A snapshot's manifest is not the one that the journal gives at its height.";
    SnapshotNotFound = "SNAPSHOT_NOT_FOUND", NotFound, "The world has no snapshot at that height.";
    ReceiptHorizonUnmet = "RECEIPT_HORIZON_UNMET", Invalid, "A snapshot cannot become the baseline, because a receipt that it waits for could be lost.";
    BaselineRegressed = "BASELINE_REGRESSED", Conflict, "A baseline cannot move back to an earlier snapshot.";
    BaselineDamaged = "BASELINE_DAMAGED", Corrupt, "The snapshot that restore starts from differs from the one that was promoted.";
    IntentNotJournaled = "INTENT_NOT_JOURNALED", Invalid, "A turn publishes an intent that is in none of its records.";
    LineageTooDeep = "LINEAGE_TOO_DEEP", Full, "A world has more ancestors than the bound on lineage.";
    StoreCorrupt = "STORE_CORRUPT", Corrupt, "The value of a key is not of the type that its family stores.";

    // Content store and segments.
    BlobNotFound = "BLOB_NOT_FOUND", NotFound, "The content store has no object with this hash.";
    BlobCorrupt = "BLOB_CORRUPT", Corrupt, "The body of a stored object is missing, or differs from the one that was put.";
    BlobHashMismatch = "BLOB_HASH_MISMATCH", Invalid, "The bytes do not have the hash that the caller stated.";
    BlobTooLarge = "BLOB_TOO_LARGE", Invalid, "An object is larger than the content store accepts, or than one call returns.";
    BlobRangeInvalid = "BLOB_RANGE_INVALID", Invalid, "A range read reaches beyond the object.";
    BlobRefMissing = "BLOB_REF_MISSING", Invalid, "An object refers to an object that is not in the content store.";
    BlobRefsTooMany = "BLOB_REFS_TOO_MANY", Invalid, "An object refers to more objects than the bound.";
    BlobSourceFailed = "BLOB_SOURCE_FAILED", Invalid, "The stream of an upload ended early.";
    BlobPutRaced = "BLOB_PUT_RACED", Conflict, "An object was swept while the same bytes were being put.";
    TransferInvalid = "TRANSFER_INVALID", Corrupt, "The export of a universe is incomplete or damaged.";
    TransferRefused = "TRANSFER_REFUSED", Conflict, "A universe cannot be exported or imported in its present state.";
    ObjectsUrlInvalid = "OBJECTS_URL_INVALID", Invalid, "This build cannot open an object store with this URL.";
    ObjectsDenied = "OBJECTS_DENIED", Invalid, "The object store refuses: the bucket, the credentials or a permission is wrong.";
    ObjectsFailed = "OBJECTS_FAILED", Unavailable, "The object store could not read or write.";
    SegmentCorrupt = "SEGMENT_CORRUPT", Corrupt, "A segment is missing, or differs from the one that was exported.";
    SegmentUnsafe = "SEGMENT_UNSAFE", Invalid, "These records may not be exported from the engine yet.";
    SweepRefused = "SWEEP_REFUSED", Invalid, "The requested grace period of a sweep is below the safe minimum.";
    SweepRaced = "SWEEP_RACED", Conflict, "Another process took over the sweep, or a deletion cancelled it.";

    // Cells and content.
    ObjectMissing = "OBJECT_MISSING", NotFound, "A required object of the content store was not found.";
    CellsCorrupt = "CELLS_CORRUPT", Corrupt, "A node of a cell tree does not match its hash or its position.";

    // Programs and manifests.
    ManifestInvalid = "MANIFEST_INVALID", Invalid, "A manifest is not canonical JSON of the expected shape, one of its schemas is not a JSON Schema, or a limit, a timeout or a retry term is beyond its bound.";
    ManifestNotRegistered = "MANIFEST_NOT_REGISTERED", Invalid, "A world may run only registered manifests and programs, and this one is not registered.";
    ProgramUnknown = "PROGRAM_UNKNOWN", NotFound, "No program with the hash that a manifest names is registered here.";
    ProgramVersionTaken = "PROGRAM_VERSION_TAKEN", Conflict, "This version of a named program is another manifest.";
    ProgramNamesFull = "PROGRAM_NAMES_FULL", Full, "A universe has the most program names that it may have, or a name the most versions.";
    ProgramNamed = "PROGRAM_NAMED", Conflict, "A manifest cannot be deleted while a version of a named program refers to it.";
    EventInvalid = "EVENT_INVALID", Invalid, "An event is not declared in the manifest, or its value does not satisfy the declared schema.";
    SchemaWorkExceeded = "SCHEMA_WORK_EXCEEDED", Invalid, "The check of a value against its schema takes more steps than the bound.";
    QueryInvalid = "QUERY_INVALID", Invalid, "A query is not declared in the manifest, or its parameters do not satisfy the declared schema.";
    ControlInvalid = "CONTROL_INVALID", Invalid, "A control command is unknown, or its payload is invalid.";
    ItemTooLarge = "ITEM_TOO_LARGE", Invalid, "An inbox item does not fit into one journal record.";
    ProgramPanicked = "PROGRAM_PANICKED", Invalid, "A program panicked in a step.";
    ProgramTrapped = "PROGRAM_TRAPPED", Invalid, "A component trapped in a step.";
    ProgramRefused = "PROGRAM_REFUSED", Invalid, "The bytes are not a component that this node can run.";
    ProgramPreparing = "PROGRAM_PREPARING", Unavailable, "A component is being compiled.";
    ProgramEngine = "PROGRAM_ENGINE", Unavailable, "A manifest pins another WASM engine than the one of this node.";
    StepSkipped = "STEP_SKIPPED", Invalid, "An operator skipped an input whose step had failed; the program did not process it.";
    StepCrowded = "STEP_CROWDED", Unavailable, "The node has no capacity for the step now; it changed nothing, and is run again later.";
    QueryHeldBack = "QUERY_HELD_BACK", Full, "A query of a world failed several times in a row, and is refused for a while.";
    StepAbandoned = "STEP_ABANDONED", Unavailable, "A node stopped a step that ran too long; it changed nothing.";
    UpgradeDiverges = "UPGRADE_DIVERGES", Conflict, "The rehearsal of an upgrade had another outcome than the journal.";
    ProgramFailed = "PROGRAM_FAILED", Invalid, "A program ended a step with an error of its own.";
    BudgetExhausted = "BUDGET_EXHAUSTED", Full, "A step used more host calls, bytes or outputs than its budget allows.";
    OutputRefused = "OUTPUT_REFUSED", Invalid, "A program emitted something that its manifest or the kernel does not allow.";

    // Intents and timers.
    OpenIntentsFull = "OPEN_INTENTS_FULL", Full, "A world has as many open intents as its manifest allows.";
    TimersFull = "TIMERS_FULL", Full, "A world has as many timers as its manifest allows.";
    ReceiptUnknown = "RECEIPT_UNKNOWN", NotFound, "A receipt answers an intent that this world never emitted.";
    ReceiptClosed = "RECEIPT_CLOSED", Conflict, "A receipt answers an intent that was already answered or cancelled.";
    ReceiptInvalid = "RECEIPT_INVALID", Invalid, "The payload of a receipt violates the manifest's schema or the format of its kind.";
    ReceiptMismatch = "RECEIPT_MISMATCH", Invalid, "A receipt names another effect kind than the intent that it answers.";
    TimerUnknown = "TIMER_UNKNOWN", NotFound, "A timer fired that this world does not wait for.";

    // Turns, replay, snapshots and forks.
    TurnInvalid = "TURN_INVALID", Invalid, "A turn got invalid input: items out of order, or a snapshot record at the wrong height.";
    JournalBroken = "JOURNAL_BROKEN", Corrupt, "A journal's records do not follow each other: a height, a predecessor's hash or a stamp is wrong.";
    ReplayDiverged = "REPLAY_DIVERGED", Corrupt, "Replay produced another outcome than the journal records.";
    ForkSandboxed = "FORK_SANDBOXED", Invalid, "A fork of a sandbox is a sandbox; no other policy is allowed.";
    ForkDiverged = "FORK_DIVERGED", Invalid, "A recorded fork requested another effect than its parent, and stopped there.";
    AnswersInvalid = "ANSWERS_INVALID", Invalid, "The scripted answers of a sandbox cannot be used.";
    ForkInvalid = "FORK_INVALID", Invalid, "A world cannot be forked at this height or under this id.";

    // Runtime.
    MemoryStale = "MEMORY_STALE", Conflict, "A world in memory is not at the head of its journal.";
    SchemaMissing = "SCHEMA_MISSING", NotFound, "A universe has no schema version, and the worker may not write one.";
    SchemaMismatch = "SCHEMA_MISMATCH", Invalid, "A universe is written in another schema version than the worker supports.";
    MailClaimLost = "MAIL_CLAIM_LOST", Fenced, "A worker finished a message after its claim had expired.";
    FrameInvalid = "FRAME_INVALID", Invalid, "Bytes are not a message frame, or one for another worker.";
    CommandInvalid = "COMMAND_INVALID", Invalid, "A worker does not know the command that a message carries.";
    WorldArchived = "WORLD_ARCHIVED", Conflict, "The world is archived and accepts no input.";
    WorkerFull = "WORKER_FULL", Full, "A worker runs the most active worlds that it may.";
    WorldEndsProcess = "WORLD_ENDS_PROCESS", Invalid, "Several processes in a row ended in the first cycle of this world, so it is on hold.";
    WorldOnProbation = "WORLD_ON_PROBATION", Unavailable, "Processes ended in the first cycle of this world; it starts again when no other such world is starting.";
    WorldOnHold = "WORLD_ON_HOLD", Conflict, "The world is on hold until an operator releases it.";
    WorldNotOnHold = "WORLD_NOT_ON_HOLD", Conflict, "The world is not on hold: there is no failed input to retry or skip.";
    WorldUnassigned = "WORLD_UNASSIGNED", Conflict, "The world is not assigned to a worker.";
    CallFailed = "CALL_FAILED", Invalid, "A world called another world, whose step failed or which refused the event.";
    CallTimeout = "CALL_TIMEOUT", Unavailable, "No reply came within the caller's timeout.";

    // Effects, timers, fabric.
    ScheduleInvalid = "SCHEDULE_INVALID", Invalid, "A text is not a schedule.";
    EffectClaimLost = "EFFECT_CLAIM_LOST", Fenced, "A worker answered an effect after its claim had expired or was withdrawn.";
    EffectClaimExpired = "EFFECT_CLAIM_EXPIRED", Unavailable, "The worker of an effect did not renew its claim, and the attempt ended.";
    EffectTimeout = "EFFECT_TIMEOUT", Unavailable, "One attempt of an effect took longer than its manifest allows.";
    EffectParamsInvalid = "EFFECT_PARAMS_INVALID", Invalid, "An adapter cannot use the parameters of an effect.";
    EffectDenied = "EFFECT_DENIED", Invalid, "The configuration does not allow this effect.";
    UniverseDenied = "UNIVERSE_DENIED", Invalid, "The destination universe does not accept messages from the sender's universe.";
    SignatureMissing = "SIGNATURE_MISSING", Invalid, "A receipt must be signed and is not.";
    SignatureInvalid = "SIGNATURE_INVALID", Invalid, "The signature of a receipt was not made with its adapter's key.";
    EffectFailed = "EFFECT_FAILED", Unavailable, "The external service of an effect failed, or could not be reached.";
    EffectAnswerTooLarge = "EFFECT_ANSWER_TOO_LARGE", Full, "The answer to an effect has more bytes than the adapter accepts.";
    EffectNotFound = "EFFECT_NOT_FOUND", NotFound, "There is no effect with this intent or queue position.";
    EffectNotRecorded = "EFFECT_NOT_RECORDED", NotFound, "A recorded fork requested the same effect as its parent, and the parent has no receipt for it.";
    EffectCancelled = "EFFECT_CANCELLED", Invalid, "An effect was cancelled by an operator, or because its world was forked.";
    EffectSandboxed = "EFFECT_SANDBOXED", Invalid, "An effect of a sandbox has no recorded and no scripted answer.";
    DeadLetterNotFound = "DEAD_LETTER_NOT_FOUND", NotFound, "There is no dead letter at this position of the queue.";
    DeadLetterUnusable = "DEAD_LETTER_UNUSABLE", Invalid, "A dead letter cannot be replayed: its item cannot be read, or its world no longer waits for it.";

    // Pools: the results of the lease kernel, and of the queue in front of it.
    AlreadyExists = "ALREADY_EXISTS", Conflict, "A pool has a resource of this id already, or was configured otherwise.";
    ResourceTableFull = "RESOURCE_TABLE_FULL", Full, "A pool has as many resources as its configuration allows.";
    ResourceNotFound = "RESOURCE_NOT_FOUND", NotFound, "A pool has no such resource, or not so many of this label.";
    ResourceBusy = "RESOURCE_BUSY", Conflict, "A resource is held, stands twice in a bundle, or is kept for those who wait in the queue.";
    PoolBundleTooLarge = "POOL_BUNDLE_TOO_LARGE", Invalid, "A bundle of resources is empty, or has more members than the pool's configuration allows.";
    TtlOutOfRange = "TTL_OUT_OF_RANGE", Invalid, "The time of a reservation is zero, or longer than the pool's configuration allows.";
    LeaseTableFull = "LEASE_TABLE_FULL", Full, "A pool keeps as many leases as its configuration allows.";
    LeaseMemberTableFull = "LEASE_MEMBER_TABLE_FULL", Full, "A pool keeps as many members of leases as its configuration allows.";
    LeaseNotFound = "LEASE_NOT_FOUND", NotFound, "A pool never made such a lease.";
    LeaseRetired = "LEASE_RETIRED", NotFound, "A lease of a pool has ended, and does not come back.";
    ExpirationIndexFull = "EXPIRATION_INDEX_FULL", Full, "A pool has as many reservations that wait for their activation as its configuration allows.";
    OperationTableFull = "OPERATION_TABLE_FULL", Full, "A pool keeps as many results of operations as its configuration allows.";
    OperationConflict = "OPERATION_CONFLICT", Conflict, "A client used an operation id again, for another command.";
    InvalidState = "INVALID_STATE", Conflict, "A lease is not in a state in which the command is possible.";
    HolderMismatch = "HOLDER_MISMATCH", Fenced, "A command names another holder than the lease has, or a world names another holder than itself.";
    StaleEpoch = "STALE_EPOCH", Fenced, "A holder acts on an epoch of its lease that is over: its authority was withdrawn.";
    SlotOverflow = "SLOT_OVERFLOW", Invalid, "A time of a pool lies beyond the last slot.";
    PoolNotFound = "POOL_NOT_FOUND", NotFound, "There is no pool of this name in the universe.";
    PoolExists = "POOL_EXISTS", Conflict, "A pool of this name exists already, with other shards or another configuration.";
    PoolsFull = "POOLS_FULL", Full, "A universe has as many pools as it may have.";
    PoolInUse = "POOL_IN_USE", Conflict, "A pool cannot be deleted while it has live leases or someone waits in its queue.";
    PoolShardsMixed = "POOL_SHARDS_MIXED", Invalid, "The members of a bundle lie in different shards of a pool.";
    QueueFull = "QUEUE_FULL", Full, "As many reservations wait in a pool's queue as its configuration allows.";
    TicketNotFound = "TICKET_NOT_FOUND", NotFound, "A pool's queue never gave out such a ticket, or does not keep it any more.";

    // Durable functions.
    FunctionFailed = "FUNCTION_FAILED", Invalid, "A durable function ended with an error.";
    FunctionCancelled = "FUNCTION_CANCELLED", Conflict, "An instance of a durable function, or the scope that something was waited in, was cancelled.";
    FunctionDiverged = "FUNCTION_DIVERGED", Conflict, "The code of a durable function asks for something else than is on record at the same await.";
    FunctionNotFound = "FUNCTION_NOT_FOUND", NotFound, "A world has no instance of a durable function under this name.";
    FunctionKeyInvalid = "FUNCTION_KEY_INVALID", Invalid, "The key of an instance is not valid.";
    FunctionKeyReused = "FUNCTION_KEY_REUSED", Conflict, "A durable function was run again under the same key with another input.";
    FunctionsFull = "FUNCTIONS_FULL", Full, "A world has as many running instances of durable functions, or an instance as many callers, as it may have.";
    FunctionInputTooLarge = "FUNCTION_INPUT_TOO_LARGE", Invalid, "The input of a durable function is too large.";
    FunctionResultTooLarge = "FUNCTION_RESULT_TOO_LARGE", Invalid, "The result of an await or of a durable function is too large.";
    FunctionLogFull = "FUNCTION_LOG_FULL", Full, "The log of an instance of a durable function has as many awaits as it may have.";
    FunctionSignalsFull = "FUNCTION_SIGNALS_FULL", Full, "An instance has as many events that it has not asked for as it may have.";
    FunctionAwaitMissing = "FUNCTION_AWAIT_MISSING", Invalid, "A durable function ended, and nobody waited for something that it had asked for.";
    FunctionContextOver = "FUNCTION_CONTEXT_OVER", Invalid, "A `ctx` was used outside the function that it was given to.";
    FunctionEffectUndeclared = "FUNCTION_EFFECT_UNDECLARED", Invalid, "A durable function asked for an effect that the manifest does not declare.";
    FunctionStuck = "FUNCTION_STUCK", Invalid, "A durable function waits for something that never comes.";
    FunctionCellReserved = "FUNCTION_CELL_RESERVED", Invalid, "A durable function wrote a cell under `$fn/`.";
    FunctionWorldFull = "FUNCTION_WORLD_FULL", Full, "A durable function could not ask for something, because its world has as many open effects or timers as it may have.";

    // Children: dispatch, recovery, cancel and budgets.
    UrmSchedulerReplayOrderInvalid = "URM_SCHEDULER_REPLAY_ORDER_INVALID", Corrupt, "A dispatch number of a parent is used by two children; the parent is on hold.";
    UrmSchedulerLeaseOrphaned = "URM_SCHEDULER_LEASE_ORPHANED", Unavailable, "The executor of a child ended before the child was started.";
    UrmSchedulerPhaseEventAtomicityViolation = "URM_SCHEDULER_PHASE_EVENT_ATOMICITY_VIOLATION", Corrupt, "The phase of a child and its last event do not belong together; the parent is on hold.";
    UrmDispatchLeaseConflict = "URM_DISPATCH_LEASE_CONFLICT", Conflict, "A queue number or a worker run id of a parent is used by two children; the parent is on hold.";
    UrmDispatchAccountingModeInvalid = "URM_DISPATCH_ACCOUNTING_MODE_INVALID", Invalid, "A budget lane has the accounting mode `running_total_v1` and no other.";
    UrmChildBudgetExceeded = "URM_CHILD_BUDGET_EXCEEDED", Full, "A child used more than its own budget or its parent's budget allows.";
    UrmChildTerminatedOnRestart = "URM_CHILD_TERMINATED_ON_RESTART", Unavailable, "The executor of a child ended after the child was started.";
    UrmChildCancelled = "URM_CHILD_CANCELLED", Invalid, "A child was cancelled.";
    UrmChildFailed = "URM_CHILD_FAILED", Invalid, "A child reported a failure.";
    UrmChildKindInvalid = "URM_CHILD_KIND_INVALID", Invalid, "No executor of this installation runs children of this kind, or not with these parameters.";
    UrmChildNotFound = "URM_CHILD_NOT_FOUND", NotFound, "A world has no child of this id, or does not keep it any more.";
    UrmChildClaimLost = "URM_CHILD_CLAIM_LOST", Fenced, "An executor acted on a child that it does not hold any more, or that is not in this phase.";
    UrmGateArtifactChanged = "URM_GATE_ARTIFACT_CHANGED", Corrupt, "A fixture of the stop gate is not the one that its manifest names.";
    UrmGateManifestStale = "URM_GATE_MANIFEST_STALE", Corrupt, "The hash that a manifest of the stop gate carries is not its own.";
    UrmRequestConflict = "URM_REQUEST_CONFLICT", Conflict, "A `client_request_id` was used before, with another payload.";

    // Server.
    NameInvalid = "NAME_INVALID", Invalid, "A text is not a valid name.";
    ConfigInvalid = "CONFIG_INVALID", Invalid, "The configuration has an unknown key or an invalid value.";
    RequestInvalid = "REQUEST_INVALID", Invalid, "A request is not valid for its path.";
    RequestTooLarge = "REQUEST_TOO_LARGE", Invalid, "A request has more bytes, items or headers than the server accepts.";
    RequestTimeout = "REQUEST_TIMEOUT", Unavailable, "A request did not arrive, or was not answered, within its timeout.";
    BodiesFull = "BODIES_FULL", Unavailable, "Request bodies use the most memory that they may: of the process, a universe or a token.";
    AnswersFull = "ANSWERS_FULL", Unavailable, "Unread answers use the most memory that they may: of the process, a universe or a token.";
    ConnectionsFull = "CONNECTIONS_FULL", Full, "An address or a token has the most connections that it may have at a time.";
    QuotaExceeded = "QUOTA_EXCEEDED", Full, "A universe or a token has reached a quota.";
    RouteNotFound = "ROUTE_NOT_FOUND", NotFound, "The server has no such path, or not with this method.";
    CellNotFound = "CELL_NOT_FOUND", NotFound, "A world has no cell under this key, at this height.";
    TokenMissing = "TOKEN_MISSING", Invalid, "The server requires a token, and the request has none that it knows.";
    TokenDenied = "TOKEN_DENIED", Invalid, "The token does not allow this request.";
    TokenNotFound = "TOKEN_NOT_FOUND", NotFound, "No token has this id.";
    OriginDenied = "ORIGIN_DENIED", Invalid, "A request without a token names another host, or comes from a web page of another origin.";
    NodeOverloaded = "NODE_OVERLOADED", Unavailable, "The process uses more memory than it may, and refuses new work until it uses less.";
    WorldOverloaded = "WORLD_OVERLOADED", Full, "The oldest item in the world's inbox is too old; new events are refused until the world has caught up.";

    // Names and labels of worlds.
    WorldNameTaken = "WORLD_NAME_TAKEN", Conflict, "Another world of the universe has this name.";
    LabelInvalid = "LABEL_INVALID", Invalid, "A label's key or value is empty, too long, or has characters that are not allowed.";
    LabelsFull = "LABELS_FULL", Full, "A world would have more labels than the bound.";
    SqlInvalid = "SQL_INVALID", Invalid, "A query is not SQL that SQLite understands, or does more than read.";
    SqlTooLarge = "SQL_TOO_LARGE", Full, "A query gives more rows or bytes, or needs more memory, than the bound.";
    SqlTimeout = "SQL_TIMEOUT", Full, "A query took longer than it may.";
    CursorInvalid = "CURSOR_INVALID", Invalid, "The place where a list should continue is not one that the list gave out.";
    NodeDraining = "NODE_DRAINING", Unavailable, "The process is draining and accepts no new requests.";
}

impl Code {
    /// The reason that a folder cannot be used, from the system's error.
    pub const fn of_folder(error: io::ErrorKind) -> Self {
        match error {
            io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => Self::FolderInvalid, // a file is in its place
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::DiskFull,
            _ => Self::FolderDenied,
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{collections::BTreeSet, fs, path::Path};

    fn page(code: Code) -> String {
        let pages = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/errors");
        let path = pages.join(format!("{code}.md"));
        fs::read_to_string(&path).unwrap_or_else(|_| panic!("no page for {code}: write {}", path.display()))
    }

    #[test]
    fn each_code_has_a_page_that_begins_with_its_name_kind_and_meaning() {
        for &code in Code::ALL {
            let expected = format!("# {code}\n\nKind: `{}`. {}\n", code.kind(), code.meaning());
            assert!(page(code).starts_with(&expected), "docs/reference/errors/{code}.md must begin with:\n{expected}");
        }
    }

    #[test]
    fn each_page_tells_what_to_do() {
        for &code in Code::ALL {
            assert!(page(code).contains("\n## What to do\n"), "docs/reference/errors/{code}.md lacks `## What to do`");
        }
    }

    #[test]
    fn each_page_belongs_to_a_code_and_no_two_codes_share_a_name() {
        let names: BTreeSet<_> = Code::ALL.iter().map(|code| code.as_str()).collect();
        assert_eq!(names.len(), Code::ALL.len());
        let pages = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/errors")).unwrap();
        for page in pages {
            let file = page.unwrap().file_name().into_string().unwrap();
            let name = file.strip_suffix(".md").unwrap_or(&file);
            assert!(name == "README" || names.contains(name), "docs/reference/errors/{file} belongs to no code");
        }
    }
}

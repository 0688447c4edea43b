//! Error codes: the stable part of every error.
//!
//! Hundreds of private causes fold into few public codes, and codes into seven kinds that tell a caller
//! what to do. Each code has a page in `docs/reference/errors/`, and a test keeps the two in step.

use std::{fmt, io};

/// What a caller can do about an error.
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
    /// What is stored is not what was written. Nothing heals this silently.
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
    IdInvalid = "ID_INVALID", Invalid, "A text is not the id it was taken for.";
    CborMalformed = "CBOR_MALFORMED", Invalid, "Bytes are not the CBOR of what was expected.";
    CborNotCanonical = "CBOR_NOT_CANONICAL", Invalid, "CBOR bytes are valid, but not in canonical form.";
    JsonMalformed = "JSON_MALFORMED", Invalid, "A text is not JSON.";
    JsonNotCanonical = "JSON_NOT_CANONICAL", Invalid, "JSON is valid, but not in canonical form.";
    JsonKeyRepeated = "JSON_KEY_REPEATED", Invalid, "An object in JSON has the same key twice.";
    IntegerTooLarge = "INTEGER_TOO_LARGE", Invalid, "An integer in JSON is beyond 64 bits.";
    ValueNotJson = "VALUE_NOT_JSON", Invalid, "A value has no JSON form.";

    // Transactions.
    TransactionConflict = "TRANSACTION_CONFLICT", Conflict, "Another transaction wrote what this one had read.";
    TransactionTooOld = "TRANSACTION_TOO_OLD", Conflict, "A transaction was open longer than the engine keeps history.";
    CommitUnknown = "COMMIT_UNKNOWN", Unavailable, "Whether a commit was applied is not known.";
    KeyInvalid = "KEY_INVALID", Invalid, "A key is empty, too long, or in the reserved range.";
    ValueTooLarge = "VALUE_TOO_LARGE", Invalid, "A value exceeds what an engine stores under one key.";
    TransactionTooLarge = "TRANSACTION_TOO_LARGE", Invalid, "A transaction writes or reads more than the bound.";
    RangeInvalid = "RANGE_INVALID", Invalid, "A range read asks for no items, or for more than the bound.";
    TransactionClosed = "TRANSACTION_CLOSED", Invalid, "A transaction was used after its engine closed.";

    // Bundles.
    BundleInvalid = "BUNDLE_INVALID", Invalid, "A bundle is damaged, cut short, or does not prove what it says.";
    BundleTooLarge = "BUNDLE_TOO_LARGE", Invalid, "A bundle expands to far more than its size allows for.";

    // Engines.
    EngineBusy = "ENGINE_BUSY", Full, "The engine's commit queue is full.";
    EngineFailed = "ENGINE_FAILED", Unavailable, "The engine could not read or write its storage.";
    DiskFull = "DISK_FULL", Unavailable, "The disk has no room for another commit.";
    FolderInUse = "FOLDER_IN_USE", Unavailable, "Another process has the data folder open.";
    FolderInvalid = "FOLDER_INVALID", Invalid, "A path is not a data folder, and cannot become one.";
    FolderVersion = "FOLDER_VERSION", Invalid, "A data folder was written in a format that this version does not read.";
    FolderDenied = "FOLDER_DENIED", Unavailable, "The process may not read or write the data folder.";
    EngineCorrupt = "ENGINE_CORRUPT", Corrupt, "Stored bytes are not what was written.";
    DatabaseInvalid = "DATABASE_INVALID", Invalid, "A database's URL, password or permissions do not let it be used.";
    DatabaseUnavailable = "DATABASE_UNAVAILABLE", Unavailable, "The database does not answer.";
    DatabaseVersion = "DATABASE_VERSION", Invalid, "The tables in a database were made by a newer version of the program.";
    BackupInvalid = "BACKUP_INVALID", Corrupt, "A backup is incomplete or damaged.";
    BackupFailed = "BACKUP_FAILED", Unavailable, "A backup could not be written or read.";

    // Store.
    UniverseNotFound = "UNIVERSE_NOT_FOUND", NotFound, "There is no universe with that id.";
    WorldNotFound = "WORLD_NOT_FOUND", NotFound, "There is no world with that id in the universe.";
    WorldExists = "WORLD_EXISTS", Conflict, "A world with that id exists already, with another beginning.";
    WorldDeleted = "WORLD_DELETED", NotFound, "The world was deleted, or is being deleted.";
    WorldHasForks = "WORLD_HAS_FORKS", Conflict, "A world cannot be deleted while its forks share its history.";
    WorldBeginningInvalid = "WORLD_BEGINNING_INVALID", Invalid, "A world's first record and its first snapshot do not fit together.";
    LeaseFenced = "LEASE_FENCED", Fenced, "The lease under which a world was written is not held any more.";
    LeaseHeld = "LEASE_HELD", Conflict, "Another worker holds the world's lease, and it has not run out.";
    LeaseAssignedElsewhere = "LEASE_ASSIGNED_ELSEWHERE", Conflict, "The world is assigned to another worker.";
    WorldElsewhere = "WORLD_ELSEWHERE", Conflict, "A request was handed on to a process that does not hold its world.";
    HeadAdvanced = "HEAD_ADVANCED", Conflict, "A journal has grown since its head was read.";
    ChainInvalid = "CHAIN_INVALID", Invalid, "Records do not continue the journal: a height or a predecessor's hash is wrong.";
    RecordTooLarge = "RECORD_TOO_LARGE", Invalid, "A record has more bytes than one key may hold.";
    RecordReserved = "RECORD_RESERVED", Invalid, "A record of this kind is written only by its own protocol.";
    BatchInvalid = "BATCH_INVALID", Invalid, "A batch is empty, or holds more than the bound.";
    JournalGap = "JOURNAL_GAP", Corrupt, "A record below the head is neither in the engine nor in a segment.";
    JournalCorrupt = "JOURNAL_CORRUPT", Corrupt, "A stored record is not what was appended.";
    HeightOutOfRange = "HEIGHT_OUT_OF_RANGE", Invalid, "A journal has no such height.";
    InboxFull = "INBOX_FULL", Full, "As much waits in the world's inbox as its bounds allow.";
    InboxItemTooLarge = "INBOX_ITEM_TOO_LARGE", Invalid, "An inbox item has more bytes than the bound, beyond what can be moved to the content store.";
    CursorRegressed = "CURSOR_REGRESSED", Invalid, "An inbox cursor would move backwards.";
    CursorMoved = "CURSOR_MOVED", Conflict, "An inbox cursor is not where the caller last saw it.";
    SnapshotInvalid = "SNAPSHOT_INVALID", Invalid, "A snapshot contradicts itself, or is not the one that the journal gives at its height.";
    SnapshotBeyondHead = "SNAPSHOT_BEYOND_HEAD", Invalid, "A snapshot claims to cover records that do not exist.";
    SnapshotExists = "SNAPSHOT_EXISTS", Conflict, "There is another snapshot at that height, and it stays.";
    SnapshotIncomplete = "SNAPSHOT_INCOMPLETE", Invalid, "A snapshot needs blobs that do not exist, or does not list what it needs.";
    SnapshotManifest = "SNAPSHOT_MANIFEST", Invalid, "A snapshot's manifest is not the one that the journal gives at its height.";
    SnapshotNotFound = "SNAPSHOT_NOT_FOUND", NotFound, "The world has no snapshot at that height.";
    ReceiptHorizonUnmet = "RECEIPT_HORIZON_UNMET", Invalid, "A snapshot cannot become the baseline, because a receipt that it waits for could be lost.";
    BaselineRegressed = "BASELINE_REGRESSED", Conflict, "A baseline does not go back to an earlier snapshot.";
    BaselineDamaged = "BASELINE_DAMAGED", Corrupt, "The snapshot that restore starts from is not what was promoted.";
    IntentNotJournaled = "INTENT_NOT_JOURNALED", Invalid, "A turn publishes an intent that none of its records announces.";
    LineageTooDeep = "LINEAGE_TOO_DEEP", Full, "A world has more ancestors than a history is followed through.";
    StoreCorrupt = "STORE_CORRUPT", Corrupt, "What lies under a key is not what its family keeps there.";

    // Content store and segments.
    BlobNotFound = "BLOB_NOT_FOUND", NotFound, "No object of this hash is in the content store.";
    BlobCorrupt = "BLOB_CORRUPT", Corrupt, "The body of a stored object is missing, or is not what was put.";
    BlobHashMismatch = "BLOB_HASH_MISMATCH", Invalid, "Bytes do not have the hash that the caller stated.";
    BlobTooLarge = "BLOB_TOO_LARGE", Invalid, "An object exceeds what the content store takes, or what one call returns.";
    BlobRangeInvalid = "BLOB_RANGE_INVALID", Invalid, "A range read reaches beyond the object.";
    BlobRefMissing = "BLOB_REF_MISSING", Invalid, "An object refers to one that is not in the content store.";
    BlobRefsTooMany = "BLOB_REFS_TOO_MANY", Invalid, "An object refers to more objects than one record lists.";
    BlobSourceFailed = "BLOB_SOURCE_FAILED", Invalid, "The stream that an object was put from broke off.";
    BlobPutRaced = "BLOB_PUT_RACED", Conflict, "An object was swept away while the same bytes were being put.";
    TransferInvalid = "TRANSFER_INVALID", Corrupt, "The export of a universe is incomplete or damaged.";
    TransferRefused = "TRANSFER_REFUSED", Conflict, "A universe cannot be exported or imported as things are.";
    ObjectsUrlInvalid = "OBJECTS_URL_INVALID", Invalid, "A URL names no object store that this build can open.";
    ObjectsDenied = "OBJECTS_DENIED", Invalid, "The object store refuses: the bucket, the credentials or a permission is wrong.";
    ObjectsFailed = "OBJECTS_FAILED", Unavailable, "The object store could not read or write.";
    SegmentCorrupt = "SEGMENT_CORRUPT", Corrupt, "A segment is missing, or is not what was exported.";
    SegmentUnsafe = "SEGMENT_UNSAFE", Invalid, "A part of the journal may not leave the engine.";
    SweepRefused = "SWEEP_REFUSED", Invalid, "A sweep asks for less than the safety that it must keep.";
    SweepRaced = "SWEEP_RACED", Conflict, "A sweep was taken up by another process, or cancelled by a deletion.";

    // Cells and content.
    ObjectMissing = "OBJECT_MISSING", NotFound, "A content-store object that is needed was not found.";
    CellsCorrupt = "CELLS_CORRUPT", Corrupt, "A node of a cell tree is not what its hash or its place says.";

    // Programs and manifests.
    ManifestInvalid = "MANIFEST_INVALID", Invalid, "A manifest is not canonical JSON of the expected shape, one of its schemas is not a JSON Schema, or a limit, a timeout or a retry term is beyond its bound.";
    ManifestNotRegistered = "MANIFEST_NOT_REGISTERED", Invalid, "A world may run only what an administrator registered, and this manifest or program is not.";
    ProgramUnknown = "PROGRAM_UNKNOWN", NotFound, "No program with the hash that a manifest names is registered here.";
    ProgramVersionTaken = "PROGRAM_VERSION_TAKEN", Conflict, "A version of a named program stands for another manifest.";
    ProgramNamesFull = "PROGRAM_NAMES_FULL", Full, "A universe has no room for another name of a program, or a name for another version.";
    ProgramNamed = "PROGRAM_NAMED", Conflict, "A manifest cannot be deleted while a version of a named program stands for it.";
    EventInvalid = "EVENT_INVALID", Invalid, "An event is not declared in the manifest, or its value does not satisfy the declared schema.";
    SchemaWorkExceeded = "SCHEMA_WORK_EXCEEDED", Invalid, "To check a value against its schema takes more steps than one check may.";
    QueryInvalid = "QUERY_INVALID", Invalid, "A query is not declared in the manifest, or its parameters do not satisfy the declared schema.";
    ControlInvalid = "CONTROL_INVALID", Invalid, "A control command is unknown, or its payload is not what the command takes.";
    ItemTooLarge = "ITEM_TOO_LARGE", Invalid, "An inbox item does not fit into one journal record.";
    ProgramPanicked = "PROGRAM_PANICKED", Invalid, "A program panicked in the middle of a step.";
    ProgramTrapped = "PROGRAM_TRAPPED", Invalid, "A component did what no program may do, and was stopped in the middle of a step.";
    ProgramRefused = "PROGRAM_REFUSED", Invalid, "Bytes are not a component that can be run here.";
    ProgramPreparing = "PROGRAM_PREPARING", Unavailable, "A component is being compiled.";
    ProgramEngine = "PROGRAM_ENGINE", Unavailable, "A manifest pins another engine than the one that this node runs components with.";
    StepSkipped = "STEP_SKIPPED", Invalid, "An operator passed over an input whose step had failed; the program did not see it.";
    StepCrowded = "STEP_CROWDED", Unavailable, "The node has no room for the step now; nothing of it is on record, and it is run again later.";
    StepAbandoned = "STEP_ABANDONED", Unavailable, "A node stopped a step that held it up too long; nothing of the step is on record.";
    UpgradeDiverges = "UPGRADE_DIVERGES", Conflict, "A rehearsal of an upgrade came to another outcome than the journal.";
    ProgramFailed = "PROGRAM_FAILED", Invalid, "A program ended a step with an error of its own.";
    BudgetExhausted = "BUDGET_EXHAUSTED", Full, "A step used more host calls, bytes or outputs than its budget allows.";
    OutputRefused = "OUTPUT_REFUSED", Invalid, "A program emitted something that its manifest or the kernel does not allow.";

    // Intents and timers.
    OpenIntentsFull = "OPEN_INTENTS_FULL", Full, "A world has as many open intents as its manifest allows.";
    TimersFull = "TIMERS_FULL", Full, "A world has as many timers as its manifest allows.";
    ReceiptUnknown = "RECEIPT_UNKNOWN", NotFound, "A receipt answers an intent that this world never had open.";
    ReceiptClosed = "RECEIPT_CLOSED", Conflict, "A receipt answers an intent that was already answered or cancelled.";
    ReceiptInvalid = "RECEIPT_INVALID", Invalid, "The payload of a receipt is not what the manifest's schema or the kind of the effect says.";
    ReceiptMismatch = "RECEIPT_MISMATCH", Invalid, "A receipt names another effect kind than the intent that it answers.";
    TimerUnknown = "TIMER_UNKNOWN", NotFound, "A timer fired that this world does not wait for.";

    // Turns, replay, snapshots and forks.
    TurnInvalid = "TURN_INVALID", Invalid, "A turn was given what a world cannot take: items out of order, or a note at the wrong height.";
    JournalBroken = "JOURNAL_BROKEN", Corrupt, "A journal's records do not follow each other: a height, a predecessor's hash or a stamp is wrong.";
    ReplayDiverged = "REPLAY_DIVERGED", Corrupt, "Replay produced another outcome than the journal records.";
    ForkSandboxed = "FORK_SANDBOXED", Invalid, "A fork of a sandboxed world is a sandbox, too, and can be given no other policy.";
    ForkDiverged = "FORK_DIVERGED", Invalid, "A recorded fork asks for something else than its parent asked for, and stops there.";
    AnswersInvalid = "ANSWERS_INVALID", Invalid, "The scripted answers of a sandbox cannot be used.";
    ForkInvalid = "FORK_INVALID", Invalid, "A world cannot be forked as asked.";

    // Runtime.
    MemoryStale = "MEMORY_STALE", Conflict, "A world in memory is not where its journal is.";
    SchemaMissing = "SCHEMA_MISSING", NotFound, "A universe has no schema version, and the worker may not write one.";
    SchemaMismatch = "SCHEMA_MISMATCH", Invalid, "A universe is written in another schema version than the worker speaks.";
    MailClaimLost = "MAIL_CLAIM_LOST", Fenced, "A worker finishes a message whose claim ran out and was taken from it.";
    FrameInvalid = "FRAME_INVALID", Invalid, "Bytes are not a message frame, or one for another worker.";
    CommandInvalid = "COMMAND_INVALID", Invalid, "A worker does not know the command that a message carries.";
    WorldArchived = "WORLD_ARCHIVED", Conflict, "The world is in the archive and takes nothing in.";
    WorkerFull = "WORKER_FULL", Full, "A worker runs as many worlds that have something to do as it may.";
    WorldEndsProcess = "WORLD_ENDS_PROCESS", Invalid, "Process after process ended in the first cycle of this world, so it is on hold.";
    WorldOnProbation = "WORLD_ON_PROBATION", Unavailable, "Processes ended in the first cycle of this world: it is opened again when no other such world is being opened.";
    WorldOnHold = "WORLD_ON_HOLD", Conflict, "The world could not go on and is on hold until an operator releases it.";
    WorldNotOnHold = "WORLD_NOT_ON_HOLD", Conflict, "The world is not on hold: there is no failed input to retry or skip.";
    WorldUnassigned = "WORLD_UNASSIGNED", Conflict, "The world is assigned to no worker, and workers wait until it is.";
    CallTimeout = "CALL_TIMEOUT", Unavailable, "No reply came within the time that the caller was willing to wait.";

    // Effects, timers, fabric.
    ScheduleInvalid = "SCHEDULE_INVALID", Invalid, "A text does not say when something repeats.";
    EffectClaimLost = "EFFECT_CLAIM_LOST", Fenced, "A worker answers an effect whose claim ran out and was taken from it.";
    EffectClaimExpired = "EFFECT_CLAIM_EXPIRED", Unavailable, "The worker of an effect stopped to extend its claim, and the attempt was given up.";
    EffectTimeout = "EFFECT_TIMEOUT", Unavailable, "One attempt of an effect took longer than its manifest allows.";
    EffectParamsInvalid = "EFFECT_PARAMS_INVALID", Invalid, "An adapter cannot use the parameters of an effect.";
    EffectDenied = "EFFECT_DENIED", Invalid, "An adapter's configuration does not allow what an effect asks for.";
    UniverseDenied = "UNIVERSE_DENIED", Invalid, "A message is for a universe that does not accept messages from the sender's.";
    SignatureMissing = "SIGNATURE_MISSING", Invalid, "A receipt must be signed, and is not.";
    SignatureInvalid = "SIGNATURE_INVALID", Invalid, "The signature of a receipt is not that of its adapter's key.";
    EffectFailed = "EFFECT_FAILED", Unavailable, "The other side of an effect failed, or could not be reached.";
    EffectAnswerTooLarge = "EFFECT_ANSWER_TOO_LARGE", Full, "The answer to an effect has more bytes than the adapter takes.";
    EffectNotFound = "EFFECT_NOT_FOUND", NotFound, "There is no effect at this place of the queue.";
    EffectNotRecorded = "EFFECT_NOT_RECORDED", NotFound, "A recorded fork asks for what its parent asked for, and the parent has no receipt for it.";
    EffectCancelled = "EFFECT_CANCELLED", Invalid, "An effect was ended before it was carried out: by an operator, or because a fork dropped it.";
    EffectSandboxed = "EFFECT_SANDBOXED", Invalid, "A sandboxed world asks for an effect, which is never carried out, and nothing else answers it.";
    DeadLetterNotFound = "DEAD_LETTER_NOT_FOUND", NotFound, "There is no dead letter at this place of the queue.";
    DeadLetterUnusable = "DEAD_LETTER_UNUSABLE", Invalid, "A dead letter cannot be replayed: its item cannot be read, or nobody waits for it any more.";

    // Server.
    NameInvalid = "NAME_INVALID", Invalid, "A text cannot be the name of what it was given to.";
    ConfigInvalid = "CONFIG_INVALID", Invalid, "The configuration has a key that is not known, or a value that cannot be used.";
    RequestInvalid = "REQUEST_INVALID", Invalid, "A request is not what its address takes.";
    RequestTooLarge = "REQUEST_TOO_LARGE", Invalid, "A request has more bytes, items or headers than the server takes.";
    RequestTimeout = "REQUEST_TIMEOUT", Unavailable, "A request did not arrive, or was not answered, within its time.";
    BodiesFull = "BODIES_FULL", Unavailable, "The bodies of requests take as much memory as they may: of the process, a universe or a token.";
    AnswersFull = "ANSWERS_FULL", Unavailable, "Answers that wait to be read take as much memory as they may: of the process, a universe or a token.";
    ConnectionsFull = "CONNECTIONS_FULL", Full, "An address or a token has as many connections as it may have at a time.";
    QuotaExceeded = "QUOTA_EXCEEDED", Full, "A universe or a token has as much of something as its quota allows.";
    RouteNotFound = "ROUTE_NOT_FOUND", NotFound, "Nothing is served at this address, or not by this method.";
    CellNotFound = "CELL_NOT_FOUND", NotFound, "A world has no cell under this key, at this height.";
    TokenMissing = "TOKEN_MISSING", Invalid, "The server asks for a token, and the request carries none that it knows.";
    TokenDenied = "TOKEN_DENIED", Invalid, "The token is known, and does not allow what is asked for.";
    TokenNotFound = "TOKEN_NOT_FOUND", NotFound, "No token has this id.";
    OriginDenied = "ORIGIN_DENIED", Invalid, "A request without a token names another host, or comes from a web page of another one.";
    NodeOverloaded = "NODE_OVERLOADED", Unavailable, "The process has more in memory than it may, and takes no new work until it has less.";
    WorldOverloaded = "WORLD_OVERLOADED", Full, "What waits for a world waits too long already, and no more is taken for it until it has caught up.";
    NodeDraining = "NODE_DRAINING", Unavailable, "The process finishes what it has and takes nothing new.";
}

impl Code {
    /// What keeps a folder from being used, by what the system says.
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

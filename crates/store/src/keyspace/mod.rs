//! Every key that Mundi stores, one file per family.
//!
//! A key is `universe (16) | family (1) | ...`, or for what belongs to one world
//! `universe (16) | WORLD (1) | world (16) | family (1) | ...`, so that a world's keys lie together. Numbers
//! are big-endian and of fixed width: keys compare as what they stand for. Values are canonical CBOR,
//! except counters, which the engine itself adds to.
//!
//! There is no raw-key API above the engine: a [`Key`] comes from the constructor of its family, and each
//! constructor takes the [`UniverseId`]. The ordinals in [`Family`] are persisted; a test pins them.

mod by_name;
mod codec;
#[cfg(test)]
pub(crate) mod laws;

mod children;
mod content;
mod effects;
mod inbox;
mod journal;
mod leases;
mod mail;
mod parts;
mod placement;
mod pools;
mod programs;
mod queue_shard;
mod queues;
mod shard;
mod timers;
mod universes;
mod worlds;

pub use children::{
    child_budget, child_event, child_of, child_order, child_request, child_state, child_token, child_work,
};
pub use codec::{Key, Span};
pub(crate) use codec::{KeyBuilder, KeyReader, counter, decode_value, get, get_snapshot, newest, put};
pub use content::{blob_edge, cas_doomed, cas_meta, gc_pin, kept_object, sweep_mark, sweep_state};
pub use effects::{
    effect_attempt, effect_dedupe, effect_gate, effect_inflight, effect_pending, effect_place, effect_rate,
    effect_retry,
};
pub use inbox::{dedupe_bucket, inbox_compaction, inbox_dedupe, inbox_depth, inbox_entry, notify};
pub use journal::{
    baseline, journal_entry, journal_head, segment, segment_checkpoint, snapshot, snapshot_due, snapshot_due_at,
};
pub use leases::{lease, lease_request, lease_term};
pub use mail::{mail_attempt, mail_dedupe, mail_mark, mailbox};
pub use parts::Parts;
pub use placement::{assigned_world, assignment, ready, ready_notify, worker};
pub use pools::{lease_authority, lease_beat, lease_reclaim, pool, pool_watch};
pub use programs::{program_name, program_of_manifest, program_version, registered};
pub use queue_shard::QueueShard;
pub use queues::{dead_letter, low_water, queue, queue_notify};
pub use shard::{SHARDS, Shard};
pub use timers::{timer_dedupe, timer_due};
pub use universes::{quotas, schema_version, token, token_usage, universe_import, universe_meta, universe_name};
pub use worlds::{
    forked_world, last_active, manifest_at, named_world, open_call, reply, world_change, world_failure, world_index,
    world_log, world_meta,
};

use mundi_model::UniverseId;

/// Where the keys lie that belong to no universe: the names of universes, and tokens.
pub(crate) const DIRECTORY: UniverseId = UniverseId::from_bytes([0; 16]);

macro_rules! families {
    ($($(#[$doc:meta])* $name:ident = $ordinal:literal, $text:literal;)*) => {
        /// The key families. Ordinals are persisted: never renumbered, never reused.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Family {
            $($(#[$doc])* $name = $ordinal,)*
        }

        impl Family {
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// Its name, for errors and tools.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }
    };
}

impl Family {
    /// All keys of this family of a universe begin with it.
    pub(crate) fn prefix(self, universe: UniverseId) -> Key {
        KeyBuilder::universe(universe, self).key()
    }
}

families! {
    // Of a universe.
    UniverseMeta = 0x01, "meta";
    CasMeta = 0x02, "cas/meta";
    BlobEdge = 0x03, "cas/edge";
    Segment = 0x04, "segments";
    SegmentCheckpoint = 0x05, "segments/checkpoint";
    Sweep = 0x06, "cas/sweep";
    SchemaVersion = 0x07, "schema";
    SweepState = 0x08, "cas/sweep/state";
    SweepMark = 0x09, "cas/sweep/mark";
    KeptObject = 0x0a, "kept";
    Quotas = 0x0b, "quotas";
    Pool = 0x0c, "pools";
    NamedWorld = 0x0d, "worlds/names";
    WorldIndex = 0x0e, "worlds/index";
    PoolWatch = 0x0f, "pools/watch";
    EffectPending = 0x10, "effects/pending";
    EffectInflight = 0x11, "effects/inflight";
    EffectAttempt = 0x12, "effects/attempts";
    EffectDedupe = 0x13, "effects/dedupe";
    EffectRetry = 0x14, "effects/retry";
    EffectGate = 0x15, "effects/gate";
    TimerDue = 0x18, "timers/due";
    TimerDedupe = 0x1a, "timers/dedupe";
    DedupeBucket = 0x1c, "dedupe/bucket";
    LowWater = 0x1d, "queues/low_water";
    DeadLetter = 0x1e, "dead_letter";
    QueueNotify = 0x1f, "queues/notify";
    Worker = 0x20, "workers";
    Assignment = 0x21, "assignments";
    AssignedWorld = 0x22, "assignments/by_worker";
    Ready = 0x23, "ready";
    ReadyNotify = 0x24, "ready/notify";
    Mailbox = 0x25, "mailboxes";
    MailAttempt = 0x26, "mailboxes/attempts";
    MailboxNotify = 0x27, "mailboxes/notify";
    ForkedWorld = 0x28, "lineage/forks";
    MailMark = 0x29, "mailboxes/low_water";
    MailDedupe = 0x2a, "mailboxes/dedupe";
    SnapshotDue = 0x2b, "snapshots/due";
    Registered = 0x2c, "registered";
    ProgramName = 0x2d, "programs/names";
    ProgramVersion = 0x2e, "programs/versions";
    ProgramOfManifest = 0x2f, "programs/by_manifest";
    // Of the directory.
    UniverseName = 0x30, "directory/universes";
    Token = 0x31, "directory/tokens";
    UniverseImport = 0x32, "directory/imports";
    TokenUsage = 0x33, "directory/token_usage";
    // Of a universe again.
    WorldChange = 0x34, "worlds/changes";
    ChildWork = 0x40, "children/work";
    /// A world follows, then one of the families below.
    World = 0x7f, "w";

    // Of a world.
    WorldMeta = 0x80, "w/meta";
    JournalHead = 0x81, "w/journal/head";
    JournalEntry = 0x82, "w/journal/e";
    ManifestAt = 0x83, "w/journal/manifest";
    Snapshot = 0x84, "w/snapshot/by_height";
    Baseline = 0x85, "w/baseline/active";
    InboxEntry = 0x86, "w/inbox/e";
    // 0x87 is not used again.
    InboxDepth = 0x88, "w/inbox/depth";
    InboxDedupe = 0x89, "w/inbox/dedupe";
    InboxCompaction = 0x8a, "w/inbox/compaction";
    Notify = 0x8b, "w/notify/counter";
    Reply = 0x8c, "w/replies";
    EffectRate = 0x8d, "w/effects/rate";
    SnapshotDueAt = 0x8e, "w/snapshot/due";
    WorldFailure = 0x8f, "w/failure";
    Lease = 0x90, "w/lease";
    LeaseTerm = 0x91, "w/lease/term";
    LeaseRequest = 0x92, "w/lease/request";
    WorldLog = 0x93, "w/log";
    LeaseAuthority = 0x94, "w/pool/authority";
    OpenCall = 0x95, "w/calls";
    LastActive = 0x96, "w/active";
    GcPin = 0x98, "w/gc/pin";
    LeaseReclaim = 0x9c, "w/pool/reclaim";
    LeaseBeat = 0x9d, "w/pool/beat";
    ChildState = 0xb0, "w/children/state";
    ChildToken = 0xb1, "w/children/tokens";
    ChildQueue = 0xb2, "w/children/queue";
    ChildDispatch = 0xb3, "w/children/dispatch";
    ChildRun = 0xb4, "w/children/runs";
    ChildEvent = 0xb5, "w/children/events";
    ChildEnded = 0xb6, "w/children/ended";
    ChildBudget = 0xb7, "w/children/budgets";
    ChildRequest = 0xb8, "w/children/requests";
    ChildOf = 0xb9, "w/children/of";
}

#[cfg(test)]
mod tests;

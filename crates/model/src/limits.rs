//! Every bound in one place, each with its reason. Exceeding one is a typed error, never an allocation.

/// The strictest engine sets the bound for all: FoundationDB's bound on keys is 10,000 bytes, less room for the prefix of a deployment that
/// shares a cluster with others, and for what the client appends to a key with a stamp.
pub const KEY_BYTES_MAX: usize = 9_900;

/// The name of a deployment in a FoundationDB cluster, which every key of it begins with: it is counted with every key, so it is short.
pub const ENGINE_PREFIX_BYTES_MAX: usize = 32;

/// Watches of a process on keys of a FoundationDB cluster. The client refuses more than 10,000; keys beyond are polled.
pub const ENGINE_WATCHES_MAX: usize = 9_000;

/// FoundationDB's bound on values; larger payloads go to the content store and are referenced.
pub const VALUE_BYTES_MAX: usize = 100_000;

/// FoundationDB's bound on a transaction. Keys, values and conflict ranges count, as the client of FoundationDB counts them: a key that is
/// written counts three times, a key that is read twice.
pub const TRANSACTION_BYTES_MAX: usize = 10_000_000;

/// FoundationDB's bound on a transaction's age; it lets an engine discard old versions.
pub const TRANSACTION_AGE_MS_MAX: u64 = 5_000;

/// As many operations as a transaction could hold if each were empty: each counts at least 100 bytes.
pub const TRANSACTION_OPERATIONS_MAX: usize = 100_000;

/// Reads that a transaction plans or prefetches before it makes them: a few for each item of the largest batch of a queue. The
/// results are held in memory.
pub const PLANNED_READS_MAX: usize = 2_048;

/// The most items of one range read; the next call continues from its end.
pub const RANGE_ITEMS_MAX: usize = 10_000;

/// The most bytes of one range read (its last item may exceed them).
pub const RANGE_BYTES_MAX: usize = 4_000_000;

/// The nesting of a value: deep enough for data written by people, shallow enough for the smallest thread stack.
pub const VALUE_DEPTH_MAX: u32 = 64;

/// The most records of one append: they must fit into a transaction together with what the turn publishes.
pub const BATCH_RECORDS_MAX: usize = 10_000;

/// An inbox item: below the value bound by the size of the stamps and the frame that the journal adds.
pub const INBOX_ITEM_BYTES_MAX: usize = 64 * 1024;

/// A larger payload is moved to the content store when it is enqueued; for a smaller one, an object costs more.
pub const PAYLOAD_INLINE_BYTES_MAX: usize = 16 * 1024;

/// Direct items that wait in memory for one world: a few turns' worth, because their senders wait for them. Further items
/// go through the inbox, which has bounds of its own.
pub const DIRECT_ITEMS_MAX: usize = 256;

/// How long a direct item waits for a runner before it goes to the inbox (up to half as long again). Turns take
/// milliseconds; senders to a world that is busy for longer get their acknowledgement through the inbox.
pub const DIRECT_WAIT_MS_MAX: u64 = 100;

/// Effects that send under one message id and are open at a time: each is looked up before the id is forgotten.
pub const MESSAGE_SENDERS_MAX: usize = 16;

/// The most items that one transaction enqueues, so that the largest items still fit.
pub const INBOX_BATCH_ITEMS_MAX: usize = 1_024;

/// The items of an inbox, unless its world has another bound: minutes of a fast sender, not hours.
pub const INBOX_ITEMS_MAX_DEFAULT: u64 = 100_000;

/// The same in bytes.
pub const INBOX_BYTES_MAX_DEFAULT: u64 = 256 * 1024 * 1024;

/// The most attempts of an effect in a manifest: with the longest wait between them, a hundred days.
pub const EFFECT_ATTEMPTS_MAX: u64 = 100;

/// The newest failed attempts of an effect that are kept for inspection: enough to see a pattern.
pub const EFFECT_ATTEMPTS_KEPT_MAX: usize = 10;

/// The characters of the reason of each of them that are kept: the record stays small compared with its item.
pub const EFFECT_ATTEMPT_REASON_CHARS_MAX: usize = 200;

/// The newest records that are searched for an effect that is in no queue.
pub const EFFECT_SEARCH_RECORDS_MAX: u64 = 100_000;

/// Queued effects, and as many dead letters, that are looked through for one by its intent: those that could be it.
pub const EFFECT_SEARCH_ITEMS_MAX: usize = 100_000;

/// Open effects that a sorted list looks at: no key has their order, so every page reads all of them.
pub const EFFECT_SORT_ITEMS_MAX: usize = 10_000;

/// The shortest wait between two attempts of an effect, so that a failing one does not occupy a process.
pub const EFFECT_BACKOFF_MS_MIN: u64 = 10;

/// The longest wait between two attempts of an effect, from its manifest or from the external service (`Retry-After`).
pub const EFFECT_BACKOFF_MS_MAX: u64 = 24 * 60 * 60 * 1_000;

/// How long one attempt of an effect may take.
pub const EFFECT_TIMEOUT_MS_MAX: u64 = 24 * 60 * 60 * 1_000;

/// Attempts to deliver a timer or a delayed event before it becomes a dead letter: with the waits
/// below, a little more than ten minutes.
pub const DELIVERY_ATTEMPTS_MAX: u32 = 20;

/// The wait after the first failed delivery; it doubles with each.
pub const DELIVERY_BACKOFF_MS: u64 = 100;

/// The longest wait between two deliveries.
pub const DELIVERY_BACKOFF_MS_MAX: u64 = 60_000;

/// Commands that fit into an inbox that is full of events and receipts: a paused world with a full inbox can be resumed.
pub const INBOX_COMMANDS_MAX: u64 = 16;

/// The most items of one turn.
pub const TURN_ITEMS_MAX: usize = 4_096;

/// The same in bytes: a turn writes each item once more, with its outcome, and must fit a transaction.
pub const TURN_BYTES_MAX: usize = 2_000_000;

/// Payloads of one turn that are read from the content store before its steps run: they are in memory together.
pub const TURN_PAYLOADS_BYTES_MAX: u64 = 16 << 20;

/// The most intents that one turn publishes; their index has 16 bits.
pub const TURN_INTENTS_MAX: usize = 16_384;

/// The most roots of a snapshot: each is looked up when it is committed and when it is loaded.
pub const SNAPSHOT_ROOTS_MAX: usize = 10_000;

/// The most ancestors of a fork whose history is read.
pub const LINEAGE_DEPTH_MAX: usize = 1_000;

/// Intents of a parent that a recorded fork keeps in memory while it looks for one receipt.
pub const RECORDING_AHEAD_MAX: usize = 10_000;

/// Intents of a sandbox, and of its parent since the fork, that are compared with each other. Each costs two hashes in
/// memory.
pub const SANDBOX_COMPARED_MAX: usize = 10_000;

/// Recorded forks and sandboxes that a worker released, of which it keeps what it had read of their parents.
pub const RECORDINGS_KEPT_MAX: usize = 16;

/// Scripted answers of a sandbox: each effect is compared with all of them.
pub const ANSWERS_MAX: usize = 1_000;

/// All scripted answers of a sandbox, encoded: a running sandbox keeps them in memory.
pub const ANSWERS_BYTES_MAX: usize = 1024 * 1024;

/// Attempts of a recorded fork to pass its first difference before it is put on hold: the second one takes commands first.
pub const DIVERGED_ATTEMPTS_MAX: u32 = 2;

/// Intents of one turn of a recorded fork, each of which may bring its receipt into the same transaction.
pub const RECORDING_TURN_INTENTS_MAX: usize = 256;

/// Open effects, receipts and timers that one transaction publishes of what a fork inherits: each is a few keys.
pub const INHERITED_ITEMS_MAX: usize = 500;

/// The same in bytes, without their keys; one item fits always.
pub const INHERITED_BYTES_MAX: usize = 1_000_000;

/// How long the dedupe record of a finished effect, timer or message is kept: longer than any retry of its sender.
pub const DEDUPE_WINDOW_NS: u64 = 3_600_000_000_000;

/// The shortest dedupe window of a configuration: a client that lost an answer retries within it.
pub const DEDUPE_WINDOW_MS_MIN: u64 = 60_000;

/// The longest dedupe window: every key of that time is stored.
pub const DEDUPE_WINDOW_MS_MAX: u64 = 30 * 24 * 60 * 60 * 1_000;

/// The most items of one page of a list.
pub const LIST_ITEMS_MAX: usize = 1_000;

/// Worlds that a summary of a universe counts: a page that is refreshed every few seconds must not read a million of them each time.
pub const SUMMARY_WORLDS_MAX: u64 = 20_000;

/// How old the findings of a check-up may be that a process answers with: a look at a fleet's database opens a connection, and one at the object store
/// writes to it, and any number of pages may ask.
pub const CHECKUP_EVERY_NS: u64 = 15_000_000_000;

/// Records between two checkpoints that a replay of the past leaves in memory: the next question replays fewer than these, some milliseconds.
pub const CHECKPOINT_RECORDS: u64 = 256;

/// Bytes of all checkpoints of a universe in one process: about a thousand of them, enough for some worlds that people look at.
pub const CHECKPOINTS_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The most items that one call of a list examines to fill its page; a selective filter gives short pages, not long waits.
pub const LIST_LOOKS_MAX: usize = 1_000;

/// Seconds that the claim of an external worker is valid at most without a heartbeat.
pub const CLAIM_TTL_S_MAX: u64 = 86_400;

/// Effects that one transaction claims, and claims that one extends.
pub const CLAIMS_MAX: usize = 256;

/// Timers that one transaction delivers. The more of them, the more of one world go into its inbox together; their reads fit into
/// [`PLANNED_READS_MAX`]: three for each.
pub const TIMERS_FIRED_MAX: usize = 512;

/// The bytes that the timers of one transaction may take together: with their keys, far less than a transaction holds.
pub const TIMERS_FIRED_BYTES_MAX: usize = 4 << 20;

/// Leases that one transaction renews.
pub const RENEWALS_MAX: usize = 1_000;

/// The size up to which a content-store object is stored in the engine: below, a second round trip costs more than the
/// bytes; above, values displace others from the engine's cache, and each body is written twice, to the log and to the tree.
pub const BLOB_INLINE_BYTES_MAX: usize = 16 * 1024;

/// The largest object that S3 copies in one request, which a put of unknown hash ends with.
pub const BLOB_BYTES_MAX: u64 = 5 * 1024 * 1024 * 1024;

/// The most that a get returns at once; larger objects are read as a stream or in ranges.
pub const BLOB_WHOLE_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// The buffer of a streamed body. S3 requires parts of at least 5 MiB and at most 10,000 of
/// them; two buffers are in use at a time.
pub const BLOB_PART_BYTES: usize = 8 * 1024 * 1024;

/// References that one object declares: as many hashes as one engine value holds with room to spare.
pub const BLOB_REFS_MAX: usize = 2_048;

/// Records of one segment, before compression: built in memory, written by one request.
pub const SEGMENT_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Heights of one segment; bounds the list of hot keys that are deleted after it.
pub const SEGMENT_RECORDS_MAX: u64 = 65_536;

/// The target size of a block before compression: the cost of reading one record.
pub const SEGMENT_BLOCK_BYTES: usize = 64 * 1024;

/// The largest block before compression: the target, and one record of the largest size.
pub const SEGMENT_BLOCK_BYTES_MAX: usize = 256 * 1024;

/// The index inside a segment: its blocks and every hash that its records refer to.
pub const SEGMENT_FOOTER_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Keys deleted by one transaction after an export: few enough that turns are not delayed.
pub const SEGMENT_DELETE_CHUNK: u64 = 1_000;

/// The target size of a bundle's frame before compression: the cost of reading one object.
pub const BUNDLE_FRAME_BYTES: usize = 256 * 1024;

/// The largest frame of a bundle before compression: the most that a reader allocates for a forged length.
pub const BUNDLE_FRAME_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Larger objects are split into frames of this size, so that a bundle is written and read in little memory.
pub const BUNDLE_PART_BYTES: usize = 1024 * 1024;

/// Records of one frame: the most heights that one damaged frame affects.
pub const BUNDLE_RECORDS_MAX: usize = 256;

/// Snapshots in a bundle, the newest and the first: one transaction indexes them at the import.
pub const BUNDLE_SNAPSHOTS_MAX: usize = 1_000;

/// Terminal children in a bundle, with their events; those that ended first are left out. One transaction writes them at the import.
pub const BUNDLE_CHILDREN_BYTES_MAX: usize = 2 * 1024 * 1024;

/// A bundle may always expand to this much: enough for small worlds that compress very well.
pub const BUNDLE_EXPANDED_BYTES_MIN: u64 = 16 * 1024 * 1024;

/// Beyond that, a bundle may expand to this many times its size, so that a small file cannot fill a disk. A writer stores data that
/// compresses better uncompressed.
pub const BUNDLE_EXPANSION_MAX: u64 = 100;

/// The largest bundle that a server accepts: it is written to disk before it is verified.
pub const BUNDLE_BYTES_MAX: u64 = 64 * 1024 * 1024 * 1024;

/// A journal record: one value of an engine, less what the store adds.
pub const RECORD_BYTES_MAX: usize = 90_000;

/// A payload of a program: adapters and other worlds take it as one value.
pub const PAYLOAD_BYTES_MAX: usize = 1 << 20;

/// The key of a cell: a readable path. It also bounds the depth of the cell tree.
pub const CELL_KEY_BYTES_MAX: usize = 512;

/// The value of a cell; store larger data as a blob and its hash in a cell.
pub const CELL_VALUE_BYTES_MAX: usize = 1 << 20;

/// Cell values above this are objects of their own, so that one edit does not rewrite its neighbours' bytes.
pub const CELL_INLINE_BYTES_MAX: usize = 1_024;

/// The largest subtree of cells that is stored as one node: about one disk page.
pub const CELL_LEAF_BYTES_MAX: usize = 4_096;

/// The most items of one scan of cells; the next call continues from its end.
pub const SCAN_ITEMS_MAX: usize = 1_000;

/// The most bytes of one scan of cells (its last item may exceed them).
pub const SCAN_BYTES_MAX: usize = 1 << 20;

/// Headers of a message or an event between worlds: what a proxy or a tracer adds, several times over.
pub const HEADERS_MAX: usize = 64;

/// The names and values of all headers together, plus eight bytes for each: they are in the record with the payload.
pub const HEADERS_BYTES_MAX: usize = 16 * 1024;

/// Names: labels, effect kinds, schemas, inboxes, codes. Long enough for a path, short enough for an index.
pub const NAME_BYTES_MAX: usize = 256;

/// A reason in a journal record.
pub const REASON_BYTES_MAX: usize = 1_024;

/// Host calls of one step: far above the need of a normal step, and still bounded in time.
pub const STEP_CALLS_MAX: u64 = 1_000_000;

/// Bytes that one step may pass through its host, reading or writing.
pub const STEP_BYTES_MAX: u64 = 64 << 20;

/// Intents, cancels and replies of one step, which become records of the same transaction.
pub const STEP_OUTPUTS_MAX: u64 = 256;

/// Bytes of inline payloads that one step may add to its transaction: a tenth of the bound of a transaction.
pub const STEP_OUTPUT_BYTES_MAX: u64 = 1_000_000;

/// Log lines of one step; they are not part of the outcome. Further ones are dropped.
pub const STEP_LOGS_MAX: usize = 100;

/// The bytes of a log line that are kept: a sentence with its values.
pub const LOG_LINE_BYTES_MAX: usize = 1_024;

/// Pages that the log lines of a world are kept in; the oldest page is overwritten.
pub const LOG_PAGES_MAX: u16 = 16;

/// The bytes of such a page: each turn that logs rewrites its newest page. 16 pages are 128 KiB for each world.
pub const LOG_PAGE_BYTES_MAX: usize = 8 * 1_024;

/// Programs and codes that failed steps are counted by in one process; further ones are counted together.
pub const FAILURE_LABELS_MAX: usize = 200;

/// Open intents of one world. Each snapshot contains them.
pub const OPEN_INTENTS_MAX: u64 = 10_000;

/// Timers of one world. Each snapshot contains them.
pub const TIMERS_MAX: u64 = 10_000;

/// Closed intents that a world remembers, to distinguish a repeated receipt from an unknown one.
pub const CLOSED_INTENTS_MAX: u64 = 1_024;

/// Control commands that a paused world processed ahead of the items before them.
pub const TAKEN_AHEAD_MAX: usize = 1_024;

/// Places on that list that are reserved for resumes.
pub const RESUMES_AHEAD_MAX: usize = 1_024;

/// Written cells that are not in the tree yet: bounds the work of a scan.
pub const UNSETTLED_CELLS_MAX: usize = 10_000;

/// Fuel of a component in one step: about a second of a processor, and far less than a lease.
pub const WASM_FUEL_MAX: u64 = 1_000_000_000;

/// Fuel that counts as one host call, so that the budget of a turn bounds computation like host calls.
pub const WASM_FUEL_PER_CALL: u64 = 1_000;

/// Linear memory of a component: enough for an interpreter with its heap, and dozens of them fit on a machine.
pub const WASM_MEMORY_BYTES_MAX: u64 = 256 << 20;

/// Elements of each table of a component: an interpreter has some ten thousand functions.
pub const WASM_TABLE_ELEMENTS_MAX: u64 = 100_000;

/// Steps and queries of one universe that wait for a processor: each of them occupies a thread of the process.
pub const STEPS_WAITING_MAX: usize = 128;

/// Of these, steps that are expected to be long and have not begun. The rest is reserved for short steps, so that loops in some worlds do not
/// block other worlds of the same universe.
pub const STEPS_WAITING_LONG_MAX: usize = 64;

/// Checks against schemas of one universe that take long and wait for a processor: each of them occupies a thread of the process. Further ones
/// are made later.
pub const CHECKS_WAITING_MAX: usize = 32;

/// Steps of components that run longer than their first slice, in one process: each occupies an instance with its memory.
pub const STEPS_LONG_MAX: usize = 32;

/// The same of one universe.
pub const STEPS_LONG_OF_UNIVERSE_MAX: usize = 8;

/// The smallest stack that compiled libraries run on.
pub const WASM_STACK_BYTES_MIN: u64 = 64 << 10;

/// The stack of a component is on the thread that runs the world, which has 2 MiB.
pub const WASM_STACK_BYTES_MAX: u64 = 1 << 20;

/// A component: interpreters have about 20 MB, and a component is one blob.
pub const COMPONENT_BYTES_MAX: usize = 48 << 20;

/// One function of a component: the time to compile a function grows faster than its size.
pub const COMPONENT_FUNCTION_BYTES_MAX: usize = 1 << 20;

/// Live values in one function (`crates/wasm/src/weight.rs`): for a few kilobytes of code the compiler can need gigabytes. The
/// largest function of today's interpreters has 0.3 million.
pub const COMPONENT_FUNCTION_WEIGHT_MAX: u64 = 400_000;

/// Loops of one function: the time to compile them grows with the square of their number. Today's interpreters have 400 at most.
pub const COMPONENT_FUNCTION_LOOPS_MAX: u64 = 2_048;

/// Blocks, loops and conditions of one function. Today's interpreters have 4,200 at most.
pub const COMPONENT_FUNCTION_BLOCKS_MAX: u64 = 20_000;

/// Live values in all functions: an interpreter has 8 million.
pub const COMPONENT_WEIGHT_MAX: u64 = 16_000_000;

/// Functions of a component, over all its modules.
pub const COMPONENT_FUNCTIONS_MAX: u64 = 200_000;

/// Types, imports, exports, instances and nested modules of a component: they are processed before compilation.
pub const COMPONENT_ITEMS_MAX: u64 = 100_000;

/// Compiled components that a node keeps in memory in addition to those that its worlds run.
pub const COMPONENTS_KEPT_MAX: usize = 64;

/// Compiled code on a node's disk: some hundred interpreters, or ten thousand components of a compiled language. Code of another
/// version of the WASM engine is removed first.
pub const COMPILED_BYTES_MAX: u64 = 8 << 30;

/// Compiled functions on a node's disk that the compiler uses again: those of an interpreter take about 70 MB.
pub const COMPILED_FUNCTIONS_BYTES_MAX: u64 = 512 << 20;

/// Files of compiled functions. Each compilation looks at the index of all of them.
pub const COMPILED_FUNCTION_FILES_MAX: usize = 64;

/// The default bound on the processor time of one compilation, in seconds. An interpreter of 20 MB takes
/// about twenty with the fully optimized build.
pub const COMPILE_CPU_S_MAX: u64 = 120;

/// The default bound on the memory of one compilation.
pub const COMPILE_MEMORY_BYTES_MAX: u64 = 2 << 30;

/// Components of one universe that wait to be compiled.
pub const COMPONENTS_QUEUED_OF_UNIVERSE_MAX: usize = 128;

/// Code that waits in memory for the compiler, where it is stored nowhere else; a node reads it from the content store instead.
pub const COMPONENTS_QUEUED_BYTES_MAX: usize = 64 << 20;

/// Components that wait to be compiled; further uploads are refused and retried later.
pub const COMPONENTS_QUEUED_MAX: usize = 1_024;

/// A manifest with its inline schemas.
pub const MANIFEST_BYTES_MAX: usize = 1 << 20;

/// The name of a program: people type it.
pub const PROGRAM_NAME_BYTES_MAX: usize = 64;

/// Named programs of a universe: a team has dozens; all of them are listed in one answer.
pub const PROGRAM_NAMES_MAX: usize = 256;

/// Versions under one name: years of releases. One range read finds them all.
pub const PROGRAM_VERSIONS_MAX: usize = 1_000;

/// Versions that a list of programs shows of each name, the newest.
pub const PROGRAM_VERSIONS_LISTED_MAX: usize = 16;

/// The name of a universe: it is in every path.
pub const UNIVERSE_NAME_BYTES_MAX: usize = 64;

/// The name of a world: used in place of its id.
pub const WORLD_NAME_BYTES_MAX: usize = 256;

/// How long an operator's request waits for the holder of a world to release it or to perform the request: longer than the default lease,
/// so that another worker can replace a crashed holder meanwhile.
pub const TAKE_OVER_MS_MAX: u64 = 30_000;

/// Steps of the schema checks of one item and of the outputs of its step: a tenth of a second. A step is one
/// subschema applied to one part of a value.
pub const SCHEMA_WORK_MAX: u64 = 4_000_000;

/// Steps of a check on a thread that serves others, too: some milliseconds. A longer one continues on a thread of its own. Of an event from
/// outside that so many steps do not decide, the sender learns nothing: its world checks it in its turn.
pub const SCHEMA_WORK_IN_PLACE_MAX: u64 = 100_000;

/// Steps of one check in a replay, which repeats recorded checks without the bound above: a
/// history that takes longer is refused.
pub const SCHEMA_REPLAY_WORK_MAX: u64 = 400_000_000;

/// How deep checks nest: references, combinations and the parts of a value. It bounds the stack.
pub const SCHEMA_DEPTH_MAX: u32 = 512;

/// Subschemas of all schemas of a manifest that is registered.
pub const SCHEMA_NODES_MAX: u64 = 10_000;

/// Subschemas of a schema that is registered, with its references written out: references that fan out grow without bound.
pub const SCHEMA_EXPANSION_MAX: u64 = 1_000_000;

/// A regular expression of a schema that is registered, with its repetitions written out.
pub const SCHEMA_PATTERN_WEIGHT_MAX: u64 = 50_000;

/// All regular expressions of a manifest that is registered: compiled, they stay in memory.
pub const SCHEMA_PATTERNS_WEIGHT_MAX: u64 = 500_000;

/// Changes of a token's usage whose numbers are remembered, so that a change with an unknown commit is not applied twice: more than the
/// requests that charge one token during one commit.
pub const TOKEN_CHANGES_REMEMBERED: usize = 64;

/// Failed attempts in a row, for a reason that lies in the world itself, after which a world is put on hold.
pub const WORLD_FAILURES_MAX: u32 = 5;

/// Processes in a row that end in their first cycle of a world, after which it is put on hold, unless configured otherwise. One or
/// two may be a coincidence: an operator killed the process, or another world ended it.
pub const WORLD_DEATHS_MAX: u32 = 3;

/// The age at which a process starts a world that may have ended one process; twice as old for each further one that is counted. Longer than a
/// process takes to fail at its start for another reason, and short compared with a lease.
pub const SUSPECT_WAIT_NS: u64 = 1_000_000_000;

/// The longest such wait.
pub const SUSPECT_WAIT_NS_MAX: u64 = 32_000_000_000;

/// How long the first cycle of a world on probation delays other worlds on probation: after that they start as well, so that
/// one world's long cycle does not block others.
pub const ALONE_NS_MAX: u64 = 10_000_000_000;

/// The length of a slot of a pool, unless configured otherwise: fine enough for people, coarse enough for a clock.
pub const POOL_SLOT_MS_DEFAULT: u64 = 1_000;

/// A slot of a day: longer ones measure nothing.
pub const POOL_SLOT_MS_MAX: u64 = 86_400_000;

/// Resources of one shard of a pool, unless configured otherwise.
pub const POOL_RESOURCES_DEFAULT: u64 = 100_000;

/// Resources of one shard of a pool: each is a few cells. More go into more shards.
pub const POOL_RESOURCES_MAX: u64 = 1_000_000;

/// Leases that a shard of a pool keeps, live or for their history, unless configured otherwise.
pub const POOL_LEASES_DEFAULT: u64 = 200_000;

/// Leases that a shard of a pool keeps: as many as resources can be held, and as many again in the history.
pub const POOL_LEASES_MAX: u64 = 2_000_000;

/// Members of all leases that a shard of a pool keeps, unless configured otherwise.
pub const POOL_MEMBERS_DEFAULT: u64 = 400_000;

/// Members of all leases that a shard of a pool keeps.
pub const POOL_MEMBERS_MAX: u64 = 4_000_000;

/// Resources of one lease, unless configured otherwise.
pub const POOL_BUNDLE_DEFAULT: u64 = 64;

/// Resources of one lease: one command changes all of them, in one step.
pub const POOL_BUNDLE_MAX: u64 = 256;

/// Results that a shard of a pool keeps for operations that are sent again, unless configured otherwise.
pub const POOL_OPERATIONS_DEFAULT: u64 = 200_000;

/// Results that a shard of a pool keeps for operations that are sent again.
pub const POOL_OPERATIONS_MAX: u64 = 2_000_000;

/// Leases of a shard of a pool that are reserved at a time, unless configured otherwise.
pub const POOL_EXPIRATIONS_DEFAULT: u64 = 100_000;

/// Leases of a shard of a pool that are reserved at a time.
pub const POOL_EXPIRATIONS_MAX: u64 = 1_000_000;

/// How long a lease may stay reserved, in slots, unless configured otherwise: an hour of seconds.
pub const POOL_TTL_SLOTS_DEFAULT: u64 = 3_600;

/// How long a lease that ended still answers, in slots, unless configured otherwise: five minutes of seconds.
pub const POOL_HISTORY_SLOTS_DEFAULT: u64 = 300;

/// How long a result is kept for an operation that is sent again, in slots, unless configured otherwise: two minutes of seconds.
pub const POOL_OPERATION_SLOTS_DEFAULT: u64 = 120;

/// Reservations that wait in the queue of a shard of a pool, unless configured otherwise.
pub const POOL_QUEUE_DEFAULT: u64 = 1_000;

/// Reservations that wait in the queue of a shard of a pool: all of them are served one after another.
pub const POOL_QUEUE_MAX: u64 = 100_000;

/// Resources that one command creates: with eight labels each some ten thousand cells, far below the budget of a step.
pub const POOL_CREATE_MAX: usize = 1_000;

/// Labels of a resource: each is an index entry that every lease of the resource moves.
pub const POOL_LABELS_MAX: usize = 8;

/// A label of a resource: a word.
pub const POOL_LABEL_BYTES_MAX: usize = 64;

/// Leases that expire in one step of a pool's timer; the timer is due again at once if more have run out.
pub const POOL_EXPIRE_BATCH_MAX: usize = 64;

/// Members of leases that expire in one step of a pool's timer; a larger lease expires alone. With eight labels each, they are a small part of
/// the budget of a step.
pub const POOL_EXPIRE_MEMBERS_MAX: u64 = 512;

/// How long after its time a timer of a pool is taken for lost, because the step that it began has failed: longer than a timer is ever on its way.
pub const POOL_TIMER_LATE_MS_MAX: u64 = 60_000;

/// Records whose time is over that one command removes: more than it makes, so that the commands of a busy pool keep up with them.
pub const POOL_RETIRE_BATCH_MAX: usize = 8;

/// Shards of a pool: worlds that may run on different workers.
pub const POOL_SHARDS_MAX: u64 = 64;

/// Pools of a universe: all of them are listed in one answer.
pub const POOLS_MAX: usize = 1_000;

/// Runs of a query of a world that may fail in a row, by a trap, a panic or an exhausted budget, before the query is held back.
pub const QUERY_FAILURES_MAX: u32 = 5;

/// How long a query that fails again and again is refused; twice as long after each further failure. One run is tried at the end of each such time.
pub const QUERY_PAUSE_NS: u64 = 1_000_000_000;

/// The longest such time: a query that was mended is answered again after it.
pub const QUERY_PAUSE_NS_MAX: u64 = 32_000_000_000;

/// Queries of a universe that a process remembers as failing. Beyond it the oldest are forgotten, and fail a few times before they are held back again.
pub const QUERIES_FAILING_MAX: usize = 4_096;

/// How long a watcher waits for a holder, or between a revoke and a reclaim, at most: a week, counted in its own rounds.
pub const WATCH_MS_MAX: u64 = 7 * 86_400_000;

/// Failed probes in a row after which a watcher revokes a lease, unless its pool's policy says otherwise.
pub const WATCH_PROBE_FAILURES_DEFAULT: u32 = 3;

/// Failed probes in a row that a policy may ask for.
pub const WATCH_PROBE_FAILURES_MAX: u64 = 1_000;

/// How long a probe may take, unless its pool's policy says otherwise.
pub const WATCH_PROBE_TIMEOUT_MS_DEFAULT: u64 = 5_000;

/// How long a probe may take: a round of a watcher waits for its probes.
pub const WATCH_PROBE_TIMEOUT_MS_MAX: u64 = 60_000;

/// Probes of a watcher that run at a time.
pub const WATCH_PROBES_AT_ONCE: usize = 16;

/// The URL of a probe, with what it leaves open.
pub const WATCH_URL_BYTES_MAX: usize = 2_048;

/// Leases that a watcher reads in one transaction: with the holder of each, far below the bound of a transaction.
pub const WATCH_PAGE_MAX: usize = 256;

/// Leases of a shard that a watcher follows in memory. Further ones are followed once some of these have ended, which is late and never early.
pub const WATCHED_LEASES_MAX: usize = 100_000;

/// Pieces of evidence that a pool keeps for one lease: one for each rule of a policy, and room for more rules.
pub const POOL_EVIDENCE_MAX: usize = 8;

/// Characters of one piece of evidence, which is text for people.
pub const POOL_EVIDENCE_BYTES_MAX: usize = 256;

/// Pools of a universe whose states `/metrics` shows, the first by name: each is nine series.
pub const POOL_GAUGES_MAX: usize = 100;

/// Shards of these pools that are looked at: each that changed is a query.
pub const POOL_GAUGE_SHARDS_MAX: usize = 256;

/// Worlds that changed last, as a universe keeps them for those who follow it: each change writes one, each look reads all.
pub const WORLD_CHANGES_KEPT_MAX: u8 = 64;

/// Labels of a world: each is an entry of the index, written with every change.
pub const WORLD_LABELS_MAX: usize = 64;

/// The key of a label: a word or a path of words.
pub const LABEL_KEY_BYTES_MAX: usize = 63;

/// The value of a label: an id of another system fits, a document does not.
pub const LABEL_VALUE_BYTES_MAX: usize = 255;

/// Dead letters, or effects of one stage, that a list of worlds looks at to find the worlds that have any.
pub const QUEUE_ITEMS_LOOKED_AT_MAX: usize = 10_000;

/// Bytes of the log of a durable function that one answer shows; one page more than that is read.
pub const FUNCTION_LOG_SHOWN_BYTES_MAX: usize = 8 << 20;

/// The highest number in the name of a fork or an import that was given none.
pub const DEFAULT_NAME_NUMBER_MAX: u64 = 1 << 32;

/// How often a name is chosen again for one that somebody else took meanwhile.
pub const DEFAULT_NAME_TRIES_MAX: u32 = 64;

/// Names of worlds that a process remembers the ids of; beyond it all are forgotten and looked up again.
pub const WORLD_NAMES_REMEMBERED_MAX: usize = 65_536;

/// Worlds that one request of a bulk command takes on: each is a transaction.
pub const BULK_WORLDS_MAX: usize = 100;

/// Rows of a query whose answer is one document.
pub const SQL_ROWS_MAX: u64 = 10_000;

/// Bytes of the values of such an answer: it is kept in memory.
pub const SQL_BYTES_MAX: u64 = 16 << 20;

/// Rows of a query whose answer is streamed.
pub const SQL_STREAMED_ROWS_MAX: u64 = 100_000_000;

/// Bytes of the values of such an answer.
pub const SQL_STREAMED_BYTES_MAX: u64 = 64 << 30;

/// Memory of SQLite for all queries of a process: a sort or a group that needs more is refused.
pub const SQL_MEMORY_BYTES_MAX: u64 = 256 << 20;

/// How long a query may take if it says nothing.
pub const SQL_TIME_MS_DEFAULT: u64 = 30_000;

/// The longest that a query may ask for: as long as any request is held open.
pub const SQL_TIME_MS_MAX: u64 = 300_000;

/// SQL queries that run at a time in a process: each has a thread.
pub const SQL_AT_ONCE_MAX: usize = 8;

/// The same of one universe, so that its queries leave room for those of others.
pub const SQL_OF_UNIVERSE_MAX: usize = 2;

/// SQL queries of one universe that wait for others to end: each keeps its text in memory.
pub const SQL_WAITING_OF_UNIVERSE_MAX: usize = 64;

/// Verifications and rehearsals that run at a time in a process: each replays a whole history.
pub const REPLAYS_AT_ONCE_MAX: usize = 8;

/// The same of one universe, so that its replays leave room for those of others.
pub const REPLAYS_OF_UNIVERSE_MAX: usize = 2;

/// Verifications and rehearsals of one universe that wait for others to end.
pub const REPLAYS_WAITING_OF_UNIVERSE_MAX: usize = 64;

/// Records that a replay takes before other tasks of its thread run: a long history does not hold up requests.
pub const REPLAYED_AT_ONCE_MAX: u32 = 100;

/// Children of a world that run at a time, unless its manifest says otherwise.
pub const CHILDREN_ACTIVE_DEFAULT: u64 = 2;

/// Children of a world that run at a time: all of them stand in one record, which every dispatch of the world writes.
pub const CHILDREN_ACTIVE_MAX: u64 = 64;

/// Terminal children that a world keeps, with their events; the one that ended first goes when another one ends.
pub const CHILDREN_ENDED_MAX: u64 = 1_000;

/// The result of a child: it stands in one inbox item beside how the child ended.
pub const CHILD_RESULT_BYTES_MAX: usize = PAYLOAD_INLINE_BYTES_MAX - 2_048;

/// Parents with children to dispatch that an executor reads at a time.
pub const CHILD_PARENTS_PAGE: usize = 256;

/// Queued children that a dispatch looks at to find the first one: those that were cancelled while they waited lie between.
pub const CHILD_QUEUE_SCAN_MAX: usize = 256;

/// Calls to the outside that are told with the end of a child, the newest of them: they stand in one inbox item beside how it ended.
pub const CHILD_CALLS_MAX: usize = 64;

/// Times that an agent asks its model: one that never comes to an end is stopped.
pub const AGENT_ROUNDS_MAX: u64 = 64;

/// Tools that an agent has, and calls of tools that its model may ask for at a time.
pub const AGENT_TOOLS_MAX: usize = 64;

/// The part of a tool's answer that an agent passes to its model; the rest is cut.
pub const AGENT_ANSWER_BYTES_MAX: usize = 64 << 10;

/// The conversation of an agent, as JSON: it is sent with every question.
pub const AGENT_CONVERSATION_BYTES_MAX: usize = 1 << 20;

/// How long an executor's lease of a child is valid without an extension.
pub const CHILD_LEASE_NS: u64 = 30_000_000_000;

/// Running instances of durable functions that a rehearsal checks, and names if they diverge: as many as a world may run.
pub const FUNCTIONS_REHEARSED_MAX: usize = 1_000;

/// Of these, as many as the text of a refused upgrade names.
pub const FUNCTIONS_NAMED_MAX: usize = 20;

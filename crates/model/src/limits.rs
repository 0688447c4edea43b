//! Every bound in one place, each with its reason. What exceeds one is a typed error, never an allocation.

/// FoundationDB's bound on keys, which the strictest engine sets for all.
pub const KEY_BYTES_MAX: usize = 10_000;

/// FoundationDB's bound on values; larger payloads go to the content store and are referenced.
pub const VALUE_BYTES_MAX: usize = 100_000;

/// FoundationDB's bound on what a transaction writes and what it declares to have read.
pub const TRANSACTION_BYTES_MAX: usize = 10_000_000;

/// FoundationDB's bound on a transaction's age; it lets an engine forget old versions.
pub const TRANSACTION_AGE_MS_MAX: u64 = 5_000;

/// As many operations as a transaction could hold if each were empty; bounds per-operation overhead.
pub const TRANSACTION_OPERATIONS_MAX: usize = 200_000;

/// Reads that a transaction announces before it makes them: a few of each item of the largest batch of a queue. What was
/// fetched for them is held in memory.
pub const ANNOUNCED_READS_MAX: usize = 2_048;

/// What one range read returns at most; more is read by another call from where it ended.
pub const RANGE_ITEMS_MAX: usize = 10_000;

/// What one range read returns at most in bytes (it may end with an item that goes beyond).
pub const RANGE_BYTES_MAX: usize = 4_000_000;

/// Deep enough for any data made by people, shallow enough for the smallest thread stack.
pub const VALUE_DEPTH_MAX: u32 = 64;

/// What one append writes at most: its entries must fit a transaction together with what the turn publishes.
pub const BATCH_RECORDS_MAX: usize = 10_000;

/// Leaves room under the value bound for the stamps and the frame that the journal puts around an item.
pub const INBOX_ITEM_BYTES_MAX: usize = 64 * 1024;

/// A payload above this is moved to the content store when it is enqueued; below, another object costs more.
pub const PAYLOAD_INLINE_BYTES_MAX: usize = 16 * 1024;

/// Items that wait in memory for one world. Their senders wait with them, so more than a few turns' worth helps nobody;
/// who finds no room goes through the inbox, which has bounds of its own.
pub const DIRECT_ITEMS_MAX: usize = 256;

/// How long a sender waits for a lane to take its item before it puts it into the inbox; it may be half as long again. Turns take
/// milliseconds; a world that is busy for longer must not keep its senders from an acknowledgement.
pub const DIRECT_PATIENCE_MS: u64 = 100;

/// What one transaction enqueues at most, so that with the largest items it still fits.
pub const INBOX_BATCH_ITEMS_MAX: usize = 1_024;

/// How much waits in an inbox unless its world says otherwise: minutes of a fast sender, not hours.
pub const INBOX_ITEMS_MAX_DEFAULT: u64 = 100_000;

/// The same in bytes.
pub const INBOX_BYTES_MAX_DEFAULT: u64 = 256 * 1024 * 1024;

/// Attempts at an effect that a manifest may ask for: with the longest wait between them, a hundred days.
pub const EFFECT_ATTEMPTS_MAX: u64 = 100;

/// Failed attempts at an effect that are kept for people to see, the newest ones: enough to tell a pattern.
pub const EFFECT_ATTEMPTS_KEPT_MAX: usize = 10;

/// What is kept of the reason of each of them, in characters: the record stays small beside the item that it is about.
pub const EFFECT_ATTEMPT_REASON_CHARS_MAX: usize = 200;

/// Records that are looked through, from the newest back, for an effect that is in no queue any more.
pub const EFFECT_SEARCH_RECORDS_MAX: u64 = 100_000;

/// The shortest wait between two attempts at an effect, whatever its manifest says: a failing one does not keep a process busy.
pub const EFFECT_BACKOFF_MS_MIN: u64 = 10;

/// The longest wait between two attempts at an effect, whether its manifest or the other side asks for it (`Retry-After`).
pub const EFFECT_BACKOFF_MS_MAX: u64 = 24 * 60 * 60 * 1_000;

/// How long one attempt at an effect may take.
pub const EFFECT_TIMEOUT_MS_MAX: u64 = 24 * 60 * 60 * 1_000;

/// How often the delivery of a timer, or of what was sent with a delay, is tried before it becomes a dead letter: with the waits
/// below, about a quarter of an hour.
pub const DELIVERY_ATTEMPTS_MAX: u32 = 20;

/// The wait after the first failed delivery; it doubles with each.
pub const DELIVERY_BACKOFF_MS: u64 = 100;

/// The longest wait between two deliveries.
pub const DELIVERY_BACKOFF_MS_MAX: u64 = 60_000;

/// Room that a full inbox still has for commands: a paused world with a full inbox must hear that it may go on.
pub const INBOX_COMMANDS_MAX: u64 = 16;

/// What one turn takes from an inbox at most.
pub const TURN_ITEMS_MAX: usize = 4_096;

/// The same in bytes: a turn writes each item once more, with its outcome, and must fit a transaction.
pub const TURN_BYTES_MAX: usize = 2_000_000;

/// What one turn publishes at most; their index has 16 bits.
pub const TURN_INTENTS_MAX: usize = 16_384;

/// How many roots a snapshot lists at most: each is looked up when it is committed and when it is loaded.
pub const SNAPSHOT_ROOTS_MAX: usize = 10_000;

/// How many ancestors the history of a fork is followed through.
pub const LINEAGE_DEPTH_MAX: usize = 1_000;

/// Intents of a parent that a recorded fork keeps in memory while it looks for one receipt.
pub const RECORDING_AHEAD_MAX: usize = 10_000;

/// Intents of a sandbox, and as many of its parent since the fork, that are compared with each other. Each costs two hashes in
/// memory.
pub const SANDBOX_COMPARED_MAX: usize = 10_000;

/// Scripted answers of a sandbox: each effect is compared with all of them.
pub const ANSWERS_MAX: usize = 1_000;

/// All scripted answers of a sandbox, encoded: a running sandbox keeps them in memory.
pub const ANSWERS_BYTES_MAX: usize = 1024 * 1024;

/// Attempts of a recorded fork to pass its first difference before it is put on hold: the second one takes commands first.
pub const DIVERGED_ATTEMPTS_MAX: u32 = 2;

/// Intents of one turn of a recorded fork, each of which may bring its receipt into the same transaction.
pub const RECORDING_TURN_INTENTS_MAX: usize = 256;

/// How long a finished effect, timer or message is remembered: longer than any retry of its sender.
pub const DEDUPE_WINDOW_NS: u64 = 3_600_000_000_000;

/// The shortest window that a configuration may ask for: a client that lost an answer tries again within it.
pub const DEDUPE_WINDOW_MS_MIN: u64 = 60_000;

/// The longest one: every name of that time is kept.
pub const DEDUPE_WINDOW_MS_MAX: u64 = 30 * 24 * 60 * 60 * 1_000;

/// What one page of a listing holds at most: as much as a person or a screen takes in.
pub const LIST_ITEMS_MAX: usize = 1_000;

/// What one call of a listing looks at to fill its page; a filter that fits little gives short pages, not long waits.
pub const LIST_LOOKS_MAX: usize = 1_000;

/// Effects that one transaction claims, and claims that one extends.
pub const CLAIMS_MAX: usize = 256;

/// Timers that one transaction delivers.
pub const TIMERS_FIRED_MAX: usize = 256;

/// How many leases one transaction renews.
pub const RENEWALS_MAX: usize = 1_000;

/// What a content-store object may have to live in the engine: below, a second round trip costs more than the
/// bytes; above, values crowd the engine's cache, and a commit log carries every body twice.
pub const BLOB_INLINE_BYTES_MAX: usize = 16 * 1024;

/// The largest object that S3 copies in one request, which a put of unknown hash ends with.
pub const BLOB_BYTES_MAX: u64 = 5 * 1024 * 1024 * 1024;

/// What a get returns in one piece; larger objects are read as a stream or in ranges.
pub const BLOB_WHOLE_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// The buffer of a streamed body. Stores want parts of 5 MiB and more, all of one size, and at most 10,000 of
/// them; two buffers are in use at a time.
pub const BLOB_PART_BYTES: usize = 8 * 1024 * 1024;

/// References that one object declares: as many hashes as one engine value holds with room to spare.
pub const BLOB_REFS_MAX: usize = 2_048;

/// Records of one segment, before compression: built in memory, written by one request.
pub const SEGMENT_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Heights of one segment; bounds the list of hot keys that are deleted after it.
pub const SEGMENT_RECORDS_MAX: u64 = 65_536;

/// A block is closed once it holds this much before compression: what a read of one record costs.
pub const SEGMENT_BLOCK_BYTES: usize = 64 * 1024;

/// A block never holds more before compression: the target, and one record of the largest size on top.
pub const SEGMENT_BLOCK_BYTES_MAX: usize = 256 * 1024;

/// The index inside a segment: its blocks and every hash that its records refer to.
pub const SEGMENT_FOOTER_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Hot keys deleted by one transaction after an export: small enough that the foreground does not notice.
pub const SEGMENT_DELETE_CHUNK: u64 = 1_000;

/// What a frame of a bundle holds before compression, before it is closed: what a reader of one object pays.
pub const BUNDLE_FRAME_BYTES: usize = 256 * 1024;

/// A frame of a bundle never holds more before compression: what a reader allocates for one whose length lies.
pub const BUNDLE_FRAME_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Objects from this size on are cut into frames of their own, so that a bundle is written and read in little memory.
pub const BUNDLE_PART_BYTES: usize = 1024 * 1024;

/// Records of one frame: a damaged frame names so many heights at most.
pub const BUNDLE_RECORDS_MAX: usize = 256;

/// Snapshots that a bundle carries, the newest of them and the first: what one transaction indexes when it arrives.
pub const BUNDLE_SNAPSHOTS_MAX: usize = 1_000;

/// What a reader of a bundle expands, however little was stored: small worlds of one repeated byte are within it.
pub const BUNDLE_EXPANDED_BYTES_MIN: u64 = 16 * 1024 * 1024;

/// Beyond that, a bundle expands to so many times its size at most, so that a small file cannot fill a disk. A writer stores what
/// compresses better as it is.
pub const BUNDLE_EXPANSION_MAX: u64 = 100;

/// What a server takes in as one bundle: it is written to its disk before it is believed.
pub const BUNDLE_BYTES_MAX: u64 = 64 * 1024 * 1024 * 1024;

/// A journal record is one value of an engine, with room for what the store adds.
pub const RECORD_BYTES_MAX: usize = 90_000;

/// What a program may pass in one payload: what an adapter or another world can take in one piece.
pub const PAYLOAD_BYTES_MAX: usize = 1 << 20;

/// The key of a cell: a readable path. It also bounds the depth of the cell tree.
pub const CELL_KEY_BYTES_MAX: usize = 512;

/// The value of a cell; what is larger is a blob that a cell names.
pub const CELL_VALUE_BYTES_MAX: usize = 1 << 20;

/// Cell values above this are objects of their own, so that one edit does not rewrite its neighbours' bytes.
pub const CELL_INLINE_BYTES_MAX: usize = 1_024;

/// What a subtree of cells may weigh and still be one node: about one disk page.
pub const CELL_LEAF_BYTES_MAX: usize = 4_096;

/// What one scan of cells returns at most; more is read by another call from where it ended.
pub const SCAN_ITEMS_MAX: usize = 1_000;

/// What one scan of cells returns at most in bytes (it may end with an item that goes beyond).
pub const SCAN_BYTES_MAX: usize = 1 << 20;

/// Headers of a message or an event between worlds: what a proxy or a tracer adds, several times over.
pub const HEADERS_MAX: usize = 64;

/// The names and values of all headers together, with eight bytes for each: they stand in the record beside the payload.
pub const HEADERS_BYTES_MAX: usize = 16 * 1024;

/// Names: labels, effect kinds, schemas, inboxes, codes. Long enough for a path, short enough for an index.
pub const NAME_BYTES_MAX: usize = 256;

/// A sentence for people in a journal record.
pub const REASON_BYTES_MAX: usize = 1_024;

/// Host calls of one step: far above what a sane step does, and still bounded in time.
pub const STEP_CALLS_MAX: u64 = 1_000_000;

/// Bytes that one step may pass through its host, reading or writing.
pub const STEP_BYTES_MAX: u64 = 64 << 20;

/// Intents, cancels and replies of one step, which become records of the same transaction.
pub const STEP_OUTPUTS_MAX: u64 = 256;

/// Bytes of inline payloads that one step may add to its transaction: a tenth of what that may hold.
pub const STEP_OUTPUT_BYTES_MAX: u64 = 1_000_000;

/// Log lines of one step; they are not part of the outcome. Further ones are dropped.
pub const STEP_LOGS_MAX: usize = 100;

/// The bytes of a log line that are kept: a sentence with its values, and no dump.
pub const LOG_LINE_BYTES_MAX: usize = 1_024;

/// Pages that the log lines of a world are kept in; the oldest page is overwritten.
pub const LOG_PAGES_MAX: u16 = 16;

/// The bytes of such a page: each turn that logs writes its newest page anew. 16 pages are 128 KiB for each world at most.
pub const LOG_PAGE_BYTES_MAX: usize = 8 * 1_024;

/// Programs and codes that failed steps are counted by in one process; further ones are counted together.
pub const FAILURE_LABELS_MAX: usize = 200;

/// Open intents of one world. They travel in each snapshot.
pub const OPEN_INTENTS_MAX: u64 = 10_000;

/// Timers of one world. They travel in each snapshot.
pub const TIMERS_MAX: u64 = 10_000;

/// Closed intents that a world remembers, to tell a repeated receipt from a stray one.
pub const CLOSED_INTENTS_MAX: u64 = 1_024;

/// Control commands that a paused world took ahead of the items before them.
pub const TAKEN_AHEAD_MAX: usize = 1_024;

/// Resumes among them for which there is room although the others fill the list.
pub const RESUMES_AHEAD_MAX: usize = 1_024;

/// Cells that are written before the tree is made of them: bounds what a scan passes over.
pub const UNSETTLED_CELLS_MAX: usize = 10_000;

/// Fuel of a component in one step: a second or so of a processor, and far less than a lease.
pub const WASM_FUEL_MAX: u64 = 1_000_000_000;

/// Fuel that counts as one host call, so that a turn of hungry steps ends as early as one of talkative steps.
pub const WASM_FUEL_PER_CALL: u64 = 1_000;

/// Linear memory of a component: an interpreter with a heap of its own fits, and dozens of them fit on a machine.
pub const WASM_MEMORY_BYTES_MAX: u64 = 256 << 20;

/// Elements of each table of a component: an interpreter has some ten thousand functions.
pub const WASM_TABLE_ELEMENTS_MAX: u64 = 100_000;

/// Steps and queries of one universe that wait for a processor: each of them holds a thread of the process.
pub const STEPS_WAITING_MAX: usize = 128;

/// Of these, steps that are expected to be long and have not begun. The other places are for short ones, so that loops of some worlds keep
/// no other world of the same universe from its turn.
pub const STEPS_WAITING_LONG_MAX: usize = 64;

/// Steps of components that have outlasted their first slice and are not over, in one process: each holds an instance with its memory.
pub const STEPS_LONG_MAX: usize = 32;

/// The same of one universe.
pub const STEPS_LONG_OF_UNIVERSE_MAX: usize = 8;

/// The smallest stack that compiled libraries run on.
pub const WASM_STACK_BYTES_MIN: u64 = 64 << 10;

/// The stack of a component is on the thread that runs the world, which has 2 MiB.
pub const WASM_STACK_BYTES_MAX: u64 = 1 << 20;

/// A component: interpreters have some twenty megabytes, and it must pass as one blob.
pub const COMPONENT_BYTES_MAX: usize = 48 << 20;

/// One function of a component: the time to compile a function grows faster than its size.
pub const COMPONENT_FUNCTION_BYTES_MAX: usize = 1 << 20;

/// What the compiler carries through one function (`crates/wasm/src/weight.rs`): a few kilobytes can be gigabytes to it. The
/// heaviest function of today's interpreters has 0.3 million.
pub const COMPONENT_FUNCTION_WEIGHT_MAX: u64 = 400_000;

/// Loops of one function: the time to compile them grows with the square of their number. Today's interpreters have 400 at most.
pub const COMPONENT_FUNCTION_LOOPS_MAX: u64 = 2_048;

/// Blocks, loops and conditions of one function. Today's interpreters have 4,200 at most.
pub const COMPONENT_FUNCTION_BLOCKS_MAX: u64 = 20_000;

/// What the compiler carries through all functions: those of an interpreter have 8 million.
pub const COMPONENT_WEIGHT_MAX: u64 = 16_000_000;

/// Functions of a component, over all its modules.
pub const COMPONENT_FUNCTIONS_MAX: u64 = 200_000;

/// Types, imports, exports, instances and nested modules of a component: what is worked through before any compiling.
pub const COMPONENT_ITEMS_MAX: u64 = 100_000;

/// Compiled components that a node keeps at hand beside those that its worlds run.
pub const COMPONENTS_KEPT_MAX: usize = 64;

/// Compiled code on a node's disk: some hundred interpreters, or ten thousand components of a compiled language. What another
/// version of the engine left behind goes first.
pub const COMPILED_BYTES_MAX: u64 = 8 << 30;

/// Seconds of processor time that compiling one component may take, unless configuration says otherwise. An interpreter of 20 MB takes
/// some fifteen with an optimized compiler.
pub const COMPILE_CPU_S_MAX: u64 = 120;

/// Memory that compiling one component may take, unless configuration says otherwise.
pub const COMPILE_MEMORY_BYTES_MAX: u64 = 2 << 30;

/// Components of one universe that wait to be compiled.
pub const COMPONENTS_QUEUED_OF_UNIVERSE_MAX: usize = 128;

/// Code that waits in memory to be compiled, where it is nowhere else; a node reads it when its turn comes.
pub const COMPONENTS_QUEUED_BYTES_MAX: usize = 64 << 20;

/// Components that wait to be compiled; whoever brings more comes again later.
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

/// The name of a universe: it stands in every address.
pub const UNIVERSE_NAME_BYTES_MAX: usize = 64;

/// The name of a world: another way to write its id.
pub const WORLD_NAME_BYTES_MAX: usize = 256;

/// How long an operator's request waits for the holder of a world to give it back, or to do what was asked: longer than the usual lease,
/// so that a holder that died is succeeded meanwhile.
pub const TAKE_OVER_MS_MAX: u64 = 30_000;

/// Steps of the checks of one item against schemas, and of all that its step asks for: a tenth of a second. A step is one
/// subschema applied to one part of a value.
pub const SCHEMA_WORK_MAX: u64 = 4_000_000;

/// Steps of one check in a replay, where what was checked when it was recorded is checked again without the bound above: a
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

/// Changes of a token's usage that are remembered by their numbers, so that one whose commit got no answer is not made twice: more than the
/// requests of one token that charge it in the time of one commit.
pub const TOKEN_CHANGES_REMEMBERED: usize = 64;

/// Attempts of a world that may fail in a row for a reason that lies in the world itself, before it is put on hold.
pub const WORLD_FAILURES_MAX: u32 = 5;

/// Processes that may end one after another in their first cycle of a world before it is put on hold, unless configured otherwise. One or
/// two are a coincidence: the process that ended the one before is killed, too, or another world ended it.
pub const WORLD_DEATHS_MAX: u32 = 3;

/// How long the first cycle of a world that perhaps ended a process keeps others of its kind waiting: they are opened beside it then, so that
/// one world's long cycle does not hold up the worlds of others.
pub const ALONE_NS_MAX: u64 = 10_000_000_000;

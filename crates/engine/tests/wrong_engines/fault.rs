//! The ways to be wrong, and which property must notice.

macro_rules! faults {
    ($($(#[doc = $story:literal])* $fault:ident: $($property:ident),+;)*) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Fault {
            /// The wrapper alone: it must pass everything.
            None,
            $($(#[doc = $story])* $fault,)*
        }

        /// Each fault with the properties that must be violated.
        pub(crate) const CAUGHT: &[(Fault, &[&str])] =
            &[$((Fault::$fault, &[$(stringify!($property)),+]),)*];
    };
}

faults! {
    /// Applies a commit in two steps.
    TornForReaders: a_commit_is_seen_whole_or_not_at_all;
    /// Applies the first half of a commit only.
    LosesHalf: a_commit_is_seen_whole_or_not_at_all, random_transactions_agree_with_a_sorted_map;
    /// Applies what was dropped.
    KeepsAbandoned: an_abandoned_transaction_leaves_nothing;
    /// Applies what it refuses.
    KeepsRefused: a_refused_commit_leaves_nothing, a_conflict_was_surely_not_applied;

    /// Reads the newest value instead of the snapshot's.
    ReadsLatest: reads_come_from_one_snapshot;
    /// Compares writes only: snapshot isolation.
    NoKeyConflicts: lost_updates_are_refused, write_skew_is_refused, an_idempotent_retry_applies_once,
        random_transactions_agree_with_a_sorted_map, concurrent_histories_have_an_order,
        histories_with_lost_answers_have_an_order;
    /// Forgets which ranges were read.
    NoRangeConflicts: write_skew_over_ranges_is_refused, random_transactions_agree_with_a_sorted_map;
    /// Remembers the keys that a range read returned, and not the gaps between them.
    PhantomBlind: phantoms_are_refused, write_skew_over_ranges_is_refused;
    /// A deletion is no change.
    DeletionsUnnoticed: every_kind_of_write_is_noticed_by_a_key_read;
    /// Compares ranges before stamped keys have their place.
    StampedUnnoticed: every_kind_of_write_is_noticed_by_a_range_read;

    /// Names a snapshot that it does not read.
    VersionAhead: a_snapshot_has_seen_what_its_version_says;

    /// There are no snapshot reads.
    SnapshotReadsConflict: snapshot_reads_add_no_conflict;
    /// A limited read locks the whole range.
    LimitLocksAll: a_limited_read_depends_only_on_what_it_read, random_transactions_agree_with_a_sorted_map;
    /// First committer wins, though nobody read.
    WritesConflict: blind_writes_do_not_conflict, adds_do_not_conflict;
    /// Takes its own writes for another's.
    SelfConflict: own_writes_do_not_conflict_with_own_reads;
    /// Locks more than the key.
    LocksNeighbours: neighbours_do_not_conflict;
    /// Validates what has nothing to write.
    ReadersConflict: readers_always_succeed;

    /// Answers what was prefetched from what it fetched, without the transaction's own writes.
    PrefetchedSkipOwnWrites: prefetched_reads_find_what_reads_find, random_transactions_agree_with_a_sorted_map;
    /// Fetches what is to be read at once, and not from the transaction's snapshot.
    PrefetchedReadLatest: prefetched_reads_find_what_reads_find;
    /// Forgets that what was fetched ahead is depended on once it is read.
    PlannedUnnoticed: planned_reads_conflict_as_reads_do, random_transactions_agree_with_a_sorted_map;
    /// Depends on whatever was planned.
    PlansConflict: plans_add_no_conflict, random_transactions_agree_with_a_sorted_map;

    /// Reads go straight to the store.
    OwnWritesUnseen: own_puts_and_deletes_are_read, random_transactions_agree_with_a_sorted_map;
    /// Reads do not know of range deletes.
    OwnRangeDeletesUnseen: own_range_deletes_are_read;
    /// Reads do not know of adds.
    OwnAddsUnseen: own_adds_are_read;
    /// Ranges go straight to the store.
    RangesSkipOwnWrites: ranges_merge_own_writes_in_both_directions;
    /// Reverse ranges go straight to the store.
    ReverseSkipsOwnWrites: ranges_merge_own_writes_in_both_directions;

    /// Believes that what is planned as new is, and keeps the first of two.
    NewIsKept: what_is_planned_as_new_need_not_be;

    /// Orders bytes as signed numbers.
    SignedOrder: ranges_are_ordered_by_bytes_in_both_directions;
    /// A reverse read with a limit gives the first items, backwards.
    ReverseTakesFirst: limits_cut_and_more_says_so, random_transactions_agree_with_a_sorted_map;
    /// Never says that there is more.
    MoreNever: limits_cut_and_more_says_so, pages_put_together_give_the_whole;
    /// Always says that there is more.
    MoreAlways: limits_cut_and_more_says_so, pages_put_together_give_the_whole;
    /// A range holds its end.
    EndInclusive: bounds_are_start_inclusive_and_end_exclusive;
    /// A page may have any size.
    PagesUnbounded: a_page_is_bounded_in_bytes;

    /// Deletes what was there when the transaction began.
    RangeDeleteAtSnapshot: a_range_delete_takes_what_others_committed_before_it,
        random_transactions_agree_with_a_sorted_map, concurrent_writes_equal_their_replay;
    /// Does range deletes after everything else.
    RangeDeleteLast: a_range_delete_spares_what_comes_after_it;
    /// Deletes the end as well.
    RangeDeleteEndInclusive: a_range_delete_takes_exactly_its_range;

    /// Adds to what the snapshot held.
    AddsAtSnapshot: concurrent_adds_all_count, adds_do_not_conflict, concurrent_writes_equal_their_replay;
    /// Reads what it adds to.
    AddsConflict: adds_do_not_conflict, concurrent_adds_all_count;
    /// Adds up to the largest number and no further.
    AddsSaturate: adds_wrap_and_start_from_zero;

    /// Returns another stamp than it wrote.
    StampMismatch: stamps_rise_and_equal_the_returned_one;
    /// Draws the stamp before it commits.
    StampsDrawnEarly: no_stamp_appears_behind_one_already_seen, concurrent_writes_equal_their_replay;

    /// Hands out snapshots that were taken earlier.
    StaleSnapshots: who_begins_after_an_acknowledgement_sees_it, concurrent_histories_have_an_order;
    /// Acknowledges first and applies with the next commit.
    AcknowledgesEarly: who_begins_after_an_acknowledgement_sees_it;
    /// Reads from two replicas, one of which lags behind the other.
    MixedSnapshots: an_acknowledged_chain_is_seen_in_order;
    /// Makes a planned read first, and asks afterwards how far it has seen.
    VersionAskedLater: a_planned_read_has_seen_what_its_version_says;
    /// Answers planned reads from the snapshot of the planned transaction before.
    SharesOldSnapshots: a_planned_read_has_seen_what_its_version_says;
    /// Calls an applied commit a conflict, now and then.
    ConflictAfterApply: a_conflict_was_surely_not_applied;

    /// Watches hear nothing.
    DeafWatch: a_change_ends_a_watch;
    /// Compares with what it finds, and not with what the caller has seen.
    WatchIgnoresSeen: a_watch_on_an_older_value_ends_at_once;
    /// Looks, and listens a little later.
    LooksThenListens: watches_never_miss_a_change;
    /// A dropped watch takes the others along.
    DropDeafens: a_dropped_watch_harms_nobody;

    /// Takes any key.
    KeysUnbounded: keys_out_of_bounds_are_refused;
    /// Takes any value.
    ValuesUnbounded: values_out_of_bounds_are_refused;
    /// Takes any limit.
    LimitsUnbounded: range_reads_out_of_bounds_are_refused;
    /// A refused call spoils the transaction.
    RefusalPoisons: keys_out_of_bounds_are_refused, values_out_of_bounds_are_refused,
        range_reads_out_of_bounds_are_refused, transactions_are_bounded_in_bytes,
        transactions_are_bounded_in_operations;
    /// Takes transactions of any size.
    SizeUnbounded: transactions_are_bounded_in_bytes, transactions_are_bounded_in_operations;
    /// Forgets to count what was read.
    ReadsUncounted: what_is_read_counts_towards_the_bound;
    /// Deletes a part of a long range, and refuses the rest.
    RangeDeletesTorn: a_range_delete_of_more_than_fits_is_done_or_refused_as_a_whole;
    /// Transactions live for ever.
    Ageless: an_old_transaction_neither_reads_nor_commits;
    /// Old transactions cannot read, but commit.
    OldCommits: an_old_transaction_neither_reads_nor_commits;

    /// A crash takes everything.
    ForgetsAll: acknowledged_commits_survive_a_crash;
    /// A crash takes the last item.
    LosesTail: acknowledged_commits_survive_a_crash, what_was_not_committed_does_not_survive;
    /// A crash brings back what was dropped.
    RevivesDropped: what_was_not_committed_does_not_survive;
    /// Stamps begin again after a crash.
    RestartsStamps: stamps_go_on_rising_after_a_crash;
}

impl Fault {
    /// A change that is missed shows as a wait without end.
    pub(crate) fn is_silence(self) -> bool {
        matches!(self, Self::DeafWatch | Self::WatchIgnoresSeen | Self::LooksThenListens | Self::DropDeafens)
    }
}

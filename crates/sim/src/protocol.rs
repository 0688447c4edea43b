//! Identifies the protocol of a transaction by its writes: the engine knows no protocols, and checkers do not
//! trust what a protocol claims.

use crate::log::Write;
use mundi_model::cbor;
use mundi_store::keyspace::{Family, Parts, effect_dedupe::EffectDedupe, effect_dedupe::EffectStatus, lease::Lease};
use std::fmt;

macro_rules! protocols {
    ($($(#[$doc:meta])* $name:ident = $text:literal;)*) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Protocol {
            $($(#[$doc])* $name,)*
        }

        impl Protocol {
            pub const ALL: &[Self] = &[$(Self::$name),*];

            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }
    };
}

protocols! {
    CreateWorld = "create_world";
    /// `archive_world`, `delete_world`, `hold_world` and `label_world`.
    EndWorld = "archive/delete_world";
    Enqueue = "enqueue";
    CommitTurn = "commit_turn";
    CallWorld = "call_world";
    CommitSnapshot = "commit_snapshot";
    AcquireLease = "acquire_lease";
    ReleaseLease = "release_lease";
    RenewLeases = "renew_leases";
    SettleWorld = "settle_world";
    CompactInbox = "compact_inbox";
    ClaimEffects = "claim_effects";
    ExtendClaims = "extend_claims";
    /// An attempt failed, or was reaped, and another one follows.
    RetryEffect = "retry_effect";
    /// The terminal receipt, by `complete_effect`, `fail_effect` or `reap_effects`.
    AnswerEffect = "answer_effect";
    FireTimers = "fire_timers";
    BeginExport = "begin_export";
    IndexSegment = "index_segment";
    DeleteExported = "delete_exported";
    CasPut = "cas_put";
    Heartbeat = "heartbeat";
    PlaceWorld = "place_world";
    SendMail = "send_mail";
    ClaimMail = "claim_mail";
    FinishMail = "finish_mail";
    /// Everything else: marks, schema versions, universes.
    Other = "other";
    ObjectRead = "object read";
    ObjectWrite = "object write";
    /// An adapter's call to the outside.
    EffectCall = "effect call";
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The writes of a transaction, by family.
struct Written<'a>(&'a [Write]);

impl Written<'_> {
    fn puts(&self, family: Family) -> bool {
        self.value(family).is_some()
    }

    fn value(&self, family: Family) -> Option<&[u8]> {
        self.0.iter().find_map(|write| match write {
            Write::Put(key, value) if family_of(key) == Some(family) => Some(&value[..]),
            _ => None,
        })
    }

    fn adds(&self, family: Family) -> bool {
        self.0.iter().any(|write| matches!(write, Write::Add(key, _) if family_of(key) == Some(family)))
    }

    fn removes(&self, family: Family) -> bool {
        self.0.iter().any(|write| match write {
            Write::Delete(key) | Write::Clear(key, _) => family_of(key) == Some(family),
            _ => false,
        })
    }
}

fn family_of(key: &[u8]) -> Option<Family> {
    Parts::of(key).map(|parts| parts.family)
}

impl Protocol {
    pub(crate) fn of(writes: &[Write]) -> Self {
        let written = Written(writes);
        // A turn that pauses or resumes its world writes all of it but a baseline.
        match (written.puts(Family::WorldMeta), written.puts(Family::JournalHead), written.puts(Family::Baseline)) {
            (true, true, true) => return Self::CreateWorld,
            (true, false, _) => return Self::EndWorld,
            _ => {}
        }
        if let Some(value) = written.value(Family::Lease) {
            let held = cbor::decode::<Lease>(value).is_ok_and(|lease| lease.holder.is_some());
            match held {
                false => return Self::ReleaseLease,
                true if written.puts(Family::LeaseTerm) => return Self::AcquireLease,
                true => {} // the end of a probation, with the first turn or after a cycle without one
            }
        }
        Self::of_journal(&written).or_else(|| Self::of_queues(&written)).unwrap_or(Self::Other)
    }

    fn of_journal(written: &Written<'_>) -> Option<Self> {
        Some(match () {
            () if written.puts(Family::Snapshot) || written.puts(Family::Baseline) => Self::CommitSnapshot,
            () if written.puts(Family::JournalHead) && written.puts(Family::JournalEntry) => Self::CommitTurn,
            () if written.puts(Family::LeaseTerm) => Self::RenewLeases,
            () if written.puts(Family::Segment) => Self::IndexSegment,
            () if written.removes(Family::JournalEntry) => Self::DeleteExported,
            () if written.puts(Family::SegmentCheckpoint) => Self::BeginExport,
            () => return None,
        })
    }

    fn of_queues(written: &Written<'_>) -> Option<Self> {
        let answered = |value| cbor::decode::<EffectDedupe>(value).is_ok_and(|it| it.status != EffectStatus::Pending);
        let claims = written.removes(Family::EffectPending) || written.removes(Family::EffectRetry);
        Some(match () {
            () if written.puts(Family::OpenCall) => Self::CallWorld,
            () if written.value(Family::EffectDedupe).is_some_and(answered) => Self::AnswerEffect,
            () if written.puts(Family::EffectInflight) && claims => Self::ClaimEffects,
            () if written.puts(Family::EffectInflight) => Self::ExtendClaims,
            () if written.puts(Family::EffectRetry) => Self::RetryEffect,
            () if written.removes(Family::TimerDue) => Self::FireTimers,
            () if written.puts(Family::InboxEntry) => Self::Enqueue,
            () if written.puts(Family::InboxCompaction) || written.removes(Family::InboxEntry) => Self::CompactInbox,
            () if written.puts(Family::Assignment) => Self::PlaceWorld,
            () if written.puts(Family::Worker) || written.removes(Family::Worker) => Self::Heartbeat,
            () if written.puts(Family::Mailbox) && written.adds(Family::MailboxNotify) => Self::SendMail,
            () if written.removes(Family::Mailbox) => Self::FinishMail,
            () if written.puts(Family::MailAttempt) => Self::ClaimMail,
            () if written.removes(Family::Ready) => Self::SettleWorld,
            () if written.puts(Family::CasMeta) => Self::CasPut,
            () => return None,
        })
    }
}

//! Which objects a record or an inbox item refers to.
//!
//! Every match is exhaustive: a new kind of record does not compile until someone has said what it refers to.

use mundi_model::{
    Hash,
    record::{Body, Custom, InboxItem, Ingress, Input, Intent, Payload, Record, ReplyOutcome, SnapshotNote},
};

/// Calls `each` with every hash that a record refers to.
pub fn refs_of_record(record: &Record, each: &mut impl FnMut(Hash)) {
    match &record.body {
        Body::Genesis(genesis) => each(genesis.manifest),
        Body::ForkGenesis(fork) => {
            each(fork.parent_snapshot);
            each(fork.snapshot);
        }
        Body::Ingress(Ingress { stamps, seq: _, item }) => {
            each(stamps.manifest);
            refs_of_item(item, each);
        }
        Body::Intent(Intent { hash: _, kind: _, params, label: _ }) => payload(params, each),
        Body::Reply(reply) => match &reply.outcome {
            ReplyOutcome::Ok(answer) => payload(answer, each),
            ReplyOutcome::Failed(_, _) => {}
        },
        Body::ManifestChange(change) => {
            each(change.from);
            each(change.to);
        }
        Body::Snapshot(note) | Body::BaselineSnapshot(note) => refs_of_note(note, each),
        Body::Custom(Custom { kind: _, payload: carried }) => payload(carried, each),
        Body::Cancel(_) | Body::Rejected(_) | Body::OutcomeDigest(_) | Body::StepFailed(_) => {}
    }
}

/// Calls `each` with every hash that an inbox item refers to.
pub fn refs_of_item(item: &InboxItem, each: &mut impl FnMut(Hash)) {
    match &item.input {
        Input::Event { schema: _, value, key: _ } => payload(value, each),
        Input::Receipt(receipt) => payload(&receipt.payload, each),
        Input::Message { inbox: _, payload: carried, headers: _ }
        | Input::TimerFired { timer: _, payload: carried }
        | Input::Control { command: _, payload: carried } => payload(carried, each),
    }
}

pub(crate) fn refs_of_note(note: &SnapshotNote, each: &mut impl FnMut(Hash)) {
    each(note.snapshot);
    each(note.manifest);
}

pub(crate) fn payload(payload: &Payload, each: &mut impl FnMut(Hash)) {
    match payload {
        Payload::Inline(_) => {}
        Payload::Blob(hash, _) => each(*hash),
    }
}

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
            fork.answers.into_iter().for_each(&mut *each);
        }
        Body::Ingress(Ingress { stamps, seq: _, item, event_hash: _ }) => {
            each(stamps.manifest);
            refs_of_item(item, each);
        }
        Body::Intent(Intent { hash: _, kind: _, params, label: _ }) => payload(params, each),
        Body::Reply(reply) => match &reply.outcome {
            ReplyOutcome::Ok(answer) => payload(answer, each),
            ReplyOutcome::Failed(..) => {}
        },
        Body::ManifestChange(change) => {
            each(change.from);
            each(change.to);
        }
        Body::Snapshot(note) | Body::BaselineSnapshot(note) => refs_of_note(note, each),
        Body::Custom(Custom { kind: _, payload: carried }) => payload(carried, each),
        Body::Cancel(_)
        | Body::Rejected(_)
        | Body::OutcomeDigest(_)
        | Body::StepFailed(_)
        | Body::RecordingEnded(_)
        | Body::Held(_) => {}
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

fn refs_of_note(note: &SnapshotNote, each: &mut impl FnMut(Hash)) {
    each(note.snapshot);
    each(note.manifest);
}

/// A payload that is carried along may name objects too, in an encoding that only its program knows.
fn payload(payload: &Payload, each: &mut impl FnMut(Hash)) {
    match payload {
        Payload::Inline(bytes) => hashes_in(bytes, each),
        Payload::Blob(hash, _) => each(*hash),
    }
}

/// The head of a byte string of 32 bytes in CBOR.
const CBOR_HEAD: [u8; 2] = [0x58, 0x20];
/// The prefix of a hash in its text form.
const TEXT_PREFIX: [u8; 2] = *b"h_";
const TEXT_BYTES: usize = 2 + 2 * Hash::LEN;

/// Calls `each` with whatever looks like a hash, in CBOR or as text. It may find some that are none, which keeps an
/// object for longer, but it misses none: so values of any family can be searched without knowing its types.
pub fn hashes_in(bytes: &[u8], each: &mut impl FnMut(Hash)) {
    for (at, head) in bytes.windows(2).enumerate() {
        let rest = &bytes[at..];
        if head == CBOR_HEAD
            && let Some(hash) = rest[2..].first_chunk::<{ Hash::LEN }>()
        {
            each(Hash::from_bytes(*hash));
        }
        if head == TEXT_PREFIX
            && let Some(text) = rest.get(..TEXT_BYTES).and_then(|text| std::str::from_utf8(text).ok())
            && let Ok(hash) = text.parse()
        {
            each(hash);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mundi_model::{Value, cbor};
    use proptest::prelude::*;

    fn found(bytes: &[u8]) -> Vec<Hash> {
        let mut hashes = Vec::new();
        hashes_in(bytes, &mut |hash| hashes.push(hash));
        hashes
    }

    proptest! {
        #[test]
        fn a_hash_is_found_in_cbor_and_in_text_wherever_it_stands(hash: [u8; 32], before: String, after: Vec<u8>) {
            let hash = Hash::from_bytes(hash);
            let value = [
                Value::Text(before.clone()), Value::Bytes(hash.as_bytes().to_vec()), Value::Bytes(after)
            ];
            prop_assert!(found(&cbor::encode(&Value::Array(value.into()))).contains(&hash));
            let text = format!("{before}{hash}{before}");
            prop_assert!(found(text.as_bytes()).contains(&hash));
        }

        #[test]
        fn any_bytes_can_be_searched(bytes: Vec<u8>) {
            prop_assert!(found(&bytes).len() <= bytes.len());
        }
    }
}

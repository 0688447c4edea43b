//! Signed receipts.
//!
//! An adapter, or a worker outside, may sign its receipts with Ed25519. What is signed is a [`Statement`]: canonical CBOR of eight
//! texts, so that any language can make it. A universe's configuration holds the public keys by the name of the adapter. A
//! receipt in the name of an adapter that has a key must carry a signature of it; so must every receipt of a kind for which the
//! world's manifest asks for one. Where neither is so, receipts are not signed.
//!
//! Receipts of the runtime itself (a timeout, a spent budget, an operator's answer) are in its own name, and are not signed.

use mundi_model::{
    Code, Hash, IntentHash, UniverseId, WorldId, cbor,
    record::{Payload, ReceiptStatus},
};
use mundi_store::protocol::{Failure, Repeat};
use ring::signature::{ED25519, UnparsedPublicKey};
use std::collections::BTreeMap;

/// The bytes of an Ed25519 public key.
pub const PUBLIC_KEY_LEN: usize = 32;

/// The content of a signature.
#[derive(Debug, Clone, Copy)]
pub struct Statement<'a> {
    pub universe: UniverseId,
    pub world: WorldId,
    pub intent: IntentHash,
    pub kind: &'a str,
    pub status: ReceiptStatus,
    /// Of the canonical CBOR of the receipt's payload; for a failed attempt, of its reason as a text.
    pub payload: Hash,
    pub adapter: &'a str,
}

impl Statement<'_> {
    /// The bytes that are signed: an array of eight texts.
    pub fn to_bytes(&self) -> Vec<u8> {
        let status = match self.status {
            ReceiptStatus::Ok => "ok",
            ReceiptStatus::Error => "error",
            ReceiptStatus::Timeout => "timeout",
        };
        let (universe, world) = (self.universe.to_string(), self.world.to_string());
        let (intent, payload) = (self.intent.to_string(), self.payload.to_string());
        cbor::encode(&("mundi.receipt.1", universe, world, intent, self.kind, status, payload, self.adapter))
    }
}

/// The hash of a receipt's payload, as it is signed.
pub fn payload_hash(payload: &Payload) -> Hash {
    match payload {
        Payload::Inline(bytes) => Hash::of(bytes),
        Payload::Blob(hash, _) => *hash,
    }
}

/// The hash that stands for the payload of a failed attempt, whose receipt the runtime writes: of its reason as a text.
pub fn reason_hash(reason: &str) -> Hash {
    Hash::of(&cbor::encode(&reason))
}

/// The public keys of a universe, by adapter.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AdapterKeys(BTreeMap<String, [u8; PUBLIC_KEY_LEN]>);

impl AdapterKeys {
    pub fn new(keys: impl IntoIterator<Item = (String, [u8; PUBLIC_KEY_LEN])>) -> Self {
        Self(keys.into_iter().collect())
    }

    /// Whether a receipt may be taken: `is_required` says that the manifest asks for a signature.
    pub fn check(&self, statement: &Statement<'_>, signature: Option<&[u8]>, is_required: bool) -> Result<(), Failure> {
        let adapter = statement.adapter;
        let refused = |code, reason| Err(Failure { code, reason, repeat: Repeat::Never });
        match (self.0.get(adapter), signature) {
            (None, None) if !is_required => Ok(()),
            (_, None) => refused(Code::SignatureMissing, format!("receipts of `{adapter}` must be signed here")),
            (None, Some(_)) => {
                refused(Code::SignatureInvalid, format!("no key is set for `{adapter}` in this universe"))
            }
            (Some(key), Some(signature)) => {
                match UnparsedPublicKey::new(&ED25519, key).verify(&statement.to_bytes(), signature) {
                    Ok(()) => Ok(()),
                    Err(_) => refused(
                        Code::SignatureInvalid,
                        format!("the signature is not that of the key of `{adapter}` over this receipt"),
                    ),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ring::signature::{Ed25519KeyPair, KeyPair};

    fn keys(seed: u8) -> (Ed25519KeyPair, AdapterKeys) {
        let pair = Ed25519KeyPair::from_seed_unchecked(&[seed; 32]).unwrap();
        let public = pair.public_key().as_ref().try_into().unwrap();
        (pair, AdapterKeys::new([("mail".to_owned(), public)]))
    }

    fn statement(adapter: &str) -> Statement<'_> {
        Statement {
            universe: UniverseId::from_bytes([1; 16]),
            world: WorldId::from_bytes([2; 16]),
            intent: IntentHash::from_bytes([3; 32]),
            kind: "external.task",
            status: ReceiptStatus::Ok,
            payload: Hash::of(b"payload"),
            adapter,
        }
    }

    fn code(checked: Result<(), Failure>) -> Option<Code> {
        checked.err().map(|failure| failure.code)
    }

    #[test]
    fn a_receipt_with_the_signature_of_its_adapter_is_taken_and_no_other_where_a_key_is_set() {
        let (pair, keys) = keys(7);
        let signature = pair.sign(&statement("mail").to_bytes());
        assert_eq!(code(keys.check(&statement("mail"), Some(signature.as_ref()), false)), None);
        assert_eq!(code(keys.check(&statement("mail"), None, false)), Some(Code::SignatureMissing));
        let (other, _) = self::keys(8);
        let wrong = other.sign(&statement("mail").to_bytes());
        assert_eq!(code(keys.check(&statement("mail"), Some(wrong.as_ref()), false)), Some(Code::SignatureInvalid));
        assert_eq!(code(keys.check(&statement("mail"), Some(b""), false)), Some(Code::SignatureInvalid));
    }

    #[test]
    fn every_field_is_signed() {
        let (pair, keys) = keys(7);
        let signed = statement("mail");
        let signature = pair.sign(&signed.to_bytes());
        let others = [
            Statement { universe: UniverseId::from_bytes([9; 16]), ..signed },
            Statement { world: WorldId::from_bytes([9; 16]), ..signed },
            Statement { intent: IntentHash::from_bytes([9; 32]), ..signed },
            Statement { kind: "other", ..signed },
            Statement { status: ReceiptStatus::Error, ..signed },
            Statement { payload: Hash::of(b"other"), ..signed },
        ];
        for other in others {
            assert_eq!(code(keys.check(&other, Some(signature.as_ref()), false)), Some(Code::SignatureInvalid));
        }
    }

    #[test]
    fn without_a_key_nothing_is_asked_for_unless_the_manifest_asks() {
        let none = AdapterKeys::default();
        assert_eq!(code(none.check(&statement("mail"), None, false)), None);
        assert_eq!(code(none.check(&statement("mail"), None, true)), Some(Code::SignatureMissing));
        assert_eq!(code(none.check(&statement("mail"), Some(&[0; 64]), true)), Some(Code::SignatureInvalid));
        assert_eq!(code(none.check(&statement("mail"), Some(&[0; 64]), false)), Some(Code::SignatureInvalid));
    }

    #[test]
    fn the_signed_bytes_can_be_written_by_hand() {
        let bytes = statement("mail").to_bytes();
        assert_eq!(bytes[..17], *b"\x88\x6fmundi.receipt.1");
        assert!(bytes.ends_with(b"\x64mail"));
    }
}

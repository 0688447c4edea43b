//! A part of an export: keys and values in order, and a checksum over all of it.

use super::{Items, TransferError};
use bytes::{BufMut, Bytes};
use mundi_model::Hash;

pub(super) fn encode(items: &Items) -> Bytes {
    let mut out = Vec::new();
    for (key, value) in items {
        for bytes in [key, value] {
            // A key and a value have at most a hundred thousand bytes.
            out.put_u32(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
            out.put_slice(bytes);
        }
    }
    let checksum = Hash::of(&out);
    out.put_slice(checksum.as_bytes());
    out.into()
}

pub(super) fn decode(number: u64, bytes: &Bytes) -> Result<Items, TransferError> {
    let damaged = || TransferError::Invalid(format!("part {number} is damaged"));
    let end = bytes.len().checked_sub(Hash::of(b"").as_bytes().len()).ok_or_else(damaged)?;
    let mut content = bytes.slice(..end);
    if Hash::of(&content).as_bytes()[..] != bytes[end..] {
        return Err(damaged());
    }
    let mut items = Items::new();
    while !content.is_empty() {
        let (key, value) = (take(&mut content).ok_or_else(damaged)?, take(&mut content).ok_or_else(damaged)?);
        items.push((key, value));
    }
    Ok(items)
}

fn take(content: &mut Bytes) -> Option<Bytes> {
    let len = content.get(..4)?.try_into().map(u32::from_be_bytes).ok()?;
    let end = 4 + usize::try_from(len).ok()?;
    let taken = (end <= content.len()).then(|| content.slice(4..end))?;
    *content = content.slice(end..);
    Some(taken)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn items_come_back_and_a_flipped_bit_is_noticed(
            items in prop::collection::vec((prop::collection::vec(any::<u8>(), 1..20), prop::collection::vec(any::<u8>(), 0..60)), 0..20),
            flipped in any::<prop::sample::Index>(),
        ) {
            let items: Items = items.into_iter().map(|(key, value)| (key.into(), value.into())).collect();
            let part = encode(&items);
            prop_assert_eq!(decode(0, &part).unwrap(), items);
            let mut damaged = part.to_vec();
            damaged[flipped.index(part.len())] ^= 1;
            prop_assert!(decode(0, &damaged.into()).is_err());
        }
    }
}

//! A stream of pieces of any size, cut into parts of one size and hashed on the way.

use super::BlobError;
use bytes::{Bytes, BytesMut};
use futures_util::{Stream, StreamExt};
use mundi_model::{Hash, Hasher, limits};

/// The parts of a source.
///
/// Pieces are copied into a buffer: kept as they came, many small ones would cost more than their bytes, and one
/// slice of a large buffer would keep all of it alive.
pub(super) struct Parts<S> {
    source: S,
    /// The end of the last piece, which did not fit the part before.
    rest: Bytes,
    hasher: Hasher,
    size: u64,
    ended: bool,
}

impl<S> Parts<S> {
    pub(super) fn new(source: S) -> Self {
        Self { source, rest: Bytes::new(), hasher: Hasher::new(), size: 0, ended: false }
    }

    /// Whether the last part was given.
    pub(super) fn ended(&self) -> bool {
        self.ended
    }

    /// Hash and size of all parts.
    pub(super) fn finish(self) -> (Hash, u64) {
        (self.hasher.finish(), self.size)
    }
}

impl<S, X> Parts<S>
where
    S: Stream<Item = Result<Bytes, X>> + Unpin,
    X: std::fmt::Display,
{
    /// The next part: full, unless the source ended.
    pub(super) async fn next(&mut self) -> Result<Bytes, BlobError> {
        let mut part = BytesMut::new();
        while part.len() < limits::BLOB_PART_BYTES && !self.ended {
            if self.rest.is_empty() {
                self.refill().await?;
                continue;
            }
            let room = limits::BLOB_PART_BYTES - part.len();
            let piece = self.rest.split_to(room.min(self.rest.len()));
            if part.is_empty() && piece.len() < limits::BLOB_PART_BYTES {
                part.reserve(self.reserve_for(&piece));
            }
            part.extend_from_slice(&piece);
        }
        // A source that ended exactly with the part is seen to have ended, so that no empty part follows.
        while self.rest.is_empty() && !self.ended {
            self.refill().await?;
        }
        self.hasher.update(&part);
        self.size += part.len() as u64;
        let size = self.size + self.rest.len() as u64;
        if size > limits::BLOB_BYTES_MAX {
            return Err(BlobError::TooLarge { size, max: limits::BLOB_BYTES_MAX });
        }
        Ok(part.freeze())
    }

    /// The whole part at once for all but the first, which may belong to a small object.
    fn reserve_for(&self, piece: &Bytes) -> usize {
        if self.size == 0 { piece.len() } else { limits::BLOB_PART_BYTES }
    }

    async fn refill(&mut self) -> Result<(), BlobError> {
        match self.source.next().await {
            Some(Ok(piece)) => self.rest = piece,
            Some(Err(cause)) => {
                return Err(BlobError::SourceFailed { read_bytes: self.size, cause: cause.to_string() });
            }
            None => self.ended = true,
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::stream;
    use std::convert::Infallible;

    fn cut(pieces: &[usize]) -> (Vec<usize>, u64) {
        pollster::block_on(async {
            let source = stream::iter(pieces.iter().map(|len| Ok::<_, Infallible>(Bytes::from(vec![7; *len]))));
            let mut parts = Parts::new(source);
            let mut lens = Vec::new();
            while !parts.ended() {
                lens.push(parts.next().await.unwrap().len());
            }
            let total = pieces.iter().sum::<usize>();
            let (hash, size) = parts.finish();
            assert_eq!(hash, Hash::of(&vec![7; total]));
            (lens, size)
        })
    }

    #[test]
    fn parts_are_full_but_for_the_last_and_none_is_empty_but_the_only_one() {
        const PART: usize = limits::BLOB_PART_BYTES;
        assert_eq!(cut(&[]).0, [0]);
        assert_eq!(cut(&[0, 0]).0, [0]);
        assert_eq!(cut(&[3, 0, 4]).0, [7]);
        assert_eq!(cut(&[PART]).0, [PART]);
        assert_eq!(cut(&[PART - 1, 2]).0, [PART, 1]);
        assert_eq!(cut(&[2 * PART + 5]), (vec![PART, PART, 5], 2 * PART as u64 + 5));
    }
}

//! A scan: the tree's cells and those written since, merged in key order.

use super::{node::Stored, reader::Reader, walk::Range};
use crate::objects::LoadError;
use mundi_model::{Hash, limits};
use std::{cmp::Ordering, collections::btree_map, iter::Peekable};

/// One cell of a scan.
pub type Entry = (String, Vec<u8>);

pub(super) struct Scan<'a, W: Iterator<Item = Written<'a>>> {
    pub(super) reader: Reader<'a>,
    pub(super) stored: Range<'a>,
    pub(super) written: Peekable<W>,
}

/// A cell of the overlay; no value is a deleted cell.
pub(super) type Written<'a> = <btree_map::Range<'a, String, Option<Vec<u8>>> as Iterator>::Item;

impl<'a, W: Iterator<Item = Written<'a>>> Scan<'a, W> {
    pub(super) fn collect(mut self, items_max: usize) -> Result<Vec<Entry>, LoadError> {
        let (mut found, mut bytes) = (Vec::new(), 0);
        let mut stored = self.stored.next()?;
        while found.len() < items_max && bytes < limits::SCAN_BYTES_MAX {
            let order = match (&stored, self.written.peek()) {
                (None, None) => break,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some((stored, _)), Some((written, _))) => stored.as_slice().cmp(written.as_bytes()),
            };
            let cell = match order {
                Ordering::Less => stored.take().map(|cell| self.read(cell)).transpose()?,
                // What was written hides what is stored, also when it is the cell's end.
                Ordering::Equal | Ordering::Greater => {
                    self.written.next().and_then(|(key, value)| Some((key.clone(), value.clone()?)))
                }
            };
            if order.is_le() {
                stored = self.stored.next()?;
            }
            bytes += cell.as_ref().map_or(0, |(key, value)| key.len() + value.len());
            found.extend(cell);
        }
        Ok(found)
    }

    fn read(&self, (key, value): (Vec<u8>, Stored)) -> Result<Entry, LoadError> {
        let not_text = |error: std::string::FromUtf8Error| {
            LoadError::corrupt(Hash::of(error.as_bytes()), "the key of a cell, whose hash this is, is not text")
        };
        Ok((String::from_utf8(key).map_err(not_text)?, self.reader.value(&value)?))
    }
}

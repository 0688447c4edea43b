//! The difference of two trees, found by opening only the subtrees that differ.

use super::{
    node::Stored,
    walk::{Item, Walk},
};
use crate::objects::LoadError;
use std::cmp::Ordering;

/// A cell that is not the same in two trees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    pub key: String,
    pub left: Option<Stored>,
    pub right: Option<Stored>,
}

/// The differing cells of two trees, in key order.
pub struct Diff<'a> {
    left: Walk<'a>,
    right: Walk<'a>,
    after: Option<Vec<u8>>,
}

impl<'a> Diff<'a> {
    pub(super) fn new(left: Walk<'a>, right: Walk<'a>) -> Self {
        Self { left, right, after: None }
    }

    /// Only those after a key. Subtrees before it are not opened.
    #[must_use]
    pub fn after(self, key: Option<&str>) -> Self {
        Self { after: key.map(|key| key.as_bytes().to_vec()), ..self }
    }

    fn step(&mut self) -> Result<Option<Difference>, LoadError> {
        loop {
            if let Some(after) = &self.after
                && (skip_before(&mut self.left, after) || skip_before(&mut self.right, after))
            {
                continue;
            }
            match (self.left.peek(), self.right.peek()) {
                (None, None) => return Ok(None),
                (Some(left), Some(right)) if left == right => {
                    // The same cell, or subtrees of one path and one hash: equal whatever is inside.
                    self.left.skip();
                    self.right.skip();
                }
                (left, right) => {
                    if let Some(difference) = match turn(left, right) {
                        Turn::OpenLeft => self.left.open().map(|()| None)?,
                        Turn::OpenRight => self.right.open().map(|()| None)?,
                        Turn::TakeLeft => difference(self.left.skip(), None),
                        Turn::TakeRight => difference(None, self.right.skip()),
                        Turn::TakeBoth => difference(self.left.skip(), self.right.skip()),
                    } {
                        return Ok(Some(difference));
                    }
                }
            }
        }
    }
}

impl Iterator for Diff<'_> {
    type Item = Result<Difference, LoadError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step().transpose()
    }
}

/// Passes over the next item if no key in it comes after this one.
fn skip_before(walk: &mut Walk<'_>, after: &[u8]) -> bool {
    let is_before = match walk.peek() {
        None => false,
        Some(Item::Cell { key, .. }) => key.as_slice() <= after,
        Some(Item::Subtree { path, .. }) => path.as_slice() < &after[..path.len().min(after.len())],
    };
    is_before && walk.skip().is_some()
}

enum Turn {
    OpenLeft,
    OpenRight,
    TakeLeft,
    TakeRight,
    TakeBoth,
}

/// Decides about two next items that are not equal. The outer of two subtrees is opened first, so that
/// the inner one still meets its equal; a cell is taken when nothing before it can come any more.
fn turn(left: Option<&Item>, right: Option<&Item>) -> Turn {
    match (left, right) {
        (Some(Item::Cell { key: left, .. }), Some(Item::Cell { key: right, .. })) => match left.cmp(right) {
            Ordering::Less => Turn::TakeLeft,
            Ordering::Equal => Turn::TakeBoth,
            Ordering::Greater => Turn::TakeRight,
        },
        (Some(Item::Subtree { path, .. }), Some(other)) if path.as_slice() <= other.path() => Turn::OpenLeft,
        (Some(other), Some(Item::Subtree { path, .. })) if path.as_slice() <= other.path() => Turn::OpenRight,
        (Some(Item::Cell { .. }), _) => Turn::TakeLeft,
        (_, Some(Item::Cell { .. })) => Turn::TakeRight,
        (Some(Item::Subtree { .. }), _) => Turn::OpenLeft,
        _ => Turn::OpenRight,
    }
}

fn difference(left: Option<Item>, right: Option<Item>) -> Option<Difference> {
    let value = |item| match item {
        Some(Item::Cell { value, .. }) => Some(value),
        _ => None,
    };
    let key = left.as_ref().or(right.as_ref()).map(Item::path)?;
    let key = String::from_utf8_lossy(key).into_owned();
    Some(Difference { key, left: value(left), right: value(right) })
}

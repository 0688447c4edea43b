//! The ordinals are in every data folder in the world: a change here is a change of the format.

use super::Family;
use std::collections::BTreeSet;

#[test]
fn ordinals_are_pinned() {
    let ordinals: Vec<u8> = Family::ALL.iter().map(|family| *family as u8).collect();
    assert_eq!(
        ordinals,
        [
            0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x10, 0x11, 0x12, 0x13, 0x18, 0x19, 0x1a, 0x1c, 0x1d, 0x1e, 0x20, 0x21,
            0x22, 0x23, 0x24, 0x28, 0x7f, 0x80, 0x81, 0x82, 0x83, 0x84, 0x85, 0x86, 0x87, 0x88, 0x89, 0x8a, 0x8b, 0x8c,
            0x90, 0x91, 0x98,
        ]
    );
}

#[test]
fn no_two_families_share_a_name() {
    let names: BTreeSet<_> = Family::ALL.iter().map(|family| family.as_str()).collect();
    assert_eq!(names.len(), Family::ALL.len());
}

//! `u/<u>/programs/names/<name>`: the programs of a universe that have a name, and which version is given next.
//!
//! Written by `name_program` with each new version, and by `unname_program`; removed with the last version. That it counts
//! the versions makes their bound one read, and that it knows the highest number keeps a deleted one from being given again. Free.

use crate::StoreError;
use crate::keyspace::{Family, by_name::by_name};
use minicbor::{Decode, Encode};
use mundi_engine::Transaction;
use mundi_model::UniverseId;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct ProgramName {
    /// How many versions there are.
    #[n(0)]
    pub versions: u32,
    /// The highest number that was ever given under this name.
    #[n(1)]
    pub highest: u32,
}

by_name!(Family::ProgramName, ProgramName);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::laws;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn keys_sort_by_name(a in "[a-z0-9-]{1,16}", b in "[a-z0-9-]{1,16}") {
            laws::keys_sort_by_name(key, parse, &a, &b)?;
        }

        #[test]
        fn the_value_survives(versions: u32, highest: u32, noise: Vec<u8>) {
            laws::value_survives(Family::ProgramName, &ProgramName { versions, highest }, &noise)?;
        }
    }
}

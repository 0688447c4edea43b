//! Programs and their names.

pub mod program_name;
pub mod program_of_manifest;
pub mod program_version;
pub mod registered;

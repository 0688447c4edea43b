//! Programs and their names.

pub(in crate::protocol) mod name_program;
pub(in crate::protocol) mod program_error;
pub(in crate::protocol) mod register;

pub use name_program::{
    FindProgram, ListPrograms, ListVersions, NameProgram, NamedVersion, NamesOfManifests, ProgramNamed, UnnameProgram,
};
pub use program_error::ProgramError;
pub use register::{IsRegistered, Register};

//! Universes, their names, tokens and quotas.

pub mod quotas;
pub mod schema_version;
pub mod token;
pub mod token_usage;
pub mod universe_import;
pub mod universe_meta;
pub mod universe_name;

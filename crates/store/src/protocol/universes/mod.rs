//! Universes, their names, tokens and quotas.

pub(in crate::protocol) mod create_universe;
pub(in crate::protocol) mod guard_schema;
pub(in crate::protocol) mod name_universe;
pub(in crate::protocol) mod quotas;
pub(in crate::protocol) mod tokens;

pub use create_universe::CreateUniverse;
pub use guard_schema::{GuardSchema, SchemaGuarded};
pub use name_universe::{ListUniverses, NameUniverse, UniverseNamed};
pub use quotas::{ChargeToken, Charged, ReadQuotas, SetTokenQuotas, WriteQuotas};
pub use tokens::{ListTokens, WriteToken};

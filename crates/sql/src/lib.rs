//! Read-only SQL over tables that somebody else fills, by SQLite's virtual tables.
//!
//! SQLite parses, plans, joins, sorts and groups; rows come from a [`Source`], one after another, so a query takes as much memory as its sorting and grouping
//! needs. Equality and ranges that a table declares are handed to the source, and `EXPLAIN QUERY PLAN` shows which.
//!
//! This crate must never know a world, an engine or an async runtime: the tables, and where their rows come from, are given.

mod error;
mod query;
mod table;
mod vtab;

pub use error::SqlError;
pub use query::{Bounds, Flow, IsLate, run};
pub use table::{Column, Columns, Condition, Op, Row, Rows, Source, Table};

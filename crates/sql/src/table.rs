//! Tables, and where their rows come from.

use crate::SqlError;
use serde_json::{Map, Value};

/// A row: values by the names of their columns. What is missing is NULL; arrays and objects become JSON text.
pub type Row = Map<String, Value>;

/// A table that a query can read.
#[derive(Debug)]
pub struct Table {
    pub name: &'static str,
    /// One sentence for people.
    pub about: &'static str,
    pub columns: &'static [Column],
}

#[derive(Debug)]
pub struct Column {
    pub name: &'static str,
    /// `TEXT`, `INTEGER` or `JSON`.
    pub kind: &'static str,
    pub about: &'static str,
    /// Which conditions on it the source answers by its keys.
    pub pushed: &'static [Op],
    /// An argument: `cells('alice', 42)` gives the first hidden columns these values. No row has one of its own.
    pub hidden: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    Eq,
    Gt,
    Ge,
    Lt,
    Le,
}

impl Op {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Eq => "=",
            Self::Gt => ">",
            Self::Ge => ">=",
            Self::Lt => "<",
            Self::Le => "<=",
        }
    }
}

/// A condition that a query puts on a column, and that the source was handed.
#[derive(Debug, Clone, PartialEq)]
pub struct Condition {
    pub column: &'static str,
    pub op: Op,
    pub value: Value,
}

/// What fills the tables. A source may give more rows than the conditions ask for: SQLite checks them again, but for hidden columns.
pub trait Source: Send + Sync + 'static {
    fn open(&self, table: &'static Table, conditions: Vec<Condition>) -> Result<Box<dyn Rows>, SqlError>;
}

/// The rows of one reading of a table. Called on a thread that may wait.
pub trait Rows: Send {
    fn next(&mut self) -> Result<Option<Row>, SqlError>;
}

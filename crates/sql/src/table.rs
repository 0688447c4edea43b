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

#[derive(Debug, Clone, Copy)]
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

/// The columns that a query reads, one bit each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Columns(i32);

/// Columns that have a bit of their own: those behind them are always read.
const COLUMNS_WITH_BITS: u32 = 31;

impl Columns {
    /// Out of the mask of SQLite.
    pub(crate) fn of_used(mask: u64) -> Self {
        let bits = mask & ((1 << COLUMNS_WITH_BITS) - 1);
        Self(i32::try_from(bits).unwrap_or(i32::MAX))
    }

    pub(crate) const fn of_bits(bits: i32) -> Self {
        Self(bits)
    }

    pub(crate) const fn bits(self) -> i32 {
        self.0
    }

    /// Whether a query reads this column. What it does not read, a source need not compute.
    pub fn has(self, table: &Table, column: &str) -> bool {
        let at = table.columns.iter().position(|found| found.name == column).and_then(|at| u32::try_from(at).ok());
        at.is_some_and(|at| at >= COLUMNS_WITH_BITS || self.0 & (1 << at) != 0)
    }
}

/// Fills the tables. A source may give more rows than the conditions ask for: SQLite checks them again, but for hidden columns.
pub trait Source: Send + Sync + 'static {
    fn open(
        &self,
        table: &'static Table,
        conditions: Vec<Condition>,
        columns: Columns,
    ) -> Result<Box<dyn Rows>, SqlError>;
}

/// The rows of one reading of a table. Called on a thread that may wait.
pub trait Rows: Send {
    fn next(&mut self) -> Result<Option<Row>, SqlError>;
}

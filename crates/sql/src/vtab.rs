//! A table of ours as a virtual table of SQLite.

use crate::{Columns, Condition, Op, Row, Rows, Source, SqlError, Table};
use rusqlite::{
    Connection, Error, ffi,
    types::{Null, ValueRef},
    vtab::{Context, Filters, IndexConstraintOp, IndexInfo, Module, VTab, VTabConfig, VTabConnection, VTabCursor},
};
use serde_json::Value;
use std::{
    borrow::Cow,
    ffi::{CStr, CString, c_int},
    marker::PhantomData,
    sync::{Arc, Mutex, PoisonError},
};

/// The cost of a table that is read whole, beside one that conditions narrow down: large enough that a join begins with the other one.
const WHOLE_COST: f64 = 1_000_000.0;

/// The first error of a source in a query: SQLite passes on only its text.
pub(crate) type Failure = Arc<Mutex<Option<SqlError>>>;

/// The columns and the rows of one virtual table.
#[derive(Clone)]
pub(crate) struct Given {
    pub(crate) table: &'static Table,
    pub(crate) source: Arc<dyn Source>,
    pub(crate) failure: Failure,
}

impl Given {
    fn failed(&self, error: SqlError) -> Error {
        let text = error.to_string();
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        Error::ModuleError(text)
    }
}

/// Makes a table known to a connection, under its own name.
pub(crate) fn register(connection: &Connection, given: Given) -> rusqlite::Result<()> {
    const MODULE: Module<'static, Reading> = Module::eponymous_only_module();
    connection.create_module(given.table.name, &MODULE, Some(given))
}

#[repr(C)]
struct Reading {
    /// SQLite's own part stands first.
    base: ffi::sqlite3_vtab,
    given: Given,
}

fn declaration(table: &Table) -> rusqlite::Result<CString> {
    let column = |column: &crate::Column| {
        let hidden = if column.hidden { " HIDDEN" } else { "" };
        format!("\"{}\" {}{hidden}", column.name, column.kind)
    };
    let columns: Vec<String> = table.columns.iter().map(column).collect();
    CString::new(format!("CREATE TABLE x({})", columns.join(", ")))
        .map_err(|error| Error::ModuleError(error.to_string()))
}

fn op_of(operator: &IndexConstraintOp) -> Option<Op> {
    Some(match operator {
        IndexConstraintOp::SQLITE_INDEX_CONSTRAINT_EQ => Op::Eq,
        IndexConstraintOp::SQLITE_INDEX_CONSTRAINT_GT => Op::Gt,
        IndexConstraintOp::SQLITE_INDEX_CONSTRAINT_GE => Op::Ge,
        IndexConstraintOp::SQLITE_INDEX_CONSTRAINT_LT => Op::Lt,
        IndexConstraintOp::SQLITE_INDEX_CONSTRAINT_LE => Op::Le,
        _ => return None,
    })
}

#[expect(unsafe_code, reason = "SQLite casts between its own part of the struct and the whole")]
// SAFETY: `Reading` is `repr(C)` and begins with `sqlite3_vtab`, which is what the trait asks for.
unsafe impl<'vtab> VTab<'vtab> for Reading {
    type Aux = Given;
    type Cursor = Cursor<'vtab>;

    fn connect(
        db: &mut VTabConnection,
        aux: Option<&Given>,
        _module: &[u8],
        _database: &[u8],
        _table: &[u8],
        _arguments: &[&[u8]],
    ) -> rusqlite::Result<(Cow<'static, CStr>, Self)> {
        let given = aux.cloned().ok_or_else(|| Error::ModuleError("a table without a source".to_owned()))?;
        db.config(VTabConfig::DirectOnly)?;
        Ok((Cow::Owned(declaration(given.table)?), Self { base: ffi::sqlite3_vtab::default(), given }))
    }

    /// Takes every condition that the table declares, if it compares texts byte by byte, as keys do. Its plan, as `EXPLAIN QUERY PLAN` shows it, is the
    /// list of them, and the number before it says which columns are read.
    fn best_index(&self, info: &mut IndexInfo) -> rusqlite::Result<bool> {
        let columns = self.given.table.columns;
        let (mut plan, mut taken, mut cost) = (Vec::new(), 0, WHOLE_COST);
        let are_bytes =
            (0..info.constraints().count()).map(|at| Ok(info.collation(at)?.eq_ignore_ascii_case("BINARY")));
        let are_bytes = are_bytes.collect::<rusqlite::Result<Vec<bool>>>()?;
        for ((constraint, mut usage), is_bytes) in info.constraints_and_usages().zip(are_bytes) {
            let column = usize::try_from(constraint.column()).ok().and_then(|at| Some((at, columns.get(at)?)));
            let (Some((at, column)), Some(op)) = (column, op_of(&constraint.operator())) else { continue };
            // An argument is no text of a row: it is taken as it is.
            if !column.pushed.contains(&op) || (!is_bytes && !column.hidden) {
                continue;
            }
            if !constraint.is_usable() {
                // An argument that another table gives: this order of the join would not know it.
                if column.hidden {
                    return Ok(false);
                }
                continue;
            }
            taken += 1;
            usage.set_argv_index(taken);
            usage.set_omit(column.hidden);
            plan.push(format!("{at}{}", op.as_str()));
            cost /= if op == Op::Eq { 1_000.0 } else { 10.0 };
        }
        info.set_estimated_cost(cost.max(1.0));
        info.set_idx_num(Columns::of_used(info.col_used()).bits());
        let named = plan.iter().map(|step| {
            let digits = step.bytes().take_while(u8::is_ascii_digit).count();
            let (at, op) = step.split_at(digits);
            let name = at.parse::<usize>().ok().and_then(|at| columns.get(at)).map_or("", |column| column.name);
            format!("{name}{op}")
        });
        info.set_idx_str(&named.collect::<Vec<_>>().join(" "));
        Ok(true)
    }

    fn open(&'vtab mut self) -> rusqlite::Result<Cursor<'vtab>> {
        Ok(Cursor {
            base: ffi::sqlite3_vtab_cursor::default(),
            given: self.given.clone(),
            rows: None,
            row: None,
            conditions: Vec::new(),
            number: 0,
            phantom: PhantomData,
        })
    }
}

#[repr(C)]
struct Cursor<'vtab> {
    /// SQLite's own part stands first.
    base: ffi::sqlite3_vtab_cursor,
    given: Given,
    rows: Option<Box<dyn Rows>>,
    row: Option<Row>,
    conditions: Vec<Condition>,
    number: i64,
    phantom: PhantomData<&'vtab Reading>,
}

/// A condition, out of its text in the plan.
fn condition(table: &'static Table, step: &str, value: Value) -> Option<Condition> {
    let end = step.find(['=', '<', '>'])?;
    let column = table.columns.iter().find(|column| column.name == &step[..end])?.name;
    let op = [Op::Eq, Op::Gt, Op::Ge, Op::Lt, Op::Le].into_iter().find(|op| op.as_str() == &step[end..])?;
    Some(Condition { column, op, value })
}

fn given_value(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null | ValueRef::Blob(_) => Value::Null,
        ValueRef::Integer(number) => number.into(),
        ValueRef::Real(number) => number.into(),
        ValueRef::Text(text) => String::from_utf8_lossy(text).into_owned().into(),
    }
}

#[expect(unsafe_code, reason = "SQLite casts between its own part of the struct and the whole")]
// SAFETY: `Cursor` is `repr(C)` and begins with `sqlite3_vtab_cursor`, which is what the trait asks for.
unsafe impl VTabCursor for Cursor<'_> {
    fn filter(&mut self, columns: c_int, plan: Option<&str>, arguments: &Filters<'_>) -> rusqlite::Result<()> {
        let steps = plan.unwrap_or_default().split(' ').filter(|step| !step.is_empty());
        let values = arguments.iter().map(given_value);
        let table = self.given.table;
        self.conditions = steps.zip(values).filter_map(|(step, value)| condition(table, step, value)).collect();
        self.number = 0;
        // Nothing equals NULL.
        if self.conditions.iter().any(|condition| condition.value.is_null() && !is_argument(table, condition.column)) {
            (self.rows, self.row) = (None, None);
            return Ok(());
        }
        let opened = self.given.source.open(table, self.conditions.clone(), Columns::of_bits(columns));
        self.rows = Some(opened.map_err(|error| self.given.failed(error))?);
        self.next()
    }

    fn next(&mut self) -> rusqlite::Result<()> {
        self.number += 1;
        self.row = match &mut self.rows {
            Some(rows) => rows.next().map_err(|error| self.given.failed(error))?,
            None => None,
        };
        Ok(())
    }

    fn eof(&self) -> bool {
        self.row.is_none()
    }

    fn column(&self, context: &mut Context, at: c_int) -> rusqlite::Result<()> {
        let column = usize::try_from(at).ok().and_then(|at| self.given.table.columns.get(at));
        let Some(column) = column else { return context.set_result(Null) };
        let argument = self.conditions.iter().find(|condition| column.hidden && condition.column == column.name);
        let value = match argument {
            Some(argument) => Some(&argument.value),
            None => self.row.as_ref().and_then(|row| row.get(column.name)),
        };
        match value {
            None | Some(Value::Null) => context.set_result(Null),
            Some(Value::Bool(flag)) => context.set_result(*flag),
            Some(Value::String(text)) if column.kind == "JSON" => context.set_result(Value::from(&**text).to_string()),
            Some(Value::String(text)) => context.set_result(&**text),
            Some(Value::Number(number)) => match (number.as_i64(), number.as_f64()) {
                (Some(whole), _) => context.set_result(whole),
                // Beyond what SQLite counts with.
                (None, Some(real)) => context.set_result(real),
                (None, None) => context.set_result(number.to_string()),
            },
            Some(other) => context.set_result(other.to_string()),
        }
    }

    fn rowid(&self) -> rusqlite::Result<i64> {
        Ok(self.number)
    }
}

fn is_argument(table: &Table, name: &str) -> bool {
    table.columns.iter().any(|column| column.hidden && column.name == name)
}

use super::*;
use crate::{Column, Columns, Condition, Op, Row, Rows};
use serde_json::json;
use std::sync::{
    Mutex,
    atomic::{AtomicU64, Ordering},
};

const fn column(name: &'static str, kind: &'static str, pushed: &'static [Op], hidden: bool) -> Column {
    Column { name, kind, about: "", pushed, hidden }
}

static NUMBERS: Table = Table {
    name: "numbers",
    about: "",
    columns: &[
        column("n", "INTEGER", &[Op::Eq, Op::Ge, Op::Lt], false),
        column("word", "TEXT", &[Op::Eq], false),
        column("doc", "JSON", &[], false),
        column("of", "TEXT", &[Op::Eq], true),
    ],
};

/// Numbers from 0 up to a bound.
#[derive(Default)]
struct Numbers {
    end: i64,
    asked: Mutex<Vec<Vec<Condition>>>,
    columns: Mutex<Vec<Columns>>,
    made: Arc<AtomicU64>,
}

struct Counting(i64, i64, Arc<AtomicU64>);

impl Rows for Counting {
    fn next(&mut self) -> Result<Option<Row>, SqlError> {
        if self.0 >= self.1 {
            return Ok(None);
        }
        if self.0 == 666 {
            return Err(SqlError::Source { code: mundi_model::Code::WorldNotFound, detail: "gone".to_owned() });
        }
        let row = json!({ "n": self.0, "word": format!("w{}", self.0 % 3), "doc": { "twice": 2 * self.0 } });
        self.0 += 1;
        self.2.fetch_add(1, Ordering::Relaxed);
        Ok(row.as_object().cloned())
    }
}

impl Source for Numbers {
    fn open(&self, _: &'static Table, conditions: Vec<Condition>, columns: Columns) -> Result<Box<dyn Rows>, SqlError> {
        self.columns.lock().unwrap().push(columns);
        let (mut from, mut end) = (0, self.end);
        for condition in conditions.iter().filter(|condition| condition.column == "n") {
            let value = condition.value.as_i64().unwrap_or(0);
            match condition.op {
                Op::Eq => (from, end) = (value, end.min(value + 1)),
                Op::Ge => from = from.max(value),
                Op::Lt => end = end.min(value),
                Op::Gt | Op::Le => {}
            }
        }
        self.asked.lock().unwrap().push(conditions);
        Ok(Box::new(Counting(from, end, self.made.clone())))
    }
}

const BOUNDS: Bounds = Bounds { rows_max: 10_000, bytes_max: 1 << 20, time_ms_max: 50, memory_bytes_max: 256 << 20 };

/// Never late.
fn in_time() -> IsLate {
    Arc::new(|| false)
}

fn ask_of<S: Source>(source: Arc<S>, text: &str, bounds: Bounds) -> Result<Vec<Vec<Value>>, SqlError> {
    let source: Arc<dyn Source> = source;
    ask_within(&source, text, bounds, &in_time())
}

fn ask_within(
    source: &Arc<dyn Source>,
    text: &str,
    bounds: Bounds,
    is_late: &IsLate,
) -> Result<Vec<Vec<Value>>, SqlError> {
    let mut rows = Vec::new();
    let mut keep = |row| {
        rows.push(row);
        Flow::More
    };
    run(&[&NUMBERS], source, text, (bounds, is_late), &mut |_| Flow::More, &mut keep)?;
    Ok(rows)
}

fn ask(text: &str) -> Result<Vec<Vec<Value>>, SqlError> {
    ask_of(Arc::new(Numbers { end: 500, ..Numbers::default() }), text, BOUNDS)
}

#[test]
fn a_query_joins_groups_and_reads_json() {
    assert_eq!(ask("select word, count(*) from numbers group by 1 order by 1").unwrap()[0], [json!("w0"), json!(167)]);
    assert_eq!(ask("select doc ->> 'twice' from numbers where n = 4").unwrap(), [[json!(8)]]);
    let joined = "select a.n from numbers a join numbers b on b.n = a.n + 1 where a.n < 2";
    assert_eq!(ask(joined).unwrap(), [[json!(0)], [json!(1)]]);
}

#[test]
fn conditions_are_handed_to_the_source_and_shown_in_the_plan() {
    let source = Arc::new(Numbers { end: 500, ..Numbers::default() });
    ask_of(source.clone(), "select n from numbers('alice') where n >= 7 and n < 9 and word = 'w1'", BOUNDS).unwrap();
    assert_eq!(asked(&source), ["n<9", "n>=7", "of=\"alice\"", "word=\"w1\""]);
    assert_eq!(source.made.load(Ordering::Relaxed), 2, "no more rows than the keys give");
    let plan = ask("explain query plan select n from numbers where n >= 7").unwrap();
    assert!(plan[0][3].as_str().is_some_and(|step| step.contains("n>=")), "{plan:?}");
}

/// The conditions of the newest reading.
fn asked(source: &Numbers) -> Vec<String> {
    let asked = source.asked.lock().unwrap().pop().unwrap();
    let mut told: Vec<_> = asked.iter().map(|it| format!("{}{}{}", it.column, it.op.as_str(), it.value)).collect();
    told.sort();
    told
}

#[test]
fn a_condition_that_compares_texts_in_another_way_than_byte_by_byte_is_not_handed_to_the_source() {
    let source = Arc::new(Numbers { end: 9, ..Numbers::default() });
    for text in [
        "n, word from numbers where word = 'W1' collate nocase",
        "n, word from numbers where word = 'w1  ' collate rtrim",
    ] {
        let rows = ask_of(source.clone(), &format!("select {text}"), BOUNDS).unwrap();
        assert_eq!((rows.len(), asked(&source)), (3, Vec::<String>::new()), "{text}");
    }
    let rows = ask_of(source.clone(), "select n from numbers where word = 'w1' collate binary", BOUNDS).unwrap();
    assert_eq!((rows.len(), asked(&source)), (3, vec!["word=\"w1\"".to_owned()]));
}

#[test]
fn a_source_hears_which_columns_are_read() {
    let source = Arc::new(Numbers { end: 9, ..Numbers::default() });
    let read = |text: &str| {
        ask_of(source.clone(), text, BOUNDS).unwrap();
        let columns = source.columns.lock().unwrap().pop().unwrap();
        NUMBERS.columns.iter().map(|it| it.name).filter(|name| columns.has(&NUMBERS, name)).collect::<Vec<_>>()
    };
    assert_eq!(read("select count(*) from numbers"), Vec::<&str>::new());
    assert_eq!(read("select doc ->> 'twice' from numbers where n > 3"), ["n", "doc"]);
    assert_eq!(read("select word, count(*) from numbers group by 1"), ["word"]);
    assert_eq!(read("select * from numbers"), ["n", "word", "doc"]);
}

#[test]
fn nothing_but_queries_is_allowed() {
    for text in [
        "create table x(y)",
        "insert into numbers values (1)",
        "attach ':memory:' as other",
        "pragma hard_heap_limit = 0",
        "select load_extension('x')",
        "delete from numbers",
        "vacuum",
        "select 1; drop table numbers",
        "select * from nothing",
        "selec",
    ] {
        assert!(matches!(ask(text), Err(SqlError::Invalid(_))), "{text}: {:?}", ask(text));
    }
}

#[test]
fn every_bound_is_a_typed_error() {
    let endless = || Arc::new(Numbers { end: i64::MAX, ..Numbers::default() });
    let few = Bounds { rows_max: 10, ..BOUNDS };
    assert!(matches!(ask_of(endless(), "select n from numbers", few), Err(SqlError::TooMuch { what: "rows", .. })));
    let small = Bounds { bytes_max: 100, ..BOUNDS };
    assert!(matches!(ask_of(endless(), "select n from numbers", small), Err(SqlError::TooMuch { what: "bytes", .. })));
    let looks = AtomicU64::new(0);
    let late: IsLate = Arc::new(move || looks.fetch_add(1, Ordering::Relaxed) > 10);
    let forever = "with recursive t(n) as (select 1 union all select n + 1 from t) select count(*) from t";
    assert!(matches!(
        ask_within(&(endless() as Arc<dyn Source>), forever, BOUNDS, &late),
        Err(SqlError::TooLong { .. })
    ));
    let failing = ask_of(endless(), "select sum(n) from numbers", BOUNDS);
    assert!(matches!(failing, Err(SqlError::Source { code: mundi_model::Code::WorldNotFound, .. })), "{failing:?}");
}

#[test]
fn a_reader_that_has_enough_ends_the_query() {
    let source = Arc::new(Numbers { end: i64::MAX, ..Numbers::default() });
    let mut left = 3;
    let mut some = |_| {
        left -= 1;
        if left == 0 { Flow::Enough } else { Flow::More }
    };
    let shared: Arc<dyn Source> = source.clone();
    let ended =
        run(&[&NUMBERS], &shared, "select n from numbers", (BOUNDS, &in_time()), &mut |_| Flow::More, &mut some);
    assert_eq!(ended, Err(SqlError::Abandoned));
    assert!(source.made.load(Ordering::Relaxed) < 10, "rows are made as they are read");
}

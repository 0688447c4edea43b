//! The tables of a universe, as queries see them. `docs/reference/sql.md` is made from this.

use mundi_sql::{Column, Op, Table};

const EQ: &[Op] = &[Op::Eq];
const RANGE: &[Op] = &[Op::Eq, Op::Gt, Op::Ge, Op::Lt, Op::Le];

const fn text(name: &'static str, about: &'static str) -> Column {
    Column { name, kind: "TEXT", about, pushed: &[], hidden: false }
}

const fn number(name: &'static str, about: &'static str) -> Column {
    Column { name, kind: "INTEGER", about, pushed: &[], hidden: false }
}

const fn json(name: &'static str, about: &'static str) -> Column {
    Column { name, kind: "JSON", about, pushed: &[], hidden: false }
}

/// A column whose equality is answered by a key or an index.
const fn keyed(column: Column) -> Column {
    Column { pushed: EQ, ..column }
}

/// A column whose comparisons are answered by a key or an index.
const fn ranged(column: Column) -> Column {
    Column { pushed: RANGE, ..column }
}

/// An argument of the table.
const fn argument(name: &'static str, about: &'static str) -> Column {
    Column { name, kind: "TEXT", about, pushed: EQ, hidden: true }
}

const WORLD: Column = keyed(text("world", "the id of the world"));
const NAME: Column = text("name", "its name");
const OF: Column = argument("of", "only this world, by id or name");

pub(super) static WORLDS: Table = Table {
    name: "worlds",
    about: "The worlds of the universe, but for deleted ones.",
    columns: &[
        WORLD,
        ranged(NAME),
        keyed(text("state", "`live`, `paused`, `on_hold`, `archived`, `deleting`, or `deleted` if it is asked for")),
        text("program", "what people call its program: `todo@2`"),
        keyed(text("manifest", "the hash of its manifest")),
        number("head", "the next height of its journal"),
        ranged(text("created_at", "a time, as RFC 3339 writes it")),
        ranged(text("active_at", "when a worker last opened or released it")),
        keyed(text("parent", "the id of the world that it was forked from")),
        text("parent_name", "its name"),
        number("forked_at", "the height of the fork"),
        text("holder", "the worker that has its lease"),
        text("waits", "what it waits for, in a few words"),
        number("failures", "steps that failed since it was last upgraded, resumed, retried or skipped"),
        text("hold_code", "why it is on hold"),
        text("effects", "what becomes of the effects of a fork or an import"),
        json("labels", "its labels, as an object"),
    ],
};

pub(super) static LABELS: Table = Table {
    name: "labels",
    about: "One row for each label of each world.",
    columns: &[
        WORLD,
        NAME,
        keyed(text("key", "the key")),
        keyed(text("value", "the value; answered by the index with `key`")),
    ],
};

pub(super) static JOURNAL: Table = Table {
    name: "journal",
    about: "Records: of one world with `journal('alice')` or `world = 'w_…'`, else of all worlds.",
    columns: &[
        WORLD,
        NAME,
        ranged(number("height", "the height")),
        text("type", "`ingress`, `intent`, `receipt`, `reply` …"),
        text("hash", "the hash of the record"),
        json("record", "all of it, as the API shows it"),
        OF,
    ],
};

pub(super) static CELLS: Table = Table {
    name: "cells",
    about: "State, now or in the past: `cells('alice')`, `cells('alice', 42)`; without an argument of all worlds.",
    columns: &[
        WORLD,
        NAME,
        keyed(text("key", "the key")),
        json("value", "what it holds"),
        OF,
        argument("at", "as it was when this was the next height"),
    ],
};

pub(super) static EFFECTS: Table = Table {
    name: "effects",
    about: "Effects without a receipt.",
    columns: &[
        keyed(text("effect", "its id, which never changes")),
        WORLD,
        NAME,
        number("height", "where its world asked for it"),
        keyed(text("kind", "the kind")),
        keyed(text(
            "stage",
            "`pending`, `waiting` or `claimed`; `withdrawn` if its world does not wait for it any more",
        )),
        text("label", "the program's own name for it"),
        json("params", "what it was asked for with"),
        number("attempts", "attempts that failed"),
        text("published_at", "since when it is open"),
        text("not_before", "when it is tried next"),
        text("claimed_by", "the worker that carries it out"),
        text("claimed_until", "until when"),
        text("last_failure", "the code of the newest failure"),
        text("last_reason", "what went wrong then"),
    ],
};

pub(super) static ATTEMPTS: Table = Table {
    name: "attempts",
    about: "The newest failed attempts of effects without a receipt, at most ten of each.",
    columns: &[
        keyed(text("effect", "the effect")),
        WORLD,
        NAME,
        keyed(text("kind", "the kind of the effect")),
        number("attempt", "the first one is 1"),
        text("at", "when it failed"),
        text("worker", "who had claimed it"),
        text("code", "the code of the failure"),
        text("reason", "what went wrong"),
        text("next", "when the next attempt may begin"),
    ],
};

pub(super) static TIMERS: Table = Table {
    name: "timers",
    about: "Timers that wait.",
    columns: &[
        text("timer", "its id"),
        WORLD,
        NAME,
        number("height", "where its world set it"),
        text("deliver_at", "when it is due"),
        json("payload", "what it carries"),
    ],
};

pub(super) static DEAD_LETTERS: Table = Table {
    name: "dead_letters",
    about: "Items that queues gave up on.",
    columns: &[
        keyed(text("letter", "what it is addressed by")),
        keyed(text("queue", "`effects`, `timers`, `mailboxes` or `inboxes`")),
        WORLD,
        NAME,
        text("code", "the code of the last failure"),
        text("reason", "what went wrong"),
        number("attempts", "attempts that failed"),
        text("at", "when it was given up"),
        json("item", "the item"),
    ],
};

pub(super) static WORKERS: Table = Table {
    name: "workers",
    about: "Workers with a heartbeat.",
    columns: &[
        text("worker", "its id"),
        text("started_at", "when it started"),
        text("expires_at", "until when its heartbeat holds"),
        number("worlds_max", "how many worlds with work it takes"),
        number("worlds", "how many it had when it was last heard of"),
        number("draining", "1 if it is about to end"),
        text("address", "where it is reached"),
        json("roles", "the roles of its process, as a list"),
    ],
};

pub(super) static LEASES: Table = Table {
    name: "leases",
    about: "Leases of worlds that are held.",
    columns: &[
        WORLD,
        NAME,
        keyed(text("holder", "the worker")),
        number("epoch", "the fencing token"),
        text("expires_at", "until when"),
    ],
};

pub(super) static SNAPSHOTS: Table = Table {
    name: "snapshots",
    about: "Snapshots: of one world with `snapshots('alice')` or `world = 'w_…'`, else of all worlds.",
    columns: &[
        WORLD,
        NAME,
        number("height", "it covers every record below"),
        number("logical_time_ns", "the world's time"),
        text("snapshot", "the hash"),
        text("manifest", "the manifest that held there"),
        OF,
    ],
};

pub(super) static CHILDREN: Table = Table {
    name: "children",
    about: "Children of one world with `children('alice')` or `world = 'w_…'`, else of all worlds: those that wait, that run, and the last 1,000 that ended.",
    columns: &[
        WORLD,
        NAME,
        text("child_id", "the child"),
        text("label", "the program's own name for it"),
        text("kind", "`process`, `world`, `agent`, `external` …"),
        text("phase", "`queued`, `leased`, `started` or `terminal`"),
        text("outcome", "`passed`, `failed` or `cancelled`"),
        text("code", "why it failed or was cancelled"),
        text("reason", "the same, for people"),
        number("queue_seq", "the order of spawns"),
        number("dispatch_seq", "the order of dispatches"),
        text("worker_run_id", "its run, which is the lease, too"),
        text("child_world", "the world that runs it, of kind `world`"),
        json("params", "the parameters of its kind"),
        json("budget", "what it may use"),
        json("spent", "what was debited for it"),
        text("spawned_at", "when it was spawned"),
        text("started_at", "when it was started"),
        text("ended_at", "when it ended"),
        OF,
    ],
};

pub(super) static FUNCTIONS: Table = Table {
    name: "functions",
    about: "Instances of durable functions: of one world with `functions('alice')`, in the past with `functions('alice', 42)`, else of all worlds.",
    columns: &[
        WORLD,
        NAME,
        text("instance", "`FUNCTION/KEY`"),
        keyed(text("function", "the function")),
        text("key", "its key"),
        text("state", "`running`, `done`, `failed`, `cancelled` or `diverged`"),
        number("paused", "1 if it keeps what comes in, and does not go on"),
        text("began", "when it began"),
        text("ended", "when it ended"),
        number("run", "how often it has started over"),
        number("awaits", "awaits so far"),
        json("waits", "what it waits for, as a list"),
        json("status", "what the function says about itself"),
        json("result", "its result"),
        json("error", "why it ended or stands still"),
        OF,
        argument("at", "as it was when this was the next height"),
    ],
};

pub(super) static POOLS: Table = Table {
    name: "pools",
    about: "Pools of resources.",
    columns: &[
        keyed(text("pool", "the name")),
        number("shards", "how many worlds share its resources"),
        text("created_at", "when it was created"),
        json("config", "the bounds of each shard"),
    ],
};

const POOL: Column = keyed(text("pool", "the name of the pool"));
const SHARD: Column = keyed(number("shard", "the shard: the first is 0"));

pub(super) static POOL_LEASES: Table = Table {
    name: "pool_leases",
    about: "Leases of resources of pools: those that live, and those that ended, for as long as the pool keeps them.",
    columns: &[
        POOL,
        SHARD,
        text("lease_id", "the lease"),
        keyed(text("state", "`reserved`, `active`, `revoking`, `released`, `expired` or `revoked`")),
        keyed(text("holder_id", "the holder")),
        number("lease_epoch", "the fencing token"),
        number("created_lsn", "the height of the command that made it"),
        number("deadline_slot", "from this slot on a lease that is reserved may expire, else 0"),
        number("released_lsn", "the height of the command that ended it, else 0"),
        json("resource_ids", "its resources"),
        json("history", "its states in order"),
    ],
};

pub(super) static POOL_RESOURCES: Table = Table {
    name: "pool_resources",
    about: "Resources of pools.",
    columns: &[
        POOL,
        SHARD,
        text("resource_id", "the id of the resource"),
        text("name", "its name"),
        keyed(text("state", "`available`, `reserved`, `active` or `revoking`")),
        text("lease_id", "the lease that has it"),
        number("version", "rises with each change of state or lease"),
        json("labels", "its labels, as a list"),
    ],
};

pub(super) static LINEAGE: Table = Table {
    name: "lineage",
    about: "Forks and their parents.",
    columns: &[
        WORLD,
        NAME,
        keyed(text("parent", "the id of the parent")),
        text("parent_name", "its name"),
        number("forked_at", "the height of the fork"),
        text("created_at", "when it was forked"),
    ],
};

/// All of them.
pub static TABLES: [&Table; 17] = [
    &WORLDS,
    &LABELS,
    &JOURNAL,
    &CELLS,
    &EFFECTS,
    &ATTEMPTS,
    &TIMERS,
    &DEAD_LETTERS,
    &WORKERS,
    &LEASES,
    &SNAPSHOTS,
    &CHILDREN,
    &FUNCTIONS,
    &LINEAGE,
    &POOLS,
    &POOL_LEASES,
    &POOL_RESOURCES,
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fmt::Write, fs, path::Path};

    const MARK: &str = "sql/tables.rs. -->\n";

    fn page() -> String {
        let mut page = String::new();
        for table in TABLES {
            let (name, about) = (table.name, table.about);
            write!(page, "\n## {name}\n\n{about}\n\n| column | type | | meaning |\n|---|---|---|---|\n").unwrap();
            for column in table.columns {
                let how = match (column.hidden, column.pushed.is_empty()) {
                    (true, _) => "argument",
                    (false, false) => "key",
                    (false, true) => "",
                };
                writeln!(page, "| `{}` | {} | {how} | {} |", column.name, column.kind, column.about).unwrap();
            }
        }
        page
    }

    #[test]
    fn the_reference_lists_every_table_and_column() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/sql.md");
        let text = fs::read_to_string(&path).unwrap();
        let (head, _) = text.split_once(MARK).unwrap();
        let expected = format!("{head}{MARK}{}", page());
        if std::env::var_os("MUNDI_BLESS").is_some() {
            fs::write(&path, &expected).unwrap();
        }
        assert_eq!(text, expected, "MUNDI_BLESS=1 writes it anew");
    }
}

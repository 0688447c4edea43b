//! From an export to an engine and its objects.

use super::{
    FORMAT, Header, Items, Progress, TransferError, all_keys, copy, export::compare, header_path, page, part,
    part_path, read_all,
};
use crate::{
    Clock, OnUnknown, Protocol, StoreError,
    keyspace::{
        universe_import::{self, UniverseImport},
        universe_name::{self, NamedUniverse},
    },
    objects::Objects,
    run,
};
use mundi_engine::{Engine, Transaction};
use mundi_model::cbor;
use object_store::path::Path;

/// The header of an export; one that was not sealed has none.
pub async fn read_header(from: &Objects) -> Result<Header, TransferError> {
    let unsealed = || TransferError::Invalid("it was not sealed: export again, it goes on where it was".to_owned());
    let bytes = read_all(from, &header_path()).await?.ok_or_else(unsealed)?;
    let header: Header = cbor::decode(&bytes).map_err(|error| TransferError::Invalid(error.to_string()))?;
    if header.format != FORMAT {
        return Err(TransferError::Refused(format!(
            "it has format {}, and this program reads {FORMAT}",
            header.format
        )));
    }
    Ok(header)
}

/// Takes a universe in, under its name and its id. Its name is written last: before, nobody finds it.
///
/// An import that was broken off continues where it was. The engine's stamps must be above those of the export.
pub async fn import<E: Engine>(
    from: &Objects,
    engine: &E,
    objects: &Objects,
    clock: &dyn Clock,
    mut progress: impl FnMut(Progress),
) -> Result<Header, TransferError> {
    let header = read_header(from).await?;
    let first = begin(engine, clock, &header).await?;
    let mut keys = 0;
    for number in 0..header.parts {
        let missing = || TransferError::Invalid(format!("part {number} is missing"));
        let items = part::decode(number, &read_all(from, &part_path(number)).await?.ok_or_else(missing)?)?;
        keys += items.len() as u64;
        if number >= first {
            run(engine, clock, &WritePart { header: &header, number, items: &items }).await?;
        }
        progress(Progress::Keys(keys));
    }
    copy_objects(from, objects, &header, &mut progress).await?;
    compare(engine, header.universe, from, header.parts, &mut progress).await?;
    run(engine, clock, &Finish { header: &header }).await?;
    Ok(header)
}

async fn copy_objects(
    from: &Objects,
    to: &Objects,
    header: &Header,
    progress: &mut impl FnMut(Progress),
) -> Result<(), TransferError> {
    let mut found = Vec::new();
    from.list(&Path::from("objects"), |meta| found.push((meta.location, meta.size))).await?;
    if found.len() as u64 != header.objects {
        return Err(TransferError::Invalid(format!("{} of {} objects are there", found.len(), header.objects)));
    }
    for (copied, (path, size)) in (1u64..).zip(found) {
        let into = Path::from(path.as_ref().trim_start_matches("objects/"));
        copy(from, &path, to, &into, size).await?;
        progress(Progress::Objects(copied));
    }
    Ok(())
}

/// The first part that is missing. A universe that is there, and is not half an import, is left alone.
async fn begin<E: Engine>(engine: &E, clock: &dyn Clock, header: &Header) -> Result<u64, TransferError> {
    let begun = run(engine, clock, &Begin { header }).await?;
    let next_part = match begun.output {
        Begun::At(next_part) => next_part,
        Begun::NameTaken => {
            return Err(TransferError::Refused(format!("another universe is called `{}` here", header.name)));
        }
    };
    if begun.stamp.is_none_or(|stamp| stamp <= header.stamp) {
        let why = "this engine's commits stand below those of the export: what is sent would arrive behind the past";
        return Err(TransferError::Refused(why.to_owned()));
    }
    let (start, end) = all_keys(header.universe);
    if next_part == 0 && !page(engine, &start, &end).await?.0.is_empty() {
        return Err(TransferError::Refused(format!("the universe {} is here already", header.universe)));
    }
    Ok(next_part)
}

/// Says that an import is in progress. Unknown commit: run again; it finds itself.
struct Begin<'a> {
    header: &'a Header,
}

enum Begun {
    At(u64),
    NameTaken,
}

impl Protocol for Begin<'_> {
    type Output = Begun;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<Begun, StoreError> {
        let Header { universe, name, .. } = self.header;
        if universe_name::read(tx, name).await?.is_some() {
            return Ok(Begun::NameTaken);
        }
        let next_part = universe_import::read(tx, *universe).await?.map_or(0, |import| import.next_part);
        universe_import::write(tx, *universe, UniverseImport { next_part })?;
        Ok(Begun::At(next_part))
    }
}

/// Writes a part. Unknown commit: run again; the same keys get the same values.
struct WritePart<'a> {
    header: &'a Header,
    number: u64,
    items: &'a Items,
}

impl Protocol for WritePart<'_> {
    type Output = ();

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<(), StoreError> {
        for (key, value) in self.items {
            tx.put(key, value.clone())?;
        }
        universe_import::write(tx, self.header.universe, UniverseImport { next_part: self.number + 1 })
    }
}

/// Gives the universe its name. Unknown commit: run again; it writes the same.
struct Finish<'a> {
    header: &'a Header,
}

impl Protocol for Finish<'_> {
    type Output = ();

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<(), StoreError> {
        let Header { universe, name, created_at_ns, .. } = self.header;
        tx.delete(universe_import::key(*universe).as_bytes())?;
        let named = NamedUniverse { universe: *universe, created_at_ns: *created_at_ns };
        universe_name::write(tx, name, &named)
    }
}

//! The parts that families share whose keys end with a name: pools, their watch policies, programs.

/// The functions of a family whose key is `universe | family | name`: `key`, `prefix`, `parse`, `read` and `write`.
macro_rules! by_name {
    ($family:expr, $value:ty) => {
        pub fn key(universe: UniverseId, name: &str) -> $crate::keyspace::Key {
            $crate::keyspace::KeyBuilder::universe(universe, $family).bytes(name.as_bytes()).key()
        }

        pub(crate) fn prefix(universe: UniverseId) -> $crate::keyspace::Key {
            $family.prefix(universe)
        }

        pub(crate) fn parse(universe: UniverseId, key: &[u8]) -> Result<String, StoreError> {
            $crate::keyspace::KeyReader::after($family, &prefix(universe), key)?.text()
        }

        pub(crate) async fn read<T: Transaction>(
            tx: &mut T,
            universe: UniverseId,
            name: &str,
        ) -> Result<Option<$value>, StoreError> {
            $crate::keyspace::get(tx, $family, &key(universe, name)).await
        }

        pub(crate) fn write<T: Transaction>(
            tx: &mut T,
            universe: UniverseId,
            name: &str,
            value: &$value,
        ) -> Result<(), StoreError> {
            $crate::keyspace::put(tx, &key(universe, name), value)
        }
    };
}

pub(super) use by_name;

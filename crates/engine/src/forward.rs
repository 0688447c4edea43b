//! Writes that a transaction passes on unchanged: written once for all engines and wrappers.

/// The writing methods of a [`Transaction`](crate::Transaction), each of which calls the one of the same name of a field; with a second name,
/// that method of the transaction is called first.
#[doc(hidden)]
#[macro_export]
macro_rules! forward_writes {
    ($to:ident $(, $first:ident)?) => {
        fn put(&mut self, key: &[u8], value: impl Into<::bytes::Bytes>) -> Result<(), $crate::EngineError> {
            $(self.$first();)?
            let value: ::bytes::Bytes = value.into();
            self.$to.put(key, value)
        }

        fn put_stamped(
            &mut self,
            prefix: &[u8],
            suffix: &[u8],
            value: impl Into<::bytes::Bytes>,
        ) -> Result<(), $crate::EngineError> {
            $(self.$first();)?
            let value: ::bytes::Bytes = value.into();
            self.$to.put_stamped(prefix, suffix, value)
        }

        fn add(&mut self, key: &[u8], delta: i64) -> Result<(), $crate::EngineError> {
            $(self.$first();)?
            self.$to.add(key, delta)
        }

        fn delete(&mut self, key: &[u8]) -> Result<(), $crate::EngineError> {
            $(self.$first();)?
            self.$to.delete(key)
        }

        fn delete_range(&mut self, start: &[u8], end: &[u8]) -> Result<(), $crate::EngineError> {
            $(self.$first();)?
            self.$to.delete_range(start, end)
        }
    };
}

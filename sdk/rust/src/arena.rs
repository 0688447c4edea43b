//! The memory of a step. An instance lives for one step, so what that allocates comes first from a piece that is there from
//! the beginning.
//!
//! The allocator of the standard library asks for more memory at once. For a small step that is most of its cost: the host
//! opens pages for it, and closes them again for the next instance. What does not fit here goes there.

#![expect(unsafe_code, reason = "allocators are")]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::{Cell, UnsafeCell},
};

#[cfg(target_arch = "wasm32")]
#[global_allocator]
static MEMORY: Arena<65_536> = Arena::new();

/// Gives memory from its beginning to its end. Only what was given last can be taken back.
#[repr(align(16))]
struct Arena<const BYTES: usize> {
    bytes: UnsafeCell<[u8; BYTES]>,
    used: Cell<usize>,
}

#[cfg(target_arch = "wasm32")]
// SAFETY: a component has one thread.
unsafe impl<const BYTES: usize> Sync for Arena<BYTES> {}

impl<const BYTES: usize> Arena<BYTES> {
    const fn new() -> Self {
        Self { bytes: UnsafeCell::new([0; BYTES]), used: Cell::new(0) }
    }

    fn start(&self) -> *mut u8 {
        self.bytes.get().cast()
    }

    /// Where in here a pointer is, if it is.
    fn place(&self, pointer: *mut u8) -> Option<usize> {
        pointer.addr().checked_sub(self.start().addr()).filter(|place| *place < BYTES)
    }

    /// Has a piece end somewhere else, if it was given last.
    fn resize(&self, place: usize, size: usize, new_size: usize) -> bool {
        let is_last = place + size == self.used.get();
        let end = place.checked_add(new_size).filter(|end| is_last && *end <= BYTES);
        end.map(|end| self.used.set(end)).is_some()
    }
}

// SAFETY: pieces do not overlap, because each begins where the ones before it end; they are aligned as asked for, and as
// large. What is not from here is the standard library's.
unsafe impl<const BYTES: usize> GlobalAlloc for Arena<BYTES> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let next = self.start().addr() + self.used.get();
        let place = next.next_multiple_of(layout.align()) - self.start().addr();
        match place.checked_add(layout.size()).filter(|end| *end <= BYTES && place < BYTES) {
            Some(end) => {
                self.used.set(end);
                // SAFETY: it is within `bytes`.
                unsafe { self.start().add(place) }
            }
            // SAFETY: the layout is the caller's.
            None => unsafe { System.alloc(layout) },
        }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        match self.place(pointer) {
            Some(place) => drop(self.resize(place, layout.size(), 0)),
            // SAFETY: what is not from here was given by it.
            None => unsafe { System.dealloc(pointer, layout) },
        }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        let Some(place) = self.place(pointer) else {
            // SAFETY: what is not from here was given by it.
            return unsafe { System.realloc(pointer, layout, new_size) };
        };
        if self.resize(place, layout.size(), new_size) || new_size <= layout.size() {
            return pointer;
        }
        // SAFETY: the caller promises that the new size fits the alignment; both pieces are as large as is copied, and do
        // not overlap, because the old one was not given back.
        unsafe {
            let new = self.alloc(Layout::from_size_align_unchecked(new_size, layout.align()));
            if !new.is_null() {
                new.copy_from_nonoverlapping(pointer, layout.size());
            }
            new
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A piece of memory that is full of one number.
    struct Piece {
        pointer: *mut u8,
        layout: Layout,
        filling: u8,
    }

    impl Piece {
        fn new(arena: &Arena<4_096>, size: usize, align: usize, filling: u8) -> Self {
            let layout = Layout::from_size_align(size, align).unwrap();
            // SAFETY: no size is zero.
            let pointer = unsafe { arena.alloc(layout) };
            let piece = Self { pointer, layout, filling };
            piece.fill();
            piece
        }

        fn fill(&self) {
            assert!(!self.pointer.is_null() && self.pointer.addr().is_multiple_of(self.layout.align()));
            // SAFETY: the piece is as large as its layout says.
            unsafe { self.pointer.write_bytes(self.filling, self.layout.size()) };
        }

        fn check(&self, size: usize) {
            // SAFETY: the piece is at least so large, and was written to.
            let bytes = unsafe { std::slice::from_raw_parts(self.pointer, size) };
            assert!(bytes.iter().all(|byte| *byte == self.filling), "somebody else wrote into it");
        }

        fn resize(&mut self, arena: &Arena<4_096>, size: usize) {
            let kept = size.min(self.layout.size());
            // SAFETY: it is from this allocator, with this layout.
            self.pointer = unsafe { arena.realloc(self.pointer, self.layout, size) };
            self.layout = Layout::from_size_align(size, self.layout.align()).unwrap();
            self.check(kept);
            self.fill();
        }

        fn free(self, arena: &Arena<4_096>) {
            self.check(self.layout.size());
            // SAFETY: it is from this allocator, with this layout.
            unsafe { arena.dealloc(self.pointer, self.layout) };
        }
    }

    #[test]
    fn pieces_keep_what_is_in_them_whatever_happens_to_the_others() {
        let mut number = 0x5eed_u64;
        let mut draw = |below: u64| {
            number ^= number << 13;
            number ^= number >> 7;
            number ^= number << 17;
            usize::try_from(number % below).unwrap()
        };
        for _ in 0..200 {
            let (arena, mut pieces) = (Arena::<4_096>::new(), Vec::<Piece>::new());
            for filling in 0..=255 {
                match draw(4) {
                    0 | 1 => pieces.push(Piece::new(&arena, 1 + draw(300), 1 << draw(6), filling)),
                    2 if !pieces.is_empty() => {
                        let at = draw(pieces.len() as u64);
                        pieces[at].resize(&arena, 1 + draw(600));
                    }
                    3 if !pieces.is_empty() => {
                        let at = draw(pieces.len() as u64);
                        pieces.remove(at).free(&arena);
                    }
                    _ => {}
                }
            }
            pieces.into_iter().for_each(|piece| piece.free(&arena));
        }
    }

    #[test]
    fn what_was_given_last_is_taken_back_and_what_does_not_fit_comes_from_elsewhere() {
        let arena = Arena::<4_096>::new();
        let first = Piece::new(&arena, 4_000, 1, 1);
        let large = Piece::new(&arena, 97, 1, 2);
        assert_eq!((arena.place(first.pointer), arena.place(large.pointer)), (Some(0), None));
        first.free(&arena);
        let mut again = Piece::new(&arena, 10, 1, 3);
        again.resize(&arena, 4_096);
        assert_eq!((arena.place(again.pointer), arena.used.get()), (Some(0), 4_096));
        again.resize(&arena, 5_000);
        assert_eq!(arena.place(again.pointer), None);
        again.free(&arena);
        large.free(&arena);
    }
}

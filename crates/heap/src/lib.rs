//! The allocator of the programs: mimalloc, asked for an alignment only where it does not come by itself.
//!
//! Rust names the alignment of everything that it allocates. Asked for one, mimalloc takes a longer way; and where no free block
//! of the size happens to be at hand, it takes a larger block and gives out an address within, which makes every later release
//! of such a block slower. A call needed 15 of those. Yet what it gives out by default is aligned for nearly everything.

#![expect(unsafe_code, reason = "an allocator is unsafe by nature")]

use libmimalloc_sys::{
    mi_free, mi_malloc, mi_malloc_aligned, mi_realloc, mi_realloc_aligned, mi_zalloc, mi_zalloc_aligned,
};
use std::alloc::{GlobalAlloc, Layout};

pub struct Heap;

/// What mimalloc promises for blocks of at least that size; a smaller block is aligned by its size.
const ALIGN_MAX: usize = 16;

const fn comes_aligned(size: usize, align: usize) -> bool {
    align <= ALIGN_MAX && align <= size
}

// SAFETY: mimalloc is an allocator; a block has at least the size that was asked for, and the alignment, by `comes_aligned` or because
// it was asked for. It does not unwind, and releases a block whichever way it was allocated.
unsafe impl GlobalAlloc for Heap {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let (size, align) = (layout.size(), layout.align());
        // SAFETY: any size and any power of two will do.
        unsafe { if comes_aligned(size, align) { mi_malloc(size) } else { mi_malloc_aligned(size, align) }.cast() }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let (size, align) = (layout.size(), layout.align());
        // SAFETY: any size and any power of two will do.
        unsafe { if comes_aligned(size, align) { mi_zalloc(size) } else { mi_zalloc_aligned(size, align) }.cast() }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, _: Layout) {
        // SAFETY: the caller has it from here.
        unsafe { mi_free(block.cast()) }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let (align, block) = (layout.align(), block.cast());
        // SAFETY: the caller has it from here.
        unsafe {
            match comes_aligned(size, align) {
                true => mi_realloc(block, size),
                false => mi_realloc_aligned(block, size, align),
            }
            .cast()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_aligned_and_keep_what_they_hold() {
        let mut blocks = Vec::new();
        for align in (0..=12).map(|power| 1 << power) {
            for size in (1..300).chain([1_000, 1_024, 1_025, 4_096, 10_000, 100_000, 3_000_000]) {
                let layout = Layout::from_size_align(size, align).unwrap();
                // SAFETY: the size is not 0, the block is used within it, and released once.
                unsafe {
                    let block = if size % 2 == 0 { Heap.alloc(layout) } else { Heap.alloc_zeroed(layout) };
                    assert!(size % 2 == 0 || (0..size).all(|at| *block.add(at) == 0));
                    assert_eq!(block.align_offset(align), 0, "{size} bytes, aligned to {align}");
                    block.write_bytes(0xa5, size);
                    // Grown, and shrunk to less than its alignment at times.
                    let new = if size % 5 == 0 { size.div_ceil(9) } else { size * 3 };
                    let block = Heap.realloc(block, layout, new);
                    assert_eq!(block.align_offset(align), 0, "{size} and then {new} bytes, aligned to {align}");
                    assert!((0..size.min(new)).all(|at| *block.add(at) == 0xa5));
                    block.write_bytes(0x5a, new);
                    blocks.push((block, Layout::from_size_align(new, align).unwrap()));
                }
                // Some are released, so that others come from where they were.
                if size % 3 == 0 {
                    let (block, layout) = blocks.swap_remove(size * 7 % blocks.len());
                    // SAFETY: it is from above, and of no use any more.
                    unsafe { Heap.dealloc(block, layout) };
                }
            }
        }
        for (block, layout) in blocks {
            // SAFETY: it is from above, and of no use any more.
            unsafe {
                assert!((0..layout.size()).all(|at| *block.add(at) == 0x5a));
                Heap.dealloc(block, layout);
            }
        }
    }
}

//! Memory that a device may write to: aligned to pages, at one address for life.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;

/// Alignment that direct I/O wants at most.
const ALIGN: usize = 4096;

/// Bytes aligned for direct I/O.
pub struct AlignedBuffer {
    bytes: NonNull<u8>,
    layout: Layout,
}

// SAFETY: it owns its bytes, as a boxed slice does; references follow the borrow of `self`.
unsafe impl Send for AlignedBuffer {}
// SAFETY: as above.
unsafe impl Sync for AlignedBuffer {}

impl AlignedBuffer {
    /// `len` zeros, rounded up to whole pages. Ends the process when memory is short, as `Vec`
    /// does; panics if `len` is no possible size.
    pub fn new(len: usize) -> AlignedBuffer {
        let len = len.max(1).next_multiple_of(ALIGN);
        let layout = Layout::from_size_align(len, ALIGN).expect("the length is a possible size");
        // SAFETY: the layout's size is not zero.
        let bytes = unsafe { alloc_zeroed(layout) };
        let bytes = NonNull::new(bytes).unwrap_or_else(|| handle_alloc_error(layout));
        AlignedBuffer { bytes, layout }
    }
}

impl AsRef<[u8]> for AlignedBuffer {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: `bytes` are `layout.size()` initialised bytes that nothing changes while `self`
        // is borrowed: code whose request writes to them borrows or owns the buffer mutably.
        unsafe { std::slice::from_raw_parts(self.bytes.as_ptr(), self.layout.size()) }
    }
}

impl AsMut<[u8]> for AlignedBuffer {
    fn as_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and the borrow is the only one.
        unsafe { std::slice::from_raw_parts_mut(self.bytes.as_ptr(), self.layout.size()) }
    }
}

impl Drop for AlignedBuffer {
    fn drop(&mut self) {
        // SAFETY: it was allocated with this layout, and is freed once.
        unsafe { dealloc(self.bytes.as_ptr(), self.layout) };
    }
}

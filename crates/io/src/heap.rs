//! The process's heap.

/// Gives memory that was freed back to the system, as far as whole pages are free: threads' heaps
/// keep theirs otherwise, for a next time that may be another thread's. Does nothing where the C
/// library is not glibc.
pub fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: malloc_trim(3) takes a number and looks at what is free only, under malloc's locks.
    unsafe {
        libc::malloc_trim(0)
    };
}

//! The process's heap.

/// Returns freed memory to the system, as far as whole pages are free: otherwise threads' heaps
/// keep theirs for later, maybe for another thread. Does nothing if the C library is not glibc.
pub fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: malloc_trim(3) takes a number and looks at what is free only, under malloc's locks.
    unsafe {
        libc::malloc_trim(0)
    };
}

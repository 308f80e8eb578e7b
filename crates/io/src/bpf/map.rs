//! Maps: memory that programs and this process share.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::AtomicU64;

use super::{bpf, bpf_fd};

/// Commands, types and flags of bpf(2) (linux/bpf.h).
const BPF_MAP_CREATE: libc::c_long = 0;
const BPF_MAP_UPDATE_ELEM: libc::c_long = 2;
const BPF_MAP_DELETE_ELEM: libc::c_long = 3;
const BPF_MAP_TYPE_HASH: u32 = 1;
const BPF_MAP_TYPE_ARRAY: u32 = 2;
const BPF_MAP_TYPE_PERCPU_ARRAY: u32 = 6;
const BPF_MAP_TYPE_DEVMAP: u32 = 14;
const BPF_MAP_TYPE_XSKMAP: u32 = 17;
const BPF_F_MMAPABLE: u32 = 1 << 10;
const BPF_NOEXIST: u64 = 1;

/// Most bytes of an array that is one value: as many as a value has in Linux before 6.0. The counts
/// of a fast table of eight workers fit.
const ONE_VALUE_MAX: usize = 4 << 20;

/// Memory that programs and this process share.
#[derive(Debug)]
pub struct Map {
    fd: OwnedFd,
    /// The mapping of an array.
    words: Option<Words>,
    /// Words in a value, values; of arrays.
    shape: (usize, usize),
    /// Bytes of a key and of a value.
    sizes: (usize, usize),
}

/// A mapping of 64-bit words.
#[derive(Debug)]
struct Words {
    start: *mut libc::c_void,
    len: usize,
    bytes: usize,
}

// SAFETY: the mapping belongs to no thread, and is only reached as atomics.
unsafe impl Send for Words {}
// SAFETY: as above.
unsafe impl Sync for Words {}

impl Drop for Words {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this length, and references to it borrow `self`.
        unsafe { libc::munmap(self.start, self.bytes) };
    }
}

impl Map {
    /// An array of `count` values of `words` 64-bit words each, all zero. To the kernel a small
    /// array is one value, in which programs find their place [themselves](super::Asm::lookup).
    ///
    /// # Errors
    /// Of bpf(2): no rights (CAP_BPF), no memory.
    pub fn array(words: usize, count: usize) -> io::Result<Map> {
        let invalid = || io::Error::from_raw_os_error(libc::EINVAL);
        let len = words.checked_mul(count).filter(|&len| len > 0).ok_or_else(invalid)?;
        let narrow = |number: usize| u32::try_from(number).map_err(|_| invalid());
        let is_one = len * 8 <= ONE_VALUE_MAX;
        let (value, entries) = if is_one { (len * 8, 1) } else { (words * 8, count) };
        let sizes = (4, narrow(value)?);
        let fd = create_map(BPF_MAP_TYPE_ARRAY, sizes, narrow(entries)?, BPF_F_MMAPABLE)?;
        // SAFETY: no memory is passed; the page size is always known.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
        let bytes = (len * 8).next_multiple_of(page);
        // SAFETY: a new mapping at a place that the kernel chooses; nothing else is touched.
        let start = unsafe {
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            libc::mmap(std::ptr::null_mut(), bytes, protection, libc::MAP_SHARED, fd.as_raw_fd(), 0)
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let words_mapped = Some(Words { start, len, bytes });
        Ok(Map { fd, words: words_mapped, shape: (words, count), sizes: (4, value) })
    }

    /// A hash table of at most `count` values of `words` 64-bit words each, by keys of so many
    /// bytes. All memory for it is taken now.
    ///
    /// # Errors
    /// As for [`array`](Map::array).
    pub fn hash(key: u32, words: u32, count: u32) -> io::Result<Map> {
        let fd = create_map(BPF_MAP_TYPE_HASH, (key, words * 8), count, 0)?;
        Ok(Map { fd, words: None, shape: (0, 0), sizes: (key as usize, words as usize * 8) })
    }

    /// One value of `words` 64-bit words for each processor. Programs alone reach it, each the
    /// value of its processor.
    ///
    /// # Errors
    /// As for [`array`](Map::array).
    pub fn per_processor(words: u32) -> io::Result<Map> {
        let fd = create_map(BPF_MAP_TYPE_PERCPU_ARRAY, (4, words * 8), 1, 0)?;
        Ok(Map { fd, words: None, shape: (0, 0), sizes: (4, words as usize * 8) })
    }

    /// A map of AF_XDP sockets by receive queue.
    pub(crate) fn sockets(queues: u32) -> io::Result<Map> {
        let fd = create_map(BPF_MAP_TYPE_XSKMAP, (4, 4), queues, 0)?;
        Ok(Map { fd, words: None, shape: (0, 0), sizes: (4, 4) })
    }

    /// A map of so many devices to which frames are redirected. The kernel takes a device out when
    /// it goes.
    pub(crate) fn devices(count: u32) -> io::Result<Map> {
        let fd = create_map(BPF_MAP_TYPE_DEVMAP, (4, 4), count, 0)?;
        Ok(Map { fd, words: None, shape: (0, 0), sizes: (4, 4) })
    }

    /// Puts a device into a map of devices.
    pub(crate) fn set_device(&self, key: u32, index: u32) -> io::Result<()> {
        self.set(&key.to_ne_bytes(), &index.to_ne_bytes())
    }

    /// Puts a socket into a map of sockets.
    pub(crate) fn set_socket(&self, queue: u32, socket: &OwnedFd) -> io::Result<()> {
        self.set(&queue.to_ne_bytes(), &socket.as_raw_fd().to_ne_bytes())
    }

    /// Sets the value of a key, of a map other than one for each processor.
    ///
    /// # Errors
    /// When the map is full, or the sizes are not its own.
    pub(crate) fn set(&self, key: &[u8], value: &[u8]) -> io::Result<()> {
        self.update(key, value, 0)
    }

    /// The same for a key that has no value yet.
    ///
    /// # Errors
    /// As for [`set`](Map::set), and `AlreadyExists`.
    pub(crate) fn add(&self, key: &[u8], value: &[u8]) -> io::Result<()> {
        self.update(key, value, BPF_NOEXIST)
    }

    fn update(&self, key: &[u8], value: &[u8], flags: u64) -> io::Result<()> {
        if self.sizes != (key.len(), value.len()) {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        let element = Element { flags, ..self.element(key, value) };
        // SAFETY: key and value are live and have the map's sizes.
        unsafe { bpf(BPF_MAP_UPDATE_ELEM, &element) }.map(drop)
    }

    /// Removes a key.
    ///
    /// # Errors
    /// When there is none, or its size is not the map's.
    pub(crate) fn remove(&self, key: &[u8]) -> io::Result<()> {
        if self.sizes.0 != key.len() {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        let element = self.element(key, &[]);
        // SAFETY: the key is live and has the map's size; the command reads no value.
        unsafe { bpf(BPF_MAP_DELETE_ELEM, &element) }.map(drop)
    }

    fn element(&self, key: &[u8], value: &[u8]) -> Element {
        Element {
            map_fd: self.fd.as_raw_fd() as u32,
            padding: 0,
            key: key.as_ptr().expose_provenance() as u64,
            // The kernel refuses what a command does not use.
            value: match value.is_empty() {
                true => 0,
                false => value.as_ptr().expose_provenance() as u64,
            },
            flags: 0,
        }
    }

    /// All words of an array, value after value. Programs change them at any time.
    pub fn words(&self) -> &[AtomicU64] {
        match &self.words {
            // SAFETY: the mapping has `len` words, lives as long as `self`, is aligned to a page,
            // and every pattern is a value; others only change it as the kernel's own atomics.
            Some(w) => unsafe { std::slice::from_raw_parts(w.start.cast::<AtomicU64>(), w.len) },
            None => &[],
        }
    }

    /// The words of the `n`-th value.
    ///
    /// # Panics
    /// When there are not as many.
    pub fn value(&self, n: usize) -> &[AtomicU64] {
        let words = self.shape.0;
        &self.words()[n * words..(n + 1) * words]
    }

    /// How many values there are.
    pub fn count(&self) -> usize {
        self.shape.1
    }

    /// Bytes of one of the values of an array that is one value to the kernel.
    pub(super) fn part_len(&self) -> Option<usize> {
        let len = self.shape.0 * 8;
        (self.sizes.1 == len * self.shape.1).then_some(len)
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Attributes of the commands on one key.
#[repr(C)]
struct Element {
    map_fd: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

fn create_map(
    map_type: u32,
    (key_size, value_size): (u32, u32),
    entries: u32,
    flags: u32,
) -> io::Result<OwnedFd> {
    #[repr(C)]
    struct Create {
        map_type: u32,
        key_size: u32,
        value_size: u32,
        max_entries: u32,
        map_flags: u32,
    }
    let attributes =
        Create { map_type, key_size, value_size, max_entries: entries, map_flags: flags };
    // SAFETY: the attributes hold no pointer.
    unsafe { bpf_fd(BPF_MAP_CREATE, &attributes) }
}

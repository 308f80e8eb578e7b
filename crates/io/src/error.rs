//! Why a port could not be opened, for the user.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Why a port could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// There is no interface of this name in the current network namespace.
    #[error(
        "there is no network device '{device}' in this network namespace: see `ip link` for the \
         devices there are"
    )]
    NoDevice {
        /// The name that was asked for.
        device: String,
    },
    /// The process lacks a capability.
    #[error(
        "{doing} needs {capability}: run as root, grant it \
         (setcap {capability}=ep, or AmbientCapabilities= in the systemd unit), or {otherwise}"
    )]
    NoPrivilege {
        /// The failed operation.
        doing: String,
        /// The capability, in lower case as `setcap` takes it.
        capability: &'static str,
        /// An alternative.
        otherwise: &'static str,
    },
    /// Frames of the pool are too small, or too large, for this device.
    #[error("{device}: {problem}; choose a pool frame size of {advice}")]
    FrameSize {
        /// The device.
        device: String,
        /// The problem.
        problem: String,
        /// A suitable frame size.
        advice: String,
    },
    /// Another user has the device.
    #[error("{device} is in use: {problem}")]
    Busy {
        /// The device.
        device: String,
        /// Its user, and how to get the device.
        problem: String,
    },
    /// An invalid setting.
    #[error("{device}: {problem}")]
    Invalid {
        /// The device or file.
        device: String,
        /// The problem, with advice.
        problem: String,
    },
    /// Files would leave less free space on a file system than has to stay free.
    #[error(
        "the file system of {} has too little space: the files need {needed}, and {free} are \
         free, of which {stays} ({free_percent} %) have to stay free", place.display()
    )]
    NoRoom {
        /// A file or folder on it.
        place: PathBuf,
        /// What the files still need.
        needed: String,
        /// The free space.
        free: String,
        /// How much of it has to stay free.
        stays: String,
        /// The same, in percent of the file system.
        free_percent: u8,
    },
    /// A capture file that cannot be read.
    #[error("{}: {problem} (at byte {offset})", path.display())]
    BadFile {
        /// The file.
        path: PathBuf,
        /// Where in the file.
        offset: u64,
        /// The problem there.
        problem: String,
    },
    /// The operating system refused.
    #[error("{device}: {doing} failed: {source}")]
    System {
        /// The device or file.
        device: String,
        /// The failed operation.
        doing: &'static str,
        /// What the operating system answered.
        #[source]
        source: io::Error,
    },
}

impl OpenError {
    /// The error for a system call about `device` that failed while `doing` something.
    pub(crate) fn system(device: &str, doing: &'static str, source: io::Error) -> OpenError {
        OpenError::System { device: device.into(), doing, source }
    }

    /// Whether another user has the device, perhaps only for a moment.
    pub(crate) fn is_busy(&self) -> bool {
        matches!(self, OpenError::Busy { .. })
    }

    /// As [`OpenError::system`], but if rights are lacking it names the capability.
    pub(crate) fn privileged(
        device: &str,
        doing: &'static str,
        capability: &'static str,
        otherwise: &'static str,
        source: io::Error,
    ) -> OpenError {
        if matches!(source.raw_os_error(), Some(libc::EPERM | libc::EACCES)) {
            let doing = format!("{device}: {doing}");
            return OpenError::NoPrivilege { doing, capability, otherwise };
        }
        OpenError::system(device, doing, source)
    }
}

/// Opens something that may have just been closed, with retries. The kernel releases an AF_XDP
/// queue, and the files of an `io_uring`, in the background; and a process forked by another thread
/// holds every descriptor until it executes its program. Until then the error is EBUSY.
pub(crate) fn patiently<T>(mut open: impl FnMut() -> Result<T, OpenError>) -> Result<T, OpenError> {
    const ATTEMPTS: u32 = 40;
    const PAUSE: Duration = Duration::from_millis(10);
    for _ in 1..ATTEMPTS {
        match open() {
            Err(error) if error.is_busy() => std::thread::sleep(PAUSE),
            result => return result,
        }
    }
    open()
}

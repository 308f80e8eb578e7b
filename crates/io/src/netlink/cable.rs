//! The far ends of virtual cables (veth(4)), in whichever network namespace they are.
//!
//! The kernel answers questions about devices under a lock that others may hold for long. So a
//! thread of its own asks them, again and again.

use std::collections::BTreeMap;
use std::io;
use std::sync::mpsc::{self, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::interface::link_header;
use super::message::{Message, u32_at, value_of};
use super::socket::Socket;

/// Time from one look at all cables to the next.
const EVERY: Duration = Duration::from_secs(1);
/// Answers are short, and come one by one.
const RECEIVE_BYTES: i32 = 1 << 16;
/// `IFLA_TARGET_NETNSID`, and `IFLA_XDP` with `IFLA_XDP_ATTACHED` in it (linux/if_link.h).
const TARGET_NETNSID: u16 = 46;
const XDP: u16 = 43;
const XDP_ATTACHED: u16 = 2;

/// Devices by number, and whether their cable reaches a socket.
type Known = Mutex<BTreeMap<u32, bool>>;

/// The cables of the network namespace of the thread that began to watch.
#[derive(Debug)]
pub(crate) struct Cables {
    known: Arc<Known>,
    /// Calls for a look at once. Dropping it ends the thread.
    look: SyncSender<()>,
}

impl Cables {
    /// Begins to watch.
    ///
    /// # Errors
    /// When the kernel refuses a socket or a thread.
    pub(crate) fn watch() -> io::Result<Cables> {
        let mut socket = Socket::open(0, RECEIVE_BYTES)?;
        let known = Arc::<Known>::default();
        let (look, looks) = mpsc::sync_channel(1);
        let told = known.clone();
        std::thread::Builder::new().name("plexus-cables".into()).spawn(move || {
            while !matches!(looks.recv_timeout(EVERY), Err(RecvTimeoutError::Disconnected)) {
                let devices: Vec<u32> = lock(&told).keys().copied().collect();
                for device in devices {
                    // Without an answer the last one stands.
                    if let Ok(reaches) = reaches_socket(&mut socket, device) {
                        lock(&told).entry(device).and_modify(|known| *known = reaches);
                    }
                }
            }
        })?;
        Ok(Cables { known, look })
    }

    /// Whether a device is one end of a virtual cable whose far end hands its packets to sockets as
    /// they are: it is no port of a bridge, and has no XDP program. False as long as that is not
    /// known, which it never is without CAP_NET_ADMIN over the far end's namespace.
    pub(crate) fn reaches_socket(&self, device: u32) -> bool {
        let mut known = lock(&self.known);
        if let Some(reaches) = known.get(&device) {
            return *reaches;
        }
        known.insert(device, false);
        // A look that has been called for already will come.
        let _ = self.look.try_send(());
        false
    }

    /// Watches a device no more.
    pub(crate) fn forget(&self, device: u32) {
        lock(&self.known).remove(&device);
    }
}

fn lock(known: &Known) -> MutexGuard<'_, BTreeMap<u32, bool>> {
    known.lock().unwrap_or_else(PoisonError::into_inner)
}

fn reaches_socket(socket: &mut Socket, device: u32) -> io::Result<bool> {
    let (mut is_veth, mut peer, mut namespace) = (false, None, None);
    ask(socket, device, None, |attributes| {
        let info = value_of(attributes, libc::IFLA_LINKINFO).unwrap_or_default();
        is_veth = value_of(info, libc::IFLA_INFO_KIND).is_some_and(|k| k.starts_with(b"veth"));
        peer = value_of(attributes, libc::IFLA_LINK).and_then(|value| u32_at(value, 0));
        let id = value_of(attributes, libc::IFLA_LINK_NETNSID);
        namespace = id.and_then(|value| u32_at(value, 0));
    })?;
    let Some(peer) = peer.filter(|_| is_veth) else { return Ok(false) };
    let mut is_free = false;
    ask(socket, peer, namespace, |attributes| {
        let master = value_of(attributes, libc::IFLA_MASTER).and_then(|value| u32_at(value, 0));
        let xdp = value_of(attributes, XDP).and_then(|xdp| value_of(xdp, XDP_ATTACHED));
        is_free = master.unwrap_or(0) == 0 && xdp.is_none_or(|mode| mode == [0]);
    })?;
    Ok(is_free)
}

/// Hands on the attributes of a device of another namespace, or of this one.
fn ask(
    socket: &mut Socket,
    device: u32,
    namespace: Option<u32>,
    mut answer: impl FnMut(&[u8]),
) -> io::Result<()> {
    let content = |request: &mut super::message::Builder| {
        if let Some(id) = namespace {
            request.put(TARGET_NETNSID, &id.to_ne_bytes());
        }
    };
    let answer = |message: Message<'_>| answer(message.body.get(16..).unwrap_or_default());
    let header = link_header(device, 0, 0);
    socket.request(libc::RTM_GETLINK, 0, &header, content, answer)
}

//! A network device by name: its presence, state and MTU.
//!
//! Queries go through a socket, which keeps the network namespace in which it was created; sysfs
//! would show that of its mounter. The three requests used take no lock that a slow device could
//! hold (they are answered under RCU), so a worker may query between batches.

mod ethtool;

use std::ffi::CStr;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsRawFd, OwnedFd};

use plexus_wire::MacAddr;

use crate::OpenError;
use crate::port::Link;
use crate::sys;

/// Bytes of an Ethernet header without tags.
pub(crate) const ETHERNET: usize = 14;

/// A device's name and the socket that asks about it.
pub(crate) struct Device {
    name: String,
    control: OwnedFd,
}

/// The kernel's state of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct State {
    /// The interface number; a device that returns has a new one.
    pub(crate) index: u32,
    /// Up with a carrier, or not.
    pub(crate) link: Link,
    /// Largest payload in bytes.
    pub(crate) mtu: usize,
}

/// Facts of a device for a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceFacts {
    /// Its Ethernet address.
    pub mac: MacAddr,
    /// Largest payload in bytes.
    pub mtu: usize,
}

/// Address and MTU of a device of the calling thread's network namespace.
///
/// # Errors
/// When there is no such device, or it has no Ethernet address.
pub fn device_facts(name: &str) -> Result<DeviceFacts, OpenError> {
    let device = Device::named(name)?;
    let mtu = device.require()?.mtu;
    let failed = |e| OpenError::system(name, "asking for the address", e);
    let problem = || "it is no Ethernet device".to_string();
    let invalid = || OpenError::Invalid { device: name.into(), problem: problem() };
    let mac = device.mac().map_err(failed)?.ok_or_else(invalid)?;
    Ok(DeviceFacts { mac, mtu })
}

/// Sets the MTU of a device of the calling thread's network namespace, in bytes; returns the one
/// before.
///
/// # Errors
/// When there is no such device, its driver allows no such MTU, or CAP_NET_ADMIN is missing.
pub fn set_mtu(name: &str, mtu: usize) -> Result<usize, OpenError> {
    let device = Device::named(name)?;
    let before = device.require()?.mtu;
    let otherwise = "set it yourself";
    device.set_mtu(mtu).map_err(|e| {
        OpenError::privileged(name, "setting the MTU", "cap_net_admin", otherwise, e)
    })?;
    Ok(before)
}

/// The device of the calling thread's network namespace that has this IP address.
pub fn device_of(address: IpAddr) -> Option<String> {
    let mut list = std::ptr::null_mut();
    // SAFETY: the list is written to a pointer of ours, and is ours until it is freed below.
    if unsafe { libc::getifaddrs(&raw mut list) } != 0 {
        return None;
    }
    let (mut found, mut at) = (None, list);
    // SAFETY: each entry of the list is the next one's only owner and is valid until the list is
    // freed; the last one has no next.
    while let Some(entry) = unsafe { at.as_ref() } {
        at = entry.ifa_next;
        // SAFETY: the address of an entry is absent, or as long as its family says.
        let family = unsafe { entry.ifa_addr.as_ref() }.map(|a| libc::c_int::from(a.sa_family));
        let own: Option<IpAddr> = match family {
            Some(libc::AF_INET) => {
                // SAFETY: the family says that it is one of these.
                let ip = unsafe { &*entry.ifa_addr.cast::<libc::sockaddr_in>() };
                Some(Ipv4Addr::from(u32::from_be(ip.sin_addr.s_addr)).into())
            }
            Some(libc::AF_INET6) => {
                // SAFETY: as above.
                let ip = unsafe { &*entry.ifa_addr.cast::<libc::sockaddr_in6>() };
                Some(Ipv6Addr::from(ip.sin6_addr.s6_addr).into())
            }
            _ => None,
        };
        if own == Some(address) {
            // SAFETY: the name is a string that ends with a zero byte.
            let name = unsafe { CStr::from_ptr(entry.ifa_name) };
            found = name.to_str().ok().map(str::to_string);
            break;
        }
    }
    // SAFETY: it came from getifaddrs, and nothing points into it any more.
    unsafe { libc::freeifaddrs(list) };
    found
}

/// Queries a device's address repeatedly: it may change, and a device that returns may have another
/// one.
pub struct AddressOf(Device);

impl AddressOf {
    /// Of a device of the calling thread's network namespace; it need not exist yet.
    ///
    /// # Errors
    /// When this is no name, or there are no descriptors left.
    pub fn device(name: &str) -> Result<AddressOf, OpenError> {
        Device::named(name).map(AddressOf)
    }

    /// The present address; `None` if there is no such device, or it has no Ethernet address.
    pub fn now(&self) -> Option<MacAddr> {
        self.0.mac().ok().flatten()
    }
}

/// Watches whether a device is still there.
pub struct Presence {
    device: Device,
    index: u32,
}

impl Presence {
    /// Of a device of the calling thread's network namespace.
    ///
    /// # Errors
    /// When there is no such device.
    pub fn of(name: &str) -> Result<Presence, OpenError> {
        let device = Device::named(name)?;
        let index = device.require()?.index;
        Ok(Presence { device, index })
    }

    /// The state of its link; `None` if it has gone, also when it was renamed or another device has
    /// its name now.
    ///
    /// # Errors
    /// When the kernel does not answer.
    pub fn now(&self) -> io::Result<Option<Link>> {
        let state = self.device.state()?.filter(|state| state.index == self.index);
        Ok(state.map(|state| state.link))
    }
}

impl Device {
    /// Names a device of the calling thread's network namespace; it need not exist yet.
    pub(crate) fn named(name: &str) -> Result<Device, OpenError> {
        if name.is_empty() || name.len() >= libc::IFNAMSIZ || name.bytes().any(|b| b == 0) {
            let problem = format!("a device name has 1 to {} bytes", libc::IFNAMSIZ - 1);
            return Err(OpenError::Invalid { device: name.into(), problem });
        }
        let control = sys::socket(libc::AF_INET, libc::SOCK_DGRAM, 0)
            .map_err(|e| OpenError::system(name, "opening a control socket", e))?;
        Ok(Device { name: name.into(), control })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The device's state now, `None` if there is no such device.
    pub(crate) fn state(&self) -> io::Result<Option<State>> {
        match self.query() {
            Ok(state) => Ok(Some(state)),
            Err(e) if e.raw_os_error() == Some(libc::ENODEV) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// The device's state now; a missing device is an error.
    pub(crate) fn require(&self) -> Result<State, OpenError> {
        self.state()
            .map_err(|e| OpenError::system(&self.name, "asking for the device", e))?
            .ok_or_else(|| OpenError::NoDevice { device: self.name.clone() })
    }

    /// Its driver, if it is a purely virtual device: a virtual cable (veth), a TAP device or a
    /// bridge.
    /// `None` for hardware, including that of a hypervisor.
    ///
    /// Nothing completes the work (checksums, segmentation) that the far end of such a device
    /// leaves to "hardware".
    pub(crate) fn virtual_driver(&self) -> io::Result<Option<String>> {
        let driver = self.driver()?;
        Ok(driver.is_virtual.then_some(driver.name))
    }

    /// Sets the device's MTU, in bytes. Needs CAP_NET_ADMIN.
    pub(crate) fn set_mtu(&self, mtu: usize) -> io::Result<()> {
        let mut request = self.request();
        request.ifr_ifru.ifru_mtu = mtu.try_into().unwrap_or(libc::c_int::MAX);
        self.ioctl(libc::SIOCSIFMTU, &mut request)
    }

    /// Sets the device administratively up.
    pub(crate) fn set_up(&self) -> io::Result<()> {
        self.set_flag(libc::IFF_UP, true)
    }

    /// Whether the device takes frames for any station because somebody has set it so. A packet
    /// socket that wants such frames does not count.
    pub(crate) fn is_promiscuous(&self) -> io::Result<bool> {
        Ok(self.flags()? & libc::IFF_PROMISC as libc::c_short != 0)
    }

    /// Sets it so, or no longer. Needs CAP_NET_ADMIN.
    pub(crate) fn set_promiscuous(&self, on: bool) -> io::Result<()> {
        self.set_flag(libc::IFF_PROMISC, on)
    }

    fn flags(&self) -> io::Result<libc::c_short> {
        let answer = self.ask(libc::SIOCGIFFLAGS)?;
        // SAFETY: SIOCGIFFLAGS fills this member of the union.
        Ok(unsafe { answer.ifr_ifru.ifru_flags })
    }

    fn set_flag(&self, flag: libc::c_int, on: bool) -> io::Result<()> {
        let (flags, flag) = (self.flags()?, flag as libc::c_short);
        let mut request = self.request();
        request.ifr_ifru.ifru_flags = if on { flags | flag } else { flags & !flag };
        self.ioctl(libc::SIOCSIFFLAGS, &mut request)
    }

    fn query(&self) -> io::Result<State> {
        // SAFETY: each request fills the union member that is read.
        let index = unsafe { self.ask(libc::SIOCGIFINDEX)?.ifr_ifru.ifru_ifindex };
        let flags = self.flags()?;
        // SAFETY: as above.
        let mtu = unsafe { self.ask(libc::SIOCGIFMTU)?.ifr_ifru.ifru_mtu };
        let wanted = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
        let link = if flags & wanted == wanted { Link::Up } else { Link::Down };
        Ok(State { index: index as u32, link, mtu: usize::try_from(mtu).unwrap_or(0) })
    }

    /// Its address, if it is an Ethernet's.
    fn mac(&self) -> io::Result<Option<MacAddr>> {
        let answer = self.ask(libc::SIOCGIFHWADDR)?;
        // SAFETY: SIOCGIFHWADDR fills this member of the union.
        let address = unsafe { answer.ifr_ifru.ifru_hwaddr };
        let mut mac = [0; 6];
        for (to, from) in mac.iter_mut().zip(address.sa_data) {
            *to = from as u8;
        }
        Ok((address.sa_family == libc::ARPHRD_ETHER).then_some(MacAddr(mac)))
    }

    fn ask(&self, request: libc::c_ulong) -> io::Result<libc::ifreq> {
        let mut answer = self.request();
        self.ioctl(request, &mut answer)?;
        Ok(answer)
    }

    /// A request that carries the name and is otherwise zero.
    pub(crate) fn request(&self) -> libc::ifreq {
        // SAFETY: the structure is integers and byte arrays; zero is a value of each.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        for (to, from) in request.ifr_name.iter_mut().zip(self.name.bytes()) {
            *to = from as libc::c_char;
        }
        request
    }

    fn ioctl(&self, code: libc::c_ulong, request: &mut libc::ifreq) -> io::Result<()> {
        // SAFETY: the interface requests read and write one `ifreq`.
        sys::check(unsafe { libc::ioctl(self.control.as_raw_fd(), code as _, request) }).map(drop)
    }
}

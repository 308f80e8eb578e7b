//! Questions to a device's driver (linux/ethtool.h). None of them changes anything.

use std::io;

use super::Device;

const GET_SETTINGS: u32 = 0x01;
const GET_DRIVER: u32 = 0x03;
const GET_FLAGS: u32 = 0x25;
const GET_CHANNELS: u32 = 0x3C;

/// `ETH_FLAG_RXVLAN` and `ETH_FLAG_LRO`.
const RX_VLAN: u32 = 1 << 8;
const LRO: u32 = 1 << 15;

/// `ethtool_drvinfo`.
#[repr(C)]
struct DriverAnswer {
    command: u32,
    driver: [u8; 32],
    version: [u8; 32],
    firmware: [u8; 32],
    bus: [u8; 32],
    rom: [u8; 32],
    reserved: [u8; 12],
    counts: [u32; 5],
}

/// `ethtool_cmd`.
#[repr(C)]
#[derive(Default)]
struct SettingsAnswer {
    command: u32,
    modes: [u32; 2],
    speed: u16,
    kinds: [u8; 6],
    limits: [u32; 2],
    speed_high: u16,
    more: [u8; 2],
    partner: u32,
    reserved: [u32; 2],
}

/// `ethtool_value`.
#[repr(C)]
#[derive(Default)]
struct ValueAnswer {
    command: u32,
    value: u32,
}

/// `ethtool_channels`: most receive, transmit, other and combined channels, and how many are used.
#[repr(C)]
#[derive(Default)]
struct ChannelsAnswer {
    command: u32,
    most: [u32; 4],
    used: [u32; 4],
}

/// A device's driver, as `ethtool -i` names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Driver {
    pub(crate) name: String,
    /// It has no hardware: a virtual cable (veth), a TAP device, a bridge.
    pub(crate) is_virtual: bool,
}

impl Device {
    /// Its driver.
    pub(crate) fn driver(&self) -> io::Result<Driver> {
        let mut facts = DriverAnswer {
            command: GET_DRIVER,
            driver: [0; 32],
            version: [0; 32],
            firmware: [0; 32],
            bus: [0; 32],
            rom: [0; 32],
            reserved: [0; 12],
            counts: [0; 5],
        };
        match self.ethtool(&mut facts) {
            Ok(()) => {}
            // Every hardware driver supports this query.
            Err(e) if e.raw_os_error() == Some(libc::EOPNOTSUPP) => {
                return Ok(Driver { name: "?".into(), is_virtual: true });
            }
            Err(e) => return Err(e),
        }
        let end = facts.driver.iter().position(|b| *b == 0).unwrap_or(facts.driver.len());
        let name = String::from_utf8_lossy(&facts.driver[..end]).into_owned();
        // `tun` gives "tap" for a bus.
        let is_virtual = facts.bus[0] == 0 || name == "tun";
        Ok(Driver { name, is_virtual })
    }

    /// Its speed in Mbit/s, if its driver knows it.
    pub(crate) fn speed_mbit_per_s(&self) -> Option<u32> {
        let mut answer = SettingsAnswer { command: GET_SETTINGS, ..SettingsAnswer::default() };
        self.ethtool(&mut answer).ok()?;
        let speed = u32::from(answer.speed_high) << 16 | u32::from(answer.speed);
        // SPEED_UNKNOWN is -1, and without a carrier some drivers say 0.
        Some(speed).filter(|speed| !matches!(*speed, 0 | 0xFFFF | u32::MAX))
    }

    /// Over how many receive queues it spreads frames, if its driver can change that.
    pub(crate) fn receive_queues(&self) -> Option<u32> {
        let mut answer = ChannelsAnswer { command: GET_CHANNELS, ..ChannelsAnswer::default() };
        self.ethtool(&mut answer).ok()?;
        let [receive, _, _, combined] = answer.used;
        Some(receive + combined)
    }

    /// Whether it joins received packets in hardware (LRO), and whether it takes VLAN tags out.
    pub(crate) fn offloads(&self) -> Option<(bool, bool)> {
        let mut answer = ValueAnswer { command: GET_FLAGS, ..ValueAnswer::default() };
        self.ethtool(&mut answer).ok()?;
        Some((answer.value & LRO != 0, answer.value & RX_VLAN != 0))
    }

    /// Asks one of the questions above: the answer has the structure that its command names.
    fn ethtool<T>(&self, answer: &mut T) -> io::Result<()> {
        let mut request = self.request();
        request.ifr_ifru.ifru_data = std::ptr::from_mut(answer).cast();
        self.ioctl(libc::SIOCETHTOOL, &mut request)
    }
}

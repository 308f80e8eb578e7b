//! Valid names of nodes, ports, hosts and devices.

use crate::error::{ValueError, quote};

/// Longest name of a node or host, in bytes.
pub const NAME_LEN_MAX: usize = 32;
/// Longest name of a network device: IFNAMSIZ is 16 with the final zero (netdevice(7)).
pub const DEVICE_LEN_MAX: usize = 15;

/// Checks the name of a node, host or flow: letters, digits, `-` and `_`, at most
/// [`NAME_LEN_MAX`]. It is part of file names and of `NODE.PORT`, so neither `/` nor `.` fits.
///
/// # Errors
/// When it is empty, too long or has another character.
pub fn check_name(what: &str, name: &str) -> Result<(), ValueError> {
    check(what, name, NAME_LEN_MAX)
}

/// Checks the name of a port, which in a lab is the name of a device too: as a node's, at most
/// [`DEVICE_LEN_MAX`].
///
/// # Errors
/// When it is empty, too long or has another character.
pub fn check_port_name(name: &str) -> Result<(), ValueError> {
    check("port", name, DEVICE_LEN_MAX)
}

fn check(what: &str, name: &str, longest: usize) -> Result<(), ValueError> {
    let help = format!("use 1 to {longest} letters, digits, \"-\" and \"_\"");
    if name.is_empty() {
        return Err(ValueError::new(format!("the name of a {what} is empty"), help));
    }
    let stray = |c: &char| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
    if let Some(c) = name.chars().find(stray) {
        let c = quote(c.encode_utf8(&mut [0; 4]));
        return Err(ValueError::new(
            format!("the name {} of a {what} contains {c}", quote(name)),
            help,
        ));
    }
    if name.starts_with('-') {
        let message = format!("the name {} of a {what} begins with \"-\"", quote(name));
        return Err(ValueError::new(message, help));
    }
    if name.len() > longest {
        return Err(ValueError::new(
            format!("the name {} of a {what} has {} characters", quote(name), name.len()),
            help,
        ));
    }
    Ok(())
}

/// The other end of a device of routing daemons is called after it, and this.
pub const KERNEL_PEER: &str = ".px";

/// Reads the name of a device of routing daemons: short enough for that of its other end.
pub(crate) fn parse_kernel_device(name: &str) -> Result<String, ValueError> {
    check_device(name)?;
    let max = DEVICE_LEN_MAX - KERNEL_PEER.len();
    if name.len() > max {
        let message = format!("the device name {} has {} bytes", quote(name), name.len());
        let help = format!("write at most {max}: its other end is called {name}{KERNEL_PEER}");
        return Err(ValueError::new(message, help));
    }
    Ok(name.to_string())
}

/// Checks the name of a network device of this machine.
///
/// # Errors
/// When the kernel would refuse it (`dev_valid_name` in Linux's net/core/dev.c).
pub fn check_device(name: &str) -> Result<(), ValueError> {
    let help = "the devices of this machine are listed by `ip link`";
    if name.is_empty() || name == "." || name == ".." {
        return Err(ValueError::new(format!("{} cannot name a device", quote(name)), help));
    }
    if name.len() > DEVICE_LEN_MAX {
        let message = format!(
            "the device name {} has {} bytes, and Linux allows {DEVICE_LEN_MAX}",
            quote(name),
            name.len()
        );
        return Err(ValueError::new(message, help));
    }
    let stray = |c: &char| c.is_whitespace() || c.is_control() || matches!(c, '/' | ':');
    if let Some(c) = name.chars().find(stray) {
        let c = quote(c.encode_utf8(&mut [0; 4]));
        let message = format!("the device name {} contains {c}", quote(name));
        return Err(ValueError::new(message, help));
    }
    Ok(())
}

//! Hosts with addresses by DHCP: runs Debian's client in each, and checks the lease.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use plexus_io::namespace::Namespaces;
use plexus_topo::{Device, Host};

use crate::error::{Doing, Error};
use crate::plan::Plan;
use crate::tools::{DHCLIENT, IP};
use crate::world::World;

/// Where the client has its files: in the host's own `/run`.
const BASE: &str = "/run/plexus-dhclient";

/// The client's settings (dhclient.conf(5)): it gives up after `timeout` seconds.
const SETTINGS: &str = "timeout 15;\nretry 2;\ninitial-interval 1;\nbackoff-cutoff 2;\n\
    request subnet-mask, broadcast-address, routers, interface-mtu;\n";

/// The script that the client calls on events (dhclient-script(8)). Debian's own script would
/// replace the machine's `/etc/resolv.conf`.
const SCRIPT: &str = r#"#!/bin/sh
address="${new_ip_address:-}/${new_subnet_mask:-32}"
case "$reason" in
  PREINIT) ip link set dev "$interface" up ;;
  BOUND|RENEW|REBIND|REBOOT)
    if [ -n "${old_ip_address:-}" ] && [ "$old_ip_address" != "$new_ip_address" ]; then
      ip -4 address flush dev "$interface"
    fi
    ip -4 address replace "$address" ${new_broadcast_address:+broadcast $new_broadcast_address} \
      dev "$interface"
    [ -z "${new_interface_mtu:-}" ] || ip link set dev "$interface" mtu "$new_interface_mtu"
    for router in ${new_routers:-}; do
      ip -4 route replace default via "$router" dev "$interface"
      break
    done ;;
  EXPIRE|FAIL|RELEASE|STOP) ip -4 address flush dev "$interface" ;;
esac
"#;

/// Leases the address of every host that uses DHCP, all at once.
///
/// # Errors
/// If a host gets no address, or another one than is reserved for it.
pub(crate) fn lease(plan: &Plan, world: &World) -> Result<(), Error> {
    std::thread::scope(|s| {
        let hosts = plan.topology.hosts.iter().enumerate().filter(|(_, h)| h.dhcp);
        let asking: Vec<_> = hosts
            .map(|(i, host)| s.spawn(move || lease_one(host, world.place(Device::Host(i)))))
            .collect();
        asking.into_iter().try_for_each(|host| {
            host.join().unwrap_or_else(|_| Err(Error::Refused("a DHCP client panicked".into())))
        })
    })
}

fn lease_one(host: &Host, place: &Namespaces) -> Result<(), Error> {
    let (Some(wanted), Some(first)) = (host.leased_address(), host.interfaces.first()) else {
        return Ok(());
    };
    let device = first.name.as_str();
    let (settings, script) = (format!("{BASE}.conf"), format!("{BASE}-script"));
    let write = || {
        fs::write(&settings, SETTINGS)?;
        fs::write(&script, SCRIPT)?;
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755))
    };
    let doing = || format!("preparing the DHCP client of {}", host.name);
    place.run(write).doing(doing)?.doing(doing)?;
    let (pid, leases) = (format!("{BASE}.pid"), format!("{BASE}.leases"));
    let arguments =
        ["-4", "-1", "-v", "-cf", &settings, "-sf", &script, "-pf", &pid, "-lf", &leases, device];
    DHCLIENT.run(Some(place), &arguments, "").map_err(|e| match e {
        Error::Command { command, said } => Error::Refused(format!(
            "{} got no address by DHCP, where {wanted} is reserved for {}: `{command}` said: \
             {said}",
            host.name, host.mac
        )),
        e => e,
    })?;
    let told = IP.run(Some(place), &["-4", "-o", "address", "show", "dev", device], "")?;
    let got = addresses(&told);
    if got == [wanted.to_string()] {
        return Ok(());
    }
    let got = if got.is_empty() { "none".to_string() } else { got.join(", ") };
    let text = format!("{} should have got {wanted} by DHCP, and has {got}", host.name);
    Err(Error::Refused(text))
}

/// The addresses that `ip -o -4 address` shows, without prefix lengths.
fn addresses(told: &str) -> Vec<String> {
    let address = |line: &str| {
        let mut words = line.split_whitespace().skip_while(|w| *w != "inet").skip(1);
        Some(words.next()?.split('/').next()?.to_string())
    };
    told.lines().filter_map(address).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_off_the_tools_lines() {
        let line =
            "2: eth0    inet 10.0.0.1/24 brd 10.0.0.255 scope global eth0\\ valid_lft forever";
        assert_eq!(addresses(line), ["10.0.0.1"]);
        assert!(addresses("").is_empty());
    }
}

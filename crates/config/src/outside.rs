//! Routes of the group's router to other networks: `[[route]]` of the controller's file, and the
//! file that `routes` names.

use std::collections::HashSet;
use std::net::IpAddr;

use plexus_wire::Prefix;

use crate::address::parse_prefix;
use crate::controller::parse_ip;
use crate::controller_settings::{
    ControllerSettings, OUTSIDE_ROUTES_MAX, OutsideRoute, Reservation, Subnet,
};
use crate::document::Section;
use crate::error::ValueError;
use crate::route_file::{ROUTE_LINE, read_route_file};

/// What a route's end is, of a valid version.
fn check_version(prefix: Prefix, via: IpAddr) -> Result<(), ValueError> {
    if prefix.addr().is_ipv4() == via.is_ipv4() {
        return Ok(());
    }
    let message = format!("{via} cannot lead to {prefix}: they are of different versions");
    Err(ValueError::new(message, "write an address of the same version"))
}

/// Whether a host may have this address.
pub(crate) fn check_host(via: IpAddr, subnets: &[Subnet]) -> Result<(), ValueError> {
    let on_link = subnets.iter().find(|s| s.prefix.contains(via) && s.gateway.is_some());
    if on_link.is_some_and(|s| s.gateway != Some(via)) {
        return Ok(());
    }
    let message = format!("{via} is no host of a subnet that has a gateway");
    Err(ValueError::new(message, "write the address of a host that forwards packets"))
}

/// Whether only one host may have this address.
pub(crate) fn check_reserved(via: IpAddr, reserved: &[Reservation]) -> Result<(), ValueError> {
    if via.is_ipv6() || reserved.iter().any(|r| IpAddr::from(r.ip) == via) {
        return Ok(());
    }
    let message = format!("any host could say that it is {via} and get these packets");
    let help = format!("add [[reservation]] with ip = \"{via}\" and that host's mac");
    Err(ValueError::new(message, help))
}

fn check_prefix(prefix: Prefix, subnets: &[Subnet]) -> Result<(), ValueError> {
    let inside = |s: &Subnet| s.prefix.contains(prefix.addr()) && prefix.len() >= s.prefix.len();
    if !subnets.iter().any(inside) {
        return Ok(());
    }
    let message = format!("{prefix} is in a subnet, where the group delivers itself");
    Err(ValueError::new(message, "route other networks"))
}

/// Reads every `[[route]]`.
pub(crate) fn read_routes(
    root: &Section<'_>,
    subnets: &[Subnet],
    reserved: &[Reservation],
) -> Vec<OutsideRoute> {
    let (problems, mut routes) = (root.problems(), Vec::new());
    for section in root.sections("route", "a route") {
        let prefix = section.require("prefix", "\"0.0.0.0/0\"").parsed("prefix", parse_prefix);
        let via = section.require("via", "\"10.0.0.9\"");
        let via = via.parsed("via", |text| parse_ip::<IpAddr>(text, "10.0.0.9"));
        let (Some(prefix), Some(via)) = (prefix, via) else { continue };
        let (prefix, at, via) = (prefix.value, via.span, via.value);
        let route = OutsideRoute { prefix, via };
        let checked = check_version(prefix, via).and_then(|()| check_host(via, subnets));
        if let Err(e) = checked {
            problems.add(at, e.message, e.help);
        } else if let Err(e) = check_prefix(prefix, subnets) {
            problems.add(section.span(), e.message, e.help);
        } else if let Err(e) = check_reserved(via, reserved) {
            problems.add(at, e.message, e.help);
        } else if routes.contains(&route) {
            problems.add(section.span(), "this route is there twice", "remove one");
        } else if routes.len() == OUTSIDE_ROUTES_MAX {
            let message = format!("there are more than {OUTSIDE_ROUTES_MAX} routes");
            let help = "sum up prefixes, or write them into a file: routes = \"FILE\"";
            problems.add(section.span(), message, help);
        }
        routes.push(route);
    }
    routes.truncate(OUTSIDE_ROUTES_MAX);
    routes
}

impl ControllerSettings {
    /// Moves the routes of the file that `routes` names into the settings: lines of
    /// `PREFIX GATEWAY …`.
    ///
    /// # Errors
    /// With file and line, when the file cannot be read, a line is no route of this group, or there
    /// are more than `routes` of the limits.
    pub fn load_routes(&mut self) -> Result<(), String> {
        let Some(path) = self.routes_file.take() else { return Ok(()) };
        let mut routes = std::mem::take(&mut self.routes);
        let mut known: HashSet<OutsideRoute> = routes.iter().copied().collect();
        // Thousands of prefixes share a gateway.
        let mut good = HashSet::new();
        let most = self.limits.routes as usize;
        let read = read_route_file(&path, |prefix, via| {
            check_prefix(prefix, &self.subnets)?;
            if via.is_empty() {
                return Err(ValueError::new("the route leads nowhere", ROUTE_LINE));
            }
            for text in via {
                let via: IpAddr = parse_ip(text, "10.0.0.9")?;
                check_version(prefix, via)?;
                if !good.contains(&via) {
                    check_host(via, &self.subnets)?;
                    check_reserved(via, &self.reservations)?;
                    good.insert(via);
                }
                let route = OutsideRoute { prefix, via };
                if !known.insert(route) {
                    return Err(ValueError::new("this route is there twice", "remove one"));
                }
                if routes.len() >= most {
                    let message = format!("there are more than {most} routes: see [limits]");
                    return Err(ValueError::new(message, "sum up prefixes"));
                }
                routes.push(route);
            }
            Ok(())
        });
        self.routes = routes;
        read
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use tempfile::NamedTempFile;

    use super::*;
    use crate::ControllerFile;

    const HEAD: &str = "name = \"c1\"\nroutes = \"FILE\"\n[limits]\nroutes = 4\n\
        [[subnet]]\nprefix = \"10.0.0.0/24\"\ngateway = \"10.0.0.1\"\n\
        [[subnet]]\nprefix = \"fd00::/64\"\ngateway = \"fd00::1\"\n\
        [[reservation]]\nmac = \"02:00:00:00:00:09\"\nip = \"10.0.0.9\"\n\
        [[reservation]]\nmac = \"02:00:00:00:00:08\"\nip = \"10.0.0.8\"\n\
        [[route]]\nprefix = \"192.0.2.0/24\"\nvia = \"10.0.0.9\"\n";

    /// The routes of [`HEAD`] with a file of these.
    fn load(lines: &str) -> Result<ControllerSettings, String> {
        let mut routes = NamedTempFile::new().unwrap();
        routes.write_all(lines.as_bytes()).unwrap();
        let text = HEAD.replace("FILE", &routes.path().display().to_string());
        let file = ControllerFile::parse("c1.toml", &text).unwrap();
        assert_eq!(ControllerFile::parse("c1.toml", &file.to_toml()).unwrap(), file);
        let mut settings = file.settings;
        settings.load_routes().map(|()| settings)
    }

    #[test]
    fn a_file_adds_to_the_routes_of_the_settings() {
        let text =
            "# the others\n198.51.100.0/24 10.0.0.9 10.0.0.8 # two\n\n2001:db8::/32 fd00::9\n";
        let routes = load(text).unwrap().routes;
        let texts: Vec<String> = routes.iter().map(|r| format!("{} {}", r.prefix, r.via)).collect();
        let all = [
            "192.0.2.0/24 10.0.0.9",
            "198.51.100.0/24 10.0.0.9",
            "198.51.100.0/24 10.0.0.8",
            "2001:db8::/32 fd00::9",
        ];
        assert_eq!(texts, all);
    }

    #[test]
    fn each_mistake_is_named_with_its_line() {
        let many: String = (0..4).map(|i| format!("198.51.{i}.0/24 10.0.0.9\n")).collect();
        for (text, told) in [
            ("192.0.2.0/24 10.0.0.9\n", ":1: this route is there twice"),
            ("\n198.51.100.0/24\n", ":2: the route leads nowhere"),
            ("198.51.100.0/24 10.0.0.7\n", ":1: any host could say that it is 10.0.0.7"),
            ("198.51.100.0/24 10.0.0.1\n", ":1: 10.0.0.1 is no host of a subnet"),
            ("198.51.100.0/24 fd00::9\n", ":1: fd00::9 cannot lead to"),
            ("10.0.0.128/25 10.0.0.9\n", ":1: 10.0.0.128/25 is in a subnet"),
            ("198.51.100.0/24 blackhole\n", ":1: \"blackhole\" is no address here"),
            ("198.51.100.1/24 10.0.0.9\n", ":1: "),
            (&many, ":4: there are more than 4 routes: see [limits]"),
        ] {
            let error = load(text).unwrap_err();
            assert!(error.contains(told), "{text}: {error}");
        }
        let text = HEAD.replace("FILE", "/nowhere/routes");
        let mut settings = ControllerFile::parse("c1.toml", &text).unwrap().settings;
        let error = settings.load_routes().unwrap_err();
        assert!(error.starts_with("/nowhere/routes: cannot be read"), "{error}");
    }
}

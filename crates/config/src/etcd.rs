//! Where several controllers of a group find the etcd cluster that they share.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::document::{Lines, Section};
use crate::error::{ValueError, quote};
use crate::units::{format_duration, parse_duration};

/// The way to an etcd cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdSettings {
    /// Its members, as URLs.
    pub endpoints: Vec<String>,
    /// The certificate of the authority that has signed the members' ones; absent: no TLS.
    pub ca: Option<PathBuf>,
    /// This controller's certificate and its key.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// Members may be reached without TLS outside this machine.
    pub insecure: bool,
    /// How long a leader leads without a word from etcd.
    pub lease: Duration,
}

const LEASE: Duration = Duration::from_secs(2);
const LEASE_MAX: Duration = Duration::from_secs(60);

impl EtcdSettings {
    pub(crate) fn read(root: &Section<'_>) -> Option<EtcdSettings> {
        let section = root.section("etcd", "the etcd cluster of several controllers")?;
        let problems = section.problems();
        let insecure = section.flag("insecure").is_some_and(|f| f.value);
        let path = |key| section.parsed(key, |text| Ok::<_, ValueError>(PathBuf::from(text)));
        let ca = path("ca").map(|p| p.value);
        let (certificate, key) = (path("certificate"), path("key"));
        if let (Some(one), None) | (None, Some(one)) = (&certificate, &key) {
            let help = "give both: certificate = \"….pem\" and key = \"….pem\"";
            problems.add(one.span.clone(), "a certificate and its key belong together", help);
        }
        if let (Some(one), None) = (&certificate, &ca) {
            let help = "add ca = \"….pem\", or leave it out";
            section.problems().add(one.span.clone(), "a certificate is of use only with TLS", help);
        }
        let parse = |text: &str| parse_endpoint(text, ca.is_some(), insecure);
        let endpoints = section.list("endpoints", parse).unwrap_or_default();
        if endpoints.is_empty() {
            let help = "write endpoints = [\"https://10.0.0.1:2379\", …], one for each member";
            problems.add(section.span(), "an etcd cluster without members", help);
        }
        let lease = section.quantity_or("lease", parse_lease, LEASE);
        let certificate = certificate.zip(key).map(|(c, k)| (c.value, k.value));
        Some(EtcdSettings { endpoints, ca, certificate, insecure, lease })
    }

    pub(crate) fn write(&self, lines: &mut Lines) {
        lines.heading("[etcd]");
        lines.list("endpoints", &self.endpoints);
        lines.given("ca", self.ca.as_ref());
        lines.given("certificate", self.certificate.as_ref().map(|(c, _)| c));
        lines.given("key", self.certificate.as_ref().map(|(_, k)| k));
        lines.unusual("insecure", &self.insecure, &false);
        lines.unusual("lease", &self.lease, &LEASE);
    }
}

fn parse_endpoint(text: &str, has_ca: bool, insecure: bool) -> Result<String, ValueError> {
    let help = |what: &str| ValueError::new(what.to_string(), "write https://ADDRESS:2379");
    let (scheme, rest) = text.split_once("://").unwrap_or(("", text));
    let authority = rest.trim_end_matches('/');
    let is_whole = authority.rsplit_once(':').is_some_and(|(host, port)| {
        !host.is_empty() && !host.contains('/') && port.parse::<u16>().is_ok_and(|p| p > 0)
    });
    match scheme {
        "http" | "https" if !is_whole => Err(help(&format!("{} has no port", quote(text)))),
        "https" if !has_ca => Err(ValueError::new(
            "TLS needs the authority's certificate".to_string(),
            "give ca = \"….pem\"",
        )),
        "https" => Ok(text.to_string()),
        "http" => {
            let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
            let host = host.trim_start_matches('[').trim_end_matches(']');
            let is_here = host == "localhost"
                || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
            if has_ca {
                return Err(ValueError::new(
                    format!("{} is without TLS, and `ca` is for TLS", quote(text)),
                    "write https://, or leave ca, certificate and key out",
                ));
            }
            if is_here || insecure {
                return Ok(text.to_string());
            }
            Err(ValueError::new(
                format!("{} is without TLS, and not on this machine", quote(text)),
                "write https:// and give ca, certificate and key, or insecure = true where nobody \
                 else can reach it",
            ))
        }
        _ => Err(help(&format!("{} is no URL", quote(text)))),
    }
}

fn parse_lease(text: &str) -> Result<Duration, ValueError> {
    let time = parse_duration(text)?;
    if time.subsec_nanos() == 0 && (LEASE..=LEASE_MAX).contains(&time) {
        return Ok(time);
    }
    let range = format!("{} to {}", format_duration(LEASE), format_duration(LEASE_MAX));
    Err(ValueError::new(format!("a lease has whole seconds, {range}"), "write lease = \"2s\""))
}

//! `plexus ndn key`: keys and certificates (packet format, "Certificate").

use std::path::{Path, PathBuf};

use plexus_daemon::certificate;
use plexus_io::clock::unix_ms;
use plexus_io::secret::check_private;
use plexus_ndn_apps::certificate::{Description, issue, make, objection, write};
use plexus_ndn_apps::key::Algorithm;
use plexus_report::say;
use plexus_view::ndn::certificate as shown;
use plexus_wire::ndn::NameBuf;
use plexus_wire::ndn::signature::{Validity, seconds};
use serde_json::json;

use super::signing;
use crate::exit::{Failure, Outcome};
use crate::text::print;

const DAY_S: u64 = 86_400;
/// How long certificates count, as ndnsec's: of a new key, and of one that is signed for another.
const OWN_DAYS: u32 = 7300;
const ISSUED_DAYS: u32 = 365;
/// Up to the year 9999 from whenever.
const DAYS_MAX: i64 = 3_652_058;

/// Make keys and certificates, by which forwarders recognise those that may command. The files have
/// the form of `ndnsec cert-dump` (certificates: Base64) and openssl (keys: PKCS #8 in PEM).
#[derive(clap::Args)]
#[command(after_help = "\
Example: an operator's key, certified by that of a site
  plexus ndn key make /site --out site
  plexus ndn key make /site/op --out op
  plexus ndn key sign op.ndncert --key site.key --certificate site.ndncert --out issued.ndncert
  plexus ndn key show issued.ndncert

Forwarders have site.ndncert among their `anchors` and issued.ndncert among their `certificates`
(examples/ndn.toml); the operator publishes by the key:
  plexus ndn serve /files ~/files --key op.key --certificate issued.ndncert

Whoever holds a .key file can sign with it: keep site.key away from the boxes.")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Make a key and the certificate that it signs itself. Prints the certificate's name.
    #[command(after_help = "Example: plexus ndn key make /site/op --out op")]
    Make {
        /// Whose key it is.
        name: NameBuf,
        /// What to write: FILES.key, which only you can read, and FILES.ndncert. They must not
        /// exist.
        #[arg(long, value_name = "FILES")]
        out: PathBuf,
        /// Kind of key. All of NDN's libraries know P-256.
        #[arg(long = "type", value_name = "TYPE", default_value = "p256")]
        kind: Kind,
        #[command(flatten)]
        period: Period,
    },
    /// Sign another person's certificate. Forwarders that trust your key then trust theirs, for
    /// names below your own. Prints the new certificate's name.
    #[command(after_help = "\
Example:
  plexus ndn key sign op.ndncert --key site.key --certificate site.ndncert --out issued.ndncert")]
    Sign {
        /// The certificate that their key has signed itself; or one of yours, to be renewed.
        #[arg(value_name = "CERTIFICATE")]
        request: PathBuf,
        /// Your private key. Its file must be readable by you alone.
        #[arg(long, value_name = "FILE")]
        key: PathBuf,
        /// Your own certificate.
        #[arg(long, value_name = "FILE")]
        certificate: PathBuf,
        /// The certificate to write; it must not exist.
        #[arg(long, value_name = "FILE")]
        out: PathBuf,
        /// What its name says of you.
        #[arg(long, default_value = "NA", value_name = "ID")]
        issuer: String,
        #[command(flatten)]
        period: Period,
    },
    /// Say what is in a certificate. Its signature is not verified.
    #[command(after_help = "Example: plexus ndn key show issued.ndncert")]
    Show {
        /// The certificate.
        #[arg(value_name = "CERTIFICATE")]
        file: PathBuf,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}

/// When a certificate counts.
#[derive(clap::Args)]
struct Period {
    /// For how many days it counts: unless said, 7300 for what make makes (20 years), 365 for what
    /// sign signs.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=DAYS_MAX))]
    days: Option<u32>,
    /// From when on, in UTC: 2026-11-23, or 2026-11-23T12:00:00. From now on unless said.
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    from: Option<u64>,
}

/// Kinds of keys.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Kind {
    /// ECDSA by NIST's curve.
    P256,
    /// Ed25519.
    Ed25519,
}

/// Runs `plexus ndn key`.
pub(crate) fn run(args: &Args) -> Outcome {
    let now_ms = unix_ms();
    match &args.command {
        Command::Make { name, out, kind, period } => {
            let algorithm = match kind {
                Kind::P256 => Algorithm::P256,
                Kind::Ed25519 => Algorithm::Ed25519,
            };
            let validity = period.validity(now_ms, OWN_DAYS);
            say_name(make(name.as_name(), out, algorithm, validity, now_ms))
        }
        Command::Sign { request, key, certificate, out, issuer, period } => {
            check_private(key).map_err(|why| told(key, why))?;
            let by = signing::read(key, certificate)?;
            let read = certificate::read(request);
            let packet = read.map_err(|why| told(request, why))?;
            let validity = period.validity(now_ms, ISSUED_DAYS);
            let issued = issue(&packet, &by, issuer, validity, now_ms);
            let issued = issued.map_err(|why| told(request, why))?;
            if let Some(why) = objection(&issued, &by) {
                eprintln!("forwarders that trust you will not trust it: {why}");
            }
            say_name(write(out, &issued))
        }
        Command::Show { file, json } => {
            let read = certificate::read(file);
            let packet = read.map_err(|why| told(file, why))?;
            let found = Description::of(&packet, now_ms).map_err(|why| told(file, why))?;
            print(&if *json { format!("{}\n", json!(found)) } else { shown(&found) })
        }
    }
}

/// Says the name of a certificate that was written.
fn say_name(written: Result<NameBuf, String>) -> Outcome {
    say!("{}", written.map_err(Failure::unusable)?);
    Ok(())
}

fn told(file: &Path, why: impl std::fmt::Display) -> Failure {
    Failure::Unusable(format!("{}: {why}", file.display()))
}

impl Period {
    fn validity(&self, now_ms: u64, usual_days: u32) -> Validity {
        let from = self.from.unwrap_or(now_ms / 1000);
        Validity::between(from, from + u64::from(self.days.unwrap_or(usual_days)) * DAY_S)
    }
}

/// A day or a second of one, in UTC, as seconds since 1970.
fn parse_time(text: &str) -> Result<u64, String> {
    let mut digits: String = text.chars().filter(|c| !"-:Z".contains(*c)).collect();
    if !digits.contains('T') {
        digits += "T000000";
    }
    let time = digits.as_bytes().try_into().ok().and_then(seconds);
    time.ok_or_else(|| "write a time of UTC since 1970, as in 2026-11-23T12:00:00".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_days_or_seconds() {
        for text in ["2026-11-23T07:58:44Z", "2026-11-23T07:58:44", "20261123T075844"] {
            assert_eq!(parse_time(text), Ok(1_795_420_724), "{text}");
        }
        assert_eq!(parse_time("2026-11-23"), parse_time("20261123T000000"));
        for text in ["", "T", "2026-13-01", "2026-02-30", "tomorrow", "2026-11-23T25:00:00", "é"] {
            assert!(parse_time(text).is_err(), "{text}");
        }
    }
}

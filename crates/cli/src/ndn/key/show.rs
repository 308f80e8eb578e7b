//! `plexus ndn key show`: what is in a certificate.

use plexus_ndn::management::{KeyError, TrustedKey};
use plexus_wire::ndn::signature::{KeyLocator, seconds};
use plexus_wire::ndn::{Component, Data};
use serde_json::json;

use plexus_wire::hex;

/// It as text, or as JSON.
///
/// # Errors
/// When it is no certificate.
pub(super) fn shown(packet: &[u8], now_ms: u64, as_json: bool) -> Result<String, KeyError> {
    let key = TrustedKey::certificate(packet)?;
    let data = Data::new_checked(packet)?;
    let info = data.signature_info()?;
    let fingerprint = hex(&key.digest());
    let issuer = data.name().get(key.name().len()).map(|id: Component<'_>| id.to_string());
    let period = info.validity.map(|v| (time(&v.not_before), time(&v.not_after)));
    let is_valid = info.validity.is_none_or(|v| v.includes(now_ms));
    let locator = info.key_locator.map(|locator| match locator {
        KeyLocator::Name(name) => name.to_string(),
        KeyLocator::Digest(digest) => hex(digest),
    });
    let is_own = key.has_signed(&data);
    if as_json {
        let (first, last) = period.unzip();
        let shown = json!({
            "name": data.name().to_string(),
            "identity": key.identity().to_string(),
            "key": key.name().to_string(),
            "type": key.algorithm(),
            "sha256": fingerprint,
            "not_before": first,
            "not_after": last,
            "valid": is_valid,
            "issuer": issuer,
            "signature": info.kind.to_string(),
            "signed_by": locator,
            "self_signed": is_own,
        });
        return Ok(format!("{shown}\n"));
    }
    let valid = match period {
        Some((first, last)) => {
            let now = if is_valid { "now" } else { "not now" };
            format!("{first} to {last}: {now}")
        }
        None => "it does not say".into(),
    };
    let by = match is_own {
        true => format!("itself ({})", info.kind),
        false => {
            let by = locator.unwrap_or_else(|| "nobody who is named".into());
            format!("{by} ({}, not verified)", info.kind)
        }
    };
    Ok(format!(
        "name         {}\n\
         key          {} of {}\n\
         fingerprint  {fingerprint} (SHA-256 of the public key)\n\
         valid        {valid}\n\
         issuer       {}\n\
         signed by    {by}\n",
        data.name(),
        key.algorithm(),
        key.identity(),
        issuer.unwrap_or_default()
    ))
}

/// A time of a certificate as people write it; anything else escaped, as it may be a stranger's and
/// is for a terminal.
fn time(text: &[u8; 15]) -> String {
    let t = text.escape_ascii().to_string();
    if seconds(text).is_none() {
        return t;
    }
    format!("{}-{}-{}T{}:{}:{}Z", &t[..4], &t[4..6], &t[6..8], &t[9..11], &t[11..13], &t[13..])
}

#[cfg(test)]
mod tests {
    use super::time;

    #[test]
    fn a_time_that_is_none_says_nothing_to_the_terminal() {
        assert_eq!(time(b"20260102T030405"), "2026-01-02T03:04:05Z");
        assert_eq!(time(b"\x1b[2J\x1b[HxT\n\r\x9b12\0"), r"\x1b[2J\x1b[HxT\n\r\x9b12\x00");
        assert_eq!(time(b"20261302T030405"), "20261302T030405");
    }
}

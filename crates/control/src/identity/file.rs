//! The two files: a box's identity and a group's authority, both secret (the caller sets their
//! permissions, 0600).
//!
//! An error names the wrong line and never quotes it, because it could contain a secret.

use plexus_config::document::{Lines, Section, read_document};
use plexus_config::{FileError, Problem, ValueError, hex};
use zeroize::Zeroizing;

use super::{Authority, AuthorityPublic, Credential, GroupId, Identity, KeyPair};

impl Identity {
    /// The text of the identity's file.
    pub fn to_toml(&self) -> String {
        let mut lines = Lines::default();
        lines.heading(&format!("# {}. Keep this file secret.", self.credential()));
        lines.text("credential", &String::from(self.credential().clone()));
        lines.text("secret", &plexus_wire::hex(self.keys().private()));
        lines.text("authority", &plexus_wire::hex(&self.authority().to_bytes()));
        lines.finish()
    }

    /// Reads the text of an identity's file; `file` is its name in errors.
    ///
    /// # Errors
    /// When it is not one, or its parts do not belong together.
    pub fn from_toml(file: &str, text: &str) -> Result<Identity, FileError> {
        let parts = read_secret(file, text, "an identity", |root| {
            let credential = root.required_text("credential", "\"(312 digits)\"").is_some();
            let credential = credential.then(|| root.parsed("credential", credential_of)).flatten();
            let secret = bytes_of::<32>(root, "secret");
            let authority = root.required_text("authority", "\"(64 digits)\"").is_some();
            let authority = authority.then(|| root.parsed("authority", authority_of)).flatten();
            Some((credential?.value, secret?, authority?.value))
        });
        let (credential, secret, authority) = parts?;
        Identity::new(credential, KeyPair::generate(&secret), authority)
            .map_err(|e| FileError::whole(file, e.message, e.help))
    }
}

impl Authority {
    /// The text of the authority's file.
    pub fn to_toml(&self) -> String {
        let mut lines = Lines::default();
        lines
            .heading("# The authority of a group. Keep this file secret, and away from the boxes.");
        lines.text("group", &plexus_wire::hex(&self.group()));
        lines.text("secret", &plexus_wire::hex(self.secret()));
        lines.text("public", &plexus_wire::hex(&self.public().to_bytes()));
        lines.finish()
    }

    /// Reads the text of an authority's file; `file` is its name in errors.
    ///
    /// # Errors
    /// When it is not one, or its public key is not that of its secret.
    pub fn from_toml(file: &str, text: &str) -> Result<Authority, FileError> {
        let parts = read_secret(file, text, "an authority", |root| {
            let group = bytes_of::<16>(root, "group");
            let secret = bytes_of::<32>(root, "secret");
            let public = bytes_of::<32>(root, "public");
            Some((group?, secret?, public?))
        });
        let (group, secret, public) = parts?;
        let group: GroupId = *group;
        let authority = Authority::new(group, &secret);
        if authority.public().to_bytes() != *public {
            let message = "the public key is not that of the secret";
            return Err(FileError::whole(file, message, "restore the file as it was written"));
        }
        Ok(authority)
    }
}

fn credential_of(text: &str) -> Result<Credential, ValueError> {
    Credential::try_from(text.to_string())
}

fn authority_of(text: &str) -> Result<AuthorityPublic, ValueError> {
    AuthorityPublic::from_bytes(&hex::decode(text)?).ok_or_else(|| {
        let help = "copy the public key of the group's authority";
        ValueError::new("the value is no Ed25519 public key", help)
    })
}

fn bytes_of<const N: usize>(root: &Section<'_>, key: &'static str) -> Option<Zeroizing<[u8; N]>> {
    root.required_text(key, "\"(hexadecimal digits)\"")?;
    Some(Zeroizing::new(root.parsed(key, hex::decode::<N>)?.value))
}

/// Parses a document whose contents must not appear in errors.
fn read_secret<T>(
    file: &str,
    text: &str,
    what: &'static str,
    read: impl FnOnce(&Section<'_>) -> Option<T>,
) -> Result<T, FileError> {
    read_document(file, text, what, read).map_err(|error| {
        let unshown = error.problems().iter().map(|problem| {
            let message = match &problem.span {
                Some(span) => {
                    let (line, _) = error.position(span.start);
                    format!("line {line}: {}", plain(&problem.message))
                }
                None => plain(&problem.message),
            };
            Problem { span: None, message, help: problem.help.clone() }
        });
        FileError::new(file, "", unshown.collect())
    })
}

/// A message without its quotations: a misplaced quote could turn a secret into a key.
fn plain(message: &str) -> String {
    let mut parts = message.split('"');
    let mut out = parts.next().unwrap_or_default().to_string();
    while let (Some(quoted), Some(rest)) = (parts.next(), parts.next()) {
        let known = ["credential", "secret", "authority", "group", "public"].contains(&quoted);
        out.push_str(if known { quoted } else { "…" });
        out.push_str(rest);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::Role;
    use super::*;

    fn pair() -> (Authority, Identity) {
        let authority = Authority::new([0xAB; 16], &[0x5A; 32]);
        let keys = KeyPair::generate(&[0xC3; 32]);
        let credential = authority.issue(9, "c-1", Role::Controller, &keys.public).unwrap();
        let identity = Identity::new(credential, keys, authority.public()).unwrap();
        (authority, identity)
    }

    #[test]
    fn both_files_are_read_back() {
        let (authority, identity) = pair();
        let again = Authority::from_toml("a", &authority.to_toml()).unwrap();
        assert_eq!(again.to_toml(), authority.to_toml());
        let text = identity.to_toml();
        assert!(text.starts_with("# controller c-1 (9) of group abab"), "{text}");
        assert_eq!(Identity::from_toml("i", &text).unwrap().to_toml(), text);
    }

    #[test]
    fn parts_of_different_files_are_refused() {
        let (authority, identity) = pair();
        let line =
            |text: &str, key: &str| text.lines().find(|l| l.starts_with(key)).unwrap().to_string();
        let (own, other) = (identity.to_toml(), authority.to_toml());
        let mixed = own.replace(&line(&own, "secret"), &line(&other, "secret"));
        let error = Identity::from_toml("i", &mixed).unwrap_err().to_string();
        assert!(error.starts_with("i: the private key is not the one"), "{error}");
        let mixed = other.replace(&line(&other, "secret"), &line(&own, "secret"));
        assert!(Authority::from_toml("a", &mixed).is_err());
    }

    #[test]
    fn errors_name_the_line_and_show_no_secret() {
        let (_, identity) = pair();
        let text = identity.to_toml();
        let secret = "c3".repeat(32);
        let at = text.find(&secret).unwrap();
        for broken in [
            text.replace(&secret, &secret[1..]),
            text.replace(&secret, &format!("{}x", &secret[1..])),
            text.replace(&format!("\"{secret}\""), &secret),
            text.replace(&format!("secret = \"{secret}\""), &format!("\"{secret}\" = 1")),
            text[..at + 40].to_string(),
        ] {
            let error = Identity::from_toml("identity.key", &broken).unwrap_err().to_string();
            assert!(error.contains("identity.key: line "), "{error}");
            assert!(!error.contains("c3c3c3"), "{error}");
        }
        let error = Identity::from_toml("identity.key", "").unwrap_err().to_string();
        assert!(error.contains("lacks credential") && error.contains("lacks secret"), "{error}");
    }
}

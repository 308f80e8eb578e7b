//! The machine's network tools: `ip`, `tc`, `ethtool`, `bridge`, run in batches.
//!
//! They speak netlink better than a crate of ours would, every Debian has them, and a user can
//! repeat the lab's commands by hand.

use std::io::{self, Write};
use std::process::{Command, Stdio};

use plexus_io::namespace::Namespaces;

use crate::error::Error;

/// A tool and the Debian package it comes in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tool {
    name: &'static str,
    package: &'static str,
}

pub(crate) const IP: Tool = Tool { name: "ip", package: "iproute2" };
pub(crate) const TC: Tool = Tool { name: "tc", package: "iproute2" };
pub(crate) const BRIDGE: Tool = Tool { name: "bridge", package: "iproute2" };
pub(crate) const ETHTOOL: Tool = Tool { name: "ethtool", package: "ethtool" };

pub(crate) const DHCLIENT: Tool = Tool { name: "dhclient", package: "isc-dhcp-client" };

/// Directories of system tools that may be missing in an ordinary user's PATH.
const SYSTEM_PATHS: &str = "/usr/sbin:/sbin:/usr/bin:/bin";

impl Tool {
    pub(crate) const fn new(name: &'static str, package: &'static str) -> Tool {
        Tool { name, package }
    }

    /// Runs it with `arguments` and `input` inside `place`, or in the caller's namespace.
    ///
    /// # Errors
    /// Names the package if the tool is missing, and quotes its message if it failed.
    pub(crate) fn run(
        self,
        place: Option<&Namespaces>,
        arguments: &[&str],
        input: &str,
    ) -> Result<String, Error> {
        let mut command = Command::new(self.name);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{path}:{SYSTEM_PATHS}")).env("LC_ALL", "C");
        let context = || format!("{} {}", self.name, arguments.join(" "));
        if let Some(place) = place {
            place.apply(&mut command).map_err(|e| Error::system(context(), e))?;
        }
        let mut child = command.spawn().map_err(|e| match e.kind() {
            io::ErrorKind::NotFound => Error::Tool { tool: self.name, package: self.package },
            _ => Error::system(context(), e),
        })?;
        // A tool that ends early stops reading; its message is the better explanation.
        let _ = child.stdin.take().map(|mut pipe| pipe.write_all(input.as_bytes()));
        let output = child.wait_with_output().map_err(|e| Error::system(context(), e))?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let said: Vec<&str> = said.lines().filter(|l| !l.trim().is_empty()).collect();
        Err(Error::Command { command: context(), said: explain(&said, input) })
    }

    /// Runs its batch mode over `lines`, all or up to the first that fails.
    ///
    /// # Errors
    /// As [`run`](Tool::run); the failing line is quoted.
    pub(crate) fn batch(self, place: Option<&Namespaces>, lines: &str) -> Result<(), Error> {
        if lines.is_empty() {
            return Ok(());
        }
        self.run(place, &["-batch", "-"], lines).map(drop)
    }
}

/// A tool's message, with the line of the batch that it means ("Command failed -:3") in full.
fn explain(said: &[&str], input: &str) -> String {
    let failed = said
        .iter()
        .find_map(|l| l.strip_prefix("Command failed -:")?.trim().parse::<usize>().ok())
        .and_then(|n| input.lines().nth(n.checked_sub(1)?));
    let mut text: Vec<&str> =
        said.iter().filter(|l| !l.starts_with("Command failed")).copied().collect();
    let quoted = failed.map(|line| format!("in: {line}"));
    text.extend(quoted.as_deref());
    text.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_batch_quotes_its_line() {
        let e = IP.batch(None, "link show lo\nlink show no-such-device-0\n").unwrap_err();
        let text = e.to_string();
        assert!(text.contains("does not exist"), "{text}");
        assert!(text.contains("in: link show no-such-device-0"), "{text}");
    }

    #[test]
    fn a_missing_tool_names_its_package() {
        let tool = Tool { name: "plexus-no-such-tool", package: "plexus-no-such-package" };
        let text = tool.run(None, &[], "").unwrap_err().to_string();
        assert!(text.contains("plexus-no-such-package"), "{text}");
    }
}

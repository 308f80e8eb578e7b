//! The commands that an operator types after one of ours: they start the daemons of a box, or put
//! changed files into effect.

use std::path::Path;

use plexus_control::identity::Role;
use plexus_io::users::user;

use crate::folder::UNIT_USER;

/// The commands that start the daemons of this box, each with its kind and name. `folder` has
/// their files.
pub fn start_daemons(folder: &Path, daemons: &[(&str, &str)]) -> Vec<String> {
    // sd_booted(3).
    if folder != Path::new("/etc/plexus") || !Path::new("/run/systemd/system").exists() {
        let run = |(kind, name): &(&str, &str)| {
            let file = folder.join(format!("{name}.toml"));
            format!("plexus {kind} run --config {}", file.display())
        };
        return daemons.iter().map(run).collect();
    }
    let mut commands = Vec::new();
    if user(|user| user.name == UNIT_USER).is_none() {
        commands.push(format!("useradd --system --no-create-home {UNIT_USER}"));
        commands.push(format!("chown {UNIT_USER}: {}/*.identity", folder.display()));
    }
    let units = daemons.iter().map(|(kind, name)| format!("plexus-{kind}@{name}"));
    commands.push(format!("systemctl enable --now {}", units.collect::<Vec<_>>().join(" ")));
    commands
}

/// The command by which a daemon takes its new key.
pub fn take_key(role: Role, name: &str) -> String {
    let how = if role == Role::Node { "reload" } else { "restart" };
    format!("systemctl {how} plexus-{role}@{name}")
}

/// The command that puts a changed file of controllers into effect. `controller`: whose file it is;
/// `None`: it is a common file.
pub fn put_into_effect(controller: Option<&str>, file: &Path) -> String {
    match controller {
        Some(name) => format!("systemctl reload plexus-controller@{name}"),
        None => format!("plexus config common apply CONTROLLER {}", file.display()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn daemons_of_another_folder_are_run_by_hand() {
        let commands = start_daemons(Path::new("/tmp/a"), &[("node", "n1"), ("controller", "c1")]);
        assert_eq!(
            commands,
            [
                "plexus node run --config /tmp/a/n1.toml",
                "plexus controller run --config /tmp/a/c1.toml"
            ]
        );
    }
}

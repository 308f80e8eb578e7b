//! Users of this box, as its password file (passwd(5)) has them.

use std::fs;

/// A user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// Its name.
    pub name: String,
    /// Its number.
    pub id: u32,
    /// The number of its group.
    pub group: u32,
}

/// The first user for whom this is true.
pub fn user(is_it: impl Fn(&User) -> bool) -> Option<User> {
    let users = fs::read_to_string("/etc/passwd").ok()?;
    users.lines().filter_map(parse).find(is_it)
}

fn parse(line: &str) -> Option<User> {
    let mut fields = line.split(':');
    let name = fields.next()?.to_string();
    let (id, group) = (fields.nth(1)?.parse().ok()?, fields.next()?.parse().ok()?);
    Some(User { name, id, group })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_a_name_and_two_numbers() {
        let frr = User { name: "frr".into(), id: 108, group: 113 };
        assert_eq!(parse("frr:x:108:113:Frr routing suite,,,:/nonexistent:/bin/false"), Some(frr));
        for line in ["", "frr", "frr:x:108", "frr:x:a:1", "+::::::"] {
            assert_eq!(parse(line), None, "{line}");
        }
        assert_eq!(user(|user| user.id == 0).map(|user| user.name), Some("root".into()));
    }
}

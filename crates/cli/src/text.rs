//! Words of more than one command.

/// A number of things: `1 port`, `2 ports`.
pub(crate) fn plural(count: impl Into<u64>, what: &str) -> String {
    match count.into() {
        1 => format!("1 {what}"),
        many => format!("{many} {what}s"),
    }
}

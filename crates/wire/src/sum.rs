/// Adds these fields of one value to those of another.
#[macro_export]
macro_rules! add_fields {
    ($to:expr, $from:expr; $($field:ident),*) => { $($to.$field += $from.$field;)* };
}

//! Sets a group of boxes up, and finds what is wrong with one of them. `plexus group`, `identity`,
//! `config` and `doctor` call it.
//!
//! Its commands only write the files that people can write by hand ([`folder`]): nothing is kept
//! elsewhere. None of them writes over a file, and none takes a network device that somebody
//! evidently needs ([`interface`]).
//!
//! - [`create`]: the files of the first box. [`invite`] and [`join`]: the two ends of the exchange
//!   that gives a new box its identity (`plexus_control::join`), over TCP.
//! - [`identity`]: single identities, for groups whose files people write themselves.
//! - [`port`]: one more port in a node's file. [`drain`]: has routes avoid a node.
//! - [`commands`]: those that an operator types next.
//! - [`edit`]: one key of a file that people write, and the difference of two texts. [`check`]:
//!   which kind of file it is, and what is wrong with it. [`rollback`]: runs an earlier version.
//! - [`revoke`]: takes a box out of the group. [`rotate`]: gives a box a new key.
//! - [`doctor`]: reads facts and judges them; it changes nothing.

pub mod check;
pub mod commands;
pub mod create;
pub mod doctor;
pub mod drain;
pub mod edit;
pub mod folder;
pub mod identity;
pub mod interface;
pub mod invite;
pub mod join;
pub mod port;
pub mod revoke;
pub mod rollback;
pub mod rotate;
mod settings;
mod stream;

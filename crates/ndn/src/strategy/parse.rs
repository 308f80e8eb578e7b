//! Strategies by name: `/localhost/nfd/strategy/NAME[/v=VERSION[/PARAMETER~VALUE…]]`.

use std::str::FromStr;
use std::time::Duration;

use plexus_wire::ndn::{Component, Name, NameBuf, types};

use super::{Asf, Strategy, Suppression};

/// The prefix of all strategy names, as bytes.
const PREFIX: [&str; 3] = ["localhost", "nfd", "strategy"];

/// Why a name is not accepted as a strategy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StrategyError {
    /// No strategy has this name.
    #[error(
        "no strategy is called {0}: /localhost/nfd/strategy/ has {names}",
        names = names()
    )]
    Unknown(NameBuf),
    /// The strategy has no such version.
    #[error("{name} has versions 1 to {newest}, not {asked}: leave the version out for the newest")]
    Version {
        /// The strategy.
        name: &'static str,
        /// The version in the name.
        asked: u64,
        /// The newest version.
        newest: u64,
    },
    /// An unknown parameter, or a value out of range.
    #[error("the parameter {0:?} is not NAME~VALUE of this strategy, or its value is out of range")]
    Parameter(String),
    /// The limit of prefixes with a strategy of their own is reached.
    #[error("{0} prefixes have a strategy of their own, as many as may: unset another first")]
    Full(usize),
    /// The name of the prefix is too long, or there are too many.
    #[error(transparent)]
    Prefix(#[from] crate::fib::FibError),
}

/// A strategy's name, its newest version, and the strategy itself with these parameters.
type Known = (&'static str, u64, fn(Suppression, Asf) -> Strategy);

/// Strategies of NFD and our own. Older versions (ndnd says v=1) are treated as the newest.
const KNOWN: [Known; 5] = [
    ("best-route", 5, |suppression, _| Strategy::BestRoute(suppression)),
    ("multicast", 5, |suppression, _| Strategy::Multicast(suppression)),
    ("asf", 5, |suppression, asf| Strategy::Asf(Asf { suppression, ..asf })),
    ("random", 1, |suppression, _| Strategy::Random(suppression)),
    ("weighted", 1, |suppression, _| Strategy::Weighted(suppression)),
];

fn names() -> String {
    let [first @ .., last] = KNOWN.map(|(name, ..)| name);
    format!("{} and {last}", first.join(", "))
}

impl Strategy {
    /// The strategy of a name, and its full name with the version.
    ///
    /// # Errors
    /// [`StrategyError`].
    pub fn from_name(name: Name<'_>) -> Result<(Strategy, NameBuf), StrategyError> {
        let unknown = || StrategyError::Unknown(name.to_buf());
        let mut components = name.components();
        for expected in PREFIX {
            let found = components.next().ok_or_else(unknown)?;
            if found != Component::generic(expected.as_bytes()) {
                return Err(unknown());
            }
        }
        let kind = components.next().ok_or_else(unknown)?;
        let (kind, newest, strategy) = *KNOWN
            .iter()
            .find(|(known, ..)| kind == Component::generic(known.as_bytes()))
            .ok_or_else(unknown)?;
        let mut full = name.to_buf();
        match components.next() {
            None => {
                let version = [newest as u8];
                let component = Component { kind: types::VERSION as u16, value: &version };
                full.push(component).map_err(|_| unknown())?;
            }
            Some(version) => {
                let asked = version.number(types::VERSION).ok_or_else(unknown)?;
                if !(1..=newest).contains(&asked) {
                    return Err(StrategyError::Version { name: kind, asked, newest });
                }
            }
        }
        let mut suppression = Suppression::default();
        let mut asf = Asf::default();
        for component in components {
            let text = String::from_utf8_lossy(component.value).into_owned();
            let is_asf = strategy(suppression, asf).measures().is_some();
            if set(&text, &mut suppression, is_asf.then_some(&mut asf)).is_none() {
                return Err(StrategyError::Parameter(text));
            }
        }
        let wrong = |text: &str| Err(StrategyError::Parameter(text.into()));
        if suppression.max_ms < suppression.initial_ms {
            return wrong("retx-suppression-max (below retx-suppression-initial)");
        }
        if asf.lifetime <= asf.probing_interval {
            return wrong("measurements-lifetime (not above probing-interval)");
        }
        Ok((strategy(suppression, asf), full))
    }
}

fn set(text: &str, suppression: &mut Suppression, asf: Option<&mut Asf>) -> Option<()> {
    let (name, value) = text.split_once('~')?;
    let number = |min: u32| u32::from_str(value).ok().filter(|n| *n >= min);
    let ms = |min: u32| number(min).map(|ms| Duration::from_millis(ms.into()));
    match (name, asf) {
        ("retx-suppression-initial", _) => suppression.initial_ms = number(1)?,
        ("retx-suppression-max", _) => suppression.max_ms = number(1)?,
        ("retx-suppression-multiplier", _) => {
            let multiplier = f32::from_str(value).ok()?;
            suppression.multiplier = Some(multiplier).filter(|m| m.is_finite() && *m >= 1.0)?;
        }
        ("probing-interval", Some(asf)) => asf.probing_interval = ms(1_000)?,
        ("max-timeouts", Some(asf)) => asf.max_timeouts = number(1)?,
        ("measurements-lifetime", Some(asf)) => asf.lifetime = ms(1)?,
        _ => return None,
    }
    Some(())
}

use plexus_wire::ndn::NameBuf;

use super::*;

fn parse(text: &str) -> Result<(Strategy, String), StrategyError> {
    let name: NameBuf = text.parse().unwrap();
    Strategy::from_name(name.as_name()).map(|(strategy, full)| (strategy, full.to_string()))
}

#[test]
fn names_and_parameters_are_those_of_nfd() {
    let (strategy, full) = parse("/localhost/nfd/strategy/best-route").unwrap();
    assert_eq!(
        (strategy, &full[..]),
        (Strategy::default(), "/localhost/nfd/strategy/best-route/v=5")
    );
    let text = "/localhost/nfd/strategy/multicast/v=4/retx-suppression-initial~20\
                /retx-suppression-max~100/retx-suppression-multiplier~1.5";
    let expected = Suppression { initial_ms: 20, max_ms: 100, multiplier: 1.5 };
    assert_eq!(parse(text).unwrap(), (Strategy::Multicast(expected), text.into()));
    let text = "/localhost/nfd/strategy/asf/v=5/probing-interval~30000/max-timeouts~5\
                /measurements-lifetime~120000";
    let Strategy::Asf(asf) = parse(text).unwrap().0 else { panic!() };
    assert_eq!((asf.probing_interval.as_secs(), asf.max_timeouts), (30, 5));
    assert_eq!(asf.lifetime.as_secs(), 120);
    assert!(matches!(parse("/localhost/nfd/strategy/random").unwrap().0, Strategy::Random(_)));
    assert!(matches!(
        parse("/localhost/nfd/strategy/weighted/v=1").unwrap().0,
        Strategy::Weighted(_)
    ));
}

#[test]
fn unknown_strategies_are_refused_with_advice() {
    let head = "/localhost/nfd/strategy";
    for text in [
        "/",
        "/localhost/nfd",
        "/localhost/nfd/strategy",
        "/localhost/nfd/strategy/best",
        "/localhost/nfd/strategy/asf/5",
        // A strategy of NFD that we do not have.
        "/localhost/nfd/strategy/self-learning",
        "/localhost/nfd/strategy/access",
    ] {
        assert!(matches!(parse(text), Err(StrategyError::Unknown(_))), "{text}");
    }
    let error = parse(&format!("{head}/asf/v=6")).unwrap_err();
    assert_eq!(error, StrategyError::Version { name: "asf", asked: 6, newest: 5 });
    for text in [
        "best-route/v=5/probing-interval~30000",
        "best-route/v=5/retx-suppression-initial",
        "best-route/v=5/retx-suppression-initial~0",
        "best-route/v=5/retx-suppression-initial~300",
        "best-route/v=5/retx-suppression-multiplier~0.5",
        "best-route/v=5/retx-suppression-multiplier~nan",
        "asf/v=5/probing-interval~10",
        "asf/v=5/probing-interval~300000",
        "asf/v=5/max-timeouts~0",
        "asf/v=5/colour~red",
    ] {
        let parsed = parse(&format!("{head}/{text}"));
        assert!(matches!(parsed, Err(StrategyError::Parameter(_))), "{text}: {parsed:?}");
    }
}

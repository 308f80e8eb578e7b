//! docs/control-socket.md is what the types are: every example is read as its type and written
//! again, and no topic is without one.

use std::collections::BTreeSet;

use plexus_api::answer::config::{Applied, Common as State, Running, Text, Versions};
use plexus_api::answer::explain::Explained;
use plexus_api::answer::fabric::GroupRoute;
use plexus_api::answer::network::{Network, Ways};
use plexus_api::answer::router::{Route, Routes};
use plexus_api::answer::{About, Done, Frame, Metrics};
use plexus_api::question::Of;
use plexus_api::{Answer, Common, Config, Request, Topic};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Each example: the request above it, and the answer.
fn examples() -> Vec<(Request, Value)> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/control-socket.md");
    let text = std::fs::read_to_string(path).unwrap();
    let blocks = text.split("```json\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let example = |block: &str| {
        let (request, answer) = block.split_once('\n').unwrap();
        let request = Request::read(request.as_bytes()).unwrap_or_else(|e| panic!("{e}: {block}"));
        let answer = serde_json::from_str(answer).unwrap_or_else(|e| panic!("{e}: {block}"));
        (request, answer)
    };
    blocks.map(example).collect()
}

/// The answer, read and written again.
fn as_type<T: DeserializeOwned + Serialize>(answer: &Value) -> Value {
    let typed: T =
        serde_json::from_value(answer.clone()).unwrap_or_else(|e| panic!("{e}: {answer:#}"));
    serde_json::to_value(typed).unwrap()
}

#[test]
fn every_example_is_of_its_type() {
    for (request, answer) in examples() {
        let again = match &request {
            Request::Show(topic) => {
                let typed = Answer::read(*topic, answer.clone());
                let typed = typed.unwrap_or_else(|e| panic!("{}: {e}", topic.name()));
                serde_json::to_value(typed).unwrap()
            }
            Request::Route(_) => as_type::<Of<Route, GroupRoute>>(&answer),
            Request::RoutesFrom(_) => as_type::<Routes>(&answer),
            Request::Network(_) => as_type::<Network>(&answer),
            Request::Ways(_) => as_type::<Ways>(&answer),
            Request::Explain(_) => as_type::<Explained>(&answer),
            Request::Trace(_) => as_type::<Frame>(&answer),
            Request::Version(_) => as_type::<About>(&answer),
            Request::Metrics(_) => as_type::<Metrics>(&answer),
            Request::Config(Config::Running(_)) => as_type::<Running>(&answer),
            Request::Config(Config::Versions(_)) => as_type::<Versions>(&answer),
            Request::Config(Config::Text(_)) => as_type::<Text>(&answer),
            Request::Common(Common::State(_)) => as_type::<State>(&answer),
            Request::Common(Common::Text(_)) => as_type::<Text>(&answer),
            Request::Config(_) | Request::Common(_) => as_type::<Applied>(&answer),
            Request::Silence(_) | Request::Reload(_) | Request::Drain(_) | Request::Stop(_) => {
                as_type::<Done>(&answer)
            }
        };
        assert_eq!(again, answer, "{request:?}");
    }
}

#[test]
fn every_request_and_topic_has_an_example() {
    let all = examples();
    let shown: BTreeSet<&str> = all
        .iter()
        .filter_map(|(request, _)| match request {
            Request::Show(topic) => Some(topic.name()),
            _ => None,
        })
        .collect();
    let lacking: Vec<&str> =
        Topic::ALL.iter().map(|t| t.name()).filter(|name| !shown.contains(name)).collect();
    assert!(lacking.is_empty(), "no example of show {}", lacking.join(", "));
    let kinds: BTreeSet<_> =
        all.iter().map(|(r, _)| format!("{:?}", std::mem::discriminant(r))).collect();
    assert_eq!(kinds.len(), 15, "a request has no example");
}

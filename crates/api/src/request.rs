//! Requests of clients.

use std::net::IpAddr;
use std::num::NonZeroU32;

use plexus_wire::Prefix;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::answer::explain::Question;
use crate::answer::network::Pair;
use crate::{Topic, VERSION};

/// A line of a client: `{"show":"ports"}`, `{"route":"192.0.2.1"}`. A request without an argument
/// has the value `true`: `{"reload":true}`.
///
/// The line may also have `"api":1`, the [`VERSION`] that the client speaks. A daemon of another
/// version then answers with an error that names both.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// Facts and counts of the daemon.
    Show(Topic),
    /// A router's action on packets to an address, with its reasons:
    /// [`Route`](crate::answer::router::Route). Of a controller, that of its group, with the boxes
    /// on the way: [`GroupRoute`](crate::answer::fabric::GroupRoute).
    Route(IpAddr),
    /// A router's routes in use from a prefix on:
    /// [`Routes`](crate::answer::router::Routes).
    RoutesFrom(Prefix),
    /// The whole network that a controller knows:
    /// [`Network`](crate::answer::network::Network).
    Network(bool),
    /// The ways of a host's flows: [`Ways`](crate::answer::network::Ways).
    Ways(Pair),
    /// The way of a frame, and the reasons for it:
    /// [`Explained`](crate::answer::explain::Explained).
    Explain(Question),
    /// The frames that pass a port, a [`Frame`](crate::answer::Frame) a line until the client hangs
    /// up.
    Trace(Trace),
    /// Makes a port deaf, or hear again.
    Silence(Silence),
    /// Reads the configuration file again.
    Reload(bool),
    /// Versions of the configuration.
    Config(Config),
    /// The common file of a group, of the controller that leads.
    Common(Common),
    /// A controller that leads hands over to another one.
    Drain(bool),
    /// Ends the daemon.
    Stop(bool),
    /// The daemon's metrics as Prometheus reads them: [`Metrics`](crate::answer::Metrics).
    Metrics(bool),
    /// The daemon's name and versions: [`About`](crate::answer::About).
    Version(bool),
}

/// The frames of a port: `"p1"`, or `{"port":"p1","sample":100}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// The port's name.
    pub port: String,
    /// Leave the port's flows in the kernel's fast table, and show about one in so many of their
    /// packets that come in. None: show every frame, for which flows leave the fast table.
    pub sample: Option<NonZeroU32>,
}

/// A trace of samples.
#[derive(Serialize, Deserialize)]
#[serde(expecting = "a port's name, or {\"port\":\"p1\",\"sample\":100}")]
struct SampledTrace {
    port: String,
    sample: Option<NonZeroU32>,
}

impl Serialize for Trace {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Trace { port, sample } = self;
        match sample {
            None => port.serialize(serializer),
            Some(_) => SampledTrace { port: port.clone(), sample: *sample }.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Trace {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Trace, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::String(port) => Ok(Trace { port, sample: None }),
            other => {
                let read = serde_json::from_value(other).map_err(D::Error::custom)?;
                let SampledTrace { port, sample } = read;
                Ok(Trace { port, sample })
            }
        }
    }
}

/// A port hears nothing while its link stays up, like a cable that dies and keeps its carrier.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Silence {
    /// The port's name.
    pub port: String,
    /// Whether it is deaf.
    pub on: bool,
}

/// A request about the versions of a daemon's configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Config {
    /// The text that the daemon runs: [`Running`](crate::answer::config::Running).
    Running(bool),
    /// The kept versions: [`Versions`](crate::answer::config::Versions).
    Versions(bool),
    /// The text of a kept version: [`Text`](crate::answer::config::Text).
    Text(u64),
    /// Keeps the text that is in the file, whatever it is, with a comment: its number comes as
    /// [`Applied`](crate::answer::config::Applied) if it is new.
    Keep(String),
    /// Adopts the file: [`Applied`](crate::answer::config::Applied).
    Apply(Apply),
    /// Ends a trial well: [`Applied`](crate::answer::config::Applied).
    Confirm(bool),
    /// Ends a trial by going back: [`Applied`](crate::answer::config::Applied).
    Back(bool),
}

/// How the file is adopted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Apply {
    /// Go back after so many seconds without [`Config::Confirm`].
    pub confirm_within_s: Option<u64>,
    /// A comment for the version.
    pub comment: String,
}

/// A request about the common file of a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Common {
    /// The kept versions, and the one of each node: [`Common`](crate::answer::config::Common).
    State(bool),
    /// The text of a version: [`Text`](crate::answer::config::Text).
    Text(u64),
    /// Has all nodes run a text: [`Applied`](crate::answer::config::Applied).
    Apply(CommonApply),
    /// Ends a trial well: [`Applied`](crate::answer::config::Applied).
    Confirm(bool),
    /// Ends a trial by going back: [`Applied`](crate::answer::config::Applied).
    Back(bool),
}

/// A text for all nodes of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommonApply {
    /// The common file.
    pub text: String,
    /// Nodes go back after so many seconds without [`Common::Confirm`].
    #[serde(default)]
    pub confirm_within_s: Option<u64>,
    /// A comment for the version.
    #[serde(default)]
    pub comment: String,
}

impl Request {
    /// Reads a line of a client.
    ///
    /// # Errors
    /// In words for the client.
    pub fn read(line: &[u8]) -> Result<Request, String> {
        let mut line: Value = serde_json::from_slice(line).map_err(|e| format!("not JSON: {e}"))?;
        let fields =
            line.as_object_mut().ok_or("a request is a JSON object: {\"show\":\"ports\"}")?;
        match fields.remove("api") {
            None => {}
            Some(api) if api == VERSION => {}
            Some(api) => {
                return Err(format!(
                    "this daemon speaks version {VERSION} of the control socket, the client \
                     {api}: use the `plexus` that the daemon was started with"
                ));
            }
        }
        if let Some(what) = fields.get("show").and_then(Value::as_str)
            && Topic::of_name(what).is_none()
        {
            let names: Vec<&str> = Topic::ALL.iter().map(|t| t.name()).collect();
            return Err(format!("'{what}' cannot be shown: there are {}", names.join(", ")));
        }
        serde_json::from_value(line).map_err(|e| {
            format!(
                "not understood: {e}. A request is one of show, route, routes_from, network, \
                 ways, explain, trace, silence, reload, config, common, drain, stop, metrics and \
                 version"
            )
        })
    }

    /// The request as a line, with the version.
    pub fn to_line(&self) -> String {
        let mut line = serde_json::to_value(self).unwrap_or_default();
        line["api"] = VERSION.into();
        format!("{line}\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_request_with_or_without_a_version() {
        let shown = Request::Show(Topic::SourceRoutes);
        for line in [r#"{"show":"source-routes"}"#, r#"{"api":1,"show":"source-routes"}"#] {
            assert_eq!(Request::read(line.as_bytes()).as_ref(), Ok(&shown));
        }
        let silence = Request::Silence(Silence { port: "p1".into(), on: true });
        for request in [
            shown,
            Request::Route("192.0.2.1".parse().unwrap()),
            Request::RoutesFrom("192.0.2.0/24".parse().unwrap()),
            Request::Network(true),
            Request::Ways(Pair { from: Some(plexus_wire::MacAddr::default()), to: None }),
            Request::Explain(Question { port: Some("p1".into()), ..Question::default() }),
            Request::Trace(Trace { port: "p1".into(), sample: None }),
            Request::Trace(Trace { port: "p1".into(), sample: NonZeroU32::new(100) }),
            silence,
            Request::Reload(true),
            Request::Config(Config::Running(true)),
            Request::Config(Config::Text(3)),
            Request::Config(Config::Apply(Apply {
                confirm_within_s: Some(120),
                comment: "x".into(),
            })),
            Request::Common(Common::Apply(CommonApply {
                text: "[all.switch]\nageing = \"60s\"\n".into(),
                ..CommonApply::default()
            })),
            Request::Drain(true),
            Request::Stop(true),
            Request::Metrics(true),
            Request::Version(true),
        ] {
            assert_eq!(Request::read(request.to_line().as_bytes()), Ok(request));
        }
    }

    #[test]
    fn a_trace_of_all_frames_is_a_port_s_name() {
        let all = Request::Trace(Trace { port: "p1".into(), sample: None });
        assert_eq!(all.to_line(), "{\"api\":1,\"trace\":\"p1\"}\n");
        for line in [r#"{"trace":"p1"}"#, r#"{"trace":{"port":"p1"}}"#] {
            assert_eq!(Request::read(line.as_bytes()).as_ref(), Ok(&all));
        }
        let told = Request::read(br#"{"trace":{"port":"p1","sample":0}}"#).unwrap_err();
        assert!(told.contains("integer `0`, expected a nonzero u32"), "{told}");
    }

    #[test]
    fn bad_lines_are_refused_with_what_there_is() {
        let told = |line: &str| Request::read(line.as_bytes()).unwrap_err();
        assert!(told("{").starts_with("not JSON"), "{}", told("{"));
        assert!(told("[]").contains("JSON object"), "{}", told("[]"));
        assert!(told(r#"{"show":"mac"}"#).contains("there are ports, macs, drops"));
        let other = told(r#"{"api":2,"show":"ports"}"#);
        assert!(other.contains("version 1") && other.contains("client 2"), "{other}");
        for bad in ["{}", r#"{"sohw":"ports"}"#, r#"{"route":"x"}"#, r#"{"silence":{"port":"p"}}"#]
        {
            assert!(told(bad).contains("one of show, route"), "{}", told(bad));
        }
    }
}

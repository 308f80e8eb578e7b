//! Nodes that lie, that are silent, and traces that are too large: the controller says so, and is
//! none the worse.

use std::time::Duration;

use plexus_wire::fabric::message::{Body, Explain, Explained, Leaving, Step};

use super::net::{HOST_PORT, NODE_PORT, Net, mac};
use crate::{Answer, Config, Input, NextPlace, NodeId, Trace, TraceStart};

/// Nodes in a row, each with its host.
fn net(nodes: u32) -> Net {
    let pairs: Vec<(u32, u32)> = (1..nodes).map(|n| (n - 1, n)).collect();
    Net::joined(Config::default(), nodes, &pairs).with_hosts()
}

fn begin(net: &mut Net, at: Option<(NodeId, u8)>) {
    let frame = [&mac(2).0[..], &mac(1).0, &[8, 9], &[0; 46]].concat();
    let start = TraceStart { at, frame, resolve: false };
    net.input(Input::Explain { question: 9, start });
}

/// The questions that nodes have got.
fn asked(net: &mut Net) -> Vec<(NodeId, Explain)> {
    net.taken(|body| match body {
        Body::Explain(asked) => Some(asked.clone()),
        _ => None,
    })
}

fn leaving(port: u8, head: &[u8], from: u16) -> Leaving {
    Leaving { port, port_name: b"p\x1b[31m".to_vec(), head: head.to_vec(), from }
}

fn answer(net: &mut Net, node: NodeId, question: u64, leaves: Vec<Leaving>) {
    let steps = Step::write_all(&[Step::FromNode {}]);
    net.say(node, Explained { question, port_name: b"p".to_vec(), steps, leaves, more: 0 });
}

fn ended(net: &mut Net) -> Trace {
    net.traces.pop().expect("the trace has ended").unwrap()
}

fn next(trace: &Trace, place: usize) -> Vec<NextPlace> {
    match &trace.boxes[place].answer {
        Answer::Told { leaves, .. } => leaves.iter().map(|left| left.next).collect(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn ports_without_a_cable_and_absent_hosts_are_seen() {
    let mut net = net(2);
    begin(&mut net, None);
    let (node, first) = asked(&mut net).remove(0);
    assert_eq!((node, first.port), (1, HOST_PORT));
    // A stranger, and the wrong number: neither counts.
    answer(&mut net, 2, first.question, vec![]);
    answer(&mut net, 1, first.question + 5, vec![]);
    assert!(net.traces.is_empty());
    // A port that no cable is at, the host's own port, and the cable.
    let leaves = vec![leaving(77, &[], 0), leaving(HOST_PORT, &[], 0), leaving(NODE_PORT, &[1], 0)];
    answer(&mut net, 1, first.question, leaves);
    let (node, second) = asked(&mut net).remove(0);
    assert_eq!((node, second.port, second.frame[0]), (2, NODE_PORT, 1));
    answer(&mut net, 2, second.question, vec![leaving(HOST_PORT, &[], 1)]);
    let trace = ended(&mut net);
    let strangers = NextPlace::Strangers;
    assert_eq!(next(&trace, 0), [NextPlace::NoCable, strangers, NextPlace::Box(1)]);
    assert_eq!(next(&trace, 1), [NextPlace::Host(mac(2))]);
    // Escape sequences of a node reach no terminal.
    let Answer::Told { leaves, .. } = &trace.boxes[0].answer else { panic!("{trace:?}") };
    assert_eq!(leaves[0].port_name, "p[31m");
}

#[test]
fn an_answer_that_makes_no_sense_ends_there() {
    for (steps, from) in [(vec![99], 0), (vec![3], 9999)] {
        let mut net = net(2);
        begin(&mut net, None);
        let (_, first) = asked(&mut net).remove(0);
        let leaves = vec![leaving(NODE_PORT, &[], from)];
        let (question, port_name) = (first.question, vec![]);
        net.say(1, Explained { question, port_name, steps, leaves, more: 0 });
        assert_eq!(ended(&mut net).boxes[0].answer, Answer::Malformed);
    }
}

#[test]
fn nodes_that_send_a_frame_round_are_asked_a_bounded_number_of_times() {
    // As it came: the second time it is known.
    let mut net = net(2);
    begin(&mut net, None);
    for turn in 0.. {
        let Some((node, question)) = asked(&mut net).pop() else {
            assert_eq!(turn, 3);
            break;
        };
        answer(&mut net, node, question.question, vec![leaving(NODE_PORT, &[], 0)]);
    }
    assert_eq!(next(&ended(&mut net), 2), [NextPlace::Loop]);
    // Changed each time, in copies: neither boxes nor copies grow beyond their limits.
    begin(&mut net, None);
    let mut turn = 0u32;
    while let Some((node, question)) = asked(&mut net).pop() {
        turn += 1;
        let head = |n: u8| [&turn.to_be_bytes()[..], &[n]].concat();
        let leaves = (0..3).map(|n| leaving(NODE_PORT, &head(n), 5)).collect();
        answer(&mut net, node, question.question, leaves);
        let waiting = asked(&mut net);
        for (node, question) in waiting {
            let leaves = vec![leaving(NODE_PORT, &head(9), 5), leaving(NODE_PORT, &head(8), 5)];
            answer(&mut net, node, question.question, leaves);
        }
        assert!(turn < 1000);
    }
    while net.traces.is_empty() {
        net.now = net.controller.next_deadline();
        net.input(Input::Tick);
        asked(&mut net);
    }
    let trace = ended(&mut net);
    assert!(trace.boxes.len() <= 255 && trace.more > 0, "{}", trace.boxes.len());
}

#[test]
fn a_silent_node_is_asked_once_more_and_one_without_a_session_not_at_all() {
    let mut net = net(2);
    begin(&mut net, None);
    assert_eq!(asked(&mut net).len(), 1);
    net.now = net.now + Duration::from_millis(500);
    net.input(Input::Tick);
    assert_eq!(asked(&mut net).len(), 1);
    assert!(net.traces.is_empty());
    net.now = net.now + Duration::from_millis(500);
    net.input(Input::Tick);
    assert_eq!(ended(&mut net).boxes[0].answer, Answer::Silent);
    begin(&mut net, Some((2, 99)));
    assert!(net.traces.pop().unwrap().unwrap_err().contains("the node has no port 99"));
    net.input(Input::NodeDown { node: 2 });
    begin(&mut net, Some((2, NODE_PORT)));
    assert!(asked(&mut net).is_empty());
    assert_eq!(ended(&mut net).boxes[0].answer, Answer::Down);
}

#[test]
fn too_many_traces_at_once_and_frames_that_are_too_long_are_refused() {
    let mut net = net(2);
    let frame = |len: usize| [&mac(2).0[..], &mac(1).0, &vec![0; len - 12]].concat();
    let mut ask = |question, frame| {
        let start = TraceStart { at: None, frame, resolve: false };
        net.input(Input::Explain { question, start });
        net.traces.pop().map(Result::unwrap_err)
    };
    assert!(ask(1, frame(1100)).unwrap().contains("1024 bytes"));
    let none = ask(2, [&mac(2).0[..], &mac(9).0, &[8, 9]].concat());
    assert!(none.unwrap().contains("knows no host 02:00:00:00:00:09"));
    assert!((10..18).all(|question| ask(question, frame(60)).is_none()));
    assert!(ask(18, frame(60)).unwrap().contains("ask again"));
}

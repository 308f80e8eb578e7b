//! The questions of version 2 (SPEC.md, §11.1): what is said about an exchange in short. Where a
//! short body cannot say it, the one of version 1 does.

use plexus_wire::fabric::ROUTER_HOP;
use plexus_wire::fabric::message::{
    Body, Hops, Ips, ResolveForward, ResolveReply, ResolveRequest, Routes, Secret, ShortForward,
    ShortReply, ShortRequest,
};

use super::super::Node;
use super::super::effect::{Effect, Event, Turn};
use crate::exchange;
use crate::session::frame::Reply;
use crate::session::keyed;
use crate::version;

/// How the answer to a question goes to the source node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ShortAnswer {
    key: [u8; 32],
    target_port: u8,
    /// Which of the routes to the target the answer records on its way, from 1; 0: none.
    recorded: u8,
}

/// The request of an exchange in this version. The controller knows who has the address at the
/// port; if not, it leaves the first request without an answer, and the next one says it.
pub(crate) fn request(version: u8, request: ResolveRequest, secret: Secret, first: bool) -> Body {
    let ips = Ips::new(request.source_ip, request.target_ip);
    let Some(ips) = ips.filter(|_| version >= version::SHORT) else { return request.into() };
    let ResolveRequest { port, source_mac, source_ip, .. } = request;
    let is_known = first && port != ROUTER_HOP && !source_ip.is_unspecified();
    let source_mac = (!is_known).then_some(source_mac);
    ShortRequest { secret, port, source_mac, ips }.into()
}

/// A short forward as a whole one; `None` if it has no route.
pub(crate) fn forward(short: ShortForward) -> Option<(ResolveForward, ShortAnswer)> {
    let ShortForward { secret, source_mac, recorded, ips, .. } = short;
    let target_port = *short.to_target.hops().first()?.last()?;
    if usize::from(recorded) > short.to_target.hops().len() || short.to_source.hops().is_empty() {
        return None;
    }
    let forward = ResolveForward {
        exchange: exchange::number(&secret, source_mac),
        key: exchange::key(&secret, source_mac),
        version: short.version.0,
        source_mac,
        source_ip: ips.source(),
        target_mac: short.target_mac,
        target_ip: ips.target(),
        target_port,
        to_source: short.to_source.into(),
        to_target: short.to_target.into(),
    };
    let key = exchange::reply_key(&secret, source_mac);
    Some((forward, ShortAnswer { key, target_port, recorded }))
}

/// The sealed reply; `None` if it does not fit a short one.
pub(crate) fn seal(number: u64, reply: &ResolveReply, short: &ShortAnswer) -> Option<Vec<u8>> {
    let mut told = reply.to_target.clone();
    let at = usize::from(short.recorded).checked_sub(1).filter(|at| *at < told.len());
    let recorded = at.map(|at| told.remove(at));
    let way = recorded.as_ref().and_then(|hops| hops.split_last()).map(|(_, way)| way);
    let body = ShortReply {
        target_mac: reply.target_mac,
        target_port: short.target_port,
        recorded: short.recorded,
        to_target: Routes::new(told)?,
    };
    let body = Body::from(body).to_bytes(0);
    keyed::seal_reply(&short.key, number, reply.version, way, &body)
}

/// All routes that a reply tells; `way`: that by which it has come, backwards, to where its frame
/// began. `None` if it does not say what its header does.
fn routes(short: ShortReply, way: &[u8], is_recorded: bool) -> Option<Vec<Hops>> {
    let mut routes = Vec::from(short.to_target);
    match (is_recorded, usize::from(short.recorded)) {
        (true, at) if (1..=routes.len() + 1).contains(&at) => {
            routes.insert(at - 1, [way, &[short.target_port]].concat());
        }
        (false, 0) => {}
        _ => return None,
    }
    Some(routes)
}

impl Node {
    /// Another node has replied to a question; `back` is the way to that node's control plane.
    pub(in crate::node) fn reply(
        &mut self,
        now: plexus_wire::Time,
        message: &Reply<'_>,
        back: &[u8],
    ) {
        let way = back.split_last().map_or(&[][..], |(_, way)| way);
        let mut asked = self.resolver.asked_about(message.exchange);
        let opened = asked.find_map(|(id, request, key)| {
            let text = keyed::open_reply(&key, message, way).ok()?;
            Some((id, request.target_ip, text))
        });
        drop(asked);
        let Some((id, target_ip, text)) = opened else {
            return self.tell(Event::Refused(None, "a reply to no question".into()));
        };
        let short = match Body::parse(&text) {
            Ok((_, Body::ShortReply(short))) => short,
            Ok((_, other)) => {
                let why = format!("{} is no reply", other.name());
                return self.tell(Event::Refused(None, why));
            }
            Err(e) => return self.tell(Event::Refused(None, e.to_string())),
        };
        let target_mac = short.target_mac;
        let Some(to_target) = routes(short, way, message.is_recorded) else {
            return self.tell(Event::Refused(None, "a reply without its way".into()));
        };
        let reply = ResolveReply { version: message.version, target_mac, target_ip, to_target };
        let mut turn = Turn::new(now, &mut self.timers);
        self.resolver.replied(&mut turn, self.group.as_ref(), id, &reply);
        let out: Vec<Effect> = turn.out;
        self.carry_out(now, out);
    }
}

#[cfg(test)]
mod tests {
    use plexus_wire::MacAddr;

    use super::*;

    #[test]
    fn the_route_that_is_recorded_stands_where_the_controller_put_it() {
        let all = vec![vec![1, 2, 9], vec![3, 4, 9], vec![5, 6, 7, 9]];
        for recorded in 0..=3u8 {
            let short = ShortAnswer { key: [1; 32], target_port: 9, recorded };
            let (version, target_mac) = (7, MacAddr([2, 0, 0, 0, 0, 1]));
            let to_target = all.clone();
            let target_ip = [10, 0, 0, 1].into();
            let reply = ResolveReply { version, target_mac, target_ip, to_target };
            let bytes = seal(5 << 32, &reply, &short).unwrap();
            let message = crate::session::frame::Message::decode(&bytes).unwrap();
            let crate::session::frame::Message::Reply(message) = message else { panic!() };
            let way = match recorded {
                0 => &[8, 8][..],
                n => &all[usize::from(n) - 1][..all[usize::from(n) - 1].len() - 1],
            };
            let text = keyed::open_reply(&[1; 32], &message, way).unwrap();
            let Ok((_, Body::ShortReply(told))) = Body::parse(&text) else { panic!() };
            assert_eq!(routes(told.clone(), way, recorded > 0), Some(all.clone()));
            assert_eq!(routes(told, way, recorded == 0), None);
        }
    }
}

//! Scripts for a router: see the head of `router.rs` for what they say.

use plexus_wire::ethernet::{self, EtherType};

use super::frames;

/// A frame that comes in by the first interface, as it is.
const FRAME: u8 = 0x08;
const MENDED: u8 = 0x80;
const TIME: u8 = 3;
const INTERFACE: u8 = 0x0C;
const ROUTE: u8 = 5;
const WITHDRAWN: u8 = 0x20;
const BEGIN: u8 = 6;
const END: u8 = 0x0E;
const USED: u8 = 7;

fn frame(script: &mut Vec<u8>, why: &[u8], frame: &[u8]) {
    script.push(FRAME | MENDED);
    script.extend(why);
    script.extend((frame.len() as u16).to_be_bytes());
    script.extend(frame);
}

/// Why the data plane would hand a frame over, in different ways.
fn reasons(bytes: &[u8]) -> Vec<Vec<u8>> {
    let ethertype = ethernet::Frame::new_checked(bytes).map(|frame| frame.ethertype());
    match ethertype {
        Ok(EtherType::ARP) => vec![vec![0]],
        Ok(EtherType::IPV4 | EtherType::IPV6) => {
            vec![vec![1], vec![2], vec![3], vec![4], vec![5], vec![5 | 4 << 3, 4, 0]]
        }
        _ => Vec::new(),
    }
}

/// Scripts of some steps each: every frame, with routes there, and with interfaces that change.
pub fn router_scripts() -> Vec<Vec<u8>> {
    let frames: Vec<Vec<u8>> = frames();
    let arp = frames.iter().filter(|f| f.get(12..14) == Some(&[8, 6])).cloned();
    let arp: Vec<Vec<u8>> = arp.collect();
    // A default route by the samples' sender, 192.0.2.1, and one by two ways.
    let default = [ROUTE | 0x10, 3, 0, 0, 0, 0, 0, 4 | 1 << 5, 0x11, 0, 1];
    let pair = [ROUTE, 3, 10, 0, 0, 0, 8, 4 | 2 << 5, 0x11, 0, 1, 0x22, 8, 9];
    let six = [ROUTE, 7, 1, 0x20, 1, 0, 0, 16, 4 | 1 << 5, 0x11, 6, 1];
    let mut scripts: Vec<Vec<u8>> = Vec::new();
    // With links of 1500 bytes and of 68.
    for (bytes, shape) in frames.iter().flat_map(|bytes| [(bytes, 0), (bytes, 0x08)]) {
        let mut script = [&default[..], &pair, &six, &[INTERFACE, shape]].concat();
        arp.iter().for_each(|arp| frame(&mut script, &[0], arp));
        for why in reasons(bytes) {
            frame(&mut script, &why, bytes);
            script.extend([TIME, 32]);
        }
        script.extend([USED, 3, 0, 1, 2, TIME, 34, TIME, 36, TIME, 36]);
        scripts.push(script);
    }
    let mut script = [&default[..], &pair, &six].concat();
    arp.iter().for_each(|arp| frame(&mut script, &[0], arp));
    for shape in [0x80, 0, 1, 0x28, 0x13, 0x80, 4] {
        script.extend([INTERFACE, shape, BEGIN | 0x10]);
        script.extend(default);
        script.extend([END | 0x10, TIME, 33]);
        arp.iter().for_each(|arp| frame(&mut script, &[0], arp));
    }
    script.extend([ROUTE | 0x10 | WITHDRAWN, 3, 0, 0, 0, 0, 0, TIME, 49]);
    scripts.push(script);
    scripts
}

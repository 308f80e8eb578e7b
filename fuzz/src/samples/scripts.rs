//! Scripts for the data plane: see the head of `pipeline.rs` for what they say.

use plexus_wire::{EtherType, Protocol};

use super::{HOST_A, HOST_B, datagram, frames, segment, tagged, v4_frame, v6_frame};

const FRAME: u8 = 0;
const TIME: u8 = 4;
const TAKE: u8 = 5;
const CABLE: u8 = 6;
const SETTINGS: u8 = 7;
/// Set on a step that goes together with the next.
const TOGETHER: u8 = 0x80;

/// Ports as the script's header has them: settings in three bytes, then capabilities.
const ACCESS: [u8; 4] = [0, 0, 0, 0];
const ACCESS_CAPABLE: [u8; 4] = [0, 0, 0, 0x0F];
const TRUNK: [u8; 4] = [4, 0, 0, 0];
const TRUNK_STRICT: [u8; 4] = [5, 0, 3, 0x01];
const LIMITED: [u8; 4] = [0x90, 0x6E, 0x38, 0];
const SLOW: [u8; 4] = [0, 0x85, 0, 0];
const SMALL: [u8; 4] = [0, 0, 0, 0x08];

/// The kind of metadata and its four fields, as a step has them.
type Owed = (u8, [u16; 4]);

fn header(shape: u8, ports: &[[u8; 4]]) -> Vec<u8> {
    let mut script = vec![shape << 2 | (ports.len() - 2) as u8];
    script.extend(ports.concat());
    script
}

/// A frame, what is owed on it (kind and four fields), and padding behind it.
fn send(script: &mut Vec<u8>, step: u8, port: u8, owed: Owed, pad: u8, frame: &[u8]) {
    script.extend([step | FRAME, port, owed.0]);
    if owed.0 != 0 {
        owed.1.iter().for_each(|field| script.extend(field.to_be_bytes()));
    }
    let frame = &frame[..frame.len().min(255)];
    script.extend([pad, frame.len() as u8]);
    script.extend(frame);
}

fn turned(frame: &[u8]) -> Vec<u8> {
    let mut answer = frame.to_vec();
    answer[..6].copy_from_slice(&HOST_A.0);
    answer[6..12].copy_from_slice(&HOST_B.0);
    answer
}

/// Super-packets with what is owed on them: TCP and UDP, over IPv4 and IPv6.
fn owing() -> Vec<(Vec<u8>, Owed)> {
    let (tcp4, tcp6) = (v4_frame(Protocol::TCP, &segment()), v6_frame(Protocol::TCP, &segment()));
    let (udp4, udp6) = (v4_frame(Protocol::UDP, &datagram()), v6_frame(Protocol::UDP, &datagram()));
    let inner = tagged(tcp4.clone(), EtherType::VLAN, 0x6002);
    vec![
        (tcp4.clone(), (0x09, [34, 16, 1000, 74])),
        (tcp4, (0x0D, [34, 16, 1400, 74])),
        (inner, (0x09, [38, 16, 500, 78])),
        (tcp6.clone(), (0x11, [54, 16, 1000, 94])),
        (tcp6, (0x15, [54, 16, 1, 94])),
        (udp4.clone(), (0x19, [34, 6, 600, 42])),
        (udp6.clone(), (0x19, [54, 6, 600, 62])),
        (udp4, (0x01, [34, 6, 0, 0])),
        (udp6, (0x02, [0, 0, 0, 0])),
    ]
}

/// Scripts of some steps each, over boxes of every shape.
pub fn scripts() -> Vec<Vec<u8>> {
    let boxes: [&[[u8; 4]]; 6] = [
        &[ACCESS, ACCESS],
        &[ACCESS, TRUNK, TRUNK_STRICT],
        &[ACCESS, ACCESS_CAPABLE, SMALL],
        &[LIMITED, ACCESS, LIMITED],
        &[SLOW, ACCESS, TRUNK, SLOW],
        &[ACCESS, SLOW, TRUNK_STRICT, ACCESS_CAPABLE, TRUNK],
    ];
    let mut scripts = Vec::new();
    for (i, frame) in frames().iter().enumerate() {
        let ports = boxes[i % boxes.len()];
        // Two workers in every other script, an onlooker and few stations in some.
        let mut script = header((i % 2) as u8 | (i as u8 & 0x0E), ports);
        send(&mut script, TOGETHER, 0, (0, [0; 4]), 0, frame);
        send(&mut script, 0, 1, (0, [0; 4]), 3, &turned(frame));
        script.extend([TAKE, 0, TIME, 0, 20]);
        send(&mut script, 0, 0, (0, [0; 4]), 80, frame);
        script.extend([CABLE, 1]);
        send(&mut script, 0, 0, (0, [0; 4]), 0, frame);
        script.extend([SETTINGS, 0, 5, 0, 0, CABLE, 1]);
        send(&mut script, 0, 1, (0, [0; 4]), 0, &turned(frame));
        scripts.push(script);
    }
    for (i, (frame, owed)) in owing().iter().enumerate() {
        for ports in boxes {
            let mut script = header((i % 2) as u8, ports);
            send(&mut script, TOGETHER, 0, *owed, 180, frame);
            send(&mut script, 0, 2, *owed, 180, &turned(frame));
            script.extend([TAKE, 1, TIME, 0, 30]);
            send(&mut script, 0, 1, *owed, 100, frame);
            send(&mut script, 0, 0, *owed, 0, frame);
            scripts.push(script);
        }
    }
    scripts
}

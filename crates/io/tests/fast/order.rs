//! No packet overtakes another of its flow, whatever rules come and go.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::*;

/// Rules that are made, forward and end.
const ROUNDS: usize = 200;
/// A rule forwards until so many more frames have come out.
const FRAMES: u32 = 30;
/// Frames are sent in bursts of up to so many, with a pause in between.
const BURST: u32 = 100;
const PAUSE: Duration = Duration::from_micros(300);

#[test]
fn no_frame_overtakes_another_while_rules_come_and_go() {
    for hook in [Hook::Tcx, Hook::Xdp] {
        net::in_quiet_namespace("fast_order", move || {
            let bench = InKernel::new(hook);
            // What the port itself sends goes the same way as what is redirected: see order in
            // docs/design/data-plane.md.
            net::command("ethtool", "-K p1 tso off");
            if hook == Hook::Xdp {
                thread_polls("p0");
            }
            let (forwarded, dropped) = run(bench);
            assert!(forwarded > ROUNDS as u64 * u64::from(FRAMES) / 2, "{hook:?}: {forwarded}");
            assert!(hook == Hook::Tcx || dropped > 0, "the kernel has to drop some on the way");
        });
    }
}

/// Lets the kernel take a device's frames in a thread, many at a time. Else a virtual cable is
/// polled for each frame, in the time of its sender.
fn thread_polls(device: &str) {
    let set = format!("mount -t sysfs none /sys && echo 1 >/sys/class/net/{device}/threaded");
    let done = std::process::Command::new("unshare").args(["-m", "sh", "-c", &set]).status();
    assert!(done.unwrap().success());
}

/// A box of two ports that forwards what it receives, as a worker does. Returns how many frames
/// went by rules, and how many the kernel dropped for want of room.
fn run(bench: InKernel) -> (u64, u64) {
    let InKernel { mut table, near, far, .. } = bench;
    let [mut input, mut output] = <[Socket; 2]>::try_from(near).ok().unwrap();
    let [mut from, mut to] = <[Socket; 2]>::try_from(far).ok().unwrap();
    let is_over = AtomicBool::new(false);
    let is_over = &is_over;
    let mut forwarded = 0;
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let (mut number, mut random) = (0u32, 1u32);
            while !is_over.load(Relaxed) {
                random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                for _ in 0..(random >> 16) % BURST {
                    number += 1;
                    let mut numbered = frame(None);
                    numbered[14..18].copy_from_slice(&number.to_be_bytes());
                    from.send(&numbered, Offload::NONE);
                }
                // In some of the pauses all frames leave the box, and in some they do not.
                std::thread::sleep(PAUSE * (random >> 8 & 7));
            }
        });
        let mut last = 0;
        // Frames that came out in their order.
        let mut arrive = |to: &mut Socket| {
            for (bytes, _) in to.take_all() {
                let number = u32::from_be_bytes(*bytes[14..].first_chunk().unwrap());
                if number <= last {
                    is_over.store(true, Relaxed);
                    panic!("frame {number} came behind frame {last}");
                }
                last = number;
            }
            last
        };
        for _ in 0..ROUNDS {
            let id = table.insert(&key(None), &OUT).unwrap();
            let (mut noted, mut ends_at) = (None, None);
            let began = Instant::now();
            while ends_at.is_none_or(|end| arrive(&mut to) < end) {
                assert!(began.elapsed() < PATIENCE, "the rule never forwards");
                let passed = table.passed(id);
                if noted.is_none_or(|(its, _)| its != passed) {
                    noted = Some((passed, input.port.mark()));
                }
                let mut batch = Batch::new();
                input.port.receive(Time::ZERO, &mut input.pool, &mut batch);
                let is_drained = !batch.is_full();
                let taken: Vec<Vec<u8>> =
                    batch.iter().map(|packet| input.pool.data(packet).to_vec()).collect();
                batch.drain(..).for_each(|packet| input.pool.free(packet));
                taken.iter().for_each(|frame| output.send(frame, Offload::NONE));
                arrive(&mut to);
                let Some((passed, mark)) = noted else { continue };
                if is_drained && input.port.passed_mark() >= mark && output.port.has_sent() {
                    table.settle(id, passed);
                    if table.passed(id) == passed && table.read(id).packets > 0 {
                        ends_at.get_or_insert(arrive(&mut to) + FRAMES);
                    }
                }
            }
            forwarded += table.read(id).packets;
            table.remove(&key(None), id);
            // What went by the rule is out before anything that the box sends now.
            std::thread::sleep(Duration::from_micros(200));
            table.forget(id);
        }
        is_over.store(true, Relaxed);
    });
    (forwarded, input.port.stats().rx_overflow)
}

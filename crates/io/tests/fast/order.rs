//! No packet overtakes another of its flow, whatever rules come and go.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use plexus_io::bpf::{Alu, Asm, Helper, If, Map, Program, Reg, Target, Verdict, Width, context};

use super::*;

/// Rules that are made, forward and end.
const ROUNDS: usize = 200;
/// A rule lasts until it has forwarded, and so many more frames have been sent that come out.
const FRAMES: u32 = 30;
/// Frames that the kernel sends in one go, and polls in one go at the other end.
const BURST: u32 = 64;
/// Of every four spans of 2^18 nanoseconds, in one frames are sent.
const SPAN: i32 = 18;

/// Runs in which the kernel drops no frame for want of room show less, and are repeated up to so
/// often.
const RUNS: usize = 10;

#[test]
fn no_frame_overtakes_another_while_rules_come_and_go() {
    for hook in [Hook::Tcx, Hook::Xdp] {
        // Whether a run shows too little. It does not where no namespace can be made.
        static SHOWS_LESS: AtomicBool = AtomicBool::new(false);
        for _ in 0..RUNS {
            net::in_quiet_namespace("fast_order", move || {
                let bench = InKernel::new(hook);
                // The port's own frames go the way of those that are redirected: see order in
                // docs/design/data-plane.md.
                net::command("ethtool", "-K p1 tso off");
                // The sender redirects frames to this cable.
                poll("p0", true);
                let (forwarded, dropped) = run(bench);
                // How many more depends on when the kernel polls: a rule that forwards may have to
                // wait again.
                assert!(forwarded >= ROUNDS as u64, "{hook:?}: {forwarded}");
                SHOWS_LESS.store(hook == Hook::Xdp && dropped == 0, Relaxed);
            });
            if !SHOWS_LESS.load(Relaxed) {
                break;
            }
        }
        assert!(!SHOWS_LESS.load(Relaxed), "the kernel has to drop some on the way");
    }
}

/// Of each burst so many frames are the flow's, and come first. Those behind them keep the kernel
/// busy before it shows them.
const OF_FLOW: i32 = 8;
/// The last byte of the others' destination.
const OTHER: i32 = 0x99;

/// Numbers each frame behind its header and sends it by a device, in spans with pauses in between.
fn numbered(device: u32, last: &Map) -> Program {
    let mut asm = Asm::new();
    let (drop, other) = (asm.label(), asm.label());
    asm.mov(Reg::R6, Reg::R1);
    asm.call(Helper::KtimeNs);
    asm.alu_imm(Alu::Rsh, Reg::R0, SPAN);
    asm.alu_imm(Alu::And, Reg::R0, 3);
    asm.jump_imm(If::Ne, Reg::R0, 0, drop);
    asm.load(Width::W, Reg::R1, Reg::R6, context::DATA);
    asm.load(Width::W, Reg::R2, Reg::R6, context::DATA_END);
    asm.mov(Reg::R3, Reg::R1);
    asm.alu_imm(Alu::Add, Reg::R3, 18);
    asm.jump(If::Gt, Reg::R3, Reg::R2, drop);
    asm.mov_value(Reg::R4, last);
    asm.bump(Reg::R4, 0, 1, Reg::R5);
    asm.mov(Reg::R2, Reg::R5);
    asm.alu_imm(Alu::And, Reg::R2, BURST as i32 - 1);
    asm.mov_imm(Reg::R3, OTHER);
    asm.jump_imm(If::Ge, Reg::R2, OF_FLOW, other);
    asm.mov_imm(Reg::R3, B.0[5].into());
    asm.place(other);
    asm.store(Width::B, Reg::R1, 5, Reg::R3);
    asm.swap_be(Reg::R5, 32);
    asm.store(Width::W, Reg::R1, 14, Reg::R5);
    asm.mov_imm(Reg::R1, device as i32);
    asm.mov_imm(Reg::R2, 0);
    asm.call(Helper::Redirect);
    asm.exit();
    asm.place(drop);
    asm.end(Verdict::Drop);
    Program::load("numbered", asm).unwrap()
}

/// A box of two ports that forwards what it receives, as a worker does. Returns how many frames
/// went by rules, and how many the kernel dropped for want of room.
fn run(bench: InKernel) -> (u64, u64) {
    let InKernel { mut table, near, far, .. } = bench;
    let [mut input, mut output] = <[Socket; 2]>::try_from(near).ok().unwrap();
    let [_, mut to] = <[Socket; 2]>::try_from(far).ok().unwrap();
    let is_over = AtomicBool::new(false);
    let is_over = &is_over;
    let mut forwarded = 0;
    let last = Map::array(1, 1).unwrap();
    let sender = numbered(Target::find("h0").unwrap().index(), &last);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut long = frame(None);
            long.resize(1400, 0);
            sender.run_live(&long, BURST, || is_over.load(Relaxed)).unwrap();
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
                let of_flow = taken.iter().filter(|frame| frame[5] == B.0[5]);
                of_flow.for_each(|frame| output.send(frame, Offload::NONE));
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

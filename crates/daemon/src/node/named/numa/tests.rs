use proptest::prelude::*;
use tempfile::TempDir;

use super::*;

/// A made-up folder, which goes with it.
struct Tree(TempDir);

impl Tree {
    fn new(files: &[(&str, &str)]) -> Tree {
        let folder = tempfile::tempdir().unwrap();
        for (file, text) in files {
            let file = folder.path().join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        Tree(folder)
    }

    fn nodes(&self) -> Nodes {
        Nodes::read(self.0.path())
    }

    fn of(&self, cpus: &[u16]) -> Vec<Option<u32>> {
        let nodes = self.nodes();
        cpus.iter().map(|cpu| nodes.of(*cpu)).collect()
    }
}

/// Nodes 0 and 1, and the processor of each: two that this machine has, or none if it has one.
pub(in super::super) fn two_nodes() -> Option<(Nodes, [u16; 2])> {
    let allowed = rustix::thread::sched_getaffinity(None).unwrap();
    let mut cpus = (0..1024u16).filter(|cpu| allowed.is_set((*cpu).into()));
    let Some(cpus) = cpus.next().zip(cpus.next()).map(|(one, other)| [one, other]) else {
        eprintln!("skipped: two workers with a processor each want two processors");
        return None;
    };
    let [one, other] = cpus.map(|cpu| cpu.to_string());
    Some((made_up(&[(0, &one), (1, &other)]), cpus))
}

/// Nodes with these processors.
pub(in super::super) fn made_up(nodes: &[(u32, &str)]) -> Nodes {
    let numbers: Vec<_> = nodes.iter().map(|(node, _)| node.to_string()).collect();
    let lists: Vec<_> = numbers.iter().map(|node| format!("node{node}/cpulist")).collect();
    let memory = numbers.join(",");
    let lists = lists.iter().zip(nodes).map(|(file, (_, cpus))| (file.as_str(), *cpus));
    let files: Vec<_> = lists.chain([("has_memory", memory.as_str())]).collect();
    Tree::new(&files).nodes()
}

#[test]
fn processors_are_found_where_the_kernel_lists_them() {
    // As a machine with two threads a core numbers them, with a processor that is off.
    let tree = Tree::new(&[
        ("has_memory", "0-1\n"),
        ("node0/cpulist", "0-3,8-9,11\n"),
        ("node1/cpulist", "4-7,12-15\n"),
    ]);
    let expected = [Some(0), Some(0), Some(0), None, Some(0), Some(1), Some(1), None];
    assert_eq!(tree.of(&[0, 3, 8, 10, 11, 4, 15, 16]), expected);
}

#[test]
fn numbers_may_have_holes_and_nodes_may_lack_processors_or_memory() {
    let tree = Tree::new(&[
        ("has_memory", "0,7,4000000000\n"),
        ("node0/cpulist", "0\n"),
        // Memory of a device.
        ("node7/cpulist", "\n"),
        ("node4000000000/cpulist", "1,100-4294967295\n"),
        // It has none of its own.
        ("node1/cpulist", "2\n"),
    ]);
    let far = Some(4_000_000_000);
    assert_eq!(tree.of(&[0, 1, 2, 99, 100, u16::MAX]), [Some(0), far, None, None, far, far]);
}

#[test]
fn a_tree_that_cannot_be_is_one_of_equal_memory() {
    let good = [("has_memory", "0-1"), ("node0/cpulist", "0"), ("node1/cpulist", "1")];
    assert_eq!(Tree::new(&good).of(&[0, 1]), [Some(0), Some(1)]);
    let bad = [
        ("has_memory", ""),
        ("has_memory", "0-2"),
        ("has_memory", "0-4294967295"),
        ("has_memory", "0-1,0"),
        ("has_memory", "1-0"),
        ("has_memory", "../node1"),
        ("has_memory", "0,,1"),
        ("node1/cpulist", "0-1"),
        ("node1/cpulist", "1,1"),
        ("node1/cpulist", "-1"),
        ("node1/cpulist", "1-"),
        ("node1/cpulist", "1-2-3"),
        ("node1/cpulist", "1:2"),
        ("node1/cpulist", "one"),
        ("node1/cpulist", "4294967296"),
        ("node1/cpulist", "99999999999999999999999"),
        ("node1/cpulist", "1 2"),
        ("node1/cpulist", "1,\0"),
    ];
    for (file, text) in bad {
        let files = good.map(|(of, usual)| (of, if of == file { text } else { usual }));
        assert_eq!(Tree::new(&files).of(&[0, 1]), [None, None], "{file}: {text:?}");
    }
    for missing in 0..good.len() {
        let files: Vec<_> = (0..good.len()).filter(|i| *i != missing).map(|i| good[i]).collect();
        assert_eq!(Tree::new(&files).of(&[0, 1]), [None, None], "{files:?}");
    }
    assert_eq!(Nodes::read(Path::new("/nowhere")), Nodes::default());
}

proptest! {
    #[test]
    fn any_text_is_read_to_its_end(memory in "[0-9,\\-\n ]{0,12}", cpus in "\\PC{0,12}") {
        let files = [("has_memory", memory.as_str()), ("node0/cpulist", cpus.as_str())];
        let tree = Tree::new(&files);
        prop_assert!(tree.of(&[0, 9]).iter().all(|node| [None, Some(0)].contains(node)));
    }
}

use super::*;

fn make(tree: &mut Tree, serial: u64, parent: u64, name: &str) -> Result<Option<u64>, Misfit> {
    let time = UnixTime { nanos: serial };
    let (kind, lifetime) = (FileKind::Other, WriteLifetime::None);
    tree.apply(&Op::Create { serial, parent, name: name.to_owned(), kind, lifetime, time })
}

fn dir(tree: &mut Tree, serial: u64, parent: u64, name: &str) {
    tree.apply(&Op::MakeDir { serial, parent, name: name.to_owned() }).unwrap();
}

fn rename(tree: &mut Tree, from: (u64, &str), to: (u64, &str)) -> Result<Option<u64>, Misfit> {
    tree.apply(&Op::Rename { parent: from.0, name: from.1.to_owned(), to_parent: to.0, to_name: to.1.to_owned() })
}

/// Every extent is met once, however short the steps are.
#[test]
fn extents_are_gone_through_in_steps() {
    let mut tree = Tree::default();
    for serial in 2..40 {
        make(&mut tree, serial, ROOT, &format!("f{serial}")).unwrap();
        for number in 0..serial % 5 {
            let (at, zone) = (number * 4000, shingle_base::ZoneId(number as u32));
            tree.file_mut(serial).unwrap().extents.push(Extent::of_record(at, 4000, zone, 0));
        }
    }
    let all: Vec<_> = tree.files().flat_map(|(serial, node)| node.extents.iter().map(move |e| (serial, *e))).collect();
    for most in [1, 2, 7, 1000] {
        let (mut met, mut from, mut steps) = (Vec::new(), Some(0), 0);
        while let Some(next) = from {
            from = tree.some_extents(next, most, |serial, extent| met.push((serial, *extent)));
            steps += 1;
        }
        assert_eq!(met, all);
        assert!(if most == 1000 { steps == 1 } else { steps > 10 }, "{steps} steps of {most}");
    }
}

/// ZF-TREE-1.
#[test]
fn names_come_and_go_and_links_are_counted() {
    let mut tree = Tree::default();
    dir(&mut tree, 2, ROOT, "db");
    make(&mut tree, 3, 2, "a").unwrap();
    tree.apply(&Op::Link { serial: 3, parent: ROOT, name: "b".to_owned() }).unwrap();
    assert_eq!(tree.file(3).unwrap().links, 2);
    make(&mut tree, 4, 2, "c").unwrap();
    assert_eq!(rename(&mut tree, (2, "c"), (2, "a")), Ok(Some(3)));
    assert_eq!(tree.find("db/a"), Ok(Child::File(4)));
    assert_eq!(tree.find("/b"), Ok(Child::File(3)));
    assert!(tree.links_agree());
    assert_eq!(make(&mut tree, 5, ROOT, "b"), Ok(Some(3)));
    assert_eq!(tree.file(3).unwrap().links, 0);
    assert!(tree.links_agree());
    assert_eq!(tree.find("db/c").unwrap_err().kind, FilesErrorKind::NotFound);
    assert_eq!(tree.find("b/c").unwrap_err().kind, FilesErrorKind::NotDirectory);
    // A checkpoint has all but the file without a name.
    let mut again = Tree::default();
    for op in tree.ops() {
        again.apply(&op).unwrap();
    }
    assert!(again.file(3).is_none() && again.links_agree());
    assert_eq!((again.find("b"), again.find("db/a")), (Ok(Child::File(5)), Ok(Child::File(4))));
    tree.remove_file(3);
    assert_eq!(tree.checkpoint_bytes(0), again.checkpoint_bytes(0));
}

/// ZF-TREE-2.
#[test]
fn a_directory_moves_but_not_below_itself() {
    let mut tree = Tree::default();
    dir(&mut tree, 2, ROOT, "a");
    dir(&mut tree, 3, 2, "b");
    dir(&mut tree, 4, ROOT, "c");
    assert_eq!(rename(&mut tree, (ROOT, "a"), (3, "x")), Err(Misfit));
    assert_eq!(rename(&mut tree, (ROOT, "c"), (ROOT, "a")), Err(Misfit), "it is not empty");
    assert_eq!(rename(&mut tree, (2, "b"), (ROOT, "c")), Ok(None));
    assert_eq!(tree.find("c"), Ok(Child::Dir(3)));
    assert_eq!(tree.dir(3).unwrap().parent, ROOT);
    assert_eq!(tree.apply(&Op::RemoveDir { parent: ROOT, name: "c".to_owned() }), Ok(None));
    assert_eq!(tree.counts(), (0, 1));
    assert_eq!(tree.apply(&Op::Unlink { parent: ROOT, name: "a".to_owned() }), Err(Misfit));
}

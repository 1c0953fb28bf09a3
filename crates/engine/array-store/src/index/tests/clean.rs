//! AS-IX-4: what is taken for a clean index.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use shingle_sim::{Random, seeds};

use super::{Folder, Model, any_change, moment, put, put_last};
use crate::index::{Index, IndexError, Moment};
use shingle_base::StoreId;

fn filled(path: &Path, random: &mut Random) -> (Index, Model) {
    let (index, mut model) = (Index::create(path).unwrap(), Model::default());
    for stamp in 0..200 {
        let change = [any_change(random, stamp)];
        index.apply(&change).unwrap();
        model.apply(&change);
    }
    (index, model)
}

#[test]
fn a_clean_index_is_taken_once() {
    let folder = Folder::new("once");
    let path = folder.0.join("index");
    let (index, model) = filled(&path, &mut Random::new(1));
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    index.close_clean(moment(7)).unwrap();
    let mark = folder.0.join("index.clean");
    assert_eq!(fs::metadata(&mark).unwrap().permissions().mode() & 0o777, 0o600);

    let index = Index::open_clean(&path, moment(7)).unwrap().expect("it was left clean");
    model.check(&index, "opened");
    assert!(!mark.exists());
    drop(index);
    assert!(Index::open_clean(&path, moment(7)).unwrap().is_none(), "it was not closed");

    let (index, _) = filled(&path, &mut Random::new(2));
    drop(index);
    assert!(Index::open_clean(&path, moment(7)).unwrap().is_none(), "never marked");
}

#[test]
fn another_generation_is_not_taken() {
    let folder = Folder::new("generation");
    let path = folder.0.join("index");
    let (index, model) = filled(&path, &mut Random::new(1));
    index.close_clean(moment(7)).unwrap();
    assert!(Index::open_clean(&path, moment(6)).unwrap().is_none());
    assert!(Index::open_clean(&path, moment(8)).unwrap().is_none());
    // Of another array, which had as many superblocks.
    assert!(Index::open_clean(&path, Moment { array: StoreId(4), ..moment(7) }).unwrap().is_none());
    // Nobody changed it, so that it is still what generation 7 left.
    model.check(&Index::open_clean(&path, moment(7)).unwrap().unwrap(), "generation 7");
}

#[test]
fn creating_leaves_nothing_of_what_was_there() {
    let folder = Folder::new("anew");
    let path = folder.0.join("index");
    filled(&path, &mut Random::new(1)).0.close_clean(moment(7)).unwrap();
    let index = Index::create(&path).unwrap();
    Model::default().check(&index, "anew");
    assert!(!folder.0.join("index.clean").exists());
    drop(index);

    fs::write(&path, vec![0x5a; 100_000]).unwrap();
    fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
    Model::default().check(&Index::create(&path).unwrap(), "over garbage");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn a_file_in_use_is_refused() {
    let folder = Folder::new("used");
    let path = folder.0.join("index");
    let (index, model) = filled(&path, &mut Random::new(1));
    let error = Index::create(&path).err().unwrap();
    assert!(matches!(error, IndexError::File { .. }) && error.to_string().contains("another process"), "{error}");
    model.check(&index, "after a refused create");
}

#[test]
fn what_is_no_plain_file_is_refused() {
    let folder = Folder::new("plain");
    let (path, target) = (folder.0.join("index"), folder.0.join("target"));
    fs::write(&target, b"precious").unwrap();
    symlink(&target, &path).unwrap();
    assert!(matches!(Index::create(&path), Err(IndexError::File { .. })));
    assert!(Index::open_clean(&path, moment(1)).unwrap().is_none());
    assert_eq!(fs::read(&target).unwrap(), b"precious");
    assert!(matches!(Index::create(&folder.0), Err(IndexError::File { .. })));
    assert!(matches!(Index::create(&folder.0.join("no/index")), Err(IndexError::File { .. })));
    assert!(Index::open_clean(&folder.0.join("no/index"), moment(1)).unwrap().is_none());
}

/// Any damage to the file or its mark: nothing is taken, nothing panics.
#[test]
fn damage_is_noticed() {
    let folder = Folder::new("damage");
    let (path, mark) = (folder.0.join("index"), folder.0.join("index.clean"));
    filled(&path, &mut Random::new(1)).0.close_clean(moment(7)).unwrap();
    let (good, good_mark) = (fs::read(&path).unwrap(), fs::read(&mark).unwrap());
    assert_eq!((good_mark.len(), &good_mark[..8]), (48, &b"SHGAIX02"[..]));

    for seed in seeds(150) {
        let mut random = Random::new(seed);
        let (mut file, mut note) = (good.clone(), good_mark.clone());
        let damaged = if random.chance(0.5) { &mut file } else { &mut note };
        match random.below(4) {
            0 => damaged.truncate(random.below(damaged.len() as u64) as usize),
            1 => damaged.extend(random.bytes(9)),
            2 => {
                let at = random.below(damaged.len() as u64) as usize;
                damaged[at] ^= 1 << random.below(8);
            }
            _ => *damaged = random.bytes(damaged.len()),
        }
        fs::write(&path, &file).unwrap();
        fs::write(&mark, &note).unwrap();
        assert!(Index::open_clean(&path, moment(7)).unwrap().is_none(), "seed {seed}");
    }
    fs::write(&path, &good).unwrap();
    fs::write(&mark, &good_mark).unwrap();
    assert!(Index::open_clean(&path, moment(7)).unwrap().is_some());
}

/// Should a file that is no tree ever be marked clean, the library's refusal is taken for "not clean".
#[test]
fn a_marked_file_that_is_no_tree_is_not_taken() {
    let folder = Folder::new("no-tree");
    let path = folder.0.join("index");
    for bytes in [vec![], vec![0; 4096], b"no tree".repeat(1000)] {
        let (file, _) = crate::index::backend::IndexFile::create(&path).unwrap();
        fs::write(&path, &bytes).unwrap();
        file.mark_clean(moment(3), 0).unwrap();
        assert!(Index::open_clean(&path, moment(3)).unwrap().is_none(), "{} bytes", bytes.len());
    }
}

#[test]
fn memory_closes_too() {
    let index = Index::memory().unwrap();
    index.apply(&[put("a", 1, 0, 1), put_last("a", 1, 10, 2)]).unwrap();
    index.close_clean(moment(1)).unwrap();
}

/// Pages that changes replace are used again, also those of the file as it was left clean: it does not grow to twice its size.
#[test]
fn a_file_of_which_all_entries_change_hardly_grows() {
    let folder = Folder::new("growth");
    let path = folder.0.join("index");
    let index = Index::create(&path).unwrap();
    let names: Vec<String> = (0..20_000).map(|number| format!("{number:0100}")).collect();
    for names in names.chunks(1000) {
        index.apply(&names.iter().map(|name| put_last(name, 1, 0, 1)).collect::<Vec<_>>()).unwrap();
    }
    index.close_clean(moment(7)).unwrap();
    let length = || fs::metadata(&path).unwrap().len();
    let before = length();
    let index = Index::open_clean(&path, moment(7)).unwrap().unwrap();
    for names in names.chunks(8) {
        index.apply(&names.iter().map(|name| put_last(name, 1, 0, 2)).collect::<Vec<_>>()).unwrap();
    }
    assert!(length() <= before * 3 / 2, "{before} bytes became {}", length());
}

//! OS-REC-5: blocks that stay unreadable are given up, once for all.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use shingle_base::StoreId;
use shingle_chunk_store::Stream;
use shingle_object_store::{Depth, Emptied, MemoryIndex, OpenReport};
use shingle_store_api::{ObjectStore, StoreErrorKind};

use crate::recovery::{cut_short, filled, find, with_store};
use crate::unseen::{Place, ahead, places};
use crate::world::{World, bytes_of, commit, get, put};

const BUCKET: &str = "bucket";

/// Places by drive.
type Shown = BTreeMap<StoreId, Vec<shingle_object_store::Place>>;

/// The drive does not give an entry: its header, and the beginning of its data.
fn fail_reads(world: &World, place: &Place) {
    world.drives[place.drive].fail_reads(place.chunk, place.offset, place.offset + 300);
}

fn heal(world: &World) {
    world.drives.iter().for_each(crate::chunks::MemoryChunks::heal);
}

/// Places that an opening cannot read, of all drives.
fn shown(world: &World) -> Shown {
    let report = with_store(world, |_, _| async {});
    let mut shown: Shown = (0..4).map(|drive| (StoreId(0xd0 + drive), Vec::new())).collect();
    for damage in report.damage.into_iter().filter(|damage| damage.again) {
        shown.entry(damage.store).or_default().push(damage.place);
    }
    shown
}

/// An opening that accepts the loss that one before it showed, and empties the files.
fn accept(world: &World) -> (OpenReport, Emptied) {
    accept_of(world, shown(world))
}

/// The same, of these places.
fn accept_of(world: &World, shown: Shown) -> (OpenReport, Emptied) {
    let mut accepting = world.clone();
    accepting.options.accept_loss = shown;
    let emptied = Rc::new(RefCell::new(Emptied::default()));
    let heard = emptied.clone();
    let report = with_store(&accepting, move |store, _| async move {
        *heard.borrow_mut() = store.empty_given_up().await.unwrap();
    });
    (report, emptied.take())
}

fn is_there(world: &World, place: &Place) -> bool {
    world.drives[place.drive].chunks(Stream::Data).contains(&place.chunk)
}

/// Forty objects, and one whose entry the drive does not give. The index is lost, and the object is deleted by one who does not see it.
fn deleted_unseen() -> (World, Place) {
    let mut world = filled(2, 40);
    let (_, lost) = ahead(&world, |world, store| async move {
        put(&store, BUCKET, "gone", &bytes_of(99, 500), commit("e")).await.unwrap();
        places(&world, &store, "put", "\"gone\"").await
    });
    fail_reads(&world, &lost[0]);
    world.index = MemoryIndex::new();
    for _ in 0..2 {
        let report = with_store(&world, |store, _| async move {
            store.delete(BUCKET, "gone").await.unwrap();
            store.collect_garbage().await.unwrap();
            find(&store, 0, 40).await;
        });
        assert!(report.incomplete, "each opening meets it again: {report:?}");
        assert!(is_there(&world, &lost[0]), "its file stays");
    }
    (world, lost[0])
}

/// All is seen, and the deleted object stays so although it can be read again and the index is lost.
fn settled(world: &mut World, place: &Place, what: &str) {
    assert!(!is_there(world, place), "{what}: its file stays");
    heal(world);
    for _ in 0..2 {
        let name = what.to_owned();
        let report = with_store(world, |store, _| async move {
            let error = store.head(BUCKET, "gone").await.expect_err("it was deleted");
            assert_eq!(error.kind, StoreErrorKind::NoSuchKey, "{name}: {error}");
            find(&store, 0, 40).await;
            assert_eq!(store.check(Depth::Full).await.unwrap().damage, Vec::new(), "{name}");
            store.collect_garbage().await.unwrap();
        });
        assert!(!report.incomplete && report.damage.is_empty(), "{what}: {report:?}");
        world.index = MemoryIndex::new();
    }
}

#[test]
fn what_an_accepted_loss_took_never_comes_back() {
    let (mut world, lost) = deleted_unseen();
    // A drive that nobody was asked about keeps what it has.
    let mut others = shown(&world);
    others.remove(&StoreId(0xd0 + lost.drive as u64));
    let (report, emptied) = accept_of(&world, others);
    assert!(report.incomplete && emptied == Emptied::default() && is_there(&world, &lost), "{report:?}");
    let (report, emptied) = accept(&world);
    assert!(
        report.incomplete && !report.given_up.is_empty() && report.damage.is_empty(),
        "it is told once more: {report:?}"
    );
    assert!(report.given_up[0].to_string().contains(&format!("of drive{}: chunk", lost.drive)), "{report:?}");
    assert_eq!(emptied, Emptied { files: 1, kept: vec![] });
    settled(&mut world, &lost, "accepted");
}

/// The power fails at any request of the opening that accepts the loss, and of GC meanwhile. Then the drive is healed and the index lost, or the loss
/// is accepted again.
#[test]
fn accepting_a_loss_can_be_cut_anywhere() {
    let (world, lost) = deleted_unseen();
    let seen = shown(&world.fork());
    let mut cuts = 0;
    loop {
        let mut world = world.fork();
        let mut accepting = world.clone();
        accepting.options.accept_loss = seen.clone();
        let ended = !cut_short(&accepting, cuts, |store| async move {
            store.collect_garbage().await.unwrap();
            store.empty_given_up().await.unwrap();
            store.collect_garbage().await.unwrap();
        });
        let mut healed = world.fork();
        heal(&healed);
        healed.index = MemoryIndex::new();
        with_store(&healed, move |store, _| async move {
            let error = store.head(BUCKET, "gone").await.expect_err("it was deleted");
            assert_eq!(error.kind, StoreErrorKind::NoSuchKey, "cut at request {cuts}, then healed");
            find(&store, 0, 40).await;
        });
        world.index.crash(cuts as usize % (1 + world.index.unpersisted()));
        accept(&world);
        settled(&mut world, &lost, &format!("cut at request {cuts}"));
        cuts += 1;
        if ended {
            break;
        }
    }
    assert!(cuts > 50, "only {cuts} requests");
}

/// The index has an object in the file that the drive does not give either: the file stays until the object is deleted.
#[test]
fn a_file_with_an_object_that_cannot_be_read_stays_until_that_is_deleted() {
    let mut world = filled(1, 2);
    let (before, found) = ahead(&world, |world, store| async move {
        // Longer than the steps in which a scan passes over what it cannot read.
        put(&store, BUCKET, "gone", &bytes_of(99, 2000), commit("e")).await.unwrap();
        put(&store, BUCKET, "known", &bytes_of(98, 2000), commit("e")).await.unwrap();
        let mut found = places(&world, &store, "put", "\"gone\"").await;
        found.extend(places(&world, &store, "put", "\"known\"").await);
        found
    });
    world.index = before;
    let [gone, known] = found[..] else { panic!("two entries") };
    assert_eq!(gone.chunk, known.chunk);
    fail_reads(&world, &gone);
    with_store(&world, |store, _| async move {
        assert_eq!(get(&store, BUCKET, "known").await.unwrap(), bytes_of(98, 2000));
    });
    fail_reads(&world, &known);
    let (_, emptied) = accept(&world);
    assert_eq!((emptied.files, emptied.kept.len()), (0, 1));
    with_store(&world, |store, _| async move {
        assert_eq!(get(&store, BUCKET, "known").await.unwrap_err().kind, StoreErrorKind::Device);
        store.delete(BUCKET, "known").await.unwrap();
        find(&store, 0, 2).await;
    });
    let (_, emptied) = accept(&world);
    assert_eq!(emptied, Emptied { files: 1, kept: vec![] });
    let report = with_store(&world, |store, _| async move { find(&store, 0, 2).await });
    assert!(!report.incomplete && report.damage.is_empty(), "{report:?}");
}

/// In one file an entry fails that could be read when others, in two files, were shown. That file stays with all that it has, and only the
/// other one goes.
#[test]
fn a_place_that_was_not_shown_is_not_given_up() {
    let mut world = filled(2, 2);
    let (before, found) = ahead(&world, |world, store| async move {
        let mut found = Vec::new();
        for number in 0..12 {
            put(&store, BUCKET, &format!("late{number}"), &bytes_of(number, 3000), commit("e")).await.unwrap();
            found.extend(places(&world, &store, "put", &format!("\"late{number}\"")).await);
        }
        found
    });
    world.index = before;
    let of_chunk = |of: &Place| found.iter().filter(|place| place.chunk == of.chunk).count();
    let kept = *found.iter().find(|place| of_chunk(place) > 2).expect("a file with several entries");
    let gone = *found.iter().find(|place| place.chunk != kept.chunk).expect("another file");
    let later = *found.iter().rfind(|place| place.chunk == kept.chunk).expect("the last of several");
    let number =
        found.iter().position(|place| (place.chunk, place.offset) == (gone.chunk, gone.offset)).unwrap() as u64;
    fail_reads(&world, &kept);
    fail_reads(&world, &gone);
    let seen = shown(&world);
    assert_eq!(seen.values().map(Vec::len).sum::<usize>(), 2, "{seen:?}");
    fail_reads(&world, &later);
    let (report, emptied) = accept_of(&world, seen);
    assert!(report.incomplete && report.damage.len() == 1 && report.damage[0].again, "{report:?}");
    assert_eq!(emptied, Emptied { files: 1, kept: vec![] }, "{report:?}");
    assert!(is_there(&world, &kept) && !is_there(&world, &gone), "{report:?}");
    heal(&world);
    let report = with_store(&world, move |store, _| async move {
        find(&store, 0, 2).await;
        for other in (0..12).filter(|other| *other != number) {
            assert_eq!(get(&store, BUCKET, &format!("late{other}")).await.unwrap(), bytes_of(other, 3000), "{other}");
        }
        let error = store.head(BUCKET, &format!("late{number}")).await.expect_err("it was given up");
        assert_eq!(error.kind, StoreErrorKind::NoSuchKey, "{error}");
    });
    assert!(!report.incomplete && report.damage.is_empty(), "{report:?}");
}

//! More drives are lost than parity makes up for, and the loss is accepted; the buffer's files are whole.

use super::*;

/// A life with an object in the buffer alone, behind one in which the first drive was away and was given up.
fn without_the_first() -> Left {
    Sim::new(3).run(|rt| async move {
        let devices = powered(&rt, &media());
        let buffer = [SimFile::new(&rt, Vec::new()), SimFile::new(&rt, Vec::new())];
        let (there, files) = (&named(&devices)[1..], Some(files(&buffer)));
        let (store, _) = ArrayStore::open_with_buffer(&rt, there, &IndexPlace::Memory, plain(), files).await.unwrap();
        put(&store, "o", 1).await;
        left(&devices, &buffer, 1)
    })
}

/// AS-BUF-8: the newest superblock is known, and names the buffer.
#[test]
fn a_loss_of_drives_that_is_accepted_gives_up_no_buffer() {
    let left = without_the_first();
    for orderly in [false, true] {
        let (media, files) = (left.devices.iter().map(MemoryDevice::snapshot).collect::<Vec<_>>(), left.files.clone());
        Sim::new(4).run(move |rt| async move {
            let devices = powered(&rt, &media);
            let buffer = files.map(|bytes| SimFile::new(&rt, bytes));
            let last = &named(&devices)[2..];
            let open = |buffer: Option<&[Rc<SimFile>; 2]>, options| {
                ArrayStore::open_with_buffer(&rt, last, &IndexPlace::Memory, options, buffer.map(super::files))
            };
            let accepting = Options { accept_loss: true, ..plain() };
            // One that does not name its files, and one with a file system missing.
            let others = [SimFile::new(&rt, Vec::new()), SimFile::new(&rt, Vec::new())];
            for wrong in [None, Some(&others)] {
                match open(wrong, accepting.clone()).await {
                    Ok((store, _)) => {
                        if orderly {
                            store.close().await.unwrap();
                        }
                    }
                    Err(error) => {
                        assert_eq!(error.kind, ErrorKind::Format, "{error}");
                        assert!(error.message.contains("--abandon-buffer"), "{error}");
                    }
                }
            }
            let (store, _) = open(Some(&buffer), accepting.clone()).await.unwrap();
            is(&store, "o", 1).await;
        });
    }
}

/// AS-BUF-8: of three drives only one is left, and its superblock is of before the buffer; the files are of this array, and not
/// empty.
#[test]
fn files_that_a_newer_superblock_may_name_are_not_written_over() {
    let left = history(|_, store, _| async move { put(&store, "o", 1).await });
    Sim::new(4).run(move |rt| async move {
        let old = powered(&rt, &media());
        let buffer = left.files.clone().map(|bytes| SimFile::new(&rt, bytes));
        let first = &named(&old)[..1];
        let open =
            |options| ArrayStore::open_with_buffer(&rt, first, &IndexPlace::Memory, options, Some(files(&buffer)));
        let accepting = Options { accept_loss: true, ..plain() };
        let Err(error) = open(accepting.clone()).await else { panic!("a buffer with objects was taken for none") };
        assert!(error.kind == ErrorKind::Format && error.message.contains("--abandon-buffer"), "{error}");
        for (file, before) in buffer.iter().zip(&left.files) {
            assert!(file.writes() == 0 && file.bytes()[..] == before[..], "it was written to");
        }
        // The drives are back.
        let devices = powered(&rt, &left.devices);
        let (store, report) = try_open(&rt, &devices, Some(&buffer), plain()).await.unwrap();
        assert_eq!(report.damage, Vec::<String>::new());
        is(&store, "o", 1).await;
        // They are not to be had.
        let (_, report) = open(Options { abandon_buffer: true, ..accepting }).await.unwrap();
        assert!(!report.damage.is_empty());
    });
}

//! Objects on drives that are away, in what a check and a scrub tell: they are not lost before these drives are given up.

use super::*;

/// Contents of a check or scrub that cannot be read: as many as are away, and as many as are lost.
async fn told(rt: &Runtime, drives: &[ArrayDrive], quick: bool) -> (usize, usize) {
    let options = CheckOptions { quick, ..CheckOptions::default() };
    let report = check(rt, drives, options, |_| {}).await.unwrap();
    assert_eq!((report.repairable.as_slice(), report.clean()), (&[][..], report.away.is_empty()), "{report:?}");
    (report.away.len(), report.lost.len())
}

/// The same of an array that is open.
async fn told_beside(store: &ArrayStore) -> (usize, usize) {
    let scrubbed = store.scrub(ScrubOptions { read_only: true, ..ScrubOptions::default() }, |_| {}).await.unwrap();
    let checked = store.check_gently(false, |_| ()).await.unwrap();
    assert_eq!((&scrubbed.away, &scrubbed.lost), (&checked.away, &checked.lost));
    (scrubbed.away.len(), scrubbed.lost.len())
}

/// AS-SCRUB-1: with one more drive off than parity makes up for, contents are away and not lost; with the drives back all is there.
#[test]
fn what_drives_may_bring_back_is_away_and_not_lost() {
    for closed in [true, false] {
        let left = Sim::new(1).run(move |rt| async move {
            let devices = powered(&rt, &fresh(6));
            let (store, _) = open(&rt, &named(&devices), plain()).await.unwrap();
            for number in 0..40 {
                put(&store, &format!("o{number}"), number).await;
            }
            if closed {
                store.close().await.unwrap();
                return images(&devices);
            }
            assert_eq!(told_beside(&store).await, (0, 0));
            [&devices[0], &devices[1]].into_iter().for_each(off);
            // It says so before it looks at any contents.
            let refused = store.scrub(ScrubOptions { read_only: true, ..ScrubOptions::default() }, |_| {}).await;
            assert_eq!(refused.unwrap_err().kind, ErrorKind::Device);
            images(&devices)
        });
        Sim::new(2).run(move |rt| async move {
            let devices = powered(&rt, &left);
            let drives = named(&devices);
            let (away, lost) = told(&rt, &drives[2..], false).await;
            assert!(away > 0 && lost == 0, "{away} are away, {lost} lost, closed in order: {closed}");
            assert_eq!(told(&rt, &drives[2..], true).await.1, 0);
            assert_eq!(told(&rt, &drives, false).await, (0, 0));
        });
    }
}

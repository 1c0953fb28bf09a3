//! The process at the other end of a socket. A name of a socket can be taken by anyone, so one that is found there is trusted only if it
//! could have opened the drive.

use std::fs::Metadata;
use std::io::{Error, ErrorKind, Result};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::Path;

use rustix::net::sockopt::socket_peercred;

/// Bits of a file's mode: its owner, its group, and others may write.
const WRITABLE: [u32; 3] = [0o200, 0o020, 0o002];

/// Holds the process at the other end against the drive's node or file. (FS-PEER-2)
///
/// # Errors
/// `PermissionDenied` if it cannot be the owner of the drive.
pub(crate) fn check_owner(stream: &UnixStream, holder: &Path) -> Result<()> {
    let peer = socket_peercred(stream)?;
    let (uid, own) = (peer.uid.as_raw(), rustix::process::geteuid().as_raw());
    let pid = peer.pid.as_raw_nonzero();
    let mut groups = groups_of(pid.get());
    groups.push(peer.gid.as_raw());
    // Others than root trust those alone who could do all this to them anyway.
    if uid == own || uid == 0 || (own == 0 && may_write(&std::fs::metadata(holder)?, uid, &groups)) {
        return Ok(());
    }
    let words = format!(
        "the process that says it has the drive open, number {pid}, is of user {uid}, who may not open it: it may give wrong answers; end it"
    );
    Err(Error::new(ErrorKind::PermissionDenied, words))
}

fn may_write(holder: &Metadata, uid: u32, groups: &[u32]) -> bool {
    let [owner, group, others] = WRITABLE.map(|bit| holder.mode() & bit != 0);
    if holder.uid() == uid {
        owner
    } else if groups.contains(&holder.gid()) {
        group
    } else {
        others
    }
}

/// Supplementary groups of a process; none if it has gone.
fn groups_of(pid: i32) -> Vec<u32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let groups = status.lines().find_map(|line| line.strip_prefix("Groups:")).unwrap_or_default();
    groups.split_whitespace().filter_map(|group| group.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use std::fs::{File, Permissions, set_permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// FS-PEER-2.
    #[test]
    fn an_owner_is_one_who_may_write_the_drive() {
        let path = std::env::temp_dir().join(format!("shingle-peer-{}", std::process::id()));
        let file = File::create(&path).unwrap();
        let (uid, gid) = (file.metadata().unwrap().uid(), file.metadata().unwrap().gid());
        let (stranger, other) = (uid + 1, gid + 1);
        for (mode, expected) in
            [(0o600, [true, false, false]), (0o660, [true, true, false]), (0o666, [true; 3]), (0o444, [false; 3])]
        {
            set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            let holder = std::fs::metadata(&path).unwrap();
            let found =
                [(uid, other), (stranger, gid), (stranger, other)].map(|(uid, gid)| may_write(&holder, uid, &[gid]));
            assert_eq!(found, expected, "{mode:o}");
        }
        let (one, _other) = UnixStream::pair().unwrap();
        check_owner(&one, &path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert!(groups_of(i32::MAX).is_empty());
    }
}

//! Failures as the kernel's block layer tells them apart.
//!
//! It makes of some numbers what file systems and programs know: ENODATA is a medium error, ENOSPC is no space, ENODEV an
//! offline device, ETOOMANYREFS too many open zones, EOVERFLOW too many active ones. All other numbers become EIO.

use shingle_store_api::{StoreError, StoreErrorKind};
use shingle_zoned::{DeviceError, DeviceErrorKind, Violation};

use crate::backend::Refused;

/// The failure of a drive's command.
pub(crate) fn of_device(error: &DeviceError) -> Refused {
    let errno = match &error.kind {
        DeviceErrorKind::Rule(Violation::TooManyOpen { .. }) => libc::ETOOMANYREFS,
        DeviceErrorKind::Rule(Violation::TooManyActive { .. }) => libc::EOVERFLOW,
        DeviceErrorKind::Rule(Violation::Misaligned | Violation::AppendTooLong { .. }) => libc::EINVAL,
        DeviceErrorKind::ReadFailed => libc::ENODATA,
        DeviceErrorKind::Gone => libc::ENODEV,
        kind if kind.is_host_full() => libc::ENOSPC,
        _ => libc::EIO,
    };
    Refused { errno, message: error.to_string() }
}

/// The failure of a store's call.
pub(crate) fn of_store(error: &StoreError) -> Refused {
    let errno = match error.kind {
        StoreErrorKind::NoSpace => libc::ENOSPC,
        StoreErrorKind::Invalid | StoreErrorKind::TooLarge => libc::EINVAL,
        StoreErrorKind::Unavailable => libc::ENODEV,
        StoreErrorKind::Corrupt => libc::ENODATA,
        _ => libc::EIO,
    };
    Refused { errno, message: error.message.clone() }
}

/// A command that the disk does not have.
pub(crate) fn unsupported() -> Refused {
    Refused {
        errno: libc::EOPNOTSUPP,
        message: "the kernel asks for a command that this disk does not have".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use shingle_base::Lba;

    use super::*;

    #[test]
    fn the_block_layer_can_tell_failures_apart() {
        let device = |kind| of_device(&DeviceError::new(kind, Lba(7), None)).errno;
        let rule = |violation| device(DeviceErrorKind::Rule(violation));
        assert_eq!(rule(Violation::TooManyOpen { limit: 3 }), libc::ETOOMANYREFS);
        assert_eq!(rule(Violation::TooManyActive { limit: 3 }), libc::EOVERFLOW);
        assert_eq!(rule(Violation::ZoneFull), libc::EIO);
        assert_eq!(device(DeviceErrorKind::ReadFailed), libc::ENODATA);
        assert_eq!(device(DeviceErrorKind::Gone), libc::ENODEV);
        let full = std::io::Error::from_raw_os_error(libc::ENOSPC);
        assert_eq!(device(DeviceErrorKind::System(full)), libc::ENOSPC);
        assert_eq!(device(DeviceErrorKind::System(std::io::Error::other("odd"))), libc::EIO);
        let store = |kind| of_store(&StoreError::new(kind, "words")).errno;
        assert_eq!(store(StoreErrorKind::NoSpace), libc::ENOSPC);
        assert_eq!(store(StoreErrorKind::Corrupt), libc::ENODATA);
        assert_eq!(store(StoreErrorKind::Device), libc::EIO);
    }
}

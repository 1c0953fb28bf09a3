//! The layouts and numbers of the kernel's ublk driver, as `linux/ublk_cmd.h` has them.
//!
//! **Owns** the bytes of control commands, parameters, descriptors of requests, and answers. Pure. **Knows nothing of** rings and files.

use std::mem::{offset_of, size_of};

/// Blocks of the kernel's block layer, in which it counts everything.
pub(super) const SECTOR_BYTES: u64 = 512;

const READ: u32 = 2;
const READ_WRITE: u32 = 3;

/// An ioctl's number: direction, size of its argument, the letter `u`, and its place in the list.
const fn number(direction: u32, size: usize, place: u32) -> u32 {
    direction << 30 | (size as u32) << 16 | (b'u' as u32) << 8 | place
}

const fn control(direction: u32, place: u32) -> u32 {
    number(direction, size_of::<ControlCommand>(), place)
}

/// Numbers of control commands.
pub(super) const GET_INFO: u32 = control(READ, 0x02);
pub(super) const ADD: u32 = control(READ_WRITE, 0x04);
pub(super) const DELETE: u32 = control(READ_WRITE, 0x05);
pub(super) const START: u32 = control(READ_WRITE, 0x06);
pub(super) const STOP: u32 = control(READ_WRITE, 0x07);
pub(super) const SET_PARAMETERS: u32 = control(READ_WRITE, 0x08);
pub(super) const GET_FEATURES: u32 = control(READ, 0x13);
/// As `DELETE`, but does not wait until nobody has the disk open any more.
pub(super) const DELETE_LATER: u32 = control(READ, 0x14);

/// Numbers of commands on a queue.
pub(super) const FETCH: u32 = number(READ_WRITE, size_of::<Answer>(), 0x20);
pub(super) const COMMIT_AND_FETCH: u32 = number(READ_WRITE, size_of::<Answer>(), 0x21);

/// Features of the driver.
pub(super) const IOCTL_NUMBERS: u64 = 1 << 6;
pub(super) const USER_COPY: u64 = 1 << 7;
pub(super) const ZONED: u64 = 1 << 8;

/// A disk's state: its server is gone, or was never there.
pub(super) const DEAD: u16 = 0;
/// The disk that a command adds gets the first free number.
pub(super) const ANY_ID: u32 = u32::MAX;
/// A control command is for no queue.
pub(super) const NO_QUEUE: u16 = u16::MAX;

/// Attributes of a disk.
pub(super) const READ_ONLY: u32 = 1 << 0;
pub(super) const ROTATIONAL: u32 = 1 << 1;
pub(super) const VOLATILE_CACHE: u32 = 1 << 2;
pub(super) const FUA: u32 = 1 << 3;

/// Kinds of parameters.
pub(super) const OF_BASIC: u32 = 1 << 0;
pub(super) const OF_DISCARD: u32 = 1 << 1;
pub(super) const OF_ZONES: u32 = 1 << 3;

/// Flags of a request.
pub(super) const REQUEST_FUA: u32 = 1 << 13;
pub(super) const REQUEST_NO_UNMAP: u32 = 1 << 15;

/// The part of `/dev/ublkcN` where the data of requests are.
const DATA_AT: u64 = 0x8000_0000;
/// A request's data have at most two to this bytes.
const DATA_BITS: u32 = 25;

/// The place of the data of the request with this tag, in the first queue.
pub(super) const fn data_at(tag: u16) -> u64 {
    DATA_AT + ((tag as u64) << DATA_BITS)
}

/// `struct ublksrv_ctrl_cmd`.
#[repr(C)]
pub(super) struct ControlCommand {
    pub(super) id: u32,
    pub(super) queue: u16,
    pub(super) length: u16,
    pub(super) address: u64,
    pub(super) data: u64,
    pub(super) path_length: u16,
    pub(super) padding: u16,
    pub(super) reserved: u32,
}

impl ControlCommand {
    /// As it lies in a submission.
    pub(super) fn to_bytes(&self) -> [u8; 80] {
        let mut bytes = [0; 80];
        let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
        put(offset_of!(Self, id), &self.id.to_ne_bytes());
        put(offset_of!(Self, queue), &self.queue.to_ne_bytes());
        put(offset_of!(Self, length), &self.length.to_ne_bytes());
        put(offset_of!(Self, address), &self.address.to_ne_bytes());
        put(offset_of!(Self, data), &self.data.to_ne_bytes());
        bytes
    }
}

/// `struct ublksrv_ctrl_dev_info`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Info {
    pub(super) queues: u16,
    pub(super) depth: u16,
    pub(super) state: u16,
    pub(super) padding: u16,
    pub(super) transfer_max: u32,
    pub(super) id: u32,
    /// The server's; -1 once it is gone.
    pub(super) process: i32,
    pub(super) padding_too: u32,
    pub(super) features: u64,
    /// Bits that the driver keeps for the server.
    pub(super) own: u64,
    pub(super) user: u32,
    pub(super) group: u32,
    pub(super) reserved: [u64; 2],
}

/// `struct ublk_param_basic`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Basic {
    pub(super) attributes: u32,
    pub(super) logical_shift: u8,
    pub(super) physical_shift: u8,
    pub(super) optimal_shift: u8,
    pub(super) minimal_shift: u8,
    pub(super) transfer_max_sectors: u32,
    /// Requests do not cross multiples of it: the size of a zone.
    pub(super) chunk_sectors: u32,
    pub(super) sectors: u64,
    pub(super) boundary_mask: u64,
}

/// `struct ublk_param_discard`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Discard {
    pub(super) alignment: u32,
    pub(super) granularity: u32,
    pub(super) discard_max_sectors: u32,
    pub(super) zeros_max_sectors: u32,
    pub(super) segments_max: u16,
    pub(super) reserved: u16,
}

/// `struct ublk_param_zoned`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Zones {
    pub(super) open_max: u32,
    pub(super) active_max: u32,
    pub(super) append_max_sectors: u32,
    pub(super) reserved: [u8; 20],
}

/// `struct ublk_params`, as far as Linux 6.6 has it: the driver reads as much of it as `length` says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Parameters {
    pub(super) length: u32,
    pub(super) kinds: u32,
    pub(super) basic: Basic,
    pub(super) discard: Discard,
    /// Numbers of the nodes: the driver's to say.
    pub(super) nodes: [u32; 4],
    pub(super) zones: Zones,
}

/// `struct ublksrv_io_desc`: a request, at the place of its tag in the queue's shared memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Descriptor {
    /// The operation in the low byte, flags above.
    pub(super) operation: u32,
    /// Sectors, or zones of a report.
    pub(super) count: u32,
    pub(super) sector: u64,
    pub(super) address: u64,
}

/// `struct ublksrv_io_cmd`: a command on a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Answer {
    pub(super) queue: u16,
    pub(super) tag: u16,
    /// Bytes done, or an error's number, negative.
    pub(super) result: i32,
    /// Sector of an append; with `USER_COPY`, zero for all else.
    pub(super) appended: u64,
}

impl Answer {
    /// As it lies in a submission.
    pub(super) fn to_bytes(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
        put(offset_of!(Self, queue), &self.queue.to_ne_bytes());
        put(offset_of!(Self, tag), &self.tag.to_ne_bytes());
        put(offset_of!(Self, result), &self.result.to_ne_bytes());
        put(offset_of!(Self, appended), &self.appended.to_ne_bytes());
        bytes
    }
}

const _: () = {
    assert!(size_of::<ControlCommand>() == 32);
    assert!(offset_of!(ControlCommand, address) == 8);
    assert!(offset_of!(ControlCommand, data) == 16);
    assert!(size_of::<Info>() == 64);
    assert!(offset_of!(Info, transfer_max) == 8);
    assert!(offset_of!(Info, features) == 24);
    assert!(offset_of!(Info, own) == 32);
    assert!(size_of::<Basic>() == 32);
    assert!(size_of::<Discard>() == 20);
    assert!(size_of::<Zones>() == 32);
    assert!(size_of::<Parameters>() == 112);
    assert!(offset_of!(Parameters, basic) == 8);
    assert!(offset_of!(Parameters, discard) == 40);
    assert!(offset_of!(Parameters, nodes) == 60);
    assert!(offset_of!(Parameters, zones) == 76);
    assert!(size_of::<Descriptor>() == 24);
    assert!(size_of::<Answer>() == 16);
    assert!(offset_of!(Answer, appended) == 8);
};

#[cfg(test)]
mod tests {
    use super::*;

    /// As a C program prints them that includes the kernel's header.
    #[test]
    fn numbers_of_commands_are_the_kernels() {
        let control = [GET_INFO, ADD, DELETE, START, STOP, SET_PARAMETERS, GET_FEATURES, DELETE_LATER];
        let wanted =
            [0x8020_7502, 0xc020_7504, 0xc020_7505, 0xc020_7506, 0xc020_7507, 0xc020_7508, 0x8020_7513, 0x8020_7514];
        assert_eq!(control, wanted);
        assert_eq!([FETCH, COMMIT_AND_FETCH], [0xc010_7520, 0xc010_7521]);
    }

    #[test]
    fn commands_lie_in_submissions_as_the_kernel_reads_them() {
        let command = ControlCommand {
            id: 0x0403_0201,
            queue: NO_QUEUE,
            length: 0x0605,
            address: 0x0e0d_0c0b_0a09_0807,
            data: 0x11,
            path_length: 0,
            padding: 0,
            reserved: 0,
        };
        let bytes = command.to_bytes();
        assert_eq!(bytes[..17], [1, 2, 3, 4, 255, 255, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 0x11]);
        assert!(bytes[17..].iter().all(|&byte| byte == 0));
        let answer = Answer { queue: 0, tag: 0x0201, result: -5, appended: 0x0708 };
        assert_eq!(answer.to_bytes(), [0, 0, 1, 2, 251, 255, 255, 255, 8, 7, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn data_of_tags_lie_32_mib_apart() {
        assert_eq!([data_at(0), data_at(1), data_at(63)], [0x8000_0000, 0x8200_0000, 0xfe00_0000]);
    }
}

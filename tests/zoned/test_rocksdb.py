"""RocksDB on the kernel's zoned devices: its calls, its own programs, and a machine that loses its power."""

import pytest

import rocksdb
from devices import make_device
from guest import Guest, Zns

pytestmark = pytest.mark.skipif(bool(rocksdb.missing()), reason=str(rocksdb.missing()))


@pytest.fixture(scope="module")
def programs():
    """How the guest's shell calls the contract's program and RocksDB's own, with the library."""
    library = rocksdb.library()
    return f"export LD_PRELOAD={library}\ncontract={rocksdb.contract()}"


@pytest.mark.parametrize("device", ["limits", "zns", "scsi"])
def test_a_database_lives_on_the_kernels_zones(guest, shingle, programs, device):
    node = make_device(guest, device)
    guest.ok(f"{shingle} files format {node}")
    guest.ok(f"{programs}\n$contract calls shingle://dev:{node}", seconds=300)
    bench = f"db_bench --fs_uri=shingle://dev:{node} --db=/bench --num=30000 --write_buffer_size=2097152 --target_file_size_base=2097152"
    said = guest.ok(f"{programs}\n{bench} --benchmarks=fillrandom,overwrite,readrandom,verifychecksum --reads=2000 2>&1", seconds=300)
    assert "readrandom" in said and "overwrite" in said, said
    assert guest.ok(f"{shingle} files check {node}", seconds=300).endswith("clean\n")


@pytest.mark.parametrize("sync", [1, 0])
def test_a_power_cut_loses_no_synchronous_commit(tmp_path, shingle, programs, sync):
    zns = Zns(tmp_path / "zns", zones=64, zone_mib=8, capacity_mib=6, open_max=14, active_max=14)
    uri = "shingle://dev:/dev/nvme0n1"
    with Guest(scratch=tmp_path / "scratch", drives=[zns], seconds=600) as guest:
        guest.ok(f"{shingle} files format /dev/nvme0n1")
        for cut in range(2):
            guest.start(f"{programs}\n$contract fill {uri} /db {sync}")
            said = guest.hear(lambda said, cut=cut: said.count("\n") >= 300 * (1 + cut))
            said += guest.power_cut()
            # The last line may be cut.
            acknowledged = int(said.split("\n")[-2]) + 1
            found = int(guest.ok(f"{programs}\n$contract verify {uri} /db {acknowledged if sync else 0}", seconds=300))
            # Without sync the end may be missing, and nothing in the middle is: the keys that are found have no gap.
            print(f"{acknowledged} keys were acknowledged, {found} are there")
        assert guest.ok(f"{shingle} files check /dev/nvme0n1", seconds=300).endswith("clean\n")

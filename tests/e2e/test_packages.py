"""The Debian package, man pages, completions, unit and udev rule: what is in them, and that their readers accept them."""

import gzip
import os
import re
import shutil
import subprocess

import pytest

import rocksdb
from shingle import BINARY, ROOT, shingle

HIDDEN = "generate"


def run(*command, **options):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=300, **options)
    assert done.returncode == 0, (command, done.stdout, done.stderr)
    return done.stdout


def need(*tools):
    for tool in tools:
        if not shutil.which(tool):
            pytest.skip(f"{tool} is not installed")


def subcommands(*above):
    """Names of a command's subcommands, out of its help, all the way down."""
    text = shingle(*above, "--help").stdout
    section = re.search(r"^Commands:\n((?:  .*\n)+)", text, re.M)
    if section is None:
        return
    for name in re.findall(r"^  ([a-z][a-z-]*)", section[1], re.M):
        if name != "help":
            yield (*above, name)
            yield from subcommands(*above, name)


@pytest.fixture(scope="module")
def commands():
    found = list(subcommands())
    assert len(found) > 25 and ("drive", "identify") in found and not any(HIDDEN in command for command in found)
    return found


@pytest.fixture(scope="module")
def generated(tmp_path_factory):
    folder = tmp_path_factory.mktemp("generated")
    for what in ("man", "completions"):
        done = shingle("generate", what, folder)
        assert done.returncode == 0, done.stderr
    return folder


def unpacked(out, *arguments):
    """The packages that a build with these arguments makes, unpacked, by name."""
    need("dpkg-deb", "dpkg-shlibdeps", "strip")
    # Compression takes longer than everything else.
    quick = {**os.environ, "DPKG_DEB_COMPRESSOR_TYPE": "none"}
    packages = run(ROOT / "packaging/deb/build", "--binary", BINARY, "--out", out, *arguments, env=quick).split()
    names = [re.fullmatch(r".*/([a-z-]+)_[\d.]+_\w+\.deb", package)[1] for package in packages]
    for name, package in zip(names, packages):
        run("dpkg-deb", "--raw-extract", package, out / name)
    return {name: out / name for name in names}


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """The package of the programs."""
    packages = unpacked(tmp_path_factory.mktemp("deb"))
    assert list(packages) == ["shingle"]
    return packages["shingle"]


def test_the_library_for_rocksdb_is_a_package_of_its_own(tmp_path):
    if reason := rocksdb.missing():
        pytest.skip(reason)
    tree = unpacked(tmp_path, "--rocksdb", rocksdb.library())["shingle-rocksdb"]
    library = tree / "usr/lib/libshingle_rocksdb.so"
    control = (tree / "DEBIAN/control").read_text()
    assert re.search(r"^Depends: .*librocksdb", control, re.M) and (tree / "usr/include/shingle/files.h").is_file()
    run("md5sum", "--quiet", "--check", "DEBIAN/md5sums", cwd=tree)
    disk = tmp_path / "disk.shingle"
    for command in (["drive", "create", disk, "--size", "1GiB", "--zone-size", "16MiB"], ["files", "format", disk]):
        assert shingle(*command).returncode == 0
    load = ["--db=/bench", "--benchmarks=fillseq,readrandom", "--num=1000"]
    said = run("db_bench", f"--fs_uri=shingle://file:{disk}", *load, env={**os.environ, "LD_PRELOAD": library})
    assert "readrandom" in said and "1000 of 1000 found" in said


def test_every_subcommand_has_a_man_page_that_man_can_read(generated, commands):
    pages = {path.name for path in generated.glob("*.1")}
    assert pages == {"shingle.1", *(f"shingle-{'-'.join(command)}.1" for command in commands)}
    need("man")
    for page in pages:
        done = subprocess.run(
            ["man", "--warnings", "--local-file", str(generated / page)],
            capture_output=True,
            text=True,
            timeout=60,
            env={**os.environ, "MANPAGER": "cat", "MANWIDTH": "80", "LC_ALL": "C.UTF-8", "MAN_DISABLE_SECCOMP": "1"},
        )
        assert done.returncode == 0 and done.stderr == "", (page, done.stderr)
        assert "NAME" in done.stdout and "SYNOPSIS" in done.stdout, page
        # What `man -k` lists is words, and the foot names the program.
        assert "`" not in done.stdout.split("SYNOPSIS")[0] and "shingle 0." in done.stdout, page


def test_completions_are_read_by_their_shells_and_complete(generated):
    need("bash")
    words = run("bash", "-c", f"""
        source '{generated}/shingle.bash'
        COMP_WORDS=(shingle drive re) COMP_CWORD=2; _shingle shingle re drive
        echo "${{COMPREPLY[@]}}"
        COMP_WORDS=(shingle drive report --c) COMP_CWORD=3; _shingle shingle --c report
        echo "${{COMPREPLY[@]}}"
    """)
    assert words.splitlines() == ["report reset", "--count --csv"]
    for shell, file in (("zsh", "_shingle"), ("fish", "shingle.fish")):
        assert "doctor" in (generated / file).read_text()
        if shutil.which(shell):
            run(shell, "-n", generated / file)
    if shutil.which("fish"):
        words = run("fish", "-c", f"source '{generated}/shingle.fish'; complete -C 'shingle drive re'", env=os.environ)
        assert [line.split("\t")[0] for line in words.splitlines()] == ["report", "reset"]


def test_the_package_holds_what_an_owner_needs(tree, commands):
    files = {str(path.relative_to(tree)) for path in tree.rglob("*") if path.is_file()}
    wanted = {
        "usr/bin/shingle",
        "usr/libexec/shingle/shingle-lab",
        "etc/shingle/config.toml",
        "usr/lib/systemd/system/shingle.service",
        "usr/lib/systemd/system/shingle-volume@.service",
        "usr/lib/udev/rules.d/65-shingle.rules",
        "usr/share/bash-completion/completions/shingle",
        "usr/share/zsh/vendor-completions/_shingle",
        "usr/share/fish/vendor_completions.d/shingle.fish",
        "usr/share/man/man1/shingle.1.gz",
        "usr/share/man/man5/shingle.toml.5.gz",
        "usr/share/man/man5/shingle-array.toml.5.gz",
        "usr/share/doc/shingle/copyright",
        "usr/share/doc/shingle/changelog.gz",
        *(f"usr/share/man/man1/shingle-{'-'.join(command)}.1.gz" for command in commands),
    }
    assert wanted <= files, wanted - files
    control = (tree / "DEBIAN/control").read_text()
    assert re.search(r"^Depends: .*libc6 \(>= .*adduser", control, re.M)
    assert (tree / "DEBIAN/conffiles").read_text() == "/etc/shingle/config.toml\n"
    assert "MIT" in (tree / "usr/share/doc/shingle/copyright").read_text()
    assert gzip.decompress((tree / "usr/share/doc/shingle/changelog.gz").read_bytes()).startswith(b"shingle (")
    for script in ("postinst", "prerm", "postrm"):
        run("sh", "-n", tree / "DEBIAN" / script)
    run("md5sum", "--quiet", "--check", "DEBIAN/md5sums", cwd=tree)
    assert run(tree / "usr/bin/shingle", "--version").startswith("shingle ")
    assert "calibrate" in run(tree / "usr/bin/shingle", "lab", "list")


def test_the_packaged_configuration_is_one(tree, tmp_path):
    """Its data directory is the service's, so another one is given; the rest is used as it is."""
    text = (tree / "etc/shingle/config.toml").read_text()
    assert re.search(r'^data = "/var/lib/shingle"$', text, re.M)
    uncommented = re.sub(r'^#(?=[a-z\[])', "", text, flags=re.M)
    assert "[[drive]]" in uncommented.splitlines()
    assert 'file = "/etc/shingle/shelf.toml"' in uncommented
    shelf = tmp_path / "shelf.toml"
    shelf.write_text('drives = ["serial:ZL2AAAAA", "serial:ZL2BBBBB"]\n')
    config = tmp_path / "config.toml"
    config.write_text(uncommented.replace("/etc/shingle/shelf.toml", str(shelf)))
    done = shingle("serve", "--config", config, "--data", tmp_path / "data", "--listen", "127.0.0.1:0")
    assert done.returncode == 1 and "ZL2XXXXX" in done.stderr, "read in full, up to a drive that nobody has"


def test_every_setting_of_the_configuration_has_its_place_in_the_man_page():
    source = (ROOT / "crates/app/server/src/config/mod.rs").read_text()
    page = (ROOT / "packaging/man/shingle.toml.5").read_text()
    for settings in re.findall(r"pub struct \w+(?:Config|Shape) \{(.*?)\n\}|pub struct Config \{(.*?)\n\}", source, re.S):
        for name in re.findall(r"^    pub (\w+):", "".join(settings), re.M):
            assert re.search(rf"\b{name.removesuffix('s') if name in ('drives', 'blues') else name}\b", page), name


def test_every_setting_of_an_arrays_file_has_its_place_in_the_man_page():
    source = (ROOT / "crates/app/cli/src/array/place.rs").read_text()
    page = (ROOT / "packaging/man/shingle-array.toml.5").read_text()
    settings = re.search(r"pub\(crate\) struct ArrayFile \{(.*?)\n\}", source, re.S)[1]
    names = re.findall(r"^    pub\(crate\) (\w+):", settings, re.M)
    assert len(names) >= 4 and all(re.search(rf"^\.BR? {name}\b", page, re.M) for name in names)


def test_the_unit_and_the_rule_are_accepted(tree):
    unit = (tree / "usr/lib/systemd/system/shingle.service").read_text()
    for line in ("User=shingle", "NoNewPrivileges=yes", "ProtectSystem=strict", "StateDirectory=shingle",
                 "MemoryDenyWriteExecute=yes", "Restart=on-failure"):
        assert line in unit.splitlines()
    rule = (tree / "usr/lib/udev/rules.d/65-shingle.rules").read_text()
    assert 'ATTR{queue/scheduler}="mq-deadline"' in rule and 'GROUP="shingle"' in rule
    need("systemd-analyze")
    for name in ("shingle.service", "shingle-volume@.service"):
        unit = tree / "usr/lib/systemd/system" / name
        command = ["systemd-analyze", "verify", "--man=no", str(unit)]
        verified = subprocess.run(command, capture_output=True, text=True, timeout=60)
        # The program is not installed where the unit says.
        left = [line for line in verified.stderr.splitlines() if "/usr/bin/shingle is not executable" not in line]
        assert left == []
        score = run("systemd-analyze", "security", "--offline=true", unit)
        assert float(re.search(r"exposure level for \S+: ([\d.]+)", score)[1]) <= 2.0, name
    allowed = run("systemd-analyze", "syscall-filter", "@aio")
    assert "io_uring_enter" in allowed
    if subprocess.run(["udevadm", "verify", "--help"], capture_output=True).returncode == 0:
        run("udevadm", "verify", tree / "usr/lib/udev/rules.d/65-shingle.rules")

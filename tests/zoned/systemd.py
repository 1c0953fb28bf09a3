"""A real systemd in a guest: its own processes, mounts and control groups, with udev, journal and D-Bus.

Owns how it is started and how commands reach it. Knows nothing of the services that run there."""

import shlex

#: What is not of use in a guest, or would clean up the shared folder: units that are masked.
MASKED = ("systemd-tmpfiles-setup.service", "systemd-tmpfiles-setup-dev.service", "systemd-tmpfiles-clean.timer")
WANTED = "systemd-journald.service systemd-udevd.service systemd-udev-trigger.service dbus.socket"

START = f"""
mountpoint -q /sys/fs/cgroup || mount -t cgroup2 cgroup /sys/fs/cgroup
# Images for containers forbid packages to start and stop services.
rm -f /usr/sbin/policy-rc.d
mkdir -p /run/systemd/system
for unit in {" ".join(MASKED)}; do ln -sf /dev/null /run/systemd/system/$unit; done
printf '[Unit]\\nRequires={WANTED}\\nAfter={WANTED}\\n' >/run/systemd/system/guest.target
(setsid unshare --pid --fork --mount --mount-proc --cgroup env container=guest \\
    /lib/systemd/systemd --system --unit=guest.target --log-target=journal --show-status=false \\
    </dev/null >/dev/console 2>&1) &
for _ in $(seq 200); do
    manager=$(pgrep -o -x systemd) && nsenter -t $manager -a -r systemctl -q is-active guest.target 2>/dev/null &&
        echo $manager >/run/manager && exit
    sleep 0.3
done
exit 1
"""


class Systemd:
    """systemd as the first process of a namespace of its own, within a guest."""

    def __init__(self, guest):
        self.guest = guest
        guest.ok(START, seconds=120)

    def run(self, command, seconds=300):
        """Runs a command (bash) where systemd runs: its exit status, and all it said."""
        return self.guest.run(f"exec nsenter -t $(cat /run/manager) -a -r -w/ bash -c {shlex.quote(command)}", seconds)

    def ok(self, command, seconds=300):
        """Runs a command that must succeed, and returns what it said."""
        status, said = self.run(command, seconds)
        assert status == 0, f"under systemd, status {status}: {command}\n{said[-6000:]}"
        return said

    def show(self, unit, *properties):
        """Properties of a unit."""
        lines = self.ok(f"systemctl show {unit} -p {','.join(properties)}").splitlines()
        return dict(line.split("=", 1) for line in lines if "=" in line)

    def wait(self, unit, wanted, seconds=60):
        """Waits until properties of a unit have these values."""
        condition = " && ".join(f'[ "$(systemctl show {unit} -p {name} --value)" = {value} ]' for name, value in wanted.items())
        status, _ = self.run(f"for _ in $(seq {seconds * 4}); do {condition} && exit; sleep 0.25; done; exit 1", seconds * 4)
        assert status == 0, f"{unit}: {self.show(unit, *wanted)}, not {wanted}\n{self.journal(unit)}"

    def journal(self, unit):
        """The last lines of a unit in the journal."""
        return self.run(f"journalctl -u {unit} --no-pager | tail -n 40")[1]

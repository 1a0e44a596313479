"""A real Slurm on this machine: munge, controller and one node with eight GPUs that are /dev/null."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from pathlib import Path
from types import TracebackType

_BINARIES = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scancel", "sinfo")
_CONF = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
SlurmctldPort={controller}
SlurmdPort={node}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
ReturnToService=2
SchedulerParameters=sched_interval=1,batch_sched_delay=0
GresTypes=gpu
SlurmdParameters=config_overrides
KillWait=2
NodeName={host} NodeAddr=127.0.0.1 CPUs=16 State=UNKNOWN Gres=gpu:8
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:8
"""


def missing() -> str | None:
    """Why no cluster can be started here; None if it can."""
    gone = [name for name in _BINARIES if shutil.which(name, path=_path()) is None]
    if gone:
        return f"{', '.join(gone)} not installed (Debian: slurm-wlm munge)"
    return None if os.geteuid() == 0 else "starting Slurm's daemons needs root"


def _path() -> str:
    return f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


class Cluster:
    """Started on entering, ended on leaving; ``env`` makes Slurm's commands use it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.env = {**os.environ, "PATH": _path(), "SLURM_CONF": str(folder / "slurm.conf")}
        self._daemons: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Cluster:
        folder = self.folder
        for name in ("state", "spool", "gpus"):
            (folder / name).mkdir(parents=True)
        host = socket.gethostname().split(".")[0]
        for number in range(8):
            # Slurm insists on device files; reading this one gives nothing.
            (folder / "gpus" / f"gpu{number}").symlink_to("/dev/null")
        (folder / "gres.conf").write_text(
            f"NodeName={host} Name=gpu Flags=nvidia_gpu_env File={folder}/gpus/gpu[0-7]\n"
        )
        (folder / "slurm.conf").write_text(
            _CONF.format(
                host=host,
                folder=folder,
                controller=_free_port(),
                node=_free_port(),
            )
        )
        (folder / "cgroup.conf").write_text("")
        key = folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        try:
            self._start("munged", "--foreground", "--force", f"--key-file={key}",
                        f"--socket={folder}/munge.socket", f"--log-file={folder}/munged.log",
                        f"--pid-file={folder}/munged.pid", f"--seed-file={folder}/munged.seed")  # fmt: skip
            self._until(lambda: (folder / "munge.socket").exists(), "munged")
            self._start("slurmctld", "-D")
            self._start("slurmd", "-D", "-N", host)
            self._until(lambda: self.run("sinfo", "-h", "-o", "%T").strip() == "idle", "an idle node")
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def _start(self, *words: str) -> None:
        with (self.folder / f"{words[0]}.out").open("wb") as out:
            self._daemons.append(subprocess.Popen(words, env=self.env, stdout=out, stderr=out))

    def _until(self, ready: object, what: str) -> None:
        for _ in range(300):
            if ready():  # type: ignore[operator]
                return
            time.sleep(0.1)
        logs = "\n".join(path.read_text()[-1500:] for path in self.folder.glob("*.log"))
        raise RuntimeError(f"no {what} after 30 s\n{logs}")

    def _end(self) -> None:
        subprocess.run(["scancel", "--user=root"], env=self.env, capture_output=True)
        for daemon in reversed(self._daemons):
            daemon.terminate()
        for daemon in self._daemons:
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()

    def run(self, *words: str) -> str:
        """Standard output of one of Slurm's commands."""
        return subprocess.run(words, env=self.env, capture_output=True, text=True).stdout

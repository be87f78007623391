"""A Slurm of this machine's own, for a test: munged, slurmctld and slurmds with simulated GPUs.

Everything lies below one folder, and on ports of its own. Needs root and Debian's slurm-wlm and munge.
"""
import ctypes
import os
import pwd
import shutil
import signal
import socket
import subprocess
import time

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scontrol", "scancel", "mungekey")


def missing():
    """Why it cannot start here; "" when it can."""
    if os.geteuid() != 0:
        return "no root"
    gone = [p for p in PROGRAMS if not shutil.which(p, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")]
    return f"no {', '.join(gone)}" if gone else ""


def free_ports(n):
    held = [socket.socket() for _ in range(n)]
    for s in held:
        s.bind(("127.0.0.1", 0))
    ports = [s.getsockname()[1] for s in held]
    for s in held:
        s.close()
    return ports


def die_with_us():
    """A test that is killed leaves no daemons."""
    ctypes.CDLL(None).prctl(1, int(signal.SIGKILL))  # PR_SET_PDEATHSIG


class Cluster:
    """Two nodes on this machine, each a slurmd of its own with one simulated GPU: so two tasks run at a time.

    That takes a Slurm built with --enable-multiple-slurmd, as Debian's is."""

    NODES = ("night1", "night2")

    def __init__(self, folder):
        self.dir = folder
        self.daemons = []
        os.chmod(folder, 0o755)
        for name in ("munge", "state", "spool", "log"):
            os.mkdir(os.path.join(folder, name))
        self.socket = os.path.join(folder, "munge/socket")
        self.conf = os.path.join(folder, "slurm.conf")
        self.host = socket.gethostname().split(".")[0]

    def path(self, *names):
        return os.path.join(self.dir, *names)

    def write(self):
        ctld, *ports = free_ports(1 + len(self.NODES))
        cpus = os.cpu_count() or 1
        for node in self.NODES:
            os.mknod(self.path(f"gpu-{node}"), 0o020666, os.makedev(1, 3))  # another name of /dev/null
        with open(self.path("gres.conf"), "w") as f:
            f.writelines(f"NodeName={node} Name=gpu File={self.path(f'gpu-{node}')}\n" for node in self.NODES)
        nodes = "\n".join(f"NodeName={node} NodeHostname={self.host} NodeAddr=127.0.0.1 Port={port} "
                          f"CPUs={cpus} Gres=gpu:1 State=UNKNOWN" for node, port in zip(self.NODES, ports))
        with open(self.path("cgroup.conf"), "w") as f:
            f.write("CgroupPlugin=cgroup/v1\n")
        with open(self.conf, "w") as f:
            f.write(f"""ClusterName=night
SlurmctldHost={self.host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={self.socket},cred_expire=2
CredType=cred/munge
SlurmctldPort={ctld}
StateSaveLocation={self.path('state')}
SlurmdSpoolDir={self.path('spool')}/%n
SlurmctldPidFile={self.path('slurmctld.pid')}
SlurmdPidFile={self.path('slurmd-%n.pid')}
SlurmctldLogFile={self.path('log/slurmctld')}
SlurmdLogFile={self.path('log/slurmd-%n')}
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=sched_interval=1,batch_sched_delay=0,sched_min_interval=0
JobAcctGatherType=jobacct_gather/none
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
KillWait=10
MinJobAge=600
GresTypes=gpu
{nodes}
PartitionName=night Nodes={','.join(self.NODES)} Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:4
""")

    def env(self):
        return {**os.environ, "SLURM_CONF": self.conf,
                "PATH": os.environ.get("PATH", "") + ":/usr/sbin:/sbin"}

    def start(self, *command, user=None, name=None):
        log = open(self.path("log", (name or command[0]) + ".out"), "w")
        daemon = subprocess.Popen(command, env=self.env(), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                  user=user, start_new_session=True, preexec_fn=die_with_us)
        log.close()
        self.daemons.append(daemon)

    def begin(self):
        """True: it answers."""
        munge = pwd.getpwnam("munge").pw_uid
        key = self.path("munge/key")
        with open(key, "wb") as f:
            f.write(os.urandom(1024))
        os.chmod(key, 0o400)
        os.chmod(self.path("munge"), 0o711)
        for path in (self.path("munge"), key):
            os.chown(path, munge, -1)
        self.write()
        self.start("munged", "--foreground", "--force", f"--socket={self.socket}", f"--key-file={key}",
                   f"--pid-file={self.path('munge/pid')}", f"--seed-file={self.path('munge/seed')}",
                   f"--log-file={self.path('munge/log')}", user=munge)
        self.wait(lambda: os.path.exists(self.socket))
        self.start("slurmctld", "-D", "-c", "-f", self.conf)
        for node in self.NODES:
            self.start("slurmd", "-D", "-f", self.conf, "-N", node, name=f"slurmd-{node}")
        return self.wait(lambda: self.ask("sinfo", "-h", "-N", "-o", "%N %T", check=False).splitlines() ==
                         [f"{node} idle" for node in self.NODES])

    @staticmethod
    def wait(true, seconds=60):
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if true():
                return True
            time.sleep(0.1)
        return False

    def ask(self, *command, check=True):
        done = subprocess.run(command, env=self.env(), capture_output=True, text=True, timeout=60, check=False)
        if check and done.returncode:
            raise AssertionError(f"{command}: {done.stdout}{done.stderr}")
        return done.stdout

    def said(self):
        text = ""
        for name in sorted(os.listdir(self.path("log"))):
            with open(self.path("log", name), errors="replace") as f:
                text += f"== {name}\n{f.read()[-4000:]}\n"
        return text

    def end(self):
        if len(self.daemons) > 1:
            self.ask("scancel", "--full", "--user=root", check=False)
            self.wait(lambda: not self.ask("squeue", "-h", check=False).strip(), 30)
        for daemon in reversed(self.daemons):
            daemon.send_signal(signal.SIGTERM)
        for daemon in reversed(self.daemons):
            try:
                daemon.wait(15)
            except subprocess.TimeoutExpired:
                os.killpg(daemon.pid, signal.SIGKILL)
                daemon.wait()

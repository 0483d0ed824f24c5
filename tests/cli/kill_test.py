#!/usr/bin/env python3
"""Kills a checkpointing run with SIGKILL at random moments, resumes it, and holds every checkpoint that is ever seen
against those of a run that was never killed: all files equal, byte for byte.

kill_test.py PROGRAM [--kills N] [--seed S]. Prints the seed; exits 1 at the first difference.
"""
import argparse
import filecmp
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ITERATIONS = 40


def train(program, work, folder, keep):
    return [program, "run", work / "plan.json", "--profile", work / "profile.json", "--share-cores", "--no-equivalence",
            "--warm-ups", "1", "--iterations", str(ITERATIONS - 1), "--checkpoint-dir", folder, "--checkpoint-every", "1",
            "--keep", str(keep), "--resume", "-o", work / "run.json"]


def prepare(program, work):
    subprocess.run([program, "profile", "--model", "mlp", "--layers", "4", "--width", "24", "--microbatch-size", "4",
                    "--samples", "1..1", "-o", work / "profile.json"], check=True, capture_output=True)
    subprocess.run([program, "plan", work / "profile.json", "--stages", "2", "--microbatches", "4", "--optimizer", "adam",
                    "-o", work / "plan.json"], check=True, capture_output=True)
    subprocess.run(train(program, work, work / "unbroken", ITERATIONS), check=True, capture_output=True)


def finished(folder):
    return sorted(path for path in folder.glob("iteration-*") if path.is_dir())


def difference(folder, unbroken):
    """The first file of `folder`'s checkpoints that is not as in the unbroken run; None if all are."""
    for checkpoint in finished(folder):
        reference = unbroken / checkpoint.name
        names = sorted(path.name for path in reference.iterdir())
        if names != sorted(path.name for path in checkpoint.iterdir()):
            return checkpoint
        _, different, broken = filecmp.cmpfiles(checkpoint, reference, names, shallow=False)
        if different or broken:
            return checkpoint / (different + broken)[0]
    return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}")
    rng = random.Random(arguments.seed)
    with tempfile.TemporaryDirectory() as name:
        work = pathlib.Path(name)
        prepare(arguments.program, work)
        folder, kills, ends, resumed = work / "killed", 0, 0, 0
        while kills < arguments.kills:
            resumed += bool(finished(folder)) if folder.exists() else 0
            process = subprocess.Popen(train(arguments.program, work, folder, 3), stdout=subprocess.DEVNULL,
                                       stderr=subprocess.PIPE)
            time.sleep(rng.uniform(0, 0.12))
            process.send_signal(signal.SIGKILL)
            message = process.communicate()[1].decode()
            if process.returncode == -signal.SIGKILL:
                kills += 1
            elif process.returncode == 0:
                ends += 1
            else:
                sys.exit(f"kill {kills}: exit code {process.returncode}\n{message}")
            if wrong := difference(folder, work / "unbroken"):
                sys.exit(f"kill {kills}: {wrong.relative_to(work)} differs from the unbroken run")
            if process.returncode == 0:
                if finished(folder)[-1].name != f"iteration-{ITERATIONS:08}":
                    sys.exit(f"kill {kills}: the run ended at {finished(folder)[-1].name}")
                shutil.rmtree(folder)
        # The last one may run to its end.
        subprocess.run(train(arguments.program, work, folder, 3), check=True, capture_output=True)
        if wrong := difference(folder, work / "unbroken"):
            sys.exit(f"at the end: {wrong.relative_to(work)} differs from the unbroken run")
    print(f"{kills} kills, {resumed} resumptions, {ends} runs to the end between them: every checkpoint equal")
    if resumed == 0 or ends + kills == 0:
        sys.exit("no run was resumed: the kills came too early")


if __name__ == "__main__":
    main()

"""Finds changes of the source that no unit test notices, in all files that are named: see "Mutants" in docs/testing.md.

cargo-mutants says which changes there are. All of a crate are compiled into one test binary (switch.py), so that a mutant costs no build;
and each is tested with the tests that reach it alone, up to the first that fails. What does not compile is no mutant.

    run.py STATE [--iterate] [--seconds N] [--budget N] FILE...

STATE is a folder for the copy of the tree, the binaries and the results. With --iterate, only what was not killed the last time is run
again. Of each mutant, tests are run until they have taken --budget seconds, by their usual time; what those do not notice counts as a
survivor. FILE is a glob, as of `cargo mutants --file`. Exits with 1 where a mutant survives.
"""

import collections
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from switch import PARSER, SWITCH, Source, marks

CARGO = os.environ.get("CARGO", "cargo").split()
# Tests that take longer alone are left out.
SECONDS_MAX = 60
# Of a test that mutants hang, this much of its usual time is waited for.
PATIENCE = 2


def cargo(tree, *args):
    return subprocess.run([*CARGO, *args], cwd=tree, capture_output=True, text=True)


def put(path, content):
    """Writes a file, unless it holds that already: cargo goes by the times of files."""
    if not path.exists() or path.read_bytes() != content:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def copy_tree(tree):
    """Copies what git knows of, or does not ignore, of the current folder. Nothing else is left in the copy."""
    listed = subprocess.run(["git", "ls-files", "-z", "-co", "--exclude-standard"], capture_output=True, text=True, check=True)
    files = [Path(name) for name in listed.stdout.split("\0") if name and Path(name).is_file()]
    for path in files:
        put(tree / path, path.read_bytes())
        shutil.copymode(path, tree / path)
    wanted = {tree / path for path in files}
    for path in [path for path in tree.rglob("*") if path.is_file() and path not in wanted]:
        path.unlink()


def messages(output):
    return [json.loads(line) for line in output.splitlines() if line.startswith("{")]


class Crate:
    def __init__(self, state, tree, package, mutants):
        self.tree, self.package, self.mutants = tree, package, mutants
        for number, mutant in enumerate(mutants):
            mutant["id"] = number
        self.folder = Path(mutants[0]["file"].split("/src/")[0])
        self.state = state / package
        self.state.mkdir(parents=True, exist_ok=True)
        self.binary, self.scratch = self.state / "tests", self.state / "tmp"

    def load(self, name):
        path = self.state / f"{name}.json"
        return json.loads(path.read_text()) if path.exists() else {}

    def save(self, name, value):
        (self.state / f"{name}.json").write_text(json.dumps(value, indent=0))

    def build(self):
        """Builds the binary. Leaves out what does not compile, and what there is no switch for."""
        by_file = collections.defaultdict(list)
        for mutant in self.mutants:
            by_file[mutant["file"]].append(mutant)
        originals = {file: (self.tree / file).read_bytes() for file in by_file}
        sources = {file: Source(originals[file].decode(), mutants) for file, mutants in by_file.items()}
        self.unswitched = [m for source in sources.values() for m in source.unswitched]
        known = self.load("uncompiled")
        self.uncompiled = {m["id"] for m in self.mutants if m["name"] in known}
        library = self.tree / self.folder / "src/lib.rs"
        originals[library.relative_to(self.tree)] = library.read_bytes()
        try:
            executable = self.compile(sources, library)
        finally:
            # A crate that is built on this one must not have its mutants as well.
            for file, content in originals.items():
                put(self.tree / file, content)
        self.save("uncompiled", sorted(m["name"] for m in self.mutants if m["id"] in self.uncompiled))
        shutil.copy(executable, self.binary)

    def compile(self, sources, library):
        """The executable of the unit tests with all mutants that compile."""
        original = library.read_text()
        # What `check` finds costs less; some lints are of the code that is generated.
        for step in (["check", "--tests"], ["test", "--no-run"]):
            while True:
                for file, source in sources.items():
                    (self.tree / file).write_text(source.render(self.uncompiled))
                library.write_text(original + SWITCH)
                ran = cargo(self.tree, *step, "--profile", "mutants", "-p", self.package, "--lib", "--message-format=json", "--locked")
                if ran.returncode == 0:
                    break
                errors = [m["message"] for m in messages(ran.stdout) if m.get("reason") == "compiler-message" and m["message"]["level"] == "error"]
                to_blame = {id for error in errors for id in self.blamed(error)} - self.uncompiled
                if not to_blame:
                    sys.exit("\n".join(e["rendered"] for e in errors[:5]) or ran.stderr)
                self.uncompiled |= to_blame
        return next(m["executable"] for m in messages(ran.stdout) if m.get("reason") == "compiler-artifact" and m.get("executable"))

    def blamed(self, error):
        """The mutants that an error of the compiler is about: those of the narrowest mark around it, or the arms of a `match` that lacks some."""
        for span in sorted(error["spans"], key=lambda span: not span["is_primary"]):
            path = self.tree / span["file_name"]
            text = path.read_bytes() if path.exists() else b""
            marked = marks(text)
            around = [m for m in marked if m[0] <= span["byte_start"] and span["byte_end"] <= m[1]]
            if around:
                return min(around, key=lambda m: m[1] - m[0])[2]
            found = PARSER.parse(text).root_node.descendant_for_byte_range(span["byte_start"], span["byte_end"])
            while found is not None and found.type != "match_expression":
                found = found.parent
            if found is not None:
                arms = [arm.child_by_field_name("pattern") for arm in found.child_by_field_name("body").named_children if arm.type == "match_arm"]
                within = {id for m in marked for id in m[2] if any(arm.start_byte <= m[0] < arm.end_byte for arm in arms)}
                missing = [id for id in within if self.mutants[id]["genre"] == "MatchArm"]
                if missing:
                    return missing
        return []

    def clear(self):
        # Some tests make deeper folders than Python can remove; one that is killed may leave what is immutable.
        removed = subprocess.run(["rm", "-rf", str(self.scratch)], stderr=subprocess.DEVNULL)
        if removed.returncode != 0:
            subprocess.run(["chattr", "-R", "-f", "-i", "-a", str(self.scratch)])
            subprocess.run(["rm", "-rf", str(self.scratch)])

    def run_tests(self, tests, seconds, **environment):
        """Runs tests up to the first that fails: 'ok', or why not."""
        self.clear()
        self.scratch.mkdir()

        def alone():
            os.setsid()
            resource.setrlimit(resource.RLIMIT_AS, (12 << 30, 12 << 30))

        variables = {**os.environ, "TMPDIR": str(self.scratch), **environment}
        # What a killed test has mounted goes with its namespace.
        namespace = ["unshare", "--mount"] if os.geteuid() == 0 else []
        command = [*namespace, str(self.binary), "--exact", "--test-threads", "2", *tests]
        process = subprocess.Popen(command, cwd=self.tree / self.folder, env=variables, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, preexec_fn=alone)
        result = []

        def end(why):
            result.append(why)
            os.killpg(process.pid, signal.SIGKILL)

        signal.signal(signal.SIGALRM, lambda *_: end("timeout"))
        signal.alarm(int(seconds) + 1)
        for line in process.stdout:
            failed = re.match(r"test (\S+).* \.\.\. FAILED", line)
            if failed:
                signal.alarm(0)
                end(failed.group(1))
                break
        process.wait()
        signal.alarm(0)
        self.clear()
        return result[0] if result else "ok" if process.returncode == 0 else f"exit {process.returncode}"

    def trace(self, iterate):
        """Runs each test alone: how long it takes, and which mutants it reaches. With `iterate`, only new tests, if no mutant is new."""
        before, names = self.load("traced"), {m["id"]: m["name"] for m in self.mutants}
        is_known = iterate and set(names.values()) <= set(before.get("mutants", []))
        self.seconds = before["seconds"] if is_known else {}
        self.reaching = collections.defaultdict(list, before["reaching"] if is_known else {})
        listed = subprocess.run([self.binary, "--list"], cwd=self.tree / self.folder, capture_output=True, text=True).stdout
        tests = [line.removesuffix(": test") for line in listed.splitlines() if line.endswith(": test")]
        trace = self.state / "trace"
        for test in (test for test in tests if test not in self.seconds):
            trace.write_text("")
            # Some tests act as another user.
            trace.chmod(0o666)
            began = time.time()
            result = self.run_tests([test], SECONDS_MAX, MUTANT_TRACE=str(trace))
            if result != "ok":
                print(f"{test} fails without any mutant ({result}); it is left out", flush=True)
                continue
            self.seconds[test] = time.time() - began
            for number in set(trace.read_text().split()):
                self.reaching[names[int(number)]].append(test)
        gone = set(self.seconds) - set(tests)
        self.reaching = {mutant: [test for test in reached if test not in gone] for mutant, reached in self.reaching.items()}
        self.save("traced", {"mutants": sorted(names.values()), "seconds": self.seconds, "reaching": self.reaching})

    def judge(self, mutant, budget):
        """'ok' where no test notices a mutant, 'unreached' where none gets there; else what noticed it."""
        tests = sorted(self.reaching.get(mutant["name"], []), key=lambda name: self.seconds[name])
        module = re.sub(r"(/mod)?\.rs$", "", mutant["file"].split("/src/")[1]).replace("/", "::")
        # Those of a file stand in it, or in its folder's `tests`.
        above, _, leaf = module.rpartition("::")
        is_near = re.compile(rf"{module}::|{above}::tests::{leaf}::").match
        near = [name for name in tests if is_near(name)]
        near += [name for name in tests if not is_near(name) and name.startswith(f"{above}::")]
        far = [name for name in tests if name not in near]
        chosen, total = set(), 0
        for name in near + far:
            total += self.seconds[name]
            if not chosen or total <= budget:
                chosen.add(name)
        near, far = ([name for name in names if name in chosen] for names in (near, far))
        result = "unreached"
        for group in (near[:40], far[:12], far[12:40], near[40:] + far[40:]):
            if group:
                result = self.run_tests(group, 10 + PATIENCE * sum(self.seconds[name] for name in group), MUTANT=str(mutant["id"]))
            if result not in ("ok", "unreached"):
                break
        return result

    def run(self, iterate, until, budget):
        before = self.load("results") if iterate else {}
        wanted = [m for m in self.mutants if m["id"] not in self.uncompiled and m not in self.unswitched]
        # Those of other files are kept, too.
        again = {m["name"] for m in wanted if before.get(m["name"], "ok") in ("ok", "unreached")}
        results = {name: result for name, result in before.items() if name not in again}
        for mutant in wanted:
            if mutant["name"] in results:
                continue
            if time.time() > until:
                break
            results[mutant["name"]] = self.judge(mutant, budget)
            self.save("results", results)
        self.save("results", results)
        by_file = collections.defaultdict(collections.Counter)
        names = {m["name"] for m in self.unswitched}
        for mutant in self.mutants:
            result = results.get(mutant["name"])
            kind = "killed" if result else "not run"
            if mutant["id"] in self.uncompiled:
                kind = "uncompiled"
            elif result in ("ok", "unreached"):
                kind = "survived"
            elif mutant["name"] in names:
                kind = "unswitched"
            if kind in ("survived", "unswitched"):
                print(f"{'unreached' if result == 'unreached' else kind:10} {mutant['name']}")
            by_file[mutant["file"]][kind] += 1
        for file, counts in by_file.items():
            print(f"{file}: " + ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items())))
        return not any(counts["survived"] for counts in by_file.values())


def main():
    arguments = sys.argv[1:]
    state, files, iterate, until, budget = Path(arguments.pop(0)).resolve(), [], False, float("inf"), float("inf")
    while arguments:
        argument = arguments.pop(0)
        if argument == "--iterate":
            iterate = True
        elif argument == "--seconds":
            until = time.time() + float(arguments.pop(0))
        elif argument == "--budget":
            budget = float(arguments.pop(0))
        else:
            files.append(f"--file={argument}")
    tree = state / "tree"
    copy_tree(tree)
    listed = subprocess.run(["cargo", "mutants", "--workspace", "--list", "--json", *files], cwd=tree, capture_output=True, text=True, check=True)
    by_package = collections.defaultdict(list)
    for mutant in json.loads(listed.stdout):
        by_package[mutant["package"]].append(mutant)
    are_all_killed = True
    for package, mutants in by_package.items():
        crate = Crate(state, tree, package, mutants)
        began = time.time()
        crate.build()
        print(f"{package}: {len(mutants)} mutants, {len(crate.uncompiled)} do not compile; built in {time.time() - began:.0f} s", flush=True)
        began = time.time()
        crate.trace(iterate)
        print(f"{package}: {len(crate.seconds)} tests, each alone, in {time.time() - began:.0f} s", flush=True)
        are_all_killed &= crate.run(iterate, until, budget)
    sys.exit(0 if are_all_killed else 1)


if __name__ == "__main__":
    main()

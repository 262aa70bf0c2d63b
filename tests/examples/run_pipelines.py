#!/usr/bin/env python3
"""run_pipelines.py PROGRAM SOURCE - the pipelines of examples/pipelines, by their own steps, in a new repository with the digits network:
GitHub's workflow with the action of action.yml, GitLab's job, and the hooks of pre-commit. Each passes for the model as it is; with a gate
that int8 misses it fails, names the gate, and writes nothing. The steps are read from the files by PyYAML (without: exit status 77)."""
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile

try:
    import yaml
except ImportError:
    print("PyYAML is missing: skipped")
    sys.exit(77)

PROGRAM, SOURCE = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
PIPELINES = os.path.join(SOURCE, "examples", "pipelines")
DIGITS = os.path.join(SOURCE, "examples", "digits")


def load(path):
    with open(path, encoding="utf-8") as file:
        return yaml.safe_load(file)


def repository(folder, gates=None):
    """A repository as the pipelines expect it; its `bin` has the program, and a gh that keeps what it was asked."""
    os.makedirs(folder + "/models")
    os.makedirs(folder + "/bin")
    subprocess.run(["git", "init", "-q", folder], check=True)
    for name in ("digits.npz", "digits.layers.txt", "images.npz"):
        os.symlink(os.path.join(DIGITS, name), f"{folder}/models/{name}")
    os.symlink(PROGRAM, folder + "/bin/vcompress")
    with open(folder + "/bin/gh", "w", encoding="utf-8") as file:
        file.write('#!/bin/sh\nprintf "%s\\n" "$@" >gh.asked; cat "$5" >gh.body\n')
    os.chmod(folder + "/bin/gh", 0o755)
    with open(os.path.join(PIPELINES, "gates.json"), encoding="utf-8") as file:
        limits = json.load(file)
    for command, own in (gates or {}).items():
        limits[command].update(own)
    with open(folder + "/gates.json", "w", encoding="utf-8") as file:
        json.dump(limits, file)


def shell(folder, script, **variables):
    env = {"PATH": f"{folder}/bin:" + os.environ["PATH"], "HOME": folder, "TMPDIR": folder, "RUNNER_TEMP": folder, **variables}
    done = subprocess.run(["sh", "-e", "-c", script], cwd=folder, env=env, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


# ---- GitHub ----

def filled(text, values):
    """The text with its ${{ expressions }}; one that has no value here is an error of the file."""
    return re.sub(r"\$\{\{ *([\w.-]+) *\}\}", lambda m: values[m[1]], text)


def action(folder, given):
    """The step of action.yml: its exit status, and its outputs."""
    made = load(os.path.join(SOURCE, "action.yml"))
    assert set(given) <= set(made["inputs"]), set(given) - set(made["inputs"])
    inputs = {"inputs." + name: given.get(name, row.get("default")) for name, row in made["inputs"].items()}
    [step] = made["runs"]["steps"]
    env = {name: filled(value, inputs) for name, value in step["env"].items()}
    status, said = shell(folder, step["run"], GITHUB_ACTION_PATH=SOURCE, GITHUB_OUTPUT=folder + "/outputs", GITHUB_STEP_SUMMARY=folder + "/summary", **env)
    with open(folder + "/outputs", encoding="utf-8") as file:
        found = dict(line.rstrip("\n").split("=", 1) for line in file)
    assert set(made["outputs"]) == set(found), (set(made["outputs"]), found)
    return status, found, said


def github(folder):
    """The steps of the workflow in their order, with always() and failure(). Returns the output of the last that ran, and whether all passed."""
    workflow = load(os.path.join(PIPELINES, "github.yml"))
    values = {"vars.VCOMPRESS": PROGRAM, "github.token": "token", "github.event.number": "7"}
    passed, said, uploaded = True, "", None
    [job] = workflow["jobs"].values()
    for step in job["steps"]:
        when = step.get("if", "success()")
        assert when in ("success()", "always()", "failure()"), when
        if not (when == "always()" or passed == (when == "success()")):
            continue
        if "vcompress@" in step.get("uses", ""):
            status, outputs, told = action(folder, {name: filled(str(value), values) for name, value in step["with"].items()})
            values.update({f"steps.{step['id']}.outputs.{name}": value for name, value in outputs.items()})
            passed = passed and status == 0
        elif "run" in step:
            status, told = shell(folder, step["run"], **{name: filled(value, values) for name, value in step["env"].items()})
            assert status == 0, told
        elif "upload-artifact@" in step["uses"]:
            uploaded, told = filled(step["with"]["path"], values).split(), ""
        else:
            assert step["uses"].startswith("actions/checkout@"), step
            continue
        said = told
    return passed, said, uploaded


def test_github(work):
    repository(work + "/good")
    passed, _, uploaded = github(work + "/good")
    assert passed and len(uploaded) == 2 and all(os.path.getsize(os.path.join(work, "good", path)) for path in uploaded), uploaded
    with open(work + "/good/gh.body", encoding="utf-8") as file:
        assert "smaller" in file.read()
    repository(work + "/bad", {"quantize": {"min_sqnr": 60}})
    passed, said, uploaded = github(work + "/bad")
    assert not passed and uploaded is None
    assert re.match(r"::error title=gate min_sqnr_db::.*fc1\.weight has an SQNR of [\d.]+ dB, --min-sqnr asks for 60\.00 dB", said), said
    with open(work + "/bad/gh.body", encoding="utf-8") as file:
        body = file.read()
    assert "| `min_sqnr_db` | 60.0 dB | 42.4 dB | **missed** |" in body and "| `min_ratio` | 3.5 | 3.66 | met |" in body, body
    assert not os.path.exists(work + "/bad/digits.int8.npz")


# ---- GitLab ----

def gitlab(folder):
    job = load(os.path.join(PIPELINES, "gitlab-ci.yml"))["model"]
    assert job["image"]["entrypoint"] == [""]  # the Dockerfile's own is vcompress, which takes no script
    status, said = shell(folder, "\n".join(job["script"]), **job["variables"])
    return status, said, [path for path in job["artifacts"]["paths"] if os.path.exists(f"{folder}/{path}")]


def test_gitlab(work):
    repository(work + "/good")
    status, said, kept = gitlab(work + "/good")
    assert status == 0 and len(kept) == 3, said
    os.rename(work + "/good/report.json", work + "/good/models/report.json")  # the baseline of the next run
    assert gitlab(work + "/good")[0] == 0
    with open(work + "/good/models/report.json", encoding="utf-8") as file:
        before = json.load(file)
    before["outputs"][0]["file_bytes"] -= 5000
    with open(work + "/good/models/report.json", "w", encoding="utf-8") as file:
        json.dump(before, file)
    status, said, kept = gitlab(work + "/good")
    assert status == 1 and "--max-growth allows 2 %" in said and "report.json" in kept, said
    repository(work + "/bad", {"evaluate": {"min_accuracy": 0.999}})
    status, said, kept = gitlab(work + "/bad")
    assert status == 1 and "below --min-accuracy 0.999" in said, said


# ---- pre-commit ----

def hooks(folder):
    """What pre-commit does for "language: system": the entry with the files of the commit that match. The first that fails, and its output."""
    listed = subprocess.run(["git", "ls-files", "-co"], cwd=folder, capture_output=True, text=True, check=True).stdout.split()
    for repo in load(os.path.join(PIPELINES, "pre-commit-config.yaml"))["repos"]:
        for hook in repo["hooks"]:
            assert hook["language"] == "system"
            files = [path for path in listed if re.search(hook["files"], path)]
            assert files, hook
            status, said = shell(folder, " ".join(map(shlex.quote, shlex.split(hook["entry"]) + files)))
            if status != 0:
                return hook["id"], said
    return None, ""


def test_pre_commit(work):
    repository(work + "/good")
    assert hooks(work + "/good") == (None, "")
    assert hooks(work + "/good") == (None, "")  # its own output of before does not stop it
    repository(work + "/bad", {"quantize": {"min_ratio": 4}})
    hook, said = hooks(work + "/bad")
    assert hook == "vcompress-gates" and "3.662 times smaller" in said and "--min-ratio asks for 4" in said, said
    with open(DIGITS + "/digits.npz", "rb") as whole, open(work + "/bad/models/cut.npz", "wb") as cut:
        cut.write(whole.read()[:100000])
    hook, said = hooks(work + "/bad")
    assert hook == "vcompress-verify" and "cut.npz" in said, said


for name, test in [(name, test) for name, test in list(globals().items()) if name.startswith("test_")]:
    with tempfile.TemporaryDirectory() as folder:
        test(folder)
    print(name, "ok")

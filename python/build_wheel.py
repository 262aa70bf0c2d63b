#!/usr/bin/env python3
"""build_wheel.py BUILD FOLDER MACHINE - makes the wheel in FOLDER from BUILD, where CMake has built vcompress_program and vcompress_call
with -DVCOMPRESS_STATIC_DEPENDENCIES=ON. The same bytes for the same inputs ($SOURCE_DATE_EPOCH).

Also the backend of pyproject.toml: "pip install ./python" builds both first. Standard library only; nothing is fetched."""
import base64
import glob
import hashlib
import os
import platform
import re
import subprocess
import sys
import time
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
NAME = "vcompress_toolkit"
# Debian's packages whose archives are inside.
LINKED = {"zlib": "zlib1g-dev", "jansson": "libjansson-dev", "libdeflate": "libdeflate-dev", "nettle": "nettle-dev"}


def version():
    with open(os.path.join(ROOT, "CMakeLists.txt"), encoding="utf-8") as file:
        return re.search(r"project\(vcompress VERSION ([0-9.]+)", file.read())[1]


def metadata():
    with open(os.path.join(HERE, "README.md"), encoding="utf-8") as file:
        return (f"Metadata-Version: 2.1\nName: {NAME.replace('_', '-')}\nVersion: {version()}\n"
                "Summary: Makes model checkpoints smaller and says what that cost\nLicense: MIT\nRequires-Python: >=3.8\n"
                "Classifier: Operating System :: POSIX :: Linux\nClassifier: Programming Language :: C\n"
                "Description-Content-Type: text/markdown\n\n" + file.read())


def glibc_of(path):
    """The oldest glibc that has all symbols of the program: (2, 34)."""
    text = subprocess.run(["objdump", "-T", path], capture_output=True, text=True, check=True).stdout
    return max(tuple(map(int, v.split("."))) for v in re.findall(r"GLIBC_([0-9]+\.[0-9]+)", text))


def stripped(path, machine):
    strip = "strip" if machine == platform.machine() else machine + "-linux-gnu-strip"
    with open(path, "rb"):  # says which one is missing
        subprocess.run([strip, "-o", path + ".stripped", path], check=True)
    with open(path + ".stripped", "rb") as file:
        return file.read()


def make(build, folder, machine, portable):
    program, library = os.path.join(build, "vcompress"), os.path.join(build, "python", "vcompress_call.so")
    glibc = max(glibc_of(program), glibc_of(library))
    tag = "py3-none-" + ("manylinux_%d_%d_%s" % (*glibc, machine) if portable else "linux_" + machine)
    base = f"{NAME}-{version()}"
    info = base + ".dist-info/"
    files = {f"{base}.data/scripts/vcompress": (stripped(program, machine), 0o755),
             "vcompress/vcompress_call.so": (stripped(library, machine), 0o755)}
    for path in sorted(glob.glob(os.path.join(HERE, "vcompress", "*.py"))) + [os.path.join(HERE, "vcompress", "py.typed")]:
        with open(path, "rb") as file:
            files["vcompress/" + os.path.basename(path)] = (file.read().replace(b"@VERSION@", version().encode()), 0o644)
    with open(os.path.join(ROOT, "LICENSE"), "rb") as file:
        files[info + "licenses/LICENSE"] = (file.read(), 0o644)
    for name, package in LINKED.items():
        path = f"/usr/share/doc/{package}/copyright"
        if portable and os.path.exists(path):
            with open(path, "rb") as file:
                files[info + f"licenses/{name}"] = (file.read(), 0o644)
    files[info + "METADATA"] = (metadata().encode(), 0o644)
    files[info + "WHEEL"] = (f"Wheel-Version: 1.0\nGenerator: vcompress\nRoot-Is-Purelib: false\nTag: {tag}\n".encode(), 0o644)
    record = "".join("%s,sha256=%s,%d\n" % (name, base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("="), len(data))
                     for name, (data, mode) in files.items())
    files[info + "RECORD"] = ((record + info + "RECORD,,\n").encode(), 0o644)
    wheel = f"{base}-{tag}.whl"
    date = time.gmtime(max(315532800, int(os.environ.get("SOURCE_DATE_EPOCH", time.time()))))[:6]  # archives begin in 1980
    with zipfile.ZipFile(os.path.join(folder, wheel), "w", zipfile.ZIP_DEFLATED) as out:
        for name, (data, mode) in files.items():
            entry = zipfile.ZipInfo(name, date)
            entry.create_system, entry.external_attr, entry.compress_type = 3, (0o100000 | mode) << 16, zipfile.ZIP_DEFLATED
            out.writestr(entry, data)
    return wheel


# ---- the backend ----

def get_requires_for_build_wheel(config_settings=None):
    return []


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    build = os.path.join(ROOT, "build", "wheel")
    subprocess.run(["cmake", "-S", ROOT, "-B", build, "-DCMAKE_BUILD_TYPE=Release", "-DVCOMPRESS_TESTS=OFF", "-DVCOMPRESS_CUDA=OFF",
                    "-DVCOMPRESS_MPI=OFF"], check=True)
    subprocess.run(["cmake", "--build", build, "-j", str(len(os.sched_getaffinity(0))), "--target", "vcompress_program", "vcompress_call"], check=True)
    return make(build, wheel_directory, platform.machine(), False)


if __name__ == "__main__":
    print(make(sys.argv[1], sys.argv[2], sys.argv[3], True))

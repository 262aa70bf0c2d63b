# debian_packages.sh - read with "." by quickstart and check: installs Debian packages that are missing.
# shellcheck shell=sh

# apt_get OPTION...: apt-get, as root. A machine that has just started often updates itself, and another apt-get ends at once with
# "Could not get lock /var/lib/...": this one waits for it, 10 minutes at most. Output goes to the end of the file $log.
apt_get() {
    waited=0
    while :; do
        said=$(wc -c <"$log")
        if $as_root env DEBIAN_FRONTEND=noninteractive LC_ALL=C apt-get -qq -o Dpkg::Use-Pty=0 "$@" >>"$log" 2>&1; then
            return 0
        fi
        if [ "$waited" -ge 600 ] || ! tail -c "+$((said + 1))" "$log" | grep -q 'Could not get lock'; then
            return 1
        fi
        if [ "$waited" -eq 0 ]; then
            echo "Another program installs packages; waiting for it." >&2
        fi
        sleep 5
        waited=$((waited + 5))
    done
}

# need_packages PACKAGE...: does nothing, and needs no network, when all are there. `NAME?` is a package that helps but
# may be unknown to this release or architecture. Elsewhere than on Debian it names what to install and goes on.
need_packages() {
    if ! command -v dpkg-query >/dev/null 2>&1 || ! command -v apt-get >/dev/null 2>&1; then
        echo "This is no Debian; the following are needed under the names that your system has for them:" >&2
        echo "  $*" >&2
        return 0
    fi
    missing=""
    optional=""
    for package in "$@"; do
        case $(dpkg-query -W -f '${Status}' "${package%\?}" 2>/dev/null) in
        "install ok installed") ;;
        *)
            case $package in
            *\?) optional="$optional ${package%\?}" ;;
            *) missing="$missing $package" ;;
            esac
            ;;
        esac
    done
    if [ -z "$missing$optional" ]; then
        return 0
    fi
    as_root=""
    if [ "$(id -u)" -ne 0 ]; then
        if ! command -v sudo >/dev/null 2>&1; then
            if [ -n "$missing" ]; then
                echo "Please install, as root: apt-get install$missing$optional" >&2
                return 1
            fi
            return 0
        fi
        as_root="sudo"
    fi
    log=$(mktemp)
    apt_get update || true # the lists at hand may do
    for package in $optional; do
        if apt-cache policy "$package" 2>/dev/null | grep -q 'Candidate: [0-9]'; then
            missing="$missing $package"
        fi
    done
    if [ -n "$missing" ]; then
        echo "Installing Debian packages:$missing"
        # shellcheck disable=SC2086
        if ! apt_get -y install --no-install-recommends $missing; then
            tail -n 20 "$log" >&2
            rm -f "$log"
            echo "These packages could not be installed:$missing" >&2
            return 1
        fi
    fi
    rm -f "$log"
}

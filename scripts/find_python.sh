#!/bin/sh
# Prints the first Python that is 3.11 or newer and can make virtual environments; else says what to install.
for candidate in ${PYTHON:-python3.13 python3.12 python3.11 python3}; do
    if "$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
        command -v "$candidate"
        exit 0
    fi
done
echo "No Python 3.11 or newer with venv was found (tried: ${PYTHON:-python3.13 python3.12 python3.11 python3})." >&2
echo "Install one (on Debian and Ubuntu: apt install python3 python3-venv) or name it: make PYTHON=/path/to/python3" >&2
exit 1

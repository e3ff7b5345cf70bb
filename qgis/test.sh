#!/bin/sh
# Tests of the plugin in the QGIS of this machine: test.sh PYTHON-WITH-MAXENT. What is missing is installed where root
# and apt-get allow it; otherwise the reason is said, and with MAXENT_REQUIRE_ALL=1 that is a failure.
set -eu
MAXENT_PYTHON=$(realpath -s "$1")
export MAXENT_PYTHON
cd "$(dirname "$0")/tests"
skip() {
  echo "tests of the QGIS plugin skipped: $1"
  [ "${MAXENT_REQUIRE_ALL:-0}" = 1 ] && exit 1
  exit 0
}
# QGIS belongs to the system's Python, not to that of an environment
python=""
for each in /usr/bin/python3 python3; do
  if "$each" -c "import qgis.core" 2>/dev/null; then python=$each; break; fi
done
if [ -z "$python" ]; then
  command -v apt-get >/dev/null || skip "there is no QGIS, and no apt-get to install it with"
  [ "$(id -u)" = 0 ] || skip "there is no QGIS, and only root can install it (apt-get install qgis python3-qgis)"
  exec 9>/tmp/maxent-apt-get.lock && flock 9 # tests of R may be installing beside us
  apt-get update -qq && apt-get install -y -qq --no-install-recommends qgis qgis-providers python3-qgis >/dev/null
  flock -u 9
  python=/usr/bin/python3
fi
QT_QPA_PLATFORM=offscreen
export QT_QPA_PLATFORM
exec "$python" -W ignore::DeprecationWarning -m unittest -v test_command test_processing

#!/usr/bin/env bash
# The R package: its Rd files are those of its comments, R CMD build and check pass without a warning, and the R code of
# docs/coming_from/r.md runs. Installs what is missing where it may, and says why it does nothing elsewhere.
set -euo pipefail
cd "$(dirname "$0")/.."
packages="r-base-core r-cran-codetools r-cran-reticulate r-cran-terra r-cran-sf r-cran-testthat r-cran-ggplot2
  r-cran-knitr r-cran-rmarkdown pandoc"
lacking=""
for package in $packages; do
  dpkg -s "$package" >/dev/null 2>&1 || lacking="$lacking $package"
done
if [ -n "$lacking" ] && command -v apt-get >/dev/null && [ "$(id -u)" = 0 ]; then
  # one at a time: tests of QGIS may be installing beside us
  exec 9>/tmp/maxent-apt-get.lock && flock 9
  # shellcheck disable=SC2086
  { apt-get update -qq && apt-get install -y -qq --no-install-recommends $lacking >/dev/null; } || true
  flock -u 9
fi
if ! Rscript -e 'for (p in c("reticulate", "terra", "sf", "testthat", "knitr", "rmarkdown")) loadNamespace(p)' \
  >/dev/null 2>&1; then
  echo "test-r: skipped, R or its packages are not there (apt-get install$lacking)"
  [ "${MAXENT_REQUIRE_ALL:-0}" = 0 ] || exit 1
  exit 0
fi
root="$PWD"
place="$(mktemp -d)"
trap 'rm -rf "$place"' EXIT
export MAXENT_PAGE="$root/docs/coming_from/r.md" MAXENT_REQUIRE_ALL=1 _R_CHECK_FORCE_SUGGESTS_=false
cd "$place"
R CMD build "$root/r"
R CMD check --no-manual --no-build-vignettes maxentpy_*.tar.gz || { cat maxentpy.Rcheck/tests/*.fail 2>/dev/null; exit 1; }
# the vignette was built above; notes are allowed: the first release has one, and a machine without codetools another
if grep -E "^\* checking .* (WARNING|ERROR)$" maxentpy.Rcheck/00check.log; then exit 1; fi

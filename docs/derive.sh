#!/usr/bin/env bash
# Write anew all that follows from the notebooks: page numbers and links, the lists of pages, the package, clean outputs, and what `--help` shows.
set -euo pipefail
cd "$(dirname "$0")/.."
python docs/number.py
python docs/map.py
nbdev_export
nbdev_clean
python docs/help.py
